/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a trace: opens the file and hands rows to the format's own function. */
#include "load/trace/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/digits.h"

const char *const trace_op_names[TRACE_OPS] = {"Read", "Write", "Delete", "Stat", "List"};
const char *const trace_phase_names[TRACE_PHASES] = {"", "Prefill", "Decode", "Evict", "Both"};
const char *const trace_format_names[TRACE_FORMATS + 1] = {
	"auto", "kv", "mooncake", "burstgpt", "sharegpt", "fio", "oplog", NULL,
};

static const struct trace_output *const outputs[TRACE_FORMATS] = {
	[TRACE_AUTO] = &trace_kv_output,           [TRACE_KV] = &trace_kv_output,
	[TRACE_MOONCAKE] = &trace_mooncake_output, [TRACE_FIO] = &trace_fio_output,
	[TRACE_OPLOG] = &trace_oplog_output,
};

static bool ends_in_zst(const char *path)
{
	size_t len = strlen(path);

	return len >= 4 && !strcmp(path + len - 4, ".zst");
}

int trace_writer_open(struct trace_writer **out, const char *path,
		      const struct trace_writer_opts *o, struct penstock_err *err)
{
	CLEANUP_FREE struct trace_writer *w = calloc(1, sizeof(*w));
	CLEANUP_FREE void *state = NULL;
	struct sink_opts so = {
		.level = o->zstd_level, .reproducible = o->reproducible, .fd = o->fd};
	struct penstock_err ignored;
	int r;

	if (!w)
		return penstock_fail(err, -ENOMEM, "out of memory");
	w->o = *o;
	w->out = outputs[o->format];
	if (!w->out)
		return penstock_fail(err, -ENOTSUP,
				     "a trace cannot be written as %s, which is a "
				     "list of requests, not of operations",
				     trace_format_names[o->format]);
	w->row = w->out->row;
	w->state = state = calloc(1, w->out->state_size);
	if (!state)
		return penstock_fail(err, -ENOMEM, "out of memory");
	so.zstd = o->pack == TRACE_PACK_ZSTD || (o->pack == TRACE_PACK_NAME && ends_in_zst(path));
	r = sink_open(&w->sink, path, &so, err);
	if (r < 0)
		return r;
	r = o->raw ? 0 : w->out->begin(w, err);
	if (r < 0) {
		sink_close(&w->sink, &ignored);
		return r;
	}
	TAKE_PTR(state);
	*out = TAKE_PTR(w);
	return 0;
}

int trace_write(struct trace_writer *w, const struct trace_row *row, struct penstock_err *err)
{
	if (row->key_len > TRACE_KEY_MAX)
		return penstock_fail(err, -EINVAL, "a key of %u bytes is longer than %d",
				     row->key_len, TRACE_KEY_MAX);
	return w->row(w, row, err);
}

int trace_write_raw(struct trace_writer *w, const char *text, size_t len, struct penstock_err *err)
{
	char *to;

	while (len > SINK_RECORD_MAX - 1) {
		to = sink_reserve(&w->sink, SINK_RECORD_MAX, err);
		if (!to)
			return sink_error(&w->sink);
		sink_commit(&w->sink, put_bytes(to, text, SINK_RECORD_MAX));
		text += SINK_RECORD_MAX;
		len -= SINK_RECORD_MAX;
	}
	to = sink_reserve(&w->sink, len + 1, err);
	if (!to)
		return sink_error(&w->sink);
	to = put_bytes(to, text, len);
	*to++ = '\n';
	sink_commit(&w->sink, to);
	return 0;
}

int trace_writer_close(struct trace_writer *w, struct penstock_err *err)
{
	struct penstock_err second;
	int r = 0, closed;

	if (!w)
		return 0;
	if (w->out->end && !w->o.raw)
		r = w->out->end(w, err);
	closed = sink_close(&w->sink, r < 0 ? &second : err);
	if (w->out->fini)
		w->out->fini(w->state);
	free(w->state);
	free(w);
	return r < 0 ? r : closed;
}
