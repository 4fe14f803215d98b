/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock.Future: one operation, from submission to result.
 *
 * While it is under way the library has a reference.  It is *completed* in an I/O
 * thread, which cannot touch Python objects, and is *finalized* by the next thread of
 * Python that looks: what was read is put where it belongs, references are dropped,
 * a failure is remembered until somebody sees it.  All that users see is finalized.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"

enum { UNPACK_WITHOUT_GIL = 256 * 1024 }; /* bytes */

/* ------------------------------------------------------------- submission */

static void on_done(void *arg, const struct penstock_done *d)
{
	struct future *f = arg;

	f->res = d->res;
	f->flags = d->flags;
	if (d->res < 0)
		f->msg = strdup(d->msg);
	shared_io_push_done(f);
}

/* What only an open handle knows: the file, and whether the engine knows the memory. */
static int bind_to_handle(struct shared_io *h, struct future *f, struct penstock_op *op)
{
	const struct buffer *t = &f->buffer;

	if (f->path.file) {
		op->file = file_use(f->path.file, h);
		if (!op->file)
			return -1;
	}
	if (!t->nr_iov && !t->staged && !t->device && t->bytes)
		memory_register(t->addr, t->bytes, h->io);
	return 0;
}

static void unuse_path(struct future *f)
{
	if (f->path.file)
		file_unuse(f->path.file);
}

struct future *future_make(struct shared_io *h, PyObject *obj, PyObject *path,
			   const struct future_spec_args *a, struct penstock_op *op)
{
	PyTypeObject *type = module_state()->future_type;
	struct future *f = (struct future *)PyType_GenericAlloc(type, 0);

	if (!f)
		return NULL;
	f->shared = shared_io_get(h);
	f->opcode = a->opcode;
	f->offset = a->offset;
	*op = (struct penstock_op){.opcode = a->opcode,
				   .flags = a->flags,
				   .offset = a->offset,
				   .on_done = on_done,
				   .arg = f};
	if (path_take(&f->path, path) < 0 || shared_io_ensure_s3(h, &f->path) < 0 ||
	    buffer_from_object(&f->buffer, obj, a->opcode == PENSTOCK_READ, a->length) < 0) {
		Py_DECREF(future_object(f));
		return NULL;
	}
	op->path = f->path.path;
	op->fd = f->path.fd;
	op->buf = f->buffer.addr;
	op->len = f->buffer.bytes;
	op->iov = f->buffer.iov;
	op->nr_iov = f->buffer.nr_iov;
	if (f->buffer.ordered) {
		op->flags |= PENSTOCK_OP_STREAM;
		op->stream = f->buffer.stream;
	}
	return f;
}

/* From here on it is pending; the reference is the library's. */
static void future_begin(struct shared_io *h, struct future *f)
{
	Py_INCREF(future_object(f));
	f->late = dispatch_is_late();
	shared_io_add_pending(h, f);
}

/* The library would not take it; its message does not say what for. */
static void record_refusal(struct future *f, int code, const char *why)
{
	char text[640];

	snprintf(text, sizeof(text), "%s (%s of %llu bytes at offset %llu)", why,
		 f->opcode == PENSTOCK_READ ? "read" : "write", (unsigned long long)f->buffer.bytes,
		 (unsigned long long)f->offset);
	f->res = code;
	f->refused = true;
	f->counted = false;
	f->msg = strdup(text);
}

/* Between shared_io_begin_call() and shared_io_end_call(), by the calling thread only; 0, or -1
 * with an exception. */
static int begin_all(struct shared_io *h, struct future **f, struct penstock_op *ops, unsigned n)
{
	if (shared_io_begin_call(h) < 0)
		return -1;
	for (unsigned i = 0; i < n; i++)
		if (bind_to_handle(h, f[i], &ops[i]) < 0) {
			while (i--)
				unuse_path(f[i]);
			shared_io_end_call(h);
			shared_io_wake(h, &h->waiters);
			return -1;
		}
	for (unsigned i = 0; i < n; i++)
		future_begin(h, f[i]);
	return 0;
}

int futures_submit(struct shared_io *h, struct future **f, struct penstock_op *ops, unsigned n)
{
	struct penstock_err err;
	int r;

	if (begin_all(h, f, ops, n) < 0)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	for (unsigned i = 0; i < n; i += (unsigned)r) {
		r = penstock_submit(h->io, ops + i, n - i, NULL, &err);
		if (r <= 0) {
			record_refusal(f[i], r, err.msg);
			shared_io_push_done(f[i]);
			r = 1;
		}
	}
	Py_END_ALLOW_THREADS
	shared_io_end_call(h);
	return 0;
}

int future_run(struct shared_io *h, struct future *f, struct penstock_op *op)
{
	struct penstock_done done;
	struct penstock_err err;
	int r;

	if (begin_all(h, &f, op, 1) < 0)
		return -1;
	op->on_done = NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_run(h->io, op, &done, &err);
	if (r < 0) {
		record_refusal(f, r, err.msg);
	} else {
		f->res = done.res;
		f->flags = done.flags;
		f->msg = done.res < 0 ? strdup(done.msg) : NULL;
	}
	Py_END_ALLOW_THREADS
	shared_io_end_call(h);
	atomic_store(&f->state, FUTURE_COMPLETED);
	future_finalize(f);
	Py_DECREF(future_object(f));
	return 0;
}

/* --------------------------------------------------------------- finalizing */

static bool is_finalized(struct shared_io *h, void *arg)
{
	struct future *f = arg;

	(void)h;
	return f->state == FUTURE_FINALIZED;
}

static void future_unpack(struct future *f)
{
	PyObject *type, *tb;

	if (f->opcode != PENSTOCK_READ || f->res < 0)
		return;
	if (f->buffer.strided && f->res >= UNPACK_WITHOUT_GIL) {
		Py_BEGIN_ALLOW_THREADS
		buffer_unpack(&f->buffer, (uint64_t)f->res);
		Py_END_ALLOW_THREADS
	} else {
		buffer_unpack(&f->buffer, (uint64_t)f->res);
	}
	if (buffer_finish(&f->buffer, (uint64_t)f->res) < 0) {
		PyErr_Fetch(&type, &f->finish_error, &tb);
		PyErr_NormalizeException(&type, &f->finish_error, &tb);
		Py_XDECREF(type);
		Py_XDECREF(tb);
	}
}

static void remember_failure(struct shared_io *h, struct future *f)
{
	Py_INCREF(future_object(f));
	shared_io_lock(h);
	f->next_failed = NULL;
	f->pprev_failed = h->last;
	*h->last = f;
	h->last = &f->next_failed;
	shared_io_unlock(h);
}

void future_unlist(struct future *f)
{
	*f->pprev_failed = f->next_failed;
	if (f->next_failed)
		f->next_failed->pprev_failed = f->pprev_failed;
	else
		f->shared->last = f->pprev_failed;
	f->pprev_failed = NULL;
}

/* The caller has a reference. */
void future_mark_seen(struct future *f)
{
	bool listed;

	shared_io_lock(f->shared);
	listed = f->pprev_failed;
	if (listed)
		future_unlist(f);
	shared_io_unlock(f->shared);
	if (listed)
		Py_DECREF(future_object(f));
}

bool future_failed(const struct future *f)
{
	return f->res < 0 || f->finish_error;
}

static __thread struct finalizer *innermost_finalizer;

unsigned count_finalizing(const struct shared_io *h)
{
	unsigned n = 0;

	for (const struct finalizer *s = innermost_finalizer; s; s = s->outer)
		n += s->shared == h;
	return n;
}

static bool is_finalized_by_thread(const struct future *f)
{
	for (const struct finalizer *s = innermost_finalizer; s; s = s->outer)
		if (f->finalizer == s)
			return true;
	return false;
}

/* It is completed.  Another thread may be finalizing it, or this one, further down its stack. */
void future_finalize(struct future *f)
{
	struct shared_io *h = f->shared;
	struct finalizer frame = {innermost_finalizer, f->late ? NULL : h};
	enum future_state completed = FUTURE_COMPLETED;
	PyObject *type, *value, *tb;

	if (f->state == FUTURE_FINALIZED)
		return;
	if (!atomic_compare_exchange_strong(&f->state, &completed, FUTURE_FINALIZING)) {
		if (is_finalized_by_thread(f))
			return;
		if (!shared_io_is_inherited(h)) {
			shared_io_wait(h, &f->shard->waiters, is_finalized, f, -1, false);
		} else if (f->state !=
			   FUTURE_FINALIZED) { /* the thread that began to is one of the parent's */
			f->res = -ECHILD;
			f->state = FUTURE_FINALIZED;
		}
		return;
	}
	f->finalizer = innermost_finalizer = &frame;
	PyErr_Fetch(&type, &value, &tb);
	future_unpack(f);
	unuse_path(f);
	buffer_release(&f->buffer);
	Py_CLEAR(f->path.bytes);
	Py_CLEAR(f->path.file);
	if (future_failed(f))
		remember_failure(h, f);
	PyErr_Restore(type, value, tb);
	innermost_finalizer = frame.outer;
	f->finalizer = NULL;
	f->state = FUTURE_FINALIZED;
	shared_io_remove_pending(f);
}

static bool is_completed(struct shared_io *h, void *arg)
{
	struct future *f = arg;

	(void)h;
	return atomic_load_explicit(&f->state, memory_order_acquire) >= FUTURE_COMPLETED;
}

int future_wait(struct future *f, int64_t deadline, bool signals)
{
	int r = 1;

	if (f->state == FUTURE_FINALIZED)
		return 1;
	if (!is_completed(f->shared, f))
		r = shared_io_wait(f->shared, &f->shard->waiters, is_completed, f, deadline,
				   signals);
	if (r > 0) {
		future_finalize(f);
		shared_io_reap(f->shared);
	}
	return r;
}

/* ---------------------------------------------------------------- results */

PyObject *future_raise(struct future *f)
{
	if (f->finish_error) {
		PyErr_SetObject((PyObject *)Py_TYPE(f->finish_error), f->finish_error);
		return NULL;
	}
	return raise_os((int)f->res, f->msg ? f->msg : penstock_strerror((int)f->res),
			f->path.filename);
}

PyObject *future_outcome(struct future *f)
{
	if (!future_failed(f))
		return PyLong_FromLongLong(f->res);
	Py_INCREF(future_object(f));
	future_mark_seen(f);
	future_raise(f);
	Py_DECREF(future_object(f));
	return NULL;
}

/* Wait as result() and exception() do.  0, or -1 with an exception. */
static int wait_for_user(struct future *f, const char *function, PyObject *const *args,
			 Py_ssize_t nargs, PyObject *kwnames)
{
	static const char *const names[] = {"timeout", NULL};
	struct params p = {function, names, 1, 0};
	PyObject *timeout;
	int64_t deadline;
	int r;

	if (args_parse(&p, args, nargs, kwnames, &timeout) < 0 ||
	    parse_timeout(timeout, &deadline) < 0)
		return -1;
	r = future_wait(f, deadline, true);
	if (r == 0)
		PyErr_Format(PyExc_TimeoutError, "%s(): not finished within %S seconds", function,
			     timeout);
	return r > 0 ? 0 : -1;
}

static PyObject *result(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
	struct future *f = (struct future *)self;

	if (wait_for_user(f, "result", args, nargs, kwnames) < 0)
		return NULL;
	return future_outcome(f);
}

static PyObject *exception(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	struct future *f = (struct future *)self;
	PyObject *type, *error, *tb;

	if (wait_for_user(f, "exception", args, nargs, kwnames) < 0)
		return NULL;
	if (!future_failed(f))
		Py_RETURN_NONE;
	future_mark_seen(f);
	future_raise(f);
	PyErr_Fetch(&type, &error, &tb);
	PyErr_NormalizeException(&type, &error, &tb);
	Py_XDECREF(type);
	Py_XDECREF(tb);
	return error;
}

static bool future_poll(struct future *f)
{
	if (is_completed(f->shared, f))
		future_finalize(f);
	return f->state == FUTURE_FINALIZED;
}

static PyObject *done(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(future_poll((struct future *)self));
}

static PyObject *running(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(!future_poll((struct future *)self));
}

static PyObject *return_false(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	Py_RETURN_FALSE;
}

static PyObject *get_ways(PyObject *self, void *unused)
{
	static const struct {
		uint32_t flag;
		const char *word;
	} words[] = {
		{PENSTOCK_DONE_DIRECT, "direct"},   {PENSTOCK_DONE_BUFFERED, "buffered"},
		{PENSTOCK_DONE_BOUNCED, "bounced"}, {PENSTOCK_DONE_PINNED_POOL, "pinned_pool"},
		{PENSTOCK_DONE_CUFILE, "cufile"},   {PENSTOCK_DONE_CUFILE_COMPAT, "cufile-compat"},
		{PENSTOCK_DONE_RETRIED, "retried"}, {PENSTOCK_DONE_INLINE, "inline"},
		{PENSTOCK_DONE_EOF, "eof"},
	};
	struct future *f = (struct future *)self;
	PyObject *list = PyList_New(0), *tuple;

	(void)unused;
	for (size_t i = 0; list && future_poll(f) && i < sizeof(words) / sizeof(*words); i++) {
		PyObject *word;

		if (!(f->flags & words[i].flag))
			continue;
		word = PyUnicode_FromString(words[i].word);
		if (!word || PyList_Append(list, word) < 0)
			Py_CLEAR(list);
		Py_XDECREF(word);
	}
	tuple = list ? PyList_AsTuple(list) : NULL;
	Py_XDECREF(list);
	return tuple;
}

/* -------------------------------------------------------------- callbacks */

struct callback {
	struct callback *next;
	PyObject *fn;
};

static void run_callback(struct future *f, PyObject *fn)
{
	PyObject *r = PyObject_CallFunctionObjArgs(fn, (PyObject *)f, NULL);

	if (!r)
		PyErr_WriteUnraisable(fn);
	Py_XDECREF(r);
}

void future_call_back(struct future *f)
{
	struct callback *c, *next;

	pthread_mutex_lock(&f->shard->waiters.lock);
	c = f->callbacks;
	f->callbacks = NULL;
	f->called_back = true;
	pthread_mutex_unlock(&f->shard->waiters.lock);
	for (; c; c = next) {
		next = c->next;
		run_callback(f, c->fn);
		Py_DECREF(c->fn);
		free(c);
	}
}

/* Have the dispatcher look after it, unless it is completed; with the lock of its shard. */
static void future_watch(struct future *f)
{
	enum future_state in_flight = FUTURE_IN_FLIGHT;

	Py_INCREF(future_object(f)); /* the dispatcher's */
	dispatch_expect(f);
	f->watched = atomic_compare_exchange_strong(&f->state, &in_flight, FUTURE_WATCHED);
	if (f->watched)
		return;
	dispatch_unexpect(f);
	Py_DECREF(future_object(f));
}

/* 1: the dispatcher will call it; 0: it is too late for that; -1 with an exception. */
static int queue_callback(struct future *f, PyObject *fn)
{
	struct callback *c = malloc(sizeof(*c));
	bool later;

	if (!c) {
		PyErr_NoMemory();
		return -1;
	}
	*c = (struct callback){NULL, fn};
	pthread_mutex_lock(&f->shard->waiters.lock);
	if (!f->watched)
		future_watch(f);
	later = f->watched && !f->called_back;
	if (later) {
		*(f->callbacks ? f->last_callback : &f->callbacks) = c;
		f->last_callback = &c->next;
		Py_INCREF(fn);
	}
	pthread_mutex_unlock(&f->shard->waiters.lock);
	if (!later)
		free(c);
	return later;
}

static PyObject *add_done_callback(PyObject *self, PyObject *fn)
{
	struct future *f = (struct future *)self;
	int later = 0;

	if (!PyCallable_Check(fn)) {
		PyErr_Format(PyExc_TypeError, "fn: %R is not callable", fn);
		return NULL;
	}
	if (shared_io_is_inherited(f->shared) && f->state != FUTURE_FINALIZED) {
		raise_os(-ECHILD, "the operation belongs to the parent process", f->path.filename);
		return NULL;
	}
	if (dispatch_ended())
		future_wait(f, -1, false);
	else if (!is_completed(f->shared, f) && dispatch_start() < 0)
		return NULL;
	if (f->state != FUTURE_FINALIZED)
		later = queue_callback(f, fn);
	if (later < 0)
		return NULL;
	if (!later) {
		future_finalize(f);
		run_callback(f, fn);
	}
	Py_RETURN_NONE;
}

static PyObject *future_await(PyObject *self)
{
	PyObject *module = PyImport_ImportModule("penstock._future_await"), *r = NULL;

	if (module)
		r = PyObject_CallMethod(module, "iterate_await", "O", self);
	Py_XDECREF(module);
	return r;
}

/* ------------------------------------------------------------------- type */

static void future_dealloc(PyObject *self)
{
	struct future *f = (struct future *)self;
	PyTypeObject *type = Py_TYPE(self);

	buffer_release(&f->buffer);
	path_drop(&f->path);
	Py_CLEAR(f->finish_error);
	free(f->msg);
	shared_io_put(f->shared);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *future_repr(PyObject *self)
{
	struct future *f = (struct future *)self;
	const char *state = !future_poll(f) ? "running" : future_failed(f) ? "failed" : "done";

	return PyUnicode_FromFormat("<penstock.Future: %s of %R at offset %llu, %s>",
				    f->opcode == PENSTOCK_READ ? "read" : "write", f->path.filename,
				    (unsigned long long)f->offset, state);
}

static PyMethodDef methods[] = {
	{"result", FAST(result),
	 "result($self, timeout=None)\n--\n\n"
	 "Wait, at most timeout seconds, and return the bytes moved, or raise what went wrong."},
	{"exception", FAST(exception),
	 "exception($self, timeout=None)\n--\n\n"
	 "Wait, at most timeout seconds, and return what went wrong, or None."},
	{"done", done, METH_NOARGS, "done($self)\n--\n\nWhether the operation has ended."},
	{"running", running, METH_NOARGS, "running($self)\n--\n\nWhether it has not."},
	{"cancel", return_false, METH_NOARGS,
	 "cancel($self)\n--\n\nFalse: an operation under way cannot be called back."},
	{"cancelled", return_false, METH_NOARGS, "cancelled($self)\n--\n\nFalse, see cancel()."},
	{"add_done_callback", add_done_callback, METH_O,
	 "add_done_callback($self, fn, /)\n--\n\n"
	 "Call fn(future) when the operation has ended: from the callback thread, or now if it "
	 "has."},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"ways", get_ways, NULL,
	 "How the bytes went: of 'direct', 'buffered', 'bounced', 'pinned_pool', 'cufile', "
	 "'cufile-compat', 'retried', 'inline', 'eof'.",
	 NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static char doc[] = "One transfer under way; made by the *_async methods only.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_dealloc, future_dealloc},
	{Py_tp_repr, future_repr},
	{Py_tp_methods, methods},
	{Py_tp_getset, getset},
	{Py_am_await, future_await},
	{0, NULL},
};

PyType_Spec future_spec = {
	.name = "penstock.Future",
	.basicsize = sizeof(struct future),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
