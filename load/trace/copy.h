/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_COPY_H
#define PENSTOCK_TRACE_COPY_H

/* A trace from one file to another: in another format, or a part of it. */
#include <stdatomic.h>

#include "load/trace/trace.h"

/* What a format has no place for. */
enum trace_loss {
	TRACE_LOSS_ROW,   /* all of the row: no such operation */
	TRACE_LOSS_EMPTY, /* all of the row: 0 bytes */
	TRACE_LOSS_TIME,  /* what is shorter than the format's unit of time */
	TRACE_LOSS_EPOCH, /* when it was: times count from the first row */
	TRACE_LOSS_EARLY, /* the time of rows earlier than that */
	TRACE_LOSS_OP,
	TRACE_LOSS_SIZE,
	TRACE_LOSS_OFFSET,
	TRACE_LOSS_TIER,
	TRACE_LOSS_PHASE,
	TRACE_LOSS_NAME, /* the object has another name */
	TRACE_LOSS_REQUEST,
	TRACE_LOSS_USER, /* and QoS */
	TRACE_LOSS_DURATION,
	TRACE_LOSS_THREAD,
	TRACE_LOSS_FAILED,
	TRACE_LOSSES
};
extern const char *const trace_loss_texts[TRACE_LOSSES];
/* Bits of what a writer with these options would lose of a row that was read as @from. */
unsigned trace_losses(const struct trace_writer_opts *o, enum trace_format from,
		      const struct trace_row *row);
/* What a reader of that format leaves out, in words; NULL: nothing. */
const char *trace_left_out(enum trace_format format);

struct trace_point {
	bool given, relative; /* relative: to the time of the first row */
	uint64_t ns;
};

struct trace_copy {
	const char *in, *out;
	struct trace_reader_opts reader;
	struct trace_writer_opts writer; /* format TRACE_AUTO: that of the input */
	struct trace_point from, to;     /* rows at @from and later, before @to */
	double share;  /* of the keys, by hash; 0: all.  All rows of a key stay together. */
	uint64_t seed; /* of the hash: another sample */
	unsigned tier; /* for rows without one; TRACE_NO_TIER: stay so */
	const atomic_int *stop;
	/* what came of it */
	enum trace_format format; /* of the input */
	bool raw;                 /* rows were copied as they are */
	bool output_failed;       /* of an error: it was the output's */
	char unknown[256];        /* columns that are lost as nobody here knows them: "'Foo'" */
	uint64_t rows_in, rows_out;
	uint64_t lost[TRACE_LOSSES]; /* rows */
	struct trace_bad bad;
};
/* The output is created when the input has turned out to be a trace. */
int trace_copy(struct trace_copy *c, struct penstock_err *err);

#endif
