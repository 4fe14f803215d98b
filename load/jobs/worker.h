/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_WORKER_H
#define SLUICE_JOBS_WORKER_H

/* What the threads of one io_job_run() share; see io.h for the idea. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "load/jobs/files.h"
#include "load/jobs/io.h"
#include "load/measure/limit.h"

struct worker {
	struct run *run;
	unsigned tid;
	pthread_t thread;
	struct sluice_io *io;
	char *buf;   /* io_size bytes; of a GPU where the job says so: see memory.h */
	char *stage; /* host memory to look at them through */
	uint64_t stage_len;
	void *map; /* host memory of its own */
	size_t map_len;
	void *device;           /* device memory of its own */
	struct job_file *files; /* files_per_worker() of them */
	struct io_worker_result *res;
};

struct run {
	const struct io_job *job;
	struct io_result *res;
	unsigned nr_workers;
	struct worker *workers;
	struct job_file *files;   /* of all workers */
	struct sluice_io *helper; /* makes and checks files, with the default settings */
	struct rusage before;     /* of the loop that is running */
	uint64_t library_ns;      /* the same: CPU time of the workers' I/O threads */
	pthread_barrier_t barrier;
	atomic_int step;    /* enum io_step */
	atomic_bool failed; /* set once, with @err */
	uint32_t nr_loops;  /* to do; those that are done are in the result */
	atomic_uint moved;  /* workers whose transfer of this loop is done */
	bool leave;         /* the loop; written by worker 0 between two barriers */
	bool abandoned;     /* not all workers could be started */
	pthread_mutex_t lock;
	struct sluice_err err; /* the first failure */
	struct limit limit;
};

/* Remember the first failure; all workers then skip what is left. */
void run_fail(struct run *run, const struct sluice_err *err);
/* Has a worker failed, or does the user want to stop? */
bool run_stopped(struct run *run);

int worker_init(struct worker *w, struct sluice_err *err);
void *worker_main(void *arg);
void worker_fini(struct worker *w);

#endif
