/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several parts.  When a request starts depends on the workers that are free, and so on what
 * all the others do; by how much, to the microsecond, on the rows that the cache makes of them.  So
 * on the virtual clock a part runs the whole, beside a cache of all: what it passes on is then just
 * what one alone would start, when it would.
 */

#include "base/util.h"
#include "load/model/kv_load_internal.h"

static int follow_emit(void *arg, const struct kv_event *ev)
{
	struct kv_load *l = arg;

	l->row_ns += ev->type == KV_EV_MISS ? 0 : KV_US;
	return 0;
}

int kv_part_init(struct kv_load *l)
{
	struct kv_params p = *l->p;
	struct kv_cache_opts o;

	l->max_requests = p.max_requests;
	l->own_row_ns = p.epoch_ns;
	if (p.parts < 2)
		return 0;
	if (p.asked_cpu_gb > 0) /* what a machine has is not the same for all parts */
		p.cpu_gb = p.asked_cpu_gb;
	kv_params_cache(&p, kv_params_storage(&p), true, &o);
	return kv_cache_new(&l->undivided_cache, &o, follow_emit, l);
}

/* What came before takes its time on the clock of all, too. */
static void fill_whole(struct kv_load *l)
{
	uint64_t limit = kv_cache_limit(l->undivided_cache, KV_NVME);
	struct kv_key key;
	uint32_t tokens;
	int r = 0;

	l->row_ns = l->p->epoch_ns;
	for (uint64_t i = 0; r >= 0 && kv_prepop(l->p, limit, i, &key, &tokens); i++)
		r = kv_cache_allocate(l->undivided_cache, key, tokens);
	l->part_error = r < 0 ? r : 0;
}

void kv_part_begin(struct kv_load *l, bool live)
{
	const struct kv_params *p = l->p;

	if (p->parts < 2)
		return;
	l->own_only = live;
	if (!live) {
		fill_whole(l);
		return;
	}
	l->workers = kv_load_workers(kv_params_own_users(p));
	l->max_requests = p->max_requests / p->parts + (p->part < p->max_requests % p->parts);
	if (p->max_requests && !l->max_requests)
		l->limit_ns = 0; /* none is left for this one */
}

void kv_part_follow(struct kv_load *l, const struct kv_request *r)
{
	struct kv_planned planned;
	int e = kv_plan(l, l->undivided_cache, r, NULL, NULL, &planned);

	l->part_error = e < 0 ? e : l->part_error;
}

uint64_t kv_part_queued(const struct kv_load *l)
{
	uint64_t parts = max_u64(l->p->parts, 1), nr = l->arrived;

	if (l->own_only && kv_load_is_recorded(l))
		nr /= parts;
	nr -= min_u64(nr, l->started); /* of which some may be ahead of the clock */
	/* All parts together have what the whole has. */
	return l->own_only ? nr : (nr + l->p->part) / parts;
}
