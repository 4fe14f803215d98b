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
	struct shared_io *first; /* of this process and of those before it */
} all_open = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Python lets no other thread of its own run at that moment: lists are whole, locks are free. */
static void count_fork(void)
{
	forks++;
	dispatch_forked();
}

int shared_io_setup(void)
{
	if (pthread_atfork(NULL, NULL, count_fork) == 0)
		return 0;
	PyErr_NoMemory();
	return -1;
}

bool shared_io_is_inherited(const struct shared_io *h)
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

static void add_open(struct shared_io *h)
{
	pthread_mutex_lock(&all_open.lock);
	h->next_open = all_open.first;
	if (h->next_open)
		h->next_open->pprev_open = &h->next_open;
	h->pprev_open = &all_open.first;
	all_open.first = h;
	pthread_mutex_unlock(&all_open.lock);
}

/* It is closed from here on. */
static struct penstock_io *remove_open(struct shared_io *h)
{
	struct penstock_io *io;

	pthread_mutex_lock(&all_open.lock);
	io = atomic_exchange(&h->io, NULL);
	*h->pprev_open = h->next_open;
	if (h->next_open)
		h->next_open->pprev_open = h->pprev_open;
	pthread_mutex_unlock(&all_open.lock);
	return io;
}

/* The one after @h, the first for NULL or where @h was closed meanwhile; referenced, or NULL. */
static struct shared_io *next_open(struct shared_io *h)
{
	struct shared_io *next;

	pthread_mutex_lock(&all_open.lock);
	next = h && h->io ? h->next_open : all_open.first;
	if (next)
		shared_io_get(next);
	pthread_mutex_unlock(&all_open.lock);
	return next;
}

struct shared_io *shared_io_new(const struct penstock_opts *opts)
{
	struct shared_io *h = aligned_alloc(alignof(struct shared_io), sizeof(*h));
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;
	int r;

	if (!h)
		return (struct shared_io *)PyErr_NoMemory();
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
	pthread_mutex_init(&h->waiters.lock, NULL);
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_init(&h->shards[i].waiters.lock, NULL);
	add_open(h);
	return h;
}

struct shared_io *shared_io_get(struct shared_io *h)
{
	atomic_fetch_add(&h->refs, 1);
	return h;
}

/* In a child of fork() a lock may have been held by a thread that is not there. */
void shared_io_lock(struct shared_io *h)
{
	if (!shared_io_is_inherited(h))
		pthread_mutex_lock(&h->waiters.lock);
}

void shared_io_unlock(struct shared_io *h)
{
	if (!shared_io_is_inherited(h))
		pthread_mutex_unlock(&h->waiters.lock);
}

void shared_io_put(struct shared_io *h)
{
	if (!h || atomic_fetch_sub(&h->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&h->waiters.lock);
	for (unsigned i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&h->shards[i].waiters.lock);
	free(h);
}

int shared_io_ensure_s3(struct shared_io *h, const struct path *p)
{
	PyObject *core;

	if (shared_io_check_open(h) < 0)
		return -1;
	if (h->s3 || !s3_is_object_path(p))
		return 0;
	core = s3_acquire_client();
	if (!core || shared_io_begin_call(h) < 0) {
		s3_release_client(core);
		return -1;
	}
	if (s3_set_client(h->io, core)) {
		h->s3 = core;
		core = NULL;
	}
	shared_io_end_call(h);
	s3_release_client(core); /* another thread was faster */
	return 0;
}

/* ------------------------------------------------------------------- calls */

int raise_inherited(void)
{
	raise_os(-ECHILD, "the handle was opened before fork() and belongs to the parent process",
		 NULL);
	return -1;
}

int shared_io_check_open(const struct shared_io *h)
{
	if (!h || !h->io || h->closing) {
		PyErr_SetString(PyExc_ValueError, "the handle is closed");
		return -1;
	}
	return shared_io_is_inherited(h) ? raise_inherited() : 0;
}

/* First in, then a look: whoever closes does it the other way round, so that one sees the other. */
bool shared_io_try_begin_call(struct shared_io *h)
{
	if (!h || !h->io || shared_io_is_inherited(h))
		return false;
	atomic_fetch_add(&shard_of_thread(h)->calls, 1);
	if (h->io && !h->closing)
		return true;
	shared_io_end_call(h);
	return false;
}

int shared_io_begin_call(struct shared_io *h)
{
	if (shared_io_try_begin_call(h))
		return 0;
	if (shared_io_check_open(h) == 0) /* it was being closed, and is not any more */
		PyErr_SetString(PyExc_ValueError, "the handle is closed");
	return -1;
}

void shared_io_end_call(struct shared_io *h)
{
	atomic_fetch_sub(&shard_of_thread(h)->calls, 1);
	if (h->closing)
		shared_io_wake(h, &h->waiters);
}

/* ---------------------------------------------------------------- failures */

void add_failure_note(PyObject *error, unsigned more)
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
static struct future *pop_failed(struct shared_io *h)
{
	struct future *f;

	shared_io_lock(h);
	f = h->failed;
	if (f)
		future_unlist(f);
	shared_io_unlock(h);
	return f;
}

int shared_io_raise_failures(struct shared_io *h)
{
	struct future *first = pop_failed(h), *f;
	PyObject *type, *error, *tb;
	unsigned more = 0;

	if (!first)
		return 0;
	for (; (f = pop_failed(h)); more++)
		Py_DECREF(future_object(f));
	future_raise(first);
	Py_DECREF(future_object(first));
	PyErr_Fetch(&type, &error, &tb);
	PyErr_NormalizeException(&type, &error, &tb);
	add_failure_note(error, more);
	PyErr_Restore(type, error, tb);
	return -1;
}

static void report_unseen(struct shared_io *h)
{
	if (shared_io_raise_failures(h) < 0)
		PyErr_WriteUnraisable(NULL);
}

/* ----------------------------------------------------------------- closing */

static bool no_calls(struct shared_io *h, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < SHARDS; i++)
		if (atomic_load(&h->shards[i].calls))
			return false;
	return true;
}

static int close_library(struct shared_io *h)
{
	struct penstock_io *io = h->io;
	struct penstock_err err = {0, ""};
	int r;

	memory_forget_handle(io);
	remove_open(h);
	Py_BEGIN_ALLOW_THREADS
	r = penstock_close(io, &err);
	Py_END_ALLOW_THREADS
	shared_io_reap_all(h); /* what was finalized while a callback put it there */
	registered_free_all(h);
	s3_release_client(atomic_exchange(&h->s3, NULL));
	if (r < 0) {
		raise_os(r, err.msg, NULL);
		return -1;
	}
	return 0;
}

static bool not_closing(struct shared_io *h, void *arg)
{
	(void)arg;
	return !h->closing;
}

/* 1: it is ours to close; 0: another's, or this thread's, further down. */
static bool begin_closing(struct shared_io *h, bool *ours)
{
	bool begun;

	shared_io_lock(h);
	begun = !h->closing;
	if (begun) {
		h->closer = pthread_self();
		h->closing = true;
	}
	*ours = pthread_equal(h->closer, pthread_self());
	shared_io_unlock(h);
	return begun;
}

static void end_closing(struct shared_io *h)
{
	h->closing = false;
	shared_io_wake(h, &h->waiters);
}

/* Of another process: nothing to wait for, and the lock is perhaps held for ever. */
static int close_inherited(struct shared_io *h)
{
	h->closing = true;
	close_library(h);
	PyErr_Clear();
	return 0;
}

static int close_now(struct shared_io *h, bool signals)
{
	int r;

	r = shared_io_wait(h, &h->waiters, no_calls, NULL, -1, signals);
	if (r > 0)
		r = shared_io_drain(h, -1, signals);
	if (r > 0 && h->io)
		r = close_library(h);
	end_closing(h);
	return r;
}

int shared_io_close(struct shared_io *h, bool signals)
{
	bool ours;

	if (!h || (!h->io && !h->closing))
		return 0;
	if (shared_io_is_inherited(h))
		return close_inherited(h);
	if (!begin_closing(h, &ours)) { /* code that runs while it is closed, or another thread */
		if (ours)
			return 0;
		return shared_io_wait(h, &h->waiters, not_closing, NULL, -1, signals) < 0 ? -1 : 0;
	}
	if (close_now(h, signals) < 0)
		return -1;
	return shared_io_raise_failures(h);
}

bool shared_io_any_pending(void)
{
	struct shared_io *h = next_open(NULL), *next;
	bool any = false;

	for (; h; h = next) {
		any = any || (!shared_io_is_inherited(h) && shared_io_pending(h));
		next = any ? NULL : next_open(h);
		shared_io_put(h);
	}
	return any;
}

void shared_io_drain_all(void)
{
	struct shared_io *h = next_open(NULL), *next;

	for (; h; h = next) {
		if (!shared_io_is_inherited(h)) {
			shared_io_drain(h, -1, false);
			report_unseen(h);
		}
		next = next_open(h); /* where it was closed meanwhile: begin again */
		shared_io_put(h);
	}
}
