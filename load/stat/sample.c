/* SPDX-License-Identifier: Apache-2.0 */
/* A reservoir (Vitter's algorithm R) beside a histogram; adding allocates only while it grows. */
#include "load/stat/sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/stat/stat.h"

#define FIRST_ROOM 16
#define FEW        1000 /* so many equal ones are kept like others */

static uint64_t kept(const struct samples *s)
{
	return min_u64(s->n, SAMPLE_KEEP);
}

/* splitmix64: any state will do, zero included. */
static uint64_t draw(struct samples *s, uint64_t below)
{
	uint64_t z = s->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return (uint64_t)((unsigned __int128)z * below >> 64);
}

/* Room for one more: it doubles whenever it is a power of two and full. */
static int grow(struct samples *s)
{
	uint64_t room = min_u64(s->n ? 2 * s->n : FIRST_ROOM, SAMPLE_KEEP);
	double *v;

	if (s->n && (s->n < FIRST_ROOM || (s->n & (s->n - 1))))
		return 0;
	if (!s->hist && !(s->hist = calloc(1, sizeof(*s->hist))))
		return -ENOMEM;
	v = reallocarray(s->v, room, sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->v = v;
	return 0;
}

/* From now on it matters which of all samples those are that stay. */
static int number(struct samples *s)
{
	s->at = calloc(SAMPLE_KEEP, sizeof(*s->at));
	if (!s->at)
		return -ENOMEM;
	for (uint64_t i = 0; i < SAMPLE_KEEP; i++)
		s->at[i] = i;
	return 0;
}

/* Into the list, if it is to stay. */
static int keep(struct samples *s, double sec)
{
	uint64_t i = s->n;
	int r = 0;

	if (s->n < SAMPLE_KEEP) {
		r = grow(s);
	} else {
		if (!s->at)
			r = number(s);
		i = draw(s, s->n + 1);
	}
	if (r < 0 || i >= SAMPLE_KEEP)
		return r;
	s->v[i] = sec;
	if (s->at)
		s->at[i] = s->n;
	return 0;
}

/* Only known to be equal: a list of them is not there. */
static bool is_compact(const struct samples *s)
{
	return s->n && !s->v;
}

/* Make the list: something else is coming. */
static int unfold(struct samples *s)
{
	/* room as grow() would have made it */
	uint64_t room = FIRST_ROOM;

	while (room < s->n && room < SAMPLE_KEEP)
		room = min_u64(2 * room, SAMPLE_KEEP);
	if (s->n > SAMPLE_KEEP && number(s) < 0)
		return -ENOMEM;
	s->v = malloc(room * sizeof(*s->v));
	if (!s->v)
		return -ENOMEM;
	for (uint64_t i = 0; i < kept(s); i++) {
		s->v[i] = s->max;
		if (s->at)
			s->at[i] = i * (s->n / SAMPLE_KEEP);
	}
	return 0;
}

int samples_add(struct samples *s, double sec)
{
	int r = is_compact(s) ? unfold(s) : 0;

	sec = sec > 0 ? sec : 0;
	if (r == 0)
		r = keep(s, sec);
	if (r < 0)
		return r;
	sluice_hist_add(s->hist, (uint64_t)(sec * 1e9 + 0.5));
	s->n++;
	s->sum += sec;
	s->max = sec > s->max ? sec : s->max;
	return 0;
}

void samples_fini(struct samples *s)
{
	free(s->v);
	free(s->at);
	free(s->hist);
	*s = (struct samples){0};
}

/* ------------------------------------------------------------------ reading */

double samples_mean(const struct samples *s)
{
	return s->n ? s->sum / (double)s->n : NAN;
}

int samples_percentiles(const struct samples *s, const double *p, double *ret, unsigned nr)
{
	CLEANUP_FREE double *sorted = NULL;

	if (s->v && samples_exact(s)) {
		sorted = malloc(s->n * sizeof(*sorted));
		if (!sorted)
			return -ENOMEM;
		memcpy(sorted, s->v, s->n * sizeof(*sorted));
		stat_sort(sorted, s->n);
	}
	for (unsigned i = 0; i < nr; i++)
		ret[i] = !s->n           ? NAN
			 : is_compact(s) ? s->max
			 : sorted        ? stat_percentile(sorted, s->n, p[i])
					 : sluice_hist_percentile(s->hist, p[i]) / 1e9;
	return 0;
}

double samples_percentile(const struct samples *s, double p)
{
	double v;

	return samples_percentiles(s, &p, &v, 1) < 0 ? NAN : v;
}

struct arrival {
	uint64_t at;
	double v;
};

static int by_arrival(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static struct arrival *arrivals(const struct samples *s)
{
	struct arrival *a = calloc(kept(s) + 1, sizeof(*a));

	for (uint64_t i = 0; a && i < kept(s); i++)
		a[i] = (struct arrival){s->at ? s->at[i] : i, s->v ? s->v[i] : s->max};
	if (a && s->at)
		qsort(a, kept(s), sizeof(*a), by_arrival);
	return a;
}

double *samples_list(const struct samples *s)
{
	CLEANUP_FREE struct arrival *a = arrivals(s);
	double *list = malloc((kept(s) + 1) * sizeof(*list));

	if (!a || !list) {
		free(list);
		return NULL;
	}
	for (uint64_t i = 0; i < kept(s); i++)
		list[i] = a[i].v;
	return list;
}

/* ------------------------------------------------------------------ merging */

/* Take one of the first *@left at random, and forget it. */
static struct arrival take(struct samples *s, struct arrival *a, uint64_t *left)
{
	uint64_t i = draw(s, *left);
	struct arrival x = a[i];

	a[i] = a[--*left];
	return x;
}

/* A uniform draw of both together: each place is the one's or the other's by their numbers. */
static int redraw(struct samples *s, const struct samples *other)
{
	CLEANUP_FREE struct arrival *a = arrivals(s), *b = arrivals(other);
	uint64_t na = s->n, nb = other->n, la = kept(s), lb = kept(other);
	double *v = malloc(SAMPLE_KEEP * sizeof(*v));
	uint64_t *at = calloc(SAMPLE_KEEP, sizeof(*at));

	if (!a || !b || !v || !at) {
		free(v);
		free(at);
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < SAMPLE_KEEP; i++) {
		bool first = lb == 0 || (la && draw(s, na + nb) < na);
		struct arrival x = first ? take(s, a, &la) : take(s, b, &lb);

		na -= first && na;
		nb -= !first && nb;
		v[i] = x.v;
		at[i] = first ? x.at : s->n + x.at;
	}
	free(s->v);
	free(s->at);
	s->v = v;
	s->at = at;
	return 0;
}

int samples_merge(struct samples *s, const struct samples *other)
{
	int r = is_compact(s) && other->n ? unfold(s) : 0;

	if (r < 0 || !other->n)
		return r;
	if (is_compact(other))
		return samples_add_n(s, other->max, other->n);
	if (s->n + other->n <= SAMPLE_KEEP) {
		for (uint64_t i = 0; i < other->n && r == 0; i++)
			r = samples_add(s, other->v[i]);
		return r;
	}
	if (!s->hist && !(s->hist = calloc(1, sizeof(*s->hist))))
		return -ENOMEM;
	r = redraw(s, other);
	if (r < 0)
		return r;
	sluice_hist_merge(s->hist, other->hist);
	s->n += other->n;
	s->sum += other->sum;
	s->max = other->max > s->max ? other->max : s->max;
	return 0;
}

/* The histogram is that of one, times @n. */
static int fill(struct samples *s, double sec, uint64_t n)
{
	if (!s->hist && !(s->hist = calloc(1, sizeof(*s->hist))))
		return -ENOMEM;
	sluice_hist_add(s->hist, (uint64_t)(sec * 1e9 + 0.5));
	for (unsigned i = 0; i < SLUICE_HIST_SIZE; i++)
		s->hist->bucket[i] *= n;
	s->hist->count = s->n = n;
	s->sum = sec * (double)n;
	s->max = sec;
	return 0;
}

int samples_add_n(struct samples *s, double sec, uint64_t n)
{
	struct samples equal = {0};
	int r = 0;

	sec = sec > 0 ? sec : 0;
	if (n < FEW || (s->v && s->n + n <= SAMPLE_KEEP)) {
		while (n-- && r == 0)
			r = samples_add(s, sec);
		return r;
	}
	if (!s->n)
		return fill(s, sec, n);
	r = fill(&equal, sec, n);
	if (r == 0)
		r = unfold(&equal);
	if (r == 0)
		r = samples_merge(s, &equal);
	samples_fini(&equal);
	return r;
}
