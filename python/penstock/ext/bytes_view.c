/* SPDX-License-Identifier: Apache-2.0 */
/* penstock.s3.BytesView: bytes that came from an object store, where they arrived. */
#include <stdlib.h>
#include <string.h>

#include "s3.h"

static struct bytes_view *bytes_view_of(PyObject *self)
{
	return (struct bytes_view *)self;
}

static PyObject *bytes_view_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char len_name[] = "length";
	static char *names[] = {len_name, NULL};
	unsigned long long len = 0;
	struct bytes_view *v;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|K:BytesView", names, &len))
		return NULL;
	if (len > PY_SSIZE_T_MAX)
		return PyErr_NoMemory();
	v = (struct bytes_view *)PyType_GenericAlloc(type, 0);
	if (!v)
		return NULL;
	v->bytes = malloc(len ? len : 1); /* not zeroed: it is filled before anybody sees it */
	v->len = len;
	if (v->bytes)
		return (PyObject *)v;
	Py_DECREF(v);
	return PyErr_NoMemory();
}

static void bytes_view_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	free(bytes_view_of(self)->bytes);
	PyObject_Free(self);
	Py_DECREF(type);
}

static int bytes_view_getbuffer(PyObject *self, Py_buffer *b, int flags)
{
	struct bytes_view *v = bytes_view_of(self);

	if (PyBuffer_FillInfo(b, self, v->bytes, (Py_ssize_t)v->len, 1, flags) < 0)
		return -1;
	v->exports++;
	return 0;
}

static void bytes_view_releasebuffer(PyObject *self, Py_buffer *b)
{
	(void)b;
	bytes_view_of(self)->exports--;
}

static Py_ssize_t bytes_view_len(PyObject *self)
{
	return (Py_ssize_t)bytes_view_of(self)->len;
}

static PyObject *bytes_view_subscript(PyObject *self, PyObject *key)
{
	PyObject *m = PyMemoryView_FromObject(self);
	PyObject *item = m ? PyObject_GetItem(m, key) : NULL;

	Py_XDECREF(m);
	return item;
}

/* Equal to whatever has the same bytes. */
static PyObject *bytes_view_compare(PyObject *self, PyObject *other, int op)
{
	PyObject *m, *r;

	if ((op != Py_EQ && op != Py_NE) || !PyObject_CheckBuffer(other))
		Py_RETURN_NOTIMPLEMENTED;
	m = PyMemoryView_FromObject(self);
	r = m ? PyObject_RichCompare(m, other, op) : NULL;
	Py_XDECREF(m);
	return r;
}

static PyObject *bytes_view_memoryview(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyMemoryView_FromObject(self);
}

static PyObject *bytes_view_to_bytes(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyBytes_FromStringAndSize(bytes_view_of(self)->bytes,
					 (Py_ssize_t)bytes_view_of(self)->len);
}

static PyObject *bytes_view_resize(PyObject *self, PyObject *args)
{
	struct bytes_view *v = bytes_view_of(self);
	unsigned long long len;
	char *bytes;

	if (!PyArg_ParseTuple(args, "K:_resize", &len))
		return NULL;
	if (v->exports) {
		PyErr_SetString(PyExc_BufferError, "somebody has a view of it");
		return NULL;
	}
	bytes = len > PY_SSIZE_T_MAX ? NULL : realloc(v->bytes, len ? len : 1);
	if (!bytes)
		return PyErr_NoMemory();
	v->bytes = bytes;
	v->len = len;
	Py_RETURN_NONE;
}

/* As many bytes of another as there is room for. */
static PyObject *bytes_view_fill(PyObject *self, PyObject *args)
{
	struct bytes_view *v = bytes_view_of(self);
	Py_buffer from;

	if (!PyArg_ParseTuple(args, "y*:_fill", &from))
		return NULL;
	memcpy(v->bytes, from.buf, v->len < (uint64_t)from.len ? v->len : (size_t)from.len);
	PyBuffer_Release(&from);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{"memoryview", bytes_view_memoryview, METH_NOARGS,
	 "memoryview($self, /)\n--\n\nA read-only view; nothing is copied."},
	{"to_bytes", bytes_view_to_bytes, METH_NOARGS,
	 "to_bytes($self, /)\n--\n\nA copy, as bytes."},
	{"__bytes__", bytes_view_to_bytes, METH_NOARGS, NULL},
	{"_fill", bytes_view_fill, METH_VARARGS, NULL},
	{"_resize", bytes_view_resize, METH_VARARGS, NULL},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char doc[] =
	"BytesView(length=0)\n--\n\n"
	"Bytes from an object store, where they arrived; read-only, by the buffer protocol.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_new, bytes_view_new},
	{Py_tp_dealloc, bytes_view_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_richcompare, bytes_view_compare},
	{Py_tp_hash, PyObject_HashNotImplemented},
	{Py_mp_length, bytes_view_len},
	{Py_mp_subscript, bytes_view_subscript},
	{Py_bf_getbuffer, bytes_view_getbuffer},
	{Py_bf_releasebuffer, bytes_view_releasebuffer},
	{0, NULL},
};

PyType_Spec bytes_view_spec = {
	.name = "penstock._penstock.BytesView",
	.basicsize = sizeof(struct bytes_view),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
