/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_CPU_TIME_H
#define SLUICE_MEASURE_CPU_TIME_H

/* CPU time of this process between two moments. */
#include <sys/resource.h>

static inline double timeval_sec(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* From @before until now. */
static inline void cpu_time_since(const struct rusage *before, double *ret_user, double *ret_system)
{
	struct rusage now;

	getrusage(RUSAGE_SELF, &now);
	*ret_user = timeval_sec(&now.ru_utime) - timeval_sec(&before->ru_utime);
	*ret_system = timeval_sec(&now.ru_stime) - timeval_sec(&before->ru_stime);
}

#endif
