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
#include "load/jobs/bench.h"
#include "load/report/jobs/bench_report.h"
#include "load/report/result/result.h"

/* @n operations of 1 ms, of which every @slow-th takes ten times as long; within 1 %. */
static void fill(struct run_series *s, unsigned n, unsigned slow)
{
	struct penstock_random r;

	memset(s, 0, sizeof(*s));
	assert_int_equal(series_init(s), 0);
	penstock_random_seed(&r, 1);
	snprintf(s->name, sizeof(s->name), "read 1M");
	snprintf(s->stats.engine, sizeof(s->stats.engine), "io_uring");
	snprintf(s->cache, sizeof(s->cache), "cold (O_DIRECT)");
	s->read = true;
	s->size = 1 << 20;
	for (unsigned i = 0; i < n; i++) {
		uint64_t ns = (slow && i % slow == 0 ? 10000000 : 1000000) +
			      penstock_random_below(&r, 10000);

		s->sec += (double)ns / 1e9;
		assert_int_equal(series_add(s, s->size, ns, (uint64_t)(s->sec * 1e9)), 0);
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

static json_t *json_with(const struct run_series *s, json_t *settings)
{
	struct result r;
	json_t *j;

	result_init(&r, "bench");
	r.settings = settings;
	r.series = s;
	r.nr_series = 1;
	result_finish(&r);
	j = result_json(&r);
	assert_non_null(j);
	result_fini(&r);
	return j;
}

static json_t *json_of(const struct run_series *s)
{
	return json_with(s, json_object());
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
	for (unsigned n = 1; n <= 3; n++) {
		fill(&s, n, 0);
		j = json_of(&s);
		x = json_object_get(series_of(j), "latency");
		assert_int_equal(json_is_null(json_object_get(x, "stddev")), n < 2);
		assert_int_equal(json_is_null(json_object_get(x, "ci95")), n < 3);
		json_decref(j);
		series_fini(&s);
	}
}

static void peaks_of_fast_operations_are_told_in_microseconds(void **state)
{
	struct stat_shape shape;
	struct run_series s;
	char text[128];

	(void)state;
	memset(&s, 0, sizeof(s));
	assert_int_equal(series_init(&s), 0);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(series_add(&s, 4096, i % 4 ? 9950 + i : 40000 + i, i), 0);
	result_shape_text(text, sizeof(text), &s, &shape);
	assert_true(!strncmp(text, "bimodal: 75 % near 10.", 22));
	assert_non_null(strstr(text, " us, 25 % near 40."));
	series_fini(&s);
}

/* The note of a series that reached @share of its limit; free it. */
static char *note_of(bool read, bool overwrite, double share, const char *how)
{
	struct run_series s;
	const json_t *note;
	char *text;
	json_t *j;

	fill(&s, 5, 0);
	s.read = read;
	s.limit = series_speed(&s) / share;
	snprintf(s.limit_how, sizeof(s.limit_how), "%s", how);
	j = json_with(&s, json_pack("{s:b}", "rewrite", overwrite));
	note = json_object_get(json_object_get(series_of(j), "limit"), "note");
	text = json_is_null(note) ? NULL : strdup(json_string_value(note));
	json_decref(j);
	series_fini(&s);
	return text;
}

static void a_share_of_the_limit_says_what_it_compares(void **state)
{
	static const struct {
		bool read, overwrite;
		double share;
		const char *how, *begins, *has; /* NULL: no note */
	} cases[] = {
		{true, false, 0.8, "measured", NULL, NULL},
		{false, true, 0.8, "measured", NULL, NULL},
		{false, false, 0.8, "measured", "these writes fill fresh files", "existing data"},
		{false, false, 0.8, "as given", NULL, NULL},
		{true, false, 1.1, "as given", "above 100 %", "that was given"},
		{false, false, 1.1, "measured", "these writes fill fresh files", "above 100 %"},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		char *note =
			note_of(cases[i].read, cases[i].overwrite, cases[i].share, cases[i].how);

		if (!!note != !!cases[i].begins)
			fail_msg("case %u: %s", i, note ? note : "no note");
		if (note && (strncmp(note, cases[i].begins, strlen(cases[i].begins)) != 0 ||
			     !strstr(note, cases[i].has)))
			fail_msg("case %u: %s", i, note);
		free(note);
	}
}

static void the_summary_of_bench_says_what_its_share_compares(void **state)
{
	struct run_series s;
	struct bench_job job = {.folder = "."};
	struct bench_result res = {.series = &s, .nr_series = 1};

	(void)state;
	fill(&s, 5, 0);
	s.read = false;
	s.limit = 2 * series_speed(&s);
	snprintf(s.limit_how, sizeof(s.limit_how), "measured");
	for (unsigned overwrite = 0; overwrite < 2; overwrite++) {
		char *text = NULL;
		size_t size;
		FILE *f = open_memstream(&text, &size);

		job.overwrite = overwrite;
		bench_report_summary(f, &job, &res);
		fclose(f);
		assert_non_null(strstr(text, " 50 % "));
		assert_int_equal(!strstr(text, "(these writes fill fresh files"), overwrite);
		free(text);
	}
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
	json_t *all;

	(void)state;
	fill(&s, 3, 0);
	snprintf(s.name, sizeof(s.name), "a, \"b\"");
	result_init(&r, "bench");
	r.series = &s;
	r.nr_series = 1;
	all = result_json(&r);
	assert_int_equal(result_csv(f, all), 0);
	json_decref(all);
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
		cmocka_unit_test(peaks_of_fast_operations_are_told_in_microseconds),
		cmocka_unit_test(a_share_of_the_limit_says_what_it_compares),
		cmocka_unit_test(the_summary_of_bench_says_what_its_share_compares),
		cmocka_unit_test(a_partial_series_makes_a_partial_result),
		cmocka_unit_test(commas_and_quotes_stay_within_their_column),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
