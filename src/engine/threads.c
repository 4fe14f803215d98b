/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads engine: a pool of threads that call pread(2) and pwrite(2).  It
 * works on every kernel and every file system.  Workers are started when there
 * is a request and no idle worker, up to the depth of the queue or WORKERS_MAX.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "engine/engine.h"

enum { WORKERS_MAX = 32 };

struct threads_state {
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

static int threads_probe(struct sluice_err *err)
{
	(void)err;
	return 0;
}

static void *worker_main(void *arg)
{
	struct threads_state *s = arg;
	struct sluice_req *req;
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

		res = sluice_req_run(req);

		pthread_mutex_lock(&s->lock);
		sluice_req_push(&s->done, req, res);
		s->nr_done++;
		pthread_cond_signal(&s->finish);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int add_worker(struct threads_state *s)
{
	int r = thread_start(&s->workers[s->nr_workers], worker_main, s);

	if (!r)
		s->nr_workers++;
	return r;
}

/* The workers are the parent's, and the locks are as they were left by them. */
static void threads_abandon(void *state)
{
	struct threads_state *s = state;

	free(s->workers);
}

static void threads_close(void *state)
{
	struct threads_state *s = state;

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

static int threads_open(void *state, const struct sluice_engine_params *p, struct sluice_err *err)
{
	struct threads_state *s = state;
	pthread_condattr_t attr;
	int r;

	s->tail = &s->head;
	s->max_workers = p->depth < WORKERS_MAX ? p->depth : WORKERS_MAX;
	s->workers = calloc(s->max_workers, sizeof(*s->workers));
	if (!s->workers)
		return sluice_fail(err, -ENOMEM, "threads: out of memory");
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->finish, &attr);
	pthread_condattr_destroy(&attr);

	/* With one worker everything works, if slowly: only the first must start. */
	r = add_worker(s);
	if (r < 0) {
		threads_close(s);
		return sluice_fail(err, r, "threads: cannot start a thread: %s", strerror(-r));
	}
	return 0;
}

static int threads_submit(void *state, struct sluice_req *const *reqs, unsigned n)
{
	struct threads_state *s = state;

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

static int threads_reap(void *state, struct sluice_req **done, int64_t timeout_ns)
{
	struct threads_state *s = state;
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

static void threads_wake(void *state)
{
	struct threads_state *s = state;

	pthread_mutex_lock(&s->lock);
	s->woken = true;
	pthread_cond_signal(&s->finish);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t threads_cpu_ns(void *state)
{
	struct threads_state *s = state;
	uint64_t sum = 0;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->nr_workers; i++)
		sum += thread_cpu_ns(s->workers[i]);
	pthread_mutex_unlock(&s->lock);
	return sum;
}

const struct sluice_engine sluice_engine_threads = {
	.name = "threads",
	.descr = "a pool of threads that call pread and pwrite; works everywhere",
	.state_size = sizeof(struct threads_state),
	.automatic = true,
	.bypass = true,
	.probe = threads_probe,
	.open = threads_open,
	.close = threads_close,
	.abandon = threads_abandon,
	.submit = threads_submit,
	.reap = threads_reap,
	.wake = threads_wake,
	.cpu_ns = threads_cpu_ns,
};
