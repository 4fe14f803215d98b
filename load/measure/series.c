/* SPDX-License-Identifier: Apache-2.0 */
/* Counting. */
#include "load/measure/series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const struct per_second_channel channels[] = {
	{"ops", PER_SECOND_COUNT, offsetof(struct series_second, ops), 0},
	{"bytes", PER_SECOND_COUNT, offsetof(struct series_second, bytes), 0},
	{"latency_mean", PER_SECOND_MEAN, offsetof(struct series_second, latency_sum),
	 offsetof(struct series_second, ops)},
	{"latency_max", PER_SECOND_MAX, offsetof(struct series_second, latency_max),
	 offsetof(struct series_second, ops)},
};

int series_init(struct run_series *s)
{
	s->seconds = (struct per_second){.channels = channels,
					 .nr_channels = ARRAY_SIZE(channels),
					 .size = sizeof(struct series_second)};
	s->samples =
		(struct reservoir){.size = sizeof(struct series_sample), .keep = SERIES_SAMPLES};
	s->hist = calloc(1, sizeof(*s->hist));
	return s->hist ? 0 : -ENOMEM;
}

void series_fini(struct run_series *s)
{
	free(s->hist);
	reservoir_fini(&s->samples);
	per_second_fini(&s->seconds);
	s->hist = NULL;
}

/* ----------------------------------------------------------------- counting */

int series_add(struct run_series *s, uint64_t bytes, uint64_t latency_ns, uint64_t at_ns)
{
	const struct series_sample sample = {at_ns, latency_ns, bytes};
	struct series_second *sec = per_second_at(&s->seconds, at_ns);
	double seconds = (double)latency_ns / 1e9;

	if (!sec)
		return -ENOMEM;
	sec->ops++;
	sec->bytes += bytes;
	sec->latency_sum += seconds;
	sec->latency_max = fmax(sec->latency_max, seconds);
	s->first_ns = s->ops ? min_u64(s->first_ns, at_ns) : at_ns;
	s->last_ns = max_u64(s->last_ns, at_ns);
	s->ops++;
	s->bytes += bytes;
	penstock_hist_add(s->hist, latency_ns);
	stat_moments_add(&s->latency, seconds);
	/* A clock that did not move would make a rate infinite. */
	stat_moments_add(&s->bandwidth, (double)bytes / (latency_ns ? seconds : 1e-9));
	return reservoir_add(&s->samples, &sample);
}

int series_merge(struct run_series *s, const struct run_series *other)
{
	if (per_second_merge(&s->seconds, &other->seconds) < 0)
		return -ENOMEM;
	if (other->ops)
		s->first_ns = s->ops ? min_u64(s->first_ns, other->first_ns) : other->first_ns;
	s->last_ns = max_u64(s->last_ns, other->last_ns);
	s->ops += other->ops;
	s->bytes += other->bytes;
	s->warmup_bytes += other->warmup_bytes;
	if (!s->errors && other->errors)
		memcpy(s->first_error, other->first_error, sizeof(s->first_error));
	s->errors += other->errors;
	s->done_flags |= other->done_flags;
	penstock_hist_merge(s->hist, other->hist);
	stat_moments_merge(&s->latency, &other->latency);
	stat_moments_merge(&s->bandwidth, &other->bandwidth);
	stat_moments_merge(&s->late, &other->late);
	return reservoir_merge(&s->samples, &other->samples, 0);
}

void series_turn(struct run_series *s, uint64_t start_ns, uint64_t ns)
{
	if (s->nr_turns == SERIES_REPEATS)
		s->turns[SERIES_REPEATS - 1].ns += ns;
	else
		s->turns[s->nr_turns++] = (struct series_turn){start_ns, ns};
}

void series_finish(struct run_series *s)
{
	reservoir_sort(&s->samples);
}

/* ------------------------------------------------------------------ repeats */

void series_end_repeat(struct run_series *s)
{
	const struct series_repeat now = {
		.ops = s->ops,
		.bytes = s->bytes,
		.sec = s->sec,
		.latency_sum = s->latency.mean * (double)s->ops,
		.bandwidth_sum = s->bandwidth.mean * (double)s->ops,
	};

	/* one in which nothing was counted is none */
	if (s->nr_repeats < SERIES_REPEATS &&
	    (s->nr_repeats ? s->repeats[s->nr_repeats - 1].ops : 0) < s->ops)
		s->repeats[s->nr_repeats++] = now;
}

enum series_figure { SERIES_LATENCY, SERIES_BANDWIDTH, SERIES_SPEED };

/* Of the means of the repeats: a series that is short in time says nothing of how these vary. */
static double repeats_half(const struct run_series *s, enum series_figure of)
{
	struct series_repeat a = {0};
	double v[SERIES_REPEATS];

	for (uint32_t i = 0; i < s->nr_repeats; i++) {
		const struct series_repeat *b = &s->repeats[i];
		double n = (double)(b->ops - a.ops);

		v[i] = of == SERIES_LATENCY     ? (b->latency_sum - a.latency_sum) / n
		       : of == SERIES_BANDWIDTH ? (b->bandwidth_sum - a.bandwidth_sum) / n
						: (double)(b->bytes - a.bytes) / (b->sec - a.sec);
		a = *b;
	}
	return stat_drift_half(v, s->nr_repeats);
}

double series_speed_half(const struct run_series *s)
{
	return s->nr_repeats ? repeats_half(s, SERIES_SPEED) : NAN;
}

/* --------------------------------------------------------------- statistics */

static void set_interval(const struct run_series *s, struct stat_summary *ret,
			 enum series_figure of)
{
	double half;

	if (!s->nr_repeats)
		return;
	half = repeats_half(s, of);
	ret->ci_low = half > ret->mean ? 0 : ret->mean - half;
	ret->ci_high = ret->mean + half;
}

static bool known(const struct run_series *s, unsigned i)
{
	return stat_percentile_known(s->ops, stat_percentile_at[i]);
}

/* Percentiles from the samples: all of them, or those of the reservoir. */
static int from_samples(const struct run_series *s, struct stat_summary *ret, bool latency)
{
	uint64_t nr = series_kept(s);
	CLEANUP_FREE double *v = calloc(nr, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint64_t i = 0; i < nr; i++) {
		const struct series_sample *x = series_sample(s, i);
		double sec = (double)max_u64(x->latency_ns, latency ? 0 : 1) / 1e9;

		v[i] = latency ? sec : (double)x->bytes / sec;
	}
	ret->median = stat_median(v, nr);
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (known(s, i))
			ret->percentile[i] = stat_percentile(v, nr, stat_percentile_at[i]);
	return 0;
}

int series_latency(const struct run_series *s, struct stat_summary *ret, bool *exact)
{
	if (!s->ops)
		return -ENODATA;
	stat_moments_summary(ret, &s->latency);
	set_interval(s, ret, SERIES_LATENCY);
	*exact = s->samples.n <= SERIES_SAMPLES;
	if (*exact)
		return from_samples(s, ret, true);
	ret->median = penstock_hist_percentile(s->hist, 50) / 1e9;
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (known(s, i))
			ret->percentile[i] =
				penstock_hist_percentile(s->hist, stat_percentile_at[i]) / 1e9;
	return 0;
}

static double hist_bandwidth(const struct run_series *s, double p)
{
	return (double)s->size / (fmax(penstock_hist_percentile(s->hist, 100 - p), 1) / 1e9);
}

int series_bandwidth(const struct run_series *s, struct stat_summary *ret, bool *exact)
{
	if (!s->ops)
		return -ENODATA;
	stat_moments_summary(ret, &s->bandwidth);
	set_interval(s, ret, SERIES_BANDWIDTH);
	*exact = s->samples.n <= SERIES_SAMPLES;
	if (*exact || !s->size)
		return from_samples(s, ret, false);
	ret->median = hist_bandwidth(s, 50);
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (known(s, i))
			ret->percentile[i] = hist_bandwidth(s, stat_percentile_at[i]);
	return 0;
}
