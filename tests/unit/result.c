/* SPDX-License-Identifier: Apache-2.0 */
/* Results as text, JSON and CSV, of series whose numbers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/util.h"
#include "load/report/bench_report.h"
#include "load/report/result.h"

/* @n operations of 1 ms, of which every @slow-th takes ten times as long; within 1 %. */
static void fill(struct run_series *s, unsigned n, unsigned slow)
{
	struct sluice_random r;

	memset(s, 0, sizeof(*s));
	assert_int_equal(series_init(s), 0);
	sluice_random_seed(&r, 1);
	snprintf(s->name, sizeof(s->name), "read 1M");
	snprintf(s->stats.engine, sizeof(s->stats.engine), "io_uring");
	snprintf(s->cache, sizeof(s->cache), "cold (O_DIRECT)");
	s->read = true;
	s->size = 1 << 20;
	for (unsigned i = 0; i < n; i++) {
		uint64_t ns = (slow && i % slow == 0 ? 10000000 : 1000000) +
			      sluice_random_below(&r, 10000);

		s->sec += (double)ns / 1e9;
		assert_int_equal(series_add(s, s->size, ns, (uint64_t)(s->sec * 1e9),
					    sluice_random_next(&r)),
				 0);
	}
	s->run_bytes = s->bytes;
	series_finish(s);
}

static char *text_of(const struct run_series *s)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	bench_report_series(f, s);
	fclose(f);
	return text;
}

static json_t *json_of(const struct run_series *s)
{
	struct result r;
	json_t *j;

	result_init(&r, "bench");
	r.settings = json_object();
	r.series = s;
	r.nr_series = 1;
	result_finish(&r);
	j = result_json(&r);
	assert_non_null(j);
	result_fini(&r);
	return j;
}

static const json_t *series_of(json_t *result)
{
	return json_array_get(json_object_get(result, "series"), 0);
}

static void two_peaks_are_told_in_text_and_json(void **state)
{
	struct run_series s;
	const json_t *d, *slow;
	char *text;
	json_t *j;

	(void)state;
	fill(&s, 200, 5);
	text = text_of(&s);
	assert_non_null(strstr(text, "Distribution: bimodal: 80 % near "));
	assert_non_null(strstr(text, " ms, 20 % near "));
	j = json_of(&s);
	d = json_object_get(series_of(j), "distribution");
	assert_true(json_is_true(json_object_get(d, "bimodal")));
	slow = json_array_get(json_object_get(d, "peaks"), 1);
	assert_true(fabs(json_real_value(json_object_get(slow, "share")) - 0.2) < 1e-9);
	assert_true(fabs(json_real_value(json_object_get(slow, "latency")) / 0.01 - 1) < 0.05);
	json_decref(j);
	free(text);
	series_fini(&s);
}

static void one_peak_and_too_few_are_told_too(void **state)
{
	struct run_series s;
	char *text;

	(void)state;
	fill(&s, 200, 0);
	text = text_of(&s);
	assert_non_null(strstr(text, "Distribution: one peak\n"));
	free(text);
	series_fini(&s);
	fill(&s, 10, 2);
	text = text_of(&s);
	assert_non_null(strstr(text, "Distribution: too few operations to tell\n"));
	free(text);
	series_fini(&s);
}

static void what_is_not_known_is_null(void **state)
{
	struct run_series s;
	const json_t *x;
	json_t *j;

	(void)state;
	fill(&s, 0, 0);
	j = json_of(&s);
	x = series_of(j);
	assert_true(json_is_null(json_object_get(x, "latency")));
	assert_true(json_is_null(json_object_get(json_object_get(x, "cpu"), "sec_per_gib")));
	assert_true(json_is_null(json_object_get(json_object_get(x, "limit"), "share")));
	assert_true(json_is_null(json_object_get(x, "verified_bytes")));
	json_decref(j);
	series_fini(&s);
	fill(&s, 1, 0);
	j = json_of(&s);
	x = json_object_get(series_of(j), "latency");
	assert_true(json_is_null(json_object_get(x, "stddev")));
	assert_true(json_is_null(json_object_get(x, "ci95")));
	json_decref(j);
	series_fini(&s);
}

static void a_partial_series_makes_a_partial_result(void **state)
{
	struct run_series s;
	json_t *j;

	(void)state;
	fill(&s, 5, 0);
	s.partial = true;
	snprintf(s.partial_why, sizeof(s.partial_why), "interrupted");
	j = json_of(&s);
	assert_true(json_is_true(json_object_get(j, "partial")));
	assert_string_equal(json_string_value(json_object_get(j, "partial_why")),
			    "read 1M: interrupted");
	json_decref(j);
	series_fini(&s);
}

static void commas_and_quotes_stay_within_their_column(void **state)
{
	struct result r;
	struct run_series s;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	fill(&s, 3, 0);
	snprintf(s.name, sizeof(s.name), "a, \"b\"");
	result_init(&r, "bench");
	r.series = &s;
	r.nr_series = 1;
	assert_int_equal(result_csv(f, &r), 0);
	fclose(f);
	assert_true(!strncmp(text, "name,kind,size,", 15));
	assert_non_null(strstr(text, "\n\"a, \"\"b\"\"\",read,1048576,io_uring,"));
	free(text);
	series_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_peaks_are_told_in_text_and_json),
		cmocka_unit_test(one_peak_and_too_few_are_told_too),
		cmocka_unit_test(what_is_not_known_is_null),
		cmocka_unit_test(a_partial_series_makes_a_partial_result),
		cmocka_unit_test(commas_and_quotes_stay_within_their_column),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
