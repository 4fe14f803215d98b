/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_FORMATS_H
#define PENSTOCK_TRACE_FORMATS_H

/* What reader and writer of a format share. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The columns of kv traces. */
enum kv_column_nr {
	KV_COL_TIME,
	KV_COL_OP,
	KV_COL_SIZE,
	KV_COL_TIER,
	KV_FOUR, /* those of the oldest traces */
	KV_COL_KEY = KV_FOUR,
	KV_COL_PHASE,
	KV_SIX,
	KV_COL_REQUEST = KV_SIX,
	KV_COL_USER,
	KV_COL_OFFSET,
	KV_COL_DURATION,
	KV_COL_THREAD,
	KV_COL_FAILED,
	KV_COL_QOS, /* a word, and the last: a torn row does not look like a whole one */
	KV_COLUMNS,
};

extern const char *const trace_kv_columns[KV_COLUMNS];
/* TRACE_COL_* of a column behind the six. */
#define KV_COLUMN_BIT(column) (1u << ((column)-KV_SIX))

#define KV_QOS_WORDS 3
extern const char *const trace_qos_words[KV_QOS_WORDS]; /* by number */

/* The columns of operation logs. */
enum oplog_column {
	OPLOG_IDX,
	OPLOG_THREAD,
	OPLOG_OP,
	OPLOG_CLIENT,
	OPLOG_OBJECTS,
	OPLOG_BYTES,
	OPLOG_ENDPOINT,
	OPLOG_FILE,
	OPLOG_ERROR,
	OPLOG_START,
	OPLOG_FIRST_BYTE,
	OPLOG_END,
	OPLOG_DURATION,
	OPLOG_COLUMNS,
};
extern const char *const trace_oplog_columns[OPLOG_COLUMNS];

/* The hash id of a key; false when the key is not a number and had to be hashed. */
bool mooncake_id(uint64_t *out, const char *key, size_t len);

/* A list of ids that grows.  Zeroed is empty. */
struct id_list {
	uint64_t *v;
	size_t nr, capacity;
};
/* 0 or -ENOMEM. */
int id_list_add(struct id_list *l, uint64_t id);

#define FIO_NAME_MAX 255 /* bytes of a file's name in an iolog */

/* Can it be the name of a file in an iolog: not too long, without blanks? */
bool fio_name_fits(const char *key, size_t len);

#endif
