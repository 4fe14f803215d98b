/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_FIO_H
#define SLUICE_JOBS_FIO_H

/*
 * fio on the same work as a series, as a yardstick: as many bytes by operations of
 * the same size, as many of them at a time, to and from a file of as many bytes as
 * the tensors have.  fio is also asked to do them in blocks and at the depth that
 * the library used, for its own operations are not split; the better of the two
 * counts.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct bench_job;
struct run_series;

#define FIO_ARGS 24

struct fio_result {
	char series[128];        /* the name, or that of a mix of both */
	double ours;             /* bytes per second of that; 0: nothing was measured */
	double bytes_per_sec;    /* 0: not known */
	double latency_mean;     /* seconds, of one operation of that way of asking */
	char args[FIO_ARGS][96]; /* of the better one */
	unsigned nr_args;
	char why_not[160];
	uint64_t bytes_written;
};

/*
 * Run it in @dir, and remove its file.  What goes wrong is told in why_not; a mix
 * compares both directions together.
 */
void fio_compare(struct fio_result *ret, const struct bench_job *job, const char *dir,
		 const struct run_series *s, unsigned nr_files);

/* Is it installed? */
bool fio_exists(void);

#endif
