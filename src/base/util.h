/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_UTIL_H
#define PENSTOCK_BASE_UTIL_H

/* Small things that libc lacks: cleanup attributes, alignment, min and max, the clock. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Free or close when the variable goes out of scope; TAKE_PTR hands the value over. */
static inline void penstock_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void penstock_cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void *penstock_array_reserve(void *v, size_t size, uint64_t *capacity, uint64_t need)
{
	uint64_t n = *capacity ? *capacity : 16;

	if (v && need <= *capacity)
		return v;
	while (n < need && n <= SIZE_MAX / 2)
		n *= 2;
	v = n < need ? NULL : reallocarray(v, n, size);
	if (v)
		*capacity = n;
	return v;
}

/* Grows whenever @nr is a power of two, so that no caller has to keep the capacity. */
static inline void *penstock_array_grow(void *v, size_t size, uint64_t nr)
{
	if (nr & (nr - 1))
		return v;
	return nr > SIZE_MAX / 2 ? NULL : reallocarray(v, nr ? 2 * nr : 1, size);
}

#define CLEANUP_FREE  __attribute__((cleanup(penstock_cleanup_free)))
#define CLEANUP_CLOSE __attribute__((cleanup(penstock_cleanup_close)))

/*
 * Memory for @need elements in the array @v, which has it for @capacity: doubled each time it
 * grows. 0, or -ENOMEM with nothing changed.
 */
#define ARRAY_RESERVE(v, capacity, need)                                                      \
	({                                                                                    \
		uint64_t capacity_ = (capacity);                                              \
		void *grown_ = penstock_array_reserve((v), sizeof(*(v)), &capacity_, (need)); \
		if (grown_) {                                                                 \
			(v) = grown_;                                                         \
			(capacity) = (__typeof__(capacity))capacity_;                         \
		}                                                                             \
		grown_ ? 0 : -ENOMEM;                                                         \
	})

/* Memory for one more in the array @v of @nr elements, all added by this macro.  0 or -ENOMEM. */
#define ARRAY_GROW(v, nr)                                                    \
	({                                                                   \
		void *grown_ = penstock_array_grow((v), sizeof(*(v)), (nr)); \
		if (grown_)                                                  \
			(v) = grown_;                                        \
		grown_ ? 0 : -ENOMEM;                                        \
	})

#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})

/* Whoever may set @stop has; NULL is nobody.  It orders nothing: it only asks. */
static inline bool asked_to_stop(const atomic_int *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

/* @align is a power of two. */
static inline uint64_t align_down(uint64_t v, uint64_t align)
{
	return v & ~(align - 1);
}

static inline uint64_t align_up(uint64_t v, uint64_t align)
{
	return align_down(v + align - 1, align);
}

static inline bool is_aligned(uint64_t v, uint64_t align)
{
	return !(v & (align - 1));
}

/* Monotonic clock, nanoseconds. */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Start a thread with all signals blocked: they are for the program's own threads.  Not
 * those of its own faults, which would end the program without a word from its handlers.
 * Returns 0 or -errno.
 */
static inline int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
	sigset_t all, old;
	int r;

	sigfillset(&all);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

/* CPU time of a thread that has not been joined, nanoseconds. */
static inline uint64_t thread_cpu_ns(pthread_t thread)
{
	struct timespec ts;
	clockid_t clock;

	if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
