/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shards of a shared_io: futures that are done and not finalized, and waiting for them.
 *
 * A wait ends in slices, between which Python runs its signal handlers, so that Ctrl-C
 * works; a completion ends it at once.
 *
 * Whoever calls has a reference to the shared_io: by a handle, file or future that a call of
 * Python's is about.
 */
#include <errno.h>
#include <math.h>
#include <time.h>

#include "handle.h"

enum { SLICE_NS = 50 * 1000 * 1000 };

/* The calling thread's. */
struct thread_shard *shard_of_thread(struct shared_io *h)
{
	static atomic_uint threads;
	static __thread unsigned number; /* from 1 on */

	if (!number)
		number = atomic_fetch_add(&threads, 1) % SHARDS + 1;
	return &h->shards[number - 1];
}

/* ----------------------------------------------------------------- waiting */

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int parse_timeout(PyObject *timeout, int64_t *deadline)
{
	double seconds;

	*deadline = -1;
	if (!timeout || timeout == Py_None)
		return 0;
	seconds = PyFloat_AsDouble(timeout);
	if (PyErr_Occurred()) {
		PyErr_Format(PyExc_TypeError, "timeout: %R is neither a number of seconds nor None",
			     timeout);
		return -1;
	}
	if (isnan(seconds)) {
		PyErr_SetString(PyExc_ValueError, "timeout: nan is not a number of seconds");
		return -1;
	}
	if (seconds < 1e9) /* else: thirty years are for ever */
		*deadline = now_ns() + (seconds > 0 ? (int64_t)(seconds * 1e9) : 0);
	return 0;
}

struct wait_entry {
	struct wait_entry *next, **pprev;
	pthread_cond_t cond;
	bool (*condition)(struct shared_io *h, void *arg);
	void *arg;
};

static void wait_list_add(struct wait_list *list, struct wait_entry *w)
{
	w->next = list->first;
	if (w->next)
		w->next->pprev = &w->next;
	w->pprev = &list->first;
	list->first = w;
	atomic_fetch_add(&list->nr, 1);
}

static void wait_list_remove(struct wait_list *list, struct wait_entry *w)
{
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	atomic_fetch_sub(&list->nr, 1);
}

/* The change was stored before; a thread that waits counts itself before it looks. */
void shared_io_wake(struct shared_io *h, struct wait_list *list)
{
	if (!atomic_load(&list->nr))
		return;
	pthread_mutex_lock(&list->lock);
	for (struct wait_entry *w = list->first; w; w = w->next)
		if (w->condition(h, w->arg))
			pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&list->lock);
}

/* One slice; without the GIL. */
static bool wait_slice(struct shared_io *h, struct wait_list *list, struct wait_entry *w,
		       int64_t deadline)
{
	int64_t until = now_ns() + SLICE_NS;
	struct timespec t;
	bool yes;

	if (deadline >= 0 && deadline < until)
		until = deadline;
	t.tv_sec = until / 1000000000;
	t.tv_nsec = until % 1000000000;
	pthread_mutex_lock(&list->lock);
	wait_list_add(list, w);
	while (!(yes = w->condition(h, w->arg)) &&
	       pthread_cond_clockwait(&w->cond, &list->lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT)
		;
	wait_list_remove(list, w);
	pthread_mutex_unlock(&list->lock);
	return yes;
}

int shared_io_wait(struct shared_io *h, struct wait_list *list,
		   bool (*condition)(struct shared_io *h, void *arg), void *arg, int64_t deadline,
		   bool signals)
{
	struct wait_entry w = {
		.cond = PTHREAD_COND_INITIALIZER, .condition = condition, .arg = arg};
	bool yes;

	if (shared_io_is_inherited(h))
		return raise_inherited();
	do {
		Py_BEGIN_ALLOW_THREADS
		yes = wait_slice(h, list, &w, deadline);
		Py_END_ALLOW_THREADS
		if (!yes && signals && PyErr_CheckSignals() < 0)
			return -1;
	} while (!yes && (deadline < 0 || now_ns() < deadline));
	return yes;
}

/* ------------------------------------------------------------- completions */

/*
 * The library's reference goes with the list: nothing takes it from there before it is on it, and
 * the shared_io stays for as long as a callback runs, since closing waits for the I/O threads.
 */
void shared_io_push_done(struct future *f)
{
	struct shared_io *h = f->shared;
	struct thread_shard *l = f->shard;

	if (f->counted)
		atomic_fetch_add(&l->finished, 1);
	if (atomic_exchange(&f->state, FUTURE_COMPLETED) == FUTURE_WATCHED)
		dispatch_push(f);
	f->next = atomic_load_explicit(&l->done_stack, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&l->done_stack, &f->next, f))
		;
	shared_io_wake(h, &l->waiters);
	shared_io_wake(h, &h->waiters);
}

/* What is done, oldest first. */
static struct future *reverse_stack(struct future *f)
{
	struct future *first = NULL, *next;

	for (; f; f = next) {
		next = f->next;
		f->next = first;
		first = f;
	}
	return first;
}

/* One at a time: what finalizing runs may want to finalize the rest. */
static struct future *pop_done(struct thread_shard *l)
{
	struct future *f;

	if (!atomic_load(&l->done_queue) && !atomic_load(&l->done_stack))
		return NULL;
	pthread_mutex_lock(&l->waiters.lock);
	if (!l->done_queue)
		l->done_queue = reverse_stack(atomic_exchange(&l->done_stack, NULL));
	f = l->done_queue;
	if (f)
		l->done_queue = f->next;
	pthread_mutex_unlock(&l->waiters.lock);
	return f;
}

static void reap_shard(struct thread_shard *l)
{
	struct future *f;

	while ((f = pop_done(l))) {
		future_finalize(f);
		Py_DECREF(future_object(f));
	}
}

/* Threads that have ended leave futures behind. */
void shared_io_reap(struct shared_io *h)
{
	struct thread_shard *l;
	unsigned reaps;

	if (shared_io_is_inherited(h))
		return;
	l = shard_of_thread(h);
	reap_shard(l);
	reaps = atomic_fetch_add_explicit(&l->reaps, 1, memory_order_relaxed) + 1;
	if (reaps % 64 == 0)
		reap_shard(&h->shards[reaps / 64 % SHARDS]);
}

void shared_io_reap_all(struct shared_io *h)
{
	if (shared_io_is_inherited(h))
		return;
	for (unsigned i = 0; i < SHARDS; i++)
		reap_shard(&h->shards[i]);
}

bool shared_io_has_done(struct shared_io *h)
{
	for (unsigned i = 0; i < SHARDS; i++)
		if (atomic_load(&h->shards[i].done_stack) || atomic_load(&h->shards[i].done_queue))
			return true;
	return false;
}

void shared_io_add_pending(struct shared_io *h, struct future *f)
{
	f->shard = shard_of_thread(h);
	if (!f->late)
		atomic_fetch_add(&f->shard->pending, 1);
}

void shared_io_remove_pending(struct future *f)
{
	struct shared_io *h = f->shared;

	if (shared_io_is_inherited(
		    h)) /* the locks were perhaps held when this process was forked off */
		return;
	if (!f->late)
		atomic_fetch_sub(&f->shard->pending, 1);
	shared_io_wake(h, &f->shard->waiters);
	shared_io_wake(h, &h->waiters);
}

uint64_t shared_io_take_finished(struct shared_io *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SHARDS; i++)
		n += atomic_exchange(&h->shards[i].finished, 0);
	return n;
}

/* An operation is counted in one shard from beginning to end: it is not missed. */
uint64_t shared_io_pending(struct shared_io *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SHARDS; i++)
		n += atomic_load(&h->shards[i].pending);
	return n;
}

/* @arg: how many of them the waiting thread is finalizing itself. */
static bool work_or_nothing(struct shared_io *h, void *arg)
{
	return shared_io_has_done(h) || shared_io_pending(h) <= *(const unsigned *)arg;
}

int shared_io_drain(struct shared_io *h, int64_t deadline, bool signals)
{
	unsigned own = count_finalizing(h);
	int r;

	do {
		r = shared_io_wait(h, &h->waiters, work_or_nothing, &own, deadline, signals);
		if (r > 0)
			shared_io_reap_all(h);
	} while (r > 0 && shared_io_pending(h) > own);
	return r;
}
