/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handle shares with its futures and files: the library's handle, who is in it, what failed
 * and was not seen, and its end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "s3.h"

static unsigned forks; /* fork()s between the first process and this one */

static struct {
	pthread_mutex_t lock;
	struct hub *first; /* of this process and of those before it */
} all_open = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Python lets no other thread of its own run at that moment: lists are whole, locks are free. */
static void in_child(void)
{
	forks++;
	dispatch_forked();
}

int hub_setup(void)
{
	if (pthread_atfork(NULL, NULL, in_child) == 0)
		return 0;
	PyErr_NoMemory();
	return -1;
}

bool hub_foreign(const struct hub *h)
{
	return h->forks != forks;
}

/* -------------------------------------------------------------------- life */

static void raise_open(int code, const struct penstock_opts *opts, const struct penstock_err *err)
{
	bool unknown = code == -ENOTSUP && opts->engine && !strchr(opts->engine, ':') &&
		       !penstock_engine_descr(opts->engine);

	if (code == -EINVAL || code == -E2BIG || unknown)
		PyErr_SetString(PyExc_ValueError, err->msg);
	else
		raise_os(code, err->msg, NULL);
}

static void list_open(struct hub *h)
{
	pthread_mutex_lock(&all_open.lock);
	h->next_open = all_open.first;
	if (h->next_open)
		h->next_open->place = &h->next_open;
	h->place = &all_open.first;
	all_open.first = h;
	pthread_mutex_unlock(&all_open.lock);
}

/* It is closed from here on. */
static struct penstock_io *unlist(struct hub *h)
{
	struct penstock_io *io;

	pthread_mutex_lock(&all_open.lock);
	io = atomic_exchange(&h->io, NULL);
	*h->place = h->next_open;
	if (h->next_open)
		h->next_open->place = h->place;
	pthread_mutex_unlock(&all_open.lock);
	return io;
}

/* The one after @h, the first for NULL or where @h was closed meanwhile; referenced, or NULL. */
static struct hub *next_open(struct hub *h)
{
	struct hub *next;

	pthread_mutex_lock(&all_open.lock);
	next = h && h->io ? h->next_open : all_open.first;
	if (next)
		hub_get(next);
	pthread_mutex_unlock(&all_open.lock);
	return next;
}

struct hub *hub_new(const struct penstock_opts *opts)
{
	struct hub *h = aligned_alloc(alignof(struct hub), sizeof(*h));
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;
	int r;

	if (!h)
		return (struct hub *)PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS
	r = penstock_open(&io, opts, &err);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		free(h);
		raise_open(r, opts, &err);
		return NULL;
	}
	memset(h, 0, sizeof(*h));
	h->refs = 1;
	h->io = io;
	h->forks = forks;
	h->last = &h->failed;
	pthread_mutex_init(&h->room.lock, NULL);
	for (unsigned i = 0; i < LANES; i++)
		pthread_mutex_init(&h->lanes[i].room.lock, NULL);
	list_open(h);
	return h;
}

struct hub *hub_get(struct hub *h)
{
	atomic_fetch_add(&h->refs, 1);
	return h;
}

/* In a child of fork() a lock may have been held by a thread that is not there. */
void hub_lock(struct hub *h)
{
	if (!hub_foreign(h))
		pthread_mutex_lock(&h->room.lock);
}

void hub_unlock(struct hub *h)
{
	if (!hub_foreign(h))
		pthread_mutex_unlock(&h->room.lock);
}

void hub_put(struct hub *h)
{
	if (!h || atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&h->room.lock);
	for (unsigned i = 0; i < LANES; i++)
		pthread_mutex_destroy(&h->lanes[i].room.lock);
	free(h);
}

int hub_s3(struct hub *h, const struct path *p)
{
	PyObject *core;

	if (hub_check(h) < 0)
		return -1;
	if (h->s3 || !s3_wanted(p))
		return 0;
	core = s3_client();
	if (!core || hub_enter(h) < 0) {
		s3_leave(core);
		return -1;
	}
	if (s3_set(h->io, core)) {
		h->s3 = core;
		core = NULL;
	}
	hub_leave(h);
	s3_leave(core); /* another thread was faster */
	return 0;
}

/* ------------------------------------------------------------------- calls */

int hub_refuse_foreign(void)
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
	return hub_foreign(h) ? hub_refuse_foreign() : 0;
}

/* First in, then a look: whoever closes does it the other way round, so that one sees the other. */
bool hub_try_enter(struct hub *h)
{
	if (!h || !h->io || hub_foreign(h))
		return false;
	atomic_fetch_add(&lane_here(h)->busy, 1);
	if (h->io && !h->closing)
		return true;
	hub_leave(h);
	return false;
}

int hub_enter(struct hub *h)
{
	if (hub_try_enter(h))
		return 0;
	if (hub_check(h) == 0) /* it was being closed, and is not any more */
		PyErr_SetString(PyExc_ValueError, "the handle is closed");
	return -1;
}

void hub_leave(struct hub *h)
{
	atomic_fetch_sub(&lane_here(h)->busy, 1);
	if (h->closing)
		hub_tell(h, &h->room);
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

/* The oldest one, which counts as seen; with the list's reference, or NULL. */
static struct future *take_failed(struct hub *h)
{
	struct future *f;

	hub_lock(h);
	f = h->failed;
	if (f)
		future_unlist(f);
	hub_unlock(h);
	return f;
}

int hub_raise_unseen(struct hub *h)
{
	struct future *first = take_failed(h), *f;
	PyObject *type, *error, *tb;
	unsigned more = 0;

	if (!first)
		return 0;
	for (; (f = take_failed(h)); more++)
		Py_DECREF(future_object(f));
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
	for (unsigned i = 0; i < LANES; i++)
		if (atomic_load(&h->lanes[i].busy))
			return false;
	return true;
}

static int close_library(struct hub *h)
{
	struct penstock_io *io = h->io;
	struct penstock_err err = {0, ""};
	int r;

	memory_forget(io);
	unlist(h);
	Py_BEGIN_ALLOW_THREADS
	r = penstock_close(io, &err);
	Py_END_ALLOW_THREADS
	hub_reap_all(h); /* what was settled while a callback put it there */
	registered_forget(h);
	s3_leave(atomic_exchange(&h->s3, NULL));
	if (r < 0) {
		raise_os(r, err.msg, NULL);
		return -1;
	}
	return 0;
}

static bool not_closing(struct hub *h, void *arg)
{
	(void)arg;
	return !h->closing;
}

/* 1: it is ours to close; 0: another's, or this thread's, further down. */
static bool begin_closing(struct hub *h, bool *ours)
{
	bool begun;

	hub_lock(h);
	begun = !h->closing;
	if (begun) {
		h->closer = pthread_self();
		h->closing = true;
	}
	*ours = pthread_equal(h->closer, pthread_self());
	hub_unlock(h);
	return begun;
}

static void end_closing(struct hub *h)
{
	h->closing = false;
	hub_tell(h, &h->room);
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

	r = hub_wait(h, &h->room, not_busy, NULL, -1, signals);
	if (r > 0)
		r = hub_drain(h, -1, signals);
	if (r > 0 && h->io)
		r = close_library(h);
	end_closing(h);
	return r;
}

int hub_close(struct hub *h, bool signals)
{
	bool ours;

	if (!h || (!h->io && !h->closing))
		return 0;
	if (hub_foreign(h))
		return close_foreign(h);
	if (!begin_closing(h, &ours)) { /* code that runs while it is closed, or another thread */
		if (ours)
			return 0;
		return hub_wait(h, &h->room, not_closing, NULL, -1, signals) < 0 ? -1 : 0;
	}
	if (close_now(h, signals) < 0)
		return -1;
	return hub_raise_unseen(h);
}

bool hub_any_pending(void)
{
	struct hub *h = next_open(NULL), *next;
	bool any = false;

	for (; h; h = next) {
		any = any || (!hub_foreign(h) && hub_pending(h));
		next = any ? NULL : next_open(h);
		hub_put(h);
	}
	return any;
}

void hub_finish_all(void)
{
	struct hub *h = next_open(NULL), *next;

	for (; h; h = next) {
		if (!hub_foreign(h)) {
			hub_drain(h, -1, false);
			report_unseen(h);
		}
		next = next_open(h); /* where it was closed meanwhile: begin again */
		hub_put(h);
	}
}
