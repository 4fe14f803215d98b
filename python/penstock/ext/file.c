/* SPDX-License-Identifier: Apache-2.0 */
/* penstock.File: an open file of one handle, which takes the place of a path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/stripe.h>

#include "handle.h"
#include "s3.h"

/* -1: not a mode */
static int flags_of(const char *mode)
{
	static const struct {
		const char *mode;
		int flags;
	} modes[] = {
		{"r", O_RDONLY},
		{"r+", O_RDWR},
		{"w", O_WRONLY | O_CREAT | O_TRUNC},
		{"w+", O_RDWR | O_CREAT | O_TRUNC},
		{"x", O_WRONLY | O_CREAT | O_EXCL},
		{"x+", O_RDWR | O_CREAT | O_EXCL},
	};

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(mode, modes[i].mode))
			return modes[i].flags;
	PyErr_Format(PyExc_ValueError, "mode: '%s' is none of 'r', 'r+', 'w', 'w+', 'x', 'x+'",
		     mode);
	return -1;
}

static int open_path(struct shared_io *h, struct file *f, const struct path *p, int flags)
{
	struct penstock_err err = {0, ""};
	int r;

	if (shared_io_ensure_s3(h, p) < 0 || shared_io_begin_call(h) < 0)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	if (p->path)
		r = penstock_file_open(&f->file, h->io, p->path, flags, h->mode, &err);
	else
		r = penstock_file_from_fd(&f->file, h->io, p->fd, &err);
	Py_END_ALLOW_THREADS
	shared_io_end_call(h);
	if (r < 0)
		raise_os(r, err.msg, p->filename);
	return r;
}

PyObject *file_open(struct shared_io *h, PyObject *path, const char *mode)
{
	int flags = flags_of(mode);
	struct file *f;
	struct path p;

	if (flags < 0 || path_take(&p, path) < 0)
		return NULL;
	f = (struct file *)PyType_GenericAlloc(module_state()->file_type, 0);
	if (f) {
		f->shared = shared_io_get(h);
		f->name = Py_NewRef(p.filename);
		f->new_object = flags != O_RDONLY && s3_is_object_path(&p);
	}
	if (f && p.file) {
		PyErr_SetString(PyExc_TypeError, "path: a penstock.File is open already");
		Py_CLEAR(f);
	} else if (f && open_path(h, f, &p, flags) < 0) {
		Py_CLEAR(f);
	}
	path_drop(&p);
	return (PyObject *)f;
}

static bool is_closed(const struct file *f)
{
	return f->users < 0 || !f->shared->io;
}

struct penstock_file *file_use(PyObject *file, struct shared_io *h)
{
	struct file *f = (struct file *)file;

	if (f->shared != h)
		PyErr_Format(PyExc_ValueError, "path: %R belongs to another handle", file);
	else if (!f->shared->io || !use_count_begin(&f->users))
		PyErr_SetString(PyExc_ValueError, "the file is closed");
	else
		return f->file;
	return NULL;
}

void file_unuse(PyObject *file)
{
	use_count_end(&((struct file *)file)->users);
}

/* ----------------------------------------------------------------- closing */

static bool work_or_unused(struct shared_io *h, void *arg)
{
	struct file *f = arg;

	return shared_io_has_done(h) || f->users <= 0;
}

/* Until no future uses it. */
static int wait_unused(struct file *f)
{
	while (f->users > 0) {
		if (shared_io_wait(f->shared, &f->shared->waiters, work_or_unused, f, -1, true) < 0)
			return -1;
		shared_io_reap_all(f->shared);
	}
	return 0;
}

/*
 * 0, 1 where somebody uses it, or -1 with an exception.  @abort: an object that was written does
 * not come to be.
 */
static int close_file(struct file *f, bool abort)
{
	struct penstock_err err = {0, ""};
	int r = 0;

	if (!f->file || !shared_io_try_begin_call(f->shared))
		return 0; /* never opened; the handle is closing, and its files with it */
	if (!use_count_close(&f->users)) {
		shared_io_end_call(f->shared);
		return f->users >= 0;
	}
	Py_BEGIN_ALLOW_THREADS
	r = abort ? penstock_file_abort(f->file, &err) : penstock_file_close(f->file, &err);
	Py_END_ALLOW_THREADS
	shared_io_end_call(f->shared);
	if (r < 0)
		raise_os(r, err.msg, f->name);
	return r < 0 ? -1 : 0;
}

static PyObject *end_file(PyObject *self, bool abort)
{
	struct file *f = (struct file *)self;
	int r = 1;

	while (r > 0 && !is_closed(f) && !shared_io_is_inherited(f->shared))
		r = wait_unused(f) < 0 ? -1 : close_file(f, abort);
	if (r >= 0 && f->new_object && !abort && f->users >= 0 &&
	    !shared_io_is_inherited(f->shared)) {
		PyErr_SetString(PyExc_ValueError,
				"the handle was closed before, and the object is given up");
		r = -1;
	}
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *file_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	return end_file(self, false);
}

static PyObject *file_abort(PyObject *self, PyObject *unused)
{
	(void)unused;
	return end_file(self, true);
}

static PyObject *file_enter(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (is_closed((struct file *)self)) {
		PyErr_SetString(PyExc_ValueError, "the file is closed");
		return NULL;
	}
	return Py_NewRef(self);
}

static PyObject *file_exit(PyObject *self, PyObject *args)
{
	PyObject *type = PyTuple_GetItem(args, 0);

	return type ? end_file(self, type != Py_None) : NULL;
}

static void file_dealloc(PyObject *self)
{
	struct file *f = (struct file *)self;
	PyTypeObject *type = Py_TYPE(self);
	PyObject *t, *v, *tb;

	PyErr_Fetch(&t, &v, &tb);
	if (f->shared && close_file(f, true) < 0) /* nobody has said that it is complete */
		PyErr_WriteUnraisable(NULL);
	PyErr_Restore(t, v, tb);
	Py_XDECREF(f->name);
	shared_io_put(f->shared);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* --------------------------------------------------------------- questions */

static PyObject *file_stat(PyObject *self, PyObject *unused)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct file *f = (struct file *)self;
	struct penstock_file *file;
	int r;

	(void)unused;
	if (shared_io_begin_call(f->shared) < 0)
		return NULL;
	file = file_use(self, f->shared);
	if (file) {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_file_stat(file, &info);
		Py_END_ALLOW_THREADS
		if (r < 0)
			raise_os(r, penstock_strerror(r), f->name);
		file_unuse(self);
	}
	shared_io_end_call(f->shared);
	shared_io_wake(f->shared, &f->shared->waiters);
	if (PyErr_Occurred())
		return NULL;
	return Py_BuildValue("{s:K,s:O,s:I,s:I,s:K,s:s}", "bytes", (unsigned long long)info.bytes,
			     "direct", info.direct ? Py_True : Py_False, "mem_align",
			     info.mem_align, "offset_align", info.offset_align, "block",
			     (unsigned long long)info.block, "why", info.why);
}

static PyObject *file_get_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(is_closed((struct file *)self));
}

static PyObject *get_name(PyObject *self, void *unused)
{
	(void)unused;
	return Py_NewRef(((struct file *)self)->name);
}

static PyObject *file_repr(PyObject *self)
{
	struct file *f = (struct file *)self;

	return PyUnicode_FromFormat("<penstock.File %R%s>", f->name,
				    is_closed(f) ? ", closed" : "");
}

/* -------------------------------------------------------------------- type */

/* As os.stat() and a look at the mode, without an object of ten numbers. */
PyObject *file_state(PyObject *module, PyObject *path)
{
	struct path p;
	struct stat st;
	char msg[512];
	int r;

	(void)module;
	if (path_take(&p, path) < 0)
		return NULL;
	if (p.file) {
		path_drop(&p);
		return PyErr_Format(PyExc_TypeError, "path: a penstock.File has a size");
	}
	Py_BEGIN_ALLOW_THREADS;
	r = p.path ? stat(p.path, &st) : fstat(p.fd, &st);
	r = r < 0 ? -errno : 0;
	if (!p.path)
		snprintf(msg, sizeof(msg), "/proc/self/fd/%d", p.fd);
	if (!r && S_ISREG(st.st_mode))
		st.st_size = penstock_stripe_bytes(p.path ? p.path : msg, st.st_size);
	if (!r && st.st_size < 0)
		r = (int)st.st_size;
	Py_END_ALLOW_THREADS;
	if (r < 0) {
		if (p.path)
			snprintf(msg, sizeof(msg), "%s: %s", p.path, strerror(-r));
		else
			snprintf(msg, sizeof(msg), "fd %d: %s", p.fd, strerror(-r));
		raise_os(r, msg, NULL);
	}
	path_drop(&p);
	if (r < 0)
		return NULL;
	return Py_BuildValue("LKK", (long long)(S_ISREG(st.st_mode) ? st.st_size : -1),
			     (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
}

static PyMethodDef methods[] = {
	{"stat", file_stat, METH_NOARGS,
	 "stat($self)\n--\n\nSize, alignment, block size, whether O_DIRECT is in use, and why "
	 "not."},
	{"close", file_close, METH_NOARGS,
	 "close($self)\n--\n\nWait for the file's operations and close it.  An object that was "
	 "written is there after that."},
	{"abort", file_abort, METH_NOARGS,
	 "abort($self)\n--\n\nThe same, but nothing is left of an object that was written."},
	{"__enter__", file_enter, METH_NOARGS, "__enter__($self)\n--\n\n"},
	{"__exit__", file_exit, METH_VARARGS, "__exit__($self, exc_type, exc, tb, /)\n--\n\n"},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"closed", file_get_closed, NULL, "Whether it, or its handle, is closed.", NULL},
	{"name", get_name, NULL, "The path or descriptor it was opened with.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static char doc[] = "An open file of one handle, by Handle.open(); takes the place of a path.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},         {Py_tp_dealloc, file_dealloc}, {Py_tp_repr, file_repr},
	{Py_tp_methods, methods}, {Py_tp_getset, getset},        {0, NULL},
};

PyType_Spec file_spec = {
	.name = "penstock.File",
	.basicsize = sizeof(struct file),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
