/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ShareGPT: one JSON array of conversations, hundreds of megabytes long.  Only as many as are
 * asked for are read.  Messages are taken in pairs; a pair of a human's and the model's is a
 * request.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/jsonscan.h"
#include "load/trace/requests.h"

enum { ID_MAX = 1024 };

struct message {
	enum { OTHER, HUMAN, GPT } from;
	uint64_t chars;
	bool whole; /* it says who and what */
};

struct loader {
	struct jscan j;
	struct request_list list;
	const struct trace_sharegpt_opts *o;
	struct trace_bad *bad;
	struct request_origin at;
	uint64_t item; /* from 1 */
	bool listed;   /* the item has its list */
	int failed;    /* -errno: told already */
};

static bool item_bad(struct loader *l, const char *why)
{
	l->failed = request_bad(l->bad, &l->at, l->item, l->j.err, "%s", why);
	return l->failed == 0;
}

static bool sharegpt_no_memory(struct loader *l)
{
	l->failed = penstock_fail(l->j.err, -ENOMEM, "out of memory");
	return false;
}

static uint32_t tokens(uint64_t chars, uint32_t per_token, uint32_t cap)
{
	uint64_t n = max_u64(chars / (per_token ? per_token : 4), 1);

	return (uint32_t)min_u64(n, cap ? cap : UINT32_MAX);
}

/* A string; what is something else is passed over. */
static bool text_or_other(struct jscan *j, char *out, size_t size, uint64_t *chars, int *texts)
{
	if (jscan_next(j) != '"')
		return jscan_skip(j);
	++*texts;
	return jscan_string(j, out, size, chars);
}

static bool read_message(struct jscan *j, struct message *m)
{
	enum jscan_at it = JSCAN_BEGIN;
	char key[16], from[16] = "";
	int r, texts = 0;

	*m = (struct message){OTHER, 0, false};
	if (jscan_next(j) != '{')
		return jscan_skip(j);
	while ((r = jscan_member(j, &it, key, sizeof(key))) == 1) {
		bool ok = !strcmp(key, "from") ? text_or_other(j, from, sizeof(from), NULL, &texts)
			  : !strcmp(key, "value") ? text_or_other(j, NULL, 0, &m->chars, &texts)
						  : jscan_skip(j);

		if (!ok)
			return false;
	}
	m->whole = texts >= 2;
	m->from = !strcmp(from, "human") ? HUMAN : !strcmp(from, "gpt") ? GPT : OTHER;
	return r == 0;
}

static bool is_request(const struct message m[2])
{
	return m[0].whole && m[0].from == HUMAN && m[1].whole && m[1].from == GPT;
}

/* Requests are added at once; their id comes when it is known. */
static bool read_messages(struct loader *l)
{
	enum jscan_at it = JSCAN_BEGIN;
	struct message m[2];
	int r;

	if (jscan_next(&l->j) != '[')
		return jscan_skip(&l->j);
	l->listed = true;
	for (uint32_t i = 0; (r = jscan_element(&l->j, &it)) == 1; i++) {
		struct trace_request req = {.turn = i / 2 + 1};

		if (!read_message(&l->j, &m[i & 1]))
			return false;
		if (!m[i & 1].whole && !item_bad(l, "a message has no text 'from' and 'value'"))
			return false;
		if (!(i & 1) || !is_request(m))
			continue;
		req.context = tokens(m[0].chars, l->o->chars_per_token, l->o->max_context);
		req.generate = tokens(m[1].chars, l->o->chars_per_token, l->o->max_generation);
		if (request_add(&l->list, &req, 0) < 0)
			return sharegpt_no_memory(l);
	}
	return r == 0;
}

static bool read_id(struct jscan *j, char id[ID_MAX])
{
	int c = jscan_next(j);

	if (c == '"')
		return jscan_string(j, id, ID_MAX, NULL);
	if (c == '-' || (c >= '0' && c <= '9'))
		return jscan_number(j, id);
	return jscan_skip(j);
}

static bool read_conversation(struct loader *l, uint32_t index)
{
	size_t first = l->list.nr, text;
	enum jscan_at it = JSCAN_BEGIN;
	char key[16], id[ID_MAX];
	int r;

	l->item = index + 1ull;
	l->listed = false;
	if (jscan_next(&l->j) != '{')
		return jscan_skip(&l->j) && item_bad(l, "is not an object");
	snprintf(id, sizeof(id), "conv_%" PRIu32, index);
	while ((r = jscan_member(&l->j, &it, key, sizeof(key))) == 1) {
		bool ok = !strcmp(key, "id")              ? read_id(&l->j, id)
			  : !strcmp(key, "conversations") ? read_messages(l)
							  : jscan_skip(&l->j);

		if (!ok)
			return false;
	}
	if (r < 0)
		return false;
	if (!l->listed)
		return item_bad(l, "has no list 'conversations'");
	if (first == l->list.nr)
		return true;
	if (request_text(&l->list, id, &text) < 0)
		return sharegpt_no_memory(l);
	for (size_t i = first; i < l->list.nr; i++)
		l->list.v[i].text = text;
	return true;
}

static int sharegpt_read_all(struct loader *l, const char *path, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	enum jscan_at it = JSCAN_BEGIN;
	bool ok = true;
	int r = 0;

	for (uint32_t i = 0; ok && i < l->o->max_conversations; i++) {
		r = jscan_element(&l->j, &it);
		if (r != 1)
			break;
		ok = read_conversation(l, i);
	}
	if (l->failed < 0)
		return l->failed;
	if (l->j.error < 0)
		return l->j.error;
	if (ok && r >= 0)
		return 0;
	return penstock_fail(err, -EINVAL, "%s: line %" PRIu64 ": not the JSON of ShareGPT%s",
			     penstock_shorten_name(&short_name, path), l->j.source->line + 1,
			     l->j.source->torn     ? ": " SOURCE_TORN
			     : l->j.at == l->j.end ? ": it ends too early"
						   : "");
}

int trace_sharegpt_load(struct trace_request **out, size_t *nr, const char *path,
			const struct trace_sharegpt_opts *o, struct trace_bad *bad,
			struct penstock_err *err)
{
	struct trace_bad unseen = {.nr = 0};
	struct loader l = {
		.o = o, .bad = bad ? bad : &unseen, .at = {.path = path, .unit = "item"}};
	struct source s;
	int r = source_open(&s, path, err);

	if (r < 0)
		return r;
	l.j = (struct jscan){.at = s.at, .end = s.end, .source = &s, .err = err};
	r = sharegpt_read_all(&l, path, err);
	if (r == 0 && request_finish(&l.list, out, nr) < 0)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	request_list_fini(&l.list);
	source_close(&s);
	return r;
}
