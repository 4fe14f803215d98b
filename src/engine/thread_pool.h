/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_ENGINE_THREAD_POOL_H
#define PENSTOCK_ENGINE_THREAD_POOL_H

/*
 * A queue made of threads, for engines whose requests are calls that block: each
 * worker takes a request, calls run(), and puts the result where reap() finds it.
 * Workers are started when there is a request and no idle worker.
 *
 * The functions are those of struct penstock_engine; an engine has the pool as the
 * first member of its state.
 */
#include <pthread.h>

#include "engine/engine.h"

struct penstock_thread_pool {
	/* Do one request in the calling worker: bytes or -errno. */
	int32_t (*run)(struct penstock_thread_pool *pool, struct penstock_req *req);
	pthread_mutex_t lock;
	pthread_cond_t work;   /* there is a request, or stop */
	pthread_cond_t finish; /* there is a finished request, or wake */
	struct penstock_req *head, **tail;
	struct penstock_req *done;
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
int penstock_thread_pool_open(struct penstock_thread_pool *pool, unsigned workers, const char *name,
			      struct penstock_err *err);
void penstock_thread_pool_close(void *state);
void penstock_thread_pool_abandon(void *state);
int penstock_thread_pool_submit(void *state, struct penstock_req *const *reqs, unsigned n);
int penstock_thread_pool_reap(void *state, struct penstock_req **done, int64_t timeout_ns);
void penstock_thread_pool_wake(void *state);
uint64_t penstock_thread_pool_cpu_ns(void *state);

#endif
