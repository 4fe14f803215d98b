/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a store, such as a damaged value.  They come in threads of the store, which may not
 * call Python.  The next call of Python's logs them, a few lines a second at most.
 */
#include "event_log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void event_log_add(void *arg, const struct penstock_event *e)
{
	struct event_log *t = arg;
	bool named = !strncmp(e->text, e->file, strlen(e->file)); /* "" as well */

	pthread_mutex_lock(&t->lock);
	if (t->now.nr < EVENT_LINES)
		snprintf(t->now.lines[t->now.nr++], sizeof(t->now.lines[0]), "%s%s%s",
			 named ? "" : e->file, named ? "" : ": ", e->text);
	else
		t->now.more++;
	atomic_store_explicit(&t->any, true, memory_order_relaxed);
	pthread_mutex_unlock(&t->lock);
}

static PyObject *list_of(struct event_lines *l)
{
	PyObject *list = PyList_New(0);

	if (l->more)
		snprintf(l->lines[l->nr++], sizeof(l->lines[0]), "%llu more like these", l->more);
	for (unsigned i = 0; list && i < l->nr; i++) {
		PyObject *text = PyUnicode_DecodeFSDefault(l->lines[i]);

		if (!text || PyList_Append(list, text) < 0)
			Py_CLEAR(list);
		Py_XDECREF(text);
	}
	return list;
}

void event_log_flush(struct event_log *t, PyObject *owner, bool last)
{
	PyObject *type, *value, *tb, *list, *done = NULL;
	struct event_lines lines;
	time_t now;

	if (!atomic_load_explicit(&t->any, memory_order_relaxed))
		return;
	now = time(NULL);
	if (atomic_exchange(&t->when, now) == now && !last)
		return;
	pthread_mutex_lock(&t->lock);
	lines = t->now;
	t->now.nr = 0;
	t->now.more = 0;
	atomic_store_explicit(&t->any, false, memory_order_relaxed);
	pthread_mutex_unlock(&t->lock);
	PyErr_Fetch(&type, &value, &tb);
	list = list_of(&lines);
	if (list)
		done = PyObject_CallMethod(owner, "_log", "O", list);
	if (!done)
		PyErr_WriteUnraisable(owner);
	Py_XDECREF(done);
	Py_XDECREF(list);
	PyErr_Restore(type, value, tb);
}
