/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of penstock.Handle(), from the call and from a configuration. */
#include "handle.h"

const char *const durabilities[] = {"none", "data", "full", NULL};

static int set_choice(uint32_t *out, const char *what, PyObject *value, const char *const *names)
{
	int i = value ? args_choice(what, value, names) : 0;

	*out = (uint32_t)i;
	return i;
}

static int set_number(uint32_t *out, const char *what, PyObject *value, int64_t max)
{
	int64_t n = args_int(what, value, 0, max, 0);

	*out = (uint32_t)n;
	return n < 0 ? -1 : 0;
}

static int set_flag(uint32_t *flags, uint32_t flag, PyObject *value, bool when)
{
	int yes = value ? PyObject_IsTrue(value) : -2;

	if (yes == -1)
		return -1;
	if (yes == when)
		*flags |= flag;
	return 0;
}

/* What the caller does not say is taken from the configuration. */
static int options_merge(PyObject *settings, const char *const *names, PyObject **v)
{
	for (unsigned i = 0; names[i]; i++) {
		PyObject *key = v[i] && v[i] != Py_None ? NULL : PyUnicode_FromString(names[i]);
		PyObject *found = key ? PyDict_GetItemWithError(settings, key) : NULL;

		v[i] = found ? found : v[i];
		Py_XDECREF(key);
		if (PyErr_Occurred())
			return -1;
	}
	return 0;
}

static PyObject *load_config(PyObject *config)
{
	PyObject *module = PyImport_ImportModule("penstock._config"), *r = NULL;

	if (module)
		r = PyObject_CallMethod(module, "options", "O", config);
	Py_XDECREF(module);
	return r;
}

int handle_options(struct penstock_opts *o, PyObject *args, PyObject *kwargs, PyObject **settings)
{
	static const char *const directs[] = {"auto", "always", "never", NULL};
	static const char *const huges[] = {"auto", "reserved", "never", NULL};
	static const char *const names[] = {"engine",  "threads",    "depth",      "block",
					    "direct",  "durability", "huge_pages", "single_submit",
					    "overlap", "mode",       "config",     "spare_cpu",
					    NULL};
	struct params p = {"Handle", names, 1, 0};
	int64_t bytes, bits;
	PyObject *v[12];

	if (args_parse_tuple(&p, args, kwargs, v) < 0)
		return -1;
	if (v[10] && v[10] != Py_None) {
		*settings = load_config(v[10]);
		if (!*settings || options_merge(*settings, names, v) < 0)
			return -1;
	}
	if (v[0] && v[0] != Py_None && !(o->engine = args_text("engine", v[0])))
		return -1;
	if (set_number(&o->threads, "threads", v[1], 256) < 0 ||
	    set_number(&o->depth, "depth", v[2], 4096) < 0 ||
	    set_choice(&o->direct, "direct", v[4], directs) < 0 ||
	    set_choice(&o->durability, "durability", v[5], durabilities) < 0 ||
	    set_choice(&o->huge, "huge_pages", v[6], huges) < 0 ||
	    set_flag(&o->flags, PENSTOCK_SINGLE_SUBMIT, v[7], true) < 0 ||
	    set_flag(&o->flags, PENSTOCK_NO_OVERLAP, v[8], false) < 0 ||
	    set_flag(&o->flags, PENSTOCK_SPARE_CPU, v[11], true) < 0)
		return -1;
	bytes = args_int("block (a multiple of 512)", v[3], 0, 1 << 30, 0);
	bits = bytes < 0 ? -1 : args_int("mode", v[9], 0, 07777, 0644);
	if (bits < 0)
		return -1;
	o->block = (uint64_t)bytes;
	o->mode = (uint32_t)bits;
	return 0;
}
