/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_TRACE_KIT_H
#define PENSTOCK_TESTS_TRACE_KIT_H

/* A trace from a text, row by row: what the tests of readers share. */
#include <zstd.h>

#include "load/trace/trace.h"
#include "tests/common/t.h"

#define SIX "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"

static struct trace_reader *reader;
static struct trace_row row;
static struct penstock_err err;
static struct trace_reader_opts opts;

static inline void make_bytes(const char *name, const void *bytes, size_t len)
{
	FILE *f = fopen(t_path(name), "we");

	T_OK(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static inline void forget(void)
{
	trace_reader_close(reader);
	reader = NULL;
	opts = (struct trace_reader_opts){.bytes_per_token = 10};
}

static inline int open_bytes(const void *bytes, size_t len)
{
	trace_reader_close(reader);
	reader = NULL;
	make_bytes("in", bytes, len);
	return trace_reader_open(&reader, t_path("in"), &opts, &err);
}

static inline void open_text(const char *text)
{
	T_ERR(open_bytes(text, strlen(text)), 0, &err);
}

static inline int next(void)
{
	memset(&row, 0x5a, sizeof(row)); /* a reader sets all of it */
	return trace_read(reader, &row, &err);
}

#define NEXT() T_ERR(next(), 1, &err)
#define END()                           \
	do {                            \
		T_ERR(next(), 0, &err); \
		T_ERR(next(), 0, &err); \
	} while (0)

static inline bool key_is(const char *key)
{
	return row.key_len == strlen(key) && !memcmp(row.key, key, row.key_len);
}

/* How many rows follow, and how many that are none. */
static inline uint64_t rest(uint64_t *bad)
{
	uint64_t n = 0;
	int r;

	while ((r = next()) == 1)
		n++;
	T_ERR(r, 0, &err);
	*bad = trace_reader_bad(reader)->nr;
	return n;
}

static inline size_t pack(char *to, size_t room, const char *text, size_t len)
{
	size_t n = ZSTD_compress(to, room, text, len, 1);

	T_OK(!ZSTD_isError(n));
	return n;
}

#endif
