/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that users make known to a handle's engine: Handle.register().  Each entry keeps
 * its object, and with it the memory, until it is unregistered or the handle is closed.
 * Memory is known by its address and size, whichever object it was given by.
 *
 * One thread of a handle is at it at a time.
 */
#include <stdlib.h>

#include "handle.h"

struct registered {
	struct registered *next;
	struct buffer buffer;
	bool owned;    /* this entry has registered it, and unregisters it */
	bool accepted; /* by the engine */
};

/* --------------------------------------------------------- one at a time */

static bool not_registering(struct shared_io *h, void *arg)
{
	(void)arg;
	return !h->registering;
}

/* From here to register_end() nobody else changes the list, and the handle stays open.  0, or -1.
 */
static int register_begin(struct shared_io *h)
{
	if (shared_io_check_open(h) < 0)
		return -1;
	while (atomic_exchange(&h->registering, true))
		if (shared_io_wait(h, &h->waiters, not_registering, NULL, -1, true) < 0)
			return -1;
	if (shared_io_begin_call(h) == 0)
		return 0;
	h->registering = false;
	shared_io_wake(h, &h->waiters);
	return -1;
}

static void register_end(struct shared_io *h)
{
	h->registering = false;
	shared_io_end_call(h);
	shared_io_wake(h, &h->waiters);
}

/* -------------------------------------------------------------------- list */

static struct registered **register_find(struct shared_io *h, const struct buffer *t)
{
	struct registered **at = &h->registered;

	while (*at && ((*at)->buffer.addr != t->addr || (*at)->buffer.bytes != t->bytes))
		at = &(*at)->next;
	return at;
}

static void registered_free(struct registered *r)
{
	buffer_release(&r->buffer);
	free(r);
}

void registered_free_all(struct shared_io *h)
{
	struct registered *r;

	while ((r = h->registered)) {
		h->registered = r->next;
		registered_free(r);
	}
}

/* ----------------------------------------------------------------- methods */

/* Memory of ours is made known as a whole, by itself. */
static bool register_penstock_memory(struct registered *r, struct shared_io *h)
{
	int accepted =
		r->buffer.device ? -1 : memory_register(r->buffer.addr, r->buffer.bytes, h->io);

	r->accepted = accepted > 0;
	return accepted >= 0;
}

/* 0, or -1 with an exception. */
static int register_with_library(struct registered *r, struct shared_io *h)
{
	struct penstock_buf_info info = {0};
	struct penstock_err err;
	int res;

	if (!r->buffer.bytes || register_penstock_memory(r, h))
		return 0;
	Py_BEGIN_ALLOW_THREADS
	res = penstock_buf_register(h->io, r->buffer.addr, r->buffer.bytes, 0, &info, &err);
	Py_END_ALLOW_THREADS
	if (res < 0) {
		raise_os(res, err.msg, NULL);
		return -1;
	}
	r->owned = true;
	r->accepted = info.got & PENSTOCK_BUF_REGISTERED;
	return 0;
}

/* The entry of memory that is known from now on; takes over @t.  NULL with an exception. */
static struct registered *register_add(struct shared_io *h, struct buffer *t)
{
	struct registered *r = *register_find(h, t);

	if (r) {
		buffer_release(t);
		return r;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		PyErr_NoMemory();
		buffer_release(t);
		return NULL;
	}
	r->buffer = *t;
	if (register_with_library(r, h) < 0) {
		registered_free(r);
		return NULL;
	}
	r->next = h->registered;
	h->registered = r;
	return r;
}

PyObject *handle_register(PyObject *self, PyObject *obj)
{
	struct shared_io *h = ((struct handle *)self)->shared;
	const struct registered *r;
	struct buffer t;
	bool accepted;

	if (shared_io_check_open(h) < 0 || buffer_from_whole_object(&t, obj) < 0)
		return NULL;
	if (register_begin(h) < 0) {
		buffer_release(&t);
		return NULL;
	}
	r = register_add(h, &t);
	accepted = r && r->accepted;
	register_end(h);
	return r ? PyBool_FromLong(accepted) : NULL;
}

/* Out of the list and the library; NULL: it is not there. */
static struct registered *registered_remove(struct shared_io *h, const struct buffer *t)
{
	struct registered **at = register_find(h, t), *r = *at;

	if (!r)
		return NULL;
	*at = r->next;
	if (r->owned) {
		Py_BEGIN_ALLOW_THREADS
		penstock_buf_unregister(h->io, r->buffer.addr);
		Py_END_ALLOW_THREADS
	}
	return r;
}

PyObject *handle_unregister(PyObject *self, PyObject *obj)
{
	struct shared_io *h = ((struct handle *)self)->shared;
	struct registered *r;
	struct buffer t;

	if (shared_io_check_open(h) < 0 || buffer_from_whole_object(&t, obj) < 0)
		return NULL;
	if (register_begin(h) < 0) {
		buffer_release(&t);
		return NULL;
	}
	r = registered_remove(h, &t);
	register_end(h);
	buffer_release(&t);
	if (!r) {
		PyErr_SetString(PyExc_ValueError,
				"obj: its memory is not registered with this handle");
		return NULL;
	}
	registered_free(r);
	Py_RETURN_NONE;
}
