/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists under one lock: requests no worker has taken, in order, and finished ones.
 * The lock is held for list work only.
 */
#include "engine/thread_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

static void *pool_worker(void *arg)
{
	struct penstock_thread_pool *s = arg;
	struct penstock_req *req;
	int32_t res;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->head && !s->stop) {
			s->idle++;
			pthread_cond_wait(&s->work, &s->lock);
			s->idle--;
		}
		if (!s->head)
			break;
		req = s->head;
		s->head = req->next;
		if (!s->head)
			s->tail = &s->head;
		s->queued--;
		pthread_mutex_unlock(&s->lock);

		res = s->run(s, req);

		pthread_mutex_lock(&s->lock);
		penstock_req_push(&s->done, req, res);
		s->nr_done++;
		pthread_cond_signal(&s->finish);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int add_worker(struct penstock_thread_pool *s)
{
	int r = thread_start(&s->workers[s->nr_workers], pool_worker, s);

	if (!r)
		s->nr_workers++;
	return r;
}

/* The workers are the parent's, and the locks are as they were left by them. */
void penstock_thread_pool_abandon(void *state)
{
	struct penstock_thread_pool *s = state;

	free(s->workers);
}

void penstock_thread_pool_close(void *state)
{
	struct penstock_thread_pool *s = state;

	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->nr_workers; i++)
		pthread_join(s->workers[i], NULL);
	free(s->workers);
	pthread_cond_destroy(&s->finish);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
}

int penstock_thread_pool_open(struct penstock_thread_pool *s, unsigned workers, const char *name,
			      struct penstock_err *err)
{
	pthread_condattr_t attr;
	int r;

	s->tail = &s->head;
	s->max_workers = workers;
	s->workers = calloc(s->max_workers, sizeof(*s->workers));
	if (!s->workers)
		return penstock_fail(err, -ENOMEM, "%s: out of memory", name);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->finish, &attr);
	pthread_condattr_destroy(&attr);

	/* With one worker everything works, if slowly: only the first must start. */
	r = add_worker(s);
	if (r < 0) {
		penstock_thread_pool_close(s);
		return penstock_fail(err, r, "%s: cannot start a thread: %s", name, strerror(-r));
	}
	return 0;
}

int penstock_thread_pool_submit(void *state, struct penstock_req *const *reqs, unsigned n)
{
	struct penstock_thread_pool *s = state;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < n; i++) {
		reqs[i]->next = NULL;
		*s->tail = reqs[i];
		s->tail = &reqs[i]->next;
		s->queued++;
		if (s->queued > s->idle && s->nr_workers < s->max_workers)
			add_worker(s);
		else
			pthread_cond_signal(&s->work);
	}
	pthread_mutex_unlock(&s->lock);
	return (int)n;
}

int penstock_thread_pool_reap(void *state, struct penstock_req **done, int64_t timeout_ns)
{
	struct penstock_thread_pool *s = state;
	struct timespec until;
	uint64_t t;
	int n;

	if (timeout_ns > 0) {
		t = clock_ns() + (uint64_t)timeout_ns;
		until.tv_sec = (time_t)(t / 1000000000u);
		until.tv_nsec = (long)(t % 1000000000u);
	}
	pthread_mutex_lock(&s->lock);
	while (!s->done && !s->woken && timeout_ns) {
		if (timeout_ns < 0)
			pthread_cond_wait(&s->finish, &s->lock);
		else if (pthread_cond_timedwait(&s->finish, &s->lock, &until) == ETIMEDOUT)
			break;
	}
	s->woken = false;
	n = (int)s->nr_done;
	*done = s->done;
	s->done = NULL;
	s->nr_done = 0;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void penstock_thread_pool_wake(void *state)
{
	struct penstock_thread_pool *s = state;

	pthread_mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_signal(&s->finish);
	pthread_mutex_unlock(&s->lock);
}

uint64_t penstock_thread_pool_cpu_ns(void *state)
{
	struct penstock_thread_pool *s = state;
	uint64_t sum = 0;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->nr_workers; i++)
		sum += thread_cpu_ns(s->workers[i]);
	pthread_mutex_unlock(&s->lock);
	return sum;
}
