/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_STAT_SAMPLE_H
#define SLUICE_STAT_SAMPLE_H

/*
 * Samples of a duration as they come: all of them up to SAMPLE_KEEP, then the histogram takes over
 * and a uniform draw of SAMPLE_KEEP stays, in the order of arrival.  Zeroed is empty.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/hist.h"

#define SAMPLE_KEEP 100000

struct samples {
	uint64_t n;
	double sum, max;
	double *v;    /* seconds; min(n, SAMPLE_KEEP) of them; NULL: see samples_add_n() */
	uint64_t *at; /* which sample each is, once not all are kept */
	struct sluice_hist *hist; /* ns; all of them */
	uint64_t random;
};

int samples_add(struct samples *s, double sec); /* 0 or -ENOMEM */
/*
 * @n equal ones, at a cost that does not grow with @n.  Many of them with no others take no
 * memory: v is NULL then, and all are max.
 */
int samples_add_n(struct samples *s, double sec, uint64_t n);
/* As if those of @other had come after those of @s. */
int samples_merge(struct samples *s, const struct samples *other);
void samples_fini(struct samples *s);
/* Exact (numpy's linear interpolation) while all are kept, else within 1 %; NAN when empty. */
double samples_percentile(const struct samples *s, double p);
/* Several at once: @ret[i] is percentile @p[i].  0 or -ENOMEM. */
int samples_percentiles(const struct samples *s, const double *p, double *ret, unsigned nr);
double samples_mean(const struct samples *s);
/* What is kept, in the order of arrival: min(n, SAMPLE_KEEP) values to be freed.  NULL: -ENOMEM. */
double *samples_list(const struct samples *s);
static inline bool samples_exact(const struct samples *s)
{
	return s->n <= SAMPLE_KEEP;
}

#endif
