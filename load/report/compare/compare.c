/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison as a whole; compare_judge.c judges a series, compare_report.c tells. */
#include "load/report/compare/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/result/text.h"
#include "load/stat/stat.h"

#define ALPHA 0.05

const char *const compare_words[] = {"no difference seen", "slower", "faster", "mixed",
				     "not comparable"};
const char *const compare_figure_names[] = {"median", "bandwidth", "p99"};

/* ----------------------------------------------------------------- verdicts */

static int by_p(const void *x, const void *y)
{
	double a = (*(struct compare_change *const *)x)->p;
	double b = (*(struct compare_change *const *)y)->p;

	return (a > b) - (a < b);
}

/* Holm: with many series one of them differs by chance, so the smallest p has to be smaller. */
static int correct(struct compare *c, enum compare_figure figure)
{
	CLEANUP_FREE struct compare_change **order = calloc(c->nr + 1, sizeof(*order));
	double least = 0;
	size_t nr = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < c->nr; i++)
		if (!c->rows[i].by[figure].why)
			order[nr++] = &c->rows[i].by[figure];
	qsort(order, nr, sizeof(*order), by_p);
	for (size_t i = 0; i < nr; i++) {
		least = fmax(least, fmin(1, order[i]->p * (double)(nr - i)));
		order[i]->p = least;
	}
	return 0;
}

static enum compare_verdict verdict(const struct compare_change *x, bool more_is_better)
{
	if (x->why)
		return COMPARE_UNKNOWN;
	if (!(x->p < ALPHA) || !(x->low > 1 || x->high < 1))
		return COMPARE_SAME;
	return (x->low > 1) == more_is_better ? COMPARE_FASTER : COMPARE_SLOWER;
}

static void decide_row(struct compare_row *row)
{
	bool seen[COMPARE_UNKNOWN + 1] = {false};

	for (unsigned i = 0; i < COMPARE_FIGURES; i++) {
		row->by[i].verdict = verdict(&row->by[i], i == COMPARE_BANDWIDTH);
		seen[row->by[i].verdict] = true;
	}
	row->verdict = seen[COMPARE_SLOWER] && seen[COMPARE_FASTER] ? COMPARE_MIXED
		       : seen[COMPARE_SLOWER]                       ? COMPARE_SLOWER
		       : seen[COMPARE_FASTER]                       ? COMPARE_FASTER
		       : seen[COMPARE_SAME]                         ? COMPARE_SAME
								    : COMPARE_UNKNOWN;
}

static void decide_all(struct compare *c)
{
	for (size_t i = 0; i < c->nr; i++) {
		decide_row(&c->rows[i]);
		c->slower += c->rows[i].verdict == COMPARE_SLOWER;
		c->faster += c->rows[i].verdict == COMPARE_FASTER;
		c->same += c->rows[i].verdict == COMPARE_SAME;
		c->mixed += c->rows[i].verdict == COMPARE_MIXED;
	}
}

/* All series together: many that are a little slower are a fact even where each alone is not. */
static void judge_overall(struct compare *c, enum compare_figure figure)
{
	struct compare_overall *o = &c->overall[figure];
	struct stat_moments m = {0};
	struct stat_summary s;

	*o = (struct compare_overall){NAN, NAN, NAN};
	for (size_t i = 0; i < c->nr; i++) {
		double l = log(c->rows[i].by[figure].ratio);

		if (isfinite(l))
			stat_moments_add(&m, l);
	}
	if (!m.n)
		return;
	stat_moments_summary(&s, &m);
	*o = (struct compare_overall){exp(m.mean), NAN, NAN};
	if (m.n < STAT_CI_MIN)
		return;
	o->low = exp(m.mean - (s.ci_high - m.mean));
	o->high = exp(s.ci_high);
}

/* ---------------------------------------------------------------------- run */

static void list_missing(json_t *names, const json_t *from, const json_t *in)
{
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(from, "series"), i, s)
	{
		if (!report_named(json_object_get(in, "series"), report_text(s, "name")))
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
		const json_t *other =
			report_named(json_object_get(c->in.b, "series"), report_text(s, "name"));

		if (other && r == 0)
			r = compare_judge(&c->rows[c->nr++], s, other);
	}
	return r;
}

int compare_run(struct compare *c, const struct compare_input *in, struct penstock_err *err)
{
	int r;

	*c = (struct compare){.in = *in,
			      .only_a = json_array(),
			      .only_b = json_array(),
			      .notes = json_array(),
			      .reasons = json_array()};
	list_missing(c->only_a, in->a, in->b);
	list_missing(c->only_b, in->b, in->a);
	r = rows_load(c);
	for (unsigned i = 0; i < COMPARE_FIGURES && r == 0; i++)
		r = correct(c, i);
	if (r == 0 && !c->nr)
		r = penstock_fail(err, -ENOENT, "'%s' and '%s' have no series in common",
				  in->a_name, in->b_name);
	else if (r < 0)
		penstock_fail(err, r, "out of memory");
	if (r < 0) {
		compare_fini(c);
		return r;
	}
	decide_all(c);
	for (unsigned i = 0; i < COMPARE_FIGURES; i++)
		judge_overall(c, i);
	compare_notes(c);
	compare_gate(c);
	return 0;
}

void compare_fini(struct compare *c)
{
	json_decref(c->only_a);
	json_decref(c->only_b);
	json_decref(c->notes);
	json_decref(c->reasons);
	free(c->rows);
	*c = (struct compare){.nr = 0};
}
