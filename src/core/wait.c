/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results and who waits for them.  A finished operation stands on the done list
 * until somebody collects it; a thread that waits stands on the list of waiters
 * with what it waits for, and is woken only when that has come about.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

static bool satisfied(const struct sluice_io *io, const struct waiter *w)
{
	unsigned n = 0;

	if (w->op)
		return w->op->state == OP_DONE;
	if (!io->active)
		return true;
	if (!w->need || io->nr_done < w->need)
		return false;
	/* Results somebody waits for by ticket are not for others. */
	for (const struct op *op = io->done.next; op != &io->done && n < w->need; op = op->next)
		n += !op->waiters;
	return n == w->need;
}

void waiters_notify(struct sluice_io *io)
{
	for (struct waiter *w = io->waiters; w; w = w->next)
		if (satisfied(io, w))
			pthread_cond_signal(&w->cond);
}

void op_publish(struct sluice_io *io, struct op *op)
{
	op->state = OP_DONE;
	op_list_add(&io->done, op);
	io->nr_done++;
	/* Whoever waits to close the file can now collect the result. */
	if (op->file && atomic_fetch_sub(&op->file->refs, 1) == 2)
		pthread_cond_broadcast(&io->called);
	op->file = NULL;
}

void op_finished(struct sluice_io *io)
{
	if (atomic_fetch_sub(&io->active, 1) != 1)
		return;
	pthread_mutex_lock(&io->lock);
	waiters_notify(io);
	pthread_mutex_unlock(&io->lock);
}

static void deadline_set(struct timespec *ts, int64_t timeout_ns)
{
	uint64_t t = clock_ns();

	if (__builtin_add_overflow(t, (uint64_t)timeout_ns, &t) || t > INT64_MAX)
		t = INT64_MAX;
	ts->tv_sec = (time_t)(t / 1000000000u);
	ts->tv_nsec = (long)(t % 1000000000u);
}

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* Under io->lock.  Returns whether it came about. */
static bool waiter_wait(struct sluice_io *io, struct waiter *w, int64_t timeout_ns)
{
	struct waiter **at = &io->waiters;
	struct timespec until;
	bool ok;

	if (satisfied(io, w) || !timeout_ns)
		return satisfied(io, w);
	if (timeout_ns > 0)
		deadline_set(&until, timeout_ns);
	cond_init(&w->cond);
	w->next = io->waiters;
	io->waiters = w;
	while (!(ok = satisfied(io, w))) {
		if (timeout_ns < 0)
			pthread_cond_wait(&w->cond, &io->lock);
		else if (pthread_cond_timedwait(&w->cond, &io->lock, &until) == ETIMEDOUT) {
			ok = satisfied(io, w);
			break;
		}
	}
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	pthread_cond_destroy(&w->cond);
	return ok;
}

/* Under io->lock. */
static void done_collect(struct sluice_io *io, struct op *op)
{
	op_list_del(op);
	io->nr_done--;
	op_free(io, op);
}

int sluice_wait(struct sluice_io *io, uint64_t ticket, int64_t timeout_ns, struct sluice_done *done)
{
	NO_CANCEL;
	struct waiter w = {0};
	struct op *op;
	bool ok;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (!done)
		return -EINVAL;
	if (queue_current(io) && timeout_ns)
		return -EDEADLK;
	pthread_mutex_lock(&io->lock);
	op = op_find(io, ticket);
	if (!op) {
		pthread_mutex_unlock(&io->lock);
		return -ENOENT;
	}
	op->waiters++; /* sluice_wait_any() and _all() leave it to us */
	w.op = op;
	ok = waiter_wait(io, &w, timeout_ns);
	op->waiters--;
	if (!ok) {
		r = -ETIMEDOUT;
	} else {
		op_result(op, done);
		if (!op->waiters)
			done_collect(io, op);
	}
	pthread_mutex_unlock(&io->lock);
	return r;
}

int sluice_wait_any(struct sluice_io *io, struct sluice_done *done, unsigned min, unsigned max,
		    int64_t timeout_ns)
{
	NO_CANCEL;
	struct waiter w = {.need = min};
	struct op *op, *next;
	unsigned n = 0;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (min > max || (max && !done) || max > INT32_MAX)
		return -EINVAL;
	if (queue_current(io) && timeout_ns && min)
		return -EDEADLK;
	pthread_mutex_lock(&io->lock);
	if (min)
		waiter_wait(io, &w, timeout_ns);
	for (op = io->done.next; op != &io->done && n < max; op = next) {
		next = op->next;
		if (op->waiters)
			continue;
		op_result(op, &done[n++]);
		done_collect(io, op);
	}
	pthread_mutex_unlock(&io->lock);
	return (int)n;
}

static void add_up(struct sluice_summary *sum, const struct op *op)
{
	struct sluice_done done;

	op_result(op, &done);
	sum->ops++;
	sum->bytes += done.bytes;
	if (done.res >= 0)
		return;
	sum->failed++;
	if (sum->first)
		return;
	sum->first = done.res;
	snprintf(sum->msg, sizeof(sum->msg), "%s", done.msg);
}

int sluice_wait_all(struct sluice_io *io, int64_t timeout_ns, struct sluice_summary *sum)
{
	NO_CANCEL;
	struct sluice_summary ignored, *to = sum ? sum : &ignored;
	struct waiter w = {0};
	struct op *op, *next;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (queue_current(io) && timeout_ns)
		return -EDEADLK;
	pthread_mutex_lock(&io->lock);
	if (!waiter_wait(io, &w, timeout_ns)) {
		pthread_mutex_unlock(&io->lock);
		return -ETIMEDOUT;
	}
	memset(to, 0, sizeof(*to));
	for (op = io->done.next; op != &io->done; op = next) {
		next = op->next;
		if (op->waiters)
			continue;
		add_up(to, op);
		done_collect(io, op);
	}
	pthread_mutex_unlock(&io->lock);
	return 0;
}

int sluice_cancel(struct sluice_io *io, uint64_t ticket)
{
	NO_CANCEL;
	bool over = false;
	struct op *op;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	pthread_mutex_lock(&io->lock);
	op = op_find(io, ticket);
	if (!op) {
		r = -ENOENT;
	} else if (op->state != OP_PENDING) {
		r = -EALREADY;
	} else {
		op->cancelled = true;
		op->stop = min_u64(op->stop, op->cursor);
		op->cursor = op->len;
		pend_del(io, op);
		over = !op->inflight;
	}
	pthread_mutex_unlock(&io->lock);
	if (!over)
		return r;
	op_conclude(io, op);
	pthread_mutex_lock(&io->lock);
	op_publish(io, op);
	waiters_notify(io);
	pthread_mutex_unlock(&io->lock);
	op_finished(io);
	return 0;
}
