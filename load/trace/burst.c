/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BurstGPT: CSV files of requests.  Columns are found by their names in the header; rows that
 * cannot be used are counted and left out, as the benchmark does, and the first is told.
 */
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static bool get_field(struct trace_request *out, int column, struct csv_field f)
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

struct loader {
	struct request_list list;
	struct trace_bad *bad;
	struct request_place at;
	struct table t;
	struct sluice_err *err;
};

/* Says what is missing; rows are bad then. */
static int load_header(struct loader *l, char *row, size_t len, uint64_t line)
{
	struct csv_field f[CSV_FIELDS];

	table_columns(&l->t, f, csv_split(row, len, ',', f));
	for (int i = REQUEST; i < COLUMNS; i++)
		if (l->t.at[i] < 0)
			return request_bad(l->bad, &l->at, line, l->err,
					   "is not the header of BurstGPT: there is no column '%s'",
					   names[i]);
	return 0;
}

static int load_row(struct loader *l, char *row, size_t len, uint64_t line)
{
	struct trace_request req = {.time_sec = 0};
	struct csv_field f[CSV_FIELDS];
	int nr = csv_split(row, len, ',', f);

	if (nr < 0)
		return request_bad(l->bad, &l->at, line, l->err, CSV_BAD_QUOTES);
	for (int i = 0; i < COLUMNS; i++) {
		int at = l->t.at[i];

		if (at < 0 && i == TIME)
			continue;
		if (at < 0 || at >= nr)
			return request_bad(l->bad, &l->at, line, l->err, "has no '%s'", names[i]);
		if (!get_field(&req, i, f[at]))
			return request_bad(l->bad, &l->at, line, l->err, "%s '%.*s' is not valid",
					   names[i], READER_SHOW(f[at]));
	}
	return request_add(&l->list, &req, 0) < 0 ? sluice_fail(l->err, -ENOMEM, "out of memory")
						  : 0;
}

static int load_rows(struct loader *l, struct source *s)
{
	uint64_t line;
	size_t len;
	char *row;
	int r;

	l->t = (struct table){.names = names, .nr_names = COLUMNS};
	while ((r = csv_row(s, ',', &row, &len, &line, l->err)) != 0) {
		if (r == -E2BIG)
			r = request_bad(l->bad, &l->at, line, l->err, "is longer than %u bytes",
					SOURCE_BYTES);
		else if (r == 1 && len) /* no empty ones, as Python's csv module */
			r = l->t.nr ? load_row(l, row, len, line) : load_header(l, row, len, line);
		if (r < 0)
			return r;
	}
	return s->torn ? request_bad(l->bad, &l->at, s->line + 1, l->err, SOURCE_TORN) : 0;
}

static int load_file(struct loader *l, const char *path)
{
	struct source s;
	int r = source_open(&s, path, l->err);

	if (r < 0)
		return r;
	l->at.path = path;
	r = load_rows(l, &s);
	source_close(&s);
	return r;
}

/* A folder's name may have characters that mean something to glob(3). */
static char *folder_pattern(const char *path)
{
	char *pattern = malloc(2 * strlen(path) + sizeof("/*.csv")), *to = pattern;

	if (!pattern)
		return NULL;
	for (const char *p = path; *p; p++) {
		if (strchr("*?[\\", *p))
			*to++ = '\\';
		*to++ = *p;
	}
	strcpy(to, "/*.csv");
	return pattern;
}

/* What has to be searched for with glob(3), or NULL: a single file. */
static int pattern_of(char **out, const char *path, struct sluice_err *err)
{
	struct stat st;
	bool there = stat(path, &st) == 0;

	*out = NULL;
	if (there ? !S_ISDIR(st.st_mode) : !strpbrk(path, "*?"))
		return 0;
	*out = there ? folder_pattern(path) : strdup(path);
	return *out ? 0 : sluice_fail(err, -ENOMEM, "out of memory");
}

/* Sorted; globfree() is due when it returns 0. */
static int search(glob_t *g, const char *pattern, const char *path, struct sluice_err *err)
{
	struct sluice_short room;
	int r = glob(pattern, 0, NULL, g);

	if (r == GLOB_NOMATCH)
		return sluice_fail(err, -ENOENT, "%s: no CSV file there",
				   sluice_shorten(&room, path));
	if (r)
		return sluice_fail(err, r == GLOB_NOSPACE ? -ENOMEM : -EIO,
				   "%s: cannot be searched", sluice_shorten(&room, path));
	return 0;
}

static int load_pattern(struct loader *l, const char *pattern, const char *path)
{
	glob_t g;
	int r = search(&g, pattern, path, l->err);

	if (r < 0)
		return r;
	l->at.named = true;
	for (size_t i = 0; i < g.gl_pathc && r == 0; i++)
		r = load_file(l, g.gl_pathv[i]);
	globfree(&g);
	return r;
}

int trace_burst_find(const char *path, struct sluice_err *err)
{
	CLEANUP_FREE char *pattern = NULL;
	struct sluice_short room;
	glob_t g;
	int r = pattern_of(&pattern, path, err);

	if (r == 0 && pattern) {
		r = search(&g, pattern, path, err);
		if (r == 0)
			globfree(&g);
	} else if (r == 0 && access(path, R_OK) < 0) {
		r = sluice_fail(err, -errno, "%s: %s", sluice_shorten(&room, path),
				strerror(errno));
	}
	return r;
}

int trace_burst_load(struct trace_request **out, size_t *nr, const char *path,
		     struct trace_bad *bad, struct sluice_err *err)
{
	struct trace_bad unseen = {.nr = 0};
	struct loader l = {.bad = bad ? bad : &unseen, .at = {.unit = "line"}, .err = err};
	CLEANUP_FREE char *pattern = NULL;
	int r = pattern_of(&pattern, path, err);

	if (r == 0)
		r = pattern ? load_pattern(&l, pattern, path)
			    : load_file(&l, path); /* which says why not */
	if (r == 0 && request_finish(&l.list, out, nr) < 0)
		r = sluice_fail(err, -ENOMEM, "out of memory");
	request_list_fini(&l.list);
	return r;
}
