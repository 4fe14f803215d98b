/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BurstGPT: CSV files of requests.  Columns are found by their names in the header; rows that
 * cannot be used are counted and left out, as the benchmark does.
 */
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/digits.h"
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

static bool get_request(struct trace_request *out, const struct table *t, char *row, size_t len)
{
	struct csv_field f[CSV_FIELDS];
	int nr = csv_split(row, len, ',', f);

	*out = (struct trace_request){.time_sec = 0};
	for (int i = REQUEST; i < COLUMNS; i++)
		if (t->at[i] < 0 || t->at[i] >= nr)
			return false;
	if (t->at[TIME] >= nr || (t->at[TIME] >= 0 && !get_seconds(&out->time_sec, f[t->at[TIME]])))
		return false;
	return get_tokens(&out->context, f[t->at[REQUEST]]) &&
	       get_tokens(&out->generate, f[t->at[RESPONSE]]);
}

static int load_rows(struct request_list *l, struct source *s, uint64_t *skipped,
		     struct sluice_err *err)
{
	struct table t = {.names = names, .nr_names = COLUMNS};
	struct trace_request req;
	char *row;
	size_t len;
	uint64_t line;
	int r;

	while ((r = csv_row(s, ',', &row, &len, &line, err)) != 0) {
		if (r < 0 && r != -E2BIG)
			return r;
		if (r == 1 && !len) /* as Python's csv module */
			continue;
		if (r == 1 && !t.nr) {
			struct csv_field f[CSV_FIELDS];

			table_columns(&t, f, csv_split(row, len, ',', f));
			continue;
		}
		if (r < 0 || !get_request(&req, &t, row, len))
			++*skipped;
		else if (request_add(l, &req, 0) < 0)
			return sluice_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int load_file(struct request_list *l, const char *path, uint64_t *skipped,
		     struct sluice_err *err)
{
	struct source s;
	int r = source_open(&s, path, err);

	if (r < 0)
		return r;
	r = load_rows(l, &s, skipped, err);
	*skipped += s.torn;
	source_close(&s);
	return r;
}

/* What glob(3) makes of it, sorted. */
static int load_pattern(struct request_list *l, const char *pattern, const char *path,
			uint64_t *skipped, struct sluice_err *err)
{
	struct sluice_short room;
	glob_t g;
	int r = glob(pattern, 0, NULL, &g);

	if (r == GLOB_NOMATCH)
		return sluice_fail(err, -ENOENT, "%s: no CSV file there",
				   sluice_shorten(&room, path));
	if (r)
		return sluice_fail(err, r == GLOB_NOSPACE ? -ENOMEM : -EIO,
				   "%s: cannot be searched", sluice_shorten(&room, path));
	for (size_t i = 0; i < g.gl_pathc && r == 0; i++)
		r = load_file(l, g.gl_pathv[i], skipped, err);
	globfree(&g);
	return r;
}

/* A folder's name may have characters that mean something to glob(3). */
static int load_folder(struct request_list *l, const char *path, uint64_t *skipped,
		       struct sluice_err *err)
{
	CLEANUP_FREE char *pattern = malloc(2 * strlen(path) + sizeof("/*.csv"));
	char *to = pattern;

	if (!pattern)
		return sluice_fail(err, -ENOMEM, "out of memory");
	for (const char *p = path; *p; p++) {
		if (strchr("*?[\\", *p))
			*to++ = '\\';
		*to++ = *p;
	}
	strcpy(to, "/*.csv");
	return load_pattern(l, pattern, path, skipped, err);
}

int trace_burst_load(struct trace_request **out, size_t *nr, const char *path, uint64_t *skipped,
		     struct sluice_err *err)
{
	struct request_list l = {.nr = 0};
	uint64_t bad = 0;
	struct stat st;
	int r;

	if (stat(path, &st) == 0)
		r = S_ISDIR(st.st_mode) ? load_folder(&l, path, &bad, err)
					: load_file(&l, path, &bad, err);
	else if (strpbrk(path, "*?"))
		r = load_pattern(&l, path, path, &bad, err);
	else
		r = load_file(&l, path, &bad, err); /* which says why not */
	if (r == 0 && request_finish(&l, out, nr) < 0)
		r = sluice_fail(err, -ENOMEM, "out of memory");
	request_list_fini(&l);
	if (r == 0 && skipped)
		*skipped = bad;
	return r;
}
