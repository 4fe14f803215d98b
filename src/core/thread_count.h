/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_THREAD_COUNT_H
#define PENSTOCK_CORE_THREAD_COUNT_H

/*
 * How many I/O threads the work needs, where the caller leaves it to the handle.  Looked at
 * now and then: where as many processors are busy as there are threads while more waits,
 * which is so when something is copied, twice as many are tried, and kept if that moves more;
 * where processors have little to do although more waits, fewer will do.  A disk is of the
 * second kind, memory of the first.
 *
 * It is the processor time of I/O threads and of those their engines have that counts, or, where
 * that is more, the time the process spends in the kernel: io_uring copies to and from tmpfs, and
 * writes through the page cache, in threads of the kernel's, which are the process's as far as
 * can be seen.  So what the program computes does not count.  What it does in the kernel itself,
 * as first use of memory or file I/O of its own, does: where nothing is copied more threads are
 * then tried now and then, and taken back.  So does the time that submitting held up I/O
 * threads, as on FUSE: they can do nothing else.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	THREAD_COUNT_WINDOW_NS = 10000000,
	THREAD_COUNT_MAX = 16,        /* threads, at most as many as there are processors */
	THREAD_COUNT_WAIT = 16,       /* windows before what did not pay is tried again, */
	THREAD_COUNT_WAIT_MAX = 4096, /* twice as many each time */
};

struct thread_count {
	uint64_t rate;   /* bytes per millisecond before the step that is being tried; 0: none */
	unsigned before; /* threads before it */
	unsigned wait;   /* windows until the next try */
	unsigned patience;
	bool fresh; /* the number has just changed: this window says nothing */
};

/* What was seen in a window. */
struct thread_count_sample {
	uint64_t ns;
	uint64_t busy_ns;   /* processor time of I/O threads, and they were held up */
	uint64_t kernel_ns; /* of the process, in the kernel */
	uint64_t bytes;
	unsigned threads;
	unsigned most;
	bool behind; /* there was more to do */
};

/* How many threads from now on. */
unsigned thread_count_choose(struct thread_count *count, const struct thread_count_sample *sample);

#endif
