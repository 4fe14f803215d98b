/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of an object store: many at once, into memory of ours or of the user's. */
#include "s3.h"

/* Reads that are under way, and what they keep. */
struct reads {
	struct penstock_s3_range *v;
	struct buffer *buffers; /* of memory that is the user's */
	PyObject *list;
	Py_ssize_t n;
};

static void reads_drop(struct reads *r)
{
	for (Py_ssize_t i = 0; r->buffers && i < r->n; i++)
		buffer_release(&r->buffers[i]);
	for (Py_ssize_t i = 0; r->v && i < r->n; i++) {
		PyObject *to = PyTuple_GetItem(PyTuple_GetItem(r->list, i), 1);

		if (Py_IS_TYPE(to, module_state()->bytes_view_type) && r->v[i].buf)
			((struct bytes_view *)to)->exports--;
	}
	PyMem_Free(r->buffers);
	PyMem_Free(r->v);
	Py_XDECREF(r->list);
}

/* (uri, memory, position in it, offset, length, etag or None) */
static int parse_read_range(struct reads *r, Py_ssize_t i)
{
	struct penstock_s3_range *one = &r->v[i];
	PyObject *item = PyTuple_GetItem(r->list, i), *to;
	unsigned long long at, offset, len, capacity;
	char *base;

	if (!PyTuple_Check(item)) {
		PyErr_SetString(PyExc_TypeError, "fetch: a list of tuples is needed");
		return -1;
	}
	if (!PyArg_ParseTuple(item, "sOKKKz:fetch", &one->uri, &to, &at, &offset, &len, &one->etag))
		return -1;
	if (Py_IS_TYPE(to, module_state()->bytes_view_type)) {
		base = ((struct bytes_view *)to)->bytes;
		capacity = ((struct bytes_view *)to)->len;
	} else {
		if (buffer_from_object(&r->buffers[i], to, true, -1) < 0)
			return -1;
		base = r->buffers[i].addr;
		capacity = r->buffers[i].bytes;
		if (r->buffers[i].device || r->buffers[i].nr_iov || r->buffers[i].staged) {
			PyErr_SetString(PyExc_TypeError,
					"memory of the host without gaps is needed");
			return -1;
		}
	}
	if (at > capacity || len > capacity - at) {
		PyErr_Format(PyExc_ValueError, "%llu bytes at %llu do not fit into %llu", len, at,
			     capacity);
		return -1;
	}
	one->buf = base + at;
	one->len = len;
	one->offset = offset;
	if (Py_IS_TYPE(to, module_state()->bytes_view_type))
		((struct bytes_view *)to)->exports++;
	return 0;
}

static PyObject *list_read_results(const struct reads *r)
{
	PyObject *out = PyList_New(r->n);

	for (Py_ssize_t i = 0; out && i < r->n; i++) {
		PyObject *one = Py_BuildValue("Ls", (long long)r->v[i].res, r->v[i].got);

		if (!one || PyList_SetItem(out, i, one) < 0) {
			Py_DECREF(out);
			return NULL;
		}
	}
	return out;
}

PyObject *client_fetch(PyObject *self, PyObject *args)
{
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c = NULL;
	struct reads r = {0};
	PyObject *list, *out = NULL;
	int code = 0;

	if (!PyArg_ParseTuple(args, "O!:fetch", &PyList_Type, &list))
		return NULL;
	r.list = PyList_AsTuple(list);
	if (!r.list)
		return NULL;
	r.n = PyTuple_Size(r.list);
	r.v = PyMem_Calloc((size_t)r.n + 1, sizeof(*r.v));
	r.buffers = PyMem_Calloc((size_t)r.n + 1, sizeof(*r.buffers));
	if (!r.v || !r.buffers)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; !PyErr_Occurred() && i < r.n; i++)
		parse_read_range(&r, i);
	if (!PyErr_Occurred())
		c = client_begin_use(self);
	if (c) {
		Py_BEGIN_ALLOW_THREADS
		code = penstock_s3_fetch(c, r.v, (uint64_t)r.n, &err);
		Py_END_ALLOW_THREADS
		client_end_use(self);
		out = code ? s3_raise(code, &err) : list_read_results(&r);
	}
	reads_drop(&r);
	return out;
}
