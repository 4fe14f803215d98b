/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian has no static archive of libxlsxwriter and few users need it, so it is loaded
 * when it is asked for, with prototypes of our own for the few functions used; they have
 * not changed since its 0.7.
 */
#include "load/report/workbook.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

struct workbook {
	void *lib, *book;
	char *path;
	int failed;
	void *(*workbook_new)(const char *path);
	void *(*workbook_add_worksheet)(void *book, const char *name);
	int (*workbook_close)(void *book);
	int (*worksheet_write_string)(void *sheet, uint32_t row, uint16_t col, const char *text,
				      void *format);
	int (*worksheet_write_number)(void *sheet, uint32_t row, uint16_t col, double number,
				      void *format);
};

static int load(struct workbook *b, struct sluice_err *err)
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
		{"workbook_new", &b->workbook_new},
		{"workbook_add_worksheet", &b->workbook_add_worksheet},
		{"workbook_close", &b->workbook_close},
		{"worksheet_write_string", &b->worksheet_write_string},
		{"worksheet_write_number", &b->worksheet_write_number},
	};

	for (unsigned i = 0; !b->lib && i < ARRAY_SIZE(names); i++)
		b->lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!b->lib)
		return sluice_fail(err, -ENOTSUP, "libxlsxwriter is not installed");
	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		void *f = dlsym(b->lib, functions[i].name);

		if (!f)
			return sluice_fail(err, -ENOTSUP, "libxlsxwriter has no %s()",
					   functions[i].name);
		memcpy(functions[i].at, &f, sizeof(f));
	}
	return 0;
}

static void release(struct workbook *b)
{
	if (b->lib)
		dlclose(b->lib);
	free(b->path);
	free(b);
}

int workbook_open(struct workbook **out, const char *path, struct sluice_err *err)
{
	struct workbook *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return sluice_fail(err, -ENOMEM, "out of memory");
	r = load(b, err);
	if (r == 0) {
		b->path = strdup(path);
		b->book = b->path ? b->workbook_new(path) : NULL;
		if (!b->book)
			r = sluice_fail(err, -ENOMEM, "out of memory");
	}
	if (r < 0)
		release(b);
	else
		*out = b;
	return r;
}

struct sheet workbook_sheet(struct workbook *b, const char *name)
{
	struct sheet s = {b, b->workbook_add_worksheet(b->book, name), 0};

	b->failed |= !s.ws;
	return s;
}

int workbook_close(struct workbook *b, struct sluice_err *err)
{
	int r = 0;

	b->failed |= b->workbook_close(b->book);
	if (b->failed)
		r = sluice_fail(err, -EIO, "%s: could not be written by libxlsxwriter", b->path);
	release(b);
	return r;
}

void sheet_text(struct sheet *s, unsigned col, const char *text)
{
	if (s->ws)
		s->book->failed |=
			s->book->worksheet_write_string(s->ws, s->row, (uint16_t)col, text, NULL);
}

void sheet_number(struct sheet *s, unsigned col, double v)
{
	if (s->ws && isfinite(v))
		s->book->failed |=
			s->book->worksheet_write_number(s->ws, s->row, (uint16_t)col, v, NULL);
}

void sheet_names(struct sheet *s, const char *const *names)
{
	for (unsigned i = 0; names[i]; i++)
		sheet_text(s, i, names[i]);
	s->row++;
}
