/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of CUDA devices as __cuda_array_interface__ describes it.
 * https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
 *
 * The library asks the driver where an address lives, and takes what the driver does not
 * know for host memory.  An object that says otherwise is checked here first, so that
 * nobody reads or writes at addresses that are not the host's.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ext.h"

/* ------------------------------------------------------------------ driver */

enum { CUDA_INVALID_VALUE = 1, CUDA_NOT_INITIALIZED = 3, POINTER_MEMORY_TYPE = 2 };

typedef int (*pointer_attribute)(void *data, int attribute, unsigned long long addr);

/* Of the driver in this process, NULL: there is none. */
static pointer_attribute find_driver(void)
{
	static _Atomic pointer_attribute cached;
	pointer_attribute function = cached;
	void *dl;

	if (function)
		return function;
	dl = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (!dl)
		return NULL;
	*(void **)&function = dlsym(dl, "cuPointerGetAttribute");
	if (!function)
		dlclose(dl);
	cached = function;
	return function;
}

int buffer_check_cuda(const struct buffer *t, PyObject *obj)
{
	pointer_attribute ask = find_driver();
	unsigned type;
	int r;

	if (!t->bytes) /* whose address may be any */
		return 0;
	if (!ask)
		return refuse_object(obj, "is in CUDA memory, but no CUDA driver (libcuda.so.1) is "
					  "loaded in this process");
	r = ask(&type, POINTER_MEMORY_TYPE, (uintptr_t)t->addr);
	if (r == CUDA_INVALID_VALUE || r == CUDA_NOT_INITIALIZED)
		return refuse_object(obj, "is in CUDA memory by its own account, but the driver "
					  "knows no memory at its address");
	return 0; /* other errors are the operation's, with their names */
}

void buffer_set_stream(struct buffer *t, unsigned long long stream)
{
	t->ordered = true;
	t->stream = stream == 1 ? NULL : (void *)(uintptr_t)stream;
}

/* --------------------------------------------------------------- interface */

int64_t *numbers_of_tuple(PyObject *tuple, Py_ssize_t n)
{
	int64_t *list;

	if (PyTuple_Size(tuple) != n) {
		PyErr_SetString(PyExc_ValueError, "obj: as many strides as dimensions are needed");
		return NULL;
	}
	list = malloc(((size_t)n + 1) * sizeof(*list));
	if (!list)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; list && i < n; i++) {
		list[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
		if (list[i] == -1 && PyErr_Occurred()) {
			free(list);
			list = NULL;
		}
	}
	return list;
}

/* What the dictionary says; references are borrowed from it. */
struct array {
	PyObject *shape, *strides; /* tuples; strides may be NULL */
	uint64_t itemsize;
	unsigned long long at;
	int read_only;
	PyObject *stream; /* NULL: nothing to wait for */
};

static PyObject *item(PyObject *dict, const char *key)
{
	PyObject *v = PyDict_GetItemString(dict, key);

	return v == Py_None ? NULL : v;
}

/* "<f4": order, kind, bytes; 0 with an exception. */
static uint64_t size_of_type(PyObject *obj, PyObject *typestr)
{
	PyObject *ascii =
		typestr && PyUnicode_Check(typestr) ? PyUnicode_AsASCIIString(typestr) : NULL;
	const char *s = ascii ? PyBytes_AsString(ascii) : "";
	uint64_t n = 0;

	if (strlen(s) > 2 && strlen(s) < 16 && isdigit((unsigned char)s[2]))
		n = strtoull(s + 2, NULL, 10);
	if (n && s[1] == 'U')
		n *= 4;
	if (n && (s[1] == 'O' || s[1] == 't')) {
		refuse_object(obj, s[1] == 'O'
					   ? "holds Python objects; only plain data can be moved"
					   : "has elements that are no whole bytes");
		n = 0;
	} else if (!n) {
		PyErr_Clear();
		refuse_object(obj, "has no typestr such as '<f4' in __cuda_array_interface__");
	}
	Py_XDECREF(ascii);
	return n;
}

static int cuda_parse(struct array *a, PyObject *obj, PyObject *dict)
{
	PyObject *data;

	if (!PyDict_Check(dict))
		return refuse_object(obj, "has no dictionary as __cuda_array_interface__");
	if (item(dict, "mask"))
		return refuse_object(obj, "has a mask; move its data and its mask on their own");
	a->shape = item(dict, "shape");
	a->strides = item(dict, "strides");
	a->stream = item(dict, "stream");
	data = item(dict, "data");
	if (!a->shape || !PyTuple_Check(a->shape) || (a->strides && !PyTuple_Check(a->strides)))
		return refuse_object(obj, "has no tuples as shape and strides in "
					  "__cuda_array_interface__");
	if (!data || !PyTuple_Check(data) || !PyArg_ParseTuple(data, "Kp", &a->at, &a->read_only)) {
		PyErr_Clear();
		return refuse_object(obj, "has no (address, read-only) as data in "
					  "__cuda_array_interface__");
	}
	a->itemsize = size_of_type(obj, item(dict, "typestr"));
	return a->itemsize ? 0 : -1;
}

/* 1: the legacy default stream, 2: that of the thread, or the address of a stream. */
static int set_order(struct buffer *t, PyObject *stream)
{
	unsigned long long n;

	if (!stream)
		return 0;
	n = PyLong_AsUnsignedLongLong(stream);
	if (!PyErr_Occurred() && n) {
		buffer_set_stream(t, n);
		return 0;
	}
	PyErr_Clear();
	PyErr_Format(PyExc_ValueError,
		     "obj: stream %R in __cuda_array_interface__ is none; 1 is the default stream",
		     stream);
	return -1;
}

static int cuda_fill(struct buffer *t, const struct array *a, bool into, int64_t length)
{
	Py_ssize_t ndim = PyTuple_Size(a->shape);
	int64_t *sizes = numbers_of_tuple(a->shape, ndim), *steps = NULL;
	int r = -1;

	if (sizes && a->strides)
		steps = numbers_of_tuple(a->strides, ndim);
	for (Py_ssize_t i = 0; sizes && i < ndim; i++)
		if (sizes[i] < 0) {
			PyErr_SetString(PyExc_ValueError, "obj: a dimension is negative");
			break;
		}
	if (!PyErr_Occurred())
		r = buffer_set_array(t, (void *)(uintptr_t)a->at, a->itemsize, (unsigned)ndim,
				     sizes, steps, into, length);
	free(sizes);
	free(steps);
	return r;
}

static int cuda_take(struct buffer *t, PyObject *obj, PyObject *dict, bool into, int64_t length)
{
	struct array a = {0};

	t->device = true;
	if (cuda_parse(&a, obj, dict) < 0)
		return -1;
	if (into && a.read_only)
		return refuse_object(obj, "is read-only; a read needs writable memory");
	t->owner = Py_NewRef(obj);
	if (set_order(t, a.stream) < 0 || cuda_fill(t, &a, into, length) < 0)
		return -1;
	return buffer_check_cuda(t, obj) < 0 ? -1 : 1;
}

int buffer_from_cuda_array(struct buffer *t, PyObject *obj, bool into, int64_t length)
{
	PyObject *dict = NULL, *own;
	int r = PyType_Check(obj) ? 0 : get_attribute(&dict, obj, "__cuda_array_interface__");

	if (r > 0) {
		/* A copy: another thread may change the one that the object has. */
		own = PyDict_Check(dict) ? PyDict_Copy(dict) : Py_NewRef(dict);
		r = own ? cuda_take(t, obj, own, into, length) : -1;
		Py_XDECREF(own);
	}
	Py_XDECREF(dict);
	return r;
}
