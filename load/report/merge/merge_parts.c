/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of single commands: objects of counts, figures of durations with their histograms,
 * tables of seconds, and lists whose elements have names.  Numbers are added unless the table below
 * says otherwise; what follows from others is made again at the end.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/merge/merge_internal.h"
#include "load/report/result/text.h"

enum rule {
	RULE_ADD,
	RULE_SAME, /* or they cannot be added */
	RULE_MAX,
	RULE_MIN,
	RULE_FIRST, /* that is not null */
	RULE_LIST,  /* one behind the other */
};

static const struct {
	const char *name;
	enum rule rule;
} rules[] = {
	{"mode", RULE_SAME},         {"compat", RULE_SAME},
	{"model", RULE_SAME},        {"process_bytes", RULE_SAME},
	{"saves", RULE_SAME},        {"loads", RULE_SAME},
	{"distinct", RULE_SAME},     {"dedup", RULE_SAME},
	{"compress", RULE_SAME},     {"format", RULE_SAME},
	{"elapsed_sec", RULE_MAX},   {"wall_sec", RULE_MAX},
	{"prefill_sec", RULE_MAX},   {"task_sec", RULE_MAX},
	{"e2e_sec", RULE_MAX},       {"span_sec", RULE_MAX},
	{"max", RULE_MAX},           {"last", RULE_MAX},
	{"slope", RULE_MAX},         {"overloaded", RULE_MAX},
	{"operations", RULE_MIN},    {"close_sec", RULE_MAX},
	{"sec", RULE_MAX},           {"share", RULE_MAX},
	{"largest_bytes", RULE_MAX}, {"longest_step_back_sec", RULE_MAX},
	{"first", RULE_FIRST},       {"first_bad", RULE_FIRST},
	{"why_not", RULE_FIRST},     {"gpu_path", RULE_FIRST},
	{"bottleneck", RULE_FIRST},  {"within", RULE_FIRST},
	{"workers", RULE_LIST},      {"clock_skew_ms", RULE_MAX},
	{"tensor_ranks", RULE_SAME},
};

/* What elements of a list are known by. */
static const char *const keys[] = {"name", "operation", "tier", "phase",
				   "size", "from",      "to",   "url"};

struct adding {
	const char *name; /* of the result that is added */
	const char *part;
	double shift;
	struct penstock_err *err;
};

static int parts_add_value(struct adding *a, json_t *to, const json_t *from, const char *key);

static enum rule rule_of(const char *key)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rules); i++)
		if (!strcmp(rules[i].name, key))
			return rules[i].rule;
	return RULE_ADD;
}

/* ------------------------------------------------------------------ durations */

static bool is_levels(const json_t *j)
{
	return json_object_get(j, "p50") && json_object_get(j, "p99.99");
}

static int add_levels(struct adding *a, json_t *to, const json_t *from, const char *key)
{
	CLEANUP_FREE struct penstock_hist *h = calloc(1, sizeof(*h));
	const json_t *both[2] = {to, from};
	double n = 0, sum = 0, most = 0;
	int r = h ? 0 : penstock_fail(a->err, -ENOMEM, "out of memory");

	for (unsigned i = 0; i < 2 && r == 0; i++) {
		double one = json_number_value(json_object_get(both[i], "n"));

		if (!json_object_get(both[i], "histogram"))
			return penstock_fail(
				a->err, -EINVAL,
				"'%s': %s has no histogram in %s: it was written by an "
				"older version",
				a->name, a->part, key);
		r = merge_hist_read(h, json_object_get(both[i], "histogram"), a->name, key, a->err);
		n += one;
		sum += one * json_number_value(json_object_get(both[i], "mean"));
		most = fmax(most, json_number_value(json_object_get(both[i], "max")));
	}
	if (r < 0)
		return r;
	h->max = (uint64_t)(most * 1e9 + 0.5);
	json_object_set_new(to, "n", json_integer((json_int_t)n));
	json_object_set_new(to, "exact", json_false());
	json_object_set_new(to, "mean", json_real(n > 0 ? sum / n : 0));
	json_object_set_new(to, "max", json_real(most));
	for (const char *const *p =
		     (const char *const[]){"p50", "p90", "p95", "p99", "p99.9", "p99.99", NULL};
	     *p; p++)
		if (json_object_get(to, *p))
			json_object_set_new(
				to, *p,
				json_real(penstock_hist_percentile(h, strtod(*p + 1, NULL)) / 1e9));
	json_object_set_new(to, "histogram", report_histogram(h));
	return 0;
}

/* -------------------------------------------------------------------- seconds */

static double table_value(const json_t *table, const char *key, size_t i)
{
	return json_number_value(json_array_get(json_object_get(table, key), i));
}

static double table_ops(const json_t *table, size_t i)
{
	return table_value(table, "read_ops", i) + table_value(table, "write_ops", i);
}

static json_t *second_of(const char *key, const json_t *a, size_t i, const json_t *b, size_t k,
			 bool whole)
{
	double x = table_value(a, key, i), y = table_value(b, key, k), nx = table_ops(a, i),
	       ny = table_ops(b, k);

	if (!strcmp(key, "t"))
		return json_real((double)i);
	if (!strcmp(key, "span") || !strcmp(key, "lag_max"))
		return json_real(fmax(x, y));
	if (!strcmp(key, "lag_mean"))
		return json_real(nx + ny > 0 ? (x * nx + y * ny) / (nx + ny) : 0);
	return whole ? json_integer((json_int_t)(x + y)) : json_real(x + y);
}

/* @b began so many seconds later. */
static void add_seconds(json_t *to, const json_t *b, size_t shift)
{
	json_t *a = json_deep_copy(to);
	size_t na = json_array_size(json_object_get(a, "t")),
	       nb = json_array_size(json_object_get(b, "t")), nr = max_u64(na, nb + shift);
	const char *key;
	json_t *v;

	json_object_foreach(a, key, v)
	{
		json_t *sum = json_array(), *first = json_array_get(v, 0);
		bool whole =
			json_is_integer(first ? first : json_array_get(json_object_get(b, key), 0));

		for (size_t i = 0; i < nr; i++)
			json_array_append_new(
				sum,
				second_of(key, a, i, b, i < shift ? SIZE_MAX : i - shift, whole));
		json_object_set_new(to, key, sum);
	}
	json_decref(a);
}

/* ---------------------------------------------------------------------- lists */

static bool same_element(const json_t *a, const json_t *b)
{
	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++) {
		const json_t *x = json_object_get(a, keys[i]), *y = json_object_get(b, keys[i]);

		if ((x || y) && !json_equal(x, y))
			return false;
	}
	return true;
}

/* Elements of the same name are added, others stand behind them. */
static int add_list(struct adding *a, json_t *to, const json_t *from, const char *key)
{
	size_t i, k, had = json_array_size(to);
	json_t *one;
	int r = 0;

	json_array_foreach(from, i, one)
	{
		for (k = 0; rule_of(key) != RULE_LIST && k < had; k++)
			if (same_element(json_array_get(to, k), one) &&
			    (strcmp(key, "needs") != 0 || i == k))
				break;
		if (rule_of(key) == RULE_LIST || k == had)
			json_array_append_new(to, json_deep_copy(one));
		else if (r == 0)
			r = parts_add_value(a, json_array_get(to, k), one, key);
	}
	return r;
}

/* -------------------------------------------------------------------- members */

/* Two leaves, neither of them null. */
static json_t *merge_values(enum rule rule, const json_t *x, const json_t *y)
{
	double a = json_number_value(x), b = json_number_value(y);

	if (json_is_boolean(x))
		return json_boolean(json_is_true(x) || json_is_true(y));
	if (!json_is_number(x) || rule == RULE_FIRST)
		return json_deep_copy(x);
	if (rule == RULE_MAX || rule == RULE_MIN)
		return json_deep_copy((a >= b) == (rule == RULE_MAX) ? x : y);
	if (json_is_integer(x) && json_is_integer(y))
		return json_integer(json_integer_value(x) + json_integer_value(y));
	return json_real(a + b);
}

static int add_member(struct adding *a, json_t *to, const char *key, const json_t *y)
{
	json_t *x = json_object_get(to, key);
	enum rule rule = rule_of(key);

	if (rule == RULE_SAME && !json_equal(x, y))
		return penstock_fail(a->err, -EINVAL,
				     "'%s': %s.%s is not that of the first: they cannot be added",
				     a->name, a->part, key);
	if (rule == RULE_SAME || !y || json_is_null(y))
		return 0;
	if (!x || json_is_null(x))
		return json_object_set_new(to, key, json_deep_copy(y));
	if (json_is_object(x) || json_is_array(x))
		return parts_add_value(a, x, y, key);
	return json_object_set_new(to, key, merge_values(rule, x, y));
}

/* Of each operation the slowest rank counts; what one of them has not done is of none. */
static int add_slowest(struct adding *a, json_t *to, const json_t *from)
{
	json_t *x = json_object_get(to, "operations_sec");
	const json_t *y = json_object_get(from, "operations_sec");
	size_t nr = min_u64(json_array_size(x), json_array_size(y));

	if (!x || !y)
		return penstock_fail(
			a->err, -EINVAL,
			"'%s': %s has no operations_sec in reference: it was written by "
			"an older version",
			a->name, a->part);
	while (json_array_size(x) > nr)
		json_array_remove(x, nr);
	for (size_t i = 0; i < nr; i++)
		if (json_number_value(json_array_get(y, i)) >
		    json_number_value(json_array_get(x, i)))
			json_array_set(x, i, json_array_get(y, i));
	return 0;
}

static int parts_add_value(struct adding *a, json_t *to, const json_t *from, const char *key)
{
	int r = 0;

	if (!strcmp(key, "reference"))
		return add_slowest(a, to, from);
	if (json_is_array(to))
		return add_list(a, to, from, key);
	if (is_levels(to) && is_levels(from))
		return add_levels(a, to, from, key);
	if (json_object_get(to, "span") && json_object_get(to, "t")) {
		add_seconds(to, from, (size_t)floor(fmax(0, a->shift) + 0.5));
		return 0;
	}
	/* one trace that all had; a list of criteria is judged, not added */
	if ((!strcmp(key, "trace") && json_equal(to, from)) || !strcmp(key, "storage_health"))
		return 0;
	for (void *it = json_object_iter((json_t *)(uintptr_t)from); it && r == 0;
	     it = json_object_iter_next((json_t *)(uintptr_t)from, it))
		r = add_member(a, to, json_object_iter_key(it), json_object_iter_value(it));
	return r;
}

/* --------------------------------------------------------------------- health */

/* A criterion holds where it holds for every rank; told is the worst of them. */
static void keep_worst(json_t *to, const json_t *from)
{
	json_t *list = json_object_get(to, "criteria"), *c;
	json_int_t passed = 0;
	size_t i, k;

	json_array_foreach(list, i, c)
	{
		const json_t *others = json_object_get(from, "criteria"), *o;

		json_array_foreach(others, k, o)
		{
			if (json_equal(json_object_get(o, "name"), json_object_get(c, "name")) &&
			    json_is_false(json_object_get(o, "passed")) &&
			    json_is_true(json_object_get(c, "passed")))
				json_object_update(c, (json_t *)(uintptr_t)o);
		}
		passed += json_is_true(json_object_get(c, "passed"));
	}
	json_object_set_new(to, "passed_count", json_integer(passed));
	json_object_set_new(
		to, "overall_status",
		json_string(passed == (json_int_t)json_array_size(list) ? "PASS" : "FAIL"));
}

/* ------------------------------------------------------------------ the whole */

int merge_part(json_t *to, const json_t *from, const char *part, double shift, const char *name,
	       struct penstock_err *err)
{
	struct adding a = {.name = name, .part = part, .shift = shift, .err = err};

	if (json_object_get(to, "storage_health"))
		keep_worst(json_object_get(to, "storage_health"),
			   json_object_get(from, "storage_health"));
	return parts_add_value(&a, to, from, part);
}

static void set_hit_rate(json_t *cache)
{
	double hits = json_number_value(json_object_get(cache, "hits")),
	       all = hits + json_number_value(json_object_get(cache, "misses"));

	if (cache)
		json_object_set_new(cache, "hit_rate",
				    all > 0 ? json_real(hits / all) : json_null());
}

/* Means over the operations, each of the slowest rank: never the slowest of ranks' means. */
static void set_reference(json_t *r, double bytes)
{
	const json_t *all = json_object_get(r, "operations_sec"), *one;
	double sec = 0, rate = 0, nr = (double)json_array_size(all);
	size_t i;

	json_array_foreach(all, i, one)
	{
		sec += json_number_value(one);
		rate += bytes / json_number_value(one);
	}
	if (nr > 0) {
		json_object_set_new(r, "duration_sec", json_real(sec / nr));
		json_object_set_new(r, "throughput", json_real(rate / nr));
	}
}

static void set_directions(json_t *method, const json_t *series, double process_bytes)
{
	for (unsigned i = 0; i < 2; i++) {
		json_t *way = json_object_get(method, i ? "load" : "save"),
		       *made = json_object_get(way, "generation");
		const json_t *s = report_named(series, report_text(way, "series"));

		if (s)
			json_object_set(way, "bytes_per_sec", json_object_get(s, "bytes_per_sec"));
		set_reference(json_object_get(way, "reference"), process_bytes);
		/* of each process, by the slowest */
		if (json_is_object(made))
			json_object_set_new(made, "bytes_per_sec", json_null());
	}
}

void merge_part_end(json_t *part, const json_t *series)
{
	json_t *lag = json_object_get(part, "lag"), *spread = json_object_get(lag, "spread");
	const json_t *s = json_array_get(series, 0);
	json_t *methods = json_object_get(part, "methods"), *one;
	size_t i;

	set_hit_rate(json_object_get(part, "cache"));
	if (json_is_object(spread))
		json_object_set(lag, "mean", json_object_get(spread, "mean"));
	json_array_foreach(methods, i, one)
	{
		set_directions(one, series, report_number(part, "process_bytes"));
	}
	for (unsigned k = 0; k < 2 && json_object_get(part, "task_sec"); k++) {
		double sec = json_number_value(json_object_get(part, k ? "e2e_sec" : "task_sec"));

		json_object_set_new(
			part, k ? "e2e_bytes_per_sec" : "task_bytes_per_sec",
			sec > 0 ? json_real(json_number_value(json_object_get(s, "bytes")) / sec)
				: json_null());
	}
}
