/* SPDX-License-Identifier: Apache-2.0 */
/* _sluice.Output: a file that is written from start to end and appears complete, or not at all. */
#include <errno.h>
#include <stdio.h>

#include <sluice/ckpt.h>
#include <sluice/gpu.h>

#include "ckpt.h"
#include "records.h"
#include "s3.h"

#define STAGE_BYTES (16u << 20)
#define SUM_BYTES   (256u << 10) /* copied while they are in the cache */

struct output {
	PyObject_HEAD struct sluice_io *io;
	struct sluice_writer *writer; /* NULL: ended */
	struct records *records;      /* that are being written by a thread, or NULL */
	PyObject *name;
	PyObject *objects; /* see objects_give() */
	int busy;
	struct sluice_io *copier; /* for what comes from a device, or NULL */
	char *stage[2];           /* pinned host memory for it */
	bool pinned[2];
};

static PyObject *failed(struct output *o, int code, const struct sluice_err *err)
{
	return raise_os(code, err->msg[0] ? err->msg : sluice_strerror(code), o->name);
}

static int enter_any(struct output *o)
{
	if (busy_enter(&o->busy, "file") < 0)
		return -1;
	if (o->writer)
		return 0;
	busy_leave(&o->busy);
	PyErr_SetString(PyExc_ValueError, "the file is closed");
	return -1;
}

/* Where no thread writes records. */
static int enter(struct output *o)
{
	if (enter_any(o) < 0)
		return -1;
	if (!o->records)
		return 0;
	busy_leave(&o->busy);
	PyErr_SetString(PyExc_ValueError, "records are being written");
	return -1;
}

/* Without the GIL. */
static void release(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		if (o->pinned[i])
			sluice_gpu_unpin(o->stage[i]);
		sluice_mem_free(o->stage[i], STAGE_BYTES);
		o->stage[i] = NULL;
		o->pinned[i] = false;
	}
	sluice_close(o->copier, NULL);
	sluice_close(o->io, NULL);
	o->copier = o->io = NULL;
}

/* ----------------------------------------------------------------- writing */

int output_put(struct sluice_writer *w, const char *buf, uint64_t len, uint32_t *crc,
	       struct sluice_err *err)
{
	int r = 0;

	while (r == 0 && len) {
		uint64_t n = len < SUM_BYTES ? len : SUM_BYTES;

		*crc = sluice_crc32(*crc, buf, (size_t)n);
		r = sluice_writer_write(w, buf, n, err);
		buf += n;
		len -= n;
	}
	return r;
}

static int stage_make(struct output *o, struct sluice_err *err)
{
	int opened = o->copier ? 0 : sluice_open(&o->copier, NULL, err);

	if (opened < 0)
		return opened;
	for (int i = 0; i < 2; i++) {
		void *addr = NULL;
		int r = o->stage[i] ? 0
				    : sluice_mem_alloc(&addr, STAGE_BYTES, SLUICE_HUGE_AUTO, 0,
						       NULL, err);

		if (r < 0)
			return r;
		if (addr) {
			o->stage[i] = addr;
			o->pinned[i] = sluice_gpu_pin(addr, STAGE_BYTES, NULL) == 0;
		}
	}
	return 0;
}

static int copy_begin(struct output *o, char *to, const char *from, uint64_t len, uint64_t *ticket,
		      struct sluice_err *err)
{
	struct sluice_iov iov[2] = {{to, len}, {(void *)(uintptr_t)from, len}};
	struct sluice_op op = {.opcode = SLUICE_COPY, .nr_iov = 2, .iov = iov};
	int r = sluice_submit(o->copier, &op, 1, ticket, err);

	return r < 0 ? r : 0;
}

static int copy_end(struct output *o, uint64_t ticket, struct sluice_err *err)
{
	struct sluice_done done = {0};
	int r = sluice_wait(o->copier, ticket, -1, &done);

	if (r == 0 && done.res < 0) {
		r = (int)done.res;
		err->code = r;
		snprintf(err->msg, sizeof(err->msg), "%s", done.msg);
	}
	return r;
}

/* From a device: one buffer is filled while the other is summed and handed over. */
static int put_device(struct output *o, const char *buf, uint64_t len, uint32_t *crc,
		      struct sluice_err *err)
{
	uint64_t at = 0, began = 0, sizes[2] = {0}, tickets[2] = {0};
	int r = stage_make(o, err), q = 0;

	while (r == 0 && at < len) {
		for (; r == 0 && began < len && began - at <= STAGE_BYTES; began += sizes[q]) {
			q = (int)(began / STAGE_BYTES % 2);
			sizes[q] = len - began < STAGE_BYTES ? len - began : STAGE_BYTES;
			r = copy_begin(o, o->stage[q], buf + began, sizes[q], &tickets[q], err);
			if (r < 0)
				sizes[q] = 0;
		}
		q = (int)(at / STAGE_BYTES % 2);
		if (r == 0)
			r = copy_end(o, tickets[q], err);
		if (r == 0)
			r = output_put(o->writer, o->stage[q], sizes[q], crc, err);
		at += sizes[q];
	}
	if (r < 0)
		sluice_wait_all(o->copier, -1, NULL);
	return r;
}

/* As sluice_writer_write(), in pieces between which a signal may end it.  @crc: wanted, or NULL. */
static int put_all(struct output *o, const char *buf, uint64_t len, bool device, uint32_t *crc)
{
	struct sluice_err err = {0, ""};
	int r = 0;

	while (r == 0 && len) {
		uint64_t n = len < CKPT_PIECE ? len : CKPT_PIECE;

		Py_BEGIN_ALLOW_THREADS
		if (!crc)
			r = sluice_writer_write(o->writer, buf, n, &err);
		else
			r = device ? put_device(o, buf, n, crc, &err)
				   : output_put(o->writer, buf, n, crc, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			failed(o, r, &err);
		else if (len > n)
			r = PyErr_CheckSignals();
		buf += n;
		len -= n;
	}
	return r < 0 ? -1 : 0;
}

static PyObject *output_write(PyObject *self, PyObject *data)
{
	struct output *o = (struct output *)self;
	PyObject *n = NULL;
	Py_buffer view;

	if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	if (enter(o) == 0) {
		if (put_all(o, view.buf, (uint64_t)view.len, false, NULL) == 0)
			n = PyLong_FromSsize_t(view.len);
		busy_leave(&o->busy);
	}
	PyBuffer_Release(&view);
	return n;
}

static PyObject *output_write_memory(PyObject *self, PyObject *args)
{
	struct output *o = (struct output *)self;
	unsigned long long address, nbytes;
	PyObject *r = NULL;
	uint32_t crc = 0;
	int device = 0, sum = 1;

	if (!PyArg_ParseTuple(args, "KK|pp:write_memory", &address, &nbytes, &device, &sum) ||
	    enter(o) < 0)
		return NULL;
	if (put_all(o, (const char *)(uintptr_t)address, nbytes, device, sum ? &crc : NULL) == 0)
		r = PyLong_FromUnsignedLong(crc);
	busy_leave(&o->busy);
	return r;
}

/* ------------------------------------------------------------- by a thread */

static PyObject *output_add_records(PyObject *self, PyObject *args)
{
	struct output *o = (struct output *)self;
	Py_buffer heads, numbers;
	int r = -1;

	if (!PyArg_ParseTuple(args, "y*y*:add_records", &heads, &numbers))
		return NULL;
	if (enter_any(o) == 0) {
		if (!o->records)
			o->records = records_start(o->writer);
		r = o->records ? records_add(o->records, numbers.buf, (size_t)numbers.len / 32,
					     heads.buf, (size_t)heads.len)
			       : -ENOMEM;
		busy_leave(&o->busy);
		if (r < 0)
			PyErr_NoMemory();
	}
	PyBuffer_Release(&heads);
	PyBuffer_Release(&numbers);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *output_end_records(PyObject *self, PyObject *unused)
{
	struct output *o = (struct output *)self;
	const struct sluice_err *err;
	const uint32_t *sums;
	PyObject *found = NULL;
	bool done = false;
	size_t nr;
	int r = 0;

	(void)unused;
	if (enter_any(o) < 0)
		return NULL;
	while (o->records && !done && r == 0) {
		Py_BEGIN_ALLOW_THREADS
		done = records_wait(o->records, 100);
		Py_END_ALLOW_THREADS
		r = done ? 0 : PyErr_CheckSignals();
	}
	if (done) {
		r = records_result(o->records, &sums, &nr, &err);
		found = r < 0 ? failed(o, r, err)
			      : PyBytes_FromStringAndSize((const char *)sums, (Py_ssize_t)(4 * nr));
		records_stop(o->records);
		o->records = NULL;
	} else if (r == 0) {
		found = PyBytes_FromStringAndSize(NULL, 0);
	}
	busy_leave(&o->busy);
	return found;
}

static PyObject *output_seek(PyObject *self, PyObject *args)
{
	struct output *o = (struct output *)self;
	struct sluice_err err = {0, ""};
	unsigned long long offset;
	int r;

	if (!PyArg_ParseTuple(args, "K:seek", &offset) || enter(o) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = sluice_writer_seek(o->writer, offset, &err);
	Py_END_ALLOW_THREADS
	busy_leave(&o->busy);
	return r < 0 ? failed(o, r, &err) : PyLong_FromUnsignedLongLong(offset);
}

static PyObject *output_tell(PyObject *self, PyObject *unused)
{
	struct output *o = (struct output *)self;
	uint64_t at;

	(void)unused;
	if (enter(o) < 0)
		return NULL;
	at = sluice_writer_tell(o->writer);
	busy_leave(&o->busy);
	return PyLong_FromUnsignedLongLong(at);
}

/* ------------------------------------------------------------------ ending */

static PyObject *output_commit(PyObject *self, PyObject *unused)
{
	struct output *o = (struct output *)self;
	struct sluice_err err = {0, ""};
	int r;

	(void)unused;
	if (enter(o) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = sluice_writer_commit(o->writer, &err);
	o->writer = NULL;
	release(o);
	Py_END_ALLOW_THREADS
	objects_leave(o->objects);
	o->objects = NULL;
	busy_leave(&o->busy);
	if (r < 0)
		return failed(o, r, &err);
	Py_RETURN_NONE;
}

static void give_up(struct output *o)
{
	struct sluice_writer *w = o->writer;
	struct records *records = o->records;

	o->writer = NULL;
	o->records = NULL;
	Py_BEGIN_ALLOW_THREADS
	records_stop(records);
	sluice_writer_abort(w);
	release(o);
	Py_END_ALLOW_THREADS
	objects_leave(o->objects);
	o->objects = NULL;
}

static PyObject *output_abort(PyObject *self, PyObject *unused)
{
	struct output *o = (struct output *)self;

	(void)unused;
	if (busy_enter(&o->busy, "file") < 0)
		return NULL;
	if (o->writer)
		give_up(o);
	busy_leave(&o->busy);
	Py_RETURN_NONE;
}

static void output_dealloc(PyObject *self)
{
	struct output *o = (struct output *)self;
	PyTypeObject *type = Py_TYPE(self);

	if (o->writer || o->io)
		give_up(o);
	Py_XDECREF(o->name);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ------------------------------------------------------------------ making */

/* The pool, in buffers of whole MiB: four, or as many of 32 MiB as there is room for. */
static void share(struct sluice_writer_opts *w, uint64_t memory)
{
	const uint64_t mib = 1 << 20;
	uint64_t n = memory / (32 * mib);

	n = n < 4 ? 4 : n > 64 ? 64 : n;
	if (memory < 4 * mib)
		n = 2;
	w->buffers = (uint32_t)n;
	w->buffer_bytes = memory / n / mib * mib;
	if (w->buffer_bytes > 1024 * mib)
		w->buffer_bytes = 1024 * mib;
}

static int begin(struct output *o, const struct path *path, const struct sluice_writer_opts *w)
{
	struct sluice_err err = {0, ""};
	int r;

	o->io = ckpt_io(NULL);
	if (!o->io || objects_give(o->io, path, &o->objects) < 0)
		return -1;
	Py_BEGIN_ALLOW_THREADS
	r = sluice_writer_open(&o->writer, o->io, path->path, w, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		failed(o, r, &err);
	return r < 0 ? -1 : 0;
}

static PyObject *output_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = {"path", "size", "memory", "durable", "checksum", NULL};
	struct sluice_writer_opts w = SLUICE_WRITER_OPTS_INIT;
	struct params p = {"Output", names, 1, 1};
	int64_t size, memory = -1;
	struct path path;
	struct output *o;
	PyObject *v[5];
	int sync, sum;

	if (args_parse_tuple(&p, args, kwargs, v) < 0)
		return NULL;
	size = args_int("size", v[1], 0, INT64_MAX, 0);
	if (size >= 0)
		memory = args_int("memory", v[2], 2 << 20, INT64_MAX, 128 << 20);
	sync = args_flag(v[3], true);
	sum = args_flag(v[4], true);
	if (memory < 0 || sync < 0 || sum < 0 || path_take(&path, v[0]) < 0)
		return NULL;
	w.expected = (uint64_t)size;
	w.flags = (sync ? 0 : SLUICE_WRITER_NO_SYNC) | (sum ? 0 : SLUICE_WRITER_NO_CRC);
	share(&w, (uint64_t)memory);
	o = (struct output *)PyType_GenericAlloc(type, 0);
	if (o)
		o->name = Py_NewRef(path.filename);
	if (o && !path.path) {
		PyErr_Format(PyExc_TypeError, "path: %R is not the name of a file", v[0]);
		Py_CLEAR(o);
	} else if (o && begin(o, &path, &w) < 0) {
		Py_CLEAR(o);
	}
	path_drop(&path);
	return (PyObject *)o;
}

static PyObject *get_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct output *)self)->writer);
}

static PyMethodDef methods[] = {
	{"write", output_write, METH_O, "write($self, data, /)\n--\n\n"},
	{"write_memory", output_write_memory, METH_VARARGS,
	 "write_memory($self, address, nbytes, device=False, crc=True, /)\n--\n\n"
	 "Write memory of this process or of a device; returns its CRC-32, if wanted, or 0."},
	{"add_records", output_add_records, METH_VARARGS,
	 "add_records($self, heads, numbers, /)\n--\n\n"
	 "Records of a zip archive for a thread to write: headers, and for each record four "
	 "numbers "
	 "of 64 bits, bytes of its header, address, bytes, bytes behind it."},
	{"end_records", output_end_records, METH_NOARGS,
	 "end_records($self)\n--\n\n"
	 "When they are written: the CRC-32 of each, of 32 bits."},
	{"seek", output_seek, METH_VARARGS, "seek($self, offset, /)\n--\n\n"},
	{"tell", output_tell, METH_NOARGS, "tell($self)\n--\n\n"},
	{"commit", output_commit, METH_NOARGS, "commit($self)\n--\n\n"},
	{"abort", output_abort, METH_NOARGS, "abort($self)\n--\n\n"},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"closed", get_closed, NULL, "Whether it has ended.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static char doc[] =
	"Output(path, *, size=0, memory=134217728, durable=True, checksum=True)\n--\n\n"
	"A file that is written from start to end; seen after commit(), and not before.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},         {Py_tp_new, output_new}, {Py_tp_dealloc, output_dealloc},
	{Py_tp_methods, methods}, {Py_tp_getset, getset},  {0, NULL},
};

PyType_Spec output_spec = {
	.name = "sluice._sluice.Output",
	.basicsize = sizeof(struct output),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
