/* SPDX-License-Identifier: Apache-2.0 */
/* Which column is where, and what is wrong with a row, for all formats that have columns. */
#include "load/trace/table.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"

void table_columns(struct table *t, const struct csv_field *f, int nr)
{
	t->nr = nr;
	t->need = 0;
	for (int i = 0; i < t->nr_names; i++) {
		t->at[i] = -1;
		for (int c = 0; c < nr && c < CSV_FIELDS && t->at[i] < 0; c++)
			if (field_is(f[c], t->names[i]))
				t->at[i] = c;
		t->need = t->at[i] >= t->need ? t->at[i] + 1 : t->need;
	}
}

static bool is_known(const struct table *t, int column)
{
	for (int i = 0; i < t->nr_names; i++)
		if (t->at[i] == column)
			return true;
	return false;
}

/* Those that do not fit into @text are counted. */
static void name_unknown(char *text, size_t size, const struct table *t, const struct csv_field *f)
{
	int n = t->nr < CSV_FIELDS ? t->nr : CSV_FIELDS, more = t->nr - n;
	size_t len = 0, one = READER_SHOW_MAX + strlen(", ''"),
	       last = strlen(", and 2147483647 more");

	for (int c = 0; c < n; c++) {
		if (is_known(t, c))
			continue;
		if (len + one + last >= size)
			more++;
		else
			len += (size_t)snprintf(text + len, size - len, "%s'%.*s'", len ? ", " : "",
						READER_SHOW(f[c]));
	}
	if (more > 0)
		snprintf(text + len, size - len, "%s%d more", len ? ", and " : "", more);
	trace_printable(text);
}

/* With the CR that csv_row() has taken off, if there was one. */
static size_t table_whole(const char *text, size_t len)
{
	return len + (text[len] == '\r');
}

int table_header(struct trace_reader *r, struct table *t, const int *needed, int nr,
		 const char *what, struct penstock_err *err)
{
	struct csv_field f[CSV_FIELDS];
	struct penstock_short_name short_name;
	uint64_t line;
	char *text;
	size_t len;
	int n = csv_row(&r->s, t->separator, &text, &len, &line, err);

	if (n < 0 && n != -E2BIG)
		return n;
	if (n == 1 && r->o.raw && reader_keep(&r->header, text, table_whole(text, len)) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	table_columns(t, f, n == 1 ? csv_split(text, len, t->separator, f) : 0);
	for (int i = 0; i < nr; i++)
		if (t->at[needed[i]] < 0)
			return penstock_fail(
				err, -EINVAL,
				"%s: line 1: is not the header of %s: there is no column "
				"'%s'",
				penstock_shorten_name(&short_name, source_path(&r->s)), what,
				t->names[needed[i]]);
	name_unknown(r->unknown, sizeof(r->unknown), t, f);
	return 0;
}

int table_row(struct trace_reader *r, const struct table *t, struct trace_row *row,
	      table_field *set, struct penstock_err *err)
{
	struct csv_field f[CSV_FIELDS];
	uint64_t line;
	char *text;
	size_t len;
	int n;

	do {
		n = csv_row(&r->s, t->separator, &text, &len, &line, err);
		if (n != 1)
			return n;
	} while (!len || (t->comment && *text == t->comment));
	r->row_line = line;
	if (r->o.raw && reader_keep(&r->raw, text, table_whole(text, len)) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	n = csv_split(text, len, t->separator, f);
	if (n < 0)
		return reader_bad(r, line, CSV_BAD_QUOTES);
	if (n < t->need || n > t->nr)
		return reader_bad(r, line, "%d column%s instead of %d", n, n == 1 ? "" : "s",
				  t->nr);
	/* Half a word is not valid, but nothing at all may be. */
	if (r->s.unended && n <= CSV_FIELDS && !f[n - 1].len)
		return reader_bad(r, line, "is cut off");
	*row = TRACE_ROW_INIT;
	for (int i = 0; i < t->nr_names; i++) {
		struct csv_field one = t->at[i] >= 0 ? f[t->at[i]] : (struct csv_field){NULL, 0};

		if (t->at[i] >= 0 && !set(row, i, one))
			return reader_bad(r, line, "%s '%.*s' is not valid", t->names[i],
					  READER_SHOW(one));
	}
	return 1;
}
