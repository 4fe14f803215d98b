/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock._penstock.StoreCore: batches of the KV store.  penstock/store.py makes it what users
 * see.
 *
 * A batch that is under way is on a list of its store, with all that it needs: results, and
 * references to the memory.  The list has a lock; the library fills the results, and nobody reads
 * them before it says that the batch is finished.
 */
#include <errno.h>
#include <stdlib.h>

#include <penstock/store.h>

#include "event_log.h"
#include "handle.h"

#define FLAG_WHOLE 0x80000000u /* ours: a value that is shorter than the memory is a miss, too */

struct task {
	struct task *next;
	uint64_t ticket;
	uint32_t nr, nr_buffers;
	bool reads; /* into the memory, */
	bool whole; /* which has to be filled */
	int64_t *results;
	struct buffer *buffers;   /* all that is in @iov */
	uint32_t *of;             /* which key each belongs to */
	struct penstock_iov *iov; /* of all keys, one after the other */
	struct penstock_store_item *items;
	PyObject **keys; /* bytes objects */
};

/* Memory that users have registered; it stays until it is taken out or the store is closed. */
struct registration {
	struct registration *next;
	struct buffer buffer;
};

struct store_core {
	PyObject_HEAD struct penstock_store *store;
	use_count uses;       /* threads in it; closed until it is opened */
	pthread_mutex_t lock; /* what is submitted is on the list before it is taken from there */
	struct task *tasks;
	struct registration *registrations;
	struct event_log events;
};

static struct store_core *core_of(PyObject *self)
{
	return (struct store_core *)self;
}

/* Until use_count_end(): 0, or -1 with an exception. */
static int core_begin_use(struct store_core *c)
{
	if (use_count_begin(&c->uses))
		return 0;
	PyErr_SetString(PyExc_ValueError, "the store is closed");
	return -1;
}

/* ------------------------------------------------------------------- tasks */

static void task_free(struct task *t)
{
	for (uint32_t i = 0; i < t->nr_buffers; i++)
		buffer_release(&t->buffers[i]);
	for (uint32_t i = 0; t->keys && i < t->nr; i++)
		Py_XDECREF(t->keys[i]);
	PyMem_Free(t->results);
	PyMem_Free(t->buffers);
	PyMem_Free(t->of);
	PyMem_Free(t->iov);
	PyMem_Free(t->items);
	PyMem_Free(t->keys);
	PyMem_Free(t);
}

/* A key is bytes, or text, which then is its UTF-8.  A list of numbers is no key. */
static int parse_key(struct task *t, uint32_t i, PyObject *key)
{
	char *text;
	Py_ssize_t len;

	if (!PyUnicode_Check(key) && !PyObject_CheckBuffer(key)) {
		PyErr_Format(PyExc_TypeError, "keys[%u]: it is neither text nor bytes", i);
		return -1;
	}
	t->keys[i] = PyUnicode_Check(key) ? PyUnicode_AsUTF8String(key) : PyBytes_FromObject(key);
	if (!t->keys[i] || PyBytes_AsStringAndSize(t->keys[i], &text, &len) < 0)
		return -1;
	if (len < 1 || len > (Py_ssize_t)PENSTOCK_STORE_KEY_MAX) {
		PyErr_Format(PyExc_ValueError, "keys[%u]: %zd bytes are outside 1..4096", i, len);
		return -1;
	}
	t->items[i].key = text;
	t->items[i].key_len = (uint32_t)len;
	return 0;
}

static int reserve_one_more(void **v, size_t size, uint32_t n)
{
	void *grown;

	if (n & (n - 1)) /* the capacity is a power of two */
		return 0;
	grown = PyMem_Realloc(*v, (n ? 2 * (size_t)n : 1) * size);
	if (!grown) {
		PyErr_NoMemory();
		return -1;
	}
	*v = grown;
	return 0;
}

/* (address, bytes), for those who have no object. */
static int parse_address(struct buffer *x, PyObject *pair)
{
	unsigned long long addr = PyLong_AsUnsignedLongLong(PyTuple_GetItem(pair, 0));
	unsigned long long len =
		PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(pair, 1));

	if (PyErr_Occurred())
		return -1;
	*x = (struct buffer){.addr = (char *)(uintptr_t)addr, .bytes = len};
	return 0;
}

static int add_memory(struct task *t, uint32_t key, uint32_t *nr_iov, PyObject *obj)
{
	struct buffer *x;

	if (reserve_one_more((void **)&t->buffers, sizeof(*t->buffers), t->nr_buffers) < 0 ||
	    reserve_one_more((void **)&t->of, sizeof(*t->of), t->nr_buffers) < 0)
		return -1;
	x = &t->buffers[t->nr_buffers];
	*x = (struct buffer){0};
	t->of[t->nr_buffers] = key;
	if (PyTuple_Check(obj) && PyTuple_Size(obj) == 2) {
		if (parse_address(x, obj) < 0)
			return -1;
	} else if (buffer_from_object(x, obj, t->reads, -1) < 0) {
		return -1;
	}
	t->nr_buffers++;
	for (unsigned i = 0; i < (x->nr_iov ? x->nr_iov : 1); i++) {
		struct penstock_iov one = {x->addr, x->bytes};

		if (reserve_one_more((void **)&t->iov, sizeof(*t->iov), *nr_iov) < 0)
			return -1;
		t->iov[(*nr_iov)++] = x->nr_iov ? x->iov[i] : one;
		t->items[key].nr_iov++;
	}
	return 0;
}

/* One object, or a list of objects that are one value. */
static int parse_memory(struct task *t, uint32_t key, uint32_t *nr_iov, PyObject *obj)
{
	PyObject *all;
	int r = 0;

	if (!PyList_Check(obj))
		return add_memory(t, key, nr_iov, obj);
	all = PyList_AsTuple(obj); /* nobody changes that meanwhile */
	for (Py_ssize_t i = 0; all && r == 0 && i < PyTuple_Size(all); i++)
		r = add_memory(t, key, nr_iov, PyTuple_GetItem(all, i));
	Py_XDECREF(all);
	return all ? r : -1;
}

static int task_fill(struct task *t, PyObject *keys, PyObject *bufs)
{
	uint32_t nr_iov = 0, at = 0;

	for (uint32_t i = 0; i < t->nr; i++)
		if (parse_key(t, i, PyList_GetItem(keys, i)) < 0 ||
		    (bufs && parse_memory(t, i, &nr_iov, PyList_GetItem(bufs, i)) < 0))
			return -1;
	for (uint32_t i = 0; i < t->nr; at += t->items[i++].nr_iov)
		t->items[i].iov = t->iov ? t->iov + at : NULL;
	return 0;
}

static struct task *task_new(PyObject *keys, PyObject *bufs, bool reads)
{
	struct task *t = PyMem_Calloc(1, sizeof(*t));
	size_t n = (size_t)PyList_Size(keys);

	if (t) {
		t->nr = (uint32_t)n;
		t->reads = reads;
		t->results = PyMem_Calloc(n, sizeof(*t->results));
		t->items = PyMem_Calloc(n, sizeof(*t->items));
		t->keys = PyMem_Calloc(n, sizeof(*t->keys));
	}
	if (!t || !t->results || !t->items || !t->keys)
		PyErr_NoMemory();
	else if (bufs && PyList_Size(bufs) != (Py_ssize_t)n)
		PyErr_Format(PyExc_ValueError, "%zd buffers for %zd keys", PyList_Size(bufs), n);
	else if (n > 1 << 20)
		PyErr_Format(PyExc_ValueError, "%zd keys are more than 1048576", n);
	else if (task_fill(t, keys, bufs) == 0)
		return t;
	if (t)
		task_free(t);
	return NULL;
}

static void refuse_shorter_values(struct task *t)
{
	for (uint32_t i = 0; t->reads && t->whole && i < t->nr; i++) {
		uint64_t capacity = 0;

		for (uint32_t j = 0; j < t->items[i].nr_iov; j++)
			capacity += t->items[i].iov[j].len;
		if (t->results[i] >= 0 && (uint64_t)t->results[i] != capacity)
			t->results[i] = -EMSGSIZE;
	}
}

/* The results as a list; what was read into copies goes where it belongs. */
static PyObject *task_results(struct task *t)
{
	PyObject *list = PyList_New((Py_ssize_t)t->nr);

	refuse_shorter_values(t);
	for (uint32_t i = 0; i < t->nr_buffers; i++) {
		struct buffer *x = &t->buffers[i];

		if (t->reads && t->results[t->of[i]] >= 0) {
			buffer_unpack(x, x->bytes);
			if (buffer_finish(x, x->bytes) < 0)
				Py_CLEAR(list);
		}
	}
	for (uint32_t i = 0; list && i < t->nr; i++) {
		PyObject *n = PyLong_FromLongLong(t->results[i]);

		if (!n || PyList_SetItem(list, (Py_ssize_t)i, n) < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* ----------------------------------------------------------------- batches */

/* (opcode, keys, buffers, flags, deadline_ns, ttl_s, cost) */
static struct task *core_parse(PyObject *args, struct penstock_store_batch *b)
{
	PyObject *keys, *bufs;
	PyObject *key_list = NULL, *buf_list = NULL;
	unsigned long long deadline = 0;
	long long ttl = 0;
	struct task *t = NULL;
	bool whole;

	*b = (struct penstock_store_batch){0};
	if (!PyArg_ParseTuple(args, "IOO|IKLI", &b->opcode, &keys, &bufs, &b->flags, &deadline,
			      &ttl, &b->cost))
		return NULL;
	if (ttl < 0 || ttl > UINT32_MAX || PyUnicode_Check(keys) || PyBytes_Check(keys)) {
		if (ttl < 0 || ttl > UINT32_MAX)
			PyErr_Format(PyExc_ValueError, "ttl: %lld is outside 0..4294967295", ttl);
		else
			PyErr_SetString(PyExc_TypeError, "keys: one key is no list of keys");
		return NULL;
	}
	b->deadline_ns = deadline;
	b->ttl_s = (uint32_t)ttl;
	whole = b->flags & FLAG_WHOLE;
	b->flags &= ~FLAG_WHOLE;
	key_list = PySequence_List(keys);
	if (key_list && bufs != Py_None)
		buf_list = PySequence_List(bufs);
	if (key_list && (bufs == Py_None || buf_list))
		t = task_new(key_list, buf_list, b->opcode == PENSTOCK_STORE_GET);
	Py_XDECREF(key_list);
	Py_XDECREF(buf_list);
	if (t) {
		t->whole = whole;
		b->nr = t->nr;
		b->items = t->items;
		b->results = t->results;
	}
	return t;
}

static PyObject *core_submit(PyObject *self, PyObject *args)
{
	struct store_core *c = core_of(self);
	struct penstock_err err = {0, ""};
	struct penstock_store_batch b;
	struct task *t = core_parse(args, &b);
	int64_t ticket;

	if (!t)
		return NULL;
	if (core_begin_use(c) < 0) {
		task_free(t);
		return NULL;
	}
	pthread_mutex_lock(&c->lock);
	ticket = penstock_store_submit(c->store, &b, &err);
	if (ticket >= 0) {
		t->ticket = (uint64_t)ticket;
		t->next = c->tasks;
		c->tasks = t;
	}
	pthread_mutex_unlock(&c->lock);
	use_count_end(&c->uses);
	if (ticket < 0) {
		task_free(t);
		return raise_os((int)ticket, err.msg, NULL);
	}
	return PyLong_FromLongLong(ticket);
}

static PyObject *core_run(PyObject *self, PyObject *args)
{
	struct store_core *c = core_of(self);
	struct penstock_err err = {0, ""};
	struct penstock_store_batch b;
	struct task *t = core_parse(args, &b);
	PyObject *list = NULL;
	int r;

	if (!t)
		return NULL;
	if (core_begin_use(c) == 0) {
		struct penstock_store *s = c->store;

		Py_BEGIN_ALLOW_THREADS
		r = penstock_store_run(s, &b, NULL, &err);
		Py_END_ALLOW_THREADS
		use_count_end(&c->uses);
		list = r < 0 ? raise_os(r, err.msg, NULL) : task_results(t);
	}
	task_free(t);
	event_log_flush(&c->events, self, false);
	return list;
}

static struct task *task_take(struct store_core *c, uint64_t ticket)
{
	struct task **at = &c->tasks, *t;

	while (*at && (*at)->ticket != ticket)
		at = &(*at)->next;
	t = *at;
	if (t)
		*at = t->next;
	return t;
}

/*
 * How many of ours have finished, which are the caller's.  A batch that nobody here has submitted,
 * such as one that another thread waits for, is left out.
 */
static int take_finished(struct store_core *c, struct task *tasks[64])
{
	struct penstock_store_done done[64];
	int n, found = 0;

	pthread_mutex_lock(&c->lock);
	n = penstock_store_drain(c->store, done, 64);
	for (int i = 0; i < n; i++)
		if ((tasks[found] = task_take(c, done[i].ticket)))
			found++;
	pthread_mutex_unlock(&c->lock);
	return n < 0 ? n : found;
}

static PyObject *core_drain(PyObject *self, PyObject *unused)
{
	struct store_core *c = core_of(self);
	struct task *tasks[64];
	PyObject *list;
	int n;

	(void)unused;
	if (core_begin_use(c) < 0)
		return NULL;
	list = PyList_New(0);
	n = list ? take_finished(c, tasks) : 0;
	use_count_end(&c->uses);
	if (n < 0) {
		Py_DECREF(list);
		return raise_os(n, penstock_strerror(n), NULL);
	}
	for (int i = 0; i < n; i++) {
		struct task *t = tasks[i];
		PyObject *results = list ? task_results(t) : NULL;
		PyObject *pair =
			results ? Py_BuildValue("(KN)", (unsigned long long)t->ticket, results)
				: NULL;

		task_free(t);
		if (list && (!pair || PyList_Append(list, pair) < 0))
			Py_CLEAR(list); /* the others are freed, too */
		Py_XDECREF(pair);
	}
	event_log_flush(&c->events, self, false);
	return list;
}

/* ------------------------------------------------------------------ memory */

static void registration_free(struct registration *k)
{
	buffer_release(&k->buffer);
	PyMem_Free(k);
}

/* An entry for the memory of an object, which nobody has yet; NULL with an exception. */
static struct registration *registration_new(PyObject *obj)
{
	struct registration *k = PyMem_Calloc(1, sizeof(*k));

	if (!k)
		return (struct registration *)PyErr_NoMemory();
	if ((PyTuple_Check(obj) && PyTuple_Size(obj) == 2
		     ? parse_address(&k->buffer, obj)
		     : buffer_from_whole_object(&k->buffer, obj)) == 0)
		return k;
	PyMem_Free(k);
	return NULL;
}

/* (obj, huge=False) */
static PyObject *core_register(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = {"obj", "huge", NULL};
	static const struct params p = {"register", names, 1, 1};
	struct store_core *c = core_of(self);
	struct penstock_buf_info info = {0};
	struct penstock_err err = {0, ""};
	struct registration *k;
	PyObject *v[2];
	int huge, r = -1;

	if (args_parse_tuple(&p, args, kwargs, v) < 0 || (huge = args_flag(v[1], false)) < 0)
		return NULL;
	k = registration_new(v[0]);
	if (!k)
		return NULL;
	if (core_begin_use(c) == 0) {
		struct penstock_store *s = c->store;

		Py_BEGIN_ALLOW_THREADS /* pages are pinned: that may take a while */
		r = penstock_store_register(s, k->buffer.addr, k->buffer.bytes,
					    huge ? PENSTOCK_BUF_COLLAPSE : 0, &info, &err);
		if (r == 0) {
			pthread_mutex_lock(&c->lock);
			k->next = c->registrations;
			c->registrations = k;
			pthread_mutex_unlock(&c->lock);
		}
		Py_END_ALLOW_THREADS
		use_count_end(&c->uses);
		if (r < 0)
			raise_os(r, err.msg, NULL);
	}
	if (r == 0)
		return PyBool_FromLong(info.got & PENSTOCK_BUF_REGISTERED);
	registration_free(k);
	return NULL;
}

static struct registration *registration_take(struct store_core *c, const struct buffer *t)
{
	struct registration **at = &c->registrations, *k;

	pthread_mutex_lock(&c->lock);
	while (*at && ((*at)->buffer.addr != t->addr || (*at)->buffer.bytes != t->bytes))
		at = &(*at)->next;
	k = *at;
	if (k)
		*at = k->next;
	pthread_mutex_unlock(&c->lock);
	return k;
}

static PyObject *core_unregister(PyObject *self, PyObject *obj)
{
	struct store_core *c = core_of(self);
	struct registration *want = registration_new(obj), *k = NULL;

	if (want && core_begin_use(c) == 0) {
		k = registration_take(c, &want->buffer);
		if (k) {
			struct penstock_store *s = c->store;

			Py_BEGIN_ALLOW_THREADS
			penstock_store_unregister(s, k->buffer.addr);
			Py_END_ALLOW_THREADS
			registration_free(k);
		} else {
			PyErr_SetString(PyExc_ValueError,
					"obj: its memory is not registered with this store");
		}
		use_count_end(&c->uses);
	}
	if (want)
		registration_free(want);
	return k ? Py_NewRef(Py_None) : NULL;
}

/* ----------------------------------------------------------------- the rest */

static PyObject *core_fileno(PyObject *self, PyObject *unused)
{
	struct store_core *c = core_of(self);
	int fd;

	(void)unused;
	if (core_begin_use(c) < 0)
		return NULL;
	fd = penstock_store_fd(c->store);
	use_count_end(&c->uses);
	return PyLong_FromLong(fd);
}

static PyObject *core_metrics(PyObject *self, PyObject *unused)
{
	struct store_core *c = core_of(self);
	char text[16384];
	int r;

	(void)unused;
	if (core_begin_use(c) < 0)
		return NULL;
	r = penstock_store_metrics(c->store, text, sizeof(text));
	use_count_end(&c->uses);
	return r < 0 ? raise_os(r, penstock_strerror(r), NULL) : PyUnicode_FromString(text);
}

static PyObject *core_clear(PyObject *self, PyObject *unused)
{
	struct store_core *c = core_of(self);
	struct penstock_err err = {0, ""};
	int r;

	(void)unused;
	if (core_begin_use(c) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = penstock_store_clear(c->store, &err);
	Py_END_ALLOW_THREADS
	use_count_end(&c->uses);
	return r < 0 ? raise_os(r, err.msg, NULL) : Py_NewRef(Py_None);
}

/* Once its uses are closed. */
static void close_store(struct store_core *c)
{
	struct penstock_store *s = c->store;
	struct registration *k;
	struct task *t;

	c->store = NULL;
	Py_BEGIN_ALLOW_THREADS
	penstock_store_close(s, NULL);
	Py_END_ALLOW_THREADS
	while ((t = c->tasks)) {
		c->tasks = t->next;
		task_free(t);
	}
	while ((k = c->registrations)) {
		c->registrations = k->next;
		registration_free(k);
	}
}

static PyObject *core_close(PyObject *self, PyObject *unused)
{
	struct store_core *c = core_of(self);

	(void)unused;
	if (use_count_close(&c->uses))
		close_store(c);
	else if (c->uses >= 0) {
		PyErr_SetString(PyExc_RuntimeError, "another thread is using the store");
		return NULL;
	}
	event_log_flush(&c->events, self, true);
	Py_RETURN_NONE;
}

static void core_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	close_store(core_of(self));
	pthread_mutex_destroy(&core_of(self)->lock);
	pthread_mutex_destroy(&core_of(self)->events.lock);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF(type);
}

/* Letters of a name are no directories. */
static PyObject *list_dirs(PyObject *dirs)
{
	if (PyUnicode_Check(dirs) || PyBytes_Check(dirs) || !PySequence_Check(dirs))
		return Py_BuildValue("[O]", dirs);
	return PySequence_List(dirs);
}

/* The names of directories, which @ret_keep has. */
static const char **parse_dirs(PyObject *dirs, PyObject **ret_keep, unsigned *ret_nr)
{
	PyObject *list = list_dirs(dirs);
	Py_ssize_t n = list ? PyList_Size(list) : 0;
	const char **names = list ? PyMem_Calloc((size_t)n + 1, sizeof(*names)) : NULL;

	*ret_keep = list;
	*ret_nr = (unsigned)n;
	for (Py_ssize_t i = 0; names && i < n; i++) {
		PyObject *bytes = NULL;

		if (!PyUnicode_FSConverter(PyList_GetItem(list, i), &bytes)) {
			PyMem_Free(names);
			return NULL;
		}
		PyList_SetItem(list, i, bytes);
		names[i] = PyBytes_AsString(bytes);
	}
	return names;
}

static PyObject *core_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct store_core *c = (struct store_core *)PyType_GenericAlloc(type, 0);

	(void)args;
	(void)kwargs;
	if (c) {
		c->uses = -1;
		pthread_mutex_init(&c->lock, NULL);
		pthread_mutex_init(&c->events.lock, NULL);
	}
	return (PyObject *)c;
}

/* In the place of what was open, unless threads are in it.  0, or -1 with an exception. */
static int core_set_store(struct store_core *c, struct penstock_store *s)
{
	struct penstock_store *old = s;
	int closed = -1;

	if (use_count_close(&c->uses))
		close_store(c);
	pthread_mutex_lock(&c->lock);
	if (c->uses == closed && !c->store) {
		c->store = s;
		old = NULL;
		c->uses = 0;
	}
	pthread_mutex_unlock(&c->lock);
	if (!old)
		return 0;
	penstock_store_close(old, NULL);
	PyErr_SetString(PyExc_RuntimeError, "another thread is using the store");
	return -1;
}

static int core_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const policies[] = {"s3fifo", "lru", NULL};
	static const char *const names[] = {
		"dirs",      "capacity", "policy",       "threads", "io_threads", "ttl",   "memory",
		"log_bytes", "engine",   "second_touch", "durable", "recent",     "below", NULL};
	struct params p = {"Store", names, 2, 2};
	struct penstock_s3_opts s3 = PENSTOCK_S3_OPTS_INIT;
	struct penstock_store_opts o = PENSTOCK_STORE_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_store *s = NULL;
	PyObject *v[13], *keep = NULL;
	const char **dirs = NULL;
	int64_t n[6] = {0}, below;
	unsigned nr = 0;
	int r;

	if (args_parse_tuple(&p, args, kwargs, v) < 0)
		return -1;
	n[0] = args_int("capacity", v[1], 0, INT64_MAX, 0);
	for (unsigned i = 1; i < 6 && n[i - 1] >= 0; i++)
		n[i] = args_int(names[i + 2], v[i + 2], 0, i < 4 ? INT32_MAX : INT64_MAX, 0);
	below = n[5] < 0 ? -1 : args_int("below", v[12], 0, INT64_MAX, 0);
	r = v[2] ? args_choice("policy", v[2], policies) : 0;
	if (PyErr_Occurred() ||
	    (v[8] && v[8] != Py_None && !(o.engine = args_text("engine", v[8]))))
		return -1;
	o.policy = (uint32_t)r;
	o.threads = (uint32_t)n[1];
	o.io_threads = (uint32_t)n[2];
	o.ttl_s = (uint32_t)n[3];
	o.memory = (uint64_t)n[4];
	o.log_bytes = (uint64_t)n[5];
	o.below_bytes = (uint64_t)below;
	o.s3 = &s3;
	s3.env = getenv;
	o.on_error = event_log_add;
	o.on_error_arg = &core_of(self)->events;
	o.flags = (args_flag(v[9], false) == 1 ? PENSTOCK_STORE_SECOND_TOUCH : 0) |
		  (args_flag(v[10], false) == 1 ? PENSTOCK_STORE_DURABLE : 0) |
		  (args_flag(v[11], true) == 0 ? PENSTOCK_STORE_NO_RECENT : 0);
	if (!PyErr_Occurred())
		dirs = parse_dirs(v[0], &keep, &nr);
	if (dirs) {
		Py_BEGIN_ALLOW_THREADS
		r = penstock_store_open(&s, dirs, nr, (uint64_t)n[0], &o, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			raise_os(r, err.msg, NULL);
		PyMem_Free(dirs);
	}
	Py_XDECREF(keep);
	r = s ? core_set_store(core_of(self), s) : -1;
	event_log_flush(&core_of(self)->events, self, true);
	return r;
}

static PyObject *core_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(core_of(self)->uses < 0);
}

static PyMethodDef methods[] = {
	{"_submit", core_submit, METH_VARARGS, NULL},
	{"_run", core_run, METH_VARARGS, NULL},
	{"_drain", core_drain, METH_NOARGS, NULL},
	{"register", (PyCFunction)(void (*)(void))core_register, METH_VARARGS | METH_KEYWORDS,
	 "register($self, obj, *, huge=False)\n--\n\n"
	 "Make memory that values come from and go to known to the engine; whether it took it.\n"
	 "It is kept until unregister() or close(). With huge it is moved to huge pages before, "
	 "if\n"
	 "the kernel can do that."},
	{"unregister", core_unregister, METH_O,
	 "unregister($self, obj, /)\n--\n\nThe end of register(obj); nothing may be using it."},
	{"clear", core_clear, METH_NOARGS,
	 "clear($self)\n--\n\nForget everything, at once and for good. What is being set is not "
	 "stored."},
	{"fileno", core_fileno, METH_NOARGS,
	 "fileno($self)\n--\n\nAn eventfd, readable while finished batches wait for drain()."},
	{"metrics", core_metrics, METH_NOARGS,
	 "metrics($self)\n--\n\nCounters as text for Prometheus."},
	{"close", core_close, METH_NOARGS,
	 "close($self)\n--\n\nWait for what is under way, and end."},
	{"__reduce__", refuse_pickle, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
	{"closed", core_closed, NULL, "Whether it is closed.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_new, core_new},    {Py_tp_init, core_init}, {Py_tp_dealloc, core_dealloc},
	{Py_tp_methods, methods}, {Py_tp_getset, getset},  {0, NULL},
};

PyType_Spec store_spec = {
	.name = "penstock._penstock.StoreCore",
	.basicsize = sizeof(struct store_core),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};
