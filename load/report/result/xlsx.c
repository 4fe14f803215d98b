/* SPDX-License-Identifier: Apache-2.0 */
/* A result as a workbook: the series, their seconds, their histograms, and what it is about. */
#include <errno.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/result/cells.h"
#include "load/report/result/result.h"

static int series_sheet(struct sheet *s, const struct result *r)
{
	struct cell c[RESULT_CELLS];

	for (unsigned i = 0; i < r->nr_series; i++) {
		unsigned nr = result_cells(c, &r->series[i]);

		if (i == 0)
			cells_line(s, c, nr, true);
		cells_line(s, c, nr, false);
	}
	return 0;
}

static int seconds_sheet(struct sheet *s, const struct result *r)
{
	static const char *const names[] = {"name",         "t",           "ops", "bytes",
					    "latency_mean", "latency_max", NULL};

	sheet_names(s, names);
	for (unsigned i = 0; i < r->nr_series; i++) {
		const struct seconds *t = &r->series[i].seconds;

		for (unsigned k = 0; k < t->nr; k++, s->row++) {
			sheet_text(s, 0, r->series[i].name);
			sheet_number(s, 1, k);
			for (unsigned c = 0; c < t->nr_channels; c++)
				sheet_number(s, 2 + c,
					     seconds_value(&t->channels[c], seconds_row(t, k)));
		}
	}
	return 0;
}

static int histogram_sheet(struct sheet *s, const struct result *r)
{
	static const char *const names[] = {"name", "low_ns", "high_ns", "count", NULL};

	sheet_names(s, names);
	for (unsigned i = 0; i < r->nr_series; i++) {
		struct sluice_hist_bucket b;

		for (unsigned pos = 0;
		     r->series[i].hist && sluice_hist_next(r->series[i].hist, &pos, &b); s->row++) {
			sheet_text(s, 0, r->series[i].name);
			sheet_number(s, 1, (double)b.low);
			sheet_number(s, 2, (double)b.high);
			sheet_number(s, 3, (double)b.count);
		}
	}
	return 0;
}

/* Members of a JSON object, one line each: "machine.memlock.soft", value. */
static void json_rows(struct sheet *s, const char *prefix, const json_t *v)
{
	const char *key;
	json_t *member;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)v, key, member)
	{
		char name[200];

		snprintf(name, sizeof(name), "%s.%s", prefix, key);
		json_rows(s, name, member);
	}
	json_array_foreach(v, i, member)
	{
		char name[200];

		snprintf(name, sizeof(name), "%s.%zu", prefix, i);
		json_rows(s, name, member);
	}
	if (json_is_object(v) || json_is_array(v))
		return;
	sheet_text(s, 0, prefix);
	if (json_is_number(v))
		sheet_number(s, 1, json_number_value(v));
	else
		sheet_text(s, 1,
			   json_is_string(v)    ? json_string_value(v)
			   : json_is_true(v)    ? "true"
			   : json_is_boolean(v) ? "false"
						: "");
	s->row++;
}

static int about_sheet(struct sheet *s, const struct result *r)
{
	static const char *const parts[] = {"command",  "time",        "duration_sec",
					    "partial",  "partial_why", "bytes_written",
					    "settings", "targets",     "machine"};
	static const char *const found[] = {"verdict", "winner", "any_of", "config"};
	json_t *all = result_json(r);

	for (unsigned i = 0; r->tune && i < ARRAY_SIZE(found); i++)
		json_rows(s, found[i], json_object_get(r->tune, found[i]));
	for (unsigned i = 0; all && i < ARRAY_SIZE(parts); i++)
		json_rows(s, parts[i], json_object_get(all, parts[i]));
	json_decref(all);
	return all ? 0 : -ENOMEM;
}

int result_xlsx(FILE *f, const struct result *r, struct sluice_err *err)
{
	static const struct {
		const char *name;
		int (*write)(struct sheet *, const struct result *);
	} sheets[] = {
		{"series", series_sheet},
		{"per second", seconds_sheet},
		{"histogram", histogram_sheet},
		{"about", about_sheet},
	};
	struct workbook *book;
	int e = workbook_open(&book, err), closed;

	if (e < 0)
		return e;
	for (unsigned i = 0; i < ARRAY_SIZE(sheets); i++) {
		struct sheet s = workbook_sheet(book, sheets[i].name);

		e |= sheets[i].write(&s, r);
	}
	closed = workbook_close(book, f, err);
	return e ? sluice_fail(err, -ENOMEM, "out of memory") : closed;
}
