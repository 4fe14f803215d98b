/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSV of MLPerf's kv-cache benchmark.  Rows as the benchmark writes them go through
 * fast_row(), which looks at eight bytes at a time and gives up at the first thing it did not
 * expect; everything else (quotes, other orders of columns, mistakes) goes through table_row(),
 * which knows how to complain.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/formats.h"
#include "load/trace/numbers.h"
#include "load/trace/table.h"

struct kv_in {
	unsigned fast; /* 4 or 6: the columns are those, in order; 0: not */
	struct table table;
};

/* -------------------------------------------------------------------- fast */

static inline uint64_t load8(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

#define BYTES(a, b, c, d, e, f, g, h)                                                     \
	((uint64_t)(a) | (uint64_t)(b) << 8 | (uint64_t)(c) << 16 | (uint64_t)(d) << 24 | \
	 (uint64_t)(e) << 32 | (uint64_t)(f) << 40 | (uint64_t)(g) << 48 | (uint64_t)(h) << 56)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fast_row() reads numbers as text");

static const uint32_t pow10s[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* 1 to 16 digits; NULL when there are none.  Of more, those behind are left. */
static inline const char *fast_number(uint64_t *out, const char *p)
{
	uint64_t text = load8(p);
	unsigned n = nr_digits(text);

	if (!n)
		return NULL;
	*out = eight_digits(text << (64 - 8 * n));
	p += n;
	if (n < 8)
		return p;
	text = load8(p);
	n = nr_digits(text);
	if (!n)
		return p;
	*out = *out * pow10s[n] + eight_digits(text << (64 - 8 * n));
	return p + n;
}

/* "1794705084.739724" */
static inline const char *fast_time(uint64_t *out, const char *p)
{
	uint64_t seconds, text;
	unsigned n;

	p = fast_number(&seconds, p);
	if (!p || *p != '.' || seconds > UINT32_MAX)
		return NULL;
	text = load8(++p);
	n = nr_digits(text);
	if (!n)
		return NULL;
	*out = seconds * 1000000000 +
	       (uint64_t)eight_digits(text << (64 - 8 * n)) * 10 * pow10s[8 - n];
	return p + n;
}

/* ",Read," or ",Write," */
static inline const char *fast_op(uint8_t *out, const char *p)
{
	uint64_t text = load8(p);

	if (text << 16 == BYTES(0, 0, ',', 'R', 'e', 'a', 'd', ',')) {
		*out = TRACE_READ;
		return p + 6;
	}
	if (text << 8 == BYTES(0, ',', 'W', 'r', 'i', 't', 'e', ',')) {
		*out = TRACE_WRITE;
		return p + 7;
	}
	return NULL;
}

/* Of the bytes before @end: ",Decode" and the like.  Returns where the comma is. */
static inline const char *fast_phase(uint8_t *out, const char *end)
{
	uint64_t text = load8(end - 8);

	if (text >> 8 == BYTES(',', 'D', 'e', 'c', 'o', 'd', 'e', 0)) {
		*out = TRACE_DECODE;
		return end - 7;
	}
	if (text == BYTES(',', 'P', 'r', 'e', 'f', 'i', 'l', 'l')) {
		*out = TRACE_PREFILL;
		return end - 8;
	}
	if (text >> 16 == BYTES(',', 'E', 'v', 'i', 'c', 't', 0, 0)) {
		*out = TRACE_EVICT;
		return end - 6;
	}
	return NULL;
}

/* @nl is the newline behind the row; at least SOURCE_PAD bytes behind it can be read. */
static inline bool fast_row(struct trace_row *row, const char *p, const char *nl, unsigned columns)
{
	const char *end = nl - (nl[-1] == '\r');
	const char *comma;
	uint64_t tier;

	p = fast_time(&row->time_ns, p);
	if (!p)
		return false;
	p = fast_op(&row->op, p);
	if (!p)
		return false;
	p = fast_number(&row->size, p);
	if (!p)
		return false;
	tier = load8(p) ^ BYTES(',', 'T', 'i', 'e', 'r', '-', '0', 0);
	if ((tier & 0xfcffffffffffff) || (tier >> 48 & 3) == 3)
		return false;
	row->tier = (uint8_t)(tier >> 48 & 3);
	p += 7;
	if (columns == KV_FOUR)
		return p == end;
	if (*p++ != ',')
		return false;
	comma = fast_phase(&row->phase, end);
	if (!comma || comma < p || *p == '"' || comma - p > TRACE_KEY_MAX)
		return false;
	row->key = p;
	row->key_len = (uint32_t)(comma - p);
	return !memchr(p, ',', row->key_len);
}

/* -------------------------------------------------------------------- slow */

static int word_of(struct csv_field f, const char *const *words, int nr)
{
	for (int i = 0; i < nr; i++)
		if (field_is(f, words[i]))
			return i;
	return -1;
}

static bool get_tier(uint8_t *out, struct csv_field f)
{
	static const char *const words[] = {"Tier-0", "Tier-1", "Tier-2"};
	int i = word_of(f, words, TRACE_TIERS);

	*out = f.len ? (uint8_t)i : TRACE_NO_TIER;
	return i >= 0 || !f.len;
}

/* Empty: not known. */
static bool get_known(int64_t *out, struct csv_field f)
{
	uint64_t v;

	*out = -1;
	if (!f.len)
		return true;
	if (!get_u64(&v, f.at, f.len) || v > INT64_MAX)
		return false;
	*out = (int64_t)v;
	return true;
}

static bool get_optional(uint64_t *out, struct csv_field f)
{
	*out = 0;
	return !f.len || get_u64(out, f.at, f.len);
}

/* One field, by the number of its column. */
static bool kv_csv_get_field(struct trace_row *row, int column, struct csv_field f)
{
	int64_t v = -1;
	int i;

	switch (column) {
	case KV_COL_TIME:
		return trace_decimal(&row->time_ns, f.at, f.len, 9);
	case KV_COL_OP:
		i = word_of(f, trace_op_names, TRACE_OPS);
		row->op = (uint8_t)i;
		return i >= 0;
	case KV_COL_SIZE:
		return get_u64(&row->size, f.at, f.len);
	case KV_COL_TIER:
		return get_tier(&row->tier, f);
	case KV_COL_KEY:
		row->key = f.at;
		row->key_len = (uint32_t)min_u64(f.len, UINT32_MAX);
		return f.len <= TRACE_KEY_MAX;
	case KV_COL_PHASE:
		i = word_of(f, trace_phase_names, TRACE_PHASES);
		row->phase = (uint8_t)i;
		return i >= 0;
	case KV_COL_REQUEST:
		return get_known(&row->request, f);
	case KV_COL_USER:
		return get_known(&row->user, f);
	case KV_COL_OFFSET:
		return get_optional(&row->offset, f);
	case KV_COL_DURATION:
		return get_optional(&row->duration_ns, f);
	case KV_COL_THREAD:
		if (!get_known(&v, f) || v > INT32_MAX)
			return false;
		row->thread = (int32_t)v;
		return true;
	case KV_COL_FAILED:
		row->failed = field_is(f, "1") || field_is(f, "true");
		return row->failed || !f.len || field_is(f, "0") || field_is(f, "false");
	case KV_COL_QOS:
		i = word_of(f, trace_qos_words, KV_QOS_WORDS);
		row->qos = (int8_t)i;
		return i >= 0 || !f.len;
	}
	return false;
}

static int kv_in_next(struct trace_reader *r, struct trace_row *row, struct penstock_err *err)
{
	const struct kv_in *k = r->state;
	char *p = r->s.at, *nl = memchr(p, '\n', (size_t)(r->s.end - p));

	/* The shortest row of all is longer than that; fast_phase() looks at eight bytes. */
	*row = TRACE_ROW_INIT;
	if (k->fast && nl && nl - p > 16 && fast_row(row, p, nl, k->fast)) {
		r->s.at = nl + 1;
		r->row_line = ++r->s.line;
		if (r->o.raw && reader_keep(&r->raw, p, (size_t)(nl - p)) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		return 1;
	}
	return table_row(r, &k->table, row, kv_csv_get_field, err);
}

/* ------------------------------------------------------------------ header */

/* Without a header, as a part of a file is: the columns are the first so many. */
static int no_header(struct table *t, const char *line, size_t len, struct penstock_err *err)
{
	CLEANUP_FREE char *copy = malloc(len + 1);
	struct csv_field f[CSV_FIELDS];

	if (!copy)
		return penstock_fail(err, -ENOMEM, "out of memory");
	memcpy(copy, line, len);
	t->nr = csv_split(copy, len, ',', f);
	t->need = t->nr < KV_SIX ? t->nr : KV_SIX;
	for (int i = 0; i < KV_COLUMNS; i++)
		t->at[i] = i < t->need ? i : -1;
	return 0;
}

static bool in_order(const struct table *t)
{
	for (int i = 0; i < KV_COLUMNS; i++)
		if (t->at[i] != (i < t->nr ? i : -1))
			return false;
	return t->nr == KV_FOUR || t->nr == KV_SIX;
}

static int kv_in_begin(struct trace_reader *r, struct penstock_err *err)
{
	static const int needed[] = {KV_COL_TIME, KV_COL_OP, KV_COL_SIZE};
	struct kv_in *k = r->state;
	struct table *t = &k->table;
	size_t len;
	int n = source_find(&r->s, 0, &len, err);

	*t = (struct table){.separator = ',', .names = trace_kv_columns, .nr_names = KV_COLUMNS};
	if (n == 1 && is_digit(*r->s.at))
		n = no_header(t, r->s.at, len, err);
	else
		n = table_header(r, t, needed, ARRAY_SIZE(needed), "a kv trace", err);
	k->fast = n == 0 && in_order(t) ? (unsigned)t->nr : 0;
	for (unsigned i = KV_SIX; i < KV_COLUMNS; i++)
		r->columns |= t->at[i] >= 0 ? KV_COLUMN_BIT(i) : 0;
	return n;
}

const struct trace_input trace_kv_input = {
	.state_size = sizeof(struct kv_in),
	.begin = kv_in_begin,
	.next = kv_in_next,
};
