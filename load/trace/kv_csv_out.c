/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSV of MLPerf's kv-cache benchmark, as Python's csv module writes it: CRLF, quotes only
 * where a field needs them.  The extended form has more columns behind the six.
 */
#include <string.h>

#include "load/trace/digits.h"
#include "load/trace/formats.h"
#include "load/trace/quote.h"
#include "load/trace/writer.h"

const char *const trace_kv_columns[KV_COLUMNS] = {
	"Timestamp", "Operation", "Object_Size_Bytes", "Tier",   "Key",    "Phase", "Request",
	"User",      "Offset",    "Duration_ns",       "Thread", "Failed", "QoS",
};
_Static_assert(TRACE_COL_REQUEST == KV_COLUMN_BIT(KV_COL_REQUEST), "order of columns");
_Static_assert(TRACE_COL_FAILED == KV_COLUMN_BIT(KV_COL_FAILED), "order of columns");
_Static_assert(TRACE_COL_QOS == KV_COLUMN_BIT(KV_COL_QOS), "order of columns");
const char *const trace_qos_words[KV_QOS_WORDS] = {"interactive", "responsive", "batch"};

struct kv_out {
	uint64_t second; /* whose text this is: most rows have that of the row before */
	unsigned len;
	char text[PUT_U64_MAX];
	unsigned columns;
	const char *eol;
	unsigned eol_len;
};

enum { FIXED_BYTES_MAX = 512 }; /* all of a row but the key */

static char *put_time(struct kv_out *k, char *to, uint64_t ns)
{
	uint64_t second = ns / 1000000000;

	if (second != k->second) {
		k->second = second;
		k->len = (unsigned)(put_u64(k->text, second) - k->text);
	}
	memcpy(to, k->text, sizeof(k->text));
	to += k->len;
	*to++ = '.';
	return put_6(to, (uint32_t)(ns - second * 1000000000) / 1000);
}

static char *put_op(char *to, unsigned op)
{
	if (op == TRACE_READ)
		return PUT_TEXT(to, ",Read,");
	if (op == TRACE_WRITE)
		return PUT_TEXT(to, ",Write,");
	*to++ = ',';
	to = put_bytes(to, trace_op_names[op], strlen(trace_op_names[op]));
	*to++ = ',';
	return to;
}

static char *put_tier(char *to, unsigned tier)
{
	if (tier < TRACE_TIERS) {
		to = PUT_TEXT(to, ",Tier-");
		*to++ = (char)('0' + tier);
	} else {
		*to++ = ',';
	}
	*to++ = ',';
	return to;
}

static char *put_phase(char *to, unsigned phase)
{
	switch (phase) {
	case TRACE_PREFILL:
		return PUT_TEXT(to, ",Prefill");
	case TRACE_DECODE:
		return PUT_TEXT(to, ",Decode");
	case TRACE_EVICT:
		return PUT_TEXT(to, ",Evict");
	case TRACE_BOTH:
		return PUT_TEXT(to, ",Both");
	}
	*to++ = ',';
	return to;
}

/* Empty when it is not known. */
static char *put_known(char *to, int64_t v)
{
	*to++ = ',';
	return v < 0 ? to : put_u64(to, (uint64_t)v);
}

static char *put_extra(char *to, unsigned columns, const struct trace_row *row)
{
	if (columns & TRACE_COL_REQUEST)
		to = put_known(to, row->request);
	if (columns & TRACE_COL_USER)
		to = put_known(to, row->user);
	if (columns & TRACE_COL_OFFSET) {
		*to++ = ',';
		to = put_u64(to, row->offset);
	}
	if (columns & TRACE_COL_DURATION) {
		*to++ = ',';
		to = put_u64(to, row->duration_ns);
	}
	if (columns & TRACE_COL_THREAD)
		to = put_known(to, row->thread);
	if (columns & TRACE_COL_FAILED) {
		*to++ = ',';
		*to++ = row->failed ? '1' : '0';
	}
	if (columns & TRACE_COL_QOS) {
		*to++ = ',';
		if (row->qos >= 0 && row->qos < KV_QOS_WORDS)
			to = put_bytes(to, trace_qos_words[row->qos],
				       strlen(trace_qos_words[row->qos]));
	}
	return to;
}

static int kv_out_row(struct trace_writer *w, const struct trace_row *row, struct penstock_err *err)
{
	struct kv_out *k = w->state;
	char *to;

	if (row->op > TRACE_WRITE && !w->o.extended)
		return 0;
	to = sink_reserve(&w->sink, FIXED_BYTES_MAX + QUOTE_BYTES_MAX(row->key_len), err);
	if (!to)
		return sink_error(&w->sink);
	to = put_time(k, to, row->time_ns);
	to = put_op(to, row->op);
	to = put_u64(to, row->size);
	to = put_tier(to, row->tier);
	to = put_field(to, row->key, row->key_len, ',');
	to = put_phase(to, row->phase);
	if (k->columns)
		to = put_extra(to, k->columns, row);
	to = put_bytes(to, k->eol, k->eol_len);
	sink_commit(&w->sink, to);
	return 0;
}

static int kv_out_begin(struct trace_writer *w, struct penstock_err *err)
{
	struct kv_out *k = w->state;
	char *to = sink_reserve(&w->sink, FIXED_BYTES_MAX, err);

	k->second = UINT64_MAX;
	k->eol = w->o.lf ? "\n" : "\r\n";
	k->eol_len = (unsigned)strlen(k->eol);
	if (w->o.extended)
		k->columns = w->o.columns ? w->o.columns
					  : TRACE_COL_REQUEST | TRACE_COL_USER | TRACE_COL_QOS;
	for (unsigned i = 0; i < KV_COLUMNS; i++) {
		if (i >= KV_SIX && !(KV_COLUMN_BIT(i) & k->columns))
			continue;
		if (i)
			*to++ = ',';
		to = put_bytes(to, trace_kv_columns[i], strlen(trace_kv_columns[i]));
	}
	to = put_bytes(to, k->eol, k->eol_len);
	sink_commit(&w->sink, to);
	return 0;
}

const struct trace_output trace_kv_output = {
	.state_size = sizeof(struct kv_out),
	.begin = kv_out_begin,
	.row = kv_out_row,
};
