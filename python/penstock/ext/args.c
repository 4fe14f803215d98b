/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments.  Methods that are called for every transfer take theirs by the fast
 * convention, for which the limited API has no parser; and paths in all their forms.
 */
#include <limits.h>

#include "handle.h"

static int find_name(const struct params *p, PyObject *name)
{
	for (int i = 0; p->names[i]; i++)
		if (PyUnicode_CompareWithASCIIString(name, p->names[i]) == 0)
			return i;
	PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", p->function,
		     name);
	return -1;
}

static int put_named(const struct params *p, int i, PyObject *value, PyObject **out)
{
	if (out[i]) {
		PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'",
			     p->function, p->names[i]);
		return -1;
	}
	out[i] = value;
	return 0;
}

static int check_missing(const struct params *p, PyObject *const *out)
{
	for (unsigned i = 0; i < p->required; i++)
		if (!out[i]) {
			PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'",
				     p->function, p->names[i]);
			return -1;
		}
	return 0;
}

int args_parse(const struct params *p, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
	       PyObject **out)
{
	Py_ssize_t nkw = kwnames ? PyTuple_Size(kwnames) : 0;

	if (nargs > (Py_ssize_t)p->positional) {
		PyErr_Format(PyExc_TypeError,
			     "%s() takes at most %u positional arguments (%zd given)", p->function,
			     p->positional, nargs);
		return -1;
	}
	for (unsigned i = 0; p->names[i]; i++)
		out[i] = i < nargs ? args[i] : NULL;
	for (Py_ssize_t k = 0; k < nkw; k++) {
		int i = find_name(p, PyTuple_GetItem(kwnames, k));

		if (i < 0 || put_named(p, i, args[nargs + k], out) < 0)
			return -1;
	}
	return check_missing(p, out);
}

int args_parse_tuple(const struct params *p, PyObject *args, PyObject *kwargs, PyObject **out)
{
	PyObject *key, *value, *seen[16] = {NULL};
	struct params positional = {p->function, p->names, p->positional, 0};
	Py_ssize_t n = PyTuple_Size(args), at = 0;

	for (Py_ssize_t i = 0; i < n && i < (Py_ssize_t)p->positional; i++)
		seen[i] = PyTuple_GetItem(args, i);
	if (args_parse(&positional, seen, n, NULL, out) < 0)
		return -1;
	while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
		int i = find_name(p, key);

		if (i < 0 || put_named(p, i, value, out) < 0)
			return -1;
	}
	return check_missing(p, out);
}

const char *args_text(const char *what, PyObject *value)
{
	if (!PyUnicode_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s: %R is not a str", what, value);
		return NULL;
	}
	return PyUnicode_AsUTF8AndSize(value, NULL);
}

/* "auto", "always" or "never" */
static PyObject *list_of(const char *const *names)
{
	PyObject *text = PyUnicode_FromFormat("'%s'", names[0]);

	for (int i = 1; text && names[i]; i++) {
		PyObject *more = PyUnicode_FromFormat("%U%s'%s'", text,
						      names[i + 1] ? ", " : " or ", names[i]);

		Py_DECREF(text);
		text = more;
	}
	return text;
}

int args_choice(const char *what, PyObject *value, const char *const *names)
{
	PyObject *list;

	for (int i = 0; PyUnicode_Check(value) && names[i]; i++)
		if (PyUnicode_CompareWithASCIIString(value, names[i]) == 0)
			return i;
	list = list_of(names);
	if (list)
		PyErr_Format(PyUnicode_Check(value) ? PyExc_ValueError : PyExc_TypeError,
			     "%s: %R is not %U", what, value, list);
	Py_XDECREF(list);
	return -1;
}

int64_t args_int(const char *what, PyObject *value, int64_t min, int64_t max, int64_t otherwise)
{
	PyObject *index;
	long long n;
	int over;

	if (!value || value == Py_None)
		return otherwise;
	index = PyNumber_Index(value);
	if (!index) {
		PyErr_Format(PyExc_TypeError, "%s: %R is not an integer", what, value);
		return -1;
	}
	n = PyLong_AsLongLongAndOverflow(index, &over);
	Py_DECREF(index);
	if (!over && n >= min && n <= max)
		return n;
	PyErr_Format(PyExc_ValueError, "%s: %R is outside %lld..%lld", what, value, (long long)min,
		     (long long)max);
	return -1;
}

int args_flag(PyObject *value, bool otherwise)
{
	return value ? PyObject_IsTrue(value) : otherwise;
}

static int take_fd(struct path *p, PyObject *path)
{
	int64_t fd = args_int("file descriptor", path, 0, INT_MAX, -1);

	if (fd < 0)
		return -1;
	p->fd = (int)fd;
	p->filename = Py_NewRef(path);
	return 0;
}

int path_take(struct path *p, PyObject *path)
{
	*p = (struct path){.fd = -1};
	if (PyObject_TypeCheck(path, module_state()->file_type)) {
		p->file = Py_NewRef(path);
		p->filename = Py_NewRef(((struct file *)path)->name);
		return 0;
	}
	if (PyLong_Check(path) && !PyBool_Check(path))
		return take_fd(p, path);
	p->filename = PyOS_FSPath(path);
	if (!p->filename) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError,
				     "path: %R is not a str, bytes, os.PathLike, "
				     "file descriptor or penstock.File",
				     path);
		return -1;
	}
	if (!PyUnicode_FSConverter(p->filename, &p->bytes)) {
		path_drop(p);
		return -1;
	}
	p->path = PyBytes_AsString(p->bytes);
	return 0;
}

void path_drop(struct path *p)
{
	Py_CLEAR(p->bytes);
	Py_CLEAR(p->filename);
	Py_CLEAR(p->file);
}
