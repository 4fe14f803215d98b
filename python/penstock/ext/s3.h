/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_S3_H
#define PENSTOCK_PYTHON_S3_H

/* For penstock/s3.py: the client of object stores, what it lists and writes, and what it hands out.
 */
#include <penstock/s3.h>

#include "handle.h"

extern PyType_Spec client_spec, listing_spec, upload_spec, bytes_view_spec;

struct client {
	PyObject_HEAD struct penstock_s3 *c;
	use_count uses; /* calls and objects that need it open */
	pid_t owner;    /* it is of no use to a child of fork() */
};

/* The client, counted as used until client_end_use(); NULL with ValueError where it is closed. */
struct penstock_s3 *client_begin_use(PyObject *self);
void client_end_use(PyObject *self);

/*
 * Before a handle uses @p: if it is the name of an object, the handle gets the client of
 * penstock.s3, and @s3 keeps that until the handle was closed.  0, or -1 with an exception.
 */
int s3_attach_client(struct penstock_io *io, const struct path *p, PyObject **s3);
/* The same in steps, for handles that several threads use. */
bool s3_is_object_path(const struct path *p);
PyObject *s3_acquire_client(void);                            /* NULL with an exception */
bool s3_set_client(struct penstock_io *io, PyObject *client); /* false: it has one */
void s3_release_client(PyObject *client);                     /* or NULL */

/* Memory of a BytesView that is being filled; nobody may have a view of it yet. */
struct bytes_view {
	PyObject_HEAD char *bytes;
	uint64_t len;
	_Atomic Py_ssize_t exports;
};

/* -errno as OSError, or as ValueError where an argument was wrong.  Returns NULL. */
PyObject *s3_raise(int code, const struct penstock_err *err);

PyObject *client_fetch(PyObject *self, PyObject *args);
PyObject *client_list(PyObject *self, PyObject *args);
PyObject *client_upload(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
