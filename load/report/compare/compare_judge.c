/* SPDX-License-Identifier: Apache-2.0 */
/* One series in two results: the three figures, with intervals and chances; see compare.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/report/compare/compare.h"
#include "load/stat/stat.h"

#define ALPHA     0.05
#define SEED      20240607 /* any; the same every time, so that a comparison can be repeated */
#define BOOT_WORK 4000000  /* samples drawn per figure: rounds times their number ... */
#define BOOT_MAX  2000     /* ... but no more rounds than this */
#define BOOT_MIN  200
#define P99_MIN   100 /* independent operations: of fewer the 99th percentile is the slowest */
#define SECONDS   10  /* so many make a time series */

/* ------------------------------------------------------------------ samples */

struct samples {
	double *v;      /* owned */
	double *single; /* those that are independent of each other; owned */
	size_t n, used, step;
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

static int judge_by_value(const void *x, const void *y)
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
	qsort(order, n, sizeof(*order), judge_by_value);
	for (size_t i = 0; i < n; i++)
		out[order[i] - v] = (double)i;
	return 0;
}

static void samples_fini(struct samples *s)
{
	free(s->v);
	free(s->single);
}

/* Take @v, of @n values, and look how far apart they are independent. */
static int samples_init(struct samples *s, double *v, size_t n)
{
	*s = (struct samples){.v = v, .single = calloc(n + 1, sizeof(*v)), .n = n, .step = 1};
	if (!v || !s->single)
		return -ENOMEM;
	if (n >= 20) {
		if (ranks(s->single, v, n) < 0)
			return -ENOMEM;
		s->step = stride(s->single, n);
	}
	for (size_t i = 0; i < n; i += s->step)
		s->single[s->used++] = v[i];
	return 0;
}

static int samples_load(struct samples *s, const json_t *series)
{
	const json_t *array = json_object_get(series, "samples");
	size_t n = json_array_size(array);
	double *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = json_number_value(json_array_get(array, i));
	return samples_init(s, v, n);
}

/* Bytes per second of each whole second. */
static int seconds_load(struct samples *s, const json_t *series)
{
	const json_t *per = json_object_get(series, "per_second");
	const json_t *span = json_object_get(per, "span"), *bytes = json_object_get(per, "bytes");
	size_t n = json_array_size(span), nr = 0;
	double *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		if (json_number_value(json_array_get(span, i)) >= 1)
			v[nr++] = json_number_value(json_array_get(bytes, i));
	return samples_init(s, v, nr);
}

/* ------------------------------------------------------------------ figures */

static double judge_number(const json_t *j)
{
	return json_is_number(j) ? json_number_value(j) : NAN;
}

static void figures_load(double ret[COMPARE_FIGURES], const json_t *series)
{
	const json_t *latency = json_object_get(series, "latency");

	ret[COMPARE_MEDIAN] = judge_number(json_object_get(latency, "median"));
	ret[COMPARE_BANDWIDTH] = judge_number(json_object_get(series, "bytes_per_sec"));
	ret[COMPARE_P99] =
		judge_number(json_object_get(json_object_get(latency, "percentiles"), "p99"));
}

/* The figures of all operations are what people see; intervals go around their ratio. */
static double centre(const struct compare_change *c)
{
	return c->a > 0 && c->b > 0 ? c->b / c->a : NAN;
}

static void change_set(struct compare_change *c, const struct stat_ratio *q, const char *method)
{
	c->ratio = q->ratio;
	c->low = q->low;
	c->high = q->high;
	c->p = q->p;
	c->method = method;
}

/* Bandwidth is the inverse of latency. */
static struct stat_ratio inverse(const struct stat_ratio *q)
{
	return (struct stat_ratio){1 / q->ratio, 1 / q->high, 1 / q->low, q->p};
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

static int bootstrap(struct stat_ratio *q, enum stat_figure of, const struct samples *a,
		     const struct samples *b, double around)
{
	/* Blocks twice as long as the memory hold most of it. */
	const struct stat_sample x = {a->v, a->n, a->step > 1 ? 2 * a->step : 1};
	const struct stat_sample y = {b->v, b->n, b->step > 1 ? 2 * b->step : 1};
	unsigned rounds = (unsigned)(BOOT_WORK / (a->n + b->n + 1));

	rounds = rounds > BOOT_MAX ? BOOT_MAX : rounds < BOOT_MIN ? BOOT_MIN : rounds;
	return stat_ratio(q, of, &x, &y, around, rounds, SEED);
}

static int judge_median(struct compare_change *c, const struct samples *a, const struct samples *b)
{
	struct samples x = {.v = a->single, .n = a->used, .step = 1};
	struct samples y = {.v = b->single, .n = b->used, .step = 1};
	struct stat_ratio q;
	struct stat_rank rank;
	int r = bootstrap(&q, STAT_MEDIAN, &x, &y, centre(c));

	if (r == 0)
		r = stat_rank_test(&rank, x.v, x.n, y.v, y.n);
	if (r < 0)
		return r;
	q.p = rank.p;
	change_set(c, &q, "rank");
	return 0;
}

static int judge_p99(struct compare_change *c, const struct samples *a, const struct samples *b)
{
	struct stat_ratio q;
	int r;

	if (a->used < P99_MIN || b->used < P99_MIN) {
		c->why = "fewer than 100 independent operations";
		return 0;
	}
	r = bootstrap(&q, STAT_99TH, a, b, centre(c));
	/* So few operations make it that their bootstrap is too sure of itself. */
	if (r == 0)
		r = stat_tail_test(&q.p, a->single, a->used, b->single, b->used);
	if (r == 0)
		change_set(c, &q, "tail");
	return r;
}

/*
 * Means of neighbours, so many of them that one mean does not remember the last; takes
 * the place of the values.
 */
static struct stat_sample batches(const struct samples *s)
{
	size_t length = s->step > 1 ? 3 * s->step : 1, nr = s->n / length;

	for (size_t i = 0; i < nr; i++) {
		double sum = 0;

		for (size_t k = 0; k < length; k++)
			sum += s->v[i * length + k];
		s->v[i] = sum / (double)length;
	}
	return (struct stat_sample){s->v, nr, 1};
}

/* Of what resembles its neighbours too little is left for a bootstrap. */
static int ratio_of_means(struct stat_ratio *q, struct samples *a, struct samples *b, double around)
{
	struct stat_sample x, y;

	if (a->step == 1 && b->step == 1)
		return bootstrap(q, STAT_MEAN, a, b, around);
	x = batches(a);
	y = batches(b);
	return stat_ratio_few(q, &x, &y, around);
}

/*
 * By the seconds of both runs where they are long enough, else by how long operations
 * took.  Comes last: the values are lost.
 */
static int judge_bandwidth(struct compare_change *c, const json_t *series[2], struct samples *a,
			   struct samples *b)
{
	struct samples x = {0}, y = {0};
	struct stat_ratio q = {NAN, NAN, NAN, NAN};
	bool seconds;
	int r;

	if (c->a <= 0 && c->b <= 0) {
		c->why = "nothing was moved";
		return 0;
	}
	r = seconds_load(&x, series[0]);
	if (r == 0)
		r = seconds_load(&y, series[1]);
	seconds = x.n >= SECONDS && y.n >= SECONDS;
	if (r == 0 && seconds) {
		r = ratio_of_means(&q, &x, &y, centre(c));
	} else if (r == 0) {
		r = ratio_of_means(&q, a, b, 1 / centre(c));
		q = inverse(&q);
	}
	if (r == 0)
		change_set(c, &q, seconds ? "seconds" : "operations");
	else if (r == -EINVAL)
		c->why = "too few independent operations";
	samples_fini(&x);
	samples_fini(&y);
	return r == -EINVAL ? 0 : r;
}

/* A handful of operations: their spread is all there is. */
static int judge_few(struct compare_row *row, const struct samples *a, const struct samples *b)
{
	const struct stat_sample x = {a->v, a->n, 1}, y = {b->v, b->n, 1};
	struct stat_ratio q;

	row->by[COMPARE_P99].why = "fewer than 100 independent operations";
	if (stat_ratio_few(&q, &x, &y, centre(&row->by[COMPARE_MEDIAN])) < 0)
		return -EINVAL;
	change_set(&row->by[COMPARE_MEDIAN], &q, "t");
	stat_ratio_few(&q, &x, &y, 1 / centre(&row->by[COMPARE_BANDWIDTH]));
	q = inverse(&q);
	change_set(&row->by[COMPARE_BANDWIDTH], &q, "t");
	return 0;
}

/* ---------------------------------------------------------------------- row */

static const char *why_not(const struct samples *x, const struct samples *y, const json_t *a,
			   const json_t *b)
{
	if (!x->n || !y->n)
		return "no operations";
	if (!json_equal(json_object_get(a, "size"), json_object_get(b, "size")))
		return "operations of different size";
	if (x->n == 1 || y->n == 1)
		return "one operation only";
	return NULL;
}

static int judge_row(struct compare_row *row, struct samples *x, struct samples *y,
		     const json_t *series[2])
{
	int r;

	row->why = why_not(x, y, series[0], series[1]);
	if (row->why)
		return 0;
	if (too_few(x->used, y->used)) {
		r = judge_few(row, x, y);
	} else {
		r = judge_median(&row->by[COMPARE_MEDIAN], x, y);
		if (r == 0)
			r = judge_p99(&row->by[COMPARE_P99], x, y);
		if (r == 0)
			r = judge_bandwidth(&row->by[COMPARE_BANDWIDTH], series, x, y);
	}
	if (r == -EINVAL)
		row->why = "latencies of 0";
	return r == -EINVAL ? 0 : r;
}

static void row_init(struct compare_row *row, const json_t *a, const json_t *b)
{
	double x[COMPARE_FIGURES], y[COMPARE_FIGURES];

	row->name = json_string_value(json_object_get(a, "name"));
	row->kind = json_string_value(json_object_get(a, "kind"));
	row->a.cpu = judge_number(json_object_get(json_object_get(a, "cpu"), "sec_per_gib"));
	row->b.cpu = judge_number(json_object_get(json_object_get(b, "cpu"), "sec_per_gib"));
	figures_load(x, a);
	figures_load(y, b);
	for (unsigned i = 0; i < COMPARE_FIGURES; i++)
		row->by[i] = (struct compare_change){.a = x[i],
						     .b = y[i],
						     .ratio = NAN,
						     .low = NAN,
						     .high = NAN,
						     .p = NAN,
						     .verdict = COMPARE_UNKNOWN};
}

int compare_judge(struct compare_row *row, const json_t *a, const json_t *b)
{
	const json_t *series[2] = {a, b};
	struct samples x = {0}, y = {0};
	int r;

	row_init(row, a, b);
	r = samples_load(&x, a);
	if (r == 0)
		r = samples_load(&y, b);
	row->a.n = x.n;
	row->b.n = y.n;
	row->a.used = x.used;
	row->b.used = y.used;
	if (r == 0)
		r = judge_row(row, &x, &y, series);
	for (unsigned i = 0; i < COMPARE_FIGURES && row->why; i++)
		row->by[i].why = row->why;
	samples_fini(&x);
	samples_fini(&y);
	return r;
}
