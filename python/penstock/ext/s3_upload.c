/* SPDX-License-Identifier: Apache-2.0 */
/* What of an object store is not one call: lists, and objects that are written bit by bit. */
#include <string.h>

#include "s3.h"

/* -------------------------------------------------------------------------------- lists */

struct listing {
	PyObject_HEAD PyObject *client;
	struct penstock_s3_list *l;
	atomic_bool in_use;
};

PyObject *client_list(PyObject *self, PyObject *args)
{
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c;
	struct listing *x;
	const char *uri;
	unsigned flags;
	int r;

	if (!PyArg_ParseTuple(args, "sI:list", &uri, &flags))
		return NULL;
	x = (struct listing *)PyType_GenericAlloc(module_state()->listing_type, 0);
	if (!x)
		return NULL;
	c = client_begin_use(self);
	if (!c) {
		Py_DECREF(x);
		return NULL;
	}
	x->client = Py_NewRef(self);
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_list_open(&x->l, c, uri, flags, &err);
	Py_END_ALLOW_THREADS
	if (!r)
		return (PyObject *)x;
	Py_DECREF(x);
	return s3_raise(r, &err);
}

static void listing_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	struct listing *x = (struct listing *)self;

	penstock_s3_list_close(x->l);
	if (x->client)
		client_end_use(x->client);
	Py_XDECREF(x->client);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *listing_next(PyObject *self)
{
	struct listing *x = (struct listing *)self;
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_err err = {0, ""};
	PyObject *key = NULL, *out = NULL;
	int r;

	if (atomic_exchange(&x->in_use, true)) {
		PyErr_SetString(PyExc_ValueError, "another thread is using this list");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_list_next(x->l, &e, &err);
	Py_END_ALLOW_THREADS
	/* A key is bytes to the store; what is no UTF-8 comes back as it went. */
	if (r > 0)
		key = PyUnicode_DecodeUTF8(e.key, (Py_ssize_t)strlen(e.key), "surrogateescape");
	if (key)
		out = Py_BuildValue("NKLsOz", key, (unsigned long long)e.bytes, (long long)e.mtime,
				    e.etag ? e.etag : "", e.is_prefix ? Py_True : Py_False,
				    e.upload_id);
	x->in_use = false; /* only now: the texts are the list's */
	return r < 0 ? s3_raise(r, &err) : out;
}

static PyMethodDef listing_methods[] = {
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char listing_doc[] = "What is below a prefix.";

static PyType_Slot listing_slots[] = {
	{Py_tp_doc, listing_doc},         {Py_tp_dealloc, listing_dealloc},
	{Py_tp_methods, listing_methods}, {Py_tp_iter, PyObject_SelfIter},
	{Py_tp_iternext, listing_next},   {0, NULL},
};

PyType_Spec listing_spec = {
	.name = "penstock._penstock.ObjectListing",
	.basicsize = sizeof(struct listing),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = listing_slots,
};

/* ------------------------------------------------------------------------------ uploads */

struct upload {
	PyObject_HEAD PyObject *client;
	struct penstock_s3_upload
		*_Atomic u; /* NULL: over; changed by the thread that has set in_use */
	atomic_bool in_use;
};

PyObject *client_upload(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char uri_name[] = "uri", part_name[] = "part", flight_name[] = "in_flight",
		    flags_name[] = "flags", type_name[] = "content_type",
		    expected_name[] = "expected";
	static char *names[] = {uri_name,  part_name,     flight_name, flags_name,
				type_name, expected_name, NULL};
	struct penstock_s3_upload_opts o = PENSTOCK_S3_UPLOAD_OPTS_INIT;
	unsigned long long part = 0, expected = 0;
	struct penstock_s3_upload *u = NULL;
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c;
	struct upload *x;
	const char *uri;
	int r;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$KIIzK:upload", names, &uri, &part,
					 &o.in_flight, &o.flags, &o.content_type, &expected))
		return NULL;
	o.part = part;
	o.expected = expected;
	x = (struct upload *)PyType_GenericAlloc(module_state()->upload_type, 0);
	if (!x)
		return NULL;
	c = client_begin_use(self);
	if (!c) {
		Py_DECREF(x);
		return NULL;
	}
	x->client = Py_NewRef(self);
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_upload_open(&u, c, uri, &o, &err);
	Py_END_ALLOW_THREADS
	x->u = u;
	if (!r)
		return (PyObject *)x;
	Py_DECREF(x);
	return s3_raise(r, &err);
}

/* For the time of a call: NULL where it is over or another thread is in it. */
static struct penstock_s3_upload *upload_begin_use(struct upload *x)
{
	bool other = atomic_exchange(&x->in_use, true);

	if (!other && x->u)
		return x->u;
	PyErr_SetString(PyExc_ValueError,
			x->u ? "another thread is using this upload" : "the upload is over");
	if (!other)
		x->in_use = false;
	return NULL;
}

static PyObject *upload_write(PyObject *self, PyObject *args)
{
	struct upload *x = (struct upload *)self;
	struct penstock_err err = {0, ""};
	struct penstock_s3_upload *u;
	Py_buffer data;
	int r;

	if (!PyArg_ParseTuple(args, "y*:write", &data))
		return NULL;
	u = upload_begin_use(x);
	if (!u) {
		PyBuffer_Release(&data);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_upload_write(u, data.buf, (uint64_t)data.len, &err);
	Py_END_ALLOW_THREADS
	x->in_use = false;
	PyBuffer_Release(&data);
	if (r < 0)
		return s3_raise(r, &err);
	Py_RETURN_NONE;
}

static PyObject *upload_commit(PyObject *self, PyObject *unused)
{
	struct upload *x = (struct upload *)self;
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_s3_upload *u = upload_begin_use(x);
	struct penstock_err err = {0, ""};
	int r;

	(void)unused;
	if (!u)
		return NULL;
	x->u = NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_upload_commit(u, &info, &err);
	Py_END_ALLOW_THREADS
	x->in_use = false;
	return r ? s3_raise(r, &err) : PyUnicode_FromString(info.etag);
}

static PyObject *upload_abort(PyObject *self, PyObject *unused)
{
	struct upload *x = (struct upload *)self;
	struct penstock_s3_upload *u;

	(void)unused;
	if (!x->u)
		Py_RETURN_NONE;
	u = upload_begin_use(x);
	if (!u)
		return NULL;
	x->u = NULL;
	Py_BEGIN_ALLOW_THREADS
	penstock_s3_upload_abort(u);
	Py_END_ALLOW_THREADS
	x->in_use = false;
	Py_RETURN_NONE;
}

static void upload_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	struct upload *x = (struct upload *)self;
	struct penstock_s3_upload *u = x->u;

	Py_BEGIN_ALLOW_THREADS
	penstock_s3_upload_abort(u);
	Py_END_ALLOW_THREADS
	if (x->client)
		client_end_use(x->client);
	Py_XDECREF(x->client);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyMethodDef upload_methods[] = {
	{"write", upload_write, METH_VARARGS, "write($self, data, /)\n--\n\nThe next bytes."},
	{"commit", upload_commit, METH_NOARGS,
	 "commit($self, /)\n--\n\nMake it the object; its ETag."},
	{"abort", upload_abort, METH_NOARGS,
	 "abort($self, /)\n--\n\nAs if nothing had been written."},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char upload_doc[] = "An object that is being written.";

static PyType_Slot upload_slots[] = {
	{Py_tp_doc, upload_doc},
	{Py_tp_dealloc, upload_dealloc},
	{Py_tp_methods, upload_methods},
	{0, NULL},
};

PyType_Spec upload_spec = {
	.name = "penstock._penstock.ObjectUpload",
	.basicsize = sizeof(struct upload),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = upload_slots,
};
