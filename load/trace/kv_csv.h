/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_TRACE_KV_CSV_H
#define SLUICE_TRACE_KV_CSV_H

/* The columns of kv traces, for reader and writer. */

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

#endif
