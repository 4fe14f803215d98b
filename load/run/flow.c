/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of operations, the gates each passes, and the loop that drives them. */
#include "load/run/flow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/run/flow_in.h"

/* --------------------------------------------------------------------- gates */

void op_fail(struct op *op, int code, const char *fmt, ...)
{
	va_list ap;

	if (op->code < 0)
		return;
	op->code = code;
	va_start(ap, fmt);
	if (vasprintf(&op->msg, fmt, ap) < 0)
		op->msg = NULL;
	va_end(ap);
}

void flow_ready(struct flow *f, struct op *op)
{
	op->state = OP_TURN;
	op->task.next = NULL;
	*f->ready_tail = &op->task;
	f->ready_tail = &op->task.next;
}

/* Whoever waits for the ledger and may go now. */
static void ledger_wake(struct flow *f, struct ledger *l)
{
	while (l->waiting.n && ledger_may(l, heap_key(&l->waiting)))
		flow_ready(f, heap_pop(&l->waiting));
}

static void ledger_return(struct flow *f, struct ledger *l, uint64_t amount)
{
	l->returned += amount;
	ledger_wake(f, l);
}

void space_return(struct flow *f, unsigned place, uint64_t amount)
{
	ledger_return(f, &f->space[place], amount);
}

/* Wait at a ledger; without the memory for that, fail. */
static void wait_at(struct flow *f, struct op *op, struct ledger *l, uint64_t asked)
{
	if (heap_add(&l->waiting, asked, op) < 0) {
		op_fail(op, -ENOMEM, "out of memory");
		op_end(f, op);
	}
}

static bool pass_permit(struct flow *f, struct op *op)
{
	if (!op->alloc_begin || op->permitted)
		return true;
	op->state = OP_PERMIT;
	if (!ledger_may(&f->permits, op->permit_asked)) {
		wait_at(f, op, &f->permits, op->permit_asked);
		return false;
	}
	op->permitted = true;
	op->chain->permits++;
	return true;
}

static bool pass_space(struct flow *f, struct op *op, bool force)
{
	unsigned place = op->type == FLOW_WRITE ? op->place : op->to;
	char name[LABEL_TEXT];
	int r;

	if (!op_has_dst(op) || op->taken || op->code < 0)
		return true;
	op->state = OP_SPACE;
	r = op_take_space(f, op, force);
	if (r == -EAGAIN) {
		wait_at(f, op, &f->space[place], op->space_asked);
		return false;
	}
	if (r < 0)
		op_fail(op, r, "%s: no room for %" PRIu64 " bytes in place %u, which has %" PRIu64,
			label_print(name, op->label ? op->label : op->object->label), op->size,
			place, f->space[place].limit);
	return true;
}

/* It does not begin; one that has replaced something already still has to remove that. */
static void cancel(struct flow *f, struct op *op)
{
	op_fail(op, -ECANCELED, "cancelled");
	op->cancelled = true;
	if (op->old_label)
		op_start(f, op);
	else
		op_end(f, op);
}

/* Let an operation whose turn has come go as far as it can. */
static void gate(struct flow *f, struct op *op, bool force)
{
	if (f->aborted || op->chain->stopped) {
		cancel(f, op);
		return;
	}
	if (!op->begin_ns)
		op->begin_ns = f->now;
	if (!pass_permit(f, op))
		return;
	if (op->type == FLOW_PAUSE) {
		op->state = OP_RUNS;
		op->start_ns = f->now;
		flow_timer(f, op, f->now + op->pause_ns);
		return;
	}
	op->state = OP_OBJECT;
	if (!op->enabled || (op->object->closing && op->type != FLOW_READ))
		return;
	if (!op->claimed)
		op_claim(f, op);
	if (pass_space(f, op, force))
		op_start(f, op);
}

static void run_ready(struct flow *f)
{
	struct task *t;

	while ((t = f->ready)) {
		f->ready = t->next;
		if (!f->ready)
			f->ready_tail = &f->ready;
		gate(f, container_of(t, struct op, task), false);
	}
}

/*
 * The oldest chain waits for nobody but itself: what is not there for it now will not come.  True
 * when that got something going.
 */
static bool force_oldest(struct flow *f)
{
	struct op *op = f->first ? f->first->ops : NULL;
	struct heap *h;

	if (!op || op->state != OP_SPACE)
		return false;
	h = &f->space[op->type == FLOW_WRITE ? op->place : op->to].waiting;
	for (uint64_t i = 0; i < h->n; i++)
		if (h->v[i].op == op) {
			heap_remove(h, i);
			gate(f, op, true);
			return !f->first || f->first->ops != op || op->state != OP_SPACE;
		}
	return false;
}

/* -------------------------------------------------------------------- timers */

void flow_timer(struct flow *f, struct op *op, uint64_t at_ns)
{
	if (heap_add(&f->timers, at_ns, op) < 0)
		op_fail(op, -ENOMEM, "out of memory");
}

static void timer_over(struct flow *f, struct op *op)
{
	op->timed = false;
	if (op->type == FLOW_PAUSE)
		op_end(f, op);
	else if (op_idle(op))
		op_moved(f, op);
}

static void run_timers(struct flow *f)
{
	while (f->timers.n && (heap_key(&f->timers) <= f->now))
		timer_over(f, heap_pop(&f->timers));
}

/* -------------------------------------------------------------------- ending */

static void tell(struct flow *f, const struct op *op)
{
	struct flow_done d = {
		.tag = op->tag,
		.type = op->type,
		.place = op->place,
		.to = op->to,
		.size = op->size,
		.begin_ns = op->begin_ns ? op->begin_ns : f->now,
		.start_ns = op->start_ns ? op->start_ns : f->now,
		.end_ns = f->now,
	};

	d.result = op->code < 0                                      ? op->code
		   : op->type <= FLOW_WRITE || op->type == FLOW_MOVE ? (int64_t)op->size
								     : 0;
	d.device_ns = span_total(&op->device);
	if (op->type == FLOW_MOVE) {
		d.read_device_ns = span_total(&op->read_device);
		d.write_device_ns = span_total(&op->write_device);
		d.read_ns = op->read_end > d.start_ns ? op->read_end - d.start_ns : 0;
		d.write_ns = op->write_begin ? d.end_ns - op->write_begin : 0;
	}
	if (op->code < 0)
		snprintf(d.error, sizeof(d.error), "%s", op->msg ? op->msg : strerror(-op->code));
	if (f->handler && f->handler->op)
		f->handler->op(f->handler->arg, &d);
}

static void chain_end(struct flow *f, struct chain *c)
{
	*(c->prev ? &c->prev->next : &f->first) = c->next;
	*(c->next ? &c->next->prev : &f->last) = c->prev;
	f->running--;
	f->ended++;
	if (c->permits)
		ledger_return(f, &f->permits, c->permits);
	if (f->handler && f->handler->chain)
		f->handler->chain(f->handler->arg, c->tag, f->now);
	arena_put(&f->chains, c);
}

static void op_free(struct flow *f, struct op *op)
{
	label_free(&f->labels, op->label);
	label_free(&f->labels, op->old_label);
	free(op->msg);
	arena_put(&f->ops, op);
}

static void give_permits(struct flow *f, struct op *op)
{
	struct chain *c = op->chain;

	if (op->alloc_begin && !op->permitted) /* it never had it */
		ledger_return(f, &f->permits, 1);
	if (op->alloc_end && c->permits) {
		c->permits--;
		ledger_return(f, &f->permits, 1);
	}
}

void op_end(struct flow *f, struct op *op)
{
	struct chain *c = op->chain;

	if (op->charged)
		space_return(f, op->type == FLOW_WRITE ? op->place : op->to, op->charge);
	give_permits(f, op);
	if (op->code < 0 && c->stop_on_error)
		c->stopped = true;
	c->ops = op->next;
	tell(f, op);
	if (op->object)
		object_leave(f, op);
	op_free(f, op);
	if (c->ops)
		flow_ready(f, c->ops);
	else
		chain_end(f, c);
}

/* ------------------------------------------------------------------ starting */

static int check_op(const struct flow *f, const struct flow_op *u, struct sluice_err *err)
{
	if (u->type > FLOW_PAUSE)
		return sluice_fail(err, -EINVAL, "type: %u is none of FLOW_*", u->type);
	if (u->type == FLOW_PAUSE)
		return 0;
	if (u->place >= f->o.nr_places || (u->type == FLOW_MOVE && u->to >= f->o.nr_places))
		return sluice_fail(err, -EINVAL, "place: %u, to: %u: there are %u places", u->place,
				   u->to, f->o.nr_places);
	if (u->name_len > FLOW_NAME_MAX)
		return sluice_fail(err, -ENAMETOOLONG, "name: %u bytes, at most %d", u->name_len,
				   FLOW_NAME_MAX);
	if (u->shape && strlen(u->shape) > FLOW_SHAPE_MAX)
		return sluice_fail(err, -EINVAL, "shape: longer than %d characters",
				   FLOW_SHAPE_MAX);
	if (u->size > INT64_MAX / 2)
		return sluice_fail(err, -EINVAL, "size: %" PRIu64 " is too much", u->size);
	return 0;
}

static struct label *new_label(struct flow *f, const struct flow_op *u)
{
	char number[32];
	int n = snprintf(number, sizeof(number), "object-%" PRIu64, u->object);

	return u->name ? label_new(&f->labels, u->name, u->name_len, u->shape)
		       : label_new(&f->labels, number, (uint32_t)n, u->shape);
}

static struct op *new_op(struct flow *f, const struct flow_op *u)
{
	struct op *op = arena_get(&f->ops);

	if (!op)
		return NULL;
	*op = (struct op){.flow = f,
			  .type = u->type,
			  .place = u->place,
			  .to = u->to,
			  .alloc_begin = u->alloc_begin,
			  .alloc_end = u->alloc_end,
			  .size = u->size,
			  .content = u->content,
			  .element = u->element,
			  .pause_ns = u->pause_ns,
			  .tag = u->tag};
	if (u->type == FLOW_PAUSE)
		return op;
	op->object = object_get(f, u->object);
	if (op->object && u->type == FLOW_WRITE)
		op->label = new_label(f, u);
	if (op->object && (op->label || u->type != FLOW_WRITE))
		return op;
	if (op->object)
		object_forget(f, op->object);
	op_free(f, op);
	return NULL;
}

/* From here on it has its place in the order of things. */
static void enlist(struct flow *f, struct op *op)
{
	unsigned to = op->type == FLOW_WRITE ? op->place : op->to;

	if (op->alloc_begin)
		op->permit_asked = ledger_ask(&f->permits, 1);
	if (op_has_dst(op)) {
		op->charge = place_charge(flow_place(f, to), op->size);
		op->space_asked = ledger_ask(&f->space[to], op->charge);
		op->charged = true;
	}
	if (op->object)
		object_join(op->object, op);
}

static struct chain *new_chain(struct flow *f, const struct flow_op *ops, unsigned n)
{
	struct chain *c = arena_get(&f->chains);
	struct op **at, *op;

	if (!c)
		return NULL;
	at = &c->ops;
	for (unsigned i = 0; i < n; i++) {
		op = new_op(f, &ops[i]);
		if (!op)
			break;
		op->chain = c;
		*at = op;
		at = &op->next;
		enlist(f, op);
		if (i + 1 == n)
			return c;
	}
	/* Out of memory: as if nothing had been. */
	while ((op = c->ops)) {
		c->ops = op->next;
		if (op->charged)
			space_return(f, op->type == FLOW_WRITE ? op->place : op->to, op->charge);
		give_permits(f, op);
		if (op->object)
			object_leave(f, op);
		op_free(f, op);
	}
	arena_put(&f->chains, c);
	return NULL;
}

int flow_start(struct flow *f, const struct flow_op *ops, unsigned n, uint64_t chain_tag,
	       bool stop_on_error, struct sluice_err *err)
{
	struct chain *c;
	int r = n ? 0 : sluice_fail(err, -EINVAL, "ops: a chain of none");

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = check_op(f, &ops[i], err);
	if (r < 0)
		return r;
	c = new_chain(f, ops, n);
	if (!c)
		return sluice_fail(err, -ENOMEM, "out of memory");
	c->tag = chain_tag;
	c->stop_on_error = stop_on_error;
	c->prev = f->last;
	*(f->last ? &f->last->next : &f->first) = c;
	f->last = c;
	f->running++;
	flow_ready(f, c->ops);
	return 0;
}

void flow_set_allocs(struct flow *f, unsigned n)
{
	f->permits.limit = n ? n : UINT64_MAX;
	ledger_wake(f, &f->permits);
}

void flow_abort(struct flow *f)
{
	if (f->aborted)
		return;
	f->aborted = true;
	while (f->permits.waiting.n)
		flow_ready(f, heap_pop(&f->permits.waiting));
	for (unsigned i = 0; i < f->o.nr_places; i++)
		while (f->space[i].waiting.n)
			flow_ready(f, heap_pop(&f->space[i].waiting));
	for (struct chain *c = f->first; c; c = c->next)
		if (c->ops->state == OP_OBJECT)
			flow_ready(f, c->ops);
	f->cut_short = true;
}

/* Pauses end at once; what storage of no bytes has begun goes on. */
static void cut_pauses(struct flow *f)
{
	struct heap old = f->timers;

	f->cut_short = false;
	f->timers = (struct heap){.n = 0};
	for (uint64_t i = 0; i < old.n; i++) {
		struct op *op = old.v[i].op;

		if (op->type != FLOW_PAUSE) {
			flow_timer(f, op, old.v[i].key);
			continue;
		}
		op_fail(op, -ECANCELED, "cancelled");
		op_end(f, op);
	}
	free(old.v);
}

/* ------------------------------------------------------------------ the loop */

static void take_inbox(struct flow *f)
{
	struct task *t, *next;

	for (t = inbox_take(&f->inbox); t; t = next) {
		next = t->next;
		t->done(t, f);
	}
}

/* Everything that can be done without waiting. */
static void step(struct flow *f)
{
	f->now = clock_ns();
	take_inbox(f);
	if (f->cut_short)
		cut_pauses(f);
	run_timers(f);
	do {
		run_ready(f);
		chunks_issue(f);
	} while (f->ready || force_oldest(f));
}

int flow_wait(struct flow *f, uint64_t until_ns, const struct flow_handler *h,
	      struct sluice_err *err)
{
	(void)err;
	f->handler = h;
	f->ended = 0;
	for (;;) {
		step(f);
		if (f->ended || f->now >= until_ns || (!f->running && until_ns == UINT64_MAX))
			break;
		inbox_wait(&f->inbox, min_u64(until_ns, heap_key(&f->timers)));
	}
	f->handler = NULL;
	return (int)f->running;
}

/* ---------------------------------------------------------------- open, close */

static int check_opts(struct flow_opts *o, struct sluice_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (o->nr_places > FLOW_PLACES)
		return sluice_fail(err, -EINVAL, "places: %u, at most %d", o->nr_places,
				   FLOW_PLACES);
	if (!o->chunk)
		o->chunk = CONTENT_PERIOD;
	if (o->chunk % CONTENT_PERIOD)
		return sluice_fail(err, -EINVAL, "chunk: %" PRIu64 " is not a multiple of %u",
				   o->chunk, CONTENT_PERIOD);
	if (o->verify && !o->fill)
		return sluice_fail(err, -EINVAL, "verify: needs fill");
	if (!o->copiers)
		o->copiers = (unsigned)min_u64(8, max_u64(2, cpus > 0 ? (uint64_t)cpus / 2 : 0));
	return 0;
}

/* Only cuFile gains from knowing device memory in advance. */
static bool knows_gpu(struct sluice_io *io)
{
	struct sluice_stats st = {.size = sizeof(st)};

	return sluice_get_stats(io, &st) == 0 && !strcmp(st.engine, "cufile");
}

static int join_place(struct flow *f, unsigned i, struct sluice_err *err)
{
	struct place *p = flow_place(f, i);
	bool gpu = p->o.kind == PLACE_GPU;
	uint64_t ready = p->map ? extent_map_ready(p->map) * p->unit : 0;
	int r = 0;

	f->space[i].limit = p->map          ? extent_map_units(p->map) * p->unit
			    : p->o.capacity ? p->o.capacity
					    : UINT64_MAX;
	ledger_ask(&f->space[i], p->used);
	if (p->o.kind == PLACE_SLAB) {
		r = sluice_file_open(&f->slab[i], f->io, p->slab, O_RDWR, 0, err);
		if (r == 0) {
			f->stats.file.size = sizeof(f->stats.file);
			sluice_file_stat(f->slab[i], &f->stats.file);
		}
	} else if (place_is_memory(p) && ready && (!gpu || knows_gpu(f->io))) {
		sluice_buf_register(f->io, p->base, ready, p->huge, NULL, NULL);
	}
	return r;
}

static int start(struct flow *f, struct sluice_err *err)
{
	int r = content_init(&f->content, f->o.seed);

	if (r < 0)
		return sluice_fail(err, r, "out of memory");
	r = sluice_open(&f->io, &f->o.io, err);
	if (r < 0)
		return r;
	r = crew_start(&f->copiers, f->o.copiers, "sluice-copy", &f->inbox);
	if (r == 0)
		r = crew_start(&f->clerks, FLOW_CLERKS, "sluice-file", &f->inbox);
	if (r < 0)
		return sluice_fail(err, r, "cannot start threads: %s", strerror(-r));
	r = lanes_init(f, err);
	for (unsigned i = 0; r == 0 && i < f->o.nr_places; i++)
		r = join_place(f, i, err);
	return r;
}

int flow_new(struct flow **out, const struct flow_opts *o, struct sluice_err *err)
{
	struct flow *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return sluice_fail(err, -ENOMEM, "out of memory");
	f->o = *o;
	f->ready_tail = &f->ready;
	f->objects.size = sizeof(struct object);
	f->ops.size = sizeof(struct op);
	f->chains.size = sizeof(struct chain);
	f->permits.limit = UINT64_MAX;
	inbox_init(&f->inbox);
	r = check_opts(&f->o, err);
	if (r == 0)
		r = start(f, err);
	if (r < 0) {
		flow_free(f);
		return r;
	}
	*out = f;
	return 0;
}

/* What is under way comes to its end; what is not never begins. */
static void run_down(struct flow *f)
{
	flow_abort(f);
	while (f->running)
		flow_wait(f, UINT64_MAX, NULL, NULL);
	while (f->elsewhere) {
		inbox_wait(&f->inbox, UINT64_MAX);
		take_inbox(f);
	}
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	if (f->io)
		run_down(f);
	crew_stop(&f->copiers);
	crew_stop(&f->clerks);
	objects_fini(f);
	sluice_close(f->io, NULL);
	lanes_fini(f);
	for (unsigned i = 0; i < FLOW_PLACES; i++)
		free(f->space[i].waiting.v);
	free(f->permits.waiting.v);
	free(f->timers.v);
	arena_fini(&f->ops);
	arena_fini(&f->chains);
	labels_fini(&f->labels);
	content_fini(&f->content);
	inbox_fini(&f->inbox);
	free(f);
}

int flow_adopt(struct flow *f, unsigned place, uint64_t object, const char *name, uint32_t name_len,
	       uint64_t content, struct sluice_err *err)
{
	struct place_old *old = place < f->o.nr_places
					? place_old_find(flow_place(f, place), name, name_len)
					: NULL;
	struct object *o;

	if (!old)
		return sluice_fail(err, -ENOENT, "%.*s: no earlier run left it in place %u",
				   (int)min_u64(name_len, 100), name, place);
	o = object_get(f, object);
	if (!o || o->exists || o->first)
		return sluice_fail(err, o ? -EEXIST : -ENOMEM, "object %" PRIu64 ": %s", object,
				   o ? "is in use" : "out of memory");
	o->label = label_new(&f->labels, name, name_len, old->shape);
	if (!o->label) {
		object_forget(f, o);
		return sluice_fail(err, -ENOMEM, "out of memory");
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
	*s = f->stats;
	s->io.size = sizeof(s->io);
	sluice_get_stats(f->io, &s->io);
}
