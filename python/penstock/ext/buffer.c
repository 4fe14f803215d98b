/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a Python object to addresses.  Whoever owns the memory stays referenced; an object
 * with the buffer protocol is also kept from moving or freeing it.  This file has the buffer
 * protocol and what is the same for all: length, strides, copies.
 */
#include <stdlib.h>

#include "ext.h"

enum {
	RUN_MIN = 4096,   /* shorter runs are not worth an entry of a scatter list */
	RUNS_MAX = 65536, /* nor are more of them */
	STAGING_ALIGN = 4096,
	PACK_ALONE = 65536 /* a copy this large lets other Python threads run */
};

/* -------------------------------------------------------------- exceptions */

int refuse_object(PyObject *obj, const char *why)
{
	PyObject *name = PyType_GetName(Py_TYPE(obj));

	if (name)
		PyErr_Format(PyExc_TypeError, "obj: '%U' object %s", name, why);
	Py_XDECREF(name);
	return -1;
}

int get_attribute(PyObject **out, PyObject *obj, const char *name)
{
	*out = PyObject_GetAttrString(obj, name);
	if (*out)
		return 1;
	if (!PyErr_ExceptionMatches(PyExc_AttributeError))
		return -1;
	PyErr_Clear();
	return 0;
}

/* ------------------------------------------------------------ what is moved */

/* How many of @total bytes: @length, or all when it is -1. */
static int set_length(struct buffer *t, uint64_t total, int64_t length)
{
	if (length < -1) {
		PyErr_Format(PyExc_ValueError, "length: %lld is negative", (long long)length);
		return -1;
	}
	if (length >= 0 && (uint64_t)length > total) {
		PyErr_Format(PyExc_ValueError,
			     "length: %lld is more than the %llu bytes of the object",
			     (long long)length, (unsigned long long)total);
		return -1;
	}
	t->bytes = length >= 0 ? (uint64_t)length : total;
	return 0;
}

int buffer_set(struct buffer *t, void *addr, uint64_t bytes, int64_t length)
{
	t->addr = addr;
	return set_length(t, bytes, length);
}

static int set_iov(struct buffer *t, const struct strided *l, uint64_t runs)
{
	t->iov = malloc(runs * sizeof(*t->iov));
	if (!t->iov) {
		PyErr_NoMemory();
		return -1;
	}
	t->nr_iov = (unsigned)strided_runs(l, t->iov, t->bytes);
	t->addr = l->base;
	return 0;
}

static void pack_copy(const struct buffer *t, const struct strided *l)
{
	PyThreadState *save;

	if (t->bytes < PACK_ALONE) {
		strided_pack(l, t->staged, t->bytes);
		return;
	}
	save = PyEval_SaveThread();
	strided_pack(l, t->staged, t->bytes);
	PyEval_RestoreThread(save);
}

static int set_copy(struct buffer *t, const struct strided *l, bool into)
{
	if (t->bytes > PY_SSIZE_T_MAX || posix_memalign(&t->staged, STAGING_ALIGN, t->bytes)) {
		t->staged = NULL;
		PyErr_Format(PyExc_MemoryError, "obj: no memory for a copy of its %llu bytes",
			     (unsigned long long)t->bytes);
		return -1;
	}
	t->addr = t->staged;
	if (!into)
		pack_copy(t, l);
	return 0;
}

/* A copy on the device is the owner's to make. */
static int refuse_small_runs(const struct buffer *t, const struct strided *l, uint64_t runs)
{
	PyErr_Format(PyExc_TypeError,
		     "obj: its %llu bytes of CUDA memory are in %llu pieces of %llu bytes each; "
		     "make it contiguous",
		     (unsigned long long)t->bytes, (unsigned long long)runs,
		     (unsigned long long)l->run);
	return -1;
}

/* Takes over @l. */
static int set_strided(struct buffer *t, struct strided *l, bool into, int64_t length)
{
	uint64_t runs;
	int r;

	t->strided = l;
	if (set_length(t, strided_bytes(l), length) < 0)
		return -1;
	if (into && strided_overlaps(l)) {
		PyErr_SetString(PyExc_ValueError,
				"obj: some of its elements share memory, so that "
				"a read would write them twice; read into a copy");
		return -1;
	}
	runs = strided_runs(l, NULL, t->bytes);
	if (runs <= 1) {
		t->addr = l->base;
		r = 0;
	} else if (l->run >= RUN_MIN && runs <= RUNS_MAX) {
		r = set_iov(t, l, runs);
	} else if (t->device) {
		r = refuse_small_runs(t, l, runs);
	} else {
		r = set_copy(t, l, into);
	}
	if (!into || !t->staged) { /* nothing to unpack later */
		free(t->strided);
		t->strided = NULL;
	}
	return r;
}

int buffer_set_array(struct buffer *t, void *base, uint64_t itemsize, unsigned ndim,
		     const int64_t *shape, const int64_t *strides, bool into, int64_t length)
{
	struct strided *l = strided_make(base, itemsize, ndim, shape, strides);

	if (!l) {
		PyErr_NoMemory();
		return -1;
	}
	return set_strided(t, l, into, length);
}

/* --------------------------------------------------------- buffer protocol */

/* An 'O' in a format, not in the name of a field, which stands between colons. */
static bool has_object_format(const char *format)
{
	bool name = false;

	for (; format && *format; format++) {
		if (*format == ':')
			name = !name;
		else if (*format == 'O' && !name)
			return true;
	}
	return false;
}

/* numpy's word for it, where the format cannot tell; 1, 0, or -1 with an exception. */
static int has_object_dtype(PyObject *obj)
{
	PyObject *dtype, *flag = NULL;
	int r = get_attribute(&dtype, obj, "dtype");

	if (r <= 0)
		return r;
	r = get_attribute(&flag, dtype, "hasobject");
	if (r > 0)
		r = PyObject_IsTrue(flag);
	Py_XDECREF(flag);
	Py_DECREF(dtype);
	return r;
}

/* It has no buffer, and said why; 0 when it has DLPack instead (bfloat16 of some), else -1. */
static int expect_dlpack(struct buffer *t, PyObject *obj)
{
	PyObject *type, *value, *tb, *other;
	int r;

	t->view.obj = NULL;
	PyErr_Fetch(&type, &value, &tb);
	r = get_attribute(&other, obj, "__dlpack__");
	Py_XDECREF(other);
	if (r == 0) {
		PyErr_Restore(type, value, tb);
		return -1;
	}
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(tb);
	return r < 0 ? -1 : 0;
}

/* Some objects have memory but no format for it (datetime64): ask without.  1, 0, -1. */
static int get_view(struct buffer *t, PyObject *obj)
{
	int objects;

	if (PyObject_GetBuffer(obj, &t->view, PyBUF_FULL_RO) == 0) {
		objects = has_object_format(t->view.format);
	} else {
		PyErr_Clear();
		if (PyObject_GetBuffer(obj, &t->view, PyBUF_INDIRECT) < 0)
			return expect_dlpack(t, obj);
		objects = has_object_dtype(obj);
	}
	if (objects > 0)
		refuse_object(obj, "holds Python objects; only plain data can be moved");
	return objects ? -1 : 1;
}

static bool is_indirect(const Py_buffer *v)
{
	for (int i = 0; v->suboffsets && i < v->ndim; i++)
		if (v->suboffsets[i] >= 0)
			return true;
	return false;
}

static int buffer_from_protocol(struct buffer *t, PyObject *obj, bool into, int64_t length)
{
	const Py_buffer *v = &t->view;
	int r = PyObject_CheckBuffer(obj) ? get_view(t, obj) : 0;

	if (r <= 0)
		return r;
	if (into && v->readonly)
		return refuse_object(obj, "is read-only; a read needs writable memory, such as a "
					  "bytearray or an array of its own");
	if (is_indirect(v))
		return refuse_object(obj, "is an array of pointers to its rows; copy it first");
	t->owner = Py_NewRef(obj);
	if (!v->shape || PyBuffer_IsContiguous(v, 'C'))
		return buffer_set(t, v->buf, (uint64_t)v->len, length) < 0 ? -1 : 1;
	return buffer_set_array(t, v->buf, (uint64_t)v->itemsize, (unsigned)v->ndim,
				(const int64_t *)v->shape, (const int64_t *)v->strides, into,
				length) < 0
		       ? -1
		       : 1;
}

/* --------------------------------------------------------------- from outside */

int buffer_from_object(struct buffer *t, PyObject *obj, bool into, int64_t length)
{
	static int (*const kinds[])(struct buffer * t, PyObject * obj, bool into,
				    int64_t length) = {
		buffer_from_torch,
		buffer_from_protocol,
		buffer_from_cuda_array, /* before DLPack: it names the stream to wait for */
		buffer_from_dlpack,
	};
	int r = 0;

	*t = (struct buffer){0};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !r; i++)
		r = kinds[i](t, obj, into, length);
	if (r > 0)
		return 0;
	if (!r)
		refuse_object(obj, "has no memory to move; give an array, a tensor, a bytearray or "
				   "another object with the buffer protocol, __dlpack__ or "
				   "__cuda_array_interface__");
	buffer_release(t);
	return -1;
}

void buffer_unpack(const struct buffer *t, uint64_t bytes)
{
	if (t->strided)
		strided_unpack(t->strided, t->staged, bytes);
}

int buffer_finish(const struct buffer *t, uint64_t bytes)
{
	PyObject *r;

	if (!t->finish)
		return 0;
	r = PyObject_CallFunction(t->finish, "K", (unsigned long long)bytes);
	Py_XDECREF(r);
	return r ? 0 : -1;
}

/* With an exception set or without, which stays as it is. */
void buffer_release(struct buffer *t)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	if (t->view.obj)
		PyBuffer_Release(&t->view);
	free(t->iov);
	free(t->staged);
	free(t->strided);
	t->iov = NULL;
	t->nr_iov = 0;
	t->staged = NULL;
	t->strided = NULL;
	Py_CLEAR(t->owner);
	Py_CLEAR(t->finish);
	PyErr_Restore(type, value, tb);
}

int buffer_from_whole_object(struct buffer *t, PyObject *obj)
{
	if (buffer_from_object(t, obj, false, -1) < 0)
		return -1;
	if (!t->staged && !t->nr_iov && !t->copied)
		return 0;
	buffer_release(t);
	PyErr_SetString(PyExc_ValueError, "obj: its memory is not in one piece; register the whole "
					  "of which it is a part");
	return -1;
}
