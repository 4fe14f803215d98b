/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading operations from CSV: a row is split into fields in place, then the columns that mean
 * something are looked at.
 */
#include "tests/common/kv_ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

enum { MAX_FIELDS = 16 };
enum { OP, KEY, TOKENS, COLUMNS };
static const char *const column_names[COLUMNS] = {"op", "key", "tokens"};

struct field {
	char *at;
	size_t len;
};

struct parser {
	char *at, *end; /* of what is left */
	size_t line, row_line;
	struct field fields[MAX_FIELDS];
	unsigned nr;
	unsigned column[COLUMNS]; /* which field */
	struct kv_texts *texts;
	struct penstock_err *err;
};

static int bad(const struct parser *p, const char *what, const struct field *f)
{
	return penstock_fail(p->err, -EINVAL, "line %zu: %s: '%.*s'", p->row_line, what,
			     (int)min_u64(f->len, 80), f->at);
}

/* What is in quotes; a doubled quote is one. */
static int quoted(struct parser *p, struct field *f)
{
	char *from = p->at + 1, *to = p->at;

	f->at = to;
	for (; from < p->end; from++) {
		if (*from == '\n')
			p->line++;
		if (*from == '"') {
			if (from + 1 == p->end || from[1] != '"')
				break;
			from++;
		}
		*to++ = *from;
	}
	if (from == p->end)
		return penstock_fail(p->err, -EINVAL, "line %zu: a quote is not closed",
				     p->row_line);
	f->len = (size_t)(to - f->at);
	p->at = from + 1;
	return 0;
}

static void op_plain(struct parser *p, struct field *f)
{
	f->at = p->at;
	while (p->at < p->end && *p->at != ',' && *p->at != '\n' && *p->at != '\r')
		p->at++;
	f->len = (size_t)(p->at - f->at);
}

/* What ends a field: 1 another follows, 0 the row is complete, -EINVAL. */
static int separator(struct parser *p)
{
	if (p->at < p->end && *p->at == ',') {
		p->at++;
		return 1;
	}
	if (p->at < p->end && *p->at == '\r')
		p->at++;
	if (p->at == p->end)
		return 0;
	if (*p->at != '\n')
		return penstock_fail(p->err, -EINVAL, "line %zu: a comma or the end is missing",
				     p->row_line);
	p->at++;
	p->line++;
	return 0;
}

/* The fields of the next row: 1, or 0 at the end of the text, or -EINVAL. */
static int next_row(struct parser *p)
{
	int r = 1;

	if (p->at == p->end)
		return 0;
	p->row_line = p->line;
	for (p->nr = 0; r > 0; p->nr++) {
		struct field extra, *f = p->nr < MAX_FIELDS ? &p->fields[p->nr] : &extra;

		if (p->at < p->end && *p->at == '"') {
			r = quoted(p, f);
			if (r < 0)
				return r;
		} else {
			op_plain(p, f);
		}
		r = separator(p);
	}
	p->nr = (unsigned)min_u64(p->nr, MAX_FIELDS);
	return r < 0 ? r : 1;
}

static bool is(const struct field *f, const char *word)
{
	return f->len == strlen(word) && !memcmp(f->at, word, f->len);
}

static bool is_blank(const struct parser *p)
{
	return p->nr == 1 && !p->fields[0].len;
}

/* Does the row name columns?  1 and where they are, 0, or -EINVAL. */
static int header(struct parser *p)
{
	unsigned found = 0;

	for (unsigned c = 0; c < COLUMNS; c++)
		p->column[c] = c;
	if (is(&p->fields[0], "A") || is(&p->fields[0], "R"))
		return 0;
	for (unsigned c = 0; c < COLUMNS; c++) {
		for (unsigned i = 0; i < p->nr; i++) {
			if (is(&p->fields[i], column_names[c])) {
				p->column[c] = i;
				found++;
				break;
			}
		}
	}
	if (found == COLUMNS)
		return 1;
	return bad(p, "neither an operation (A, R) nor names of columns (op, key, tokens)",
		   &p->fields[0]);
}

static int op_number(uint32_t *out, const struct field *f)
{
	uint64_t v = 0;

	if (!f->len)
		return -EINVAL;
	for (size_t i = 0; i < f->len; i++) {
		if (f->at[i] < '0' || f->at[i] > '9')
			return -EINVAL;
		v = v * 10 + (uint64_t)(f->at[i] - '0');
		if (v > UINT32_MAX)
			return -EINVAL;
	}
	*out = (uint32_t)v;
	return 0;
}

static int op_add_row(struct kv_ops *o, const struct kv_op *op)
{
	if (ARRAY_RESERVE(o->v, o->capacity, o->nr + 1) < 0)
		return -ENOMEM;
	o->v[o->nr++] = *op;
	return 0;
}

static int op_row(struct parser *p, struct kv_ops *o)
{
	const struct field none = {p->end, 0}, *f[COLUMNS];
	struct kv_op op = {0};
	int64_t text;

	for (unsigned c = 0; c < COLUMNS; c++)
		f[c] = p->column[c] < p->nr ? &p->fields[p->column[c]] : &none;
	op.allocate = is(f[OP], "A");
	if (!op.allocate && !is(f[OP], "R"))
		return bad(p, "not an operation; A allocates, R reads", f[OP]);
	if (!f[KEY]->len)
		return bad(p, "the key is missing", f[KEY]);
	/* a read has no use for it */
	if ((op.allocate || f[TOKENS]->len) && op_number(&op.tokens, f[TOKENS]) < 0)
		return bad(p, "not a number of tokens; give 0 to 4294967295", f[TOKENS]);
	text = kv_texts_add(p->texts, f[KEY]->at, f[KEY]->len);
	if (text < 0)
		return (int)text;
	op.key = (struct kv_key){.kind = KV_KEY_TEXT, .n = (uint64_t)text};
	return op_add_row(o, &op);
}

static int rows(struct parser *p, struct kv_ops *o)
{
	bool first = true;
	int r;

	while ((r = next_row(p)) > 0) {
		if (is_blank(p))
			continue;
		r = first ? header(p) : 0;
		first = false;
		if (r == 0)
			r = op_row(p, o);
		if (r < 0)
			break;
	}
	return r;
}

int kv_ops_parse(struct kv_ops *o, const char *text, size_t len, struct kv_texts *texts,
		 struct penstock_err *err)
{
	CLEANUP_FREE char *copy = malloc(len + 1);
	struct parser p = {.line = 1, .texts = texts, .err = err};
	int r;

	*o = (struct kv_ops){0};
	if (!copy)
		return penstock_fail(err, -ENOMEM, "out of memory");
	memcpy(copy, text, len);
	p.at = copy;
	p.end = copy + len;
	r = rows(&p, o);
	return r == -ENOMEM ? penstock_fail(err, r, "out of memory") : r;
}

void kv_ops_fini(struct kv_ops *o)
{
	free(o->v);
	*o = (struct kv_ops){0};
}
