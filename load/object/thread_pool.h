/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_THREAD_POOL_H
#define PENSTOCK_OBJECT_THREAD_POOL_H

/*
 * Threads that do what must not hold up the flow's own thread, and the inbox in which
 * everything that was done elsewhere, by them or by the library, comes back to it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct task {
	struct task *next;
	void (*run)(struct task *t);               /* by a thread of the pool */
	void (*done)(struct task *t, void *owner); /* by the owner of the inbox */
};

struct inbox {
	_Atomic(struct task *) head; /* the latest first */
	atomic_bool asleep;
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

void inbox_init(struct inbox *b);
void inbox_fini(struct inbox *b);
/* From any thread. */
void inbox_push(struct inbox *b, struct task *t);
/* All that is there, in the order in which it came; NULL: nothing. */
struct task *inbox_take(struct inbox *b);
/* Sleep until there is something, or until @until_ns (CLOCK_MONOTONIC). */
void inbox_wait(struct inbox *b, uint64_t until_ns);

struct thread_pool {
	struct inbox *inbox;
	pthread_t *threads;
	unsigned nr, idle;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct task *first, *last;
	bool stop;
};

/* 0 or -errno. */
int thread_pool_start(struct thread_pool *c, unsigned nr, const char *name, struct inbox *inbox);
/* Everything it was given has been done. */
void thread_pool_stop(struct thread_pool *c);
void thread_pool_push(struct thread_pool *c, struct task *t);

#endif
