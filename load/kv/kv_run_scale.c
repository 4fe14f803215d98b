/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler of a real run: fed with what the storage tier did since the last sample. */
#include <errno.h>
#include <math.h>

#include "load/kv/kv_result.h"
#include "load/kv/kv_run.h"

static uint64_t tick_ns(const struct kv_run *k)
{
	return k->hook && k->hook->scale_ns ? k->hook->scale_ns : (uint64_t)(KV_SCALE_SEC * 1e9);
}

int kv_run_scale_begin(struct kv_run *k)
{
	k->r->users_start = k->r->users_end = k->r->users_peak = kv_params_own_users(k->p);
	if (!k->p->autoscale)
		return 0;
	if (kv_scale_init(&k->scale, k->p) < 0)
		return kv_run_fail(k, -ENOMEM, "out of memory");
	k->scaling = true;
	k->scale_at_ns = k->begin_ns;
	return 0;
}

void kv_run_scale_end(struct kv_run *k)
{
	kv_scale_fini(&k->scale);
	for (int i = 0; i < 2; i++)
		samples_fini(&k->window[i]);
}

static double p95_ms(struct samples *s)
{
	double p = samples_percentile(s, 95);

	samples_fini(s);
	return isnan(p) ? 0 : p * 1e3;
}

static void kv_run_set_users(struct kv_run *k, uint64_t now_ns)
{
	if (k->p->policy.scales_number_only)
		return; /* upstream changes a number, not the load */
	kv_load_set_users(k->load, k->scale.users, now_ns - k->begin_ns);
	k->workers = kv_load_workers(k->scale.users);
}

uint64_t kv_run_scale_due(const struct kv_run *k)
{
	return k->scaling ? k->scale_at_ns + tick_ns(k) : UINT64_MAX;
}

void kv_run_scale_tick(struct kv_run *k, uint64_t now_ns)
{
	struct kv_scale_sample s = {.queued = 0};
	enum kv_scale_action action;

	if (now_ns < kv_run_scale_due(k))
		return;
	s.queued = kv_load_queued(k->load);
	if (k->p->policy.averages_since_start) {
		k->scale_at_ns = k->begin_ns;
		k->scale_tokens = 0;
	}
	s.tokens_per_sec = (double)(k->r->tokens - k->scale_tokens) /
			   ((double)(now_ns - k->scale_at_ns) / 1e9);
	s.read_p95_ms = p95_ms(&k->window[0]);
	s.write_p95_ms = p95_ms(&k->window[1]);
	k->scale_at_ns = now_ns;
	k->scale_tokens = k->r->tokens;
	action = kv_scale_feed(&k->scale, &s);
	if (kv_result_scaled(k->r, &k->scale, action, (double)(now_ns - k->begin_ns) / 1e9, &s) < 0)
		kv_run_fail(k, -ENOMEM, "out of memory");
	if (action == KV_SCALE_STOP)
		k->scale_stop = true;
	else if (action != KV_SCALE_HOLD)
		kv_run_set_users(k, now_ns);
}
