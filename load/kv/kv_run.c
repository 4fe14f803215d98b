/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A KV-cache workload on real storage: requests are started when it is their time and a worker is
 * free, until the interval is over.  What is still under way then does not count.
 */
#include "load/kv/kv_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/kv/kv_result.h"
#include "load/measure/handle.h"
#include "load/measure/page_cache.h"
#include "load/measure/rank_barrier.h"

#define SLICE_NS     100000000ull  /* how soon a stop is noticed, and progress told */
#define MOST_PENDING (1u << 16)    /* operations of requests in the flow */
#define DRAIN_NS     2000000000ull /* upstream waits so long for each of its threads */

int kv_run_fail(struct kv_run *k, int code, const char *fmt, ...)
{
	va_list ap;

	if (k->failed)
		return k->failed;
	k->failed = k->err.code = code;
	va_start(ap, fmt);
	penstock_vprint_elided(k->err.msg, sizeof(k->err.msg), fmt, ap);
	va_end(ap);
	return code;
}

bool kv_run_stopped(const struct kv_run *k)
{
	return asked_to_stop(k->job->stop);
}

/* ------------------------------------------------------------------ completions */

static void kv_run_on_op(void *arg, const struct flow_done *d)
{
	struct kv_run *k = arg;
	struct kv_run_op *op = (struct kv_run_op *)(uintptr_t)d->tag;

	k->pending--;
	k->documents -= op->chain->kind == KV_CHAIN_INGEST;
	kv_run_count_op(k, op, d);
	if (k->hook && k->hook->done)
		k->hook->done(k->hook->arg, k, d);
}

void kv_run_chain_end(struct kv_run *k, struct kv_run_chain *w, uint64_t end_ns)
{
	if (w->kind == KV_CHAIN_REQUEST) {
		kv_run_count_request(k, w, end_ns);
		if (k->live)
			kv_load_done(k->load, &w->req, end_ns - k->begin_ns);
	}
	k->active -= w->kind == KV_CHAIN_REQUEST || w->kind == KV_CHAIN_FILL;
	if (w->kind != KV_CHAIN_CLEAN)
		k->last_end_ns = max_u64(k->last_end_ns, end_ns);
	kv_run_chain_free(k, w);
}

static void kv_run_on_chain(void *arg, uint64_t tag, uint64_t end_ns)
{
	kv_run_chain_end(arg, (struct kv_run_chain *)(uintptr_t)tag, end_ns);
}

int kv_run_wait(struct kv_run *k, uint64_t until_ns)
{
	struct flow_handler h = {kv_run_on_op, kv_run_on_chain, k};

	flow_wait(k->flow, until_ns, &h);
	if (k->failed)
		return k->failed;
	return kv_run_clean(k);
}

/* --------------------------------------------------------------------- dispatch */

static bool has_worker(const struct kv_run *k)
{
	return k->active < k->workers && k->pending - k->documents < MOST_PENDING;
}

/* What is planned first is started first: requests may read what documents write. */
static void start_one(struct kv_run *k, const struct kv_request *r)
{
	if (r->type == KV_REQ_INGEST)
		kv_run_add_document(k, r);
	else if (kv_run_start_documents(k) == 0)
		kv_run_start_request(k, r);
}

/* In the order of the virtual clock.  Returns when to look again; a chain's end is one more. */
static uint64_t start_seed(struct kv_run *k, uint64_t now_ns)
{
	while (!k->failed) {
		if (!k->has_next && !k->load_over) {
			k->has_next = kv_load_next(k->load, &k->next) == 1;
			k->load_over = !k->has_next;
		}
		if (!k->has_next)
			return UINT64_MAX;
		if (k->next.type != KV_REQ_INGEST && k->begin_ns + k->next.start_ns > now_ns)
			return k->begin_ns + k->next.start_ns;
		if (k->next.type != KV_REQ_INGEST && !has_worker(k))
			return UINT64_MAX;
		k->has_next = false;
		start_one(k, &k->next);
	}
	return 0;
}

/* The queue by priority, on the real clock. */
static uint64_t start_live(struct kv_run *k, uint64_t now_ns)
{
	struct kv_request req;
	uint64_t next;

	do {
		kv_load_advance(k->load, now_ns - k->begin_ns, &next);
		if (!has_worker(k))
			return UINT64_MAX;
		if (next > now_ns - k->begin_ns || !kv_load_pop(k->load, &req))
			break;
		start_one(k, &req);
	} while (!k->failed);
	k->load_over = kv_load_exhausted(k->load);
	return next == UINT64_MAX ? next : k->begin_ns + next;
}

static uint64_t dispatch(struct kv_run *k, uint64_t now_ns)
{
	uint64_t due = k->live ? start_live(k, now_ns) : start_seed(k, now_ns);

	kv_run_start_documents(k);
	return due;
}

/* --------------------------------------------------------------------- interval */

static void kv_run_report_progress(struct kv_run *k, uint64_t now_ns)
{
	const struct kv_counts *n = &k->r->counts;

	if (!k->job->progress || now_ns < k->progress_ns)
		return;
	k->progress_ns = now_ns + SLICE_NS;
	k->job->progress(k->job->progress_arg, (double)(now_ns - k->begin_ns) / 1e9, k->r->requests,
			 n->total_read_bytes + n->total_write_bytes);
}

/* Has the interval ended, and when? */
static bool interval_over(struct kv_run *k, uint64_t now_ns, uint64_t *end_ns)
{
	uint64_t limit = k->begin_ns + kv_load_limit(k->load);

	*end_ns = min_u64(now_ns, limit);
	if (k->failed)
		return true;
	if (now_ns >= limit || k->scale_stop)
		return true;
	if (kv_run_stopped(k)) {
		kv_result_partial(k->r, "interrupted");
		return true;
	}
	if (!k->load_over || k->chains || !kv_load_exhausted(k->load))
		return false;
	*end_ns = k->last_end_ns;
	return true;
}

static void interval_begin(struct kv_run *k)
{
	k->begin_ns = k->progress_ns = k->last_end_ns = rank_barrier_wait();
	getrusage(RUSAGE_SELF, &k->before);
	k->until_ns = k->p->policy.counts_late ? UINT64_MAX : k->begin_ns + kv_load_limit(k->load);
	k->tick_sec = 1;
	k->measuring = true;
	/* in seed order the whole has decided who works: no part may be slower by itself */
	k->workers = kv_load_workers(k->live ? kv_params_own_users(k->p) : k->p->users);
	kv_run_scale_begin(k);
}

/* Returns when the interval ended. */
static uint64_t kv_run_interval(struct kv_run *k)
{
	uint64_t now, due, end;

	interval_begin(k);
	for (now = k->begin_ns; !interval_over(k, now, &end); now = clock_ns()) {
		kv_run_count_seconds(k, now);
		kv_run_scale_tick(k, now);
		kv_run_report_progress(k, now);
		due = dispatch(k, now);
		due = min_u64(due, k->begin_ns + kv_load_limit(k->load));
		due = min_u64(due, k->begin_ns + k->tick_sec * KV_RUN_SEC);
		due = min_u64(due, min_u64(kv_run_scale_due(k), now + SLICE_NS));
		if (!interval_over(k, now, &end))
			kv_run_wait(k, due);
	}
	return end;
}

/* ------------------------------------------------------------------------- end */

static void series_end(struct kv_run *k, unsigned i, const struct flow_stats *f)
{
	static const char *const names[] = {"storage read", "storage write"};
	struct kv_result *r = k->r;
	struct run_series *s = &r->series[i];

	snprintf(s->name, sizeof(s->name), "%s", names[i]);
	s->read = i == 0;
	s->opts = k->job->opts;
	s->sec = r->elapsed_sec;
	series_turn(s, k->begin_ns, (uint64_t)(s->sec * 1e9));
	s->user_sec = r->cpu_user_sec;
	s->system_sec = r->cpu_system_sec;
	s->run_bytes = r->series[0].bytes + r->series[1].bytes;
	s->stats = f->io;
	s->library_sec = (double)(f->io.cpu_ns - k->stats.io.cpu_ns) / 1e9;
	s->file = f->file;
	s->buf = f->buf;
	if (k->pl.opts[KV_NVME].kind == PLACE_BUCKET)
		page_cache_describe_remote(s->cache);
	else
		page_cache_describe_objects(s->cache, s->read,
					    k->job->durability != PENSTOCK_DURABLE_NONE, &r->path,
					    &f->io);
	s->verify = k->job->verify;
	s->verified_bytes = i == 0 ? f->verified : 0;
	s->partial = r->partial;
	memcpy(s->partial_why, r->partial_why, sizeof(s->partial_why));
	series_finish(s);
}

/* What is known when the interval is over. */
static void interval_end(struct kv_run *k, uint64_t end_ns)
{
	struct kv_result *r = k->r;
	struct flow_stats f;

	flow_get_stats(k->flow, &f);
	r->storage_bytes[0] = f.bytes_read - k->stats.bytes_read;
	r->storage_bytes[1] = f.bytes_written - k->stats.bytes_written;
	cpu_time_since(&k->before, &r->cpu_user_sec, &r->cpu_system_sec);
	r->elapsed_sec = (double)(end_ns - k->begin_ns) / 1e9;
	r->memory_bytes = kv_cache_memory(k->cache) + kv_load_memory(k->load);
	kv_result_tiers(r, k->cache);
	kv_run_count_seconds(k, end_ns);
	if (!k->p->policy.counts_late)
		k->until_ns = end_ns;
}

/* Upstream waits for what its threads are doing, and counts it. */
static void drain(struct kv_run *k)
{
	uint64_t until = clock_ns() + DRAIN_NS * k->workers;

	while (k->chains && !k->failed && !kv_run_stopped(k) && clock_ns() < until)
		kv_run_wait(k, min_u64(until, clock_ns() + SLICE_NS));
}

static void stop_all(struct kv_run *k)
{
	struct flow_handler h = {kv_run_on_op, kv_run_on_chain, k};

	k->until_ns = min_u64(k->until_ns, clock_ns());
	flow_abort(k->flow);
	while (flow_wait(k->flow, UINT64_MAX, &h))
		;
}

/* What only the store knows of its tier, with nothing under way any more. */
static void kv_run_store_end(struct kv_run *k)
{
	struct kv_result *r = k->r;

	r->has_store = place_store_stats(k->places[KV_NVME], &r->store);
	r->has_remote = place_object_stats(k->places[KV_NVME], &r->remote);
	if (!r->has_store)
		return;
	r->entries[KV_NVME] = r->store.entries;
	r->used[KV_NVME] = r->store.value_bytes;
	r->limit[KV_NVME] = k->pl.storage;
}

static void kv_run_all(struct kv_run *k)
{
	struct flow_stats f;
	struct penstock_err err;
	int r;

	if (kv_run_fill(k) < 0)
		return;
	flow_get_stats(k->flow, &k->stats);
	interval_end(k, kv_run_interval(k));
	if (k->p->policy.counts_late && !k->failed)
		drain(k);
	stop_all(k);
	r = kv_load_error(k->load, &err);
	if (r < 0)
		kv_run_fail(k, r, "%s", err.msg);
	if (k->hook && k->hook->end)
		k->hook->end(k->hook->arg, k);
	if (k->failed)
		kv_result_partial(k->r, k->err.msg);
	kv_run_store_end(k);
	flow_get_stats(k->flow, &f);
	k->r->bytes_written = f.bytes_written;
	series_end(k, 0, &f);
	series_end(k, 1, &f);
}

int kv_run_hooked(const struct kv_job *job, const struct kv_run_hook *hook, struct kv_result *r,
		  struct penstock_err *err)
{
	struct kv_run k = {.job = job, .p = job->params, .hook = hook, .r = r};
	uint64_t begin = clock_ns();
	int e, closed;

	k.live = job->order == KV_ORDER_LIVE || k.p->policy.live || k.p->closed_loop ||
		 k.p->autoscale;
	e = kv_run_open(&k, err);
	if (e == 0)
		kv_run_all(&k);
	if (k.failed) {
		*err = k.err;
		e = k.failed;
	}
	kv_run_scale_end(&k);
	closed = kv_run_close(&k, e < 0 ? NULL : err);
	r->wall_sec = (double)(clock_ns() - begin) / 1e9;
	return e < 0 ? e : closed;
}

int kv_run_storage(const struct kv_job *job, struct kv_result *r, struct penstock_err *err)
{
	struct penstock_err local;

	return kv_run_hooked(job, NULL, r, err ? err : &local);
}
