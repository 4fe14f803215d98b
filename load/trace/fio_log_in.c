/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fio's iolog, versions 2 and 3.  A row is a read, a write or a trim (Delete, of a range); lines
 * about opening, closing and syncing files are passed over.  Times are microseconds since the
 * beginning: in front of each line (3), or the sum of all waits so far (2).
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/table.h"

struct fio_in {
	unsigned version;
	uint64_t now_us; /* of version 2 */
};

enum { WORDS = 5 };

/* Words with blanks between them; returns how many, of which WORDS are kept. */
static int words_of(char *line, size_t len, struct csv_field w[WORDS])
{
	char *p = line, *end = line + len;
	int n = 0;

	for (;;) {
		char *from;

		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (p == end)
			return n;
		for (from = p; p < end && *p != ' ' && *p != '\t'; p++)
			;
		if (n < WORDS)
			w[n] = (struct csv_field){from, (size_t)(p - from)};
		n++;
	}
}

static bool is_other(struct csv_field f)
{
	static const char *const others[] = {"add", "open", "close", "sync", "datasync"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (field_is(f, others[i]))
			return true;
	return false;
}

/* Version 2: the time passes. */
static int wait_line(struct trace_reader *r, struct csv_field us)
{
	struct fio_in *f = r->state;
	uint64_t v;

	if (!get_u64(&v, us.at, us.len) || __builtin_add_overflow(f->now_us, v, &v))
		return reader_bad(r, r->s.line, "'%.*s' is not a number of microseconds",
				  READER_SHOW(us));
	f->now_us = v;
	return 0;
}

/* name, action, offset, length.  1: a row; 0: none, and that is fine. */
static int action(struct trace_reader *r, struct trace_row *row, const struct csv_field *w, int n)
{
	static const char *const ops[] = {"read", "write", "trim"};
	const struct fio_in *f = r->state;

	if (n >= 3 && field_is(w[1], "wait") && f->version == 2)
		return wait_line(r, w[2]);
	if (n >= 2 && is_other(w[1]))
		return 0;
	for (unsigned i = 0; i < TRACE_STAT && n >= 2; i++) {
		if (!field_is(w[1], ops[i]))
			continue;
		if (n != 4 || !get_u64(&row->offset, w[2].at, w[2].len) ||
		    !get_u64(&row->size, w[3].at, w[3].len))
			return reader_bad(r, r->s.line, "no offset and length behind '%s'", ops[i]);
		row->op = (uint8_t)i;
		row->key = w[0].at;
		row->key_len = (uint32_t)w[0].len;
		return w[0].len <= TRACE_KEY_MAX
			       ? 1
			       : reader_bad(r, r->s.line, "the name has %zu bytes", w[0].len);
	}
	if (n < 2)
		return reader_bad(r, r->s.line, "no action");
	return reader_bad(r, r->s.line, "unknown action '%.*s'", READER_SHOW(w[1]));
}

static int one_line(struct trace_reader *r, struct trace_row *row, char *line, size_t len)
{
	const struct fio_in *f = r->state;
	struct csv_field w[WORDS];
	int n = words_of(line, len, w), stamp = f->version == 3;
	uint64_t us = 0;
	int ret;

	if (!n)
		return 0;
	*row = TRACE_ROW_INIT;
	if (stamp && !get_u64(&us, w[0].at, w[0].len))
		return reader_bad(r, r->s.line, "'%.*s' is not a time", READER_SHOW(w[0]));
	if (n - stamp > 4)
		return reader_bad(r, r->s.line, "%d words, which is too many", n);
	ret = action(r, row, w + stamp, n - stamp);
	if (ret == 1 && __builtin_mul_overflow(stamp ? us : f->now_us, 1000u, &row->time_ns))
		return reader_bad(r, r->s.line, "the time is too large");
	return ret;
}

static int fio_in_next(struct trace_reader *r, struct trace_row *row, struct penstock_err *err)
{
	char *line;
	size_t len;
	int n;

	while ((n = source_line(&r->s, &line, &len, err)) == 1) {
		r->row_line = r->s.line;
		n = one_line(r, row, line, len);
		if (n != 0)
			return n;
	}
	return n;
}

static int fio_in_begin(struct trace_reader *r, struct penstock_err *err)
{
	struct fio_in *f = r->state;
	struct penstock_short_name short_name;
	char *line;
	size_t len;
	int n = source_line(&r->s, &line, &len, err);

	if (n < 0 && n != -E2BIG)
		return n;
	for (unsigned v = 2; v <= 3 && n == 1; v++) {
		const char *head = v == 2 ? "fio version 2 iolog" : "fio version 3 iolog";

		if (len >= strlen(head) && !memcmp(line, head, strlen(head)))
			f->version = v;
	}
	return f->version
		       ? 0
		       : penstock_fail(err, -EINVAL,
				       "%s: line 1: is not 'fio version 2 iolog' or 'fio version 3 "
				       "iolog'",
				       penstock_shorten_name(&short_name, source_path(&r->s)));
}

const struct trace_input trace_fio_input = {
	.state_size = sizeof(struct fio_in),
	.columns = TRACE_COL_OFFSET,
	.begin = fio_in_begin,
	.next = fio_in_next,
};
