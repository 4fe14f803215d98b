/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mooncake's JSON lines, one request each.  Every hash id is an object of one block of tokens: an
 * id the trace has had before is read, a new one is written.  What is kept of the past is the set
 * of ids, so memory grows with the number of different blocks and not with the length of the trace.
 * The last block of a request is as long as input_length leaves it, and has that size whenever it
 * comes again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/formats.h"
#include "load/trace/idset.h"
#include "load/trace/jsonscan.h"
#include "load/trace/numbers.h"
#include "load/trace/reader.h"

struct mooncake_in {
	uint64_t block_tokens, bytes_per_token;
	uint64_t input_length; /* 0: not known */
	uint64_t time_ns;
	int64_t request; /* number of the one whose ids are in @ids */
	struct id_list ids;
	size_t next; /* of them */
	struct idset seen;
	char key[PUT_U64_MAX];
};

/* "[1, 2, 3]": 0, -EINVAL or -ENOMEM. */
static int read_ids(struct mooncake_in *m, struct jscan *j)
{
	enum jscan_at it = JSCAN_BEGIN;
	char text[JSCAN_NUMBER];
	uint64_t id;
	int r;

	m->ids.nr = 0;
	while ((r = jscan_element(j, &it)) == 1) {
		if (!jscan_number(j, text) || !get_u64(&id, text, strlen(text)))
			return -EINVAL;
		if (id_list_add(&m->ids, id) < 0)
			return -ENOMEM;
	}
	return r;
}

static bool read_length(struct mooncake_in *m, struct jscan *j)
{
	char text[JSCAN_NUMBER];

	return jscan_number(j, text) && get_u64(&m->input_length, text, strlen(text));
}

static bool read_time(struct mooncake_in *m, struct jscan *j)
{
	char text[JSCAN_NUMBER];

	return jscan_number(j, text) && trace_decimal(&m->time_ns, text, strlen(text), 6);
}

/* One line; 1, or what reader_bad() gives. */
static int read_request(struct trace_reader *r, char *line, size_t len, struct penstock_err *err)
{
	struct mooncake_in *m = r->state;
	struct jscan j = {.at = line, .end = line + len};
	enum jscan_at it = JSCAN_BEGIN;
	bool has_time = false, has_ids = false;
	char key[32];
	int n;

	while ((n = jscan_member(&j, &it, key, sizeof(key))) == 1) {
		if (!strcmp(key, "timestamp")) {
			has_time = read_time(m, &j);
			if (!has_time)
				return reader_bad(r, r->s.line,
						  "the timestamp is not a number of "
						  "milliseconds");
		} else if (!strcmp(key, "hash_ids")) {
			n = read_ids(m, &j);
			if (n == -ENOMEM)
				return penstock_fail(err, n, "out of memory");
			if (n < 0)
				return reader_bad(r, r->s.line,
						  "hash_ids is not a list of numbers");
			has_ids = true;
		} else if (!strcmp(key, "input_length")) {
			if (!read_length(m, &j))
				return reader_bad(r, r->s.line,
						  "input_length is not a number of tokens");
		} else if (!jscan_skip(&j)) {
			break;
		}
	}
	if (j.failed || jscan_next(&j) >= 0)
		return reader_bad(r, r->s.line, "is not a JSON object");
	if (!has_time || !has_ids)
		return reader_bad(r, r->s.line, "has no %s", has_time ? "hash_ids" : "timestamp");
	m->request++;
	return 1;
}

/* Of the next id: a whole block, or at the end what is left of the input. */
static uint32_t next_tokens(const struct mooncake_in *m)
{
	uint64_t before = m->next * m->block_tokens, whole = m->block_tokens;

	if (m->next + 1 < m->ids.nr || m->input_length <= before)
		return (uint32_t)whole;
	return (uint32_t)min_u64(m->input_length - before, whole);
}

static int next_request(struct trace_reader *r, struct penstock_err *err)
{
	struct mooncake_in *m = r->state;
	char *line;
	size_t len;
	int n;

	m->next = m->ids.nr = 0;
	m->input_length = 0;
	do {
		n = source_line(&r->s, &line, &len, err);
		if (n != 1)
			return n;
		while (len && (line[len - 1] == ' ' || line[len - 1] == '\t'))
			len--;
	} while (!len);
	r->row_line = r->s.line;
	if (r->o.raw && reader_keep(&r->raw, line, len) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	n = read_request(r, line, len, err);
	if (n != 1)
		m->ids.nr = 0;
	return n;
}

static int mooncake_in_next(struct trace_reader *r, struct trace_row *row, struct penstock_err *err)
{
	struct mooncake_in *m = r->state;
	uint32_t tokens;
	int n = 1;

	while (m->next == m->ids.nr && n == 1)
		n = next_request(r, err);
	if (n != 1)
		return n;
	*row = TRACE_ROW_INIT;
	tokens = next_tokens(m);
	n = idset_add_value(&m->seen, m->ids.v[m->next], &tokens);
	if (n < 0)
		return penstock_fail(err, n, "out of memory");
	row->op = n ? TRACE_WRITE : TRACE_READ;
	row->phase = n ? TRACE_PREFILL : TRACE_DECODE;
	row->time_ns = m->time_ns;
	row->size = tokens * m->bytes_per_token;
	row->request = m->request;
	row->key = m->key;
	row->key_len = (uint32_t)(put_u64(m->key, m->ids.v[m->next++]) - m->key);
	return 1;
}

static int mooncake_in_begin(struct trace_reader *r, struct penstock_err *err)
{
	struct mooncake_in *m = r->state;
	struct penstock_short_name short_name;
	uint64_t tokens = r->o.block_tokens ? r->o.block_tokens : TRACE_BLOCK_TOKENS, bytes;

	m->request = -1;
	if (!r->o.bytes_per_token && !r->o.ignore_size)
		return penstock_fail(
			err, -EINVAL,
			"%s: a mooncake trace has no sizes; give --bytes-per-token or --model",
			penstock_shorten_name(&short_name, source_path(&r->s)));
	m->block_tokens = tokens;
	m->bytes_per_token = r->o.bytes_per_token;
	if (tokens > UINT32_MAX || __builtin_mul_overflow(tokens, m->bytes_per_token, &bytes))
		return penstock_fail(err, -EINVAL,
				     "block-tokens: a block of %" PRIu64 " tokens of %" PRIu64
				     " bytes is too large",
				     tokens, r->o.bytes_per_token);
	return 0;
}

static void mooncake_in_fini(void *state)
{
	struct mooncake_in *m = state;

	free(m->ids.v);
	idset_fini(&m->seen);
}

const struct trace_input trace_mooncake_input = {
	.state_size = sizeof(struct mooncake_in),
	.columns = TRACE_COL_REQUEST,
	.begin = mooncake_in_begin,
	.next = mooncake_in_next,
	.fini = mooncake_in_fini,
};
