/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_SERIES_H
#define PENSTOCK_MEASURE_SERIES_H

/*
 * What was measured of one kind of operation: one entry of a result.  Filled by
 * run_transfers(); the job that called it adds names and what only it knows; and
 * load/report writes it out.  docs/result.md says what the members mean.
 */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "base/hist.h"
#include "load/measure/per_second.h"
#include "load/stat/sample.h"
#include "load/stat/stat.h"

/* So many single latencies are kept; of more operations a uniform draw. */
#define SERIES_SAMPLES 10000
/* A series is done in at most so many repeats, between those of the others. */
#define SERIES_REPEATS 10

struct series_sample {
	uint64_t end_ns;
	uint64_t latency_ns;
	uint64_t bytes;
};

/* All that was counted up to the end of a repeat. */
struct series_repeat {
	uint64_t ops, bytes;
	double sec, latency_sum, bandwidth_sum;
};

/* One stretch of counted time: when it began, by clock_ns(), and how long it was. */
struct series_turn {
	uint64_t start_ns, ns;
};

struct series_second {
	uint64_t ops, bytes;
	double latency_sum, latency_max; /* seconds */
};

struct run_series {
	/* what it is; by the job */
	char name[128];
	bool read;
	uint64_t size; /* bytes per operation; 0: they differ */
	struct penstock_opts opts;
	uint32_t memory; /* enum bed_memory */
	bool lock;

	/* single operations; by run_transfers() */
	uint64_t ops, bytes;   /* counted */
	uint64_t warmup_bytes; /* moved, not counted */
	uint64_t errors;
	char first_error[508];
	struct penstock_hist *hist;    /* ns */
	struct stat_moments latency;   /* seconds */
	struct stat_moments bandwidth; /* bytes per second */
	struct stat_moments late;      /* seconds */
	struct reservoir samples;      /* struct series_sample */
	struct per_second seconds;     /* of counted time, struct series_second each */
	uint64_t first_ns, last_ns;    /* counted time in which the first and the last one ended */

	/* the run it was part of; by run_transfers() */
	double sec;                               /* counted time */
	struct series_turn turns[SERIES_REPEATS]; /* the same, as it lay in real time */
	uint32_t nr_turns;
	double user_sec, system_sec, library_sec;
	uint64_t run_bytes; /* of all series of the run: what the CPU time was spent on */
	struct penstock_stats stats;
	struct penstock_file_info file;
	struct penstock_buf_info buf;
	uint32_t done_flags; /* PENSTOCK_DONE_* of all operations together */
	bool partial;
	char partial_why[160];

	/* by the job */
	struct series_repeat repeats[SERIES_REPEATS];
	uint32_t nr_repeats; /* 0: it was not done in repeats */
	char time_limit[96]; /* its own limit of time ended it, not the last iteration; or empty */
	char cache[80];
	uint64_t prepared_bytes; /* written for it beforehand */
	bool no_storage;         /* nothing of it went to storage */
	double limit;            /* bytes per second; 0: not known */
	char limit_how[160];
	bool verify;
	uint64_t verified_bytes;
};

int series_init(struct run_series *s);
void series_fini(struct run_series *s);

/*
 * Count an operation of @bytes that took @latency_ns and ended at @at_ns of
 * counted time.  Returns 0 or -ENOMEM.
 */
int series_add(struct run_series *s, uint64_t bytes, uint64_t latency_ns, uint64_t at_ns);
/* Add what another worker counted.  @other stays as it is. */
int series_merge(struct run_series *s, const struct run_series *other);
/* Counted time that began at @start_ns; what no longer has a place of its own goes to the last. */
void series_turn(struct run_series *s, uint64_t start_ns, uint64_t ns);
/* Bring the samples into the order the operations ended in; it can go on behind that. */
void series_finish(struct run_series *s);

/* The operations that are kept. */
static inline uint64_t series_kept(const struct run_series *s)
{
	return reservoir_kept(&s->samples);
}
static inline const struct series_sample *series_sample(const struct run_series *s, uint64_t i)
{
	return reservoir_at(&s->samples, i);
}

/* A repeat has ended: intervals are then those of the means of the repeats. */
void series_end_repeat(struct run_series *s);

/*
 * Statistics of single operations.  *@exact: median and percentiles are those of
 * all samples.  Returns 0, -ENODATA when nothing was counted, or -ENOMEM.
 */
int series_latency(const struct run_series *s, struct stat_summary *ret, bool *exact);
int series_bandwidth(const struct run_series *s, struct stat_summary *ret, bool *exact);

/* Half of the 95 % interval of series_speed(); NAN: not known. */
double series_speed_half(const struct run_series *s);

/* Bytes per second of the series as a whole. */
static inline double series_speed(const struct run_series *s)
{
	return s->sec > 0 ? (double)s->bytes / s->sec : 0;
}

/* CPU seconds per GiB; negative when nothing was moved. */
static inline double series_cpu_per_gib(const struct run_series *s)
{
	return s->run_bytes ? (s->user_sec + s->system_sec) / ((double)s->run_bytes / (1u << 30))
			    : -1;
}

/* Bytes that its operations wrote to storage. */
static inline uint64_t series_wear(const struct run_series *s)
{
	return s->read || s->no_storage ? 0 : s->bytes + s->warmup_bytes;
}

/* All bytes written to storage because of this series. */
static inline uint64_t series_written(const struct run_series *s)
{
	return s->prepared_bytes + series_wear(s);
}

#endif
