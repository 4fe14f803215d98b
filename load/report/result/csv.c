/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a result, a line per series, for CSV files and spreadsheets: what it is and how it
 * was done, the series as a whole, single operations. */
#include <errno.h>
#include <math.h>

#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/report/result/cells.h"
#include "load/report/result/result.h"

/* Statistics of latency or bandwidth, or as many empty cells. */
static struct cell *stats_cells(struct cell *c, const struct run_series *s, const char *what,
				int (*get)(const struct run_series *, struct stat_summary *,
					   bool *))
{
	static const char *const names[] = {"mean",      "median", "stddev", "ci95_low",
					    "ci95_high", "min",    "max"};
	struct stat_summary v = {0};
	bool exact, known = get(s, &v, &exact) == 0;
	const double values[] = {v.mean, v.median, v.stddev, v.ci_low, v.ci_high, v.min, v.max};
	char name[48];

	for (unsigned i = 0; i < ARRAY_SIZE(names) + STAT_PERCENTILES; i++) {
		bool level = i >= ARRAY_SIZE(names);
		unsigned k = level ? i - (unsigned)ARRAY_SIZE(names) : i;

		snprintf(name, sizeof(name), "%s_%s", what,
			 level ? stat_percentile_name[k] : names[k]);
		*c++ = cell_number(name, !known ? NAN : level ? v.percentile[k] : values[k]);
	}
	return c;
}

static struct cell *config_cells(struct cell *c, const struct run_series *s)
{
	*c++ = cell_text("name", s->name);
	*c++ = cell_text("kind", s->read ? "read" : "write");
	*c++ = cell_number("size", s->size ? (double)s->size : NAN);
	*c++ = cell_text("engine", s->stats.engine);
	*c++ = cell_text("direct", result_direct_word(s));
	*c++ = cell_number("block_size", (double)s->file.block);
	*c++ = cell_number("queue_depth", s->stats.depth);
	*c++ = cell_number("io_parallel", s->stats.threads);
	*c++ = cell_number("single_submit", !!(s->opts.flags & SLUICE_SINGLE_SUBMIT));
	*c++ = cell_number("sequential_requests", !!(s->opts.flags & SLUICE_NO_OVERLAP));
	*c++ = cell_text("memory", bed_memory_words[s->memory]);
	*c++ = cell_text("cache", s->cache);
	*c++ = cell_number("partial", s->partial);
	return c;
}

static struct cell *total_cells(struct cell *c, const struct run_series *s)
{
	struct stat_shape shape = {.bimodal = false};

	if (s->hist)
		stat_shape(&shape, s->hist);
	*c++ = cell_number("ops", (double)s->ops);
	*c++ = cell_number("errors", (double)s->errors);
	*c++ = cell_number("bytes", (double)s->bytes);
	*c++ = cell_number("bytes_written", (double)series_written(s));
	*c++ = cell_number("sec", s->sec);
	*c++ = cell_number("bytes_per_sec", series_speed(s));
	*c++ = cell_number("limit_bytes_per_sec", s->limit > 0 ? s->limit : NAN);
	*c++ = cell_number("limit_share", s->limit > 0 ? series_speed(s) / s->limit : NAN);
	*c++ = cell_number("cpu_user_sec", s->user_sec);
	*c++ = cell_number("cpu_system_sec", s->system_sec);
	*c++ = cell_number("cpu_sec_per_gib", s->run_bytes ? series_cpu_per_gib(s) : NAN);
	*c++ = cell_number("bimodal", shape.bimodal);
	return c;
}

unsigned result_cells(struct cell *c, const struct run_series *s)
{
	struct cell *end = total_cells(config_cells(c, s), s);

	end = stats_cells(end, s, "latency", series_latency);
	return (unsigned)(stats_cells(end, s, "bandwidth", series_bandwidth) - c);
}

int result_csv(FILE *f, const struct result *r)
{
	static const struct run_series none;
	struct cell c[RESULT_CELLS];

	cells_csv(f, c, result_cells(c, r->nr_series ? &r->series[0] : &none), true);
	for (unsigned i = 0; i < r->nr_series; i++)
		cells_csv(f, c, result_cells(c, &r->series[i]), false);
	errno = 0;
	return fflush(f) || ferror(f) ? (errno ? -errno : -EIO) : 0;
}
