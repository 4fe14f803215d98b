/* SPDX-License-Identifier: Apache-2.0 */
/* What counts: operations of the trace that were started after the prefill and had no error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "load/measure/handle.h"
#include "load/measure/page_cache.h"
#include "load/object/place.h"
#include "load/replay/replay_internal.h"

#define SECOND_NS 1000000000ull

#define CHANNEL(name, kind, member, of)                             \
	{                                                           \
		name, kind, offsetof(struct replay_second, member), \
			offsetof(struct replay_second, of)          \
	}

static const struct per_second_channel channels[] = {
	CHANNEL("in_flight", PER_SECOND_COUNT, in_flight, lags),
	CHANNEL("lag_mean", PER_SECOND_MEAN, lag_sum, lags),
	CHANNEL("lag_max", PER_SECOND_MAX, lag_max, lags),
	CHANNEL("read_ops", PER_SECOND_COUNT, read_ops, lags),
	CHANNEL("write_ops", PER_SECOND_COUNT, write_ops, lags),
	CHANNEL("read_bytes", PER_SECOND_COUNT, read_bytes, lags),
	CHANNEL("write_bytes", PER_SECOND_COUNT, write_bytes, lags),
	CHANNEL("hits", PER_SECOND_COUNT, hits, lags),
	CHANNEL("misses", PER_SECOND_COUNT, misses, lags),
};

const char *const replay_size_names[REPLAY_SIZES] = {"up to 4 KiB",   "up to 64 KiB",
						     "up to 1 MiB",   "up to 16 MiB",
						     "up to 256 MiB", "above 256 MiB"};

static unsigned replay_size_class(uint64_t size)
{
	unsigned i = 0;

	while (i + 1 < REPLAY_SIZES && size > 4096ull << 4 * i)
		i++;
	return i;
}

static double sec_from_to(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e9 : 0;
}

static void replay_no_memory(struct replay *p)
{
	replay_fail(p, -ENOMEM, "out of memory");
}

static void replay_sample(struct replay *p, struct samples *s, double sec)
{
	if (samples_add(s, sec) < 0)
		replay_no_memory(p);
}

/* ---------------------------------------------------------------------- seconds */

static struct replay_second *replay_second_at(struct replay *p, uint64_t at_ns)
{
	struct replay_second *s =
		per_second_at(&p->r->seconds, at_ns > p->begin_ns ? at_ns - p->begin_ns : 0);
	if (!s)
		replay_no_memory(p);
	return s;
}

void replay_count_seconds(struct replay *p, uint64_t now_ns)
{
	while (now_ns - p->begin_ns >= p->tick_sec * SECOND_NS) {
		struct replay_second *s =
			replay_second_at(p, p->begin_ns + (p->tick_sec - 1) * SECOND_NS);

		if (!s)
			return;
		s->in_flight = p->in_flight;
		p->tick_sec++;
	}
}

void replay_count_hit(struct replay *p, const struct replay_op *op, uint64_t at_ns)
{
	struct replay_second *s = p->measuring ? replay_second_at(p, at_ns) : NULL;

	if (!s)
		return;
	s->hits += op->hit;
	s->misses += !op->hit;
	p->r->hits += op->hit;
	p->r->misses += !op->hit;
}

void replay_count_start(struct replay *p, const struct replay_op *op, uint64_t now_ns)
{
	struct replay_second *s = replay_second_at(p, now_ns);

	p->r->started++;
	if (s)
		s->started++;
	if (op->op == TRACE_READ && !op->at_store)
		replay_count_hit(p, op, now_ns);
}

/* What was due at @due_ns, and waited for its turn so long; known at @now_ns. */
static void count_lag(struct replay *p, uint64_t due_ns, uint64_t waited_ns, uint64_t now_ns)
{
	struct replay_second *s = p->job->pace > 0 ? replay_second_at(p, now_ns) : NULL;
	struct replay_result *r = p->r;

	if (!s)
		return;
	replay_lag_add(&r->lag, due_ns - p->begin_ns, waited_ns);
	replay_sample(p, &r->lag_samples, r->lag.last);
	s->lags++;
	s->lag_sum += r->lag.last;
	if (r->lag.last > s->lag_max)
		s->lag_max = r->lag.last;
}

/* ------------------------------------------------------------ series and classes */

static struct run_series *series_of(struct replay *p, const struct replay_op *op)
{
	int8_t *at = &p->series_at[op->tier][op->op == TRACE_WRITE][op->phase];
	struct replay_result *r = p->r;
	struct run_series *s;
	const char *phase = trace_phase_names[op->phase];

	if (*at)
		return &r->series[*at - 1];
	if (ARRAY_GROW(r->series, r->nr_series) < 0)
		return NULL;
	s = &r->series[r->nr_series];
	*s = (struct run_series){.read = op->op == TRACE_READ,
				 .opts = p->job->opts,
				 .no_storage = !place_is_storage(p->places[op->place]) &&
					       !place_is_store(p->places[op->place])};
	if (series_init(s) < 0)
		return NULL;
	snprintf(s->name, sizeof(s->name), "%s%s%s%s%s", trace_op_names[op->op],
		 op->tier == REPLAY_NO_TIER ? "" : " ",
		 op->tier == REPLAY_NO_TIER ? "" : replay_tier_names[op->tier], *phase ? " " : "",
		 phase);
	*at = (int8_t)++r->nr_series;
	return s;
}

static struct replay_class *class_of(struct replay *p, const struct replay_op *op)
{
	unsigned size = replay_size_class(op->size);
	int16_t *at = &p->class_at[op->tier][op->op][op->phase][size];
	struct replay_result *r = p->r;

	if (*at)
		return &r->classes[*at - 1];
	if (ARRAY_GROW(r->classes, r->nr_classes) < 0)
		return NULL;
	r->classes[r->nr_classes] = (struct replay_class){
		.op = op->op, .tier = op->tier, .phase = op->phase, .size = (uint8_t)size};
	*at = (int16_t)++r->nr_classes;
	return &r->classes[*at - 1];
}

static void count_series(struct replay *p, const struct replay_op *op, const struct flow_done *d)
{
	struct run_series *s = series_of(p, op);

	if (!s || series_add(s, op->size, d->end_ns - d->start_ns, d->end_ns - p->begin_ns) < 0)
		replay_no_memory(p);
}

static void count_second(struct replay *p, const struct replay_op *op, uint64_t end_ns)
{
	struct replay_second *s = replay_second_at(p, end_ns);

	if (!s)
		return;
	if (op->op == TRACE_READ) {
		s->read_ops++;
		s->read_bytes += op->size;
	} else {
		s->write_ops++;
		s->write_bytes += op->size;
	}
}

static void count_main(struct replay *p, const struct replay_op *op, const struct flow_done *d)
{
	struct replay_count *n = &p->r->done[op->tier][op->op];
	struct replay_class *c = class_of(p, op);

	n->ops++;
	n->bytes += op->size;
	if (!c) {
		replay_no_memory(p);
		return;
	}
	c->ops++;
	c->bytes += op->size;
	replay_sample(p, &c->latency, sec_from_to(d->start_ns, d->end_ns));
	replay_sample(p, &p->r->wait, sec_from_to(d->begin_ns, d->start_ns));
	count_lag(p, op->due_ns, d->end_ns - min_u64(d->end_ns, op->due_ns + d->device_ns),
		  d->end_ns);
	if (op->op == TRACE_DELETE)
		return;
	count_series(p, op, d);
	count_second(p, op, d->end_ns);
}

/* --------------------------------------------------------------------- failures */

/* What should have been written is not there. */
static void forget_object(struct replay *p, const struct replay_op *op)
{
	struct replay_key *e = replay_keys_find(&p->keys, op->id);

	if (!e || e->number != op->number)
		return;
	p->used[e->place] -= replay_charge(&p->map, e->place, e->size);
	replay_keys_remove(&p->keys, e);
}

static void count_error(struct replay *p, const struct replay_op *op, unsigned role,
			const struct flow_done *d)
{
	static const uint8_t ops[] = {
		[FLOW_READ] = TRACE_READ, [FLOW_WRITE] = TRACE_WRITE, [FLOW_DELETE] = TRACE_DELETE};
	struct replay_result *r = p->r;
	struct run_series *s;
	struct replay_class *c;

	r->errors[ops[d->type]]++;
	r->verify_errors += d->result == -EBADMSG;
	if (!r->first_error[0])
		snprintf(r->first_error, sizeof(r->first_error), "%s", d->error);
	if (d->type == FLOW_WRITE && !p->ranges)
		forget_object(p, op);
	if (role != REPLAY_ROLE_MAIN || !op->measured || !p->measuring)
		return;
	c = class_of(p, op);
	if (c)
		c->errors++;
	s = d->type == FLOW_DELETE ? NULL : series_of(p, op);
	if (!s)
		return;
	s->errors++;
	if (!s->first_error[0])
		snprintf(s->first_error, sizeof(s->first_error), "%s", d->error);
}

static void count_add(struct replay_count *n, uint64_t bytes)
{
	n->ops++;
	n->bytes += bytes;
}

void replay_count_created(struct replay *p, uint64_t bytes)
{
	count_add(&p->r->created, bytes);
}

void replay_count_done(struct replay *p, const struct flow_done *d)
{
	struct replay_op *op = &p->ops[d->tag / REPLAY_ROLES];
	unsigned role = d->tag % REPLAY_ROLES;

	if (d->result == -ECANCELED || (op->at_store && replay_store_result(p, op, role, d)))
		return;
	if (d->result < 0)
		count_error(p, op, role, d);
	else if (role == REPLAY_ROLE_MAKE)
		count_add(&p->r->created, d->size);
	else if (role == REPLAY_ROLE_DROP)
		count_add(&p->r->evicted, d->size);
	else if (role == REPLAY_ROLE_MAIN && !op->measured)
		count_add(&p->r->prefilled, d->size);
	else if (role == REPLAY_ROLE_MAIN && p->measuring)
		count_main(p, op, d);
}

/* -------------------------------------------------------------------------- end */

/* Of the first folder, file or device of a tier; NULL: its objects are in none. */
static const struct penstock_path_info *path_of(const struct replay *p, unsigned tier)
{
	unsigned first = p->map.tiers[tier].first, nr = 0;

	for (unsigned i = 0; i < first; i++)
		nr += p->map.paths[i] != NULL;
	return p->map.paths[first] ? &p->r->path[nr] : NULL;
}

static void replay_series_end(struct replay *p, struct run_series *s, unsigned tier,
			      const struct flow_stats *f)
{
	struct replay_result *r = p->r;

	s->sec = r->elapsed_sec;
	series_turn(s, p->begin_ns, (uint64_t)(s->sec * 1e9));
	s->user_sec = r->cpu_user_sec;
	s->system_sec = r->cpu_system_sec;
	s->library_sec = (double)(f->io.cpu_ns - p->library_ns) / 1e9;
	for (unsigned i = 0; i < r->nr_series; i++)
		s->run_bytes += r->series[i].bytes;
	s->stats = f->io;
	s->file = f->file;
	s->buf = f->buf;
	s->verify = p->job->verify;
	s->verified_bytes = s->read ? f->verified : 0;
	if (p->map.opts[p->map.tiers[tier].first].kind == PLACE_BUCKET)
		page_cache_describe_remote(s->cache);
	else
		page_cache_describe_objects(s->cache, s->read,
					    p->job->durability != PENSTOCK_DURABLE_NONE,
					    path_of(p, tier), &f->io);
	series_finish(s);
}

static int by_class(const void *a, const void *b)
{
	const struct replay_class *x = a, *y = b;
	unsigned i = x->tier << 24 | x->op << 16 | x->phase << 8 | x->size;
	unsigned k = y->tier << 24 | y->op << 16 | y->phase << 8 | y->size;

	return (i > k) - (i < k);
}

void replay_count_end(struct replay *p, uint64_t end_ns)
{
	struct replay_result *r = p->r;
	struct flow_stats f;

	cpu_time_since(&p->before, &r->cpu_user_sec, &r->cpu_system_sec);
	r->elapsed_sec = sec_from_to(p->begin_ns, end_ns);
	flow_get_stats(p->flow, &f);
	r->bytes_written = f.bytes_written;
	for (unsigned i = 0; i < p->map.nr && !r->has_store; i++)
		r->has_store = place_store_stats(p->places[i], &r->store);
	for (unsigned i = 0; i < p->map.nr && !r->has_remote; i++)
		r->has_remote = place_object_stats(p->places[i], &r->remote);
	r->verified_bytes = f.verified;
	r->bad = *trace_reader_bad(p->source);
	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		for (unsigned i = 0; i < 2 * TRACE_PHASES; i++)
			if (p->series_at[t][i % 2][i / 2])
				replay_series_end(p, &r->series[p->series_at[t][i % 2][i / 2] - 1],
						  t, &f);
	if (r->nr_classes)
		qsort(r->classes, r->nr_classes, sizeof(*r->classes), by_class);
}

void replay_result_init(struct replay_result *r)
{
	*r = (struct replay_result){.seconds = {.channels = channels,
						.nr_channels = ARRAY_SIZE(channels),
						.size = sizeof(struct replay_second)}};
}

void replay_result_fini(struct replay_result *r)
{
	for (unsigned i = 0; i < r->nr_series; i++)
		series_fini(&r->series[i]);
	for (unsigned i = 0; i < r->nr_classes; i++)
		samples_fini(&r->classes[i].latency);
	samples_fini(&r->lag_samples);
	samples_fini(&r->wait);
	free(r->series);
	free(r->classes);
	per_second_fini(&r->seconds);
	replay_result_init(r);
}
