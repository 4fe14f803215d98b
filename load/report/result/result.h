/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_RESULT_H
#define PENSTOCK_REPORT_RESULT_RESULT_H

/*
 * The result of a command that measures, and the forms it is written in: JSON of
 * schema "penstock-result/1" (docs/result.md), and of that CSV and XLSX.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <penstock/probe.h>

#include "load/measure/series.h"

struct result_target {
	const char *folder;
	struct penstock_path_info info;
};

struct result {
	const char *command; /* "bench" */
	time_t started;
	int64_t wall_ns; /* what makes clock_ns() the time since 1970 */
	double duration_sec;
	bool partial;
	char partial_why[160];
	const struct result_target *targets;
	unsigned nr_targets;
	json_t *settings; /* what was asked for */
	uint64_t bytes_written;
	const struct run_series *series;
	unsigned nr_series;
	/* what single commands add; NULL: nothing */
	json_t *grid, *fio, *gdsio, *tune, *io, *kv, *flows, *replay, *ckpt, *store, *weights,
		*objects;
};

/* Start the clock: everything else is zero. */
void result_init(struct result *r, const char *command);
/* It ended early, and why. */
void result_partial(struct result *r, const char *why);
/* Stop it, and say that the result is partial if one of the series is. */
void result_finish(struct result *r);
/* Drop the JSON parts. */
void result_fini(struct result *r);

/* A new object, or NULL for lack of memory. */
json_t *result_json(const struct result *r);
/* One series, as part of that; @fresh: its writes filled empty files. */
json_t *result_series_json(const struct result *r, const struct run_series *s, bool fresh);

/* Of that, or one merged of several: a line per series under a line of names.  0 or -errno. */
int result_csv(FILE *f, const json_t *result);

/*
 * A workbook to @f.  Returns 0, -ENOTSUP when libxlsxwriter is not installed, or
 * another -errno; the reason is in @err.
 */
int result_xlsx(FILE *f, const json_t *result, struct penstock_err *err);

/* How the bytes went, in the words of the JSON: "O_DIRECT", "page cache", ... */
const char *result_direct_word(const struct run_series *s);
/* One array per channel, so that a page can draw them as they are; @sec: when the last one ends. */
json_t *result_seconds(const struct per_second *s, double sec);
/* One sentence about the distribution of latencies. */
void result_shape_text(char *out, size_t size, const struct run_series *s, struct stat_shape *ret);

/* The columns of CSV and XLSX: fills @c, with room for RESULT_CELLS; returns how many there are. */
#define RESULT_CELLS 64
struct cell;
unsigned result_cells(struct cell *c, const json_t *series);

#endif
