/* SPDX-License-Identifier: Apache-2.0 */
/* A result as a workbook: the series, their seconds, their histograms, and what it is about. */
#include "base/util.h"
#include "load/report/result/cells.h"
#include "load/report/result/result.h"

static void series_sheet(struct sheet *s, const json_t *result)
{
	struct cell c[RESULT_CELLS];
	const json_t *series;
	size_t i;

	json_array_foreach(json_object_get(result, "series"), i, series)
	{
		unsigned nr = result_cells(c, series);

		if (i == 0)
			cells_row(s, c, nr, true);
		cells_row(s, c, nr, false);
	}
}

static void xlsx_put_number(struct sheet *s, unsigned col, const json_t *v)
{
	if (json_is_number(v))
		sheet_number(s, col, json_number_value(v));
}

static void seconds_sheet(struct sheet *s, const json_t *result)
{
	static const char *const names[] = {"name",         "t",           "ops", "bytes",
					    "latency_mean", "latency_max", NULL};
	const json_t *series;
	size_t i;

	sheet_names(s, names);
	json_array_foreach(json_object_get(result, "series"), i, series)
	{
		const json_t *of = json_object_get(series, "per_second");
		size_t nr = json_array_size(json_object_get(of, "t"));

		for (size_t k = 0; k < nr; k++, s->row++) {
			sheet_text(s, 0, json_string_value(json_object_get(series, "name")));
			for (unsigned c = 1; names[c]; c++)
				xlsx_put_number(s, c,
						json_array_get(json_object_get(of, names[c]), k));
		}
	}
}

static void histogram_sheet(struct sheet *s, const json_t *result)
{
	static const char *const names[] = {"name", "low_ns", "high_ns", "count", NULL};
	const json_t *series, *bucket;
	size_t i, k;

	sheet_names(s, names);
	json_array_foreach(json_object_get(result, "series"), i, series)
	{
		const json_t *of = json_object_get(series, "histogram");

		json_array_foreach(json_object_get(of, "buckets"), k, bucket)
		{
			sheet_text(s, 0, json_string_value(json_object_get(series, "name")));
			for (unsigned c = 1; names[c]; c++)
				xlsx_put_number(s, c, json_array_get(bucket, c - 1));
			s->row++;
		}
	}
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

static void about_sheet(struct sheet *s, const json_t *result)
{
	static const char *const parts[] = {
		"command",       "time",     "duration_sec", "partial", "partial_why",
		"bytes_written", "settings", "targets",      "machine", "ranks"};
	static const char *const found[] = {"verdict", "winner", "any_of", "config"};
	const json_t *tune = json_object_get(result, "tune"), *v;

	for (unsigned i = 0; json_is_object(tune) && i < ARRAY_SIZE(found); i++)
		json_rows(s, found[i], json_object_get(tune, found[i]));
	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++)
		if ((v = json_object_get(result, parts[i])))
			json_rows(s, parts[i], v);
}

int result_xlsx(FILE *f, const json_t *result, struct penstock_err *err)
{
	static const struct {
		const char *name;
		void (*write)(struct sheet *, const json_t *);
	} sheets[] = {
		{"series", series_sheet},
		{"per second", seconds_sheet},
		{"histogram", histogram_sheet},
		{"about", about_sheet},
	};
	struct workbook *book;
	int e = workbook_open(&book, err);

	if (e < 0)
		return e;
	for (unsigned i = 0; i < ARRAY_SIZE(sheets); i++) {
		struct sheet s = workbook_sheet(book, sheets[i].name);

		sheets[i].write(&s, result);
	}
	return workbook_close(book, f, err);
}
