/* SPDX-License-Identifier: Apache-2.0 */
/* Cells know no table: what there is of a result is said by whoever fills them. */
#include "load/report/result/cells.h"

#include <math.h>
#include <string.h>

static struct cell cell_named(const char *name, enum cell_kind kind, double v)
{
	struct cell c = {.kind = kind, .number = v};

	snprintf(c.name, sizeof(c.name), "%s", name);
	return c;
}

struct cell cell_number(const char *name, double v)
{
	return cell_named(name, CELL_NUMBER, v);
}

struct cell cell_bool(const char *name, bool on)
{
	return cell_named(name, CELL_BOOL, on);
}

struct cell cell_text(const char *name, const char *text)
{
	struct cell c = cell_named(name, CELL_TEXT, NAN);

	snprintf(c.text, sizeof(c.text), "%s", text ? text : "");
	return c;
}

void csv_text(FILE *f, const char *s)
{
	const char *before = *s && strchr("=+-@\t\r\n", *s) ? "'" : "";

	if (!s[strcspn(s, ",\"\n\r")]) {
		fprintf(f, "%s%s", before, s);
		return;
	}
	fprintf(f, "\"%s", before);
	for (; *s; s++) {
		if (*s == '"')
			putc('"', f);
		putc(*s, f);
	}
	putc('"', f);
}

/* Whole numbers as such; nothing for what is none. */
static void csv_number(FILE *f, double v)
{
	if (isfinite(v) && v == floor(v) && fabs(v) < 1e15)
		fprintf(f, "%.0f", v);
	else if (isfinite(v))
		fprintf(f, "%.9g", v);
}

void cells_csv(FILE *f, const struct cell *c, unsigned nr, bool names)
{
	for (unsigned i = 0; i < nr; i++) {
		if (i)
			putc(',', f);
		if (names || c[i].kind == CELL_TEXT)
			csv_text(f, names ? c[i].name : c[i].text);
		else if (c[i].kind == CELL_BOOL)
			fputs(c[i].number > 0 ? "True" : "False", f); /* as pandas writes them */
		else
			csv_number(f, c[i].number);
	}
	putc('\n', f);
}

static void cell_put(struct sheet *s, unsigned col, const struct cell *c)
{
	if (c->kind == CELL_TEXT)
		sheet_text(s, col, c->text);
	else if (c->kind == CELL_BOOL)
		sheet_bool(s, col, c->number > 0);
	else
		sheet_number(s, col, c->number);
}

void cells_row(struct sheet *s, const struct cell *c, unsigned nr, bool names)
{
	for (unsigned i = 0; i < nr; i++) {
		if (names)
			sheet_text(s, i, c[i].name);
		else
			cell_put(s, i, &c[i]);
	}
	s->row++;
}

void cells_column(struct sheet *s, const char *name, const char *value, const struct cell *c,
		  unsigned nr)
{
	sheet_names(s, (const char *const[]){name, value, NULL});
	for (unsigned i = 0; i < nr; i++, s->row++) {
		sheet_text(s, 0, c[i].name);
		cell_put(s, 1, &c[i]);
	}
}
