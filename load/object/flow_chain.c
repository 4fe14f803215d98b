/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of operations: how they are started, and what the caller is told when they end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/flow_internal.h"

/* -------------------------------------------------------------------- ending */

/* The end is read from the clock here: what the device did last may be younger than f->now. */
static void op_report(struct flow *f, const struct op *op)
{
	uint64_t now = f->now = clock_ns();
	struct flow_done d = {
		.tag = op->tag,
		.type = op->type == FLOW_WRITE_RANGE ? FLOW_WRITE : op->type,
		.place = op->place,
		.to = op->to,
		.missed = op->missed,
		.size = op->len ? op->end - op->from : op->size,
		.begin_ns = op->begin_ns,
		.start_ns = op->start_ns ? op->start_ns : now,
		.end_ns = now,
	};

	if (op->code < 0)
		d.result = op->code;
	else if (op->type != FLOW_DELETE && op->type != FLOW_PAUSE)
		d.result = (int64_t)d.size;
	d.device_ns = span_total(&op->device);
	if (op->type == FLOW_MOVE || op->missed) {
		d.read_device_ns = span_total(&op->read_device);
		d.write_device_ns = span_total(&op->write_device);
		d.read_ns = op->read_end > d.start_ns ? op->read_end - d.start_ns : 0;
		d.write_ns = op->write_begin ? d.end_ns - op->write_begin : 0;
	}
	if (op->code < 0)
		penstock_print_elided(d.error, sizeof(d.error), "%s",
				      op->msg ? op->msg : strerror(-op->code));
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
		permits_return(f, c->permits);
	if (f->handler && f->handler->chain)
		f->handler->chain(f->handler->arg, c->tag, f->now);
	arena_put(&f->chains, c);
}

static void op_free(struct flow *f, struct op *op)
{
	attrs_free(&f->attrs, op->attrs);
	attrs_free(&f->attrs, op->old_attrs);
	free(op->msg);
	arena_put(&f->ops, op);
}

static void give_permits(struct flow *f, struct op *op)
{
	struct chain *c = op->chain;

	if (op->alloc_begin && op->passed < PASSED_PERMIT) /* it never had it */
		permits_return(f, 1);
	if (op->alloc_end && c->permits) {
		c->permits--;
		permits_return(f, 1);
	}
}

void op_end(struct flow *f, struct op *op)
{
	struct chain *c = op->chain;

	if (op->space != SPACE_NONE)
		space_return(f, op->type == FLOW_WRITE ? op->place : op->to, op->charge);
	give_permits(f, op);
	if (op->code < 0 && c->stop_on_error)
		c->stopped = true;
	c->ops = op->next;
	op_report(f, op);
	if (op->object)
		object_leave(f, op);
	op_free(f, op);
	if (c->ops)
		flow_ready(f, c->ops);
	else
		chain_end(f, c);
}

/* ------------------------------------------------------------------ starting */

/* Objects of a store go to memory and come from there, whole. */
static int check_bucket(const struct flow *f, const struct flow_op *u, struct penstock_err *err)
{
	const struct place *from = flow_place(f, u->place);
	const struct place *to = u->type == FLOW_MOVE ? flow_place(f, u->to) : NULL;

	if (place_is_bucket(from) && u->type == FLOW_WRITE && u->len)
		return penstock_fail(err, -EINVAL, "place: %u: objects are written as a whole",
				     u->place);
	if (!to || (!place_is_bucket(from) && !place_is_bucket(to)))
		return 0;
	if (place_is_bucket(from))
		from = to;
	return place_is_memory(from) || from->o.kind == PLACE_NULL
		       ? 0
		       : penstock_fail(err, -EINVAL,
				       "place: %u, to: %u: objects are moved to memory and from "
				       "there only",
				       u->place, u->to);
}

static int check_op(const struct flow *f, const struct flow_op *u, struct penstock_err *err)
{
	if (u->type > FLOW_PAUSE)
		return penstock_fail(err, -EINVAL, "type: %u is none of FLOW_*", u->type);
	if (u->type == FLOW_PAUSE)
		return 0;
	if (u->place >= f->o.nr_places || (u->type == FLOW_MOVE && u->to >= f->o.nr_places))
		return penstock_fail(err, -EINVAL, "place: %u, to: %u: there are %u places",
				     u->place, u->to, f->o.nr_places);
	if (u->name_len > FLOW_NAME_MAX)
		return penstock_fail(err, -ENAMETOOLONG, "name: %u bytes, at most %d", u->name_len,
				     FLOW_NAME_MAX);
	if (u->shape && strlen(u->shape) > FLOW_SHAPE_MAX)
		return penstock_fail(err, -EINVAL, "shape: longer than %d characters",
				     FLOW_SHAPE_MAX);
	if (u->size > INT64_MAX / 2 || u->offset > INT64_MAX / 2 || u->len > INT64_MAX / 2)
		return penstock_fail(err, -EINVAL,
				     "size, offset, len: %" PRIu64 ", %" PRIu64 ", %" PRIu64
				     ": one is more than 2^62",
				     u->size, u->offset, u->len);
	if (u->len && u->type != FLOW_READ && u->type != FLOW_WRITE)
		return penstock_fail(err, -EINVAL, "len: only reads and writes have a range");
	if (place_is_store(flow_place(f, u->place)) && (u->len || u->type == FLOW_MOVE))
		return penstock_fail(err, -EINVAL, "place: %u, a store, has whole values that stay",
				     u->place);
	return check_bucket(f, u, err);
}

static struct attrs *new_attrs(struct flow *f, const struct flow_op *u)
{
	char number[32];
	int n = snprintf(number, sizeof(number), "object-%" PRIu64, u->object);

	return u->name ? attrs_new(&f->attrs, u->name, u->name_len, u->shape)
		       : attrs_new(&f->attrs, number, (uint32_t)n, u->shape);
}

static struct op *new_op(struct flow *f, const struct flow_op *u)
{
	struct op *op = arena_get(&f->ops);
	bool named;

	if (!op)
		return NULL;
	*op = (struct op){.flow = f,
			  .type = u->type == FLOW_WRITE && u->len ? FLOW_WRITE_RANGE : u->type,
			  .place = u->place,
			  .to = u->to,
			  .alloc_begin = u->alloc_begin,
			  .alloc_end = u->alloc_end,
			  .size = u->size,
			  .offset = u->offset,
			  .len = u->len,
			  .content = u->content,
			  .element = u->element,
			  .pause_ns = u->pause_ns,
			  .tag = u->tag,
			  .set_missed = u->set_missed};
	if (u->type == FLOW_PAUSE)
		return op;
	op->object = object_get(f, u->object);
	named = op->type == FLOW_WRITE ||
		(op->type != FLOW_MOVE && place_is_store(flow_place(f, u->place)));
	if (op->object && named)
		op->attrs = new_attrs(f, u);
	if (op->object && op->type == FLOW_WRITE_RANGE)
		op->object->range_written = true;
	if (op->object && (op->attrs || !named))
		return op;
	if (op->object)
		object_forget(f, op->object);
	op_free(f, op);
	return NULL;
}

/* From here on it has its place in the order of things. */
static void op_enqueue(struct flow *f, struct op *op)
{
	unsigned to = op->type == FLOW_WRITE ? op->place : op->to;

	if (op->alloc_begin)
		op->permit_ticket = quota_reserve(&f->permits, 1);
	if (op_has_dst(op)) {
		op->charge = place_charge(flow_place(f, to), op->size);
		op->space_ticket = quota_reserve(&f->space[to], op->charge);
		op->space = SPACE_RESERVED;
	}
	if (op->object)
		object_join(op->object, op);
}

static const struct flow_op *op_at(const struct flow_op *ops, unsigned i, size_t stride)
{
	return (const struct flow_op *)(const void *)((const char *)ops + i * stride);
}

static struct chain *new_chain(struct flow *f, const struct flow_op *ops, unsigned n, size_t stride)
{
	struct chain *c = arena_get(&f->chains);
	struct op **at, *op;

	if (!c)
		return NULL;
	at = &c->ops;
	for (unsigned i = 0; i < n; i++) {
		op = new_op(f, op_at(ops, i, stride));
		if (!op)
			break;
		op->chain = c;
		*at = op;
		at = &op->next;
		op_enqueue(f, op);
		if (i + 1 == n)
			return c;
	}
	/* Out of memory: as if nothing had been. */
	while ((op = c->ops)) {
		c->ops = op->next;
		if (op->space != SPACE_NONE)
			space_return(f, op->type == FLOW_WRITE ? op->place : op->to, op->charge);
		give_permits(f, op);
		if (op->object)
			object_leave(f, op);
		op_free(f, op);
	}
	arena_put(&f->chains, c);
	return NULL;
}

int flow_start(struct flow *f, const struct flow_op *ops, unsigned n, size_t stride,
	       uint64_t chain_tag, bool stop_on_error, struct penstock_err *err)
{
	struct chain *c;
	int r = n ? 0 : penstock_fail(err, -EINVAL, "ops: a chain of none");

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = check_op(f, op_at(ops, i, stride), err);
	if (r < 0)
		return r;
	c = new_chain(f, ops, n, stride);
	if (!c)
		return penstock_fail(err, -ENOMEM, "out of memory");
	c->tag = chain_tag;
	c->stop_on_error = stop_on_error;
	c->prev = f->last;
	*(f->last ? &f->last->next : &f->first) = c;
	f->last = c;
	f->running++;
	flow_ready(f, c->ops);
	return 0;
}
