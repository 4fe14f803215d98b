/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row by row.  Where the format stays and rows are lines, their text is copied as it is: columns
 * that nobody here knows stay, too.
 */
#include "load/trace/copy.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/keyhash.h"
#include "base/util.h"
#include "load/trace/reader.h"
#include "load/trace/writer.h"

struct copier {
	struct trace_copy *c;
	struct trace_reader *r;
	struct trace_writer *w;
	uint64_t below; /* hashes of keys that stay; 0: all */
	uint64_t from_ns, to_ns;
	uint64_t line; /* of the row that was copied as it is */
	struct trace_writer_opts wo;
};

/* The window, once the first row tells where the trace begins. */
static void set_window(struct copier *p, uint64_t begin_ns)
{
	const struct trace_point *from = &p->c->from, *to = &p->c->to;

	if (from->given)
		p->from_ns = from->ns;
	if (from->given && from->relative &&
	    __builtin_add_overflow(begin_ns, from->ns, &p->from_ns))
		p->from_ns = UINT64_MAX;
	p->to_ns = to->given ? to->ns : UINT64_MAX;
	if (to->given && to->relative && __builtin_add_overflow(begin_ns, to->ns, &p->to_ns))
		p->to_ns = UINT64_MAX;
}

static bool is_wanted(const struct copier *p, const struct trace_row *row)
{
	if (row->time_ns < p->from_ns || (p->c->to.given && row->time_ns >= p->to_ns))
		return false;
	return !p->below || penstock_key_hash(row->key, row->key_len, p->c->seed) < p->below;
}

static int copy_raw(struct copier *p, struct penstock_err *err)
{
	const char *text;
	size_t len;

	/* Several rows may come from one line. */
	if (p->line == trace_reader_line(p->r))
		return 0;
	p->line = trace_reader_line(p->r);
	trace_reader_raw(p->r, &text, &len);
	return trace_write_raw(p->w, text, len, err);
}

static int copy_row(struct copier *p, struct trace_row *row, struct penstock_err *err)
{
	unsigned lost;

	int n;

	p->c->rows_out++;
	if (p->c->raw) {
		n = copy_raw(p, err);
	} else {
		if (row->tier == TRACE_NO_TIER)
			row->tier = (uint8_t)p->c->tier;
		for (lost = trace_losses(&p->wo, p->c->format, row); lost; lost &= lost - 1)
			p->c->lost[__builtin_ctz(lost)]++;
		n = trace_write(p->w, row, err);
	}
	p->c->output_failed = n < 0;
	return n;
}

static int copy_all(struct copier *p, struct penstock_err *err)
{
	struct trace_copy *c = p->c;
	struct trace_row row;
	int n;

	while ((n = trace_read(p->r, &row, err)) == 1) {
		if (!c->rows_in++)
			set_window(p, row.time_ns);
		if (is_wanted(p, &row)) {
			n = copy_row(p, &row, err);
			if (n < 0)
				return n;
		}
		if (asked_to_stop(c->stop))
			return penstock_fail(err, -EINTR, "stopped");
	}
	c->lost[TRACE_LOSS_EPOCH] = p->w->first_ns > 0;
	c->lost[TRACE_LOSS_EARLY] = p->w->early;
	return n;
}

/* The same format, and nothing that a row's text would not have. */
static bool can_be_raw(const struct trace_copy *c, enum trace_format from, enum trace_format to)
{
	bool lines =
		from == TRACE_KV || from == TRACE_OPLOG || (from == TRACE_MOONCAKE && !c->share);

	return from == to && lines && !c->writer.extended && !c->writer.lf &&
	       c->tier == TRACE_NO_TIER;
}

static int open_output(struct copier *p, struct penstock_err *err)
{
	struct trace_copy *c = p->c;
	const char *head;
	size_t len;
	int n;

	c->format = trace_reader_format(p->r);
	if (p->wo.format == TRACE_AUTO)
		p->wo.format = c->format;
	c->raw = can_be_raw(c, c->format, p->wo.format);
	p->wo.raw = p->r->o.raw = c->raw;
	if (p->wo.extended && !p->wo.columns)
		p->wo.columns = p->r->columns;
	if (!c->raw)
		snprintf(c->unknown, sizeof(c->unknown), "%s", p->r->unknown);
	n = trace_writer_open(&p->w, c->out, &p->wo, err);
	trace_reader_header(p->r, &head, &len);
	if (n == 0 && c->raw && len)
		n = trace_write_raw(p->w, head, len, err);
	c->output_failed = n < 0;
	return n;
}

int trace_copy(struct trace_copy *c, struct penstock_err *err)
{
	struct copier p = {.c = c, .wo = c->writer, .to_ns = UINT64_MAX};
	struct trace_reader_opts ro = c->reader;
	struct penstock_err second;
	int n, closed;

	if (c->share > 0 && c->share < 1)
		p.below = (uint64_t)(c->share * 18446744073709551616.0);
	ro.raw = true; /* for the header; rows are kept when they are needed */
	ro.ignore_size = c->writer.format == TRACE_AUTO || c->writer.format == TRACE_MOONCAKE;
	n = trace_reader_open(&p.r, c->in, &ro, err);
	if (n == 0)
		n = open_output(&p, err);
	if (n == 0)
		n = copy_all(&p, err);
	if (p.r)
		c->bad = *trace_reader_bad(p.r);
	closed = trace_writer_close(p.w, n < 0 ? &second : err);
	trace_reader_close(p.r);
	if (n == 0 && closed < 0)
		c->output_failed = true;
	return n < 0 ? n : closed;
}
