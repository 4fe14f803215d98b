/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing here waits for anything: operations take no time. */
#include "load/kv/kv_simulator.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"

#define KEY_BYTES_MAX (TRACE_KEY_MAX + KV_KEY_MAX)

int kv_simulator_open(struct kv_simulator *v, const struct kv_params *p, kv_emit *emit, void *arg,
		      struct penstock_err *err)
{
	*v = (struct kv_simulator){.params = p, .row = TRACE_ROW_INIT};
	v->texts = kv_texts_new();
	v->name = malloc(KEY_BYTES_MAX);
	kv_params_cache(p, kv_params_storage(p), true, &v->opts);
	if (!v->texts || !v->name || kv_cache_new(&v->cache, &v->opts, emit, arg) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return kv_load_new(&v->load, p, v->texts, err);
}

void kv_simulator_close(struct kv_simulator *v)
{
	kv_load_free(v->load);
	kv_cache_free(v->cache);
	kv_texts_free(v->texts);
	free(v->name);
}

int kv_simulator_prepare(struct kv_simulator *v, const atomic_int *stop)
{
	uint64_t limit = kv_cache_limit(v->cache, KV_NVME);
	uint32_t tokens;
	struct kv_key key;
	int r = 0;

	for (uint64_t i = 0;
	     r >= 0 && !asked_to_stop(stop) && kv_prepop(v->params, limit, i, &key, &tokens); i++)
		r = kv_cache_allocate(v->cache, key, tokens);
	return r < 0 ? r : 0;
}

void kv_simulator_request(struct kv_simulator *v, const struct kv_request *q)
{
	bool document = q->type == KV_REQ_INGEST;

	v->row.request = document ? -1 : (int64_t)q->id;
	v->row.user = document ? -1 : (int64_t)q->user;
}

static int virtual_name(struct kv_simulator *v, struct kv_key key, struct penstock_err *err)
{
	size_t len = kv_key_format(v->name, KEY_BYTES_MAX, key, v->texts);

	if (len >= KEY_BYTES_MAX)
		return penstock_fail(err, -EINVAL, "a key has %zu bytes; at most %d are possible",
				     len, TRACE_KEY_MAX);
	v->key = key;
	v->row.key = v->name;
	v->row.key_len = (uint32_t)len;
	return 0;
}

int kv_simulator_row(struct kv_simulator *v, const struct kv_event *ev, uint64_t time_ns,
		     struct penstock_err *err)
{
	static const uint8_t ops[] = {TRACE_WRITE, TRACE_READ, TRACE_DELETE};
	static const uint8_t phases[] = {TRACE_PREFILL, TRACE_DECODE, TRACE_EVICT};
	bool named = v->row.key && kv_key_equal(ev->key, v->key);

	v->row.time_ns = time_ns;
	v->row.op = ops[ev->type];
	v->row.phase = phases[ev->phase];
	v->row.tier = ev->tier;
	v->row.size = ev->size;
	return named ? 0 : virtual_name(v, ev->key, err);
}
