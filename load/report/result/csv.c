/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a result, one line per series: for CSV files and for spreadsheets. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/report/result/csv.h"
#include "load/report/result/result.h"

struct result_row {
	const struct run_series *s;
	struct stat_summary latency, bandwidth;
	bool bimodal;
};

struct result_row *result_row_new(const struct run_series *s)
{
	struct result_row *row = calloc(1, sizeof(*row));
	struct stat_shape shape = {.bimodal = false};
	struct stat_moments none = {0};
	bool exact;

	if (!row)
		return NULL;
	row->s = s;
	stat_moments_summary(&row->latency, &none);
	stat_moments_summary(&row->bandwidth, &none);
	series_latency(s, &row->latency, &exact);
	series_bandwidth(s, &row->bandwidth, &exact);
	if (s->hist)
		stat_shape(&shape, s->hist);
	row->bimodal = shape.bimodal;
	return row;
}

void result_row_free(struct result_row *row)
{
	free(row);
}

/* ------------------------------------------------------------------ columns */

static void text(struct result_cell *c, const char *s)
{
	c->is_text = true;
	snprintf(c->text, sizeof(c->text), "%s", s ? s : "");
}

/* What it is and how it was done. */
static bool config_cell(const struct run_series *s, unsigned i, struct result_cell *c)
{
	static const char *const names[] = {
		"name",       "kind",        "size",        "engine",        "direct",
		"block_size", "queue_depth", "io_parallel", "single_submit", "sequential_requests",
		"memory",     "cache",       "partial",
	};

	if (i >= ARRAY_SIZE(names))
		return false;
	c->name = names[i];
	switch (i) {
	case 0:
		text(c, s->name);
		break;
	case 1:
		text(c, s->read ? "read" : "write");
		break;
	case 2:
		c->number = s->size ? (double)s->size : NAN;
		break;
	case 3:
		text(c, s->stats.engine);
		break;
	case 4:
		text(c, result_direct_word(s));
		break;
	case 5:
		c->number = (double)s->file.block;
		break;
	case 6:
		c->number = s->stats.depth;
		break;
	case 7:
		c->number = s->stats.threads;
		break;
	case 8:
		c->number = !!(s->opts.flags & SLUICE_SINGLE_SUBMIT);
		break;
	case 9:
		c->number = !!(s->opts.flags & SLUICE_NO_OVERLAP);
		break;
	case 10:
		text(c, bed_memory_words[s->memory]);
		break;
	case 11:
		text(c, s->cache);
		break;
	default:
		c->number = s->partial;
	}
	return true;
}

/* The series as a whole. */
static bool total_cell(const struct result_row *row, unsigned i, struct result_cell *c)
{
	const struct run_series *s = row->s;
	const double share = s->limit > 0 ? series_speed(s) / s->limit : NAN;
	const struct {
		const char *name;
		double value;
	} cells[] = {
		{"ops", (double)s->ops},
		{"errors", (double)s->errors},
		{"bytes", (double)s->bytes},
		{"bytes_written", (double)series_written(s)},
		{"sec", s->sec},
		{"bytes_per_sec", series_speed(s)},
		{"limit_bytes_per_sec", s->limit > 0 ? s->limit : NAN},
		{"limit_share", share},
		{"cpu_user_sec", s->user_sec},
		{"cpu_system_sec", s->system_sec},
		{"cpu_sec_per_gib", s->run_bytes ? series_cpu_per_gib(s) : NAN},
		{"bimodal", row->bimodal},
	};

	if (i >= ARRAY_SIZE(cells))
		return false;
	c->name = cells[i].name;
	c->number = cells[i].value;
	return true;
}

#define STATS_CELLS (7 + STAT_PERCENTILES)

static bool stats_cell(const struct stat_summary *v, bool latency, unsigned i,
		       struct result_cell *c)
{
	static const char *const names[2][STATS_CELLS] = {
		{"bandwidth_mean", "bandwidth_median", "bandwidth_stddev", "bandwidth_ci95_low",
		 "bandwidth_ci95_high", "bandwidth_min", "bandwidth_max", "bandwidth_p1",
		 "bandwidth_p5", "bandwidth_p50", "bandwidth_p90", "bandwidth_p95", "bandwidth_p99",
		 "bandwidth_p99.9", "bandwidth_p99.99"},
		{"latency_mean", "latency_median", "latency_stddev", "latency_ci95_low",
		 "latency_ci95_high", "latency_min", "latency_max", "latency_p1", "latency_p5",
		 "latency_p50", "latency_p90", "latency_p95", "latency_p99", "latency_p99.9",
		 "latency_p99.99"},
	};
	const double values[] = {v->mean,    v->median, v->stddev, v->ci_low,
				 v->ci_high, v->min,    v->max};

	if (i >= STATS_CELLS)
		return false;
	c->name = names[latency][i];
	c->number = i < 7 ? values[i] : v->percentile[i - 7];
	if (!v->n)
		c->number = NAN;
	return true;
}

bool result_row_cell(const struct result_row *row, unsigned i, struct result_cell *ret)
{
	unsigned first = 0;

	*ret = (struct result_cell){.number = NAN};
	if (config_cell(row->s, i, ret))
		return true;
	while (config_cell(row->s, first, ret))
		first++;
	*ret = (struct result_cell){.number = NAN};
	if (total_cell(row, i - first, ret))
		return true;
	for (unsigned k = 0; total_cell(row, k, ret); k++)
		first++;
	*ret = (struct result_cell){.number = NAN};
	if (i - first < STATS_CELLS)
		return stats_cell(&row->latency, true, i - first, ret);
	return stats_cell(&row->bandwidth, false, i - first - STATS_CELLS, ret);
}

/* --------------------------------------------------------------------- CSV */

void csv_text(FILE *f, const char *s)
{
	const char *before = *s && strchr("=+-@\t\r\n", *s) ? "'" : "";

	if (!s[strcspn(s, ",\"\n\r")]) {
		fprintf(f, "%s%s", before, s);
		return;
	}
	fprintf(f, "\"%s", before);
	for (; *s; s++) {
		if (*s == '"')
			putc('"', f);
		putc(*s, f);
	}
	putc('"', f);
}

void csv_number(FILE *f, double v)
{
	if (isfinite(v) && v == floor(v) && fabs(v) < 1e15)
		fprintf(f, "%.0f", v);
	else if (isfinite(v))
		fprintf(f, "%.9g", v);
}

static int put_line(FILE *f, const struct run_series *s, bool names)
{
	struct result_row *row = result_row_new(s);
	struct result_cell c;

	if (!row)
		return -ENOMEM;
	for (unsigned i = 0; result_row_cell(row, i, &c); i++) {
		if (i)
			putc(',', f);
		if (names)
			csv_text(f, c.name);
		else if (c.is_text)
			csv_text(f, c.text);
		else
			csv_number(f, c.number);
	}
	putc('\n', f);
	result_row_free(row);
	return 0;
}

int result_csv(FILE *f, const struct result *r)
{
	static const struct run_series none;
	int rc = put_line(f, r->nr_series ? &r->series[0] : &none, true);

	for (unsigned i = 0; i < r->nr_series && rc == 0; i++)
		rc = put_line(f, &r->series[i], false);
	errno = 0;
	if (rc == 0 && (fflush(f) || ferror(f)))
		rc = errno ? -errno : -EIO;
	return rc;
}
