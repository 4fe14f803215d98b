/* SPDX-License-Identifier: Apache-2.0 */
/* penstock.s3.BytesView: bytes that came from an object store, where they arrived. */
#include <stdlib.h>
#include <string.h>

#include "s3.h"

static struct view *view_of(PyObject *self)
{
	return (struct view *)self;
}

static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char len_name[] = "length";
	static char *names[] = {len_name, NULL};
	unsigned long long len = 0;
	struct view *v;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|K:BytesView", names, &len))
		return NULL;
	if (len > PY_SSIZE_T_MAX)
		return PyErr_NoMemory();
	v = (struct view *)PyType_GenericAlloc(type, 0);
	if (!v)
		return NULL;
	v->bytes = malloc(len ? len : 1); /* not zeroed: it is filled before anybody sees it */
	v->len = len;
	if (v->bytes)
		return (PyObject *)v;
	Py_DECREF(v);
	return PyErr_NoMemory();
}

static void view_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	free(view_of(self)->bytes);
	PyObject_Free(self);
	Py_DECREF(type);
}

static int view_getbuffer(PyObject *self, Py_buffer *b, int flags)
{
	struct view *v = view_of(self);

	if (PyBuffer_FillInfo(b, self, v->bytes, (Py_ssize_t)v->len, 1, flags) < 0)
		return -1;
	v->exports++;
	return 0;
}

static void view_releasebuffer(PyObject *self, Py_buffer *b)
{
	(void)b;
	view_of(self)->exports--;
}

static Py_ssize_t view_len(PyObject *self)
{
	return (Py_ssize_t)view_of(self)->len;
}

static PyObject *view_subscript(PyObject *self, PyObject *key)
{
	PyObject *m = PyMemoryView_FromObject(self);
	PyObject *item = m ? PyObject_GetItem(m, key) : NULL;

	Py_XDECREF(m);
	return item;
}

/* Equal to whatever has the same bytes. */
static PyObject *view_compare(PyObject *self, PyObject *other, int op)
{
	PyObject *m, *r;

	if ((op != Py_EQ && op != Py_NE) || !PyObject_CheckBuffer(other))
		Py_RETURN_NOTIMPLEMENTED;
	m = PyMemoryView_FromObject(self);
	r = m ? PyObject_RichCompare(m, other, op) : NULL;
	Py_XDECREF(m);
	return r;
}

static PyObject *view_memoryview(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyMemoryView_FromObject(self);
}

static PyObject *view_bytes(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyBytes_FromStringAndSize(view_of(self)->bytes, (Py_ssize_t)view_of(self)->len);
}

static PyObject *view_resize(PyObject *self, PyObject *args)
{
	struct view *v = view_of(self);
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
static PyObject *view_fill(PyObject *self, PyObject *args)
{
	struct view *v = view_of(self);
	Py_buffer from;

	if (!PyArg_ParseTuple(args, "y*:_fill", &from))
		return NULL;
	memcpy(v->bytes, from.buf, v->len < (uint64_t)from.len ? v->len : (size_t)from.len);
	PyBuffer_Release(&from);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{"memoryview", view_memoryview, METH_NOARGS,
	 "memoryview($self, /)\n--\n\nA read-only view; nothing is copied."},
	{"to_bytes", view_bytes, METH_NOARGS, "to_bytes($self, /)\n--\n\nA copy, as bytes."},
	{"__bytes__", view_bytes, METH_NOARGS, NULL},
	{"_fill", view_fill, METH_VARARGS, NULL},
	{"_resize", view_resize, METH_VARARGS, NULL},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char doc[] =
	"BytesView(length=0)\n--\n\n"
	"Bytes from an object store, where they arrived; read-only, by the buffer protocol.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_new, view_new},
	{Py_tp_dealloc, view_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_richcompare, view_compare},
	{Py_tp_hash, PyObject_HashNotImplemented},
	{Py_mp_length, view_len},
	{Py_mp_subscript, view_subscript},
	{Py_bf_getbuffer, view_getbuffer},
	{Py_bf_releasebuffer, view_releasebuffer},
	{0, NULL},
};

PyType_Spec view_spec = {
	.name = "penstock._penstock.BytesView",
	.basicsize = sizeof(struct view),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
