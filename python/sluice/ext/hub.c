/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handle shares with its futures and files: the library's handle, what is done,
 * what failed and was not seen, and waiting for all of it.
 *
 * A wait ends in slices, between which Python runs its signal handlers, so that Ctrl-C
 * works; a completion ends it at once.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "handle.h"
#include "s3.h"

enum { SLICE_NS = 50 * 1000 * 1000 };

static unsigned forks;       /* fork()s between the first process and this one */
static struct hub *all_open; /* of this process and of those before it */

static void count_fork(void)
{
	forks++;
}

int hub_setup(void)
{
	if (pthread_atfork(NULL, NULL, count_fork) == 0)
		return 0;
	PyErr_NoMemory();
	return -1;
}

bool hub_foreign(const struct hub *h)
{
	return h->forks != forks;
}

/* -------------------------------------------------------------------- life */

static void raise_open(int code, const struct sluice_opts *opts, const struct sluice_err *err)
{
	bool unknown = code == -ENOTSUP && opts->engine && !strchr(opts->engine, ':') &&
		       !sluice_engine_descr(opts->engine);

	if (code == -EINVAL || code == -E2BIG || unknown)
		PyErr_SetString(PyExc_ValueError, err->msg);
	else
		raise_os(code, err->msg, NULL);
}

static void list_open(struct hub *h)
{
	h->next_open = all_open;
	if (all_open)
		all_open->place = &h->next_open;
	h->place = &all_open;
	all_open = h;
}

static void unlist(struct hub *h)
{
	*h->place = h->next_open;
	if (h->next_open)
		h->next_open->place = h->place;
}

struct hub *hub_new(const struct sluice_opts *opts)
{
	struct hub *h = PyMem_Calloc(1, sizeof(*h));
	struct sluice_err err = {0, ""};
	int r;

	if (!h)
		return (struct hub *)PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS
	r = sluice_open(&h->io, opts, &err);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		PyMem_Free(h);
		raise_open(r, opts, &err);
		return NULL;
	}
	h->refs = 1;
	h->forks = forks;
	h->last = &h->failed;
	h->done_last = &h->done;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, NULL);
	list_open(h);
	return h;
}

struct hub *hub_get(struct hub *h)
{
	h->refs++;
	return h;
}

void hub_put(struct hub *h)
{
	if (!h || --h->refs)
		return;
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
	PyMem_Free(h);
}

int hub_objects(struct hub *h, const struct path *p)
{
	return hub_check(h) < 0 ? -1 : objects_give(h->io, p, &h->objects);
}

/* ------------------------------------------------------------------- calls */

static int refuse_foreign(void)
{
	raise_os(-ECHILD, "the handle was opened before fork() and belongs to the parent process",
		 NULL);
	return -1;
}

int hub_check(const struct hub *h)
{
	if (!h || !h->io || h->closing) {
		PyErr_SetString(PyExc_ValueError, "the handle is closed");
		return -1;
	}
	return hub_foreign(h) ? refuse_foreign() : 0;
}

int hub_enter(struct hub *h)
{
	if (hub_check(h) < 0)
		return -1;
	h->busy++;
	return 0;
}

void hub_tell(struct hub *h)
{
	pthread_mutex_lock(&h->lock);
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

void hub_leave(struct hub *h)
{
	h->busy--;
	if (h->closing && !h->busy)
		hub_tell(h);
}

/* ----------------------------------------------------------------- waiting */

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int hub_deadline(PyObject *timeout, int64_t *deadline)
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

/* One slice; without the GIL. */
static bool wait_slice(struct hub *h, bool (*over)(struct hub *h, void *arg), void *arg,
		       int64_t deadline)
{
	int64_t until = now_ns() + SLICE_NS;
	struct timespec t;
	bool yes;

	if (deadline >= 0 && deadline < until)
		until = deadline;
	t.tv_sec = until / 1000000000;
	t.tv_nsec = until % 1000000000;
	pthread_mutex_lock(&h->lock);
	h->waiters++;
	while (!(yes = over(h, arg)) &&
	       pthread_cond_clockwait(&h->changed, &h->lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT)
		;
	h->waiters--;
	pthread_mutex_unlock(&h->lock);
	return yes;
}

int hub_wait(struct hub *h, bool (*over)(struct hub *h, void *arg), void *arg, int64_t deadline,
	     bool signals)
{
	bool yes;

	if (hub_foreign(h))
		return refuse_foreign();
	hub_get(h);
	do {
		Py_BEGIN_ALLOW_THREADS
		yes = wait_slice(h, over, arg, deadline);
		Py_END_ALLOW_THREADS
		if (!yes && signals && PyErr_CheckSignals() < 0) {
			hub_put(h);
			return -1;
		}
	} while (!yes && (deadline < 0 || now_ns() < deadline));
	hub_put(h);
	return yes;
}

/* ------------------------------------------------------------- completions */

void hub_done(struct future *f)
{
	struct hub *h = f->hub;
	bool watched;

	pthread_mutex_lock(&h->lock);
	*h->done_last = f;
	h->done_last = &f->next;
	h->finished += f->counted;
	watched = f->watched;
	atomic_store_explicit(&f->stage, OVER, memory_order_release);
	atomic_store_explicit(&h->any_done, true, memory_order_release);
	if (h->waiters)
		pthread_cond_broadcast(&h->changed);
	/* A watched future has a reference for the dispatcher; any other may be gone already. */
	pthread_mutex_unlock(&h->lock);
	if (watched)
		dispatch_push(f);
}

/* One at a time: what settling runs may want to settle the rest. */
static struct future *take_done(struct hub *h)
{
	struct future *f;

	pthread_mutex_lock(&h->lock);
	f = h->done;
	if (f)
		h->done = f->next;
	if (!h->done) {
		h->done_last = &h->done;
		atomic_store_explicit(&h->any_done, false, memory_order_relaxed);
	}
	pthread_mutex_unlock(&h->lock);
	return f;
}

void hub_reap(struct hub *h)
{
	struct future *f;

	if (hub_foreign(h) || !atomic_load_explicit(&h->any_done, memory_order_acquire))
		return;
	hub_get(h);
	while ((f = take_done(h))) {
		future_settle(f);
		Py_DECREF(future_object(f));
	}
	hub_put(h);
}

void hub_settled(struct hub *h)
{
	if (hub_foreign(h)) /* the lock was perhaps held when this process was forked off */
		return;
	pthread_mutex_lock(&h->lock);
	h->pending--;
	if (h->waiters)
		pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

uint64_t hub_take_finished(struct hub *h)
{
	uint64_t n;

	pthread_mutex_lock(&h->lock);
	n = h->finished;
	h->finished = 0;
	pthread_mutex_unlock(&h->lock);
	return n;
}

static bool work_or_nothing(struct hub *h, void *arg)
{
	(void)arg;
	return h->done || h->pending <= settling_here(h);
}

static uint64_t pending(struct hub *h)
{
	uint64_t n;

	pthread_mutex_lock(&h->lock);
	n = h->pending;
	pthread_mutex_unlock(&h->lock);
	return n;
}

int hub_drain(struct hub *h, int64_t deadline, bool signals)
{
	int r;

	hub_get(h);
	do {
		r = hub_wait(h, work_or_nothing, NULL, deadline, signals);
		if (r > 0)
			hub_reap(h);
	} while (r > 0 && pending(h) > settling_here(h));
	hub_put(h);
	return r;
}

/* ---------------------------------------------------------------- failures */

void hub_add_note(PyObject *error, unsigned more)
{
	PyObject *r, *note;

	if (!more)
		return;
	note = PyUnicode_FromFormat("%u more operation%s failed", more, more == 1 ? "" : "s");
	r = note ? PyObject_CallMethod(error, "add_note", "O", note) : NULL;
	if (!r)
		PyErr_Clear();
	Py_XDECREF(r);
	Py_XDECREF(note);
}

int hub_raise_unseen(struct hub *h)
{
	struct future *first = h->failed;
	PyObject *type, *error, *tb;
	unsigned more = 0;

	if (!first)
		return 0;
	Py_INCREF(future_object(first));
	future_mark_seen(first);
	for (; h->failed; more++)
		future_mark_seen(h->failed);
	future_raise(first);
	Py_DECREF(future_object(first));
	PyErr_Fetch(&type, &error, &tb);
	PyErr_NormalizeException(&type, &error, &tb);
	hub_add_note(error, more);
	PyErr_Restore(type, error, tb);
	return -1;
}

static void report_unseen(struct hub *h)
{
	if (hub_raise_unseen(h) < 0)
		PyErr_WriteUnraisable(NULL);
}

/* ----------------------------------------------------------------- closing */

static bool not_busy(struct hub *h, void *arg)
{
	(void)arg;
	/* Only whoever holds the GIL changes it, and tells. */
	return __atomic_load_n(&h->busy, __ATOMIC_RELAXED) == 0;
}

static int close_library(struct hub *h)
{
	struct sluice_io *io = h->io;
	struct sluice_err err = {0, ""};
	int r;

	memory_forget(io);
	h->io = NULL;
	unlist(h);
	Py_BEGIN_ALLOW_THREADS
	r = sluice_close(io, &err);
	Py_END_ALLOW_THREADS
	registered_forget(h);
	objects_leave(&h->objects);
	if (r < 0) {
		raise_os(r, err.msg, NULL);
		return -1;
	}
	return 0;
}

static bool not_closing(struct hub *h, void *arg)
{
	(void)arg;
	return !__atomic_load_n(&h->closing, __ATOMIC_RELAXED);
}

static void end_closing(struct hub *h)
{
	pthread_mutex_lock(&h->lock);
	h->closing = false;
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

/* Of another process: nothing to wait for, and the lock is perhaps held for ever. */
static int close_foreign(struct hub *h)
{
	h->closing = true;
	close_library(h);
	PyErr_Clear();
	return 0;
}

static int close_now(struct hub *h, bool signals)
{
	int r;

	h->closer = pthread_self();
	h->closing = true;
	r = hub_wait(h, not_busy, NULL, -1, signals);
	if (r > 0)
		r = hub_drain(h, -1, signals);
	if (r > 0)
		r = close_library(h);
	end_closing(h);
	return r;
}

int hub_close(struct hub *h, bool signals)
{
	if (!h || (!h->io && !h->closing))
		return 0;
	if (hub_foreign(h))
		return close_foreign(h);
	if (h->closing) { /* by code that runs while it is closed, or by another thread */
		if (pthread_equal(h->closer, pthread_self()))
			return 0;
		return hub_wait(h, not_closing, NULL, -1, signals) < 0 ? -1 : 0;
	}
	if (close_now(h, signals) < 0)
		return -1;
	return hub_raise_unseen(h);
}

bool hub_any_pending(void)
{
	for (struct hub *h = all_open; h; h = h->next_open)
		if (!hub_foreign(h) && pending(h))
			return true;
	return false;
}

void hub_finish_all(void)
{
	struct hub *h = all_open, *next;

	while (h) {
		hub_get(h);
		if (!hub_foreign(h)) {
			hub_drain(h, -1, false);
			report_unseen(h);
		}
		next = h->io ? h->next_open : all_open; /* closed meanwhile: begin again */
		hub_put(h);
		h = next;
	}
}
