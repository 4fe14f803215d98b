/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_STAT_SAMPLE_H
#define PENSTOCK_STAT_SAMPLE_H

/* What is kept of very many: records as they are, and durations with a histogram beside them. */
#include <stdbool.h>
#include <stdint.h>

#include "base/hist.h"
#include "base/util.h"

/*
 * Reservoir sampling: the first @keep records are all kept, then a uniform sample of that many, in
 * any order.  A record begins with an uint64_t, its place in the order.  Empty is {.size = ...,
 * .keep = ...}.
 */
struct reservoir {
	size_t size; /* of a record */
	uint64_t keep;
	uint64_t n; /* that came */
	char *v;
	uint64_t random;
};
static inline uint64_t reservoir_kept(const struct reservoir *d)
{
	return min_u64(d->n, d->keep);
}
static inline void *reservoir_at(const struct reservoir *d, uint64_t i)
{
	return d->v + i * d->size;
}
int reservoir_add(struct reservoir *d, const void *record); /* 0 or -ENOMEM */
/* As if those of @other had come, too, each @behind further back in the order.  0 or -ENOMEM. */
int reservoir_merge(struct reservoir *d, const struct reservoir *other, uint64_t behind);
/* Bring them into their order. */
void reservoir_sort(struct reservoir *d);
void reservoir_fini(struct reservoir *d);

/*
 * Samples of a duration: all of them up to SAMPLE_KEEP, then the histogram takes over and a draw
 * stays.  Zeroed is empty.
 */
#define SAMPLE_KEEP 100000

struct sample {
	uint64_t at; /* which of all it is */
	double sec;
};

struct samples {
	uint64_t n;
	double sum, max;
	struct reservoir kept; /* struct sample; none of many equal ones, see samples_add_n() */
	struct penstock_hist *hist; /* ns; all of them */
};

int samples_add(struct samples *s, double sec); /* 0 or -ENOMEM */
/*
 * @n equal ones, at a cost that does not grow with @n.  Many of them with no others take no
 * memory: nothing is kept then, and all are max.
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
/* One of those that are kept, while all are in the order of arrival. */
static inline double samples_at(const struct samples *s, uint64_t i)
{
	return ((const struct sample *)reservoir_at(&s->kept, i))->sec;
}
static inline bool samples_exact(const struct samples *s)
{
	return s->n <= SAMPLE_KEEP;
}

#endif
