/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_HANDLE_H
#define PENSTOCK_MEASURE_HANDLE_H

/* Handles: what they are told and how that is spelt, what they counted, and the time it took. */
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include <penstock/penstock.h>

/* The counters of several as those of one: add @one to @sum, which is zeroed before the first. */
void handle_stats_add(struct penstock_stats *sum, const struct penstock_stats *one);

/*
 * How users spell the values of enum penstock_direct, penstock_durability and penstock_huge, on the
 * command line and in results, in their order; NULL-terminated.
 */
extern const char *const io_direct_words[];
extern const char *const io_durability_words[];
extern const char *const io_huge_words[];

/*
 * The null engine moves nothing: no wear comes from it, and no device limits it.  What stands in
 * the place of its limit:
 */
#define NULL_LIMIT "the null engine moves nothing"

/* Is that its name, perhaps with settings behind a colon? */
static inline bool engine_is_null(const char *name)
{
	return name && !strncmp(name, "null", 4) && (!name[4] || name[4] == ':');
}

static inline double timeval_sec(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* CPU time of this process from @before until now. */
static inline void cpu_time_since(const struct rusage *before, double *ret_user, double *ret_system)
{
	struct rusage now;

	getrusage(RUSAGE_SELF, &now);
	*ret_user = timeval_sec(&now.ru_utime) - timeval_sec(&before->ru_utime);
	*ret_system = timeval_sec(&now.ru_stime) - timeval_sec(&before->ru_stime);
}

#endif
