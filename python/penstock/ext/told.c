/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store has to tell, such as a value that was damaged: by any of its threads, which know
 * nothing of Python.  The next call that comes along logs it, a few lines a second at most.
 */
#include "told.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void told_hear(void *arg, const struct penstock_event *e)
{
	struct told *t = arg;
	bool named = !strncmp(e->text, e->file, strlen(e->file)); /* "" as well */

	pthread_mutex_lock(&t->lock);
	if (t->now.nr < TOLD_LINES)
		snprintf(t->now.lines[t->now.nr++], sizeof(t->now.lines[0]), "%s%s%s",
			 named ? "" : e->file, named ? "" : ": ", e->text);
	else
		t->now.more++;
	atomic_store_explicit(&t->any, true, memory_order_relaxed);
	pthread_mutex_unlock(&t->lock);
}

static PyObject *list_of(struct told_lines *l)
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

void told_log(struct told *t, PyObject *owner, bool last)
{
	PyObject *type, *value, *tb, *list, *done = NULL;
	struct told_lines lines;
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
