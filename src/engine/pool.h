/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_ENGINE_POOL_H
#define SLUICE_ENGINE_POOL_H

/*
 * A queue made of threads, for engines whose requests are calls that block: each
 * worker takes a request, calls run(), and puts the result where reap() finds it.
 * Workers are started when there is a request and no idle worker.
 *
 * The functions are those of struct sluice_engine; an engine has the pool as the
 * first member of its state.
 */
#include <pthread.h>

#include "engine/engine.h"

struct sluice_pool {
	/* Do one request in the calling worker: bytes or -errno. */
	int32_t (*run)(struct sluice_pool *pool, struct sluice_req *req);
	pthread_mutex_t lock;
	pthread_cond_t work;   /* there is a request, or stop */
	pthread_cond_t finish; /* there is a finished request, or wake */
	struct sluice_req *head, **tail;
	struct sluice_req *done;
	pthread_t *workers;
	unsigned nr_workers;
	unsigned max_workers;
	unsigned idle;
	unsigned queued; /* requests no worker has taken */
	unsigned nr_done;
	bool woken;
	bool stop;
};

/* @pool is zeroed but for run; at most @workers threads.  @name begins messages. */
int sluice_pool_open(struct sluice_pool *pool, unsigned workers, const char *name,
		     struct sluice_err *err);
void sluice_pool_close(void *state);
void sluice_pool_abandon(void *state);
int sluice_pool_submit(void *state, struct sluice_req *const *reqs, unsigned n);
int sluice_pool_reap(void *state, struct sluice_req **done, int64_t timeout_ns);
void sluice_pool_wake(void *state);
uint64_t sluice_pool_cpu_ns(void *state);

#endif
