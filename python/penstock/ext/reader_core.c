/* SPDX-License-Identifier: Apache-2.0 */
/* _penstock.ReaderCore: a file that is read in ranges, many at once, and checked on the way. */
#include <string.h>
#include <sys/mman.h>

#include <penstock/ckpt.h>

#include "ckpt.h"
#include "s3.h"

#define BATCH_BYTES (4ull << 30) /* between two of them a signal may end a read */
#define HUGE_BYTES  (2ull << 20)

struct reader_core {
	PyObject_HEAD struct penstock_io *io;
	struct penstock_reader *reader;     /* NULL: closed */
	struct penstock_safetensors *model; /* that the reader belongs to, or NULL */
	PyObject *name;
	PyObject *s3; /* see s3_attach_client() */
	int in_use;
};

static PyObject *reader_failed(struct reader_core *in, int code, const struct penstock_err *err)
{
	return raise_os(code, err->msg[0] ? err->msg : penstock_strerror(code), in->name);
}

static int reader_begin_use(struct reader_core *in)
{
	if (begin_exclusive(&in->in_use, "file") < 0)
		return -1;
	if (in->reader)
		return 0;
	end_exclusive(&in->in_use);
	PyErr_SetString(PyExc_ValueError, "the file is closed");
	return -1;
}

/* ----------------------------------------------------------------- reading */

static PyObject *reader_pread(PyObject *self, PyObject *args)
{
	struct reader_core *in = (struct reader_core *)self;
	unsigned long long offset, length;
	struct penstock_err err = {0, ""};
	PyObject *data, *cut = NULL;
	int64_t n;

	if (!PyArg_ParseTuple(args, "KK:pread", &offset, &length))
		return NULL;
	if (length > PY_SSIZE_T_MAX)
		return PyErr_NoMemory();
	data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
	if (!data)
		return NULL;
	if (reader_begin_use(in) == 0) {
		char *to = PyBytes_AsString(data);

		Py_BEGIN_ALLOW_THREADS
		n = penstock_reader_pread(in->reader, to, length, offset, &err);
		Py_END_ALLOW_THREADS
		end_exclusive(&in->in_use);
		if (n < 0)
			reader_failed(in, (int)n, &err);
		else if ((unsigned long long)n == length)
			return data;
		else
			cut = PyBytes_FromStringAndSize(to, (Py_ssize_t)n);
	}
	Py_DECREF(data);
	return cut;
}

/* How many of the pieces make a batch. */
static uint64_t count_batch(const struct penstock_piece *p, uint64_t n)
{
	uint64_t bytes = 0, i = 0;

	while (i < n && (i == 0 || bytes + p[i].len <= BATCH_BYTES))
		bytes += p[i++].len;
	return i;
}

static int fetch_batches(struct reader_core *in, const struct penstock_piece *p, uint64_t n)
{
	struct penstock_err err = {0, ""};
	int r = 0;

	while (r == 0 && n) {
		uint64_t some = count_batch(p, n);

		Py_BEGIN_ALLOW_THREADS
		r = penstock_reader_fetch(in->reader, p, some, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			reader_failed(in, r, &err);
		else
			r = PyErr_CheckSignals();
		p += some;
		n -= some;
	}
	return r < 0 ? -1 : 0;
}

/* From numbers of 64 bits, three for each: address (0: only check), bytes, offset. */
static PyObject *reader_fetch(PyObject *self, PyObject *ranges)
{
	struct reader_core *in = (struct reader_core *)self;
	struct penstock_piece *p = NULL;
	Py_buffer view;
	uint64_t n;
	int r = -1;

	if (PyObject_GetBuffer(ranges, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	n = (uint64_t)view.len / 24;
	if (view.len % 24)
		PyErr_SetString(PyExc_ValueError, "ranges: no multiple of 24 bytes");
	else if (!(p = PyMem_Calloc(n ? n : 1, sizeof(*p))))
		PyErr_NoMemory();
	for (uint64_t i = 0; p && i < n; i++) {
		uint64_t v[3];

		memcpy(v, (const char *)view.buf + 24 * i, sizeof(v));
		p[i] = (struct penstock_piece){
			.buf = (void *)(uintptr_t)v[0], .len = v[1], .offset = v[2]};
	}
	PyBuffer_Release(&view);
	if (p && reader_begin_use(in) == 0) {
		r = fetch_batches(in, p, n);
		end_exclusive(&in->in_use);
	}
	PyMem_Free(p);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* --------------------------------------------------------- opening, closing */

static void close_reader(struct reader_core *in)
{
	struct penstock_safetensors *m = in->model;
	struct penstock_reader *r = m ? NULL : in->reader;

	in->reader = NULL;
	in->model = NULL;
	Py_BEGIN_ALLOW_THREADS
	penstock_safetensors_close(m);
	penstock_reader_close(r);
	penstock_close(in->io, NULL);
	Py_END_ALLOW_THREADS
	in->io = NULL;
	s3_release_client(in->s3);
	in->s3 = NULL;
}

static PyObject *reader_close(PyObject *self, PyObject *unused)
{
	struct reader_core *in = (struct reader_core *)self;

	(void)unused;
	if (begin_exclusive(&in->in_use, "file") < 0)
		return NULL;
	if (in->reader)
		close_reader(in);
	end_exclusive(&in->in_use);
	Py_RETURN_NONE;
}

static void reader_dealloc(PyObject *self)
{
	struct reader_core *in = (struct reader_core *)self;
	PyTypeObject *type = Py_TYPE(self);

	if (in->io)
		close_reader(in);
	Py_XDECREF(in->name);
	PyObject_Free(self);
	Py_DECREF(type);
}

static int reader_begin(struct reader_core *in, const struct path *path, int verify,
			const char *engine, bool safetensors)
{
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	struct penstock_err err = {0, ""};
	int r;

	o.verify = (uint32_t)verify;
	in->io = ckpt_io(engine);
	if (!in->io || s3_attach_client(in->io, path, &in->s3) < 0)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	if (!safetensors)
		r = penstock_reader_open(&in->reader, in->io, path->path, &o, &err);
	else
		r = penstock_safetensors_open(&in->model, in->io, path->path, &o, &err);
	if (r == 0 && safetensors)
		in->reader = penstock_safetensors_reader(in->model);
	Py_END_ALLOW_THREADS
	if (r < 0)
		reader_failed(in, r, &err);
	return r < 0 ? -1 : 0;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = {"path", "verify", "engine", "safetensors", NULL};
	static const char *const choices[] = {"auto", "always", "never", NULL};
	struct params p = {"ReaderCore", names, 1, 1};
	const char *engine = NULL;
	struct path path;
	struct reader_core *in;
	PyObject *v[4];
	int verify, safetensors;

	if (args_parse_tuple(&p, args, kwargs, v) < 0)
		return NULL;
	verify = v[1] ? args_choice("verify", v[1], choices) : 0;
	safetensors = args_flag(v[3], false);
	if (verify < 0 || safetensors < 0 ||
	    (v[2] && v[2] != Py_None && !(engine = args_text("engine", v[2]))) ||
	    path_take(&path, v[0]) < 0)
		return NULL;
	in = (struct reader_core *)PyType_GenericAlloc(type, 0);
	if (in)
		in->name = Py_NewRef(path.filename);
	if (in && !path.path) {
		PyErr_Format(PyExc_TypeError, "path: %R is not the name of a file", v[0]);
		Py_CLEAR(in);
	} else if (in && reader_begin(in, &path, verify, engine, safetensors) < 0) {
		Py_CLEAR(in);
	}
	path_drop(&path);
	return (PyObject *)in;
}

/* --------------------------------------------------------------- questions */

static int reader_stat(struct reader_core *in, struct penstock_reader_info *info)
{
	info->size = sizeof(*info);
	if (reader_begin_use(in) < 0)
		return -1;
	penstock_reader_stat(in->reader, info);
	end_exclusive(&in->in_use);
	return 0;
}

static PyObject *get_size(PyObject *self, void *unused)
{
	struct penstock_reader_info info = {0};

	(void)unused;
	return reader_stat((struct reader_core *)self, &info) < 0
		       ? NULL
		       : PyLong_FromUnsignedLongLong(info.bytes);
}

static PyObject *get_verifies(PyObject *self, void *unused)
{
	struct penstock_reader_info info = {0};

	(void)unused;
	return reader_stat((struct reader_core *)self, &info) < 0
		       ? NULL
		       : PyBool_FromLong(info.verify != 0);
}

static PyObject *get_bad(PyObject *self, void *unused)
{
	struct penstock_reader_info info = {0};

	(void)unused;
	if (reader_stat((struct reader_core *)self, &info) < 0)
		return NULL;
	return Py_BuildValue("KK", (unsigned long long)info.bad_offset,
			     (unsigned long long)info.bad_len);
}

static PyObject *shape_of(const struct penstock_tensor *t)
{
	PyObject *shape = PyTuple_New(t->rank);

	for (uint32_t i = 0; shape && i < t->rank; i++) {
		PyObject *n = PyLong_FromUnsignedLongLong(t->shape[i]);

		if (!n || PyTuple_SetItem(shape, i, n) < 0)
			Py_CLEAR(shape);
	}
	return shape;
}

/* Of a file of safetensors: (name, dtype, shape, offset in the file, bytes) of each. */
static PyObject *get_tensors(PyObject *self, void *unused)
{
	struct reader_core *in = (struct reader_core *)self;
	const struct penstock_tensor *t;
	PyObject *list;

	(void)unused;
	if (begin_exclusive(&in->in_use, "file") < 0)
		return NULL;
	list = PyList_New(0);
	for (uint64_t i = 0; list && in->model && (t = penstock_safetensors_get(in->model, i));
	     i++) {
		PyObject *shape = shape_of(t), *one = NULL;

		if (shape)
			one = Py_BuildValue("ssNKK", t->name, penstock_dtype_name(t->dtype), shape,
					    (unsigned long long)t->offset,
					    (unsigned long long)t->len);
		if (!one || PyList_Append(list, one) < 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	end_exclusive(&in->in_use);
	return list;
}

static PyObject *get_metadata(PyObject *self, void *unused)
{
	struct reader_core *in = (struct reader_core *)self;
	const struct penstock_meta *m;
	PyObject *found;

	(void)unused;
	if (begin_exclusive(&in->in_use, "file") < 0)
		return NULL;
	found = PyDict_New();
	for (uint64_t i = 0;
	     found && in->model && (m = penstock_safetensors_metadata(in->model, i)); i++) {
		PyObject *value = PyUnicode_FromString(m->value);

		if (!value || PyDict_SetItemString(found, m->key, value) < 0)
			Py_CLEAR(found);
		Py_XDECREF(value);
	}
	end_exclusive(&in->in_use);
	return found;
}

/* (name, offset in the file, bytes) of each record of an archive, or NULL with an exception. */
static PyObject *list_records(const struct penstock_archive *a)
{
	const struct penstock_record *rec;
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && (rec = penstock_archive_get(a, i)); i++) {
		PyObject *name = PyUnicode_DecodeUTF8(rec->name, (Py_ssize_t)strlen(rec->name),
						      "surrogateescape");
		PyObject *one = name ? Py_BuildValue("NKK", name, (unsigned long long)rec->offset,
						     (unsigned long long)rec->len)
				     : NULL;

		if (!one || PyList_Append(list, one) < 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *reader_records(PyObject *self, PyObject *unused)
{
	struct reader_core *in = (struct reader_core *)self;
	struct penstock_archive *a = NULL;
	struct penstock_err err = {0, ""};
	PyObject *list = NULL;
	int r;

	(void)unused;
	if (reader_begin_use(in) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_archive_open(&a, in->reader, &err);
	Py_END_ALLOW_THREADS
	end_exclusive(&in->in_use);
	if (r < 0)
		return reader_failed(in, r, &err);
	list = list_records(a);
	penstock_archive_close(a);
	return list;
}

static PyMethodDef methods[] = {
	{"pread", reader_pread, METH_VARARGS, "pread($self, offset, length, /)\n--\n\n"},
	{"fetch", reader_fetch, METH_O,
	 "fetch($self, ranges, /)\n--\n\n"
	 "Read many ranges: for each three numbers of 64 bits, address (0: only check), bytes, "
	 "offset."},
	{"records", reader_records, METH_NOARGS,
	 "records($self, /)\n--\n\n"
	 "Of the zip archive that the file is: name, offset, bytes of each."},
	{"close", reader_close, METH_NOARGS, "close($self)\n--\n\n"},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"size", get_size, NULL, "Bytes in the file when it was opened.", NULL},
	{"verifies", get_verifies, NULL, "Whether what is read is checked.", NULL},
	{"tensors", get_tensors, NULL, "Of safetensors: name, dtype, shape, offset, bytes.", NULL},
	{"metadata", get_metadata, NULL, "Of safetensors: from text to text.", NULL},
	{"bad", get_bad, NULL, "Offset and length of the last part that was found wrong.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static char doc[] = "ReaderCore(path, *, verify='auto', engine=None, safetensors=False)\n--\n\n"
		    "A file that is read in ranges, many at once, and checked on the way.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},         {Py_tp_new, reader_new}, {Py_tp_dealloc, reader_dealloc},
	{Py_tp_methods, methods}, {Py_tp_getset, getset},  {0, NULL},
};

PyType_Spec reader_spec = {
	.name = "penstock._penstock.ReaderCore",
	.basicsize = sizeof(struct reader_core),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};

/* -------------------------------------------------------- shared with writer_core.c */

int begin_exclusive(int *in_use, const char *what)
{
	if (!__atomic_exchange_n(in_use, 1, __ATOMIC_ACQUIRE))
		return 0;
	PyErr_Format(PyExc_RuntimeError, "another thread is using the %s", what);
	return -1;
}

void end_exclusive(int *in_use)
{
	__atomic_store_n(in_use, 0, __ATOMIC_RELEASE);
}

struct penstock_io *ckpt_io(const char *engine)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;
	int r;

	o.engine = engine;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_open(&io, &o, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		raise_os(r, err.msg, NULL);
	return r < 0 ? NULL : io;
}

PyObject *ckpt_crc32(PyObject *module, PyObject *args)
{
	unsigned long value = 0;
	Py_buffer view;
	uint32_t crc;

	(void)module;
	if (!PyArg_ParseTuple(args, "y*|k:crc32", &view, &value))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	crc = penstock_crc32((uint32_t)value, view.buf, (size_t)view.len);
	Py_END_ALLOW_THREADS
	PyBuffer_Release(&view);
	return PyLong_FromUnsignedLong(crc);
}

PyObject *ckpt_huge(PyObject *module, PyObject *args)
{
	unsigned long long address, nbytes, first, last;

	(void)module;
	if (!PyArg_ParseTuple(args, "KK:huge", &address, &nbytes))
		return NULL;
	first = (address + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	last = (address + nbytes) & ~(HUGE_BYTES - 1);
	if (last > first) /* what the kernel refuses is no failure: small pages do as well */
		madvise((void *)(uintptr_t)first, (size_t)(last - first), MADV_HUGEPAGE);
	Py_RETURN_NONE;
}

PyObject *ckpt_copy(PyObject *module, PyObject *args)
{
	Py_buffer view;

	(void)module;
	if (!PyArg_ParseTuple(args, "y*:copy", &view))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	for (const uint64_t *v = view.buf, *end = v + view.len / 24 * 3; v < end; v += 3)
		memcpy((void *)(uintptr_t)v[0], (const void *)(uintptr_t)v[1], (size_t)v[2]);
	Py_END_ALLOW_THREADS
	PyBuffer_Release(&view);
	Py_RETURN_NONE;
}

static PyObject *name_unless_skipped(PyObject *self, PyObject *obj)
{
	int skip = PySet_Contains(PyTuple_GetItem(self, 0), (PyObject *)Py_TYPE(obj));

	if (skip < 0)
		return NULL;
	if (skip)
		Py_RETURN_NONE;
	return PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 1), obj, NULL);
}

PyObject *ckpt_make_persistent_id(PyObject *module, PyObject *args)
{
	static PyMethodDef def = {"persistent_id", name_unless_skipped, METH_O, NULL};
	PyObject *types, *name;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO:make_persistent_id", &types, &name))
		return NULL;
	if (!PyFrozenSet_Check(types)) {
		PyErr_SetString(PyExc_TypeError, "skipped_types: is no frozenset");
		return NULL;
	}
	return PyCFunction_New(&def, args);
}
