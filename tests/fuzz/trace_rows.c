/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: traces of operations, whatever their format, compressed or not.  The first byte
 * picks the format (0: by content) and whether bad rows end it; the rest is the file.  What is
 * read is written as an extended kv trace, which must read as the same rows.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load/trace/trace.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_ROWS = 2000 };

struct kept {
	struct trace_row row;
	char *key;
};

/* A file in memory, and its name. */
static int memory_file(char path[64])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void check_row(const struct trace_row *row)
{
	FUZZ_CHECK(row->op < TRACE_OPS);
	FUZZ_CHECK(row->phase < TRACE_PHASES);
	FUZZ_CHECK(row->tier < TRACE_TIERS || row->tier == TRACE_NO_TIER);
	FUZZ_CHECK(row->key_len <= TRACE_KEY_MAX);
	FUZZ_CHECK(row->request >= -1 && row->user >= -1 && row->thread >= -1);
	FUZZ_CHECK(row->qos >= -1 && row->qos < 3);
}

static size_t read_rows(struct kept *v, const char *path, const struct trace_reader_opts *o)
{
	struct penstock_err err = {0, ""};
	struct trace_reader *r;
	struct trace_row row;
	uint64_t line = 0;
	size_t n = 0;
	int got = trace_reader_open(&r, path, o, &err);

	if (got < 0) {
		FUZZ_CHECK(err.msg[0] && err.code == got);
		return 0;
	}
	while ((got = trace_read(r, &row, &err)) == 1) {
		check_row(&row);
		FUZZ_CHECK(trace_reader_line(r) >= line);
		line = trace_reader_line(r);
		if (n == MAX_ROWS)
			break;
		v[n].row = row;
		v[n].key = malloc(row.key_len + 1u);
		FUZZ_CHECK(v[n].key);
		if (row.key_len)
			memcpy(v[n].key, row.key, row.key_len);
		v[n++].row.key = NULL;
	}
	FUZZ_CHECK(got == 1 || got == 0 || (err.msg[0] && err.code == got));
	FUZZ_CHECK(got != -EBADMSG || o->strict);
	trace_reader_close(r);
	return n;
}

static void write_rows(const struct kept *v, size_t nr, const char *path)
{
	const struct trace_writer_opts o = {.extended = true, .columns = 127};
	struct penstock_err err;
	struct trace_writer *w;

	FUZZ_CHECK(trace_writer_open(&w, path, &o, &err) == 0);
	for (size_t i = 0; i < nr; i++) {
		struct trace_row row = v[i].row;

		row.key = v[i].key;
		FUZZ_CHECK(trace_write(w, &row, &err) == 0);
	}
	FUZZ_CHECK(trace_writer_close(w, &err) == 0);
}

static void check_same(const struct kept *a, const struct kept *b)
{
	struct trace_row row = a->row;

	row.time_ns -= row.time_ns % 1000;
	FUZZ_CHECK(row.key_len == b->row.key_len && !memcmp(a->key, b->key, row.key_len));
	FUZZ_CHECK(row.time_ns == b->row.time_ns && row.size == b->row.size);
	FUZZ_CHECK(row.offset == b->row.offset && row.op == b->row.op);
	FUZZ_CHECK(row.phase == b->row.phase && row.tier == b->row.tier);
	FUZZ_CHECK(row.request == b->row.request && row.user == b->row.user);
	FUZZ_CHECK(row.qos == b->row.qos && row.thread == b->row.thread);
	FUZZ_CHECK(row.duration_ns == b->row.duration_ns && row.failed == b->row.failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kept first[MAX_ROWS], second[MAX_ROWS];
	struct trace_reader_opts o = {.bytes_per_token = 3};
	char path[64], back[64];
	size_t n, again;
	int in, out;

	if (!size)
		return 0;
	o.format = (enum trace_format)((data[0] & 15) % TRACE_FORMATS);
	o.strict = data[0] & 16;
	o.raw = data[0] & 32;
	in = memory_file(path);
	out = memory_file(back);
	FUZZ_CHECK(write(in, data + 1, size - 1) == (ssize_t)(size - 1));
	n = read_rows(first, path, &o);
	write_rows(first, n, back);
	again = read_rows(second, back, &(struct trace_reader_opts){.strict = true});
	FUZZ_CHECK(again == n);
	for (size_t i = 0; i < n; i++) {
		check_same(&first[i], &second[i]);
		free(first[i].key);
		free(second[i].key);
	}
	close(in);
	close(out);
	return 0;
}
