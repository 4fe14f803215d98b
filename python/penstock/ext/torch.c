/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of torch tensors, and of what speaks DLPack.
 *
 * torch is never imported from here: a tensor can only come from who has done so.
 * The usual tensor, contiguous and in the memory of the host or a CUDA device, costs a
 * few calls of its methods; all others are seen to in Python (_torch.py).
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "dlpack.h"
#include "ext.h"

/* ------------------------------------------------------------------- torch */

/* Names of attributes, and what _torch.py has; made once, never given up. */
static struct {
	PyObject *torch, *detach, *is_cpu, *is_cuda, *is_contiguous, *is_conj, *is_neg, *dtype,
		*numel;
	PyObject *data_ptr, *get_device, *numpy;
	/* functions of _torch.py; current_stream may be None */
	PyObject *_Atomic describe_memory, *_Atomic itemsize_code, *_Atomic freeze_storage,
		*_Atomic current_stream;
	PyObject *_Atomic numpy_dtypes;   /* dtypes that numpy does not know */
	PyObject *_Atomic itemsize_codes; /* dtype: its code; the last to be cached */
} cached;

int torch_setup(void)
{
	cached.is_cpu = PyUnicode_InternFromString("is_cpu");
	cached.is_cuda = PyUnicode_InternFromString("is_cuda");
	cached.is_contiguous = PyUnicode_InternFromString("is_contiguous");
	cached.is_conj = PyUnicode_InternFromString("is_conj");
	cached.is_neg = PyUnicode_InternFromString("is_neg");
	cached.dtype = PyUnicode_InternFromString("dtype");
	cached.detach = PyUnicode_InternFromString("detach");
	cached.numpy = PyUnicode_InternFromString("numpy");
	cached.numel = PyUnicode_InternFromString("numel");
	cached.data_ptr = PyUnicode_InternFromString("data_ptr");
	cached.get_device = PyUnicode_InternFromString("get_device");
	cached.torch = PyUnicode_InternFromString("torch");
	return PyErr_Occurred() ? -1 : 0;
}

/* Threads that come at the same time make the same; the first one's is kept.  Takes over @value. */
static int cache_object(PyObject *_Atomic *place, PyObject *value)
{
	PyObject *none = NULL;

	if (value && !atomic_compare_exchange_strong(place, &none, value))
		Py_DECREF(value);
	return value ? 0 : -1;
}

static int cache_helpers(void)
{
	PyObject *m;
	int r;

	if (cached.itemsize_codes)
		return 0;
	m = PyImport_ImportModule("penstock._torch");
	if (!m)
		return -1;
	r = cache_object(&cached.describe_memory, PyObject_GetAttrString(m, "describe_memory"));
	if (r == 0)
		r = cache_object(&cached.itemsize_code, PyObject_GetAttrString(m, "itemsize_code"));
	if (r == 0)
		r = cache_object(&cached.freeze_storage,
				 PyObject_GetAttrString(m, "freeze_storage"));
	if (r == 0)
		r = cache_object(&cached.current_stream,
				 PyObject_GetAttrString(m, "current_stream"));
	if (r == 0)
		r = cache_object(&cached.numpy_dtypes, PyObject_GetAttrString(m, "_NUMPY_DTYPES"));
	if (r == 0)
		r = cache_object(&cached.itemsize_codes, PyDict_New());
	Py_DECREF(m);
	return r;
}

/* torch.Tensor, borrowed; NULL without an exception while nobody has imported torch. */
static PyObject *tensor_type(void)
{
	struct module_state *state = module_state();
	PyObject *torch, *type;

	if (state->torch_tensor)
		return state->torch_tensor;
	torch = PyImport_GetModule(cached.torch);
	if (!torch)
		return NULL;
	/* It may be half imported, or not the real one. */
	if (get_attribute(&type, torch, "Tensor") > 0 && PyType_Check(type))
		cache_object(&state->torch_tensor, Py_NewRef(type));
	Py_XDECREF(type);
	Py_DECREF(torch);
	return state->torch_tensor;
}

/* A property or the result of a method that is true or false; -1 with an exception. */
static int get_bool(PyObject *obj, PyObject *name)
{
	PyObject *v = PyObject_GetAttr(obj, name);
	int r = v ? PyObject_IsTrue(v) : -1;

	Py_XDECREF(v);
	return r;
}

static int call_bool(PyObject *obj, PyObject *method)
{
	PyObject *v = PyObject_CallMethodObjArgs(obj, method, NULL);
	int r = v ? PyObject_IsTrue(v) : -1;

	Py_XDECREF(v);
	return r;
}

/* A number that is not negative; UINT64_MAX with an exception. */
static uint64_t call_uint64(PyObject *obj, PyObject *method)
{
	PyObject *v = PyObject_CallMethodObjArgs(obj, method, NULL);
	uint64_t n = v ? PyLong_AsUnsignedLongLong(v) : UINT64_MAX;

	Py_XDECREF(v);
	return n;
}

/*
 * Bytes of an element; negative when the dtype is complex, 0 when it shares a byte with
 * another.  -1 is no such size, and comes with an exception.
 */
static long itemsize_code_of(PyObject *tensor)
{
	PyObject *dtype = PyObject_GetAttr(tensor, cached.dtype), *code = NULL;
	long r = -1;

	if (!dtype || cache_helpers() < 0)
		goto out;
	/* Borrowed from a dictionary that others put into, but never other numbers. */
	code = Py_XNewRef(PyDict_GetItemWithError(cached.itemsize_codes, dtype));
	if (!code && !PyErr_Occurred()) {
		code = PyObject_CallFunctionObjArgs(cached.itemsize_code, dtype, NULL);
		if (code && PyDict_SetItem(cached.itemsize_codes, dtype, code) < 0)
			Py_CLEAR(code);
	}
	if (code)
		r = PyLong_AsLong(code);
out:
	Py_XDECREF(code);
	Py_XDECREF(dtype);
	return r;
}

/* The stream that work on the tensor's device is queued in now; 0, or -1 with an exception. */
static int take_stream(struct buffer *t, PyObject *obj)
{
	PyObject *device = PyObject_CallMethodObjArgs(obj, cached.get_device, NULL), *v = NULL;
	unsigned long long stream = ULLONG_MAX;

	if (device)
		v = PyObject_CallFunctionObjArgs(cached.current_stream, device, NULL);
	if (v)
		stream = PyLong_AsUnsignedLongLong(v);
	Py_XDECREF(device);
	Py_XDECREF(v);
	if (stream == ULLONG_MAX)
		return -1;
	buffer_set_stream(t, stream);
	return 0;
}

/* On the host: 1.  On a CUDA device: 1, too, with @t->device set.  Elsewhere: 0.  Or -1. */
static int take_device(struct buffer *t, PyObject *obj)
{
	int r = get_bool(obj, cached.is_cpu);

	if (r || cache_helpers() < 0)
		return r ? r : -1;
	r = cached.current_stream == Py_None ? 0 : get_bool(obj, cached.is_cuda);
	t->device = r > 0;
	return r;
}

/*
 * A second tensor on the same storage: the first may be given other memory while the transfer is
 * under way (t.data = ..., t.set_()).  The storage itself must not be given any, either
 * (t.storage().resize_()): torch does not resize what it did not allocate, as the memory of
 * penstock.Memory, or what it gave to others, as freeze_storage() does.
 */
static PyObject *second_owner(const struct buffer *t, PyObject *obj, const void *at, uint64_t n)
{
	bool torchs = !t->device && !memory_contains(at, n);
	PyObject *dtype = torchs ? PyObject_GetAttr(obj, cached.dtype) : NULL, *second, *array;
	int odd = dtype ? PyDict_Contains(cached.numpy_dtypes, dtype) : -torchs;

	Py_XDECREF(dtype);
	if (odd)
		return odd < 0 ? NULL
			       : PyObject_CallFunctionObjArgs(cached.freeze_storage, obj, NULL);
	second = PyObject_CallMethodObjArgs(obj, cached.detach, NULL);
	if (!second || !torchs)
		return second;
	array = PyObject_CallMethodObjArgs(second, cached.numpy,
					   NULL); /* as freeze_storage(), in short */
	if (!array &&
	    (PyErr_ExceptionMatches(PyExc_RuntimeError) || PyErr_ExceptionMatches(PyExc_TypeError)))
		PyErr_Clear();
	else if (!array)
		Py_CLEAR(second);
	Py_XDECREF(array);
	return second;
}

static int keep_storage(struct buffer *t, PyObject *obj, const void *at, uint64_t n)
{
	PyObject *second = second_owner(t, obj, at, n);

	if (second)
		t->owner = PyTuple_Pack(2, obj, second);
	Py_XDECREF(second);
	return t->owner ? 0 : -1;
}

/* 1: @t is filled; 0: not a usual tensor; -1 with an exception, which may only mean the same. */
static int take_contiguous(struct buffer *t, PyObject *obj, int64_t length)
{
	uint64_t n, at;
	long code;
	int r;

	r = take_device(t, obj);
	if (r > 0)
		r = call_bool(obj, cached.is_contiguous);
	if (r <= 0)
		return r;
	code = itemsize_code_of(obj);
	if (code == 0 || code == -1)
		return code ? -1 : 0;
	r = call_bool(obj, cached.is_neg);
	if (r == 0 && code < 0)
		r = call_bool(obj, cached.is_conj);
	if (r)
		return r < 0 ? -1 : 0;
	n = call_uint64(obj, cached.numel);
	at = n == UINT64_MAX ? n : call_uint64(obj, cached.data_ptr);
	if (at == UINT64_MAX || (n && !at))
		return at ? -1 : 0;
	if (t->device && take_stream(t, obj) < 0)
		return -1;
	n *= (uint64_t)labs(code);
	if (keep_storage(t, obj, (void *)(uintptr_t)at, n) < 0)
		return -1;
	return buffer_set(t, (void *)(uintptr_t)at, n, length) < 0 ? -1 : 1;
}

/* The last of what _torch.describe_memory() says; 0, or -1 with an exception. */
static int set_owner_and_stream(struct buffer *t, PyObject *keep, PyObject *finish,
				PyObject *stream)
{
	unsigned long long n = 0;

	t->owner = Py_NewRef(keep);
	t->finish = finish == Py_None ? NULL : Py_NewRef(finish);
	if (stream == Py_None)
		return 0;
	n = PyLong_AsUnsignedLongLong(stream);
	if (n == ULLONG_MAX)
		return -1;
	t->device = true;
	buffer_set_stream(t, n);
	return 0;
}

/* Is what is moved at @at not the memory of the tensor itself? */
static bool is_copy(PyObject *obj, uint64_t at)
{
	uint64_t own = call_uint64(obj, cached.data_ptr);

	PyErr_Clear(); /* of one without memory */
	return own != at;
}

/* As _torch.describe_memory() says. */
static int take_described(struct buffer *t, PyObject *obj, bool into, int64_t length)
{
	PyObject *d, *keep, *shape, *strides, *finish, *stream;
	unsigned long long at;
	int64_t *sizes = NULL, *steps = NULL;
	Py_ssize_t itemsize, ndim;
	int r = -1;

	if (cache_helpers() < 0)
		return -1;
	d = PyObject_CallFunctionObjArgs(cached.describe_memory, obj, into ? Py_True : Py_False,
					 NULL);
	if (!d)
		return -1;
	if (PyArg_ParseTuple(d, "OKnO!O!OO", &keep, &at, &itemsize, &PyTuple_Type, &shape,
			     &PyTuple_Type, &strides, &finish, &stream)) {
		ndim = PyTuple_Size(shape);
		sizes = numbers_of_tuple(shape, ndim);
		steps = sizes ? numbers_of_tuple(strides, ndim) : NULL;
	}
	if (steps && set_owner_and_stream(t, keep, finish, stream) == 0) {
		t->copied = is_copy(obj, at);
		r = buffer_set_array(t, (void *)(uintptr_t)at, (uint64_t)itemsize, (unsigned)ndim,
				     sizes, steps, into, length);
	}
	free(sizes);
	free(steps);
	Py_DECREF(d);
	return r < 0 ? -1 : 1;
}

int buffer_from_torch(struct buffer *t, PyObject *obj, bool into, int64_t length)
{
	PyObject *type = tensor_type();
	int r;

	if (!type)
		return PyErr_Occurred() ? -1 : 0;
	/* Not isinstance(): that asks torch's metaclass. */
	if (!PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject *)type))
		return 0;
	r = take_contiguous(t, obj, length);
	if (r > 0 || t->owner) /* found; or found and refused for its length */
		return r;
	/* A tensor without memory raises an error where it is asked for it. */
	if (r < 0 && !PyErr_ExceptionMatches(PyExc_Exception))
		return -1;
	PyErr_Clear();
	t->device = t->ordered = false;
	return take_described(t, obj, into, length);
}

/* ------------------------------------------------------------------ DLPack */

static const char *device_name(long type)
{
	static const char *const names[] = {
		[4] = "OpenCL", [7] = "Vulkan",  [8] = "Metal",   [9] = "VPI",
		[10] = "ROCm",  [14] = "oneAPI", [15] = "WebGPU", [16] = "Hexagon",
	};
	size_t i = (size_t)type;

	return i < sizeof(names) / sizeof(*names) && names[i] ? names[i] : "foreign";
}

/* Is the array in memory of the host or of CUDA?  1, or -1 with an exception. */
static int check_device(struct buffer *t, PyObject *obj, PyObject *device)
{
	char why[128];
	long type, id;

	if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ll", &type, &id)) {
		PyErr_Clear();
		return refuse_object(obj, "says with __dlpack_device__ no (type, number)");
	}
	t->device = type == DL_CUDA || type == DL_CUDA_MANAGED;
	if (t->device || type == DL_CPU || type == DL_CUDA_HOST || type == DL_ROCM_HOST)
		return 1;
	snprintf(why, sizeof(why), "is in %s memory (DLPack device %ld:%ld); copy it to the host",
		 device_name(type), type, id);
	return refuse_object(obj, why);
}

/* method(**args), which takes over @args; NULL with an exception. */
static PyObject *call_with(PyObject *method, PyObject *args)
{
	PyObject *none = PyTuple_New(0), *r = NULL;

	if (none && args)
		r = PyObject_Call(method, none, args);
	Py_XDECREF(none);
	Py_XDECREF(args);
	return r;
}

/*
 * Arguments of __dlpack__(), fewer with each @attempt; NULL with an exception.  Producers
 * since 1.0 may copy unless told not to, which would lose what is read into the copy.  Those
 * of a device let the legacy default stream wait for what they have queued.
 */
static PyObject *capsule_args(bool device, bool into, unsigned attempt)
{
	PyObject *args = PyDict_New(), *v = NULL;
	int r = args ? 0 : -1;

	if (r == 0 && attempt == 0) {
		v = Py_BuildValue("(ii)", DL_MAJOR, 0);
		r = v ? PyDict_SetItemString(args, "max_version", v) : -1;
		Py_XDECREF(v);
		if (r == 0 && into)
			r = PyDict_SetItemString(args, "copy", Py_False);
	}
	if (r == 0 && device && attempt < 2) {
		v = PyLong_FromLong(1);
		r = v ? PyDict_SetItemString(args, "stream", v) : -1;
		Py_XDECREF(v);
	}
	if (r < 0)
		Py_CLEAR(args);
	return args;
}

/* A capsule.  Producers of before 1.0 know only the stream, or no arguments at all. */
static PyObject *get_capsule(PyObject *method, bool device, bool into)
{
	PyObject *capsule = NULL;

	for (unsigned attempt = 0; attempt < 3; attempt += device ? 1 : 2) {
		capsule = call_with(method, capsule_args(device, into, attempt));
		if (capsule || attempt == 2 || !PyErr_ExceptionMatches(PyExc_TypeError))
			break;
		PyErr_Clear();
	}
	return capsule;
}

/* The array in a capsule, NULL with an exception. */
static const struct dl_tensor *open_capsule(PyObject *obj, PyObject *capsule, bool into)
{
	const struct dl_managed_versioned *v;
	const struct dl_managed *m;

	if (PyCapsule_IsValid(capsule, "dltensor")) {
		m = PyCapsule_GetPointer(capsule, "dltensor");
		return &m->tensor;
	}
	if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		refuse_object(obj, "gives with __dlpack__ no DLPack capsule");
		return NULL;
	}
	v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
	if (v->version.major != DL_MAJOR)
		refuse_object(obj, "gives a DLPack capsule of another version than 1");
	else if (into && v->flags & DL_FLAG_READ_ONLY)
		refuse_object(obj, "is read-only; a read needs writable memory");
	else if (into && v->flags & DL_FLAG_IS_COPIED)
		refuse_object(obj, "gives only a copy of its memory; what is read would be lost");
	else
		return &v->tensor;
	return NULL;
}

static int check_dtype(PyObject *obj, const struct dl_tensor *d)
{
	if (d->dtype.code == DL_OPAQUE_HANDLE)
		return refuse_object(obj, "holds pointers; only plain data can be moved");
	if (d->dtype.bits * d->dtype.lanes % 8)
		return refuse_object(obj, "has elements that are no whole bytes");
	return 0;
}

static int set_dlpack(struct buffer *t, const struct dl_tensor *d, bool into, int64_t length)
{
	uint64_t itemsize = (uint64_t)d->dtype.bits * d->dtype.lanes / 8;
	char *base = (char *)d->data + d->byte_offset;
	int64_t *steps = NULL;
	int r;

	if (d->strides) {
		steps = malloc(((size_t)d->ndim + 1) * sizeof(*steps));
		if (!steps) {
			PyErr_NoMemory();
			return -1;
		}
	}
	for (int i = 0; steps && i < d->ndim; i++)
		steps[i] = d->strides[i] * (int64_t)itemsize;
	r = buffer_set_array(t, base, itemsize, (unsigned)d->ndim, d->shape, steps, into, length);
	free(steps);
	return r < 0 ? -1 : 1;
}

static int take_dlpack(struct buffer *t, PyObject *obj, PyObject *method, bool into, int64_t length)
{
	const struct dl_tensor *d;

	t->owner = get_capsule(method, t->device, into); /* not taken over: its destructor frees */
	d = t->owner ? open_capsule(obj, t->owner, into) : NULL;
	if (!d || check_dtype(obj, d) < 0)
		return -1;
	if (t->device)
		buffer_set_stream(t, 1);
	if (set_dlpack(t, d, into, length) < 0)
		return -1;
	return t->device && buffer_check_cuda(t, obj) < 0 ? -1 : 1;
}

int buffer_from_dlpack(struct buffer *t, PyObject *obj, bool into, int64_t length)
{
	PyObject *where = NULL, *method = NULL, *device;
	int r;

	if (PyType_Check(obj)) /* a class has its methods, too */
		return 0;
	r = get_attribute(&method, obj, "__dlpack__");
	if (r > 0)
		r = get_attribute(&where, obj, "__dlpack_device__");
	if (r > 0) {
		device = PyObject_CallNoArgs(where);
		r = device ? check_device(t, obj, device) : -1;
		Py_XDECREF(device);
	}
	if (r > 0)
		r = take_dlpack(t, obj, method, into, length);
	Py_XDECREF(where);
	Py_XDECREF(method);
	return r;
}
