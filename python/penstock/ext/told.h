/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_TOLD_H
#define PENSTOCK_PYTHON_TOLD_H

#include "ext.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { TOLD_LINES = 8 };

struct told_lines {
	unsigned nr;
	unsigned long long more; /* for which there was no room */
	char lines[TOLD_LINES + 1][600];
};

struct told {
	pthread_mutex_t lock;
	struct told_lines now;
	atomic_bool any;
	_Atomic time_t when; /* some were logged last */
};

/* penstock_store_opts.on_error, with a struct told. */
void told_hear(void *arg, const struct penstock_event *e);

/* Give what was heard to @owner's _log(): now if it is the @last time, else once a second. */
void told_log(struct told *t, PyObject *owner, bool last);

#endif
