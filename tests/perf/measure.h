/* SPDX-License-Identifier: Apache-2.0 */
/* What bare.c and mover.c must do alike: clocks, contents of memory, arguments. */
#ifndef TESTS_PERF_MEASURE_H
#define TESTS_PERF_MEASURE_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/*
 * Transfers before the clock starts.  Where the machine is a virtual one, its host is slow
 * when it touches a page of the guest for the first time or two, and that is not the storage.
 */
enum { WARM_UP = 3 };

/* A point in time, or the distance of two: wall clock, and CPU time of all threads, in seconds. */
struct span {
	double wall;
	double cpu;
};

static inline double wall_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline struct span span_start(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (struct span){wall_now(),
			     (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
				     1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec)};
}

static inline struct span span_since(struct span start)
{
	struct span now = span_start();

	return (struct span){now.wall - start.wall, now.cpu - start.cpu};
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static inline uint64_t random_next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/*
 * Contents no device can compress or leave out, written before the clock starts; it
 * also faults the memory in.  The address need not be aligned.
 */
static inline void fill(void *buf, uint64_t len)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i + sizeof(x) <= len; i += sizeof(x)) {
		random_next(&x);
		memcpy((char *)buf + i, &x, sizeof(x));
	}
}

/* A number with an optional K, M or G, powers of two; 0 is refused. */
static inline uint64_t size_arg(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;

	if (!n || end == text || end[shift ? 1 : 0] || n > UINT64_MAX >> shift)
		die("%s: not a size", text);
	return n << shift;
}

/* Bytes of this process on transparent huge pages: what was asked for is not always given. */
static inline uint64_t huge_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	}
	if (f)
		fclose(f);
	return (uint64_t)kib << 10;
}

#endif
