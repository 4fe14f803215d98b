/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counts.  An operation does when it completed without error inside the interval; a request
 * when its last operation did.  Upstream counts reads before they are done, keeps them when they
 * fail, and goes on counting after the end: compat.
 */
#include <errno.h>
#include <stdio.h>

#include "base/util.h"
#include "load/kv/kv_result.h"
#include "load/kv/kv_run.h"

static double sec_between(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e9 : 0;
}

static void kv_run_sample(struct kv_run *k, struct samples *s, double sec)
{
	if (samples_add(s, sec) < 0)
		kv_run_fail(k, -ENOMEM, "out of memory");
}

/* The second in which @at_ns lies; NULL when there is no memory for it. */
static struct kv_second *kv_run_second(struct kv_run *k, uint64_t at_ns)
{
	struct kv_second *s =
		per_second_at(&k->r->seconds, at_ns > k->begin_ns ? at_ns - k->begin_ns : 0);

	if (!s)
		kv_run_fail(k, -ENOMEM, "out of memory");
	return s;
}

void kv_run_count_seconds(struct kv_run *k, uint64_t now_ns)
{
	while (now_ns - k->begin_ns >= k->tick_sec * KV_RUN_SEC) {
		struct kv_second *s =
			kv_run_second(k, k->begin_ns + (k->tick_sec - 1) * KV_RUN_SEC);

		if (!s)
			return;
		s->queued = kv_load_queued_at(k->load, k->tick_sec * KV_RUN_SEC);
		s->in_flight = k->active;
		k->tick_sec++;
	}
}

/* ------------------------------------------------------------------- operations */

/* One half of an operation that moved data. */
struct half {
	enum kv_tier tier;
	bool write, evict;
	uint64_t size, ns, device_ns;
};

static void count_storage(struct kv_run *k, const struct half *h, uint64_t end_ns)
{
	struct kv_second *s = kv_run_second(k, end_ns);
	double sec = (double)h->ns / 1e9;

	if (series_add(&k->r->series[h->write], h->size, h->ns, end_ns - k->begin_ns) < 0)
		kv_run_fail(k, -ENOMEM, "out of memory");
	if (k->scaling)
		kv_run_sample(k, &k->window[h->write], sec);
	if (!s)
		return;
	s->read_ops += !h->write;
	s->write_ops += h->write;
	*(h->write ? &s->write_latency_sum : &s->read_latency_sum) += sec;
	if (h->evict && k->p->policy.hides_evictions)
		return;
	kv_run_sample(k, &k->r->device[h->write], (double)h->device_ns / 1e9);
	kv_run_sample(k, &k->r->host[h->write], (double)(h->ns - h->device_ns) / 1e9);
}

static void count_half(struct kv_run *k, const struct half *h, uint64_t end_ns)
{
	struct kv_second *s = kv_run_second(k, end_ns);
	double sec = (double)h->ns / 1e9;

	if (s)
		(h->write ? s->write_bytes : s->read_bytes)[h->tier] += h->size;
	if (h->evict && !h->ns)
		return; /* memory that the other half moved straight from or to */
	if (h->evict)
		kv_run_sample(k, &k->r->evict[h->tier][h->write], sec);
	if (!h->evict || !k->p->policy.hides_evictions)
		kv_run_sample(k, &k->r->tier[h->tier][h->write], sec);
	if (h->tier == KV_NVME)
		count_storage(k, h, end_ns);
}

static void count_event(struct kv_run *k, const struct kv_event *ev)
{
	kv_count(&k->r->counts, ev, &k->pl.cache);
}

static void kv_run_count_read(struct kv_run *k, const struct kv_run_op *op,
			      const struct flow_done *d)
{
	struct half h = {.tier = op->ev.tier,
			 .size = op->ev.size,
			 .ns = d->end_ns - d->start_ns,
			 .device_ns = d->device_ns};
	struct kv_second *s = kv_run_second(k, d->end_ns);

	count_event(k, &op->ev);
	k->r->turn_hits += op->ev.kind == KV_MULTI_TURN;
	if (s)
		s->hits++;
	count_half(k, &h, d->end_ns);
}

static void kv_run_count_write(struct kv_run *k, const struct kv_run_op *op,
			       const struct flow_done *d)
{
	const struct kv_run_chain *w = op->chain;
	struct half h = {.tier = op->ev.tier,
			 .write = true,
			 .size = op->ev.size,
			 .ns = d->end_ns - d->start_ns,
			 .device_ns = d->device_ns};

	count_event(k, &op->ev);
	count_half(k, &h, d->end_ns);
	if (op->step == KV_STEP_PREFILL && w->kind == KV_CHAIN_REQUEST)
		kv_run_sample(k, &k->r->prefill,
			      (double)h.ns / 1e9 +
				      (k->p->policy.hides_evictions ? 0 : w->alloc_sec));
}

static void count_move(struct kv_run *k, const struct kv_run_op *op, const struct flow_done *d)
{
	struct kv_event ev = op->ev;
	struct half from = {.tier = ev.tier,
			    .evict = true,
			    .size = ev.size,
			    .ns = d->read_ns,
			    .device_ns = d->read_device_ns};
	struct half to = {.tier = op->flow.to,
			  .write = true,
			  .evict = true,
			  .size = ev.size,
			  .ns = d->write_ns,
			  .device_ns = d->write_device_ns};

	count_event(k, &ev);
	ev.type = KV_EV_WRITE;
	ev.tier = op->flow.to;
	count_event(k, &ev);
	count_half(k, &from, d->end_ns);
	count_half(k, &to, d->end_ns);
}

/* Whatever the interval: what the request is the sum of. */
static void chain_add(const struct kv_run *k, struct kv_run_op *op, const struct flow_done *d)
{
	double sec = sec_between(d->start_ns, d->end_ns);
	struct kv_run_chain *w = op->chain;

	switch (op->flow.type) {
	case FLOW_PAUSE:
		w->generation_sec += sec;
		return;
	case FLOW_READ:
		w->decode_sec += op->step == KV_STEP_DECODE ? sec : 0;
		break;
	case FLOW_WRITE:
		w->alloc_sec = 0;
		break;
	default:
		w->alloc_sec += sec;
		if (k->p->policy.hides_evictions)
			return;
		break;
	}
	w->storage_sec += sec;
}

static void count_done(struct kv_run *k, const struct kv_run_op *op, const struct flow_done *d)
{
	switch (op->flow.type) {
	case FLOW_READ:
		kv_run_count_read(k, op, d);
		break;
	case FLOW_WRITE:
		kv_run_count_write(k, op, d);
		break;
	case FLOW_MOVE:
		count_move(k, op, d);
		break;
	case FLOW_DELETE:
		count_event(k, &op->ev);
		k->r->vanished += d->result == -ENOENT;
		break;
	}
}

/* --------------------------------------------------------------------- failures */

static void note_error(struct kv_run *k, const struct kv_run_op *op, const struct flow_done *d)
{
	struct kv_result *r = k->r;
	bool write = op->flow.type != FLOW_READ; /* moves come from memory */

	r->errors[write]++;
	r->verify_errors += d->result == -EBADMSG;
	if (!r->first_error[0])
		snprintf(r->first_error, sizeof(r->first_error), "%s", d->error);
	if ((op->ev.tier == KV_NVME || op->flow.to == KV_NVME) && !r->series[write].errors++)
		snprintf(r->series[write].first_error, sizeof(r->series[write].first_error), "%s",
			 d->error);
}

/* What was planned as a hit and is not there, because an operation before it failed. */
static void count_not_there(struct kv_run *k, const struct kv_run_op *op)
{
	struct kv_event ev = op->ev;

	if (op->flow.type != FLOW_READ)
		return;
	ev.type = KV_EV_MISS;
	kv_run_count_miss(k, &ev);
}

/*
 * The store has not got it, or would not have it: no failure.  What the model would write is
 * written by now; what it would not is out of the cache.
 */
static void count_missed(struct kv_run *k, struct kv_run_op *op, const struct flow_done *d)
{
	bool set = op->flow.type == FLOW_READ && d->result >= 0;
	struct kv_event ev = op->ev;
	struct half h = {.tier = KV_NVME,
			 .write = true,
			 .size = ev.size,
			 .ns = d->write_ns,
			 .device_ns = d->write_device_ns};

	if (!set)
		kv_run_drop_lost(k, op);
	if (op->chain->kind == KV_CHAIN_FILL)
		return;
	count_not_there(k, op);
	if (!set)
		return;
	ev.type = KV_EV_WRITE;
	ev.phase = KV_PREFILL;
	count_event(k, &ev);
	count_half(k, &h, d->end_ns);
	chain_add(k, op, d);
}

/* Upstream has counted it before it tried. */
static void count_as_upstream(struct kv_run *k, const struct kv_run_op *op)
{
	if (op->flow.type == FLOW_READ) {
		kv_count(&k->r->counts, &op->ev, &k->pl.cache);
		k->r->turn_hits += op->ev.kind == KV_MULTI_TURN;
	} else if (op->flow.type == FLOW_WRITE) {
		k->r->counts.prefill_writes++;
		k->r->counts.write_ops++;
		k->r->counts.total_write_bytes += op->ev.size;
	}
}

static void count_failure(struct kv_run *k, struct kv_run_op *op, const struct flow_done *d)
{
	bool news = kv_run_drop_lost(k, op);

	op->chain->failed |= op->flow.type == FLOW_READ || op->flow.type == FLOW_WRITE;
	if (op->chain->kind == KV_CHAIN_FILL) {
		k->fill_failures += op->flow.type == FLOW_WRITE;
		if (!k->r->first_error[0])
			snprintf(k->r->first_error, sizeof(k->r->first_error), "%s", d->error);
		return;
	}
	if (d->end_ns > k->until_ns)
		return;
	if (news)
		note_error(k, op, d);
	if (k->p->policy.counts_failed)
		count_as_upstream(k, op);
	else if (!news)
		count_not_there(k, op);
}

/* What was to be deleted is not there: as it should be, whoever did it. */
static bool is_gone(const struct kv_run_op *op, const struct flow_done *d)
{
	return op->flow.type == FLOW_DELETE && d->result == -ENOENT;
}

/* What a store may say of a key at any time. */
static bool is_miss(int64_t result)
{
	return result == -ENOENT || result == -ENOSPC;
}

void kv_run_count_op(struct kv_run *k, struct kv_run_op *op, const struct flow_done *d)
{
	enum kv_chain_kind kind = op->chain->kind;
	bool counts = kind == KV_CHAIN_REQUEST || kind == KV_CHAIN_INGEST;

	if (kind == KV_CHAIN_CLEAN)
		return;
	if (counts && d->end_ns > k->until_ns) {
		k->r->late += op->flow.type != FLOW_PAUSE && d->begin_ns;
		return;
	}
	if (d->result == -ECANCELED)
		return;
	if (d->missed && op->flow.type != FLOW_DELETE && (d->result >= 0 || is_miss(d->result))) {
		count_missed(k, op, d);
		return;
	}
	if (d->result < 0 && !is_gone(op, d)) {
		count_failure(k, op, d);
		return;
	}
	if (counts)
		count_done(k, op, d);
	else if (op->flow.type == FLOW_WRITE)
		k->fill_failures = 0;
	chain_add(k, op, d);
}

void kv_run_count_miss(struct kv_run *k, const struct kv_event *ev)
{
	struct kv_second *s;

	if (!k->measuring)
		return;
	kv_count(&k->r->counts, ev, &k->pl.cache);
	k->r->turn_misses += ev->kind == KV_MULTI_TURN;
	s = kv_run_second(k, clock_ns());
	if (s)
		s->misses++;
}

/* --------------------------------------------------------------------- requests */

void kv_run_count_request(struct kv_run *k, const struct kv_run_chain *w, uint64_t end_ns)
{
	struct kv_request_done d = {
		.end_ns = end_ns - k->begin_ns,
		.tokens = w->planned.tokens,
		.qos = w->req.qos,
		.end_to_end = sec_between(k->begin_ns + w->req.arrival_ns, end_ns),
		.storage = w->storage_sec,
		.generation = w->generation_sec,
	};
	struct kv_planned planned = w->planned;

	if (end_ns > k->until_ns)
		return;
	if (w->failed && !k->p->policy.counts_failed) {
		k->r->failed_requests++;
		return;
	}
	if (kv_result_request(k->r, k->p, &d) < 0)
		kv_run_fail(k, -ENOMEM, "out of memory");
	if (w->prefilled && !w->wrote) /* it was there: no time at all, says upstream */
		kv_run_sample(k, &k->r->prefill, 0);
	if (w->decoded)
		kv_run_sample(k, &k->r->decode, w->decode_sec);
	planned.turn_hits = planned.turn_misses = 0; /* counted one by one */
	kv_result_planned(k->r, k->p, &planned);
}
