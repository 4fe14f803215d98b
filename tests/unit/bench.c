/* SPDX-License-Identifier: Apache-2.0 */
/* How a bench job ends: by its count, by its own limit of time, by a stop. */
#include <stdatomic.h>

#include "base/util.h"
#include "common/t.h"
#include "load/jobs/bench.h"
#include "load/report/jobs/bench_report.h"
#include "load/report/result/result.h"

static const uint64_t sizes[] = {4096};

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
				  .opts = SLUICE_OPTS_INIT};
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
	struct bench_job job = job_of(UINT32_MAX, 20000000);
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
	assert_non_null(strstr(text, " operations, ended by the time limit of 0 s: "));
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
	struct bench_job job = job_of(UINT32_MAX, 20000000);
	struct bench_result res;

	(void)state;
	job.stop = &stop;
	assert_int_equal(bench_run(&job, &res, NULL), -ECANCELED);
	if (res.nr_series)
		assert_ended(&res, true, "nothing");
	bench_result_fini(&res);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_of_time_is_told_and_makes_nothing_partial),
		cmocka_unit_test(all_iterations_end_by_their_number),
		cmocka_unit_test(a_stop_makes_it_partial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
