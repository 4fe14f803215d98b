/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_BENCH_H
#define PENSTOCK_JOBS_BENCH_H

/*
 * The job of `penstock bench': latency and bandwidth of moving tensors of several
 * sizes to storage and back.
 *
 *	struct bench_job -> bench_check() -> bench_run() -> struct bench_result
 *	                                 \-> bench_plan(): what that would do
 *
 * Per size there are two series, writes then reads, or with a mix of both one run
 * that yields two.  They are done in rounds: in each every series of every size has a
 * turn, so that none of them is one moment of a device that drifts, and the means of
 * the turns say how far to trust the whole.  A tensor is a file of its own; there
 * are at most as many as iterations, and they are used in turn.  With @random there is
 * one large file, and an operation is somewhere in it; with @share the tensors of all
 * processes are ranges of one file.  All files are in a new folder
 * inside @folder, which is removed at the end, whatever happens.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "load/bed/bed_folder.h"
#include "load/jobs/fio.h"
#include "load/measure/series.h"

enum bench_step { BENCH_PREPARE, BENCH_WRITE, BENCH_READ, BENCH_MIXED, BENCH_VERIFY, BENCH_LIMIT };

struct bench_job {
	const char *folder;
	struct bed_share share; /* tensors of a size are ranges of one file, also of other ranks */
	const uint64_t *sizes;  /* all different, > 0 */
	unsigned nr_sizes;
	bool write, read;    /* at least one */
	uint32_t rwmix;      /* per cent of reads, 1..99; 0: writes, then reads */
	uint64_t iterations; /* per series; not with @runtime_ns */
	uint64_t runtime_ns; /* per series; 0: count iterations */
	uint64_t max_ns;     /* a series that takes longer ends early; 0: none does */
	uint64_t rate;       /* bytes per second; 0: as fast as possible */
	uint32_t warmup;     /* operations before; before later repeats one of them */
	bool random;         /* anywhere in one file ... */
	uint64_t span;       /* ... of this size; 0: chosen */
	bool overwrite;      /* writes go over existing data, not into empty files */
	uint32_t files;      /* tensors on disk at a time; 0: chosen */
	uint32_t in_flight;  /* operations at a time, >= 1 */
	bool open_once;      /* open files before the time, not in each operation */
	bool verify;         /* compare every byte */
	uint64_t seed;
	uint32_t memory; /* BED_* */
	bool lock;
	struct penstock_opts opts;
	uint64_t limit; /* of the device, bytes per second; 0: not known */
	bool measure_limit;
	bool compare_fio; /* fio has a turn after each of ours */
	const atomic_int *stop;
	/* Optional; @total_bytes is 0 when it is not known.  Ticks come a few times a second. */
	void (*progress)(void *arg, enum bench_step step, uint64_t size, uint64_t done_bytes,
			 uint64_t total_bytes);
	void *progress_arg;
	/* Optional: a series is done (@s has its name). */
	void (*series_done)(void *arg, const struct run_series *s);
	void *series_arg;
};

struct bench_plan {
	unsigned nr_series;
	uint64_t space;       /* bytes on disk at most */
	uint64_t memory;      /* bytes of buffers */
	uint64_t write_bytes; /* wear, at most ... */
	bool open_ended;      /* ... or by the speed assumed: it is time that ends it */
	uint64_t limit_bytes; /* of these: to measure the limit, ... */
	uint64_t limit_size;  /* ... beside the series of this size */
	uint64_t read_bytes;
	double speed; /* assumed, bytes per second */
	char speed_how[96];
	double seconds; /* about */
};

struct bench_result {
	struct run_series *series;
	unsigned nr_series;
	uint64_t bytes_written; /* all */
	double sec;             /* all, files made and removed included */
	struct penstock_path_info path;
	struct fio_result *fio; /* one per series, or mix; NULL: not asked for */
	unsigned nr_fio;
	struct fio_result *gdsio; /* the same of gdsio, as many; NULL: there is none */
	bool began;               /* the folder was made */
	bool failed;              /* or was stopped */
};

/*
 * Is the job possible?  Returns 0; -EINVAL where a setting is wrong, the folder is
 * missing or cannot be written to, or there is too little space or memory; -ENOTSUP
 * where this machine cannot do it.  Creates nothing; fills in what the job left
 * to choose.
 */
int bench_check(struct bench_job *job, struct penstock_err *err);

/* What bench_run() would do. */
void bench_plan(const struct bench_job *job, struct bench_plan *ret);

/* Does gdsio have turns beside fio: is it there, and the memory a GPU's? */
bool bench_with_gdsio(const struct bench_job *job);

/*
 * Do it.  Returns 0 or -errno with one line in @err.  What was measured is in
 * @result in both cases; when job->stop was set, the last series is partial.
 */
int bench_run(const struct bench_job *job, struct bench_result *result, struct penstock_err *err);
void bench_result_fini(struct bench_result *result);

/* When @n operations of @size have had their time at the job's rate, ns. */
uint64_t bench_turn_ns(const struct bench_job *job, uint64_t size, uint64_t n);

/* What operations of @size are called; @what: "read", "write", "read and write". */
void bench_name(char *buf, size_t len, const struct bench_job *job, uint64_t size,
		const char *what);

/* In how many repeats a series is done: few operations are not worth dividing. */
unsigned bench_repeats(const struct bench_job *job);

/* How many tensors of @size are on disk at a time. */
unsigned bench_nr_files(const struct bench_job *job, uint64_t size);

#endif
