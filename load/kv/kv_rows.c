/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of operations that the model of a KV cache makes of recorded requests, on its virtual clock.
 */
#include "load/kv/kv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define KEY_ROOM (TRACE_KEY_MAX + KV_KEY_MAX)

/* A row of the model whose name has not been written yet. */
struct made_row {
	struct kv_key key;
	uint64_t time_ns, size;
	uint8_t op, phase, tier;
};

struct kv_rows {
	struct kv_params params;
	struct kv_texts *texts;
	struct kv_load *load;
	struct kv_cache *cache;
	struct made_row *made;
	uint32_t nr, room, pos;
	int64_t request, user;
	bool prepared;
	char *name;
};

static int rows_emit(void *arg, const struct kv_event *ev)
{
	static const uint8_t ops[] = {TRACE_WRITE, TRACE_READ, TRACE_DELETE};
	static const uint8_t phases[] = {TRACE_PREFILL, TRACE_DECODE, TRACE_EVICT};
	struct kv_rows *s = arg;

	if (ev->type == KV_EV_MISS)
		return 0;
	if (ARRAY_ROOM(s->made, s->room, s->nr + 1) < 0)
		return -ENOMEM;
	s->made[s->nr++] = (struct made_row){.key = ev->key,
					     .time_ns = kv_load_row(s->load),
					     .size = ev->size,
					     .op = ops[ev->type],
					     .phase = phases[ev->phase],
					     .tier = ev->tier};
	return 0;
}

/* What is in the cache before. */
static int rows_prepare(struct kv_rows *s)
{
	uint64_t limit = kv_cache_limit(s->cache, KV_NVME);
	uint32_t tokens;
	struct kv_key key;
	int r = 0;

	for (uint64_t i = 0; r >= 0 && kv_prepop(&s->params, limit, i, &key, &tokens); i++)
		r = kv_cache_allocate(s->cache, key, tokens);
	return r < 0 ? r : 0;
}

/* The rows of the next request.  1, 0 at the end, or -errno. */
static int plan_next(struct kv_rows *s)
{
	struct kv_planned planned;
	struct kv_request q;
	int r;

	s->pos = s->nr = 0;
	if (!s->prepared) {
		s->prepared = true;
		r = rows_prepare(s);
		return r < 0 ? r : 1;
	}
	r = kv_load_next(s->load, &q);
	if (r <= 0)
		return r;
	s->request = q.type == KV_REQ_INGEST ? -1 : (int64_t)q.id;
	s->user = q.type == KV_REQ_INGEST ? -1 : (int64_t)q.user;
	r = kv_plan(s->load, s->cache, &q, NULL, NULL, &planned);
	return r < 0 ? r : 1;
}

static int rows_next(void *state, struct trace_row *row, struct sluice_err *err)
{
	struct kv_rows *s = state;
	const struct made_row *m;
	size_t len;
	int r;

	while (s->pos == s->nr) {
		r = plan_next(s);
		if (r <= 0)
			return r ? sluice_fail(err, r, "the model: %s", strerror(-r))
				 : kv_load_error(s->load, err);
	}
	m = &s->made[s->pos++];
	len = kv_key_format(s->name, KEY_ROOM, m->key, s->texts);
	if (len >= KEY_ROOM)
		return sluice_fail(err, -EINVAL, "a key has %zu bytes; at most %d are possible",
				   len, TRACE_KEY_MAX);
	*row = TRACE_ROW_INIT;
	row->time_ns = m->time_ns;
	row->size = m->size;
	row->key = s->name;
	row->key_len = (uint32_t)len;
	row->op = m->op;
	row->phase = m->phase;
	row->tier = m->tier;
	row->request = s->request;
	row->user = s->user;
	return 1;
}

static int rows_model_open(struct kv_rows *s, struct sluice_err *err)
{
	struct kv_cache_opts o;

	s->texts = kv_texts_new();
	s->name = malloc(KEY_ROOM);
	kv_params_cache(&s->params, kv_params_storage(&s->params), true, &o);
	if (!s->texts || !s->name || kv_cache_new(&s->cache, &o, rows_emit, s) < 0)
		return sluice_fail(err, -ENOMEM, "out of memory");
	return kv_load_new(&s->load, &s->params, s->texts, err);
}

static const struct trace_bad *rows_bad(const void *state)
{
	const struct kv_rows *s = state;

	return kv_load_bad(s->load);
}

static void rows_close(void *state)
{
	struct kv_rows *s = state;

	kv_load_free(s->load);
	kv_cache_free(s->cache);
	kv_texts_free(s->texts);
	free(s->made);
	free(s->name);
	free(s);
}

static int rows_open(void **state, const void *arg, struct sluice_err *err)
{
	struct kv_rows *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return sluice_fail(err, -ENOMEM, "out of memory");
	s->params = *(const struct kv_params *)arg;
	r = rows_model_open(s, err);
	if (r < 0)
		rows_close(s);
	else
		*state = s;
	return r;
}

struct trace_maker kv_rows_maker(const struct kv_params *p)
{
	return (struct trace_maker){
		.format = p->burst_path ? TRACE_BURSTGPT : TRACE_SHAREGPT,
		.arg = p,
		.open = rows_open,
		.next = rows_next,
		.bad = rows_bad,
		.close = rows_close,
	};
}
