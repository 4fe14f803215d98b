/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Python thread for the process runs the callbacks of futures.  It is started when the
 * first callback must wait for its operation, and ended when the interpreter ends.
 *
 * Then everything is finished that was begun, and what callbacks begin.  Other threads that
 * run still are daemons, which may go on for ever: what they begin now is *late*, and nobody
 * waits for it.
 */
#include "handle.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t due;
	struct future *head, **tail;
	uint64_t owed; /* futures that are watched and not called back yet, but for late ones */
	bool stop;
	bool ending;      /* the interpreter ends, */
	pthread_t ender;  /* which is this thread's work */
	pthread_t worker; /* while it runs */
	bool works;
	PyObject *thread; /* threading.Thread, or NULL */
	pid_t pid;        /* whose thread it is */
} d = {.lock = PTHREAD_MUTEX_INITIALIZER, .due = PTHREAD_COND_INITIALIZER};

/* After fork() the thread is not there, the lock in an unknown state, and the list the parent's. */
static void begin_anew(void)
{
	PyObject *old = d.thread;

	pthread_mutex_init(&d.lock, NULL);
	pthread_cond_init(&d.due, NULL);
	d.head = NULL;
	d.tail = &d.head;
	d.owed = 0;
	d.stop = d.ending = d.works = false;
	d.pid = getpid();
	d.thread = NULL;
	Py_XDECREF(old);
}

/* A threading.Thread that is not started, or NULL with an exception. */
static PyObject *make_thread(void)
{
	PyObject *threading = PyImport_ImportModule("threading");
	PyObject *loop = module_function("_dispatch"), *thread = NULL;

	if (threading && loop)
		thread = PyObject_CallMethod(threading, "Thread", "OOs", Py_None, loop,
					     "sluice-callbacks");
	if (thread && PyObject_SetAttrString(thread, "daemon", Py_True) < 0)
		Py_CLEAR(thread);
	Py_XDECREF(loop);
	Py_XDECREF(threading);
	return thread;
}

/* Another thread may be here too: whatever calls into Python lets it run. */
int dispatch_start(void)
{
	PyObject *thread, *started;

	if (d.pid != getpid())
		begin_anew();
	if (d.thread)
		return 0;
	thread = make_thread();
	if (!thread)
		return -1;
	if (d.thread) {
		Py_DECREF(thread);
		return 0;
	}
	d.thread = thread;
	started = PyObject_CallMethod(thread, "start", NULL);
	if (!started)
		Py_CLEAR(d.thread);
	Py_XDECREF(started);
	return started ? 0 : -1;
}

void dispatch_expect(const struct future *f)
{
	pthread_mutex_lock(&d.lock);
	d.owed += !f->late;
	pthread_mutex_unlock(&d.lock);
}

void dispatch_push(struct future *f)
{
	pthread_mutex_lock(&d.lock);
	f->next_due = NULL;
	*d.tail = f;
	d.tail = &f->next_due;
	pthread_cond_broadcast(&d.due);
	pthread_mutex_unlock(&d.lock);
}

/* The next one, NULL when there is none and none will come. */
static struct future *next_due(void)
{
	struct future *f;

	pthread_mutex_lock(&d.lock);
	while (!d.head && !d.stop)
		pthread_cond_wait(&d.due, &d.lock);
	f = d.stop ? NULL : d.head;
	if (f) {
		d.head = f->next_due;
		if (!d.head)
			d.tail = &d.head;
	}
	pthread_mutex_unlock(&d.lock);
	return f;
}

static void called_back(const struct future *f)
{
	pthread_mutex_lock(&d.lock);
	d.owed -= !f->late;
	pthread_cond_broadcast(&d.due);
	pthread_mutex_unlock(&d.lock);
}

PyObject *dispatch_loop(PyObject *module, PyObject *unused)
{
	struct future *f;

	(void)module;
	(void)unused;
	d.worker = pthread_self();
	d.works = true;
	for (;;) {
		Py_BEGIN_ALLOW_THREADS
		f = next_due();
		Py_END_ALLOW_THREADS
		if (!f)
			Py_RETURN_NONE;
		future_settle(f);
		future_call_back(f);
		called_back(f);
		Py_DECREF(future_object(f));
	}
}

bool dispatch_is_late(void)
{
	return d.ending && !pthread_equal(pthread_self(), d.ender) &&
	       !(d.works && pthread_equal(pthread_self(), d.worker));
}

bool dispatch_ended(void)
{
	return d.stop && d.pid == getpid();
}

/* Until all callbacks that are owed have run. */
static void wait_called(void)
{
	pthread_mutex_lock(&d.lock);
	while (d.owed)
		pthread_cond_wait(&d.due, &d.lock);
	pthread_mutex_unlock(&d.lock);
}

static void stop(PyObject *thread)
{
	PyObject *r;

	pthread_mutex_lock(&d.lock);
	d.stop = true;
	pthread_cond_broadcast(&d.due);
	pthread_mutex_unlock(&d.lock);
	r = PyObject_CallMethod(thread, "join", NULL);
	if (!r) /* a daemon thread has made it and not started it yet */
		PyErr_Clear();
	Py_XDECREF(r);
	Py_CLEAR(d.thread);
}

void dispatch_end(void)
{
	if (d.pid != getpid())
		begin_anew();
	d.ender = pthread_self();
	d.ending = true;
	do {
		hub_finish_all();
		if (d.thread) {
			Py_BEGIN_ALLOW_THREADS
			wait_called();
			Py_END_ALLOW_THREADS
		}
	} while (hub_any_pending());
	if (d.thread)
		stop(d.thread);
}
