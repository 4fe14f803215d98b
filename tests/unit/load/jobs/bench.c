/* SPDX-License-Identifier: Apache-2.0 */
/* How a bench job ends: by its count, by its own limit of time, by a stop; and its figures. */
#include <math.h>
#include <stdatomic.h>

#include "base/random.h"
#include "base/util.h"
#include "common/t.h"
#include "load/jobs/bench.h"
#include "load/report/jobs/bench_report.h"
#include "load/report/result/result.h"

static const uint64_t sizes[] = {4096};

/* Irwin-Hall: near enough to normal. */
static double gauss(struct penstock_random *r)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += (double)(penstock_random_next(r) >> 11) / (double)(1ull << 53);
	return sum - 6;
}

static struct bench_job job_of(uint64_t iterations, uint64_t max_ns)
{
	return (struct bench_job){.folder = t_dir(),
				  .sizes = sizes,
				  .nr_sizes = 1,
				  .write = true,
				  .iterations = iterations,
				  .max_ns = max_ns,
				  .files = 1,
				  .in_flight = 1,
				  .opts = PENSTOCK_OPTS_INIT};
}

/* The series in the words of the result. */
static json_t *json_of(struct bench_result *res)
{
	struct result r;
	json_t *j;

	result_init(&r, "bench");
	r.settings = json_object();
	r.series = res->series;
	r.nr_series = res->nr_series;
	result_finish(&r);
	j = result_json(&r);
	result_fini(&r);
	assert_non_null(j);
	return j;
}

static void assert_ended(struct bench_result *res, bool partial, const char *by)
{
	json_t *j = json_of(res);
	const json_t *s = json_array_get(json_object_get(j, "series"), 0);
	const char *ended = json_string_value(json_object_get(s, "ended_by"));

	assert_int_equal(res->nr_series, 1);
	assert_int_equal(json_is_true(json_object_get(j, "partial")), partial);
	assert_int_equal(json_is_true(json_object_get(s, "partial")), partial);
	assert_string_equal(ended ? ended : "nothing", by);
	json_decref(j);
}

static void a_limit_of_time_is_told_and_makes_nothing_partial(void **state)
{
	struct bench_job job = job_of(UINT32_MAX, 300000000);
	struct bench_result res;
	char *text = NULL;
	size_t size;
	FILE *f;

	(void)state;
	assert_int_equal(bench_run(&job, &res, NULL), 0);
	assert_ended(&res, false, "time");
	f = open_memstream(&text, &size);
	assert_non_null(f);
	bench_report_series(f, &res.series[0]);
	fclose(f);
	assert_non_null(strstr(text, ", ended by the time limit of 0 s: "));
	assert_non_null(strstr(text, " of 4294967295 iterations\n"));
	free(text);
	bench_result_fini(&res);
}

static void all_iterations_end_by_their_number(void **state)
{
	struct bench_job job = job_of(3, UINT64_MAX / 2);
	struct bench_result res;

	(void)state;
	assert_int_equal(bench_run(&job, &res, NULL), 0);
	assert_ended(&res, false, "nothing");
	assert_int_equal(res.series[0].ops, 3);
	bench_result_fini(&res);
}

static void a_stop_makes_it_partial(void **state)
{
	atomic_int stop = 2;
	struct bench_job job = job_of(UINT32_MAX, 300000000);
	struct bench_result res;

	(void)state;
	job.stop = &stop;
	assert_int_equal(bench_run(&job, &res, NULL), -ECANCELED);
	if (res.nr_series)
		assert_ended(&res, true, "nothing");
	bench_result_fini(&res);
}

/* --------------------------------------------------- figures of made up latencies */

/*
 * A series of 200 operations in @repeats turns, as it is measured on a device whose speed wanders
 * by 10 % from one second to the next while single operations vary by 5 %; a turn is over before it
 * changes.
 */
static void simulate(struct run_series *s, struct penstock_random *r, unsigned repeats)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(series_init(s), 0);
	s->size = 2u << 20;
	for (unsigned k = 0; k < repeats; k++) {
		double level = 1e-3 * (1 + 0.1 * gauss(r));

		for (unsigned i = 0; i < 200 / repeats; i++) {
			double sec = level * (1 + 0.05 * gauss(r));

			s->sec += sec;
			assert_int_equal(series_add(s, s->size, (uint64_t)(sec * 1e9),
						    (uint64_t)(s->sec * 1e9)),
					 0);
		}
		if (repeats > 1)
			series_end_repeat(s);
	}
}

/* The promise: of 20 pairs of runs 18 overlap.  Of series in one piece hardly any do. */
static void intervals_of_repeats_cover_what_changes_between_runs(void **state)
{
	unsigned overlap[2] = {0}, speed = 0, pairs = 400;
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 1);
	for (unsigned i = 0; i < 2 * pairs; i++) {
		bool repeats = i % 2;
		struct stat_summary v[2];
		struct run_series s[2];
		bool exact;

		for (unsigned k = 0; k < 2; k++) {
			simulate(&s[k], &r, repeats ? 10 : 1);
			assert_int_equal(series_latency(&s[k], &v[k], &exact), 0);
		}
		overlap[repeats] += v[0].ci_low <= v[1].ci_high && v[1].ci_low <= v[0].ci_high;
		speed += repeats && fabs(series_speed(&s[0]) - series_speed(&s[1])) <=
					    series_speed_half(&s[0]) + series_speed_half(&s[1]);
		series_fini(&s[0]);
		series_fini(&s[1]);
	}
	print_message(
		"# of 20 pairs overlap: in one piece %.1f, in repeats %.1f, their speeds %.1f\n",
		20.0 * overlap[0] / pairs, 20.0 * overlap[1] / pairs, 20.0 * speed / pairs);
	assert_true(20 * overlap[0] < 10 * pairs);
	assert_true(20 * overlap[1] >= 18 * pairs && 20 * speed >= 18 * pairs);
}

static void few_operations_are_not_divided(void **state)
{
	static const struct {
		uint64_t iterations, runtime_ns, rate;
		uint32_t in_flight;
		unsigned repeats;
	} cases[] = {
		{200, 0, 0, 1, 10}, {49, 0, 0, 1, 9},          {15, 0, 0, 1, 3},
		{14, 0, 0, 1, 1},   {200, 0, 0, 64, 3},        {200, 0, 0, 128, 1},
		{1, 0, 0, 1, 1},    {0, 1000000000, 0, 1, 10}, {0, 1000000000, 40960, 1, 1},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bench_job job = job_of(cases[i].iterations, 0);

		job.runtime_ns = cases[i].runtime_ns;
		job.rate = cases[i].rate;
		job.in_flight = cases[i].in_flight;
		assert_int_equal(bench_repeats(&job), cases[i].repeats);
	}
}

/* Series take turns: in each round all of them, with a share of the operations each. */
static void every_series_has_all_its_operations_in_its_turns(void **state)
{
	static const uint64_t two[] = {4096, 8192};
	struct bench_job job = job_of(33, 0);
	struct bench_result res;

	(void)state;
	job.sizes = two;
	job.nr_sizes = 2;
	job.read = job.verify = true;
	job.warmup = 2;
	job.files = 0;
	assert_int_equal(bench_run(&job, &res, NULL), 0);
	assert_int_equal(res.nr_series, 4);
	for (unsigned i = 0; i < 4; i++) {
		const struct run_series *s = &res.series[i];

		assert_int_equal(s->ops, 33);
		assert_int_equal(s->nr_repeats, 6);
		assert_int_equal(s->repeats[0].ops, 6);
		assert_int_equal(s->repeats[5].ops, 33);
		assert_int_equal(s->warmup_bytes, (2 + 5) * s->size);
		assert_int_equal(s->size, two[i / 2]);
		assert_int_equal(s->read, i % 2);
		assert_true(s->verified_bytes >= 33 * s->size);
	}
	bench_result_fini(&res);
}

/* What was compared before a failure is told, but not that all was right. */
static void a_failure_is_not_called_all_right(void **state)
{
	struct bench_job job = job_of(20, 0);
	struct bench_result res;
	char *text = NULL;
	size_t size;
	FILE *f;

	(void)state;
	job.verify = true;
	job.opts.engine = "fault:nth=3";
	assert_true(bench_run(&job, &res, NULL) < 0);
	f = open_memstream(&text, &size);
	assert_non_null(f);
	bench_report_summary(f, &job, &res);
	fclose(f);
	assert_non_null(strstr(text, "verified:   0 B compared before the run ended early\n"));
	free(text);
	bench_result_fini(&res);
}

/* Of its two ways of asking the better one counts, and the error is that of pairs of turns. */
static void the_ratio_to_fio_is_that_of_pairs_of_turns(void **state)
{
	struct fio_result f = {.turns = 8};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		/* the device drifts by half, which both meet alike */
		double drift = 1 + 0.5 * i;

		f.variant[0].log_ratio[i] = log(1.3 * (1 + 0.01 * (i % 2)));
		f.variant[1].log_ratio[i] = log(1.1 * (1 + 0.01 * (i % 2)));
		for (unsigned k = 0; k < 2; k++) {
			f.variant[k].n++;
			f.variant[k].ours += 1e9 * drift;
			f.variant[k].theirs += 1e9 * drift / (k ? 1.1 : 1.3);
		}
	}
	fio_choose_variant(&f);
	assert_true(f.ratio > 1.1 && f.ratio < 1.11);
	assert_true(f.low < 1.1 && f.low > 1.05 && f.high > 1.11 && f.high < 1.16);
	f = (struct fio_result){.why_not = "interrupted"};
	fio_choose_variant(&f);
	assert_true(isnan(f.ratio) && f.bytes_per_sec == 0);
	assert_string_equal(f.why_not, "interrupted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_of_time_is_told_and_makes_nothing_partial),
		cmocka_unit_test(all_iterations_end_by_their_number),
		cmocka_unit_test(a_stop_makes_it_partial),
		cmocka_unit_test(intervals_of_repeats_cover_what_changes_between_runs),
		cmocka_unit_test(few_operations_are_not_divided),
		cmocka_unit_test(every_series_has_all_its_operations_in_its_turns),
		cmocka_unit_test(a_failure_is_not_called_all_right),
		cmocka_unit_test(the_ratio_to_fio_is_that_of_pairs_of_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
