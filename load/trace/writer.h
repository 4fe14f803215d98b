/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_WRITER_H
#define PENSTOCK_TRACE_WRITER_H

/* Inside of a writer: what the formats share. */
#include "load/trace/sink.h"
#include "load/trace/trace.h"

struct trace_writer;

/* One format.  The functions return 0 or -errno. */
struct trace_output {
	size_t state_size; /* zeroed */
	int (*begin)(struct trace_writer *w, struct penstock_err *err);
	int (*row)(struct trace_writer *w, const struct trace_row *row, struct penstock_err *err);
	int (*end)(struct trace_writer *w, struct penstock_err *err); /* optional: the last bytes */
	void (*fini)(void *state);                                    /* optional */
};

struct trace_writer {
	struct sink sink;
	int (*row)(struct trace_writer *w, const struct trace_row *row, struct penstock_err *err);
	struct trace_writer_opts o;
	const struct trace_output *out;
	void *state;
	/* Where times count from the first row: its own, and how many rows are earlier. */
	uint64_t first_ns, early;
};

extern const struct trace_output trace_kv_output;
extern const struct trace_output trace_mooncake_output;
extern const struct trace_output trace_fio_output;
extern const struct trace_output trace_oplog_output;

#endif
