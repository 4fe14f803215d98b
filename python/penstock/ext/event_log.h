/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_EVENT_LOG_H
#define PENSTOCK_PYTHON_EVENT_LOG_H

#include "ext.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { EVENT_LINES = 8 };

struct event_lines {
	unsigned nr;
	unsigned long long more; /* events that did not fit into @lines */
	char lines[EVENT_LINES + 1][600];
};

struct event_log {
	pthread_mutex_t lock;
	struct event_lines now;
	atomic_bool any;
	_Atomic time_t when; /* the second of the last flush */
};

/* penstock_store_opts.on_error, with a struct event_log. */
void event_log_add(void *arg, const struct penstock_event *e);

/* Pass the events to @owner's _log(): now if it is the @last time, else once a second. */
void event_log_flush(struct event_log *t, PyObject *owner, bool last);

#endif
