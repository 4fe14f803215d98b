/* SPDX-License-Identifier: Apache-2.0 */
/* _penstock.WriterCore: a file that is written from start to end and appears complete, or not at
 * all.
 */
#include <errno.h>
#include <string.h>

#include <penstock/ckpt.h>

#include "ckpt.h"
#include "records.h"
#include "s3.h"

struct writer_core {
	PyObject_HEAD struct penstock_io *io;
	struct penstock_writer *writer; /* NULL: ended */
	struct records *records;        /* an archive that a thread is writing, or NULL */
	PyObject *name;
	PyObject *s3; /* see s3_attach_client() */
	int in_use;
};

static PyObject *writer_failed(struct writer_core *o, int code, const struct penstock_err *err)
{
	return raise_os(code, err->msg[0] ? err->msg : penstock_strerror(code), o->name);
}

static int begin_any_use(struct writer_core *o)
{
	if (begin_exclusive(&o->in_use, "file") < 0)
		return -1;
	if (o->writer)
		return 0;
	end_exclusive(&o->in_use);
	PyErr_SetString(PyExc_ValueError, "the file is closed");
	return -1;
}

/* Where no thread writes records. */
static int writer_begin_use(struct writer_core *o)
{
	if (begin_any_use(o) < 0)
		return -1;
	if (!o->records)
		return 0;
	end_exclusive(&o->in_use);
	PyErr_SetString(PyExc_ValueError, "records are being written");
	return -1;
}

/* ----------------------------------------------------------------- writing */

/* As penstock_writer_write(), in pieces between which a signal may end it. */
static int write_pieces(struct writer_core *o, const char *buf, uint64_t len)
{
	struct penstock_err err = {0, ""};
	int r = 0;

	while (r == 0 && len) {
		uint64_t n = len < CKPT_PIECE ? len : CKPT_PIECE;

		Py_BEGIN_ALLOW_THREADS
		r = penstock_writer_write(o->writer, buf, n, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			writer_failed(o, r, &err);
		else if (len > n)
			r = PyErr_CheckSignals();
		buf += n;
		len -= n;
	}
	return r < 0 ? -1 : 0;
}

static PyObject *writer_write(PyObject *self, PyObject *data)
{
	struct writer_core *o = (struct writer_core *)self;
	PyObject *n = NULL;
	Py_buffer view;

	if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	if (writer_begin_use(o) == 0) {
		if (write_pieces(o, view.buf, (uint64_t)view.len) == 0)
			n = PyLong_FromSsize_t(view.len);
		end_exclusive(&o->in_use);
	}
	PyBuffer_Release(&view);
	return n;
}

static PyObject *writer_write_memory(PyObject *self, PyObject *args)
{
	struct writer_core *o = (struct writer_core *)self;
	unsigned long long address, nbytes;
	int r;

	if (!PyArg_ParseTuple(args, "KK:write_memory", &address, &nbytes) ||
	    writer_begin_use(o) < 0)
		return NULL;
	r = write_pieces(o, (const char *)(uintptr_t)address, nbytes);
	end_exclusive(&o->in_use);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* As write_pieces() of each: pairs of numbers of 64 bits, address and bytes. */
static int write_ranges(struct writer_core *o, const char *numbers, uint64_t n)
{
	struct penstock_err err = {0, ""};
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < n;) {
		uint64_t v[2] = {0, 0}, some = 0;

		Py_BEGIN_ALLOW_THREADS
		do {
			memcpy(v, numbers + 16 * i, sizeof(v));
			if (some + v[1] > CKPT_PIECE)
				break;
			r = penstock_writer_write(o->writer, (const void *)(uintptr_t)v[0], v[1],
						  &err);
			some += v[1];
		} while (r == 0 && ++i < n);
		Py_END_ALLOW_THREADS
		if (r < 0)
			writer_failed(o, r, &err);
		else if (!some && i++ < n) /* one that is larger */
			r = write_pieces(o, (const char *)(uintptr_t)v[0], v[1]);
		else
			r = PyErr_CheckSignals();
	}
	return r < 0 ? -1 : 0;
}

static PyObject *writer_write_each(PyObject *self, PyObject *ranges)
{
	struct writer_core *o = (struct writer_core *)self;
	Py_buffer view;
	int r = -1;

	if (PyObject_GetBuffer(ranges, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	if (view.len % 16)
		PyErr_SetString(PyExc_ValueError, "ranges: no multiple of 16 bytes");
	else if (writer_begin_use(o) == 0) {
		r = write_ranges(o, view.buf, (uint64_t)view.len / 16);
		end_exclusive(&o->in_use);
	}
	PyBuffer_Release(&view);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* -------------------------------------------------------- archives of torch */

static PyObject *writer_archive(PyObject *self, PyObject *args)
{
	struct writer_core *o = (struct writer_core *)self;
	unsigned alignment;

	if (!PyArg_ParseTuple(args, "I:archive", &alignment) || writer_begin_use(o) < 0)
		return NULL;
	if (!alignment || alignment > 0x8000)
		PyErr_SetString(PyExc_ValueError, "alignment: is not from 1 to 32768");
	else if (!(o->records = records_start(o->writer, alignment)))
		PyErr_NoMemory();
	end_exclusive(&o->in_use);
	if (!o->records)
		return NULL;
	Py_RETURN_NONE;
}

/* Where a thread writes an archive. */
static int begin_archive_use(struct writer_core *o)
{
	if (begin_any_use(o) < 0)
		return -1;
	if (o->records)
		return 0;
	end_exclusive(&o->in_use);
	PyErr_SetString(PyExc_ValueError, "no archive has been begun");
	return -1;
}

static PyObject *writer_add_piece(struct writer_core *o, const char *name, Py_ssize_t len,
				  const void *data, uint64_t bytes, bool copy)
{
	int r;

	if (len > 0xffff)
		return PyErr_Format(PyExc_ValueError, "name: is longer than 65535 bytes");
	if (begin_archive_use(o) < 0)
		return NULL;
	r = records_add(o->records, name, (size_t)len, data, bytes, copy);
	end_exclusive(&o->in_use);
	if (r < 0)
		return PyErr_NoMemory();
	Py_RETURN_NONE;
}

static PyObject *writer_add(PyObject *self, PyObject *args)
{
	unsigned long long address, nbytes;
	const char *name;
	Py_ssize_t len;

	if (!PyArg_ParseTuple(args, "s#KK:add", &name, &len, &address, &nbytes))
		return NULL;
	return writer_add_piece((struct writer_core *)self, name, len,
				(const void *)(uintptr_t)address, nbytes, false);
}

static PyObject *writer_add_bytes(PyObject *self, PyObject *args)
{
	const char *name, *data;
	Py_ssize_t len, nbytes;

	if (!PyArg_ParseTuple(args, "s#y#:add_bytes", &name, &len, &data, &nbytes))
		return NULL;
	return writer_add_piece((struct writer_core *)self, name, len, data, (uint64_t)nbytes,
				true);
}

static PyObject *writer_end_archive(PyObject *self, PyObject *unused)
{
	struct writer_core *o = (struct writer_core *)self;
	const struct penstock_err *err;
	bool done = false;
	int r = 0;

	(void)unused;
	if (begin_archive_use(o) < 0)
		return NULL;
	records_end(o->records);
	while (!done && r == 0) {
		Py_BEGIN_ALLOW_THREADS
		done = records_wait(o->records, 100);
		Py_END_ALLOW_THREADS
		r = done ? 0 : PyErr_CheckSignals();
	}
	if (done) {
		r = records_result(o->records, &err);
		if (r < 0)
			writer_failed(o, r, err);
		records_stop(o->records);
		o->records = NULL;
	}
	end_exclusive(&o->in_use);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *writer_seek(PyObject *self, PyObject *args)
{
	struct writer_core *o = (struct writer_core *)self;
	struct penstock_err err = {0, ""};
	unsigned long long offset;
	int r;

	if (!PyArg_ParseTuple(args, "K:seek", &offset) || writer_begin_use(o) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_writer_seek(o->writer, offset, &err);
	Py_END_ALLOW_THREADS
	end_exclusive(&o->in_use);
	return r < 0 ? writer_failed(o, r, &err) : PyLong_FromUnsignedLongLong(offset);
}

static PyObject *writer_fileno(PyObject *self, PyObject *unused)
{
	struct writer_core *o = (struct writer_core *)self;
	struct penstock_err err = {0, ""};
	int fd;

	(void)unused;
	if (writer_begin_use(o) < 0)
		return NULL;
	fd = penstock_writer_fd(o->writer, &err);
	end_exclusive(&o->in_use);
	return fd < 0 ? writer_failed(o, fd, &err) : PyLong_FromLong(fd);
}

static PyObject *writer_sum(PyObject *self, PyObject *args)
{
	struct writer_core *o = (struct writer_core *)self;
	struct penstock_err err = {0, ""};
	unsigned long long offset;
	Py_buffer view;
	int r = -1;

	if (!PyArg_ParseTuple(args, "y*K:sum", &view, &offset))
		return NULL;
	if (writer_begin_use(o) == 0) {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_writer_add_checksum(o->writer, view.buf, (uint64_t)view.len, offset,
						 &err);
		Py_END_ALLOW_THREADS
		end_exclusive(&o->in_use);
		if (r < 0)
			writer_failed(o, r, &err);
	}
	PyBuffer_Release(&view);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *writer_tell(PyObject *self, PyObject *unused)
{
	struct writer_core *o = (struct writer_core *)self;
	uint64_t at;

	(void)unused;
	if (writer_begin_use(o) < 0)
		return NULL;
	at = penstock_writer_tell(o->writer);
	end_exclusive(&o->in_use);
	return PyLong_FromUnsignedLongLong(at);
}

/* ------------------------------------------------------------------ ending */

static PyObject *writer_commit(PyObject *self, PyObject *unused)
{
	struct writer_core *o = (struct writer_core *)self;
	struct penstock_err err = {0, ""};
	int r;

	(void)unused;
	if (writer_begin_use(o) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_writer_commit(o->writer, &err);
	o->writer = NULL;
	penstock_close(o->io, NULL);
	o->io = NULL;
	Py_END_ALLOW_THREADS
	s3_release_client(o->s3);
	o->s3 = NULL;
	end_exclusive(&o->in_use);
	if (r < 0)
		return writer_failed(o, r, &err);
	Py_RETURN_NONE;
}

static void abort_writer(struct writer_core *o)
{
	struct penstock_writer *w = o->writer;
	struct records *records = o->records;

	o->writer = NULL;
	o->records = NULL;
	Py_BEGIN_ALLOW_THREADS
	records_stop(records);
	penstock_writer_abort(w);
	penstock_close(o->io, NULL);
	o->io = NULL;
	Py_END_ALLOW_THREADS
	s3_release_client(o->s3);
	o->s3 = NULL;
}

static PyObject *writer_abort(PyObject *self, PyObject *unused)
{
	struct writer_core *o = (struct writer_core *)self;

	(void)unused;
	if (begin_exclusive(&o->in_use, "file") < 0)
		return NULL;
	if (o->writer)
		abort_writer(o);
	end_exclusive(&o->in_use);
	Py_RETURN_NONE;
}

static void writer_dealloc(PyObject *self)
{
	struct writer_core *o = (struct writer_core *)self;
	PyTypeObject *type = Py_TYPE(self);

	if (o->writer || o->io)
		abort_writer(o);
	Py_XDECREF(o->name);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ------------------------------------------------------------------ making */

/* The pool, in @n buffers of whole MiB; 0: four, or as many of 32 MiB as there is room for. */
static void split_memory(struct penstock_writer_opts *w, uint64_t memory, uint64_t n)
{
	const uint64_t mib = 1 << 20;

	if (!n) {
		n = memory / (32 * mib);
		n = n < 4 ? 4 : n > 64 ? 64 : n;
	}
	if (memory < n * mib)
		n = memory / mib;
	w->buffers = (uint32_t)n;
	w->buffer_bytes = memory / n / mib * mib;
	if (w->buffer_bytes > 1024 * mib)
		w->buffer_bytes = 1024 * mib;
}

static int writer_begin(struct writer_core *o, const struct path *path,
			const struct penstock_writer_opts *w)
{
	struct penstock_err err = {0, ""};
	int r;

	o->io = ckpt_io(NULL);
	if (!o->io || s3_attach_client(o->io, path, &o->s3) < 0)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_writer_open(&o->writer, o->io, path->path, w, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		writer_failed(o, r, &err);
	return r < 0 ? -1 : 0;
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = {"path",     "size",    "memory",  "durable",
					    "checksum", "outside", "buffers", NULL};
	struct penstock_writer_opts w = PENSTOCK_WRITER_OPTS_INIT;
	struct params p = {"WriterCore", names, 1, 1};
	int64_t size, memory = -1, buffers = -1;
	struct path path;
	struct writer_core *o;
	PyObject *v[7];
	int sync, sum, outside;

	if (args_parse_tuple(&p, args, kwargs, v) < 0)
		return NULL;
	size = args_int("size", v[1], 0, INT64_MAX, 0);
	if (size >= 0)
		memory = args_int("memory", v[2], 2 << 20, INT64_MAX, 128 << 20);
	sync = args_flag(v[3], true);
	sum = args_flag(v[4], true);
	outside = args_flag(v[5], false);
	if (memory >= 0)
		buffers = args_int("buffers", v[6], 0, 64, 0);
	if (buffers < 0 || sync < 0 || sum < 0 || outside < 0 || path_take(&path, v[0]) < 0)
		return NULL;
	w.expected = (uint64_t)size;
	w.flags = (sync ? 0 : PENSTOCK_WRITER_NO_SYNC) | (sum ? 0 : PENSTOCK_WRITER_NO_CRC) |
		  (outside ? PENSTOCK_WRITER_CALLER_WRITES : 0);
	split_memory(&w, (uint64_t)memory, (uint64_t)buffers);
	o = (struct writer_core *)PyType_GenericAlloc(type, 0);
	if (o)
		o->name = Py_NewRef(path.filename);
	if (o && !path.path) {
		PyErr_Format(PyExc_TypeError, "path: %R is not the name of a file", v[0]);
		Py_CLEAR(o);
	} else if (o && writer_begin(o, &path, &w) < 0) {
		Py_CLEAR(o);
	}
	path_drop(&path);
	return (PyObject *)o;
}

static PyObject *writer_get_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct writer_core *)self)->writer);
}

static PyMethodDef methods[] = {
	{"write", writer_write, METH_O, "write($self, data, /)\n--\n\n"},
	{"write_memory", writer_write_memory, METH_VARARGS,
	 "write_memory($self, address, nbytes, /)\n--\n\n"
	 "Write memory of this process or of a device."},
	{"write_each", writer_write_each, METH_O,
	 "write_each($self, ranges, /)\n--\n\n"
	 "The same of many: for each two numbers of 64 bits, address and bytes."},
	{"archive", writer_archive, METH_VARARGS,
	 "archive($self, alignment, /)\n--\n\n"
	 "Begin a zip archive, which a thread writes; until end_archive() nothing else may be."},
	{"add", writer_add, METH_VARARGS,
	 "add($self, name, address, nbytes, /)\n--\n\n"
	 "A record of it: memory of this process or of a device, which must stay as it is."},
	{"add_bytes", writer_add_bytes, METH_VARARGS, "add_bytes($self, name, data, /)\n--\n\n"},
	{"end_archive", writer_end_archive, METH_NOARGS,
	 "end_archive($self)\n--\n\n"
	 "When all of it is written: it is complete."},
	{"seek", writer_seek, METH_VARARGS, "seek($self, offset, /)\n--\n\n"},
	{"fileno", writer_fileno, METH_NOARGS,
	 "fileno($self)\n--\n\n"
	 "With outside: what its bytes are written to, by others."},
	{"sum", writer_sum, METH_VARARGS,
	 "sum($self, data, offset, /)\n--\n\n"
	 "Tell of bytes that others write: for the checksums."},
	{"tell", writer_tell, METH_NOARGS, "tell($self)\n--\n\n"},
	{"commit", writer_commit, METH_NOARGS, "commit($self)\n--\n\n"},
	{"abort", writer_abort, METH_NOARGS, "abort($self)\n--\n\n"},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"closed", writer_get_closed, NULL, "Whether it has ended.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static char doc[] =
	"WriterCore(path, *, size=0, memory=134217728, durable=True, checksum=True, "
	"outside=False, buffers=0)\n--\n\n"
	"A file that is written from start to end; seen after commit(), and not before.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},         {Py_tp_new, writer_new}, {Py_tp_dealloc, writer_dealloc},
	{Py_tp_methods, methods}, {Py_tp_getset, getset},  {0, NULL},
};

PyType_Spec writer_spec = {
	.name = "penstock._penstock.WriterCore",
	.basicsize = sizeof(struct writer_core),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
