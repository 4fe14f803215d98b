/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison for people and for programs, from the same struct. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <sluice/version.h>

#include "base/util.h"
#include "load/report/compare.h"
#include "load/report/text.h"

const char *const compare_words[] = {"no difference seen", "slower", "faster", "not comparable"};

static const char method[] =
	"Series of the same name are compared by the latencies of their operations. A difference "
	"is called one when a Mann-Whitney test finds it (5 % for all series together, Holm's "
	"correction) and the 95 % interval of the ratio of the medians, by bootstrap, does not "
	"contain 1. Operations that resemble their neighbours count once.";

void compare_summary(char *buf, size_t size, const struct compare *c)
{
	size_t judged = c->slower + c->faster + c->same;
	size_t unknown = c->nr - judged;

	if (!judged)
		snprintf(buf, size, "None of %zu series can be compared.", c->nr);
	else if (!c->slower && !c->faster)
		snprintf(buf, size, "No difference seen in %zu series.", c->same);
	else
		snprintf(buf, size,
			 "B is slower in %zu of %zu series and faster in %zu; in %zu no "
			 "difference is seen.",
			 c->slower, judged, c->faster, c->same);
	if (judged && unknown)
		snprintf(buf + strlen(buf), size - strlen(buf), " %zu cannot be compared.",
			 unknown);
}

/* --------------------------------------------------------------------- text */

#define FIELD 32

static const char *duration(char buf[FIELD], double sec)
{
	if (!isfinite(sec))
		snprintf(buf, FIELD, "-");
	else if (sec < 1e-3)
		snprintf(buf, FIELD, "%.1f us", sec * 1e6);
	else if (sec < 1)
		snprintf(buf, FIELD, "%.3f ms", sec * 1e3);
	else
		snprintf(buf, FIELD, "%.3f s", sec);
	return buf;
}

static const char *change(char buf[FIELD], double ratio)
{
	if (isfinite(ratio))
		snprintf(buf, FIELD, "%+.1f %%", 100 * (ratio - 1));
	else
		snprintf(buf, FIELD, "-");
	return buf;
}

static const char *interval(char buf[FIELD], double low, double high)
{
	if (isfinite(low) && isfinite(high))
		snprintf(buf, FIELD, "%+.1f to %+.1f %%", 100 * (low - 1), 100 * (high - 1));
	else
		snprintf(buf, FIELD, "-");
	return buf;
}

static const char *chance(char buf[FIELD], const struct compare_row *row)
{
	if (row->why || !isfinite(row->p))
		snprintf(buf, FIELD, "-");
	else if (row->p < 0.0001)
		snprintf(buf, FIELD, "<0.0001");
	else
		snprintf(buf, FIELD, "%.4f", row->p);
	return buf;
}

static void text_row(FILE *f, const struct compare_row *row, int width)
{
	char a[FIELD], b[FIELD], d[FIELD], i[FIELD], p[FIELD];

	fprintf(f, "%-*s  %11s  %11s  %9s  %19s  %8s  %s%s%s%s\n", width, row->name,
		duration(a, row->a.median), duration(b, row->b.median), change(d, row->ratio),
		interval(i, row->low, row->high), chance(p, row), compare_words[row->verdict],
		row->why ? ": " : "", row->why ? row->why : "", row->fails ? "  <- gate" : "");
}

static void text_names(FILE *f, const char *what, const json_t *names)
{
	const json_t *n;
	size_t i;

	if (!json_array_size(names))
		return;
	fprintf(f, "%s:", what);
	json_array_foreach(names, i, n) fprintf(f, "%s %s", i ? "," : "", json_string_value(n));
	fputc('\n', f);
}

static void text_end(FILE *f, const struct compare *c)
{
	char summary[256], buf[FIELD], d[FIELD];
	const json_t *note;
	size_t i;

	compare_summary(summary, sizeof(summary), c);
	fprintf(f, "%s\n", summary);
	if (isfinite(c->overall_low))
		fprintf(f, "All series together: %s (95 %%: %s)\n", change(d, c->overall),
			interval(buf, c->overall_low, c->overall_high));
	text_names(f, "Only in A", c->only_a);
	text_names(f, "Only in B", c->only_b);
	json_array_foreach(c->notes, i, note) fprintf(f, "Note: %s\n", json_string_value(note));
	if (c->in.gate >= 0)
		fprintf(f, "Gate %s: %s\n", c->in.gate_text, c->failed ? "failed" : "passed");
}

void compare_text(FILE *f, const struct compare *c)
{
	int width = 6;

	for (size_t i = 0; i < c->nr; i++)
		if ((int)strlen(c->rows[i].name) > width)
			width = (int)strlen(c->rows[i].name);
	fprintf(f, "A: %s\nB: %s\n\n", c->in.a_name, c->in.b_name);
	fprintf(f, "%-*s  %11s  %11s  %9s  %19s  %8s  %s\n", width, "series", "median A",
		"median B", "change", "95 % interval", "p", "verdict");
	for (size_t i = 0; i < c->nr; i++)
		text_row(f, &c->rows[i], width);
	fputc('\n', f);
	text_end(f, c);
}

/* --------------------------------------------------------------------- JSON */

static json_t *real_or_null(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *side_json(const struct compare_side *s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "median", real_or_null(s->median), "p99",
			 real_or_null(s->p99), "bytes_per_sec", real_or_null(s->bytes_per_sec),
			 "cpu_sec_per_gib", real_or_null(s->cpu), "samples", (json_int_t)s->n,
			 "independent", (json_int_t)s->used);
}

static json_t *interval_json(double low, double high)
{
	if (!isfinite(low) || !isfinite(high))
		return json_null();
	return json_pack("[f, f]", low, high);
}

static json_t *row_json(const struct compare_row *row)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:s?, s:b}", "name", row->name,
			 "kind", row->kind, "a", side_json(&row->a), "b", side_json(&row->b),
			 "ratio", real_or_null(row->ratio), "interval",
			 interval_json(row->low, row->high), "p",
			 row->why ? json_null() : real_or_null(row->p), "verdict",
			 compare_words[row->verdict], "why", row->why, "fails", row->fails);
}

static json_t *gate_json(const struct compare *c)
{
	if (c->in.gate < 0)
		return json_null();
	return json_pack("{s:s, s:f, s:b}", "text", c->in.gate_text, "slower", c->in.gate, "failed",
			 c->failed);
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
		"{s:s, s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:O, s:O, s:O, s:o, "
		"s:o}",
		"schema", "sluice-compare/1", "sluice", SLUICE_VERSION_STRING, "a",
		name_json(c->in.a, c->in.a_name), "b", name_json(c->in.b, c->in.b_name), "summary",
		summary, "method", method, "slower", (json_int_t)c->slower, "faster",
		(json_int_t)c->faster, "same", (json_int_t)c->same, "overall",
		real_or_null(c->overall), "overall_interval",
		interval_json(c->overall_low, c->overall_high), "only_a", c->only_a, "only_b",
		c->only_b, "notes", c->notes, "gate", gate_json(c), "rows", rows);
}
