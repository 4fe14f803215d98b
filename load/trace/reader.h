/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_READER_H
#define PENSTOCK_TRACE_READER_H

/* Inside of a reader: what the formats share. */
#include "load/trace/source.h"
#include "load/trace/trace.h"

struct trace_reader;

/* One format. */
struct trace_input {
	size_t state_size; /* zeroed */
	unsigned columns;  /* of the extra ones of kv, those its rows may fill: TRACE_COL_* */
	/* Read what is before the first row.  0 or -errno. */
	int (*begin)(struct trace_reader *r, struct penstock_err *err);
	/*
	 * 1 and all of @row; 0 at the end; what reader_bad() returned for a row that is none; or
	 * another -errno, of the source.
	 */
	int (*next)(struct trace_reader *r, struct trace_row *row, struct penstock_err *err);
	void (*fini)(void *state); /* optional */
};

struct trace_reader {
	struct source s;
	int (*next)(struct trace_reader *r, struct trace_row *row, struct penstock_err *err);
	void *state;
	uint64_t row_line; /* first line of the row */
	struct trace_reader_opts o;
	const struct trace_input *in;
	enum trace_format format;
	unsigned columns;      /* as struct trace_input.columns; of a kv trace those it has */
	char unknown[256];     /* columns of the file that nobody here knows: "'Foo', 'Bar'" */
	void *generator_state; /* the generator's */
	struct trace_bad bad;
	bool torn_reported;
	struct reader_text {
		char *text;
		size_t len, capacity;
	} raw, header; /* with opts.raw: as they are in the file, without the newline */
	char why[160]; /* what is wrong with the row */
};

/* The row that begins in @line is none, and why not. */
int reader_bad(struct trace_reader *r, uint64_t line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* One more, in words if it is one of the first. */
void trace_bad_add(struct trace_bad *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What a message shows of a row must not look like another line. */
void trace_printable(char *text);
/* "%.*s" of a field that may hold anything, cut to what fits into a message. */
#define READER_SHOW_MAX 40
#define READER_SHOW(field) \
	(int)((field).len < READER_SHOW_MAX ? (field).len : READER_SHOW_MAX), (field).at

/* Keep the text of a row, or of the header.  0 or -ENOMEM. */
int reader_keep(struct reader_text *t, const char *text, size_t len);

/* What the beginning looks like; TRACE_AUTO: like nothing known. */
enum trace_format trace_detect_source(struct source *s);

extern const struct trace_input trace_kv_input;
extern const struct trace_input trace_mooncake_input;
extern const struct trace_input trace_fio_input;
extern const struct trace_input trace_oplog_input;

#endif
