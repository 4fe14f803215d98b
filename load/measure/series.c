/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting.  Samples are kept by bottom-k sampling: each operation has a random
 * key, and the ones with the smallest keys stay, in a heap with the largest key
 * on top.  That is a uniform draw without replacement, and the draws of several
 * workers merge into a draw of the whole.
 */
#include "load/measure/series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const struct second_channel channels[] = {
	{"ops", SECOND_COUNT, offsetof(struct series_second, ops), 0},
	{"bytes", SECOND_COUNT, offsetof(struct series_second, bytes), 0},
	{"latency_mean", SECOND_MEAN, offsetof(struct series_second, latency_sum),
	 offsetof(struct series_second, ops)},
	{"latency_max", SECOND_MAX, offsetof(struct series_second, latency_max),
	 offsetof(struct series_second, ops)},
};

int series_init(struct run_series *s)
{
	s->seconds = (struct seconds){.channels = channels,
				      .nr_channels = ARRAY_SIZE(channels),
				      .size = sizeof(struct series_second)};
	s->hist = calloc(1, sizeof(*s->hist));
	return s->hist ? 0 : -ENOMEM;
}

void series_fini(struct run_series *s)
{
	free(s->hist);
	free(s->samples);
	seconds_fini(&s->seconds);
	s->hist = NULL;
	s->samples = NULL;
	s->nr_samples = 0;
}

/* ------------------------------------------------------------------ samples */

static void samples_sift(struct series_sample *h, uint32_t n, uint32_t i)
{
	for (uint32_t k; (k = 2 * i + 1) < n; i = k) {
		struct series_sample t = h[i];

		if (k + 1 < n && h[k + 1].key > h[k].key)
			k++;
		if (h[k].key <= t.key)
			return;
		h[i] = h[k];
		h[k] = t;
	}
}

static void samples_lift(struct series_sample *h, uint32_t i)
{
	for (uint32_t up; i && h[up = (i - 1) / 2].key < h[i].key; i = up) {
		struct series_sample t = h[i];

		h[i] = h[up];
		h[up] = t;
	}
}

static int sample_add(struct run_series *s, const struct series_sample *sample)
{
	if (s->nr_samples == SERIES_SAMPLES) {
		if (sample->key >= s->samples[0].key)
			return 0;
		s->samples[0] = *sample;
		samples_sift(s->samples, s->nr_samples, 0);
		return 0;
	}
	/* Doubles from 64 up: sizes at which the array is full are the powers of two. */
	if (s->nr_samples == 0 || (s->nr_samples >= 64 && is_pow2(s->nr_samples))) {
		uint32_t room = s->nr_samples ? 2 * s->nr_samples : 64;
		struct series_sample *p = reallocarray(s->samples, room, sizeof(*p));

		if (!p)
			return -ENOMEM;
		s->samples = p;
	}
	s->samples[s->nr_samples] = *sample;
	samples_lift(s->samples, s->nr_samples++);
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct series_sample *x = a, *y = b;

	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

void series_finish(struct run_series *s)
{
	if (s->nr_samples)
		qsort(s->samples, s->nr_samples, sizeof(*s->samples), by_end);
}

void series_resume(struct run_series *s)
{
	for (uint32_t i = s->nr_samples / 2; i-- > 0;)
		samples_sift(s->samples, s->nr_samples, i);
}

/* ----------------------------------------------------------------- counting */

int series_add(struct run_series *s, uint64_t bytes, uint64_t latency_ns, uint64_t at_ns,
	       uint64_t key)
{
	struct series_sample sample = {key, at_ns, latency_ns, bytes};
	struct series_second *sec = seconds_at(&s->seconds, at_ns);
	double seconds = (double)latency_ns / 1e9;

	if (!sec)
		return -ENOMEM;
	sec->ops++;
	sec->bytes += bytes;
	sec->latency_sum += seconds;
	sec->latency_max = fmax(sec->latency_max, seconds);
	s->ops++;
	s->bytes += bytes;
	sluice_hist_add(s->hist, latency_ns);
	stat_moments_add(&s->latency, seconds);
	/* A clock that did not move would make a rate infinite. */
	stat_moments_add(&s->bandwidth, (double)bytes / (latency_ns ? seconds : 1e-9));
	return sample_add(s, &sample);
}

int series_merge(struct run_series *s, const struct run_series *other)
{
	if (seconds_merge(&s->seconds, &other->seconds) < 0)
		return -ENOMEM;
	s->ops += other->ops;
	s->bytes += other->bytes;
	s->warmup_bytes += other->warmup_bytes;
	if (!s->errors && other->errors)
		memcpy(s->first_error, other->first_error, sizeof(s->first_error));
	s->errors += other->errors;
	s->ways |= other->ways;
	sluice_hist_merge(s->hist, other->hist);
	stat_moments_merge(&s->latency, &other->latency);
	stat_moments_merge(&s->bandwidth, &other->bandwidth);
	stat_moments_merge(&s->late, &other->late);
	for (uint32_t i = 0; i < other->nr_samples; i++)
		if (sample_add(s, &other->samples[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* ------------------------------------------------------------------ repeats */

void series_mark(struct run_series *s)
{
	const struct series_mark now = {
		.ops = s->ops,
		.bytes = s->bytes,
		.sec = s->sec,
		.latency_sum = s->latency.mean * (double)s->ops,
		.bandwidth_sum = s->bandwidth.mean * (double)s->ops,
	};

	/* one in which nothing was counted is none */
	if (s->nr_marks < SERIES_REPEATS &&
	    (s->nr_marks ? s->marks[s->nr_marks - 1].ops : 0) < s->ops)
		s->marks[s->nr_marks++] = now;
}

enum series_figure { SERIES_LATENCY, SERIES_BANDWIDTH, SERIES_SPEED };

/* Of the means of the repeats: a series that is short in time says nothing of how these vary. */
static double repeats_half(const struct run_series *s, enum series_figure of)
{
	struct series_mark a = {0};
	double v[SERIES_REPEATS];

	for (uint32_t i = 0; i < s->nr_marks; i++) {
		const struct series_mark *b = &s->marks[i];
		double n = (double)(b->ops - a.ops);

		v[i] = of == SERIES_LATENCY     ? (b->latency_sum - a.latency_sum) / n
		       : of == SERIES_BANDWIDTH ? (b->bandwidth_sum - a.bandwidth_sum) / n
						: (double)(b->bytes - a.bytes) / (b->sec - a.sec);
		a = *b;
	}
	return stat_drift_half(v, s->nr_marks);
}

double series_speed_half(const struct run_series *s)
{
	return s->nr_marks ? repeats_half(s, SERIES_SPEED) : NAN;
}

/* --------------------------------------------------------------- statistics */

static void set_interval(const struct run_series *s, struct stat_summary *ret,
			 enum series_figure of)
{
	double half;

	if (!s->nr_marks)
		return;
	half = repeats_half(s, of);
	ret->ci_low = half > ret->mean ? 0 : ret->mean - half;
	ret->ci_high = ret->mean + half;
}

static bool known(const struct run_series *s, unsigned i)
{
	return stat_percentile_known(s->ops, stat_percentile_at[i]);
}

/* Percentiles from the samples: all of them, or a draw. */
static int from_samples(const struct run_series *s, struct stat_summary *ret, bool latency)
{
	CLEANUP_FREE double *v = calloc(s->nr_samples, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->nr_samples; i++) {
		uint64_t ns = s->samples[i].latency_ns;

		v[i] = latency ? (double)ns / 1e9
			       : (double)s->samples[i].bytes / ((double)(ns ? ns : 1) / 1e9);
	}
	ret->median = stat_median(v, s->nr_samples);
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (known(s, i))
			ret->percentile[i] =
				stat_percentile(v, s->nr_samples, stat_percentile_at[i]);
	return 0;
}

int series_latency(const struct run_series *s, struct stat_summary *ret, bool *exact)
{
	if (!s->ops)
		return -ENODATA;
	stat_moments_summary(ret, &s->latency);
	set_interval(s, ret, SERIES_LATENCY);
	*exact = s->nr_samples == s->ops;
	if (*exact)
		return from_samples(s, ret, true);
	ret->median = sluice_hist_percentile(s->hist, 50) / 1e9;
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (known(s, i))
			ret->percentile[i] =
				sluice_hist_percentile(s->hist, stat_percentile_at[i]) / 1e9;
	return 0;
}

static double hist_bandwidth(const struct run_series *s, double p)
{
	return (double)s->size / (fmax(sluice_hist_percentile(s->hist, 100 - p), 1) / 1e9);
}

int series_bandwidth(const struct run_series *s, struct stat_summary *ret, bool *exact)
{
	if (!s->ops)
		return -ENODATA;
	stat_moments_summary(ret, &s->bandwidth);
	set_interval(s, ret, SERIES_BANDWIDTH);
	*exact = s->nr_samples == s->ops;
	if (*exact || !s->size)
		return from_samples(s, ret, false);
	ret->median = hist_bandwidth(s, 50);
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (known(s, i))
			ret->percentile[i] = hist_bandwidth(s, stat_percentile_at[i]);
	return 0;
}
