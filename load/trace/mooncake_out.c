/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mooncake's JSON lines.  Rows that follow each other with the same request and time become one
 * line; others, and all rows where requests are not known, a line each.  A key that is a number is
 * the hash id, any other one becomes one by a hash of 53 bits, which JSON can hold.
 */
#include "load/trace/formats.h"

#include <errno.h>
#include <stdlib.h>

#include "base/keyhash.h"
#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/writer.h"

struct mooncake_out {
	bool begun; /* a line is being put together */
	int64_t request;
	uint64_t time_ns, block_tokens;
	struct id_list ids;
};

int id_list_add(struct id_list *l, uint64_t id)
{
	if (ARRAY_RESERVE(l->v, l->capacity, l->nr + 1) < 0)
		return -ENOMEM;
	l->v[l->nr++] = id;
	return 0;
}

bool mooncake_id(uint64_t *out, const char *key, size_t len)
{
	if (get_u64(out, key, len) && (*key != '0' || len == 1))
		return true;
	*out = penstock_key_hash(key, len, 0) >> 11;
	return false;
}

/* Milliseconds, with as many decimals as it takes. */
static char *put_ms(char *to, uint64_t ns)
{
	to = put_u64(to, ns / 1000000);
	if (ns % 1000000) {
		*to++ = '.';
		to = put_6(to, (uint32_t)(ns % 1000000));
		while (to[-1] == '0')
			to--;
	}
	return to;
}

/* The line that was put together, in pieces: it may be longer than a record. */
static int put_line(struct trace_writer *w, struct penstock_err *err)
{
	struct mooncake_out *m = w->state;
	char *to = sink_reserve(&w->sink, 256, err);

	if (!to)
		return sink_error(&w->sink);
	to = put_ms(PUT_TEXT(to, "{\"timestamp\": "), m->time_ns);
	to = put_u64(PUT_TEXT(to, ", \"input_length\": "), m->ids.nr * m->block_tokens);
	to = PUT_TEXT(to, ", \"output_length\": 0, \"hash_ids\": [");
	for (size_t i = 0; i < m->ids.nr; i++) {
		sink_commit(&w->sink, to);
		to = sink_reserve(&w->sink, 64, err);
		if (!to)
			return sink_error(&w->sink);
		to = i ? PUT_TEXT(to, ", ") : to;
		to = put_u64(to, m->ids.v[i]);
	}
	sink_commit(&w->sink, PUT_TEXT(to, "]}\n"));
	m->ids.nr = 0;
	return 0;
}

static int mooncake_out_row(struct trace_writer *w, const struct trace_row *row,
			    struct penstock_err *err)
{
	struct mooncake_out *m = w->state;
	uint64_t id;
	int r = 0;

	if (row->op > TRACE_WRITE)
		return 0;
	if (m->begun &&
	    (row->request < 0 || row->request != m->request || row->time_ns != m->time_ns))
		r = put_line(w, err);
	m->begun = true;
	m->request = row->request;
	m->time_ns = row->time_ns;
	mooncake_id(&id, row->key, row->key_len);
	return r < 0 ? r : id_list_add(&m->ids, id);
}

static int mooncake_out_begin(struct trace_writer *w, struct penstock_err *err)
{
	struct mooncake_out *m = w->state;

	(void)err;
	m->block_tokens = w->o.block_tokens ? w->o.block_tokens : TRACE_BLOCK_TOKENS;
	return 0;
}

static int mooncake_out_end(struct trace_writer *w, struct penstock_err *err)
{
	const struct mooncake_out *m = w->state;

	return m->begun ? put_line(w, err) : 0;
}

static void mooncake_out_fini(void *state)
{
	struct mooncake_out *m = state;

	free(m->ids.v);
}

const struct trace_output trace_mooncake_output = {
	.state_size = sizeof(struct mooncake_out),
	.begin = mooncake_out_begin,
	.row = mooncake_out_row,
	.end = mooncake_out_end,
	.fini = mooncake_out_fini,
};
