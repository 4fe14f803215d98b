/* SPDX-License-Identifier: Apache-2.0 */
/* penstock.Handle: arguments in, operations out. */

#include "handle.h"

/* What the library does in the calling thread, and what no signal needs to interrupt. */
enum { RUN_AT_ONCE = 1 << 20 }; /* bytes */

static struct shared_io *shared_of(PyObject *self)
{
	return ((struct handle *)self)->shared;
}

/* ----------------------------------------------------------- construction */

static int handle_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct handle *h = (struct handle *)self;
	struct shared_io *made = NULL, *none = NULL;
	PyObject *settings = NULL;

	if (!h->shared && handle_options(&o, args, kwargs, &settings) == 0)
		made = shared_io_new(&o);
	Py_XDECREF(settings);
	if (made)
		made->mode = o.mode;
	if (made && atomic_compare_exchange_strong(&h->shared, &none, made))
		return 0;
	shared_io_close(made, false);
	shared_io_put(made);
	if (h->shared)
		PyErr_SetString(PyExc_TypeError, "the handle is open already");
	return -1;
}

static void handle_dealloc(PyObject *self)
{
	struct handle *h = (struct handle *)self;
	PyTypeObject *type = Py_TYPE(self);
	PyObject *t, *v, *tb;

	PyErr_Fetch(&t, &v, &tb);
	if (shared_io_close(h->shared, false) < 0)
		PyErr_WriteUnraisable(NULL);
	PyErr_Restore(t, v, tb);
	shared_io_put(h->shared);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* --------------------------------------------------------------- transfers */

int read_flags(PyObject *partial, uint32_t *flags)
{
	int yes = args_flag(partial, false);

	*flags = yes ? 0 : PENSTOCK_OP_EXACT;
	return yes < 0 ? -1 : 0;
}

int write_flags(PyObject *truncate, PyObject *durability, uint32_t *flags)
{
	static const uint32_t sync[] = {0, PENSTOCK_OP_DATASYNC, PENSTOCK_OP_FULLSYNC};
	int yes = args_flag(truncate, false), level = 0;

	if (yes < 0)
		return -1;
	if (durability && durability != Py_None)
		level = args_choice("durability", durability, durabilities);
	if (level < 0)
		return -1;
	*flags = (yes ? PENSTOCK_OP_TRUNCATE : 0) | sync[level];
	return 0;
}

struct call {
	struct future_spec_args a;
	PyObject *obj;
	PyObject *path;
};

static int parse_common_args(struct call *c, PyObject *const *v)
{
	int64_t offset = args_int("offset", v[2], 0, INT64_MAX, 0);

	if (offset < 0)
		return -1;
	c->obj = v[0];
	c->path = v[1];
	c->a.offset = (uint64_t)offset;
	c->a.length = -1;
	if (v[3] && v[3] != Py_None) {
		c->a.length = args_int("length", v[3], 0, INT64_MAX, 0);
		if (c->a.length < 0)
			return -1;
	}
	return 0;
}

static int parse_read(struct call *c, const char *function, PyObject *const *args, Py_ssize_t n,
		      PyObject *kwnames)
{
	static const char *const names[] = {"obj", "path", "offset", "length", "partial", NULL};
	struct params p = {function, names, 4, 2};
	PyObject *v[5];

	c->a.opcode = PENSTOCK_READ;
	if (args_parse(&p, args, n, kwnames, v) < 0 || parse_common_args(c, v) < 0)
		return -1;
	return read_flags(v[4], &c->a.flags);
}

static int parse_write(struct call *c, const char *function, PyObject *const *args, Py_ssize_t n,
		       PyObject *kwnames)
{
	static const char *const names[] = {"obj",      "path",       "offset", "length",
					    "truncate", "durability", NULL};
	struct params p = {function, names, 4, 2};
	PyObject *v[6];

	c->a.opcode = PENSTOCK_WRITE;
	if (args_parse(&p, args, n, kwnames, v) < 0 || parse_common_args(c, v) < 0)
		return -1;
	return write_flags(v[4], v[5], &c->a.flags);
}

/* A submitted future, or NULL with an exception: one that is refused is raised, not returned. */
static PyObject *handle_submit(struct shared_io *h, const struct call *c)
{
	struct penstock_op op;
	struct future *f;
	PyObject *r;

	if (shared_io_check_open(h) < 0)
		return NULL;
	shared_io_reap(h);
	f = future_make(h, c->obj, c->path, &c->a, &op);
	if (!f)
		return NULL;
	r = future_object(f);
	f->counted = true;
	if (futures_submit(h, &f, &op, 1) < 0) {
		Py_CLEAR(r);
	} else if (f->refused) {
		future_finalize(f);
		future_outcome(f);
		Py_CLEAR(r);
	}
	return r;
}

/* Bytes moved, or NULL with an exception. */
static PyObject *handle_run(struct shared_io *h, const struct call *c)
{
	PyObject *result = NULL;
	struct penstock_op op;
	struct future *f;
	int r;

	if (shared_io_check_open(h) < 0)
		return NULL;
	shared_io_reap(h);
	f = future_make(h, c->obj, c->path, &c->a, &op);
	if (!f)
		return NULL;
	if (f->buffer.bytes <= RUN_AT_ONCE && !f->buffer.device) /* a stream may take its time */
		r = future_run(h, f, &op);
	else
		r = futures_submit(h, &f, &op, 1);
	if (r == 0 && future_wait(f, -1, true) > 0)
		result = future_outcome(f);
	Py_DECREF(future_object(f));
	return result;
}

static PyObject *handle_read(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	struct call c;

	return parse_read(&c, "read", args, n, kwnames) < 0 ? NULL
							    : handle_run(shared_of(self), &c);
}

static PyObject *handle_write(PyObject *self, PyObject *const *args, Py_ssize_t n,
			      PyObject *kwnames)
{
	struct call c;

	return parse_write(&c, "write", args, n, kwnames) < 0 ? NULL
							      : handle_run(shared_of(self), &c);
}

static PyObject *read_async(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	struct call c;

	return parse_read(&c, "read_async", args, n, kwnames) < 0
		       ? NULL
		       : handle_submit(shared_of(self), &c);
}

static PyObject *write_async(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	struct call c;

	if (parse_write(&c, "write_async", args, n, kwnames) < 0)
		return NULL;
	return handle_submit(shared_of(self), &c);
}

/* ----------------------------------------------------------- other methods */

static PyObject *handle_open(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	static const char *const names[] = {"path", "mode", NULL};
	struct params p = {"open", names, 2, 1};
	struct shared_io *h = shared_of(self);
	const char *mode = "r";
	PyObject *v[2];

	if (args_parse(&p, args, n, kwnames, v) < 0 ||
	    (v[1] && !(mode = args_text("mode", v[1]))) || shared_io_check_open(h) < 0)
		return NULL;
	return file_open(h, v[0], mode);
}

static PyObject *handle_sync(PyObject *self, PyObject *path)
{
	struct penstock_op op = {.opcode = PENSTOCK_SYNC};
	struct penstock_done done = {.res = 0};
	struct penstock_err err = {0, ""};
	struct shared_io *h = shared_of(self);
	struct path p;
	int r = 0;

	if (path_take(&p, path) < 0)
		return NULL;
	if (shared_io_begin_call(h) < 0) {
		path_drop(&p);
		return NULL;
	}
	op.path = p.path;
	op.fd = p.fd;
	op.file = p.file ? file_use(p.file, h) : NULL;
	if (!PyErr_Occurred()) {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_run(h->io, &op, &done, &err);
		Py_END_ALLOW_THREADS
	}
	if (op.file)
		file_unuse(p.file);
	shared_io_end_call(h);
	shared_io_wake(h, &h->waiters);
	if (r < 0)
		raise_os(r, err.msg, p.filename);
	else if (done.res < 0)
		raise_os((int)done.res, done.msg, p.filename);
	path_drop(&p);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *handle_wait(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
			     PyObject *kwnames)
{
	static const char *const names[] = {"timeout", NULL};
	struct params p = {"wait", names, 1, 0};
	struct shared_io *h = shared_of(self);
	PyObject *timeout;
	int64_t deadline;
	uint64_t n;
	int r;

	if (args_parse(&p, args, nargs, kwnames, &timeout) < 0 ||
	    parse_timeout(timeout, &deadline) < 0 || shared_io_check_open(h) < 0)
		return NULL;
	r = shared_io_drain(h, deadline, true);
	if (r == 0)
		PyErr_Format(PyExc_TimeoutError, "wait(): not finished within %S seconds", timeout);
	if (r <= 0)
		return NULL;
	n = shared_io_take_finished(h);
	return shared_io_raise_failures(h) < 0 ? NULL : PyLong_FromUnsignedLongLong(n);
}

static PyObject *handle_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	return shared_io_close(shared_of(self), true) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *handle_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	return shared_io_check_open(shared_of(self)) < 0 ? NULL : Py_NewRef(self);
}

/* A failure that comes to light here does not replace the exception that ends the block. */
static PyObject *handle_exit(PyObject *self, PyObject *args)
{
	PyObject *type = Py_None, *value, *tb;

	if (!PyArg_ParseTuple(args, "|OOO:__exit__", &type, &value, &tb))
		return NULL;
	if (shared_io_close(shared_of(self), true) < 0) {
		if (type == Py_None || !PyErr_ExceptionMatches(PyExc_OSError))
			return NULL;
		PyErr_WriteUnraisable(self);
	}
	Py_RETURN_NONE;
}

/* What the library counts; 0, or -1 with an exception. */
static int get_stats(PyObject *self, struct penstock_stats *s)
{
	struct shared_io *h = shared_of(self);
	int r;

	*s = (struct penstock_stats){.size = sizeof(*s)};
	if (shared_io_begin_call(h) < 0)
		return -1;
	r = penstock_get_stats(h->io, s);
	shared_io_end_call(h);
	if (r < 0)
		raise_os(r, penstock_strerror(r), NULL);
	return r < 0 ? -1 : 0;
}

static PyObject *handle_stats(PyObject *self, PyObject *unused)
{
	struct penstock_stats s;

	(void)unused;
	return get_stats(self, &s) < 0 ? NULL : info_stats(&s);
}

/* -------------------------------------------------------------- properties */

static PyObject *handle_get_closed(PyObject *self, void *unused)
{
	struct shared_io *h = shared_of(self);

	(void)unused;
	return PyBool_FromLong(!h || !h->io);
}

static PyObject *get_engine(PyObject *self, void *unused)
{
	struct penstock_stats s;

	(void)unused;
	return get_stats(self, &s) < 0 ? NULL : PyUnicode_FromString(s.engine);
}

static PyObject *get_pending(PyObject *self, void *unused)
{
	struct shared_io *h = shared_of(self);
	uint64_t n = 0;

	(void)unused;
	if (h && !shared_io_is_inherited(h)) {
		shared_io_reap_all(h);
		n = shared_io_pending(h);
	}
	return PyLong_FromUnsignedLongLong(n);
}

static PyObject *handle_repr(PyObject *self)
{
	struct penstock_stats s = {.size = sizeof(s)};
	struct shared_io *h = shared_of(self);
	int r = -1;

	if (shared_io_try_begin_call(h)) {
		r = penstock_get_stats(h->io, &s);
		shared_io_end_call(h);
	}
	if (r < 0)
		return PyUnicode_FromString("<penstock.Handle, closed>");
	return PyUnicode_FromFormat("<penstock.Handle: %s, %u thread%s>", s.engine, s.threads,
				    s.threads == 1 ? "" : "s");
}

/* -------------------------------------------------------------------- type */

#define READ_ARGS "($self, obj, path, offset=0, length=None, *, partial=False)\n--\n\n"
#define WRITE_ARGS \
	"($self, obj, path, offset=0, length=None, *, truncate=False, durability=None)\n--\n\n"

static PyMethodDef methods[] = {
	{"read", FAST(handle_read),
	 "read" READ_ARGS "Fill obj, or its first length bytes, from offset of the file on.\n\n"
	 "Returns the bytes read: fewer than asked for only with partial, at the end of the file."},
	{"write", FAST(handle_write),
	 "write" WRITE_ARGS "Write obj, or its first length bytes, at offset of the file.\n\n"
	 "Creates the file if need be; with truncate it ends where this write ends."},
	{"read_async", FAST(read_async), "read_async" READ_ARGS "As read(), but returns a Future."},
	{"write_async", FAST(write_async),
	 "write_async" WRITE_ARGS "As write(), but returns a Future; leave obj alone until then."},
	{"read_batch", FAST(read_batch),
	 "read_batch($self, items, *, partial=False)\n--\n\n"
	 "Many reads together: (obj, path) or (obj, path, offset) each; returns a list of ints."},
	{"write_batch", FAST(write_batch),
	 "write_batch($self, items, *, truncate=False, durability=None)\n--\n\n"
	 "Many writes together, as read_batch()."},
	{"read_batch_async", FAST(read_batch_async),
	 "read_batch_async($self, items, *, partial=False)\n--\n\n"
	 "As read_batch(), but returns a list of Futures."},
	{"write_batch_async", FAST(write_batch_async),
	 "write_batch_async($self, items, *, truncate=False, durability=None)\n--\n\n"
	 "As write_batch(), but returns a list of Futures."},
	{"open", FAST(handle_open),
	 "open($self, path, mode='r')\n--\n\n"
	 "A File, which takes the place of a path; mode is one of r, r+, w, w+, x, x+."},
	{"sync", handle_sync, METH_O,
	 "sync($self, path, /)\n--\n\nMake durable what has been written to the file: fsync(2)."},
	{"register", handle_register, METH_O,
	 "register($self, obj, /)\n--\n\n"
	 "Make the memory of obj known to the engine, until unregister() or close().\n\n"
	 "Returns whether the engine took it; transfers work either way."},
	{"unregister", handle_unregister, METH_O,
	 "unregister($self, obj, /)\n--\n\nUndo register(); nothing may be moving the memory."},
	{"wait", FAST(handle_wait),
	 "wait($self, timeout=None)\n--\n\n"
	 "Wait until nothing is under way; returns how many asynchronous operations have ended\n"
	 "since the last call, and raises the first failure that nobody has seen."},
	{"stats", handle_stats, METH_NOARGS,
	 "stats($self)\n--\n\nCounters, CPU time, and what had to fall back and why."},
	{"close", handle_close, METH_NOARGS,
	 "close($self)\n--\n\nAs wait(), then end the I/O threads."},
	{"__enter__", handle_enter, METH_NOARGS, "__enter__($self)\n--\n\n"},
	{"__exit__", handle_exit, METH_VARARGS, "__exit__($self, exc_type, exc, tb, /)\n--\n\n"},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"closed", handle_get_closed, NULL, "Whether it is closed.", NULL},
	{"engine", get_engine, NULL, "The engine in use.", NULL},
	{"pending", get_pending, NULL, "Operations under way.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static char doc[] =
	"Handle(engine=None, *, threads=0, depth=0, block=0, direct='auto', durability='none', "
	"huge_pages='auto', single_submit=False, overlap=True, mode=420, config=None, "
	"spare_cpu=False)\n--\n\n"
	"I/O threads with a queue each; safe to use from several threads.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_init, handle_init},
	{Py_tp_dealloc, handle_dealloc},
	{Py_tp_repr, handle_repr},
	{Py_tp_methods, methods},
	{Py_tp_getset, getset},
	{0, NULL},
};

PyType_Spec handle_spec = {
	.name = "penstock.Handle",
	.basicsize = sizeof(struct handle),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
