/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operation log of sai3-bench and warp: TAB-separated, columns named in the header, times of
 * RFC 3339, comments behind #.
 */

#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/formats.h"
#include "load/trace/numbers.h"
#include "load/trace/table.h"

const char *const trace_oplog_columns[OPLOG_COLUMNS] = {
	"idx",  "thread", "op",    "client_id",  "n_objects", "bytes",       "endpoint",
	"file", "error",  "start", "first_byte", "end",       "duration_ns",
};

/* What they are called, and what they are here. */
static const struct {
	const char *word;
	enum trace_op op;
} ops[] = {
	{"GET", TRACE_READ},     {"PUT", TRACE_WRITE},     {"DELETE", TRACE_DELETE},
	{"STAT", TRACE_STAT},    {"LIST", TRACE_LIST},     {"HEAD", TRACE_STAT},
	{"READ", TRACE_READ},    {"WRITE", TRACE_WRITE},   {"PUTPART", TRACE_WRITE},
	{"UPLOAD", TRACE_WRITE}, {"METADATA", TRACE_STAT},
};

static bool get_op(uint8_t *out, struct csv_field f)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (field_is(f, ops[i].word)) {
			*out = (uint8_t)ops[i].op;
			return true;
		}
	}
	return false;
}

/* Empty: 0. */
static bool get_number(uint64_t *out, struct csv_field f, uint64_t max)
{
	*out = 0;
	return !f.len || (get_u64(out, f.at, f.len) && *out <= max);
}

static bool op_log_get_field(struct trace_row *row, int column, struct csv_field f)
{
	uint64_t v;

	switch (column) {
	case OPLOG_THREAD:
		if (!get_number(&v, f, INT32_MAX))
			return false;
		row->thread = (int32_t)v;
		return true;
	case OPLOG_OP:
		return get_op(&row->op, f);
	case OPLOG_BYTES:
		return get_number(&row->size, f, UINT64_MAX);
	case OPLOG_FILE:
		row->key = f.at;
		row->key_len = (uint32_t)f.len;
		return f.len <= TRACE_KEY_MAX;
	case OPLOG_ERROR:
		row->failed = f.len > 0;
		return true;
	case OPLOG_START:
		return trace_time_parse(&row->time_ns, f.at, f.len);
	case OPLOG_DURATION:
		return !f.len || get_number(&row->duration_ns, f, UINT64_MAX);
	case OPLOG_END: /* for logs without durations; comes before those */
		if (f.len && !trace_time_parse(&v, f.at, f.len))
			return false;
		row->duration_ns = f.len && v > row->time_ns ? v - row->time_ns : 0;
		return true;
	default:
		return true;
	}
}

static int op_in_next(struct trace_reader *r, struct trace_row *row, struct penstock_err *err)
{
	return table_row(r, r->state, row, op_log_get_field, err);
}

static int op_in_begin(struct trace_reader *r, struct penstock_err *err)
{
	static const int needed[] = {OPLOG_OP, OPLOG_BYTES, OPLOG_FILE, OPLOG_START};
	struct table *t = r->state;

	*t = (struct table){.separator = '\t',
			    .comment = '#',
			    .names = trace_oplog_columns,
			    .nr_names = OPLOG_COLUMNS};
	return table_header(r, t, needed, ARRAY_SIZE(needed), "an operation log", err);
}

const struct trace_input trace_oplog_input = {
	.state_size = sizeof(struct table),
	.columns = TRACE_COL_DURATION | TRACE_COL_THREAD | TRACE_COL_FAILED,
	.begin = op_in_begin,
	.next = op_in_next,
};
