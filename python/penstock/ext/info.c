/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library tells of itself, this machine and a path, as dictionaries.  Tables say
 * which field of a struct becomes which key.
 */
#include <stddef.h>

#include <penstock/probe.h>

#include "handle.h"

enum kind { TEXT, U32, U64, I32, BOOL };

struct field {
	const char *key;
	enum kind kind;
	size_t at;
};

static PyObject *value_of(const struct field *f, const char *base)
{
	const void *p = base + f->at;

	switch (f->kind) {
	case TEXT:
		return PyUnicode_DecodeFSDefault(p);
	case U32:
		return PyLong_FromUnsignedLong(*(const uint32_t *)p);
	case I32:
		return PyLong_FromLong(*(const int32_t *)p);
	case U64:
		return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
	case BOOL:
		return PyBool_FromLong(*(const uint32_t *)p != 0);
	}
	return NULL;
}

/* Takes over @value; returns -1 with an exception. */
static int info_put(PyObject *dict, const char *key, PyObject *value)
{
	int r = value ? PyDict_SetItemString(dict, key, value) : -1;

	Py_XDECREF(value);
	return r;
}

static PyObject *dict_of(const struct field *fields, const void *base)
{
	PyObject *dict = PyDict_New();

	for (; dict && fields->key; fields++)
		if (info_put(dict, fields->key, value_of(fields, base)) < 0)
			Py_CLEAR(dict);
	return dict;
}

/* -------------------------------------------------------------- statistics */

#define STAT(name, kind)                                           \
	{                                                          \
#name, kind, offsetof(struct penstock_stats, name) \
	}

static PyObject *fallbacks(uint32_t bits)
{
	static const char *const words[] = {"buffered", "unregistered", "small_pages",
					    "unlocked", "no_prealloc",  "engine",
					    "blocking", "cufile"};
	PyObject *list = PyList_New(0);

	for (unsigned i = 0; list && i < sizeof(words) / sizeof(*words); i++) {
		PyObject *word;

		if (!(bits & 1u << i))
			continue;
		word = PyUnicode_FromString(words[i]);
		if (!word || PyList_Append(list, word) < 0)
			Py_CLEAR(list);
		Py_XDECREF(word);
	}
	return list;
}

PyObject *info_stats(const struct penstock_stats *s)
{
	static const struct field fields[] = {
		STAT(engine, TEXT),
		STAT(threads, U32),
		STAT(depth, U32),
		STAT(ops, U64),
		STAT(ops_failed, U64),
		STAT(bytes_read, U64),
		STAT(bytes_written, U64),
		STAT(blocks, U64),
		STAT(blocks_direct, U64),
		STAT(blocks_buffered, U64),
		STAT(blocks_bounced, U64),
		STAT(blocks_inline, U64),
		STAT(blocks_fixed, U64),
		STAT(resubmissions, U64),
		STAT(preallocations, U64),
		STAT(submit_calls, U64),
		STAT(wakeups, U64),
		STAT(cpu_ns, U64),
		STAT(blocks_pinned_pool, U64),
		STAT(blocks_cufile, U64),
		STAT(pinned_pool_bytes, U64),
		STAT(fallback_why, TEXT),
		{NULL, TEXT, 0},
	};
	PyObject *dict = dict_of(fields, s);

	if (dict && info_put(dict, "fallbacks", fallbacks(s->fallbacks)) < 0)
		Py_CLEAR(dict);
	return dict;
}

/* ----------------------------------------------------------------- machine */

static PyObject *engine_info(const char *name)
{
	struct penstock_err err = {0, ""};
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = penstock_engine_probe(name, &err);
	Py_END_ALLOW_THREADS
	return Py_BuildValue("{s:s,s:s,s:O,s:s}", "name", name, "description",
			     penstock_engine_descr(name), "usable", r < 0 ? Py_False : Py_True,
			     "why", r < 0 ? err.msg : "");
}

static PyObject *engines(void)
{
	PyObject *list = PyList_New(0);
	const char *name;

	for (unsigned i = 0; list && (name = penstock_engine_name(i)); i++) {
		PyObject *e = engine_info(name);

		if (!e || PyList_Append(list, e) < 0)
			Py_CLEAR(list);
		Py_XDECREF(e);
	}
	return list;
}

#define GPU(name, kind)                                               \
	{                                                             \
#name, kind, offsetof(struct penstock_gpu_info, name) \
	}

#define CUDA(name, kind)                                                \
	{                                                               \
#name, kind, offsetof(struct penstock_gpu_device, name) \
	}

static PyObject *gpu_device(unsigned number)
{
	static const struct field fields[] = {
		CUDA(name, TEXT),        CUDA(capability, U32),     CUDA(memory, U64),
		CUDA(pci, TEXT),         CUDA(pcie_gen, U32),       CUDA(pcie_width, U32),
		CUDA(pcie_gen_max, U32), CUDA(pcie_width_max, U32), CUDA(numa_node, I32),
		{NULL, TEXT, 0},
	};
	struct penstock_gpu_device device = {.size = sizeof(device)};
	struct penstock_err err;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = penstock_probe_gpu_device(number, &device, &err);
	Py_END_ALLOW_THREADS
	return r < 0 ? Py_BuildValue("{s:s}", "why", err.msg) : dict_of(fields, &device);
}

static PyObject *gpu_devices(unsigned n)
{
	PyObject *list = PyList_New(0);

	for (unsigned i = 0; list && i < n; i++) {
		PyObject *d = gpu_device(i);

		if (!d || PyList_Append(list, d) < 0)
			Py_CLEAR(list);
		Py_XDECREF(d);
	}
	return list;
}

static PyObject *gpu(void)
{
	static const struct field fields[] = {
		GPU(cuda, BOOL),          GPU(cuda_version, I32), GPU(cuda_why, TEXT),
		GPU(devices, U32),        GPU(device0, TEXT),     GPU(cufile, BOOL),
		GPU(cufile_version, I32), GPU(cufile_why, TEXT),  GPU(nvidia_fs, BOOL),
		{NULL, TEXT, 0},
	};
	struct penstock_gpu_info info = {.size = sizeof(info)};
	PyObject *dict;
	int r;

	Py_BEGIN_ALLOW_THREADS
	r = penstock_probe_gpu(&info);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_os(r, penstock_strerror(r), NULL);
	dict = dict_of(fields, &info);
	if (dict && info_put(dict, "list", gpu_devices(info.devices)) < 0)
		Py_CLEAR(dict);
	return dict;
}

/* -------------------------------------------------------------------- path */

#define PATH(name, kind)                                               \
	{                                                              \
#name, kind, offsetof(struct penstock_path_info, name) \
	}
#define DEV(name, kind)                                               \
	{                                                             \
#name, kind, offsetof(struct penstock_blockdev, name) \
	}

static PyObject *device_info(const struct penstock_blockdev *d)
{
	static const struct field fields[] = {
		DEV(name, TEXT),          DEV(model, TEXT),
		DEV(scheduler, TEXT),     DEV(major, U32),
		DEV(minor, U32),          DEV(logical_block, U32),
		DEV(physical_block, U32), DEV(max_segments, U32),
		DEV(max_sectors_kb, U32), DEV(max_hw_sectors_kb, U32),
		DEV(nr_requests, U32),    DEV(nr_queues, U32),
		DEV(dma_alignment, U32),  DEV(rotational, BOOL),
		DEV(bytes, U64),          DEV(write_cache, TEXT),
		DEV(backing, TEXT),       DEV(cached, TEXT),
		{NULL, TEXT, 0},
	};

	return dict_of(fields, d);
}

static PyObject *path_dict(const struct penstock_path_info *info)
{
	static const struct field fields[] = {
		PATH(is_dir, BOOL),        PATH(is_device, BOOL),    PATH(direct, BOOL),
		PATH(direct_why, TEXT),    PATH(mem_align, U32),     PATH(offset_align, U32),
		PATH(align_from, TEXT),    PATH(fs, TEXT),           PATH(mount, TEXT),
		PATH(fs_bytes, U64),       PATH(free_bytes, U64),    PATH(file_bytes, U64),
		PATH(resident_bytes, U64), PATH(resident_why, TEXT), PATH(gds_why, TEXT),
		{NULL, TEXT, 0},
	};
	PyObject *dict = dict_of(fields, info);

	if (dict && info->has_device && info_put(dict, "device", device_info(&info->device)) < 0)
		Py_CLEAR(dict);
	return dict;
}

static PyObject *path_info(PyObject *path)
{
	struct penstock_path_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	PyObject *dict = NULL;
	struct path p;
	int r;

	if (path_take(&p, path) < 0)
		return NULL;
	if (!p.path) {
		PyErr_Format(PyExc_TypeError, "path: %R is not a str, bytes or os.PathLike", path);
	} else {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_probe_path(p.path, &info, &err);
		Py_END_ALLOW_THREADS
		dict = r < 0 ? raise_os(r, err.msg, p.filename) : path_dict(&info);
	}
	path_drop(&p);
	return dict;
}

PyObject *info_info(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
	static const char *const names[] = {"path", NULL};
	struct params p = {"info", names, 1, 0};
	PyObject *path, *dict;

	(void)module;
	if (args_parse(&p, args, n, kwnames, &path) < 0)
		return NULL;
	dict = PyDict_New();
	if (!dict)
		return NULL;
	if (info_put(dict, "version", PyUnicode_FromString(PENSTOCK_VERSION_STRING)) < 0 ||
	    info_put(dict, "engines", engines()) < 0 || info_put(dict, "gpu", gpu()) < 0 ||
	    (path && path != Py_None && info_put(dict, "path", path_info(path)) < 0))
		Py_CLEAR(dict);
	return dict;
}
