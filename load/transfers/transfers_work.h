/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRANSFERS_TRANSFERS_WORK_H
#define PENSTOCK_TRANSFERS_TRANSFERS_WORK_H

/* What transfers.c, which sets up and adds up, and transfers_work.c, which works, share. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "load/transfers/transfers.h"

struct slot {
	struct load_op op;
	char *buf;
	struct penstock_file *file; /* of a round: open while it is in flight */
	uint64_t ticket;
	uint64_t begin_ns, end_ns;
	uint64_t bytes;
	bool busy;
	bool completed; /* of a round: completed without error */
};

struct transfers;

struct transfers_worker {
	struct transfers *transfers;
	unsigned id;
	pthread_t thread;
	bool started;
	struct penstock_io *io;
	struct penstock_file **files; /* open ones; NULL with open_each */
	struct transfers_handle_info handle;
	struct run_series *series;
	struct slot *slots;
	unsigned in_flight;
	bool active; /* in counted time */
	struct load_op next;
	bool have_next;   /* waits for its turn */
	bool ended;       /* the source has no more for this worker */
	uint64_t hook_ns; /* CPU time of prepare() and finish() */
};

struct transfers {
	const struct transfers_job *job;
	struct transfers_worker *workers;
	struct run_series *series; /* the caller's */
	pthread_mutex_t lock;      /* for the rest */
	uint64_t count_start_ns;   /* when counted time began */
	uint64_t library_ns;       /* CPU time of the handles up to there */
	unsigned nr_active;
	uint64_t active_since;
	uint64_t earlier_ns; /* counted time of earlier runs */
	uint64_t active_ns;  /* counted time up to active_since */
	uint64_t counted_ns; /* of the last operation that counts */
	struct rusage before;
	atomic_bool counting;         /* the warm-up is over */
	_Atomic uint64_t deadline_ns; /* 0: none (yet) */
	atomic_bool failed;
	struct penstock_err err;
	/* Rounds: set between two barriers by the first worker, read behind the second. */
	pthread_barrier_t barrier;
	bool abandoned;        /* not all workers could be started */
	bool over;             /* there is no more, or a stop */
	atomic_uint nr_ready;  /* workers with an operation for the next one */
	unsigned in_round;     /* those of this one */
	atomic_uint completed; /* those whose operation was completed */
	_Atomic uint64_t last; /* when the last one was */
};

/* Remember the first failure, which ends the run; the second with the lock held. */
void transfers_fail(struct transfers *s, const struct penstock_err *err);
void transfers_fail_locked(struct transfers *s, const struct penstock_err *err);
/* Has something failed, or does the user want to stop? */
bool transfers_stopped(struct transfers *s);

/* Carry out operations until there are no more; @arg is a struct transfers_worker. */
void *transfers_work(void *arg);

#endif
