/* SPDX-License-Identifier: Apache-2.0 */
/* The judgement; see compare.h for the idea and compare_out.c for how it is told. */
#include "load/report/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/stat/stat.h"

#define ALPHA      0.05
#define SEED       20240607 /* any; the same every time, so that a comparison can be repeated */
#define BOOT_WORK  4000000  /* samples drawn per row: rounds times their number ... */
#define BOOT_MOST  2000     /* ... but no more rounds than this */
#define BOOT_LEAST 200

/* ------------------------------------------------------------------ samples */

struct samples {
	double *v; /* used ones first; owned */
	size_t n, used;
};

/*
 * How far apart two samples must be to be independent: the integrated
 * autocorrelation time, summed up to the first lag that does not correlate.
 */
static size_t stride(const double *v, size_t n)
{
	double mean = 0, var = 0, tau = 1;

	for (size_t i = 0; i < n; i++)
		mean += v[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		var += (v[i] - mean) * (v[i] - mean);
	/* Below twice its own standard error a correlation is not told from none. */
	for (size_t lag = 1; lag < n / 4 && var > 0; lag++) {
		double c = 0;

		for (size_t i = lag; i < n; i++)
			c += (v[i] - mean) * (v[i - lag] - mean);
		if (c / var < 2 / sqrt((double)n))
			break;
		tau += 2 * c / var;
	}
	return (size_t)(tau + 0.5);
}

static int by_value(const void *x, const void *y)
{
	double a = **(const double *const *)x, b = **(const double *const *)y;

	return (a > b) - (a < b);
}

/* Ranks in the place of values: a few very slow operations would hide everything else. */
static int ranks(double *out, const double *v, size_t n)
{
	CLEANUP_FREE const double **order = calloc(n, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = &v[i];
	qsort(order, n, sizeof(*order), by_value);
	for (size_t i = 0; i < n; i++)
		out[order[i] - v] = (double)i;
	return 0;
}

static int samples_load(struct samples *s, const json_t *array)
{
	size_t n = json_array_size(array), step;
	CLEANUP_FREE double *rank = calloc(n + 1, sizeof(*rank));

	*s = (struct samples){.v = calloc(n + 1, sizeof(*s->v)), .n = n};
	if (!s->v || !rank)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		s->v[i] = json_number_value(json_array_get(array, i));
	if (n < 20) {
		s->used = n;
		return 0;
	}
	if (ranks(rank, s->v, n) < 0)
		return -ENOMEM;
	step = stride(rank, n);
	for (size_t i = 0; i < n; i += step)
		s->v[s->used++] = s->v[i];
	return 0;
}

/* --------------------------------------------------------------------- rows */

static double number(const json_t *j)
{
	return json_is_number(j) ? json_number_value(j) : NAN;
}

static void side_load(struct compare_side *side, const json_t *series)
{
	const json_t *latency = json_object_get(series, "latency");

	*side = (struct compare_side){
		.median = number(json_object_get(latency, "median")),
		.p99 = number(json_object_get(json_object_get(latency, "percentiles"), "p99")),
		.bytes_per_sec = number(json_object_get(series, "bytes_per_sec")),
		.cpu = number(json_object_get(json_object_get(series, "cpu"), "sec_per_gib")),
	};
}

/* Can so few of them ever be told apart?  The smallest p two sets can have is 2 / C(na + nb, na).
 */
static bool too_few(size_t na, size_t nb)
{
	double ways = 1;

	for (size_t i = 1; i <= na && ways < 1000; i++)
		ways *= (double)(nb + i) / (double)i;
	return 2 / ways > ALPHA;
}

static int judge(struct compare_row *row, const struct samples *a, const struct samples *b)
{
	unsigned rounds = (unsigned)(BOOT_WORK / (a->used + b->used + 1));
	struct stat_ratio ratio;
	struct stat_rank rank;
	int r;

	rounds = rounds > BOOT_MOST ? BOOT_MOST : rounds < BOOT_LEAST ? BOOT_LEAST : rounds;
	r = stat_ratio(&ratio, a->v, a->used, b->v, b->used, rounds, SEED);
	if (r == 0)
		r = stat_rank_test(&rank, a->v, a->used, b->v, b->used);
	if (r < 0)
		return r;
	/* The medians of all operations are what people see; the interval moves with them. */
	row->ratio = row->a.median > 0 ? row->b.median / row->a.median : ratio.ratio;
	row->low = ratio.low * row->ratio / ratio.ratio;
	row->high = ratio.high * row->ratio / ratio.ratio;
	row->p = rank.p;
	return 0;
}

static int row_load(struct compare_row *row, const json_t *a, const json_t *b)
{
	struct samples x = {0}, y = {0};
	int r;

	row->name = json_string_value(json_object_get(a, "name"));
	row->kind = json_string_value(json_object_get(a, "kind"));
	row->ratio = row->low = row->high = row->p = NAN;
	row->verdict = COMPARE_UNKNOWN;
	side_load(&row->a, a);
	side_load(&row->b, b);
	r = samples_load(&x, json_object_get(a, "samples"));
	if (r == 0)
		r = samples_load(&y, json_object_get(b, "samples"));
	row->a.n = x.n;
	row->b.n = y.n;
	row->a.used = x.used;
	row->b.used = y.used;
	if (r == 0 && (!x.n || !y.n))
		row->why = "no operations";
	else if (r == 0 && !json_equal(json_object_get(a, "size"), json_object_get(b, "size")))
		row->why = "operations of different size";
	else if (r == 0) {
		r = judge(row, &x, &y);
		row->why = r == -EINVAL              ? "latencies of 0"
			   : too_few(x.used, y.used) ? "too few operations to tell"
						     : NULL;
		r = r == -EINVAL ? 0 : r;
	}
	free(x.v);
	free(y.v);
	return r;
}

static int by_p(const void *x, const void *y)
{
	double a = (*(struct compare_row *const *)x)->p, b = (*(struct compare_row *const *)y)->p;

	return (a > b) - (a < b);
}

/* Holm: with many series one of them differs by chance, so the smallest p has to be smaller. */
static int correct(struct compare *c)
{
	CLEANUP_FREE struct compare_row **order = calloc(c->nr + 1, sizeof(*order));
	double least = 0;
	size_t nr = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < c->nr; i++)
		if (!c->rows[i].why)
			order[nr++] = &c->rows[i];
	qsort(order, nr, sizeof(*order), by_p);
	for (size_t i = 0; i < nr; i++) {
		least = fmax(least, fmin(1, order[i]->p * (double)(nr - i)));
		order[i]->p = least;
	}
	return 0;
}

static void decide(struct compare *c)
{
	for (size_t i = 0; i < c->nr; i++) {
		struct compare_row *row = &c->rows[i];

		if (row->why)
			continue;
		row->verdict = row->p >= ALPHA ? COMPARE_SAME
			       : row->low > 1  ? COMPARE_SLOWER
			       : row->high < 1 ? COMPARE_FASTER
					       : COMPARE_SAME;
		c->slower += row->verdict == COMPARE_SLOWER;
		c->faster += row->verdict == COMPARE_FASTER;
		c->same += row->verdict == COMPARE_SAME;
		row->fails = c->in.gate >= 0 && row->verdict == COMPARE_SLOWER &&
			     row->ratio > 1 + c->in.gate;
		c->failed |= row->fails;
	}
}

/* All series together: many that are a little slower are a fact even where each alone is not. */
static void judge_overall(struct compare *c)
{
	double sum = 0, squares = 0, mean, half;
	uint64_t n = 0;

	c->overall = c->overall_low = c->overall_high = NAN;
	for (size_t i = 0; i < c->nr; i++) {
		double l = log(c->rows[i].ratio);

		if (!isfinite(l))
			continue;
		n++;
		sum += l;
		squares += l * l;
	}
	if (!n)
		return;
	mean = sum / (double)n;
	c->overall = exp(mean);
	if (n < 3)
		return;
	half = stat_t95(n) * sqrt(fmax(0, squares / (double)n - mean * mean) / (double)(n - 1));
	c->overall_low = exp(mean - half);
	c->overall_high = exp(mean + half);
	c->failed |= c->in.gate >= 0 && c->overall_low > 1 && c->overall > 1 + c->in.gate;
}

/* -------------------------------------------------------------------- notes */

static void add_note(struct compare *c, const char *what, const json_t *a, const json_t *b)
{
	char *x = json_dumps(a ? a : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);
	char *y = json_dumps(b ? b : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);

	if (x && y)
		json_array_append_new(c->notes,
				      json_sprintf("A and B differ in %s: %s and %s.", what, x, y));
	free(x);
	free(y);
}

/* Numbers that are equal as numbers: 2 and 2.0. */
static bool differ(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return json_number_value(a) < json_number_value(b) ||
		       json_number_value(a) > json_number_value(b);
	return (a || b) && !(a && b && json_equal(a, b));
}

static void note_object(struct compare *c, const char *member, const char *const *only)
{
	json_t *a = json_object_get(c->in.a, member), *b = json_object_get(c->in.b, member), *v;
	const char *key;
	char what[96];

	json_object_foreach(a, key, v)
	{
		const json_t *other = json_object_get(b, key);
		bool wanted = !only;

		for (size_t i = 0; only && only[i]; i++)
			wanted |= !strcmp(only[i], key);
		snprintf(what, sizeof(what), "%s %s", member, key);
		if (wanted && differ(v, other))
			add_note(c, what, v, other);
	}
}

static const json_t *device(const json_t *result)
{
	const json_t *target = json_array_get(json_object_get(result, "targets"), 0);

	return json_object_get(json_object_get(target, "block_device"), "model");
}

static void note_all(struct compare *c)
{
	static const char *const machine[] = {"kernel", "cpu", "cpus", "memory_bytes", "gpu", NULL};
	const json_t *a = json_object_get(c->in.a, "command"),
		     *b = json_object_get(c->in.b, "command");

	if (differ(a, b))
		add_note(c, "command", a, b);
	note_object(c, "machine", machine);
	note_object(c, "settings", NULL);
	if (differ(device(c->in.a), device(c->in.b)))
		add_note(c, "device", device(c->in.a), device(c->in.b));
	if (json_is_true(json_object_get(c->in.a, "partial")))
		json_array_append_new(c->notes, json_string("A is a partial result."));
	if (json_is_true(json_object_get(c->in.b, "partial")))
		json_array_append_new(c->notes, json_string("B is a partial result."));
}

/* ---------------------------------------------------------------------- run */

static json_t *find(const json_t *result, const char *name)
{
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(result, "series"), i, s)
	{
		if (!strcmp(json_string_value(json_object_get(s, "name")), name))
			return s;
	}
	return NULL;
}

static void missing(json_t *names, const json_t *from, const json_t *in)
{
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(from, "series"), i, s)
	{
		if (!find(in, json_string_value(json_object_get(s, "name"))))
			json_array_append(names, json_object_get(s, "name"));
	}
}

static int rows_load(struct compare *c)
{
	json_t *series = json_object_get(c->in.a, "series"), *s;
	size_t i;
	int r = 0;

	c->rows = calloc(json_array_size(series) + 1, sizeof(*c->rows));
	if (!c->rows)
		return -ENOMEM;
	json_array_foreach(series, i, s)
	{
		const json_t *other = find(c->in.b, json_string_value(json_object_get(s, "name")));

		if (other && r == 0)
			r = row_load(&c->rows[c->nr++], s, other);
	}
	return r;
}

int compare_run(struct compare *c, const struct compare_input *in, struct sluice_err *err)
{
	int r;

	*c = (struct compare){
		.in = *in, .only_a = json_array(), .only_b = json_array(), .notes = json_array()};
	missing(c->only_a, in->a, in->b);
	missing(c->only_b, in->b, in->a);
	r = rows_load(c);
	if (r == 0)
		r = correct(c);
	if (r == 0 && !c->nr)
		r = sluice_fail(err, -ENOENT, "'%s' and '%s' have no series in common", in->a_name,
				in->b_name);
	else if (r < 0)
		sluice_fail(err, r, "out of memory");
	if (r < 0) {
		compare_fini(c);
		return r;
	}
	decide(c);
	judge_overall(c);
	note_all(c);
	return 0;
}

void compare_fini(struct compare *c)
{
	json_decref(c->only_a);
	json_decref(c->only_b);
	json_decref(c->notes);
	free(c->rows);
	*c = (struct compare){.nr = 0};
}
