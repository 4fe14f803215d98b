/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of memory by several threads, for whoever waits for them. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ckpt.h"

enum {
	THREADS = 4,
	SHARE = 16 << 20, /* bytes, below which a thread more does not pay */
};

/* Of all moves one behind the other, the bytes from @first up to @last. */
struct share {
	const uint64_t *moves;
	size_t nr;
	uint64_t first, last;
	pthread_t thread;
	bool started;
};

static void *copy_share(void *arg)
{
	const struct share *s = arg;
	uint64_t at = 0;

	for (const uint64_t *v = s->moves; v < s->moves + 3 * s->nr && at < s->last; v += 3) {
		uint64_t begin = s->first > at ? s->first - at : 0;
		uint64_t end = s->last - at < v[2] ? s->last - at : v[2];

		if (begin < end)
			memcpy((char *)(uintptr_t)v[0] + begin, (char *)(uintptr_t)v[1] + begin,
			       end - begin);
		at += v[2];
	}
	return NULL;
}

/* As many as there are processors for. */
static unsigned nr_shares(uint64_t bytes)
{
	uint64_t n = bytes / SHARE;
	cpu_set_t set;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	n = n < THREADS ? n : THREADS;
	n = n < (uint64_t)cpus ? n : (uint64_t)cpus;
	return n ? (unsigned)n : 1;
}

static void copy_all(const uint64_t *moves, size_t nr)
{
	struct share shares[THREADS] = {{0}};
	uint64_t bytes = 0;
	unsigned n;

	for (size_t i = 0; i < nr; i++)
		bytes += moves[3 * i + 2];
	n = nr_shares(bytes);
	for (unsigned i = n; i-- > 0;) { /* the first is ours */
		struct share *s = &shares[i];

		*s = (struct share){.moves = moves,
				    .nr = nr,
				    .first = bytes / n * i,
				    .last = i == n - 1 ? bytes : bytes / n * (i + 1)};
		s->started = i && pthread_create(&s->thread, NULL, copy_share, s) == 0;
		if (!s->started)
			copy_share(s);
	}
	for (unsigned i = 1; i < n; i++)
		if (shares[i].started)
			pthread_join(shares[i].thread, NULL);
}

PyObject *ckpt_copy(PyObject *module, PyObject *args)
{
	Py_buffer view;

	(void)module;
	if (!PyArg_ParseTuple(args, "y*:copy", &view))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	copy_all(view.buf, (size_t)view.len / 24);
	Py_END_ALLOW_THREADS
	PyBuffer_Release(&view);
	Py_RETURN_NONE;
}
