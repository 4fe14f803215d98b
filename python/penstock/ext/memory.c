/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock.Memory: memory for I/O that belongs to no handle and lives as long as the object.
 * What is made of it (memoryview, array, tensor) refers to the object.
 *
 * All of them are in one list, sorted by address, so that a transfer finds out whether
 * its memory is of this kind and can make it known to its handle.  The lock guards the
 * list and what each object knows of handles; it is given up during calls of the library.
 * A call that is under way then is in @calls, for whoever is about to close the handle or to free
 * the memory.  What was found last is remembered by each thread, until anything changes.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ext.h"

/* A handle that the memory has been registered with, or was refused by. */
struct memory_registration {
	struct penstock_io *io;
	bool accepted;
};

struct memory {
	PyObject_HEAD char *addr;
	uint64_t nbytes;
	struct memory_registration *registrations;
	unsigned nr_registrations;
	struct penstock_buf_info info;
};

static struct {
	pthread_mutex_t lock;
	struct memory **list; /* by address; not references */
	_Atomic size_t nr;
	size_t capacity;
	struct call *calls;      /* of the library, under way */
	_Atomic uint64_t change; /* how many there were */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = 1};

/* What this thread found last. */
static __thread struct {
	uint64_t change; /* good as long as there was no other */
	const char *addr;
	uint64_t nbytes;
	const struct penstock_io *io; /* which it was registered with, */
	bool accepted;                /* and which accepted it */
} last;

/* ---------------------------------------------------------------- the list */

/* How many objects of the list begin at or below @addr. */
static size_t count_at_or_below(const void *addr)
{
	size_t low = 0, high = all.nr;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if ((uintptr_t)all.list[mid]->addr <= (uintptr_t)addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool range_contains(const char *base, uint64_t nbytes, const void *addr, uint64_t len)
{
	uint64_t at = (uint64_t)((uintptr_t)addr - (uintptr_t)base);

	return (uintptr_t)addr >= (uintptr_t)base && at <= nbytes && len <= nbytes - at;
}

static bool matches_last(const void *addr, uint64_t len)
{
	return last.change == atomic_load(&all.change) &&
	       range_contains(last.addr, last.nbytes, addr, len);
}

static void remember_found(const struct memory *m, const struct penstock_io *io, bool accepted)
{
	last.change = all.change;
	last.addr = m->addr;
	last.nbytes = m->nbytes;
	last.io = io;
	last.accepted = accepted;
}

static struct memory *memory_find(const void *addr, uint64_t len)
{
	size_t i = count_at_or_below(addr);
	struct memory *m = i ? all.list[i - 1] : NULL;

	return m && range_contains(m->addr, m->nbytes, addr, len) ? m : NULL;
}

static int list_add(struct memory *m)
{
	size_t i = count_at_or_below(m->addr);

	if (all.nr == all.capacity) {
		size_t capacity = all.capacity ? 2 * all.capacity : 16;
		struct memory **more = realloc(all.list, capacity * sizeof(*more));

		if (!more)
			return -1;
		all.list = more;
		all.capacity = capacity;
	}
	memmove(&all.list[i + 1], &all.list[i], (all.nr - i) * sizeof(*all.list));
	all.list[i] = m;
	all.nr++;
	all.change++;
	return 0;
}

static void list_del(struct memory *m)
{
	size_t i = count_at_or_below(m->addr);

	if (!i || all.list[i - 1] != m)
		return;
	memmove(&all.list[i - 1], &all.list[i], (all.nr - i) * sizeof(*all.list));
	all.nr--;
	all.change++;
}

bool memory_contains(const void *addr, uint64_t len)
{
	const struct memory *m;

	if (!all.nr)
		return false;
	if (matches_last(addr, len))
		return true;
	pthread_mutex_lock(&all.lock);
	m = memory_find(addr, len);
	if (m)
		remember_found(m, NULL, false);
	pthread_mutex_unlock(&all.lock);
	return m;
}

PyObject *memory_in_memory(PyObject *module, PyObject *args)
{
	unsigned long long at, len;
	PyObject *address, *nbytes;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O!:in_memory", &PyLong_Type, &address, &PyLong_Type,
			      &nbytes))
		return NULL;
	at = PyLong_AsUnsignedLongLong(address);
	len = at == UINT64_MAX && PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(nbytes);
	if (PyErr_Occurred())
		return NULL;
	return PyBool_FromLong(memory_contains((void *)(uintptr_t)at, len));
}

/* ----------------------------------------------------------------- handles */

struct call_waiter {
	sem_t done;
	struct call_waiter *next;
};

/* One call of the library, without the lock. */
struct call {
	struct memory *memory;
	struct penstock_io *io;
	struct call_waiter *waiters;
	struct call *next;
};

/* In a child of fork() there are no other threads, and no calls of theirs. */
static struct call **calls_of_process(void)
{
	static pid_t process;
	pid_t self = getpid();

	if (process != self)
		all.calls = NULL;
	process = self;
	return &all.calls;
}

/* The lock is given up until call_end(), and the GIL. */
static PyThreadState *call_begin(struct call *c, struct memory *m, struct penstock_io *io)
{
	struct call **head = calls_of_process();

	*c = (struct call){.memory = m, .io = io, .next = *head};
	*head = c;
	pthread_mutex_unlock(&all.lock);
	return PyEval_SaveThread();
}

static void call_end(struct call *c, PyThreadState *save)
{
	struct call **at;

	PyEval_RestoreThread(save);
	pthread_mutex_lock(&all.lock);
	at = calls_of_process();
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	while (c->waiters) {
		struct call_waiter *w = c->waiters;

		c->waiters = w->next; /* first: it may be gone as soon as it is posted */
		sem_post(&w->done);
	}
}

/* Until no call of @m or @io, whichever is given, is under way. */
static void calls_wait(const struct memory *m, const struct penstock_io *io)
{
	PyThreadState *save;
	struct call *c;

	for (;;) {
		struct call_waiter w = {.next = NULL};

		c = *calls_of_process();
		while (c && c->io != io && c->memory != m)
			c = c->next;
		if (!c)
			return;
		sem_init(&w.done, 0, 0);
		w.next = c->waiters;
		c->waiters = &w;
		pthread_mutex_unlock(&all.lock);
		save = PyEval_SaveThread();
		while (sem_wait(&w.done) < 0)
			; /* EINTR: the call ends without our help */
		PyEval_RestoreThread(save);
		pthread_mutex_lock(&all.lock);
		sem_destroy(&w.done);
	}
}

static struct memory_registration *find_registration(const struct memory *m,
						     const struct penstock_io *io)
{
	for (unsigned i = 0; i < m->nr_registrations; i++)
		if (m->registrations[i].io == io)
			return &m->registrations[i];
	return NULL;
}

/* A place for one more handle, found by memory_forget_handle() from now on; NULL: no memory. */
static struct memory_registration *add_registration(struct memory *m, struct penstock_io *io)
{
	struct memory_registration *more =
		realloc(m->registrations, (m->nr_registrations + 1) * sizeof(*more));

	if (!more)
		return NULL;
	m->registrations = more;
	more[m->nr_registrations] = (struct memory_registration){io, false};
	return &more[m->nr_registrations++];
}

static bool register_with_handle(struct memory *m, struct penstock_io *io)
{
	struct memory_registration *k = find_registration(m, io);
	struct penstock_buf_info info = {0};
	PyThreadState *save;
	struct call c;

	if (k || !m->nbytes || !add_registration(m, io))
		return k && k->accepted;
	save = call_begin(&c, m, io);
	penstock_buf_register(io, m->addr, m->nbytes, m->info.got & PENSTOCK_BUF_HUGE, &info, NULL);
	call_end(&c, save);
	k = find_registration(m, io); /* again: the list may have changed meanwhile */
	if (k)
		k->accepted = info.got & PENSTOCK_BUF_REGISTERED;
	all.change++;
	return info.got & PENSTOCK_BUF_REGISTERED;
}

int memory_register(const void *addr, uint64_t len, struct penstock_io *io)
{
	struct memory *m;
	bool accepted;

	if (!all.nr)
		return -1;
	if (matches_last(addr, len) && last.io == io)
		return last.accepted;
	pthread_mutex_lock(&all.lock);
	m = memory_find(addr, len);
	accepted = m && register_with_handle(m, io);
	if (m)
		remember_found(m, io, accepted);
	pthread_mutex_unlock(&all.lock);
	return m ? accepted : -1;
}

static void unregister_everywhere(struct memory *m)
{
	PyThreadState *save;
	struct call c;

	while (m->nr_registrations) {
		struct penstock_io *io = m->registrations[--m->nr_registrations].io;

		save = call_begin(&c, m, io);
		penstock_buf_unregister(io, m->addr);
		call_end(&c, save);
	}
}

static void drop_registration(struct memory *m, const struct penstock_io *io)
{
	for (unsigned i = 0; i < m->nr_registrations; i++)
		if (m->registrations[i].io == io)
			m->registrations[i--] = m->registrations[--m->nr_registrations];
}

void memory_forget_handle(struct penstock_io *io)
{
	pthread_mutex_lock(&all.lock);
	all.change++;
	for (size_t i = 0; i < all.nr; i++)
		drop_registration(all.list[i], io);
	/* What is being freed is in no list, but in a call: its next one must not be of @io. */
	for (struct call *c = *calls_of_process(); c; c = c->next)
		drop_registration(c->memory, io);
	calls_wait(NULL, io);
	pthread_mutex_unlock(&all.lock);
}

/* ---------------------------------------------------------------- the type */

static int allocate(struct memory *m, Py_ssize_t nbytes, bool pinned)
{
	struct penstock_err err = {0, ""};
	PyThreadState *save;
	void *addr = NULL;
	int r;

	save = PyEval_SaveThread();
	r = penstock_mem_alloc(&addr, (uint64_t)nbytes, PENSTOCK_HUGE_AUTO,
			       pinned ? PENSTOCK_BUF_LOCKED : 0, &m->info, &err);
	PyEval_RestoreThread(save);
	if (r == -ENOMEM)
		PyErr_Format(PyExc_MemoryError, "nbytes: %s", err.msg);
	else if (r < 0)
		raise_os(r, err.msg, NULL);
	if (r < 0)
		return -1;
	m->addr = addr;
	m->nbytes = (uint64_t)nbytes;
	pthread_mutex_lock(&all.lock);
	r = list_add(m);
	pthread_mutex_unlock(&all.lock);
	if (r < 0)
		PyErr_NoMemory();
	return r;
}

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char nbytes_name[] = "nbytes", pinned_name[] = "pinned";
	static char *names[] = {nbytes_name, pinned_name, NULL};
	struct memory *m;
	Py_ssize_t nbytes;
	int pinned = true;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n|$p:Memory", names, &nbytes, &pinned))
		return NULL;
	if (nbytes < 0) {
		PyErr_Format(PyExc_ValueError, "nbytes: %zd is negative", nbytes);
		return NULL;
	}
	m = (struct memory *)PyType_GenericAlloc(type, 0);
	if (m && allocate(m, nbytes, pinned) < 0)
		Py_CLEAR(m);
	return (PyObject *)m;
}

/* Out of the list first: nobody can come upon it while the lock is given up. */
static void memory_dealloc(PyObject *self)
{
	struct memory *m = (struct memory *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc end = (freefunc)PyType_GetSlot(type, Py_tp_free);
	PyThreadState *save;

	if (m->addr) {
		pthread_mutex_lock(&all.lock);
		list_del(m);
		calls_wait(m, NULL);
		unregister_everywhere(m);
		pthread_mutex_unlock(&all.lock);
		save = PyEval_SaveThread();
		penstock_mem_free(m->addr, m->nbytes);
		PyEval_RestoreThread(save);
	}
	free(m->registrations);
	end(self);
	Py_DECREF(type);
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
	struct memory *m = (struct memory *)self;

	return PyBuffer_FillInfo(view, self, m->addr, (Py_ssize_t)m->nbytes, false, flags);
}

static Py_ssize_t memory_length(PyObject *self)
{
	return (Py_ssize_t)((struct memory *)self)->nbytes;
}

static PyObject *memory_repr(PyObject *self)
{
	struct memory *m = (struct memory *)self;

	return PyUnicode_FromFormat("<penstock.Memory of %llu bytes at %p, %s, %s pages>",
				    (unsigned long long)m->nbytes, m->addr,
				    m->info.got & PENSTOCK_BUF_LOCKED ? "pinned" : "not pinned",
				    m->info.got & PENSTOCK_BUF_HUGE ? "huge" : "small");
}

static PyObject *get_address(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct memory *)self)->addr);
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(((struct memory *)self)->nbytes);
}

static PyObject *get_note(PyObject *self, void *unused)
{
	(void)unused;
	return PyUnicode_FromString(((struct memory *)self)->info.note);
}

/* @bit: which of the PENSTOCK_BUF_ bits */
static PyObject *get_bit(PyObject *self, void *bit)
{
	return PyBool_FromLong(((struct memory *)self)->info.got & (uintptr_t)bit ? 1 : 0);
}

static PyGetSetDef memory_getset[] = {
	{"address", get_address, NULL, "where it begins", NULL},
	{"huge", get_bit, NULL, "is it on huge pages?", (void *)(uintptr_t)PENSTOCK_BUF_HUGE},
	{"nbytes", get_nbytes, NULL, "size in bytes", NULL},
	{"note", get_note, NULL, "why something asked for was not given; else empty", NULL},
	{"pinned", get_bit, NULL, "is it locked: never swapped?",
	 (void *)(uintptr_t)PENSTOCK_BUF_LOCKED},
	{0},
};

static PyMethodDef memory_methods[] = {
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{0},
};

static char doc[] = "Memory(nbytes, *, pinned=True)\n--\n\n"
		    "Writable memory for I/O, with the buffer protocol: on huge pages, aligned,\n"
		    "locked.  It is zero, belongs to no handle, and is freed with the last object\n"
		    "that uses it.";

static PyType_Slot memory_slots[] = {
	{Py_tp_doc, doc},
	{Py_tp_new, memory_new},
	{Py_tp_dealloc, memory_dealloc},
	{Py_tp_repr, memory_repr},
	{Py_tp_getset, memory_getset},
	{Py_tp_methods, memory_methods},
	{Py_sq_length, memory_length},
	{Py_bf_getbuffer, memory_getbuffer},
	{0},
};

PyType_Spec memory_spec = {
	.name = "penstock.Memory",
	.basicsize = sizeof(struct memory),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = memory_slots,
};
