/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_FIO_H
#define PENSTOCK_JOBS_FIO_H

/*
 * fio on the same work as a series, as a yardstick: after each turn of ours it has one, on the same
 * files and in their order, with as many operations of the same size and as many of them at a time.
 * In every second turn it asks in the blocks, and as many of them, that the library has in flight,
 * for its own operations are not split; the better of the two counts.  What cannot be made the same
 * is told.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "load/measure/series.h"

struct bench_job;

#define FIO_ARGS  24
#define FIO_FILES 256 /* at most, of a turn */

struct fio_result {
	char series[128];     /* the name, or that of a mix of both */
	double ours;          /* bytes per second of the turns beside it; 0: nothing was measured */
	double bytes_per_sec; /* 0: not known */
	double ratio, low, high; /* ours to fio's, by pairs of turns; NAN: not known */
	double latency_mean;     /* seconds, of one operation of that variant */
	char args[FIO_ARGS][96]; /* of the better one, but for the files */
	unsigned nr_args;
	char differs[160]; /* what is not the same */
	char why_not[160];
	uint64_t bytes_written;
	/* while it runs: by the two variants: whole operations, or the library's blocks */
	unsigned turns;
	struct fio_variant {
		double log_ratio[SERIES_REPEATS], ours, theirs, latency_mean;
		unsigned n;
		char args[FIO_ARGS][96];
		unsigned nr_args;
	} variant[2];
};

/* A turn of @ops operations on files of @dir, beside one of ours with @ours bytes per second. */
void fio_run_turn(struct fio_result *ret, const struct bench_job *job, const char *dir,
		  const struct run_series *s, const char *const *names, unsigned nr_names,
		  uint64_t ops, double ours);
/* One turn of it, @one, beside one of ours. */
void fio_add_turn(struct fio_variant *w, const struct fio_result *one, double ours);
/* After the last turn: what came of it. */
void fio_choose_variant(struct fio_result *ret);

/* Is it installed? */
bool fio_exists(void);

#endif
