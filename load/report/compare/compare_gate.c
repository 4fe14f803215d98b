/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate.  It fails for what is slower beyond its limit, and for what it cannot vouch
 * for: a series that is gone or cannot be compared, a run that ended early or had errors.
 */
#include "load/report/compare/compare.h"

static const char *const figure_words[] = {"median latency", "bandwidth", "p99 latency"};

/* The whole interval is beyond the limit: 5 % more latency, 5 % less bandwidth. */
static bool exceeds(enum compare_figure figure, double low, double high, double limit)
{
	return figure == COMPARE_BANDWIDTH ? high < 1 - limit : low > 1 + limit;
}

static void add_slower_reason(struct compare *c, const char *name, enum compare_figure figure,
			      const struct compare_overall *o, const struct compare_gate *gate)
{
	char change[COMPARE_TEXT], interval[COMPARE_TEXT];

	json_array_append_new(
		c->reasons, json_sprintf("%s: %s %s (95 %%: %s), beyond %s", name,
					 figure_words[figure], compare_percent(change, o->ratio),
					 compare_interval(interval, o->low, o->high), gate->text));
}

static void check_row(struct compare *c, struct compare_row *row, enum compare_figure figure,
		      const struct compare_gate *gate)
{
	struct compare_change *x = &row->by[figure];
	const struct compare_overall o = {x->ratio, x->low, x->high};

	if (x->verdict == COMPARE_SLOWER && exceeds(figure, x->low, x->high, gate->limit)) {
		x->fails = true;
		add_slower_reason(c, row->name, figure, &o, gate);
	}
	/* Who asks for a figure by name wants it judged. */
	if (gate->figure >= 0 && x->why && !row->why && !c->in.allow_missing)
		json_array_append_new(c->reasons,
				      json_sprintf("%s: %s cannot be compared: %s", row->name,
						   figure_words[figure], x->why));
}

static void check_gate(struct compare *c, const struct compare_gate *gate)
{
	for (unsigned f = 0; f < COMPARE_FIGURES; f++) {
		const struct compare_overall *o = &c->overall[f];
		size_t judged = 0;

		if (gate->figure >= 0 && gate->figure != (int)f)
			continue;
		for (size_t i = 0; i < c->nr; i++) {
			check_row(c, &c->rows[i], f, gate);
			judged += c->rows[i].by[f].verdict != COMPARE_UNKNOWN;
		}
		if (exceeds(f, o->low, o->high, gate->limit))
			add_slower_reason(c, "all series together", f, o, gate);
		if (!judged && (gate->figure >= 0 || f == COMPARE_MEDIAN))
			json_array_append_new(c->reasons,
					      json_sprintf("no series could be compared by its %s",
							   figure_words[f]));
	}
}

static void check_missing(struct compare *c)
{
	const char *why = json_string_value(json_object_get(c->in.b, "partial_why"));
	const json_t *name;
	size_t i;

	json_array_foreach(c->only_a, i, name)
	{
		json_array_append_new(c->reasons, json_sprintf("%s: is in A, but not in B",
							       json_string_value(name)));
	}
	for (i = 0; i < c->nr; i++)
		if (c->rows[i].why)
			json_array_append_new(c->reasons,
					      json_sprintf("%s: cannot be compared: %s",
							   c->rows[i].name, c->rows[i].why));
	if (json_is_true(json_object_get(c->in.b, "partial")))
		json_array_append_new(c->reasons, json_sprintf("B is a partial result%s%s",
							       why ? ": " : "", why ? why : ""));
	compare_errors(c->reasons, c->in.b, "B");
}

void compare_gate(struct compare *c)
{
	if (!c->in.nr_gates)
		return;
	for (unsigned i = 0; i < c->in.nr_gates; i++)
		check_gate(c, &c->in.gates[i]);
	if (!c->in.allow_missing)
		check_missing(c);
	c->failed = json_array_size(c->reasons) > 0;
}
