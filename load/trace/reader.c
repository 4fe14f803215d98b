/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a trace: finds out the format, hands over to the format's own function, and deals with
 * the rows that are none.
 */
#include "load/trace/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

static const struct trace_input *const inputs[TRACE_FORMATS] = {
	[TRACE_KV] = &trace_kv_input,
	[TRACE_MOONCAKE] = &trace_mooncake_input,
	[TRACE_FIO] = &trace_fio_input,
	[TRACE_OPLOG] = &trace_oplog_input,
};

void trace_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void trace_bad_add(struct trace_bad *b, const char *fmt, ...)
{
	va_list ap;

	if (b->nr < TRACE_BAD_TEXTS) {
		va_start(ap, fmt);
		vsnprintf(b->text[b->nr], sizeof(b->text[0]), fmt, ap);
		va_end(ap);
	}
	b->nr++;
}

int reader_bad(struct trace_reader *r, uint64_t line, const char *fmt, ...)
{
	va_list ap;

	r->row_line = line;
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	trace_printable(r->why);
	return -EBADMSG;
}

int reader_keep(struct reader_text *t, const char *text, size_t len)
{
	if (ARRAY_RESERVE(t->text, t->capacity, len) < 0)
		return -ENOMEM;
	if (len)
		memcpy(t->text, text, len);
	t->len = len;
	return 0;
}

/* Is it one that can be read as operations? */
static int pick_format(struct trace_reader *r, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	const char *path = penstock_shorten_name(&short_name, source_path(&r->s));

	r->format = trace_detect_source(&r->s);
	if (r->s.torn && r->s.at == r->s.end)
		return penstock_fail(err, -EINVAL, "%s: line 1: " SOURCE_TORN, path);
	if (r->o.format != TRACE_AUTO)
		r->format = r->o.format;
	if (r->format == TRACE_AUTO && r->s.at == r->s.end)
		return penstock_fail(err, -EINVAL, "%s: is empty", path);
	if (r->format == TRACE_AUTO)
		return penstock_fail(
			err, -EINVAL,
			"%s: does not look like a trace of a known format (kv, mooncake, "
			"burstgpt, sharegpt, fio, oplog)",
			path);
	r->in = inputs[r->format];
	if (!r->in)
		return penstock_fail(
			err, -ENOTSUP,
			"%s: holds requests (%s), not operations; make operations of them "
			"with 'penstock trace convert IN OUT.csv'",
			path, trace_format_names[r->format]);
	return 0;
}

static int reader_begin(struct trace_reader *r, struct penstock_err *err)
{
	int n = pick_format(r, err);

	if (n < 0)
		return n;
	r->next = r->in->next;
	r->columns = r->in->columns;
	r->state = calloc(1, r->in->state_size);
	if (!r->state)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return r->in->begin(r, err);
}

static int next_generated(struct trace_reader *r, struct trace_row *row, struct penstock_err *err)
{
	return r->o.generator->next(r->generator_state, row, err);
}

static int generator_begin(struct trace_reader *r, struct penstock_err *err)
{
	r->format = r->o.generator->format;
	r->next = next_generated;
	r->o.raw = false;
	return r->o.generator->open(&r->generator_state, r->o.generator->arg, err);
}

int trace_reader_open(struct trace_reader **out, const char *path,
		      const struct trace_reader_opts *o, struct penstock_err *err)
{
	struct trace_reader *r = calloc(1, sizeof(*r));
	int n;

	if (!r)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r->o = *o;
	if (o->generator) {
		n = generator_begin(r, err);
	} else {
		n = source_open(&r->s, path, err);
		if (n == 0)
			n = reader_begin(r, err);
	}
	if (n < 0)
		trace_reader_close(r);
	else
		*out = r;
	return n;
}

/* -EBADMSG where that ends it, 0 where it was counted. */
static int count_bad(struct trace_reader *r, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	if (r->o.strict)
		return penstock_fail(err, -EBADMSG, "%s: line %" PRIu64 ": %s",
				     penstock_shorten_name(&short_name, source_path(&r->s)),
				     r->row_line, r->why);
	trace_bad_add(&r->bad, "line %" PRIu64 ": %s", r->row_line, r->why);
	return 0;
}

/* The end of the file; one that was cut off is told as a row that is none. */
static int at_end(struct trace_reader *r, struct penstock_err *err)
{
	if (!r->s.torn || r->torn_reported)
		return 0;
	r->torn_reported = true;
	reader_bad(r, r->s.line + 1, SOURCE_TORN);
	return count_bad(r, err);
}

int trace_read(struct trace_reader *r, struct trace_row *row, struct penstock_err *err)
{
	for (;;) {
		int n = r->next(r, row, err);

		if (__builtin_expect(n == 1, 1))
			return 1;
		if (n == 0)
			return at_end(r, err);
		if (n == -E2BIG)
			n = reader_bad(r, r->s.line, "is longer than %u bytes", SOURCE_BYTES);
		if (n == -EBADMSG)
			n = count_bad(r, err);
		if (n < 0)
			return n;
	}
}

enum trace_format trace_reader_format(const struct trace_reader *r)
{
	return r->format;
}

uint64_t trace_reader_line(const struct trace_reader *r)
{
	return r->row_line;
}

const struct trace_bad *trace_reader_bad(const struct trace_reader *r)
{
	return r->o.generator ? r->o.generator->bad(r->generator_state) : &r->bad;
}

bool trace_reader_raw(const struct trace_reader *r, const char **text, size_t *len)
{
	*text = r->raw.text;
	*len = r->raw.len;
	return r->o.raw && r->format != TRACE_FIO;
}

void trace_reader_header(const struct trace_reader *r, const char **text, size_t *len)
{
	*text = r->header.text;
	*len = r->header.len;
}

void trace_reader_close(struct trace_reader *r)
{
	if (!r)
		return;
	if (r->in && r->in->fini && r->state)
		r->in->fini(r->state);
	if (r->generator_state)
		r->o.generator->close(r->generator_state);
	free(r->state);
	free(r->raw.text);
	free(r->header.text);
	if (!r->o.generator)
		source_close(&r->s);
	free(r);
}

int trace_detect(enum trace_format *out, const char *path, struct penstock_err *err)
{
	struct source s;
	int n = source_open(&s, path, err);

	if (n < 0)
		return n;
	*out = trace_detect_source(&s);
	source_close(&s);
	return 0;
}
