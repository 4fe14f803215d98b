/* SPDX-License-Identifier: Apache-2.0 */
/* A flow as a whole: opening and closing it, and the loop that drives it. */
#include "load/object/flow.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/measure/rank_barrier.h"
#include "load/object/flow_internal.h"

#define REPORT_NS 100000000u

/* -------------------------------------------------------------------- timers */

void flow_timer(struct flow *f, struct op *op, uint64_t at_ns)
{
	if (op_heap_put(&f->timers, at_ns, op) < 0)
		op_fail(op, -ENOMEM, "out of memory");
}

static void timer_over(struct flow *f, struct op *op)
{
	op->todo &= (uint8_t)~TODO_TIMER;
	if (op->type == FLOW_PAUSE)
		op_end(f, op);
	else if (op_idle(op))
		op_moved(f, op);
}

static void run_timers(struct flow *f)
{
	while (f->timers.nr && (penstock_heap_first(&f->timers) <= f->now))
		timer_over(f, op_heap_take(&f->timers));
}

void flow_abort(struct flow *f)
{
	if (f->aborted)
		return;
	f->aborted = true;
	admit_all(f);
	f->cut_short = true;
}

/* Of what is under way, issue no more and wait for no clock. */
static void cut_short(struct flow *f)
{
	struct chain *c, *next;
	struct op *op;

	f->cut_short = false;
	stores_cancel(f);
	buckets_cancel(f);
	while (f->timers.nr) {
		op = op_heap_take(&f->timers);
		op_fail(op, -ECANCELED, "cancelled");
		timer_over(f, op);
	}
	for (c = f->first; c; c = next) {
		next = c->next;
		op = c->ops;
		if (op->state != OP_RUNS || op->queued == QUEUED_NOT)
			continue;
		op_fail(op, -ECANCELED, "cancelled");
		slot_queue_leave(f, op);
		if (op_idle(op))
			op_moved(f, op);
	}
}

/* ------------------------------------------------------------------ the loop */

static void take_inbox(struct flow *f)
{
	struct task *t, *next;

	for (t = inbox_take(&f->inbox); t; t = next) {
		f->progress_ns = f->now;
		next = t->next;
		t->done(t, f);
	}
}

/* What can be done without waiting; what becomes ready meanwhile is left for the next time. */
static void flow_step(struct flow *f)
{
	f->now = clock_ns();
	take_inbox(f);
	if (f->cut_short)
		cut_short(f);
	run_timers(f);
	admit_ready(f);
	if (!f->ready)
		admit_oldest(f);
	stores_serve(f);
	buckets_serve(f);
	chunks_issue(f);
}

/* Nobody can tell how far a store is with what it has; and who waits for a clock is not held up. */
static void flow_report_progress(struct flow *f)
{
	bool waits = (f->running || f->nr_file_jobs) && !f->timers.nr &&
		     !atomic_load(&f->nr_store_calls);

	if (f->now < f->next_report_ns)
		return;
	f->next_report_ns = f->now + REPORT_NS;
	rank_progress_report(waits ? f->progress_ns : f->now);
}

unsigned flow_wait(struct flow *f, uint64_t until_ns, const struct flow_handler *h)
{
	f->handler = h;
	f->ended = 0;
	for (;;) {
		flow_step(f);
		flow_report_progress(f);
		if (f->ended || f->now >= until_ns || (!f->running && until_ns == UINT64_MAX))
			break;
		if (!f->ready)
			inbox_wait(&f->inbox, min_u64(min_u64(until_ns, f->next_report_ns),
						      penstock_heap_first(&f->timers)));
	}
	f->handler = NULL;
	return f->running;
}

/* ---------------------------------------------------------------- open, close */

static int flow_check(struct flow_opts *o, struct penstock_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (o->nr_places > FLOW_PLACES) {
		unsigned given = o->nr_places;

		o->nr_places = 0;
		return penstock_fail(err, -EINVAL, "places: %u, at most %d", given, FLOW_PLACES);
	}
	if (!o->chunk)
		o->chunk = CONTENT_PERIOD;
	if (o->chunk % CONTENT_PERIOD)
		return penstock_fail(err, -EINVAL, "chunk: %" PRIu64 " is not a multiple of %u",
				     o->chunk, CONTENT_PERIOD);
	if (o->verify && !o->fill)
		return penstock_fail(err, -EINVAL, "verify: needs fill");
	if (!o->copy_threads)
		o->copy_threads =
			(unsigned)min_u64(8, max_u64(2, cpus > 0 ? (uint64_t)cpus / 2 : 0));
	return 0;
}

/* Only cuFile gains from knowing device memory in advance. */
static bool knows_gpu(struct penstock_io *io)
{
	struct penstock_stats st = {.size = sizeof(st)};

	return penstock_get_stats(io, &st) == 0 && !strcmp(st.engine, "cufile");
}

static int join_place(struct flow *f, unsigned i, struct penstock_err *err)
{
	struct place *p = flow_place(f, i);
	bool gpu = p->o.kind == PLACE_GPU;
	uint64_t ready = p->map ? extent_map_ready(p->map) * p->unit : 0;
	int r = 0;

	f->space[i].limit = p->map          ? extent_map_units(p->map) * p->unit
			    : p->o.capacity ? p->o.capacity
					    : UINT64_MAX;
	quota_reserve(&f->space[i], p->used);
	if (p->o.kind == PLACE_SLAB) {
		r = slab_open_again(p);
		r = r < 0 ? penstock_fail(err, r, "%s: %s", p->slab, strerror(-r))
			  : penstock_file_take_fd(&f->slab[i], f->io, r, p->slab, err);
		if (r == 0) {
			f->stats.file.size = sizeof(f->stats.file);
			penstock_file_stat(f->slab[i], &f->stats.file);
		}
	} else if (place_is_memory(p) && ready && (!gpu || knows_gpu(f->io))) {
		penstock_buf_register(f->io, p->base, ready, p->huge, NULL, NULL);
		if (!gpu && f->gpu)
			place_pin(p, p->base, ready);
	}
	return r;
}

static int flow_begin(struct flow *f, struct penstock_err *err)
{
	int r = content_init(&f->content, f->o.seed);

	if (r < 0)
		return penstock_fail(err, r, "out of memory");
	r = penstock_open(&f->io, &f->o.io, err);
	if (r < 0)
		return r;
	r = thread_pool_start(&f->copy_threads, f->o.copy_threads, "penstock-copy", &f->inbox);
	if (r == 0)
		r = thread_pool_start(&f->file_threads, FLOW_FILE_THREADS, "penstock-file",
				      &f->inbox);
	if (r == 0)
		r = buckets_init(f);
	if (r < 0)
		return penstock_fail(err, r, "cannot start threads: %s", strerror(-r));
	for (unsigned i = 0; i < f->o.nr_places; i++)
		f->gpu |= flow_place(f, i)->o.kind == PLACE_GPU;
	r = slot_queues_init(f, err);
	for (unsigned i = 0; r == 0 && i < f->o.nr_places; i++)
		r = join_place(f, i, err);
	return r;
}

/* All but a few for everything else; a move reads one file and writes another. */
uint32_t flow_max_file_ops(void)
{
	enum { OTHERS = 64, EACH = 3 };
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > UINT32_MAX)
		return UINT32_MAX;
	return (uint32_t)max_u64(1, (l.rlim_cur - min_u64(l.rlim_cur, OTHERS)) / EACH);
}

int flow_new(struct flow **out, const struct flow_opts *o, struct penstock_err *err)
{
	struct flow *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return penstock_fail(err, -ENOMEM, "out of memory");
	f->o = *o;
	f->ready_tail = &f->ready;
	f->unopened_tail = &f->unopened;
	f->max_files = flow_max_file_ops();
	f->next_report_ns = rank_progress_watched() ? 0 : UINT64_MAX;
	f->objects.size = sizeof(struct object);
	f->ops.size = sizeof(struct op);
	f->chains.size = sizeof(struct chain);
	f->shared_files.size = sizeof(struct shared_file);
	f->permits.limit = UINT64_MAX;
	inbox_init(&f->inbox);
	r = flow_check(&f->o, err);
	if (r == 0)
		r = flow_begin(f, err);
	if (r < 0) {
		flow_free(f);
		return r;
	}
	*out = f;
	return 0;
}

/* What is under way comes to its end; what is not never begins. */
static void abort_and_drain(struct flow *f)
{
	flow_abort(f);
	while (f->running)
		flow_wait(f, UINT64_MAX, NULL);
	while (f->nr_file_jobs) {
		inbox_wait(&f->inbox, UINT64_MAX);
		take_inbox(f);
	}
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	if (f->io)
		abort_and_drain(f);
	rank_progress_end();
	while (atomic_load(&f->nr_store_calls)) /* threads of stores, which outlive us */
		sched_yield();
	thread_pool_stop(&f->copy_threads);
	thread_pool_stop(&f->file_threads);
	buckets_fini(f);
	objects_fini(f);
	slot_queues_fini(f);
	for (unsigned i = 0; i < f->o.nr_places; i++)
		place_unpin(flow_place(f, i));
	penstock_close(f->io, NULL);
	for (unsigned i = 0; i < FLOW_PLACES; i++)
		free(f->space[i].waiting.v);
	free(f->permits.waiting.v);
	free(f->timers.v);
	arena_fini(&f->ops);
	arena_fini(&f->chains);
	arena_fini(&f->shared_files);
	attrs_pool_fini(&f->attrs);
	content_fini(&f->content);
	inbox_fini(&f->inbox);
	free(f);
}

int flow_adopt(struct flow *f, unsigned place, uint64_t object, const char *name, uint32_t name_len,
	       uint64_t content, struct penstock_err *err)
{
	struct place_old *old = place < f->o.nr_places
					? place_old_find(flow_place(f, place), name, name_len)
					: NULL;
	struct object *o;

	if (!old)
		return penstock_fail(err, -ENOENT, "%.*s: no earlier run left it in place %u",
				     (int)min_u64(name_len, 100), name, place);
	o = object_get(f, object);
	if (!o || o->exists || o->first)
		return penstock_fail(err, o ? -EEXIST : -ENOMEM, "object %" PRIu64 ": %s", object,
				     o ? "is in use" : "out of memory");
	o->attrs = attrs_new(&f->attrs, name, name_len, old->shape);
	if (!o->attrs) {
		object_forget(f, o);
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	o->size = old->size;
	o->content = content;
	o->element = old->element;
	o->ref = old->ref;
	o->where = old->where;
	o->place = (uint8_t)place;
	o->exists = true;
	old->where = (struct extents){0};
	old->adopted = true;
	return 0;
}

void flow_get_stats(const struct flow *f, struct flow_stats *s)
{
	struct penstock_store_stats store;

	*s = f->stats;
	s->io.size = sizeof(s->io);
	penstock_get_stats(f->io, &s->io);
	for (unsigned i = 0; i < f->o.nr_places; i++)
		if (place_store_stats(flow_place(f, i), &store)) {
			s->bytes_read += store.bytes_read;
			s->bytes_written += store.bytes_written;
			penstock_store_get_io_stats(flow_place(f, i)->store, &s->io);
		}
}
