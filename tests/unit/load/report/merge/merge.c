/* SPDX-License-Identifier: Apache-2.0 */
/* Results of several ranks as one, against the same operations counted by one process. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#include "base/random.h"
#include "base/util.h"
#include "load/report/merge/merge.h"
#include "load/report/result/result.h"
#include "load/report/result/result_reader.h"
#include "load/stat/stat.h"

#define RANKS 3
#define OPS   20000 /* of each: percentiles come from histograms */
#define MS    1000000u

static struct run_series one[RANKS];
static double *pooled;
static size_t nr_pooled;

/* A rank that is @slow times as slow as others, and begins so late. */
static void fill(struct run_series *s, unsigned ops, unsigned seed, double slow, uint64_t start_ns)
{
	struct penstock_random r;
	uint64_t now = 0;

	*s = (struct run_series){.read = true, .size = 4096};
	assert_int_equal(series_init(s), 0);
	snprintf(s->name, sizeof(s->name), "read 4K");
	snprintf(s->stats.engine, sizeof(s->stats.engine), "io_uring");
	snprintf(s->cache, sizeof(s->cache), "cold (O_DIRECT)");
	penstock_random_seed(&r, seed);
	pooled = reallocarray(pooled, nr_pooled + ops, sizeof(*pooled));
	assert_non_null(pooled);
	for (unsigned i = 0; i < ops; i++) {
		uint64_t ns =
			(uint64_t)(slow * (double)(50000 + penstock_random_below(&r, 100000)));

		now += ns;
		assert_int_equal(series_add(s, s->size, ns, now), 0);
		pooled[nr_pooled++] = (double)ns / 1e9;
	}
	s->sec = (double)now / 1e9;
	s->run_bytes = s->bytes;
	series_turn(s, start_ns, now);
	series_finish(s);
}

static json_t *json_of(const struct run_series *s, const char *command, json_t *settings)
{
	const struct result_target target = {.folder = "/data"};
	struct result r;
	json_t *j;

	result_init(&r, command);
	r.wall_ns = 1700000000ll * 1000000000;
	r.targets = &target;
	r.nr_targets = 1;
	r.settings = settings;
	r.series = s;
	r.nr_series = 1;
	result_finish(&r);
	j = result_json(&r);
	result_fini(&r);
	assert_non_null(j);
	return j;
}

static const json_t *series_of(const json_t *j)
{
	return json_array_get(json_object_get(j, "series"), 0);
}

static double at(const json_t *j, const char *path)
{
	char word[32];

	while (*path) {
		size_t len = strcspn(path, "/");

		snprintf(word, sizeof(word), "%.*s", (int)len, path);
		j = json_object_get(j, word);
		path += len + (path[len] == '/');
	}
	return json_number_value(j);
}

static json_t *merge_them(const char *command, unsigned nr)
{
	static const char *const names[] = {"a.json", "b.json", "c.json"};
	struct merge_input in[RANKS] = {{0}};
	struct penstock_err err = {0, ""};
	json_t *j[RANKS], *out = NULL;

	for (unsigned i = 0; i < nr; i++) {
		j[i] = json_of(&one[i], command, json_object());
		in[i] = (struct merge_input){.result = j[i], .name = names[i]};
	}
	if (merge_results(&out, in, nr, "merge", &err) < 0)
		fail_msg("%s", err.msg);
	for (unsigned i = 0; i < nr; i++)
		json_decref(j[i]);
	if (report_check(out, "merged", &err) < 0)
		fail_msg("%s", err.msg);
	return out;
}

static void forget(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		series_fini(&one[i]);
	free(pooled);
	pooled = NULL;
	nr_pooled = 0;
}

/* One rank is three times as slow: an average of percentiles is far from the truth. */
static void percentiles_are_those_of_all_operations(void **state)
{
	static const char *const names[] = {"p1", "p5", "p50", "p90", "p95", "p99", "p99.9"};
	const json_t *s;
	json_t *m;
	double sum = 0;

	(void)state;
	for (unsigned i = 0; i < RANKS; i++)
		fill(&one[i], OPS, i + 1, i == 2 ? 3 : 1, 1000 * MS);
	m = merge_them("bench", RANKS);
	s = series_of(m);
	stat_sort(pooled, nr_pooled);
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		char path[64];
		double is, want = stat_percentile(pooled, nr_pooled, strtod(names[i] + 1, NULL));

		snprintf(path, sizeof(path), "latency/percentiles/%s", names[i]);
		is = at(s, path);
		if (fabs(is / want - 1) > 1.0 / 128)
			fail_msg("%s is %g, of all operations %g", names[i], is, want);
	}
	for (size_t i = 0; i < nr_pooled; i++)
		sum += pooled[i];
	assert_int_equal(at(s, "ops"), RANKS * OPS);
	assert_int_equal(at(s, "bytes"), RANKS * OPS * 4096);
	assert_true(fabs(at(s, "latency/mean") / (sum / (double)nr_pooled) - 1) < 1e-9);
	assert_true(fabs(at(s, "latency/min") - pooled[0]) < 1e-9);
	assert_true(fabs(at(s, "latency/max") - pooled[nr_pooled - 1]) < 1e-9);
	json_decref(m);
	forget(RANKS);
}

static void few_operations_stay_exact(void **state)
{
	const json_t *s;
	json_t *m;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		fill(&one[i], 150, i + 1, 1, 1000 * MS);
	m = merge_them("bench", 2);
	s = series_of(m);
	stat_sort(pooled, nr_pooled);
	assert_true(json_is_true(json_object_get(json_object_get(s, "latency"), "exact")));
	assert_true(fabs(at(s, "latency/percentiles/p99") -
			 stat_percentile(pooled, nr_pooled, 99)) < 1e-9);
	json_decref(m);
	forget(2);
}

static void time_is_from_the_first_beginning_to_the_last_end(void **state)
{
	const json_t *s, *all, *row;
	double a, b;
	json_t *m;

	(void)state;
	fill(&one[0], 1000, 1, 1, 1000 * MS);
	fill(&one[1], 1000, 1, 2, 1500 * MS);
	a = one[0].sec;
	b = one[1].sec;
	m = merge_them("bench", 2);
	s = series_of(m);
	all = json_array_get(json_object_get(json_object_get(m, "ranks"), "series"), 0);
	assert_true(fabs(at(s, "sec") - (0.5 + b)) < 1e-5);
	assert_true(fabs(at(s, "bytes_per_sec") - 2 * 4096e3 / (0.5 + b)) < 1e3);
	assert_int_equal(at(all, "slowest"), 1);
	assert_true(fabs(at(all, "straggler_cost") - (1 - 2 / (0.5 + b) / (1 / a + 1 / b))) < 1e-4);
	assert_true(json_is_true(json_object_get(all, "skewed")));
	assert_true(fabs(at(all, "skew_sec") - 0.5) < 1e-5);
	row = json_array_get(json_object_get(all, "rows"), 0);
	assert_true(fabs(at(row, "idle_tail") - (0.5 + b - a)) < 1e-5);
	assert_true(fabs(at(row, "share") - 0.5) < 1e-9);
	assert_true(fabs(at(row, "last_done") - a) < 1e-5);
	json_decref(m);
	forget(2);
}

/* A rank at half the speed of others is the first in the table. */
static void the_slowest_is_named_first(void **state)
{
	const char *a, *b, *c;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	json_t *m;

	(void)state;
	for (unsigned i = 0; i < RANKS; i++)
		fill(&one[i], 200, i + 1, i == 1 ? 2 : 1, 1000 * MS);
	m = merge_them("bench", RANKS);
	assert_non_null(f);
	merge_text(f, m);
	fclose(f);
	a = strstr(text, "a.json");
	b = strstr(text, "b.json");
	c = strstr(text, "c.json");
	assert_true(a && b && c && b < a && b < c);
	free(text);
	json_decref(m);
	forget(RANKS);
}

/* The n-th checkpoint of all is there when the slowest has it. */
static void a_checkpoint_is_one_of_all_ranks(void **state)
{
	const json_t *s;
	double sec = 0;
	json_t *m;

	(void)state;
	fill(&one[0], 8, 1, 1000, 1000 * MS);
	fill(&one[1], 8, 2, 1000, 1000 * MS);
	for (unsigned i = 0; i < 8; i++)
		sec += fmax(pooled[i], pooled[8 + i]);
	m = merge_them("ckpt bench", 2);
	s = series_of(m);
	assert_int_equal(at(s, "ops"), 8);
	assert_int_equal(at(s, "size"), 8192);
	assert_true(fabs(at(s, "sec") - sec) < 1e-6);
	json_decref(m);
	forget(2);
}

/* ------------------------------------------------------------------- refusals */

/* @b with one thing changed is not added to @a, and the line says why. */
static void refused(json_t *a, json_t *b, const char *line)
{
	const struct merge_input in[] = {{.result = a, .name = "a.json"},
					 {.result = b, .name = "b.json"}};
	struct penstock_err err = {0, ""};
	json_t *out = NULL;

	assert_int_equal(merge_results(&out, in, 2, "merge", &err), -EINVAL);
	assert_string_equal(err.msg, line);
	json_decref(b);
}

static void what_cannot_be_added_is_named(void **state)
{
	json_t *a, *b, *s;

	(void)state;
	fill(&one[0], 100, 1, 1, 1000 * MS);
	a = json_of(&one[0], "bench", json_pack("{s:i, s:s}", "size", 4096, "target", "/a"));
	refused(a, json_of(&one[0], "io", json_pack("{s:i}", "size", 4096)),
		"'b.json': command is \"io\", not \"bench\" as in 'a.json': they cannot be added");
	refused(a, json_of(&one[0], "bench", json_pack("{s:i}", "size", 8192)),
		"'b.json': settings.size is 8192, not 4096 as in 'a.json': they cannot be added");
	b = json_deep_copy(a);
	s = json_array_get(json_object_get(b, "series"), 0);
	json_object_set_new(s, "name", json_string("write 4K"));
	refused(a, b, "'b.json': series has no 'read 4K', which others have: they cannot be added");
	b = json_deep_copy(a);
	s = json_array_get(json_object_get(b, "series"), 0);
	json_object_del(s, "interval");
	refused(a, b,
		"'b.json': interval of series 'read 4K' is missing: it was written by an older "
		"version");
	b = json_deep_copy(a);
	s = json_array_get(json_object_get(b, "series"), 0);
	json_object_set_new(s, "ops", json_integer(99));
	refused(a, b, "'b.json': histogram of 'read 4K' holds 100 operations, but ops is 99");
	json_decref(a);
	forget(1);
}

/* What the others measured is kept, and marked. */
static void a_lost_rank_is_named(void **state)
{
	struct merge_input in[2] = {{.name = "rank 0"}, {.name = "rank 1", .lost = "killed"}};
	struct penstock_err err = {0, ""};
	json_t *out = NULL, *a;

	(void)state;
	fill(&one[0], 100, 1, 1, 1000 * MS);
	a = json_of(&one[0], "bench", json_object());
	in[0].result = a;
	assert_int_equal(merge_results(&out, in, 2, "mpi", &err), 0);
	assert_int_equal(report_check(out, "merged", &err), 0);
	assert_true(json_is_true(json_object_get(out, "partial")));
	assert_string_equal(json_string_value(json_object_get(out, "partial_why")),
			    "rank 1: killed");
	assert_int_equal(at(series_of(out), "ops"), 100);
	json_decref(out);
	json_decref(a);
	forget(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_those_of_all_operations),
		cmocka_unit_test(few_operations_stay_exact),
		cmocka_unit_test(time_is_from_the_first_beginning_to_the_last_end),
		cmocka_unit_test(the_slowest_is_named_first),
		cmocka_unit_test(a_checkpoint_is_one_of_all_ranks),
		cmocka_unit_test(what_cannot_be_added_is_named),
		cmocka_unit_test(a_lost_rank_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
