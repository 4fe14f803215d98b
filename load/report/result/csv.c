/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of a result, a line per series, for CSV files and spreadsheets: what it is and how it
 * was done, the series as a whole, single operations.  All are members of the JSON, which is so of
 * one process and of several alike.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "load/report/result/cells.h"
#include "load/report/result/result.h"
#include "load/stat/stat.h"

static const struct column {
	const char *name;
	const char *path; /* NULL: the same */
	bool text;
} columns[] = {
	{"name", NULL, true},
	{"kind", NULL, true},
	{"size", NULL, false},
	{"engine", "ran.engine", true},
	{"direct", "ran.direct", true},
	{"block_size", "ran.block_size", false},
	{"queue_depth", "ran.queue_depth", false},
	{"io_parallel", "ran.io_parallel", false},
	{"single_submit", "settings.single_submit", false},
	{"sequential_requests", "settings.sequential_requests", false},
	{"memory", "settings.memory", true},
	{"cache", NULL, true},
	{"partial", NULL, false},
	{"ops", NULL, false},
	{"errors", NULL, false},
	{"bytes", NULL, false},
	{"bytes_written", NULL, false},
	{"sec", NULL, false},
	{"bytes_per_sec", NULL, false},
	{"limit_bytes_per_sec", "limit.bytes_per_sec", false},
	{"limit_share", "limit.share", false},
	{"cpu_user_sec", "cpu.user_sec", false},
	{"cpu_system_sec", "cpu.system_sec", false},
	{"cpu_sec_per_gib", "cpu.sec_per_gib", false},
	{"bimodal", "distribution.bimodal", false},
};

/* The member at "a.b" of @j, or NULL. */
static const json_t *member(const json_t *j, const char *path)
{
	const char *dot = strchr(path, '.');
	char first[32];

	if (!dot)
		return json_object_get(j, path);
	snprintf(first, sizeof(first), "%.*s", (int)(dot - path), path);
	return json_object_get(json_object_get(j, first), dot + 1);
}

/* What is no number is not known, and empty; of a switch 0 or 1. */
static double csv_value(const json_t *j)
{
	return json_is_number(j)    ? json_number_value(j)
	       : json_is_boolean(j) ? (double)json_is_true(j)
				    : NAN;
}

/* Statistics of latency or bandwidth, or as many empty cells. */
static struct cell *stats_cells(struct cell *c, const json_t *series, const char *what)
{
	static const char *const names[] = {"mean",      "median", "stddev", "ci95_low",
					    "ci95_high", "min",    "max"};
	const json_t *of = json_object_get(series, what), *ci = json_object_get(of, "ci95"),
		     *levels = json_object_get(of, "percentiles");
	char name[48];

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		bool bound = !strncmp(names[i], "ci95", 4);

		snprintf(name, sizeof(name), "%s_%s", what, names[i]);
		*c++ = cell_number(
			name, csv_value(bound ? json_array_get(ci, !strcmp(names[i], "ci95_high"))
					      : json_object_get(of, names[i])));
	}
	for (unsigned i = 0; i < STAT_PERCENTILES; i++) {
		snprintf(name, sizeof(name), "%s_%s", what, stat_percentile_name[i]);
		*c++ = cell_number(name,
				   csv_value(json_object_get(levels, stat_percentile_name[i])));
	}
	return c;
}

unsigned result_cells(struct cell *c, const json_t *series)
{
	struct cell *end = c;

	for (unsigned i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct column *k = &columns[i];
		const json_t *v = member(series, k->path ? k->path : k->name);

		*end++ = k->text ? cell_text(k->name, json_string_value(v))
				 : cell_number(k->name, csv_value(v));
	}
	end = stats_cells(end, series, "latency");
	return (unsigned)(stats_cells(end, series, "bandwidth") - c);
}

int result_csv(FILE *f, const json_t *result)
{
	const json_t *all = json_object_get(result, "series"), *series;
	struct cell c[RESULT_CELLS];
	size_t i;

	cells_csv(f, c, result_cells(c, json_array_get(all, 0)), true);
	json_array_foreach(all, i, series) cells_csv(f, c, result_cells(c, series), false);
	errno = 0;
	return fflush(f) || ferror(f) ? (errno ? -errno : -EIO) : 0;
}
