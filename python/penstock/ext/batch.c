/* SPDX-License-Identifier: Apache-2.0 */
/* Many transfers with one call: all are looked at before the first is started. */
#include "handle.h"

struct batch {
	struct future **futures;
	struct penstock_op *ops;
	unsigned n;     /* made */
	unsigned total; /* capacity */
};

static void batch_free(struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++)
		Py_XDECREF(future_object(b->futures[i]));
	PyMem_Free(b->futures);
	PyMem_Free(b->ops);
}

/* (obj, path) or (obj, path, offset) */
static int add_item(struct batch *b, struct shared_io *h, PyObject *item, struct future_spec_args a)
{
	PyObject *t = PySequence_Tuple(item);
	Py_ssize_t n = t ? PyTuple_Size(t) : -1;
	int64_t offset = 0;
	int r = -1;

	if (n != 2 && n != 3) {
		PyErr_Format(PyExc_TypeError,
			     "items[%u]: %R is neither (obj, path) nor (obj, path, offset)", b->n,
			     item);
	} else {
		if (n == 3)
			offset = args_int("offset", PyTuple_GetItem(t, 2), 0, INT64_MAX, 0);
		a.offset = (uint64_t)offset;
		if (offset >= 0)
			b->futures[b->n] = future_make(h, PyTuple_GetItem(t, 0),
						       PyTuple_GetItem(t, 1), &a, &b->ops[b->n]);
		if (b->futures[b->n]) {
			b->n++;
			r = 0;
		}
	}
	Py_XDECREF(t);
	return r;
}

static int batch_make(struct batch *b, struct shared_io *h, PyObject *items,
		      const struct future_spec_args *a)
{
	PyObject *list = PySequence_List(items);
	Py_ssize_t n = list ? PyList_Size(list) : -1;
	int r = n < 0 ? -1 : 0;

	if (n > INT32_MAX) {
		PyErr_Format(PyExc_ValueError, "items: %zd are more than 2147483647", n);
		r = -1;
	}
	if (r == 0) {
		b->total = (unsigned)n;
		b->futures = PyMem_Calloc(b->total, sizeof(*b->futures));
		b->ops = PyMem_Calloc(b->total, sizeof(*b->ops));
		if (!b->futures || !b->ops) {
			PyErr_NoMemory();
			r = -1;
		}
	}
	for (Py_ssize_t i = 0; r == 0 && i < n; i++)
		r = add_item(b, h, PyList_GetItem(list, i), *a);
	Py_XDECREF(list);
	return r;
}

/* Check all, submit all; 0, or -1 with an exception and nothing submitted. */
static int batch_start(struct batch *b, struct shared_io *h, PyObject *items,
		       const struct future_spec_args *a, bool counted)
{
	int r;

	*b = (struct batch){0};
	if (shared_io_check_open(h) < 0)
		return -1;
	shared_io_reap(h);
	r = batch_make(b, h, items, a);
	for (unsigned i = 0; r == 0 && i < b->n; i++)
		b->futures[i]->counted = counted;
	if (r == 0)
		r = futures_submit(h, b->futures, b->ops, b->n);
	if (r < 0)
		batch_free(b);
	return r;
}

/* The failure of the first, with a note about the others. */
static void raise_first(struct batch *b, unsigned first, unsigned failed)
{
	PyObject *type, *error, *tb;

	future_raise(b->futures[first]);
	PyErr_Fetch(&type, &error, &tb);
	PyErr_NormalizeException(&type, &error, &tb);
	add_failure_note(error, failed - 1);
	PyErr_Restore(type, error, tb);
}

static PyObject *batch_results(struct batch *b)
{
	PyObject *list = PyList_New((Py_ssize_t)b->n);
	unsigned failed = 0, first = 0;

	for (unsigned i = 0; list && i < b->n; i++) {
		struct future *f = b->futures[i];
		PyObject *n;

		if (future_wait(f, -1, true) <= 0) {
			Py_CLEAR(list);
			break;
		}
		if (future_failed(f)) {
			first = failed++ ? first : i;
			future_mark_seen(f);
		}
		n = PyLong_FromLongLong(f->res);
		if (!n || PyList_SetItem(list, (Py_ssize_t)i, n) < 0)
			Py_CLEAR(list);
	}
	if (list && failed) {
		Py_CLEAR(list);
		raise_first(b, first, failed);
	}
	return list;
}

static PyObject *batch_futures(struct batch *b)
{
	PyObject *list = PyList_New((Py_ssize_t)b->n);

	for (unsigned i = 0; list && i < b->n; i++)
		if (PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(future_object(b->futures[i]))) <
		    0)
			Py_CLEAR(list);
	return list;
}

static PyObject *batch_run(PyObject *self, PyObject *items, const struct future_spec_args *a,
			   bool async)
{
	struct shared_io *h = ((struct handle *)self)->shared;
	struct batch b;
	PyObject *r;

	if (batch_start(&b, h, items, a, async) < 0)
		return NULL;
	r = async ? batch_futures(&b) : batch_results(&b);
	batch_free(&b);
	return r;
}

static PyObject *batch_read(PyObject *self, const char *function, PyObject *const *args,
			    Py_ssize_t n, PyObject *kwnames, bool async)
{
	static const char *const names[] = {"items", "partial", NULL};
	struct future_spec_args a = {.opcode = PENSTOCK_READ, .length = -1};
	struct params p = {function, names, 1, 1};
	PyObject *v[2];

	if (args_parse(&p, args, n, kwnames, v) < 0 || read_flags(v[1], &a.flags) < 0)
		return NULL;
	return batch_run(self, v[0], &a, async);
}

static PyObject *batch_write(PyObject *self, const char *function, PyObject *const *args,
			     Py_ssize_t n, PyObject *kwnames, bool async)
{
	static const char *const names[] = {"items", "truncate", "durability", NULL};
	struct future_spec_args a = {.opcode = PENSTOCK_WRITE, .length = -1};
	struct params p = {function, names, 1, 1};
	PyObject *v[3];

	if (args_parse(&p, args, n, kwnames, v) < 0 || write_flags(v[1], v[2], &a.flags) < 0)
		return NULL;
	return batch_run(self, v[0], &a, async);
}

PyObject *read_batch(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	return batch_read(self, "read_batch", args, n, kwnames, false);
}

PyObject *write_batch(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	return batch_write(self, "write_batch", args, n, kwnames, false);
}

PyObject *read_batch_async(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	return batch_read(self, "read_batch_async", args, n, kwnames, true);
}

PyObject *write_batch_async(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	return batch_write(self, "write_batch_async", args, n, kwnames, true);
}
