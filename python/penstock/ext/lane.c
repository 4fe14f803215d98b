/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of a shared_io: what is done and not settled, and waiting for it.
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
struct lane *lane_here(struct shared_io *h)
{
	static atomic_uint threads;
	static __thread unsigned number; /* from 1 on */

	if (!number)
		number = atomic_fetch_add(&threads, 1) % LANES + 1;
	return &h->lanes[number - 1];
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

struct waiter {
	struct waiter *next, **place;
	pthread_cond_t told;
	bool (*over)(struct shared_io *h, void *arg);
	void *arg;
};

static void room_join(struct room *room, struct waiter *w)
{
	w->next = room->first;
	if (w->next)
		w->next->place = &w->next;
	w->place = &room->first;
	room->first = w;
	atomic_fetch_add(&room->nr, 1);
}

static void room_leave(struct room *room, struct waiter *w)
{
	*w->place = w->next;
	if (w->next)
		w->next->place = w->place;
	atomic_fetch_sub(&room->nr, 1);
}

/* What has changed was stored before; whoever joins counts itself before it looks. */
void shared_io_wake(struct shared_io *h, struct room *room)
{
	if (!atomic_load(&room->nr))
		return;
	pthread_mutex_lock(&room->lock);
	for (struct waiter *w = room->first; w; w = w->next)
		if (w->over(h, w->arg))
			pthread_cond_signal(&w->told);
	pthread_mutex_unlock(&room->lock);
}

/* One slice; without the GIL. */
static bool wait_slice(struct shared_io *h, struct room *room, struct waiter *w, int64_t deadline)
{
	int64_t until = now_ns() + SLICE_NS;
	struct timespec t;
	bool yes;

	if (deadline >= 0 && deadline < until)
		until = deadline;
	t.tv_sec = until / 1000000000;
	t.tv_nsec = until % 1000000000;
	pthread_mutex_lock(&room->lock);
	room_join(room, w);
	while (!(yes = w->over(h, w->arg)) &&
	       pthread_cond_clockwait(&w->told, &room->lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT)
		;
	room_leave(room, w);
	pthread_mutex_unlock(&room->lock);
	return yes;
}

int shared_io_wait(struct shared_io *h, struct room *room,
		   bool (*over)(struct shared_io *h, void *arg), void *arg, int64_t deadline,
		   bool signals)
{
	struct waiter w = {.told = PTHREAD_COND_INITIALIZER, .over = over, .arg = arg};
	bool yes;

	if (shared_io_is_inherited(h))
		return raise_inherited();
	do {
		Py_BEGIN_ALLOW_THREADS
		yes = wait_slice(h, room, &w, deadline);
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
	struct lane *l = f->lane;

	if (f->counted)
		atomic_fetch_add(&l->finished, 1);
	if (atomic_exchange(&f->stage, OVER) == WATCHED)
		dispatch_push(f);
	f->next = atomic_load_explicit(&l->done, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&l->done, &f->next, f))
		;
	shared_io_wake(h, &l->room);
	shared_io_wake(h, &h->room);
}

/* What is done, oldest first. */
static struct future *turn_round(struct future *f)
{
	struct future *first = NULL, *next;

	for (; f; f = next) {
		next = f->next;
		f->next = first;
		first = f;
	}
	return first;
}

/* One at a time: what settling runs may want to settle the rest. */
static struct future *take_done(struct lane *l)
{
	struct future *f;

	if (!atomic_load(&l->ready) && !atomic_load(&l->done))
		return NULL;
	pthread_mutex_lock(&l->room.lock);
	if (!l->ready)
		l->ready = turn_round(atomic_exchange(&l->done, NULL));
	f = l->ready;
	if (f)
		l->ready = f->next;
	pthread_mutex_unlock(&l->room.lock);
	return f;
}

static void reap(struct lane *l)
{
	struct future *f;

	while ((f = take_done(l))) {
		future_settle(f);
		Py_DECREF(future_object(f));
	}
}

/* Threads that have ended leave futures behind. */
void shared_io_reap(struct shared_io *h)
{
	struct lane *l;
	unsigned turns;

	if (shared_io_is_inherited(h))
		return;
	l = lane_here(h);
	reap(l);
	turns = atomic_fetch_add_explicit(&l->turns, 1, memory_order_relaxed) + 1;
	if (turns % 64 == 0)
		reap(&h->lanes[turns / 64 % LANES]);
}

void shared_io_reap_all(struct shared_io *h)
{
	if (shared_io_is_inherited(h))
		return;
	for (unsigned i = 0; i < LANES; i++)
		reap(&h->lanes[i]);
}

bool shared_io_has_done(struct shared_io *h)
{
	for (unsigned i = 0; i < LANES; i++)
		if (atomic_load(&h->lanes[i].done) || atomic_load(&h->lanes[i].ready))
			return true;
	return false;
}

void shared_io_add_pending(struct shared_io *h, struct future *f)
{
	f->lane = lane_here(h);
	if (!f->late)
		atomic_fetch_add(&f->lane->pending, 1);
}

void shared_io_remove_pending(struct future *f)
{
	struct shared_io *h = f->shared;

	if (shared_io_is_inherited(
		    h)) /* the locks were perhaps held when this process was forked off */
		return;
	if (!f->late)
		atomic_fetch_sub(&f->lane->pending, 1);
	shared_io_wake(h, &f->lane->room);
	shared_io_wake(h, &h->room);
}

uint64_t shared_io_take_finished(struct shared_io *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < LANES; i++)
		n += atomic_exchange(&h->lanes[i].finished, 0);
	return n;
}

/* An operation is counted in one lane from beginning to end: it is not missed. */
uint64_t shared_io_pending(struct shared_io *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < LANES; i++)
		n += atomic_load(&h->lanes[i].pending);
	return n;
}

/* @arg: how many of them the waiting thread is settling itself. */
static bool work_or_nothing(struct shared_io *h, void *arg)
{
	return shared_io_has_done(h) || shared_io_pending(h) <= *(const unsigned *)arg;
}

int shared_io_drain(struct shared_io *h, int64_t deadline, bool signals)
{
	unsigned here = settling_here(h);
	int r;

	do {
		r = shared_io_wait(h, &h->room, work_or_nothing, &here, deadline, signals);
		if (r > 0)
			shared_io_reap_all(h);
	} while (r > 0 && shared_io_pending(h) > here);
	return r;
}
