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
	uint64_t nr_watched; /* not called back yet; late ones are not counted */
	atomic_bool stop;
	PyObject *thread; /* threading.Thread, or NULL */

	pthread_t exit_thread;     /* runs dispatch_end() */
	atomic_bool ending;        /* the interpreter ends */
	pthread_t callback_thread; /* while it runs */
	atomic_bool callback_thread_runs;
} d = {.lock = PTHREAD_MUTEX_INITIALIZER, .due = PTHREAD_COND_INITIALIZER, .tail = &d.head};

/*
 * The thread is not there, the lock in an unknown state, and the list the parent's.  What Python
 * has of the thread is left as it is: no object can be touched here.
 */
void dispatch_forked(void)
{
	pthread_mutex_init(&d.lock, NULL);
	pthread_cond_init(&d.due, NULL);
	d.head = NULL;
	d.tail = &d.head;
	d.nr_watched = 0;
	d.stop = d.ending = d.callback_thread_runs = false;
	d.thread = NULL;
}

/* A threading.Thread that is not started, or NULL with an exception. */
static PyObject *make_thread(void)
{
	PyObject *threading = PyImport_ImportModule("threading");
	PyObject *loop = module_function("_dispatch"), *thread = NULL;

	if (threading && loop)
		thread = PyObject_CallMethod(threading, "Thread", "OOs", Py_None, loop,
					     "penstock-callbacks");
	if (thread && PyObject_SetAttrString(thread, "daemon", Py_True) < 0)
		Py_CLEAR(thread);
	Py_XDECREF(loop);
	Py_XDECREF(threading);
	return thread;
}

/* Put @thread, which may be NULL, in the place of @old; what is there now, borrowed. */
static PyObject *set_thread(PyObject *old, PyObject *thread)
{
	PyObject *now;

	pthread_mutex_lock(&d.lock);
	if (d.thread == old)
		d.thread = thread;
	now = d.thread;
	pthread_mutex_unlock(&d.lock);
	return now;
}

/* Another thread may be here too. */
int dispatch_start(void)
{
	PyObject *thread, *started;

	if (set_thread(NULL, NULL))
		return 0;
	thread = make_thread();
	if (!thread)
		return -1;
	if (set_thread(NULL, thread) != thread) {
		Py_DECREF(thread);
		return 0;
	}
	Py_INCREF(thread);
	started = PyObject_CallMethod(thread, "start", NULL);
	if (!started && set_thread(thread, NULL) != thread)
		Py_DECREF(thread);
	Py_DECREF(thread);
	Py_XDECREF(started);
	return started ? 0 : -1;
}

void dispatch_expect(const struct future *f)
{
	pthread_mutex_lock(&d.lock);
	d.nr_watched += !f->late;
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

void dispatch_unexpect(const struct future *f)
{
	pthread_mutex_lock(&d.lock);
	d.nr_watched -= !f->late;
	pthread_cond_broadcast(&d.due);
	pthread_mutex_unlock(&d.lock);
}

PyObject *dispatch_loop(PyObject *module, PyObject *unused)
{
	struct future *f;

	(void)module;
	(void)unused;
	d.callback_thread = pthread_self();
	d.callback_thread_runs = true;
	for (;;) {
		Py_BEGIN_ALLOW_THREADS
		f = next_due();
		Py_END_ALLOW_THREADS
		if (!f)
			Py_RETURN_NONE;
		future_finalize(f);
		future_call_back(f);
		dispatch_unexpect(f);
		Py_DECREF(future_object(f));
	}
}

bool dispatch_is_late(void)
{
	return d.ending && !pthread_equal(pthread_self(), d.exit_thread) &&
	       !(d.callback_thread_runs && pthread_equal(pthread_self(), d.callback_thread));
}

bool dispatch_ended(void)
{
	return d.stop;
}

/* Until all callbacks of watched futures have run. */
static void wait_called_back(void)
{
	pthread_mutex_lock(&d.lock);
	while (d.nr_watched)
		pthread_cond_wait(&d.due, &d.lock);
	pthread_mutex_unlock(&d.lock);
}

static void stop_thread(PyObject *thread)
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
	if (set_thread(thread, NULL) != thread)
		Py_DECREF(thread);
}

void dispatch_end(void)
{
	PyObject *thread;

	d.exit_thread = pthread_self();
	d.ending = true;
	do {
		shared_io_drain_all();
		if (set_thread(NULL, NULL)) {
			Py_BEGIN_ALLOW_THREADS
			wait_called_back();
			Py_END_ALLOW_THREADS
		}
	} while (shared_io_any_pending());
	thread = set_thread(NULL, NULL);
	if (thread)
		stop_thread(thread);
}
