/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison for people and for programs, from the same struct. */
#include <math.h>
#include <string.h>

#include <penstock/version.h>

#include "base/util.h"
#include "load/report/compare/compare.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

#define COMPARE_NAME 256 /* bytes of a name in the table */

static const char method[] =
	"Series of the same name are compared by their median latency, the bandwidth of the whole "
	"run and the 99th percentile of the latency. A difference is called one when the 95 % "
	"interval of the ratio does not contain 1 and a test finds it (5 % for all series "
	"together, "
	"Holm's correction): Mann-Whitney for the median, Fisher's of the slowest 2 % for p99, "
	"which "
	"needs 100 operations, both with an interval by bootstrap; for the bandwidth a bootstrap "
	"of "
	"seconds or operations. A handful of operations, such as the loops of a sweep, are "
	"compared "
	"by Student's t. Operations that resemble their neighbours count less.";

/* "B is slower in 2 of 6 series and faster in 0; in 4 no difference is seen." */
static void compare_summary(char *buf, size_t size, const struct compare *c)
{
	size_t judged = c->slower + c->faster + c->same + c->mixed;
	size_t unknown = c->nr - judged;

	if (!judged)
		snprintf(buf, size, "None of %zu series can be compared.", c->nr);
	else if (c->same == judged)
		snprintf(buf, size, "No difference seen in %zu series.", c->same);
	else
		snprintf(buf, size,
			 "B is slower in %zu of %zu series and faster in %zu; in %zu no "
			 "difference is seen.",
			 c->slower, judged, c->faster, c->same);
	if (c->mixed)
		snprintf(buf + strlen(buf), size - strlen(buf),
			 " In %zu it is slower in one figure and faster in another.", c->mixed);
	if (judged && unknown)
		snprintf(buf + strlen(buf), size - strlen(buf), " %zu cannot be compared.",
			 unknown);
}

/* --------------------------------------------------------------------- text */

const char *compare_percent(char buf[COMPARE_TEXT], double ratio)
{
	if (isfinite(ratio))
		snprintf(buf, COMPARE_TEXT, "%+.1f %%", 100 * (ratio - 1));
	else
		snprintf(buf, COMPARE_TEXT, "-");
	return buf;
}

const char *compare_interval(char buf[COMPARE_TEXT], double low, double high)
{
	if (isfinite(low) && isfinite(high))
		snprintf(buf, COMPARE_TEXT, "%+.1f to %+.1f %%", 100 * (low - 1), 100 * (high - 1));
	else
		snprintf(buf, COMPARE_TEXT, "-");
	return buf;
}

static const char *value(char buf[COMPARE_TEXT], double v, enum compare_figure figure)
{
	char time[REPORT_TIME_TEXT];

	if (!isfinite(v))
		snprintf(buf, COMPARE_TEXT, "-");
	else if (figure == COMPARE_BANDWIDTH)
		snprintf(buf, COMPARE_TEXT, "%.1f MB/s", v / 1e6);
	else
		snprintf(buf, COMPARE_TEXT, "%s", report_time(time, v));
	return buf;
}

static const char *chance(char buf[COMPARE_TEXT], const struct compare_change *x)
{
	if (x->why || !isfinite(x->p))
		snprintf(buf, COMPARE_TEXT, "-");
	else if (x->p < 0.0001)
		snprintf(buf, COMPARE_TEXT, "<0.0001");
	else
		snprintf(buf, COMPARE_TEXT, "%.4f", x->p);
	return buf;
}

static void text_change(FILE *f, const struct compare_row *row, enum compare_figure figure,
			int width)
{
	const struct compare_change *x = &row->by[figure];
	char a[COMPARE_TEXT], b[COMPARE_TEXT], d[COMPARE_TEXT], i[COMPARE_TEXT], p[COMPARE_TEXT];
	char name[COMPARE_NAME];

	fprintf(f, "%-*s  %-9s  %13s  %13s  %9s  %19s  %8s  %s%s%s", width,
		figure ? "" : report_escape(name, sizeof(name), row->name),
		compare_figure_names[figure], value(a, x->a, figure), value(b, x->b, figure),
		compare_percent(d, x->ratio), compare_interval(i, x->low, x->high), chance(p, x),
		compare_words[x->verdict], x->why ? ": " : "", x->why ? x->why : "");
	if (x->method && !strcmp(x->method, "t"))
		fprintf(f, " (of %zu and %zu operations)", row->a.n, row->b.n);
	fprintf(f, "%s\n", x->fails ? "  <- gate" : "");
}

/* A series that cannot be compared at all needs one line only. */
static void text_row(FILE *f, const struct compare_row *row, int width)
{
	for (unsigned i = 0; i < (row->why ? 1 : COMPARE_FIGURES); i++)
		text_change(f, row, i, width);
}

static void text_names(FILE *f, const char *what, const json_t *names)
{
	const json_t *n;
	size_t i;

	if (!json_array_size(names))
		return;
	fprintf(f, "%s:", what);
	json_array_foreach(names, i, n)
	{
		fputs(i ? ", " : " ", f);
		report_escape_put(f, json_string_value(n));
	}
	fputc('\n', f);
}

static void text_overall(FILE *f, const struct compare *c)
{
	char change[COMPARE_TEXT], interval[COMPARE_TEXT];
	const char *between = "All series together: ";

	for (unsigned i = 0; i < COMPARE_FIGURES; i++) {
		const struct compare_overall *o = &c->overall[i];

		if (!isfinite(o->low))
			continue;
		fprintf(f, "%s%s %s (95 %%: %s)", between, compare_figure_names[i],
			compare_percent(change, o->ratio),
			compare_interval(interval, o->low, o->high));
		between = ", ";
	}
	if (*between == ',')
		fputc('\n', f);
}

/* "slower:5%, slower:p99:10%" */
static void gates_text(char *buf, size_t size, const struct compare *c)
{
	*buf = 0;
	for (unsigned i = 0; i < c->in.nr_gates; i++)
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%.60s", i ? ", " : "",
			 c->in.gates[i].text);
}

static void text_lines(FILE *f, const char *before, const json_t *lines)
{
	const json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		fputs(before, f);
		report_escape_put(f, json_string_value(line));
		fputc('\n', f);
	}
}

static void text_end(FILE *f, const struct compare *c)
{
	char summary[256], gates[COMPARE_GATES * 64];

	compare_summary(summary, sizeof(summary), c);
	fprintf(f, "%s\n", summary);
	text_overall(f, c);
	text_names(f, "Only in A", c->only_a);
	text_names(f, "Only in B", c->only_b);
	text_lines(f, "Note: ", c->notes);
	if (!c->in.nr_gates)
		return;
	gates_text(gates, sizeof(gates), c);
	fprintf(f, "Gate %s: %s\n", gates, c->failed ? "failed" : "passed");
	text_lines(f, "  ", c->reasons);
}

void compare_text(FILE *f, const struct compare *c)
{
	char name[COMPARE_NAME];
	int width = 6;

	for (size_t i = 0; i < c->nr; i++) {
		int len = (int)strlen(report_escape(name, sizeof(name), c->rows[i].name));

		width = len > width ? len : width;
	}
	fputs("A: ", f);
	report_escape_put(f, c->in.a_name);
	fputs("\nB: ", f);
	report_escape_put(f, c->in.b_name);
	fputs("\n\n", f);
	fprintf(f, "%-*s  %-9s  %13s  %13s  %9s  %19s  %8s  %s\n", width, "series", "figure", "A",
		"B", "change", "95 % interval", "p", "verdict");
	for (size_t i = 0; i < c->nr; i++)
		text_row(f, &c->rows[i], width);
	fputc('\n', f);
	text_end(f, c);
}

/* --------------------------------------------------------------------- JSON */

static json_t *interval_json(double low, double high)
{
	if (!isfinite(low) || !isfinite(high))
		return json_null();
	return json_pack("[f, f]", low, high);
}

static json_t *side_json(const struct compare_side *s)
{
	return json_pack("{s:o, s:I, s:I}", "cpu_sec_per_gib", report_real(s->cpu), "samples",
			 (json_int_t)s->n, "independent", (json_int_t)s->used);
}

static json_t *change_json(const struct compare_change *x)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:s?, s:s, s:s?, s:b}", "a", report_real(x->a),
			 "b", report_real(x->b), "ratio", report_real(x->ratio), "interval",
			 interval_json(x->low, x->high), "p",
			 x->why ? json_null() : report_real(x->p), "method", x->method, "verdict",
			 compare_words[x->verdict], "why", x->why, "fails", x->fails);
}

static json_t *row_json(const struct compare_row *row)
{
	json_t *j = json_pack("{s:s, s:s, s:o, s:o, s:s, s:s?}", "name", row->name, "kind",
			      row->kind, "a", side_json(&row->a), "b", side_json(&row->b),
			      "verdict", compare_words[row->verdict], "why", row->why);

	for (unsigned i = 0; i < COMPARE_FIGURES; i++)
		json_object_set_new(j, compare_figure_names[i], change_json(&row->by[i]));
	return j;
}

static json_t *overall_json(const struct compare *c)
{
	json_t *j = json_object();

	for (unsigned i = 0; i < COMPARE_FIGURES; i++) {
		const struct compare_overall *o = &c->overall[i];

		json_object_set_new(j, compare_figure_names[i],
				    json_pack("{s:o, s:o}", "ratio", report_real(o->ratio),
					      "interval", interval_json(o->low, o->high)));
	}
	return j;
}

static json_t *gate_json(const struct compare *c)
{
	char text[COMPARE_GATES * 64];
	json_t *limits = json_array();

	if (!c->in.nr_gates) {
		json_decref(limits);
		return json_null();
	}
	for (unsigned i = 0; i < c->in.nr_gates; i++) {
		const struct compare_gate *g = &c->in.gates[i];

		json_array_append_new(
			limits, json_pack("{s:s?, s:f}", "figure",
					  g->figure < 0 ? NULL : compare_figure_names[g->figure],
					  "slower", g->limit));
	}
	gates_text(text, sizeof(text), c);
	return json_pack("{s:s, s:o, s:b, s:b, s:O}", "text", text, "limits", limits,
			 "allow_missing", c->in.allow_missing, "failed", c->failed, "reasons",
			 c->reasons);
}

static json_t *name_json(const json_t *result, const char *name)
{
	return json_pack("{s:o, s:O}", "name", report_str(name), "time",
			 json_object_get(result, "time"));
}

json_t *compare_json(const struct compare *c)
{
	json_t *rows = json_array();
	char summary[256];

	for (size_t i = 0; i < c->nr; i++)
		json_array_append_new(rows, row_json(&c->rows[i]));
	compare_summary(summary, sizeof(summary), c);
	return json_pack(
		"{s:s, s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:O, s:O, s:O, s:o, s:o}",
		"schema", "penstock-compare/1", "penstock", PENSTOCK_VERSION_STRING, "a",
		name_json(c->in.a, c->in.a_name), "b", name_json(c->in.b, c->in.b_name), "summary",
		summary, "method", method, "slower", (json_int_t)c->slower, "faster",
		(json_int_t)c->faster, "same", (json_int_t)c->same, "mixed", (json_int_t)c->mixed,
		"overall", overall_json(c), "only_a", c->only_a, "only_b", c->only_b, "notes",
		c->notes, "gate", gate_json(c), "rows", rows);
}
