/* SPDX-License-Identifier: Apache-2.0 */
/* _penstock.S3Client: requests to an object store.  penstock/s3.py makes it what users see. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "s3.h"

PyObject *s3_raise(int code, const struct penstock_err *err)
{
	if (code == -EINVAL && !strncmp(err->msg, "options", 7)) {
		PyErr_SetString(PyExc_ValueError, err->msg);
		return NULL;
	}
	return code == -ENOMEM ? PyErr_NoMemory() : raise_os(code, err->msg, NULL);
}

struct penstock_s3 *client_begin_use(PyObject *self)
{
	struct client *k = (struct client *)self;

	if (use_count_begin(&k->uses))
		return k->c;
	PyErr_SetString(PyExc_ValueError, "the client is closed");
	return NULL;
}

void client_end_use(PyObject *self)
{
	use_count_end(&((struct client *)self)->uses);
}

/* ------------------------------------------------------------------------- open, close */

/* What is given as a number, by name. */
static int set_number_option(const char *name, PyObject *value, struct penstock_s3_opts *o)
{
	const struct {
		const char *name;
		uint32_t *to;
	} fields[] = {
		{"style", &o->style},
		{"balance", &o->balance},
		{"rank", &o->rank},
		{"checksum", &o->checksum},
		{"connections", &o->connections},
		{"attempts", &o->attempts},
		{"timeout_ms", &o->timeout_ms},
		{"stall_ms", &o->stall_ms},
		{"flags", &o->flags},
	};
	unsigned long long n = PyLong_AsUnsignedLongLong(value);

	if (PyErr_Occurred())
		return -1;
	if (!strcmp(name, "part")) {
		o->part = n;
		return 0;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (strcmp(name, fields[i].name) != 0)
			continue;
		if (n > UINT32_MAX) {
			PyErr_Format(PyExc_ValueError, "%s: %llu is too large", name, n);
			return -1;
		}
		*fields[i].to = (uint32_t)n;
		return 0;
	}
	PyErr_Format(PyExc_TypeError, "S3Client() has no argument '%s'", name);
	return -1;
}

static int set_option(PyObject *name, PyObject *value, struct penstock_s3_opts *o)
{
	const struct {
		const char *name;
		const char **to;
	} fields[] = {
		{"endpoint", &o->endpoint}, {"region", &o->region}, {"profile", &o->profile},
		{"key_id", &o->key_id},     {"secret", &o->secret}, {"token", &o->token},
		{"ca_file", &o->ca_file},
	};
	const char *n = PyUnicode_AsUTF8AndSize(name, NULL);

	if (!n)
		return -1;
	if (value == Py_None)
		return 0;
	if (!PyUnicode_Check(value))
		return set_number_option(n, value, o);
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (!strcmp(n, fields[i].name)) {
			*fields[i].to = PyUnicode_AsUTF8AndSize(value, NULL);
			return *fields[i].to ? 0 : -1;
		}
	PyErr_Format(PyExc_TypeError, "S3Client() has no argument '%s' that is text", n);
	return -1;
}

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct penstock_s3_opts o = PENSTOCK_S3_OPTS_INIT;
	struct penstock_err err = {0, ""};
	PyObject *name, *value;
	struct client *k;
	Py_ssize_t at = 0;
	int r;

	if (!PyArg_ParseTuple(args, ":S3Client"))
		return NULL;
	o.env = getenv;
	while (kwargs && PyDict_Next(kwargs, &at, &name, &value))
		if (set_option(name, value, &o) < 0)
			return NULL;
	k = (struct client *)PyType_GenericAlloc(type, 0);
	if (!k)
		return NULL;
	k->owner = getpid();
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_open(&k->c, &o, &err);
	Py_END_ALLOW_THREADS
	if (!r)
		return (PyObject *)k;
	Py_DECREF(k);
	if (r == -EINVAL) {
		PyErr_SetString(PyExc_ValueError, err.msg);
		return NULL;
	}
	return s3_raise(r, &err);
}

static PyObject *client_close(PyObject *self, PyObject *unused)
{
	struct client *k = (struct client *)self;
	struct penstock_s3 *c;

	(void)unused;
	if (!use_count_close(&k->uses)) {
		if (k->uses < 0)
			Py_RETURN_NONE;
		PyErr_SetString(PyExc_ValueError, "the client is in use");
		return NULL;
	}
	c = k->c;
	k->c = NULL;
	Py_BEGIN_ALLOW_THREADS
	penstock_s3_close(c);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

static void client_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	struct client *k = (struct client *)self;

	if (k->owner == getpid()) { /* else its thread is the parent's */
		Py_BEGIN_ALLOW_THREADS
		penstock_s3_close(k->c);
		Py_END_ALLOW_THREADS
	}
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ------------------------------------------------------------------------- of a handle */

bool s3_is_object_path(const struct path *p)
{
	return p->path && penstock_s3_is_uri(p->path, NULL) > 0;
}

PyObject *s3_acquire_client(void)
{
	PyObject *module = PyImport_ImportModule("penstock.s3"), *client = NULL, *core = NULL;

	if (module)
		client = PyObject_CallMethod(module, "client", NULL);
	if (client)
		core = PyObject_GetAttrString(client, "core");
	Py_XDECREF(client);
	Py_XDECREF(module);
	if (core && !client_begin_use(core))
		Py_CLEAR(core);
	return core;
}

bool s3_set_client(struct penstock_io *io, PyObject *client)
{
	return penstock_set_s3(io, ((struct client *)client)->c) == 0;
}

int s3_attach_client(struct penstock_io *io, const struct path *p, PyObject **s3)
{
	if (*s3 || !s3_is_object_path(p))
		return 0;
	*s3 = s3_acquire_client();
	if (*s3)
		s3_set_client(io, *s3);
	return *s3 ? 0 : -1;
}

void s3_release_client(PyObject *client)
{
	if (client)
		client_end_use(client);
	Py_XDECREF(client);
}

/* ------------------------------------------------------------------------- one object */

static PyObject *client_stat(PyObject *self, PyObject *args)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c;
	const char *uri;
	int r;

	if (!PyArg_ParseTuple(args, "s:stat", &uri) || !(c = client_begin_use(self)))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_stat(c, uri, &info, &err);
	Py_END_ALLOW_THREADS
	client_end_use(self);
	if (r)
		return s3_raise(r, &err);
	return Py_BuildValue("KLs", (unsigned long long)info.bytes, (long long)info.mtime,
			     info.etag);
}

static PyObject *client_put(PyObject *self, PyObject *args)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	struct buffer t = {0};
	const char *uri, *etag;
	struct penstock_s3 *c;
	unsigned flags;
	PyObject *data;
	int r;

	if (!PyArg_ParseTuple(args, "sOIz:put", &uri, &data, &flags, &etag) ||
	    buffer_from_object(&t, data, false, -1) < 0)
		return NULL;
	if (t.device || t.nr_iov) {
		buffer_release(&t);
		PyErr_SetString(PyExc_TypeError, "data: memory of the host without gaps is needed");
		return NULL;
	}
	c = client_begin_use(self);
	if (!c) {
		buffer_release(&t);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_put(c, uri, t.addr, t.bytes, flags, etag, &info, &err);
	Py_END_ALLOW_THREADS
	client_end_use(self);
	buffer_release(&t);
	return r ? s3_raise(r, &err) : PyUnicode_FromString(info.etag);
}

static PyObject *client_copy(PyObject *self, PyObject *args)
{
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c;
	const char *from, *to;
	int r;

	if (!PyArg_ParseTuple(args, "ss:copy", &from, &to) || !(c = client_begin_use(self)))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_s3_copy(c, from, to, NULL, &err);
	Py_END_ALLOW_THREADS
	client_end_use(self);
	if (r)
		return s3_raise(r, &err);
	Py_RETURN_NONE;
}

/* ----------------------------------------------------------------------- many objects */

static PyObject *client_delete(PyObject *self, PyObject *args)
{
	struct penstock_err err = {0, ""};
	struct penstock_s3 *c;
	const char **uris;
	PyObject *list;
	Py_ssize_t n;
	int r = 0;

	if (!PyArg_ParseTuple(args, "O!:delete", &PyList_Type, &list))
		return NULL;
	list = PyList_AsTuple(list); /* nobody changes that meanwhile */
	n = list ? PyTuple_Size(list) : 0;
	uris = list ? PyMem_Calloc((size_t)n + 1, sizeof(*uris)) : NULL;
	for (Py_ssize_t i = 0; uris && !r && i < n; i++)
		r = (uris[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(list, i), NULL)) ? 0 : -1;
	c = uris && !r ? client_begin_use(self) : NULL;
	if (c) {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_s3_delete(c, uris, (uint64_t)n, &err);
		Py_END_ALLOW_THREADS
		client_end_use(self);
	}
	PyMem_Free(uris);
	Py_XDECREF(list);
	if (!c)
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	if (r)
		return s3_raise(r, &err);
	Py_RETURN_NONE;
}

/* -------------------------------------------------------------------------- statistics */

static PyObject *endpoints(struct penstock_s3 *c, uint32_t n)
{
	PyObject *out = PyList_New(0);

	for (uint32_t i = 0; out && i < n; i++) {
		struct penstock_s3_endpoint e = {.size = sizeof(e)};
		PyObject *one;

		if (penstock_s3_get_endpoint(c, i, &e))
			break;
		one = Py_BuildValue(
			"{sssOsKsKsKsKsK}", "url", e.url, "up", e.up ? Py_True : Py_False,
			"attempts", (unsigned long long)e.attempts, "failed",
			(unsigned long long)e.failed, "bytes_read",
			(unsigned long long)e.bytes_read, "bytes_written",
			(unsigned long long)e.bytes_written, "downs", (unsigned long long)e.downs);
		if (!one || PyList_Append(out, one) < 0)
			Py_CLEAR(out);
		Py_XDECREF(one);
	}
	return out;
}

static PyObject *client_stats(PyObject *self, PyObject *unused)
{
	struct penstock_s3_stats s = {.size = sizeof(s)};
	struct penstock_s3 *c = client_begin_use(self);
	PyObject *out = NULL, *list;

	(void)unused;
	if (!c)
		return NULL;
	penstock_s3_get_stats(c, &s);
	list = endpoints(c, s.nr_endpoints);
	if (list)
		out = Py_BuildValue(
			"{sKsKsKsKsKsKsKsKsKsKsLsssssssssssN}", "requests",
			(unsigned long long)s.requests, "failed", (unsigned long long)s.failed,
			"attempts", (unsigned long long)s.attempts, "retries",
			(unsigned long long)s.retries, "throttled", (unsigned long long)s.throttled,
			"timeouts", (unsigned long long)s.timeouts, "broken",
			(unsigned long long)s.broken, "bytes_read",
			(unsigned long long)s.bytes_read, "bytes_written",
			(unsigned long long)s.bytes_written, "connects",
			(unsigned long long)s.connects, "skew_ms", (long long)s.skew_ms, "region",
			s.region, "style", s.style, "checksum", s.checksum, "payload", s.payload,
			"credentials", s.credentials, "endpoints", list);
	client_end_use(self);
	return out;
}

static PyMethodDef methods[] = {
	{"stat", client_stat, METH_VARARGS,
	 "stat($self, uri, /)\n--\n\n(bytes, seconds since 1970, ETag)"},
	{"put", client_put, METH_VARARGS,
	 "put($self, uri, data, flags, etag, /)\n--\n\nThe ETag of what is there now."},
	{"copy", client_copy, METH_VARARGS, "copy($self, source, target, /)\n--\n\nBy the store."},
	{"delete", client_delete, METH_VARARGS, "delete($self, uris, /)\n--\n\nAll of them."},
	{"fetch", client_fetch, METH_VARARGS,
	 "fetch($self, reads, /)\n--\n\n"
	 "(bytes, ETag) for each (uri, memory, position, offset, length, etag), all in flight "
	 "together."},
	{"list", client_list, METH_VARARGS,
	 "list($self, uri, flags, /)\n--\n\nAn iterator of (key, bytes, seconds, ETag, is_prefix, "
	 "upload)."},
	{"upload", (PyCFunction)(void (*)(void))client_upload, METH_VARARGS | METH_KEYWORDS,
	 "upload($self, uri, *, part=0, in_flight=0, flags=0, content_type=None, "
	 "expected=0)\n--\n\nAn object, "
	 "written bit by bit."},
	{"stats", client_stats, METH_NOARGS,
	 "stats($self, /)\n--\n\nCounters, and those of the endpoints."},
	{"close", client_close, METH_NOARGS, "close($self, /)\n--\n\nEnd the connections."},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char doc[] = "A client of an object store.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_new, client_new},
	{Py_tp_dealloc, client_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

PyType_Spec client_spec = {
	.name = "penstock._penstock.S3Client",
	.basicsize = sizeof(struct client),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
