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
#include <unistd.h>

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

static int load_pattern(struct request_list *l, const char *pattern, const char *path,
			uint64_t *skipped, struct sluice_err *err)
{
	glob_t g;
	int r = search(&g, pattern, path, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < g.gl_pathc && r == 0; i++)
		r = load_file(l, g.gl_pathv[i], skipped, err);
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

int trace_burst_load(struct trace_request **out, size_t *nr, const char *path, uint64_t *skipped,
		     struct sluice_err *err)
{
	struct request_list l = {.nr = 0};
	CLEANUP_FREE char *pattern = NULL;
	uint64_t bad = 0;
	int r = pattern_of(&pattern, path, err);

	if (r == 0)
		r = pattern ? load_pattern(&l, pattern, path, &bad, err)
			    : load_file(&l, path, &bad, err); /* which says why not */
	if (r == 0 && request_finish(&l, out, nr) < 0)
		r = sluice_fail(err, -ENOMEM, "out of memory");
	request_list_fini(&l);
	if (r == 0 && skipped)
		*skipped = bad;
	return r;
}
