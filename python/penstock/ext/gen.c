/* SPDX-License-Identifier: Apache-2.0 */
/* _penstock.Content: bytes that are made from a seed, and known again. */
#include <errno.h>

#include <penstock/gen.h>

#include "ckpt.h"

struct content {
	PyObject_HEAD struct penstock_gen *gen;
};

static PyObject *content_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char seed_name[] = "seed", dedup_name[] = "dedup", compress_name[] = "compress";
	static char *names[] = {seed_name, dedup_name, compress_name, NULL};
	double dedup = 1, compress = 1;
	struct penstock_err err = {0, ""};
	unsigned long long seed = 0;
	struct content *c;
	int r;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|K$dd:Content", names, &seed, &dedup,
					 &compress))
		return NULL;
	c = (struct content *)PyType_GenericAlloc(type, 0);
	if (!c)
		return NULL;
	r = penstock_gen_open(&c->gen, seed, dedup, compress, &err);
	if (r < 0) {
		Py_DECREF(c);
		PyErr_SetString(r == -ENOMEM ? PyExc_MemoryError : PyExc_ValueError, err.msg);
		return NULL;
	}
	return (PyObject *)c;
}

static void content_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	penstock_gen_close(((struct content *)self)->gen);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *content_fill(PyObject *self, PyObject *args)
{
	struct content *c = (struct content *)self;
	unsigned long long object, offset;
	Py_buffer view;

	if (!PyArg_ParseTuple(args, "w*KK:fill", &view, &object, &offset))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	penstock_gen_fill(c->gen, object, offset, view.buf, (size_t)view.len);
	Py_END_ALLOW_THREADS
	PyBuffer_Release(&view);
	Py_RETURN_NONE;
}

static PyObject *content_check(PyObject *self, PyObject *args)
{
	struct content *c = (struct content *)self;
	unsigned long long object, offset;
	Py_buffer view;
	size_t good;

	if (!PyArg_ParseTuple(args, "y*KK:check", &view, &object, &offset))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	good = penstock_gen_check(c->gen, object, offset, view.buf, (size_t)view.len);
	Py_END_ALLOW_THREADS
	PyBuffer_Release(&view);
	return PyLong_FromSize_t(good);
}

static PyMethodDef methods[] = {
	{"fill", content_fill, METH_VARARGS,
	 "fill($self, buffer, object, offset, /)\n--\n\nThe bytes of an object from there on."},
	{"check", content_check, METH_VARARGS,
	 "check($self, data, object, offset, /)\n--\n\nHow many of them are right, up to the first "
	 "that "
	 "is not."},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char doc[] = "Content(seed=0, *, dedup=1.0, compress=1.0)\n--\n\n"
		    "Content for tests: a function of seed, object and offset.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_new, content_new},
	{Py_tp_dealloc, content_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

PyType_Spec content_spec = {
	.name = "penstock._penstock.Content",
	.basicsize = sizeof(struct content),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
