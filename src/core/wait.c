/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results and who waits for them.  A finished operation stands on the done list of its
 * submitter until somebody collects it.  Who waits for a ticket stands on that submitter's list of
 * waiters; who waits for anything or for everything, on the handle's.  Each is woken only
 * when what it waits for has come about.
 *
 * A thread can be cancelled where it sleeps, and nowhere else in here: so only those who are
 * about to sleep pay for NO_CANCEL, not those who find what they want.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "core/queue.h"
#include "core/spin.h"
#include "core/submitter.h"

enum { SCAN_EVERY = 16, SCAN_NS = 1000000, SLICE_MAX_NS = 64 * STUCK_NS };

/* --------------------------------------------------------------- sleeping */

/* How long to sleep, and in which slices: after each, what waits before a stuck queue is shared. */
struct wait_time {
	uint64_t end; /* UINT64_MAX: none */
	uint64_t slice;
};

static struct wait_time wait_begin(int64_t timeout_ns)
{
	uint64_t end = timeout_ns < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ns;

	return (struct wait_time){end, STUCK_NS};
}

static void waiter_add(struct result_waiter **list, struct result_waiter *w)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->cond, &attr);
	pthread_condattr_destroy(&attr);
	while (*list) /* first come, first served */
		list = &(*list)->next;
	w->next = NULL;
	*list = w;
}

static void waiter_del(struct result_waiter **list, struct result_waiter *w)
{
	while (*list != w)
		list = &(*list)->next;
	*list = w->next;
	pthread_cond_destroy(&w->cond);
}

/* Until it is signalled, or the slice is over.  False: the time is over. */
static bool waiter_sleep(struct result_waiter *w, pthread_mutex_t *lock, struct wait_time *t)
{
	uint64_t until = min_u64(clock_ns() + t->slice, min_u64(t->end, INT64_MAX));
	struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};

	if (pthread_cond_timedwait(&w->cond, lock, &ts) != ETIMEDOUT)
		return true;
	t->slice = min_u64(8 * t->slice, SLICE_MAX_NS);
	w->stuck = true;
	return clock_ns() < t->end;
}

static bool submitter_has_any(void *arg)
{
	return mpsc_stack_any(&((struct submitter *)arg)->results_in);
}

static unsigned submitter_spin_ns(struct submitter *submitter, int64_t timeout_ns)
{
	unsigned ns = atomic_load_explicit(&submitter->spin_ns, memory_order_relaxed);

	return timeout_ns >= 0 && timeout_ns < ns ? 0 : ns;
}

static void submitter_learn_spin(struct submitter *submitter, uint64_t start)
{
	unsigned ns = atomic_load_explicit(&submitter->spin_ns, memory_order_relaxed);

	ns = spin_learn(ns, clock_ns() - start);
	atomic_store_explicit(&submitter->spin_ns, ns, memory_order_relaxed);
}

/* Some I/O thread may be in a callback that does not end. */
static void queues_rescue(struct penstock_io *io, struct result_waiter *w)
{
	w->stuck = false;
	for (unsigned i = 0; i < io->nr_queues; i++)
		queue_rescue(io, &io->queues[i]);
}

/* ------------------------------------------------------------ by a ticket */

void submitter_wake_waiters(struct submitter *submitter)
{
	pthread_mutex_lock(&submitter->lock);
	submitter_take_results(submitter);
	for (struct result_waiter *w = submitter->waiters; w; w = w->next)
		if (atomic_load(&w->op->state) == OP_DONE)
			pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&submitter->lock);
}

/* Under submitter->lock, which is let go meanwhile.  Returns whether it came about. */
static bool wait_for_op(struct penstock_io *io, struct submitter *submitter, struct op *op,
			int64_t timeout_ns)
{
	NO_CANCEL;
	struct wait_time t = wait_begin(timeout_ns);
	struct result_waiter w = {.op = op};
	uint64_t start = clock_ns();
	bool in_time = true;

	pthread_mutex_unlock(&submitter->lock);
	spin_until(submitter_spin_ns(submitter, timeout_ns), submitter_has_any, submitter);
	pthread_mutex_lock(&submitter->lock);
	waiter_add(&submitter->waiters, &w);
	sleepers_add(&submitter->sleepers);
	submitter_take_results(submitter);
	while (atomic_load(&op->state) != OP_DONE && in_time) {
		in_time = waiter_sleep(&w, &submitter->lock, &t);
		if (w.stuck) {
			pthread_mutex_unlock(&submitter->lock);
			queues_rescue(io, &w);
			pthread_mutex_lock(&submitter->lock);
		}
		submitter_take_results(submitter);
	}
	atomic_fetch_sub(&submitter->sleepers, 1);
	waiter_del(&submitter->waiters, &w);
	submitter_learn_spin(submitter, start);
	return atomic_load(&op->state) == OP_DONE;
}

int penstock_wait(struct penstock_io *io, uint64_t ticket, int64_t timeout_ns,
		  struct penstock_done *done)
{
	struct submitter *submitter;
	struct op *op;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (!done)
		return -EINVAL;
	if (timeout_ns && queue_current(io))
		return -EDEADLK;
	submitter = submitter_of_ticket(io, ticket);
	if (!submitter)
		return -ENOENT;
	pthread_mutex_lock(&submitter->lock);
	submitter_take_results(submitter);
	op = submitter_find_op(submitter, ticket);
	if (!op) {
		pthread_mutex_unlock(&submitter->lock);
		return -ENOENT;
	}
	/* penstock_wait_any() and _all() leave it to us. */
	if (!op->waiters++ && atomic_load(&op->state) == OP_DONE)
		submitter_claim(submitter);
	if (atomic_load(&op->state) != OP_DONE &&
	    (!timeout_ns || !wait_for_op(io, submitter, op, timeout_ns)))
		r = -ETIMEDOUT;
	op->waiters--;
	if (!r) {
		op_result(op, done);
		if (!op->waiters)
			submitter_collect(submitter, op);
	}
	pthread_mutex_unlock(&submitter->lock);
	return r;
}

/* ------------------------------------------- whichever, and all of them */

/* Under io->lock.  Each result is for one, as far as there are enough. */
static void waiters_wake_locked(struct penstock_io *io)
{
	bool quiet = submitters_quiet(io);
	uint64_t available = submitters_nr_results(io);

	for (struct result_waiter *w = io->waiters; w; w = w->next) {
		if (!w->woken && !quiet && (!w->need || available < w->need))
			continue;
		available -= min_u64(available, w->need);
		if (w->woken)
			continue;
		w->woken = true;
		pthread_cond_signal(&w->cond);
	}
}

void waiters_wake(struct penstock_io *io)
{
	if (!atomic_load(&io->nr_waiters))
		return;
	pthread_mutex_lock(&io->lock);
	waiters_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
}

/*
 * Sleep until woken.  False: the time is over.  Who has been woken before and found too little,
 * since somebody else was faster, was counted on to take it: what there is may be enough for the
 * next.
 */
static bool wait_for_wake(struct penstock_io *io, struct result_waiter *w, struct wait_time *t)
{
	bool in_time = true;

	pthread_mutex_lock(&io->lock);
	if (w->woken_in_vain)
		waiters_wake_locked(io);
	while (!w->woken && in_time) {
		in_time = waiter_sleep(w, &io->lock, t);
		if (!w->stuck)
			continue;
		pthread_mutex_unlock(&io->lock);
		queues_rescue(io, w);
		pthread_mutex_lock(&io->lock);
	}
	w->woken_in_vain = w->woken;
	w->woken = false;
	pthread_mutex_unlock(&io->lock);
	return in_time;
}

static void waiter_register(struct penstock_io *io, struct result_waiter *w)
{
	pthread_mutex_lock(&io->lock);
	waiter_add(&io->waiters, w);
	atomic_fetch_add(&io->nr_waiters, 1);
	pthread_mutex_unlock(&io->lock);
}

/* What it leaves behind may be for another. */
static void waiter_unregister(struct penstock_io *io, struct result_waiter *w)
{
	pthread_mutex_lock(&io->lock);
	atomic_fetch_sub(&io->nr_waiters, 1);
	waiter_del(&io->waiters, w);
	waiters_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
}

static const struct result_filter any_result = {NULL, UINT64_MAX};

/*
 * At least @min of this submitter, or none.  *@soon: as many, and one at least, are there or under
 * way; then it may be fewer where @late.
 */
static unsigned collect_own(struct submitter *submitter, struct penstock_done *done, unsigned min,
			    unsigned max, bool late, bool *soon)
{
	struct op *op, *next;
	unsigned n = 0;

	pthread_mutex_lock(&submitter->lock);
	submitter_take_results(submitter);
	*soon = atomic_load(&submitter->submitted) - submitter->drained + submitter->nr_unclaimed >=
		max_u64(min, 1);
	if (submitter->nr_unclaimed < min && !(late && *soon))
		max = 0;
	for (op = submitter->done.next; op != &submitter->done && n < max; op = next) {
		next = op->next;
		if (op->waiters)
			continue;
		op_result(op, &done[n++]);
		submitter_claim(submitter);
		submitter_collect(submitter, op);
	}
	pthread_mutex_unlock(&submitter->lock);
	return n;
}

/*
 * Of all submitters, in the order in which they came about: at least @min, or none.  Fewer where
 * *@over is set, which it is where there is enough, or nothing to wait for.
 */
static unsigned collect_any(struct penstock_io *io, const struct result_filter *filter,
			    struct penstock_done *done, unsigned min, unsigned max, bool *over)
{
	bool quiet;
	unsigned submitters = submitters_lock(io, &quiet), n = 0;
	struct op *op;

	*over |= (quiet && !filter->own) || submitters_have_results(io, submitters, filter, min);
	while (*over && n < max && (op = submitters_oldest_result(io, submitters, filter))) {
		op_result(op, &done[n++]);
		submitter_claim(op->submitter);
		submitter_collect(op->submitter, op);
	}
	submitters_unlock(io, submitters);
	return n;
}

/*
 * Is it time to look at the others' results, too?  They might never be collected else.  But who
 * takes what another is about to collect makes that one look around as well: only what has lain
 * there for a while.
 */
static bool is_time_to_scan(struct thread_cache *cache, struct result_filter *filter)
{
	uint64_t now = clock_ns();

	if (now - cache->scanned_at < SCAN_NS)
		return false;
	cache->scanned_at = now;
	*filter = (struct result_filter){cache->submitter, now - SCAN_NS};
	return true;
}

/* Look for a while whether enough comes back here. */
static unsigned collect_soon(struct submitter *submitter, struct penstock_done *done, unsigned min,
			     unsigned max, int64_t timeout_ns)
{
	uint64_t end = clock_ns() + submitter_spin_ns(submitter, timeout_ns), now;
	bool soon = true;
	unsigned n = 0;

	while (!n && soon && (now = clock_ns()) < end)
		if (spin_until((unsigned)(end - now), submitter_has_any, submitter))
			n = collect_own(submitter, done, min, max, false, &soon);
	return n;
}

static unsigned wait_for_any(struct penstock_io *io, struct penstock_done *done, unsigned min,
			     unsigned max, int64_t timeout_ns)
{
	NO_CANCEL;
	struct wait_time t = wait_begin(timeout_ns);
	struct result_waiter w = {.need = min};
	bool over, in_time = true;
	unsigned n;

	waiter_register(io, &w);
	while (over = !in_time, n = collect_any(io, &any_result, done, min, max, &over), !over)
		in_time = wait_for_wake(io, &w, &t);
	waiter_unregister(io, &w);
	return n;
}

/* A thread's own results first: it need not meet anybody for them. */
static unsigned wait_collect(struct penstock_io *io, struct thread_cache *cache,
			     struct penstock_done *done, unsigned min, unsigned max,
			     int64_t timeout_ns)
{
	bool alone = atomic_load(&io->nr_submitters) == 1, late = !timeout_ns || !min;
	bool soon, over = false;
	struct result_filter left;
	uint64_t start;
	unsigned n = 0;

	if (!alone && ++cache->nr_collects % SCAN_EVERY == 0 && is_time_to_scan(cache, &left))
		n = collect_any(io, &left, done, min, max, &over);
	if (!n)
		n = collect_own(cache->submitter, done, min, max, late, &soon);
	if (n || (alone && !min))
		return n;
	over = late;
	if (!soon)
		n = collect_any(io, &any_result, done, min, max, &over);
	else if (late && !alone && is_time_to_scan(cache, &left))
		n = collect_any(io, &left, done, min, max, &over);
	if (over)
		return n;
	start = clock_ns();
	n = soon ? collect_soon(cache->submitter, done, min, max, timeout_ns) : 0;
	if (!n)
		n = wait_for_any(io, done, min, max, timeout_ns);
	submitter_learn_spin(cache->submitter, start);
	return n;
}

int penstock_wait_any(struct penstock_io *io, struct penstock_done *done, unsigned min,
		      unsigned max, int64_t timeout_ns)
{
	struct thread_cache *cache;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (min > max || (max && !done) || max > INT32_MAX)
		return -EINVAL;
	if (timeout_ns && min && queue_current(io))
		return -EDEADLK;
	cache = thread_cache_get(io);
	return cache ? (int)wait_collect(io, cache, done, min, max, timeout_ns) : -ENOMEM;
}

static void add_up(struct penstock_summary *sum, const struct op *op)
{
	struct penstock_done done;

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

static bool wait_for_quiet(struct penstock_io *io, int64_t timeout_ns)
{
	struct wait_time t = wait_begin(timeout_ns);
	struct result_waiter w = {0};
	bool in_time = true;

	waiter_register(io, &w);
	while (in_time && !submitters_quiet(io))
		in_time = wait_for_wake(io, &w, &t);
	waiter_unregister(io, &w);
	return submitters_quiet(io) || in_time;
}

int penstock_wait_all(struct penstock_io *io, int64_t timeout_ns, struct penstock_summary *sum)
{
	NO_CANCEL;
	struct penstock_summary ignored, *to = sum ? sum : &ignored;
	struct op *op;
	unsigned submitters;
	bool quiet;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (timeout_ns && queue_current(io))
		return -EDEADLK;
	if (!submitters_quiet(io) && (!timeout_ns || !wait_for_quiet(io, timeout_ns)))
		return -ETIMEDOUT;
	memset(to, 0, sizeof(*to));
	submitters = submitters_lock(io, &quiet);
	while ((op = submitters_oldest_result(io, submitters, &any_result))) {
		add_up(to, op);
		submitter_claim(op->submitter);
		submitter_collect(op->submitter, op);
	}
	submitters_unlock(io, submitters);
	return 0;
}

/* ------------------------------------------------------------- cancelling */

/* Under io->lock: 1: the operation is over; 0: its queue has to see to it. */
static int cancel_locked(struct penstock_io *io, struct op *op, struct queue **queue)
{
	unsigned pending = OP_PENDING;

	*queue = op->queue;
	if (*queue)
		return atomic_compare_exchange_strong(&op->state, &pending, OP_CANCELLED)
			       ? 0
			       : -EALREADY;
	if (atomic_load(&op->state) != OP_PENDING)
		return -EALREADY;
	pending_del(io, op);
	op_cancel(op);
	return !op->inflight;
}

int penstock_cancel(struct penstock_io *io, uint64_t ticket)
{
	NO_CANCEL;
	struct queue *queue = NULL;
	struct submitter *submitter;
	struct op *op;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	submitter = submitter_of_ticket(io, ticket);
	if (!submitter)
		return -ENOENT;
	pthread_mutex_lock(&submitter->lock);
	submitter_take_results(submitter);
	op = submitter_find_op(submitter, ticket);
	if (op) {
		pthread_mutex_lock(&io->lock);
		r = cancel_locked(io, op, &queue);
		pthread_mutex_unlock(&io->lock);
	}
	pthread_mutex_unlock(&submitter->lock);
	if (!op)
		return -ENOENT;
	if (r == 0 && queue) {
		atomic_exchange(&queue->has_cancelled, true); /* see sleep_state.h */
		queue_wake(queue);
	}
	if (r <= 0)
		return r;
	op->next = NULL;
	ops_finish(io, NULL, op);
	return 0;
}
