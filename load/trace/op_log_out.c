/* SPDX-License-Identifier: Apache-2.0 */
/* The operation log of sai3-bench and warp; what a row does not know stays empty. */
#include <string.h>

#include "load/trace/digits.h"
#include "load/trace/formats.h"
#include "load/trace/numbers.h"
#include "load/trace/quote.h"
#include "load/trace/writer.h"

struct op_out {
	uint64_t idx;
};

enum { FIXED_BYTES_MAX = 512 };

static char *put_known(char *to, uint64_t v)
{
	to = put_u64(to, v);
	*to++ = '\t';
	return to;
}

static int op_out_row(struct trace_writer *w, const struct trace_row *row, struct penstock_err *err)
{
	static const char *const ops[TRACE_OPS] = {"GET\t", "PUT\t", "DELETE\t", "STAT\t",
						   "LIST\t"};
	struct op_out *o = w->state;
	char *to = sink_reserve(&w->sink, FIXED_BYTES_MAX + QUOTE_BYTES_MAX(row->key_len), err);

	if (!to)
		return sink_error(&w->sink);
	to = put_known(to, o->idx++);
	to = put_known(to, row->thread > 0 ? (uint64_t)row->thread : 0);
	to = put_bytes(to, ops[row->op], strlen(ops[row->op]));
	to = PUT_TEXT(to, "\t1\t"); /* one object, of a client without a name */
	to = put_known(to, row->size);
	*to++ = '\t';
	to = put_field(to, row->key, row->key_len, '\t');
	*to++ = '\t';
	to = row->failed ? PUT_TEXT(to, "failed\t") : PUT_TEXT(to, "\t");
	to = trace_time_put(to, row->time_ns);
	to = PUT_TEXT(to, "\t\t");
	to = trace_time_put(to, row->time_ns + row->duration_ns);
	*to++ = '\t';
	to = put_u64(to, row->duration_ns);
	*to++ = '\n';
	sink_commit(&w->sink, to);
	return 0;
}

static int op_out_begin(struct trace_writer *w, struct penstock_err *err)
{
	char *to = sink_reserve(&w->sink, FIXED_BYTES_MAX, err);

	for (int i = 0; i < OPLOG_COLUMNS; i++) {
		if (i)
			*to++ = '\t';
		to = put_bytes(to, trace_oplog_columns[i], strlen(trace_oplog_columns[i]));
	}
	*to++ = '\n';
	sink_commit(&w->sink, to);
	return 0;
}

const struct trace_output trace_oplog_output = {
	.state_size = sizeof(struct op_out),
	.begin = op_out_begin,
	.row = op_out_row,
};
