/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BurstGPT: CSV files of requests.  Columns are found by their names in the header; rows that
 * cannot be used are counted and left out, as the benchmark does, and the first are told.
 */
#include "load/trace/burst.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/reader.h"
#include "load/trace/requests.h"
#include "load/trace/table.h"

enum { TIME, REQUEST, RESPONSE, COLUMNS };
static const char *const names[COLUMNS] = {"Timestamp", "Request tokens", "Response tokens"};

static struct csv_field trimmed(struct csv_field f)
{
	while (f.len && (f.at[0] == ' ' || f.at[0] == '\t')) {
		f.at++;
		f.len--;
	}
	while (f.len && (f.at[f.len - 1] == ' ' || f.at[f.len - 1] == '\t'))
		f.len--;
	return f;
}

static bool get_tokens(uint32_t *out, struct csv_field f)
{
	uint64_t v;

	f = trimmed(f);
	if (!get_u64(&v, f.at, f.len) || v > UINT32_MAX)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool get_seconds(double *out, struct csv_field f)
{
	char text[64], *end;

	f = trimmed(f);
	if (!f.len || f.len >= sizeof(text))
		return false;
	memcpy(text, f.at, f.len);
	text[f.len] = '\0';
	*out = strtod(text, &end);
	return end == text + f.len && isfinite(*out);
}

static bool burst_get_field(struct trace_request *out, int column, struct csv_field f)
{
	switch (column) {
	case TIME:
		return get_seconds(&out->time_sec, f);
	case REQUEST:
		return get_tokens(&out->context, f);
	default:
		return get_tokens(&out->generate, f);
	}
}

struct trace_burst {
	struct burst_files files;
	size_t next; /* file that comes when this one has ended */
	bool open;
	struct source s;
	struct table t;
	struct request_origin at;
	struct trace_bad *bad, unseen;
};

/* Says what is missing; rows are bad then. */
static int read_header(struct trace_burst *b, char *row, size_t len, uint64_t line,
		       struct penstock_err *err)
{
	struct csv_field f[CSV_FIELDS];

	table_columns(&b->t, f, csv_split(row, len, ',', f));
	for (int i = REQUEST; i < COLUMNS; i++)
		if (b->t.at[i] < 0)
			return request_bad(b->bad, &b->at, line, err,
					   "is not the header of BurstGPT: there is no column '%s'",
					   names[i]);
	return 0;
}

/* 1, or what request_bad() gives. */
static int read_row(struct trace_burst *b, struct trace_request *ret, char *row, size_t len,
		    uint64_t line, struct penstock_err *err)
{
	struct csv_field f[CSV_FIELDS];
	int nr = csv_split(row, len, ',', f);

	*ret = (struct trace_request){.time_sec = 0};
	if (nr < 0)
		return request_bad(b->bad, &b->at, line, err, CSV_BAD_QUOTES);
	for (int i = 0; i < COLUMNS; i++) {
		int at = b->t.at[i];

		if (at < 0 && i == TIME)
			continue;
		if (at < 0 || at >= nr)
			return request_bad(b->bad, &b->at, line, err, "has no '%s'", names[i]);
		if (!burst_get_field(ret, i, f[at]))
			return request_bad(b->bad, &b->at, line, err, "%s '%.*s' is not valid",
					   names[i], READER_SHOW(f[at]));
	}
	return 1;
}

/* The next of this file: as trace_burst_next(). */
static int next_of_file(struct trace_burst *b, struct trace_request *ret, struct penstock_err *err)
{
	uint64_t line;
	size_t len;
	char *row;
	int r;

	while ((r = csv_row(&b->s, ',', &row, &len, &line, err)) != 0) {
		if (r == -E2BIG)
			r = request_bad(b->bad, &b->at, line, err, "is longer than %u bytes",
					SOURCE_BYTES);
		else if (r == 1 && !len) /* no empty ones, as Python's csv module */
			r = 0;
		else if (r == 1)
			r = b->t.nr ? read_row(b, ret, row, len, line, err)
				    : read_header(b, row, len, line, err);
		if (r != 0)
			return r;
	}
	return b->s.torn ? request_bad(b->bad, &b->at, b->s.line + 1, err, SOURCE_TORN) : 0;
}

static void close_file(struct trace_burst *b)
{
	if (b->open)
		source_close(&b->s);
	b->open = false;
}

static int burst_open_file(struct trace_burst *b, struct penstock_err *err)
{
	int r;

	b->at.path = burst_files_name(&b->files, b->next);
	b->t = (struct table){.names = names, .nr_names = COLUMNS};
	r = source_open(&b->s, b->at.path, err);
	b->open = r == 0;
	b->next++;
	return r;
}

int trace_burst_next(struct trace_burst *b, struct trace_request *ret, struct penstock_err *err)
{
	int r = 0;

	while (r == 0) {
		if (!b->open && b->next == burst_files_nr(&b->files))
			return 0;
		if (!b->open)
			r = burst_open_file(b, err);
		if (r == 0)
			r = next_of_file(b, ret, err);
		if (r == 0)
			close_file(b);
	}
	return r;
}

void trace_burst_rewind(struct trace_burst *b)
{
	close_file(b);
	b->next = 0;
}

bool trace_burst_can_rewind(const struct trace_burst *b)
{
	struct stat st;

	for (size_t i = 0; i < burst_files_nr(&b->files); i++) {
		const char *name = burst_files_name(&b->files, i);

		if (!strcmp(name, "-") || stat(name, &st) < 0 || !S_ISREG(st.st_mode))
			return false;
	}
	return true;
}

int trace_burst_open(struct trace_burst **out, const char *path, struct trace_bad *bad,
		     struct penstock_err *err)
{
	CLEANUP_FREE struct trace_burst *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = burst_files_find(&b->files, path, err);
	if (r < 0)
		return r;
	b->at = (struct request_origin){.unit = "line", .named = !b->files.one};
	b->bad = bad ? bad : &b->unseen;
	*out = TAKE_PTR(b);
	return 0;
}

void trace_burst_close(struct trace_burst *b)
{
	if (!b)
		return;
	close_file(b);
	burst_files_fini(&b->files);
	free(b);
}

int trace_burst_load(struct trace_request **out, size_t *nr, const char *path,
		     struct trace_bad *bad, struct penstock_err *err)
{
	struct request_list list = {.v = NULL};
	struct trace_request req;
	struct trace_burst *b;
	int r = trace_burst_open(&b, path, bad, err);

	if (r < 0)
		return r;
	while ((r = trace_burst_next(b, &req, err)) == 1)
		if (request_add(&list, &req, 0) < 0)
			break;
	if (r == 1 || (r == 0 && request_finish(&list, out, nr) < 0))
		r = penstock_fail(err, -ENOMEM, "out of memory");
	request_list_fini(&list);
	trace_burst_close(b);
	return r;
}
