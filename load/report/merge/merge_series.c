/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series of a file becomes the struct it was written from, those of all ranks are merged as those
 * of workers are, and the sum is written out again: one way of counting for all.
 *
 * Its time is what the turns of all ranks cover together, the n-th turns being one: from the first
 * beginning of them to the last end.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/merge/merge_internal.h"
#include "load/report/result/result.h"
#include "load/report/result/text.h"

static uint64_t count_of(const json_t *j, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(j, key));
}

/* ---------------------------------------------------------------- from a file */

static struct stat_moments moments(const json_t *stats)
{
	uint64_t n = count_of(stats, "n");
	double dev = report_number(stats, "stddev");

	return (struct stat_moments){.n = n,
				     .mean = report_number(stats, "mean"),
				     .m2 = n > 1 ? dev * dev * (double)(n - 1) : 0,
				     .min = report_number(stats, "min"),
				     .max = report_number(stats, "max")};
}

/* Those that are kept, at places that spread them over the whole time. */
static int read_samples(struct run_series *s, const json_t *j, double behind)
{
	const json_t *samples = json_object_get(j, "samples"), *v;
	double step = s->sec / (double)(json_array_size(samples) + 1);
	size_t i;
	int r = 0;

	json_array_foreach(samples, i, v)
	{
		struct series_sample one = {
			.end_ns = (uint64_t)((behind + step * (double)(i + 1)) * 1e9),
			.latency_ns = (uint64_t)(json_number_value(v) * 1e9 + 0.5),
			.bytes = s->size};

		if (r == 0)
			r = reservoir_add(&s->samples, &one);
	}
	s->samples.n = max_u64(s->samples.n, s->ops);
	return r;
}

static int read_seconds(struct run_series *s, const json_t *j, double behind)
{
	const json_t *seconds = json_object_get(j, "per_second");
	size_t nr = json_array_size(json_object_get(seconds, "t"));

	for (size_t i = 0; i < nr; i++) {
		uint64_t at = ((uint64_t)floor(behind + 0.5) + i) * 1000000000u;
		struct series_second *to = per_second_at(&s->seconds, at);
		double mean = json_number_value(
			json_array_get(json_object_get(seconds, "latency_mean"), i));

		if (!to)
			return -ENOMEM;
		to->ops = (uint64_t)json_integer_value(
			json_array_get(json_object_get(seconds, "ops"), i));
		to->bytes = (uint64_t)json_integer_value(
			json_array_get(json_object_get(seconds, "bytes"), i));
		to->latency_sum = mean * (double)to->ops;
		to->latency_max = json_number_value(
			json_array_get(json_object_get(seconds, "latency_max"), i));
	}
	return 0;
}

/* What the schema cannot say: that the members speak of the same operations. */
static int check_counts(const struct run_series *s, const struct merge_rank *k,
			struct penstock_err *err)
{
	if (s->hist->count != s->ops)
		return penstock_fail(
			err, -EINVAL,
			"'%s': histogram of '%s' holds %llu operations, but ops is %llu",
			k->in->name, s->name, (unsigned long long)s->hist->count,
			(unsigned long long)s->ops);
	if (s->ops && s->latency.n != s->ops)
		return penstock_fail(err, -EINVAL,
				     "'%s': latency.n of '%s' is %llu, but ops is %llu",
				     k->in->name, s->name, (unsigned long long)s->latency.n,
				     (unsigned long long)s->ops);
	return 0;
}

/* @behind: seconds after the first rank began. */
static int read_series(struct run_series *s, const struct merge_rank *k, double behind,
		       struct penstock_err *err)
{
	const json_t *j = k->j, *cpu = json_object_get(j, "cpu"),
		     *late = json_object_get(j, "late");
	double per_gib = report_number(cpu, "sec_per_gib");
	int r;

	if (series_init(s) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	snprintf(s->name, sizeof(s->name), "%s", json_string_value(json_object_get(j, "name")));
	snprintf(s->first_error, sizeof(s->first_error), "%s",
		 json_is_string(json_object_get(j, "first_error"))
			 ? json_string_value(json_object_get(j, "first_error"))
			 : "");
	s->read = !strcmp(json_string_value(json_object_get(j, "kind")), "read");
	s->size = count_of(j, "size");
	s->ops = count_of(j, "ops");
	s->bytes = count_of(j, "bytes");
	s->errors = count_of(j, "errors");
	s->sec = report_number(j, "sec");
	s->user_sec = report_number(cpu, "user_sec");
	s->system_sec = report_number(cpu, "system_sec");
	s->library_sec = report_number(cpu, "library_sec");
	s->run_bytes =
		per_gib > 0
			? (uint64_t)((s->user_sec + s->system_sec) / per_gib * (double)(1u << 30))
			: s->bytes;
	s->latency = moments(json_object_get(j, "latency"));
	s->bandwidth = moments(json_object_get(j, "bandwidth"));
	s->late = (struct stat_moments){.n = s->ops,
					.mean = report_number(late, "mean"),
					.max = report_number(late, "max")};
	s->verify = json_is_integer(json_object_get(j, "verified_bytes"));
	s->verified_bytes = count_of(j, "verified_bytes");
	r = merge_hist_read(s->hist, json_object_get(j, "histogram"), k->in->name, "histogram",
			    err);
	if (r == 0)
		r = check_counts(s, k, err);
	if (r < 0)
		return r;
	/* the ends are known better than their buckets */
	s->hist->min = (uint64_t)(s->latency.min * 1e9 + 0.5);
	s->hist->max = (uint64_t)(s->latency.max * 1e9 + 0.5);
	if (read_samples(s, j, behind) < 0 || read_seconds(s, j, behind) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return 0;
}

/* ----------------------------------------------------------------------- time */

static const json_t *turns_of(const struct merge_rank *k)
{
	return json_object_get(json_object_get(k->j, "interval"), "turns");
}

/* Turn @i of all ranks as one; false: nobody has so many. */
static bool joined_turn(const struct merge_rank *ranks, unsigned nr, size_t i, double ret[2])
{
	bool any = false;

	for (unsigned k = 0; k < nr; k++) {
		const json_t *turn = json_array_get(turns_of(&ranks[k]), i);
		double low = json_number_value(json_array_get(turn, 0)),
		       high = json_number_value(json_array_get(turn, 1));

		if (!turn)
			continue;
		ret[0] = any ? fmin(ret[0], low) : low;
		ret[1] = any ? fmax(ret[1], high) : high;
		any = true;
	}
	return any;
}

/* Turns of ranks that did not wait for each other may overlap: their time counts once. */
static double join_turns(json_t *turns, const struct merge_rank *ranks, unsigned nr)
{
	double one[2], sec = 0, upto = 0;

	for (size_t i = 0; joined_turn(ranks, nr, i, one); i++) {
		json_array_append_new(turns, json_pack("[f, f]", one[0], one[1]));
		sec += fmax(0, one[1] - fmax(one[0], upto));
		upto = fmax(upto, one[1]);
	}
	return sec;
}

static json_t *interval_of(json_t *turns, const struct merge_rank *ranks, unsigned nr)
{
	double first = INFINITY, last = 0;

	for (unsigned k = 0; k < nr; k++) {
		if (!turns_of(&ranks[k]))
			continue;
		first = fmin(first, ranks[k].first);
		last = fmax(last, ranks[k].last);
	}
	return json_array_size(turns) ? json_pack("{s:O, s:f, s:f}", "turns", turns, "first_done",
						  first, "last_done", last)
				      : json_null();
}

/* ------------------------------------------------------------------- together */

/* The n-th operations of all ranks are one: it ends when the last of them does. */
static int add_together(struct run_series *sum, const struct merge_rank *ranks, unsigned nr)
{
	size_t ops = SIZE_MAX;
	uint64_t bytes = 0;
	int r = 0;

	for (unsigned k = 0; k < nr; k++) {
		size_t has = json_array_size(json_object_get(ranks[k].j, "samples"));

		if (!ranks[k].j)
			continue;
		ops = min_u64(ops, has);
		bytes += has ? count_of(ranks[k].j, "bytes") / has : 0;
	}
	for (size_t i = 0; i < ops && ops != SIZE_MAX && r == 0; i++) {
		double slowest = 0;

		for (unsigned k = 0; k < nr; k++)
			slowest =
				fmax(slowest, json_number_value(json_array_get(
						      json_object_get(ranks[k].j, "samples"), i)));
		sum->sec += slowest;
		r = series_add(sum, bytes, (uint64_t)(slowest * 1e9 + 0.5),
			       (uint64_t)(sum->sec * 1e9));
	}
	sum->size = bytes;
	return r;
}

/* ---------------------------------------------------------------------- words */

/* What every rank was, or both words; @in: the member that has it, NULL: the series itself. */
static json_t *words(const struct merge_rank *ranks, unsigned nr, const char *in, const char *key)
{
	const json_t *first = NULL;

	for (unsigned k = 0; k < nr; k++) {
		const json_t *of = in ? json_object_get(ranks[k].j, in) : ranks[k].j,
			     *one = json_object_get(of, key);

		if (!first)
			first = one;
		else if (one && !json_equal(first, one))
			return json_sprintf("differs: %s; %s: %s", json_string_value(first),
					    ranks[k].in->name, json_string_value(one));
	}
	return json_deep_copy(first);
}

/* Of the first, what differs, and what others fell back to. */
static json_t *ran_of(const struct merge_rank *ranks, unsigned nr)
{
	static const char *const keys[] = {"engine", "path", "memory"};
	json_t *j = NULL, *all;
	size_t i, n;

	for (unsigned k = 0; k < nr; k++) {
		const json_t *ran = json_object_get(ranks[k].j, "ran"), *f;

		if (!ran)
			continue;
		if (!j)
			j = json_deep_copy(ran);
		if (!json_equal(json_object_get(j, "direct"), json_object_get(ran, "direct")))
			json_object_set_new(j, "direct", json_string("O_DIRECT and page cache"));
		if (!json_is_string(json_object_get(j, "fallback_why")))
			json_object_set(j, "fallback_why", json_object_get(ran, "fallback_why"));
		all = json_object_get(j, "fallbacks");
		json_array_foreach(json_object_get(ran, "fallbacks"), i, f)
		{
			for (n = 0; n < json_array_size(all); n++)
				if (json_equal(json_array_get(all, n), f))
					break;
			if (n == json_array_size(all))
				json_array_append(all, (json_t *)(uintptr_t)f);
		}
	}
	for (i = 0; j && i < ARRAY_SIZE(keys); i++)
		json_object_set_new(j, keys[i], words(ranks, nr, "ran", keys[i]));
	return j;
}

/* The first rank that is lost, or that ended early, speaks for all. */
static void set_partial(json_t *out, const struct merge_rank *ranks, unsigned nr)
{
	for (unsigned i = 0; i < 2 * nr; i++) {
		unsigned k = i % nr;
		const char *why = json_string_value(json_object_get(ranks[k].j, "partial_why"));
		bool early = i < nr ? !ranks[k].in->result
				    : json_is_true(json_object_get(ranks[k].j, "partial"));

		if (!early)
			continue;
		json_object_set_new(out, "partial", json_true());
		json_object_set_new(out, "partial_why",
				    json_sprintf("%s: %s", ranks[k].in->name,
						 why                 ? why
						 : ranks[k].in->lost ? ranks[k].in->lost
								     : "ended early"));
		return;
	}
}

/* What was not counted but told. */
static json_t *merged_series_json(struct run_series *sum, const struct merge_rank *ranks,
				  unsigned nr, json_t *interval)
{
	const struct result none = {.command = ""};
	json_t *out = result_series_json(&none, sum, false);
	uint64_t written = 0;
	const json_t *j = NULL;

	for (unsigned k = 0; k < nr; k++) {
		j = j ? j : ranks[k].j;
		written += count_of(ranks[k].j, "bytes_written");
	}
	json_object_set(out, "settings", json_object_get(j, "settings"));
	json_object_set(out, "ended_by", json_object_get(j, "ended_by"));
	json_object_set_new(out, "ran", ran_of(ranks, nr));
	json_object_set_new(out, "cache", words(ranks, nr, NULL, "cache"));
	json_object_set_new(out, "bytes_written", json_integer((json_int_t)written));
	json_object_set_new(out, "interval", interval);
	/* operations of many sizes: what each had is not kept */
	if (!sum->size)
		json_object_set_new(out, "bandwidth", json_null());
	json_object_set_new(out, "limit",
			    json_pack("{s:n, s:n, s:s, s:n}", "bytes_per_sec", "share", "how",
				      "not known of several processes together", "note"));
	set_partial(out, ranks, nr);
	return out;
}

/* ------------------------------------------------------------------ the whole */

static int add_ranks(struct run_series *sum, const struct merge_rank *ranks, unsigned nr,
		     bool together, struct penstock_err *err)
{
	double begin = INFINITY;
	int r = 0;

	for (unsigned k = 0; k < nr; k++)
		if (turns_of(&ranks[k]))
			begin = fmin(begin, ranks[k].start);
	for (unsigned k = 0; k < nr && r == 0; k++) {
		struct run_series one = {.ops = 0};
		/* counted time of several turns is not that of a clock */
		bool alone = json_array_size(turns_of(&ranks[k])) == 1;

		if (!ranks[k].j)
			continue;
		r = read_series(&one, &ranks[k], alone ? ranks[k].start - begin : 0, err);
		snprintf(sum->name, sizeof(sum->name), "%s", one.name);
		sum->read = one.read;
		sum->verify |= one.verify;
		sum->verified_bytes += one.verified_bytes;
		sum->user_sec += one.user_sec;
		sum->system_sec += one.system_sec;
		sum->library_sec += one.library_sec;
		sum->run_bytes += one.run_bytes;
		sum->size = one.size;
		if (r == 0 && !together && series_merge(sum, &one) < 0)
			r = penstock_fail(err, -ENOMEM, "out of memory");
		sum->errors += together ? one.errors : 0;
		series_fini(&one);
	}
	if (r == 0 && together && add_together(sum, ranks, nr) < 0)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	return r;
}

int merge_series(json_t **out, const struct merge_rank *ranks, unsigned nr, bool together,
		 struct penstock_err *err)
{
	struct run_series sum = {.ops = 0};
	json_t *turns = json_array();
	double sec = join_turns(turns, ranks, nr);
	int r = series_init(&sum) < 0 ? penstock_fail(err, -ENOMEM, "out of memory") : 0;

	if (r == 0)
		r = add_ranks(&sum, ranks, nr, together, err);
	if (r == 0) {
		sum.sec = together ? sum.sec : sec;
		series_finish(&sum);
		*out = merged_series_json(&sum, ranks, nr, interval_of(turns, ranks, nr));
	}
	json_decref(turns);
	series_fini(&sum);
	return r;
}
