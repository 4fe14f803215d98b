/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _penstock.WeightsCore: a model and a window of its weights, through memory that Python owns.
 * penstock/weights.py makes it what users see.
 */
#include <errno.h>

#include <penstock/weights.h>

#include "ckpt.h"
#include "s3.h"

struct weights {
	PyObject_HEAD struct penstock_io *io;
	struct penstock_model *model;
	struct penstock_weights *weights; /* NULL: not begun, or closed */
	PyObject *window;                 /* owns the memory at @addr */
	char *addr;
	int in_use;   /* some thread is in it, see begin_exclusive() */
	PyObject *s3; /* see s3_attach_client() */
};

static struct weights *core_of(PyObject *self)
{
	return (struct weights *)self;
}

static PyObject *weights_failed(int code, const struct penstock_err *err)
{
	if (code == -ENOMEM)
		return PyErr_NoMemory();
	if (code != -EINVAL)
		return raise_os(code, err->msg[0] ? err->msg : penstock_strerror(code), NULL);
	PyErr_SetString(PyExc_ValueError, err->msg);
	return NULL;
}

static int begin_any_use(struct weights *c)
{
	return begin_exclusive(&c->in_use, "window");
}

static void weights_end_use(struct weights *c)
{
	end_exclusive(&c->in_use);
}

static int weights_begin_use(struct weights *c)
{
	if (begin_any_use(c) < 0)
		return -1;
	if (c->weights)
		return 0;
	weights_end_use(c);
	PyErr_SetString(PyExc_ValueError, "the window is closed");
	return -1;
}

/* ------------------------------------------------------------------- models */

static int open_model(struct weights *c, PyObject *path, uint32_t by, const char *engine)
{
	struct penstock_model_opts o = PENSTOCK_MODEL_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct path p;
	int r = -EINVAL;

	c->io = ckpt_io(engine);
	if (!c->io || path_take(&p, path) < 0)
		return -1;
	o.by = by;
	if (!p.path) {
		PyErr_Format(PyExc_TypeError, "path: %R is not the name of a file or folder", path);
	} else if (s3_attach_client(c->io, &p, &c->s3) == 0) {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_model_open(&c->model, c->io, p.path, &o, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			weights_failed(r, &err);
	}
	path_drop(&p);
	return r < 0 ? -1 : 0;
}

static PyObject *core_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = {"path", "by", "engine", NULL};
	static const char *const kinds[] = {"layer", "expert", "tensor", NULL};
	struct params p = {"WeightsCore", names, 1, 1};
	const char *engine = NULL;
	struct weights *c;
	PyObject *v[3];
	int by;

	if (args_parse_tuple(&p, args, kwargs, v) < 0)
		return NULL;
	by = v[1] ? args_choice("by", v[1], kinds) : 0;
	if (by < 0 || (v[2] && v[2] != Py_None && !(engine = args_text("engine", v[2]))))
		return NULL;
	c = (struct weights *)PyType_GenericAlloc(type, 0);
	if (c && open_model(c, v[0], (uint32_t)by, engine) < 0)
		Py_CLEAR(c);
	return (PyObject *)c;
}

static PyObject *shape_of(const struct penstock_weight *w)
{
	PyObject *shape = PyTuple_New((Py_ssize_t)w->rank);

	for (uint32_t i = 0; shape && i < w->rank; i++) {
		PyObject *n = PyLong_FromUnsignedLongLong(w->shape[i]);

		if (!n || PyTuple_SetItem(shape, (Py_ssize_t)i, n) < 0)
			Py_CLEAR(shape);
	}
	return shape;
}

static PyObject *weight_of(const struct penstock_weight *w)
{
	PyObject *shape = shape_of(w), *path = PyUnicode_DecodeFSDefault(w->path);

	if (!shape || !path) {
		Py_XDECREF(shape);
		Py_XDECREF(path);
		return NULL;
	}
	return Py_BuildValue("(sNzNKK)", w->name, path, w->dtype, shape,
			     (unsigned long long)w->offset, (unsigned long long)w->len);
}

static PyObject *group_of(const struct weights *c, const struct penstock_group *g)
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < g->nr; i++) {
		PyObject *w = weight_of(penstock_model_get_weight(c->model, g->first + i));

		if (!w || PyList_Append(list, w) < 0)
			Py_CLEAR(list);
		Py_XDECREF(w);
	}
	return list ? Py_BuildValue("(sN)", g->name, list) : NULL;
}

static PyObject *core_groups(PyObject *self, PyObject *unused)
{
	struct weights *c = core_of(self);
	const struct penstock_group *g;
	PyObject *list;

	(void)unused;
	if (begin_any_use(c) < 0)
		return NULL;
	list = PyList_New(0);
	for (uint64_t i = 0; list && c->model && (g = penstock_model_get_group(c->model, i)); i++) {
		PyObject *one = group_of(c, g);

		if (!one || PyList_Append(list, one) < 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	weights_end_use(c);
	return list;
}

/* ------------------------------------------------------------------ windows */

/* (window, address, bytes, flags): the memory is that of @window, which is kept. */
static PyObject *core_begin(PyObject *self, PyObject *args)
{
	struct penstock_weights_opts o = PENSTOCK_WEIGHTS_OPTS_INIT;
	struct weights *c = core_of(self);
	unsigned long long address, nbytes;
	struct penstock_err err = {0, ""};
	PyObject *window;
	unsigned flags;
	int r;

	if (!PyArg_ParseTuple(args, "OKKI:begin", &window, &address, &nbytes, &flags))
		return NULL;
	if (begin_any_use(c) < 0)
		return NULL;
	if (c->weights || !c->model) {
		weights_end_use(c);
		PyErr_SetString(PyExc_ValueError, "the window has been begun");
		return NULL;
	}
	c->window = Py_NewRef(window);
	c->addr = (char *)(uintptr_t)address;
	o.addr = c->addr;
	o.window = nbytes;
	o.flags = flags;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_weights_open(&c->weights, c->io, c->model, &o, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		Py_CLEAR(c->window);
	weights_end_use(c);
	if (r == 0)
		Py_RETURN_NONE;
	return weights_failed(r, &err);
}

/* (group, where in the window each of its weights is), or None. */
static PyObject *core_next(PyObject *self, PyObject *unused)
{
	struct weights *c = core_of(self);
	struct penstock_err err = {0, ""};
	struct penstock_view view;
	PyObject *list;
	int r;

	(void)unused;
	if (weights_begin_use(c) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_weights_next(c->weights, &view, &err);
	Py_END_ALLOW_THREADS
	if (r <= 0) {
		weights_end_use(c);
		return r < 0 ? weights_failed(r, &err) : Py_NewRef(Py_None);
	}
	list = PyList_New(0);
	for (uint64_t i = 0; list && i < view.nr; i++) {
		uint64_t base = (uint64_t)(view.base - c->addr);
		PyObject *at = PyLong_FromUnsignedLongLong(base + view.at[i]);

		if (!at || PyList_Append(list, at) < 0)
			Py_CLEAR(list);
		Py_XDECREF(at);
	}
	if (!list)
		penstock_weights_release(c->weights, view.group, NULL);
	weights_end_use(c);
	if (!list)
		return NULL;
	return Py_BuildValue("(KN)", (unsigned long long)view.group, list);
}

/* (group, stream): at once where that is None, else when the CUDA stream has come so far. */
static PyObject *core_release(PyObject *self, PyObject *args)
{
	struct weights *c = core_of(self);
	struct penstock_err err = {0, ""};
	unsigned long long group, stream = 0;
	PyObject *after;
	int r;

	if (!PyArg_ParseTuple(args, "KO:release", &group, &after))
		return NULL;
	if (after != Py_None)
		stream = PyLong_AsUnsignedLongLong(after);
	if (PyErr_Occurred() || weights_begin_use(c) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	if (after == Py_None)
		r = penstock_weights_release(c->weights, group, &err);
	else
		r = penstock_weights_release_after(c->weights, group, (void *)(uintptr_t)stream,
						   &err);
	Py_END_ALLOW_THREADS
	weights_end_use(c);
	if (r < 0)
		return weights_failed(r, &err);
	Py_RETURN_NONE;
}

/* Numbers of a list; NULL with an exception. */
static uint64_t *parse_groups(PyObject *arg, uint64_t *nr)
{
	PyObject *list = PySequence_List(arg);
	Py_ssize_t n = list ? PyList_Size(list) : 0;
	uint64_t *v = list ? PyMem_Calloc((size_t)n + 1, sizeof(*v)) : NULL;

	*nr = (uint64_t)n;
	for (Py_ssize_t i = 0; v && i < n; i++) {
		v[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(list, i));
		if (PyErr_Occurred()) {
			PyMem_Free(v);
			v = NULL;
		}
	}
	Py_XDECREF(list);
	if (!v && !PyErr_Occurred())
		PyErr_NoMemory();
	return v;
}

static PyObject *call_with_groups(PyObject *self, PyObject *arg,
				  int (*call)(struct penstock_weights *w, const uint64_t *groups,
					      uint64_t n, struct penstock_err *err))
{
	struct weights *c = core_of(self);
	struct penstock_err err = {0, ""};
	uint64_t nr, *groups = parse_groups(arg, &nr);
	int r = -1;

	if (!groups)
		return NULL;
	if (weights_begin_use(c) == 0) {
		Py_BEGIN_ALLOW_THREADS
		r = call(c->weights, groups, nr, &err);
		Py_END_ALLOW_THREADS
		weights_end_use(c);
		if (r < 0)
			weights_failed(r, &err);
	}
	PyMem_Free(groups);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *core_want(PyObject *self, PyObject *groups)
{
	return call_with_groups(self, groups, penstock_weights_request);
}

static PyObject *core_hint(PyObject *self, PyObject *groups)
{
	return call_with_groups(self, groups, penstock_weights_hint);
}

static PyObject *core_skip(PyObject *self, PyObject *args)
{
	struct weights *c = core_of(self);
	struct penstock_err err = {0, ""};
	unsigned long long n;
	int64_t r;

	if (!PyArg_ParseTuple(args, "K:skip", &n) || weights_begin_use(c) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_weights_skip(c->weights, n, &err);
	Py_END_ALLOW_THREADS
	weights_end_use(c);
	return r < 0 ? weights_failed((int)r, &err) : PyLong_FromLongLong(r);
}

static PyObject *core_stats(PyObject *self, PyObject *unused)
{
	struct penstock_weights_stats s = {.size = sizeof(s)};
	struct weights *c = core_of(self);

	(void)unused;
	if (weights_begin_use(c) < 0)
		return NULL;
	penstock_weights_get_stats(c->weights, &s);
	weights_end_use(c);
#define N(field) #field, (unsigned long long)s.field
	return Py_BuildValue("{sOsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "direct",
			     s.direct ? Py_True : Py_False, N(window), N(largest), N(groups),
			     N(bytes), N(bytes_read), N(bytes_copied), N(reads), N(hits), N(misses),
			     N(evicted), N(wasted), N(in_flight), N(resident), N(disk_ns),
			     N(copy_ns), N(stall_disk_ns), N(stall_copy_ns), N(stall_caller_ns));
#undef N
}

/* -------------------------------------------------------------------- close */

static void close_all(struct weights *c)
{
	struct penstock_weights *weights = c->weights;
	struct penstock_model *model = c->model;
	struct penstock_io *io = c->io;

	c->weights = NULL;
	c->model = NULL;
	c->io = NULL;
	Py_BEGIN_ALLOW_THREADS
	penstock_weights_close(weights);
	penstock_model_close(model);
	penstock_close(io, NULL);
	Py_END_ALLOW_THREADS
	Py_CLEAR(c->window);
	s3_release_client(c->s3);
	c->s3 = NULL;
}

static PyObject *core_close(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (begin_any_use(core_of(self)) < 0)
		return NULL;
	close_all(core_of(self));
	weights_end_use(core_of(self));
	Py_RETURN_NONE;
}

static void core_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	close_all(core_of(self));
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyMethodDef methods[] = {
	{"groups", core_groups, METH_NOARGS,
	 "groups($self, /)\n--\n\n"
	 "Per group its name and its weights: (name, path, dtype, shape, offset, bytes)."},
	{"begin", core_begin, METH_VARARGS,
	 "begin($self, window, address, nbytes, flags, /)\n--\n\nRead into this memory."},
	{"next", core_next, METH_NOARGS,
	 "next($self, /)\n--\n\nA group and where its weights are in the window, or None."},
	{"release", core_release, METH_VARARGS,
	 "release($self, group, stream, /)\n--\n\nAt once, or behind what is in a CUDA stream."},
	{"want", core_want, METH_O, "want($self, groups, /)\n--\n\nThese come next."},
	{"hint", core_hint, METH_O, "hint($self, groups, /)\n--\n\nThese will, perhaps."},
	{"skip", core_skip, METH_VARARGS, "skip($self, n, /)\n--\n\nHow many were skipped."},
	{"stats", core_stats, METH_NOARGS, "stats($self, /)\n--\n\nCounters."},
	{"close", core_close, METH_NOARGS, "close($self, /)\n--\n\nThe memory is free then."},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static char doc[] = "What penstock.WeightWindow is made of.";

static PyType_Slot slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_new, core_new},
	{Py_tp_dealloc, core_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

PyType_Spec weights_spec = {
	.name = "penstock._penstock.WeightsCore",
	.basicsize = sizeof(struct weights),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};
