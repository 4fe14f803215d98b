/* SPDX-License-Identifier: Apache-2.0 */
/* OSError, or the subclass that goes with the number, from a result of the library. */
#include <string.h>

#include "ext.h"

PyObject *raise_os(int code, const char *msg, PyObject *filename)
{
	/* File names in messages are bytes of any kind. */
	PyObject *text = PyUnicode_DecodeUTF8(msg, (Py_ssize_t)strlen(msg), "replace");
	PyObject *error = NULL;

	if (text && filename)
		error = PyObject_CallFunction(PyExc_OSError, "iOO", -code, text, filename);
	else if (text)
		error = PyObject_CallFunction(PyExc_OSError, "iO", -code, text);
	Py_XDECREF(text);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}
