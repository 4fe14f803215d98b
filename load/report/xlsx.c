/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result as a workbook, through libxlsxwriter.  Debian has no static archive of
 * it and few users need it, so it is loaded when it is asked for, with prototypes
 * of our own for the few functions used; they have not changed since its 0.7.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/result.h"

struct lxw {
	void *lib;
	void *(*workbook_new)(const char *path);
	void *(*workbook_add_worksheet)(void *book, const char *name);
	int (*workbook_close)(void *book);
	int (*worksheet_write_string)(void *sheet, uint32_t row, uint16_t col, const char *text,
				      void *format);
	int (*worksheet_write_number)(void *sheet, uint32_t row, uint16_t col, double number,
				      void *format);
};

/* One sheet, written line by line. */
struct sheet {
	const struct lxw *x;
	void *ws;
	uint32_t row;
};

static int lxw_load(struct lxw *x, struct sluice_err *err)
{
	static const char *const names[] = {
		"libxlsxwriter.so.4",  "libxlsxwriter.so.5", "libxlsxwriter.so.6",
		"libxlsxwriter.so.7",  "libxlsxwriter.so.8", "libxlsxwriter.so.9",
		"libxlsxwriter.so.10", "libxlsxwriter.so",
	};
	const struct {
		const char *name;
		void *at;
	} functions[] = {
		{"workbook_new", &x->workbook_new},
		{"workbook_add_worksheet", &x->workbook_add_worksheet},
		{"workbook_close", &x->workbook_close},
		{"worksheet_write_string", &x->worksheet_write_string},
		{"worksheet_write_number", &x->worksheet_write_number},
	};

	for (unsigned i = 0; !x->lib && i < ARRAY_SIZE(names); i++)
		x->lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!x->lib)
		return sluice_fail(err, -ENOTSUP, "libxlsxwriter is not installed");
	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		void *f = dlsym(x->lib, functions[i].name);

		if (!f)
			return sluice_fail(err, -ENOTSUP, "libxlsxwriter has no %s()",
					   functions[i].name);
		memcpy(functions[i].at, &f, sizeof(f));
	}
	return 0;
}

static int put_text(struct sheet *s, unsigned col, const char *text)
{
	return s->x->worksheet_write_string(s->ws, s->row, (uint16_t)col, text, NULL);
}

/* A cell of what is not known stays empty. */
static int put_number(struct sheet *s, unsigned col, double v)
{
	if (!isfinite(v))
		return 0;
	return s->x->worksheet_write_number(s->ws, s->row, (uint16_t)col, v, NULL);
}

static int names_row(struct sheet *s, const char *const *names)
{
	int e = 0;

	for (unsigned i = 0; names[i]; i++)
		e |= put_text(s, i, names[i]);
	s->row++;
	return e;
}

/* ------------------------------------------------------------------- sheets */

static int series_sheet(struct sheet *s, const struct result *r)
{
	int e = 0;

	for (unsigned i = 0; i < r->nr_series; i++) {
		struct result_row *row = result_row_new(&r->series[i]);
		struct result_cell c;

		if (!row)
			return -ENOMEM;
		for (unsigned k = 0; i == 0 && result_row_cell(row, k, &c); k++)
			e |= put_text(s, k, c.name);
		s->row = i + 1;
		for (unsigned k = 0; result_row_cell(row, k, &c); k++)
			e |= c.is_text ? put_text(s, k, c.text) : put_number(s, k, c.number);
		result_row_free(row);
	}
	return e;
}

static int seconds_sheet(struct sheet *s, const struct result *r)
{
	static const char *const names[] = {"name",         "t",           "ops", "bytes",
					    "latency_mean", "latency_max", NULL};
	int e = names_row(s, names);

	for (unsigned i = 0; i < r->nr_series; i++) {
		for (unsigned k = 0; k < r->series[i].nr_seconds; k++, s->row++) {
			const struct series_second *x = &r->series[i].seconds[k];
			double n = x->ops ? (double)x->ops : NAN;

			e |= put_text(s, 0, r->series[i].name);
			e |= put_number(s, 1, k);
			e |= put_number(s, 2, (double)x->ops);
			e |= put_number(s, 3, (double)x->bytes);
			e |= put_number(s, 4, (double)x->latency_sum_ns / 1e9 / n);
			e |= put_number(s, 5, x->ops ? (double)x->latency_max_ns / 1e9 : NAN);
		}
	}
	return e;
}

static int histogram_sheet(struct sheet *s, const struct result *r)
{
	static const char *const names[] = {"name", "low_ns", "high_ns", "count", NULL};
	int e = names_row(s, names);

	for (unsigned i = 0; i < r->nr_series; i++) {
		struct sluice_hist_bucket b;

		for (unsigned pos = 0;
		     r->series[i].hist && sluice_hist_next(r->series[i].hist, &pos, &b); s->row++) {
			e |= put_text(s, 0, r->series[i].name);
			e |= put_number(s, 1, (double)b.low);
			e |= put_number(s, 2, (double)b.high);
			e |= put_number(s, 3, (double)b.count);
		}
	}
	return e;
}

/* Members of a JSON object, one line each: "machine.memlock.soft", value. */
static int json_rows(struct sheet *s, const char *prefix, const json_t *v)
{
	const char *key;
	json_t *member;
	size_t i;
	int e = 0;

	json_object_foreach((json_t *)(uintptr_t)v, key, member)
	{
		char name[200];

		snprintf(name, sizeof(name), "%s.%s", prefix, key);
		e |= json_rows(s, name, member);
	}
	json_array_foreach(v, i, member)
	{
		char name[200];

		snprintf(name, sizeof(name), "%s.%zu", prefix, i);
		e |= json_rows(s, name, member);
	}
	if (json_is_object(v) || json_is_array(v))
		return e;
	e |= put_text(s, 0, prefix);
	if (json_is_number(v))
		e |= put_number(s, 1, json_number_value(v));
	else
		e |= put_text(s, 1,
			      json_is_string(v)    ? json_string_value(v)
			      : json_is_true(v)    ? "true"
			      : json_is_boolean(v) ? "false"
						   : "");
	s->row++;
	return e;
}

static int about_sheet(struct sheet *s, const struct result *r)
{
	static const char *const parts[] = {"command",  "time",        "duration_sec",
					    "partial",  "partial_why", "bytes_written",
					    "settings", "targets",     "machine"};
	json_t *all = result_json(r);
	int e = all ? 0 : -ENOMEM;

	for (unsigned i = 0; all && i < ARRAY_SIZE(parts); i++)
		e |= json_rows(s, parts[i], json_object_get(all, parts[i]));
	json_decref(all);
	return e;
}

int result_xlsx(const char *path, const struct result *r, struct sluice_err *err)
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
	struct lxw x = {.lib = NULL};
	void *book = NULL;
	int e;

	err->code = 0;
	e = lxw_load(&x, err);
	if (e == 0)
		book = x.workbook_new(path);
	for (unsigned i = 0; book && i < ARRAY_SIZE(sheets); i++) {
		struct sheet s = {&x, x.workbook_add_worksheet(book, sheets[i].name), 0};

		e |= s.ws ? sheets[i].write(&s, r) : -ENOMEM;
	}
	if (book)
		e |= x.workbook_close(book);
	if (x.lib)
		dlclose(x.lib);
	if (e == 0 && !book)
		e = -ENOMEM;
	if (e == 0 || err->code)
		return e;
	return sluice_fail(err, -EIO, "%s: could not be written by libxlsxwriter", path);
}
