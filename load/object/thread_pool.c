/* SPDX-License-Identifier: Apache-2.0 */
#include "load/object/thread_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/util.h"

void inbox_init(struct inbox *b)
{
	pthread_condattr_t attr;

	atomic_init(&b->head, NULL);
	atomic_init(&b->asleep, false);
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->cond, &attr);
	pthread_condattr_destroy(&attr);
}

void inbox_fini(struct inbox *b)
{
	pthread_cond_destroy(&b->cond);
	pthread_mutex_destroy(&b->lock);
}

void inbox_push(struct inbox *b, struct task *t)
{
	struct task *head = atomic_load_explicit(&b->head, memory_order_relaxed);

	do {
		t->next = head;
	} while (!atomic_compare_exchange_weak(&b->head, &head, t));
	/* Who finds something there has been told, or will look before it sleeps. */
	if (head || !atomic_load(&b->asleep))
		return;
	pthread_mutex_lock(&b->lock);
	pthread_cond_signal(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

struct task *inbox_take(struct inbox *b)
{
	struct task *list = NULL, *t, *next;

	if (!atomic_load_explicit(&b->head, memory_order_relaxed))
		return NULL;
	for (t = atomic_exchange(&b->head, NULL); t; t = next) {
		next = t->next;
		t->next = list;
		list = t;
	}
	return list;
}

void inbox_wait(struct inbox *b, uint64_t until_ns)
{
	struct timespec ts = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
	int r = 0;

	if (atomic_load(&b->head))
		return;
	pthread_mutex_lock(&b->lock);
	atomic_exchange(&b->asleep, true); /* not a store: see core/sleep_state.h */
	while (!atomic_load(&b->head) && r != ETIMEDOUT)
		r = until_ns == UINT64_MAX ? pthread_cond_wait(&b->cond, &b->lock)
					   : pthread_cond_timedwait(&b->cond, &b->lock, &ts);
	atomic_store(&b->asleep, false);
	pthread_mutex_unlock(&b->lock);
}

static void *pool_thread_main(void *arg)
{
	struct thread_pool *c = arg;
	struct task *t;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		while (!c->first && !c->stop) {
			c->idle++;
			pthread_cond_wait(&c->work, &c->lock);
			c->idle--;
		}
		t = c->first;
		if (!t)
			break;
		c->first = t->next;
		pthread_mutex_unlock(&c->lock);
		t->run(t);
		inbox_push(c->inbox, t);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int thread_pool_start(struct thread_pool *c, unsigned nr, const char *name, struct inbox *inbox)
{
	int r = 0;

	*c = (struct thread_pool){.inbox = inbox};
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	c->threads = calloc(nr, sizeof(*c->threads));
	if (!c->threads)
		return -ENOMEM;
	while (c->nr < nr && r == 0) {
		r = thread_start(&c->threads[c->nr], pool_thread_main, c);
		if (r == 0)
			pthread_setname_np(c->threads[c->nr++], name);
	}
	return r;
}

void thread_pool_stop(struct thread_pool *c)
{
	if (!c->inbox)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->work);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->nr; i++)
		pthread_join(c->threads[i], NULL);
	free(c->threads);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->lock);
	c->inbox = NULL;
}

void thread_pool_push(struct thread_pool *c, struct task *t)
{
	t->next = NULL;
	pthread_mutex_lock(&c->lock);
	if (c->first)
		c->last->next = t;
	else
		c->first = t;
	c->last = t;
	if (c->idle)
		pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
}
