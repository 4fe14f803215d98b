/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows become chains of operations.  What exists is decided here, in the order of the trace;
 * the flow keeps the order of operations on an object.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/replay/replay_internal.h"

/* ----------------------------------------------------------------------- chains */

static struct flow_op *add_op(struct replay *p, unsigned type, const struct replay_key *e)
{
	if (ARRAY_RESERVE(p->chain, p->chain_capacity, p->nr_chain + 1) < 0) {
		replay_fail(p, -ENOMEM, "out of memory");
		return NULL;
	}
	p->chain[p->nr_chain] = (struct flow_op){
		.type = (uint8_t)type, .place = e->place, .object = e->number, .size = e->size};
	return &p->chain[p->nr_chain++];
}

static void add_delete(struct replay *p, struct replay_key *e, unsigned role)
{
	struct flow_op *o = add_op(p, FLOW_DELETE, e);

	if (o)
		o->tag = role;
	p->used[e->place] -= replay_charge(&p->map, e->place, e->size);
	replay_keys_remove(&p->keys, e);
}

static void add_write(struct replay *p, const struct replay_key *e, const struct replay_row *w,
		      unsigned role)
{
	struct flow_op *o = add_op(p, FLOW_WRITE, e);

	if (!o)
		return;
	o->name = w->key;
	o->name_len = w->key_len;
	o->content = content_id(w->key, w->key_len);
	o->tag = role;
}

/* What has not been used for longest goes until there is room. */
static void evict_until_fits(struct replay *p, const struct replay_key *keep)
{
	uint64_t capacity = p->job->capacity;
	struct replay_key *e;

	while (capacity && p->used[keep->place] > capacity) {
		e = replay_keys_oldest(&p->keys, keep->place);
		if (e == keep)
			return;
		add_delete(p, e, REPLAY_ROLE_DROP);
	}
}

/* An object as it will be once the chain has run; NULL when it cannot be. */
static struct replay_key *make_object(struct replay *p, const struct replay_row *w, uint64_t size)
{
	struct replay_key *e = replay_keys_find(&p->keys, w->id);
	unsigned place = e ? e->place : w->place;

	if (p->job->capacity && replay_charge(&p->map, place, size) > p->job->capacity) {
		p->r->too_large++;
		if (e)
			add_delete(p, e, REPLAY_ROLE_DROP);
		return NULL;
	}
	if (e) {
		p->used[place] -= replay_charge(&p->map, place, e->size);
		e->size = size;
		replay_keys_touch(&p->keys, e);
	} else {
		e = replay_keys_add(&p->keys, w->id, place, size);
	}
	if (!e) {
		replay_fail(p, -ENOMEM, "out of memory");
		return NULL;
	}
	p->used[place] += replay_charge(&p->map, place, size);
	evict_until_fits(p, e);
	return e;
}

int replay_chain_of(struct replay *p, const struct flow_op *ops, unsigned nr)
{
	if (ARRAY_RESERVE(p->chain, p->chain_capacity, nr) < 0)
		return replay_fail(p, -ENOMEM, "out of memory");
	memcpy(p->chain, ops, nr * sizeof(*ops));
	p->nr_chain = nr;
	return 0;
}

/* Hand the chain over; its last operation but deletions is @op. */
static int start_chain(struct replay *p, const struct replay_op *op, bool stop_on_error)
{
	struct penstock_err err = {0, ""};
	uint32_t at = p->unused - 1;
	int r;

	if (p->failed || !p->nr_chain)
		return p->failed;
	p->unused = p->ops[at].next;
	p->ops[at] = *op;
	for (unsigned i = 0; i < p->nr_chain; i++)
		p->chain[i].tag |= (uint64_t)at * REPLAY_ROLES;
	r = flow_start(p->flow, p->chain, p->nr_chain, sizeof(*p->chain), at, stop_on_error, &err);
	if (r < 0)
		return replay_fail(p, r, "%s", err.msg);
	p->in_flight++;
	return 0;
}

/* ------------------------------------------------------------------------- rows */

/* A part of @e.  One of no bytes takes no time: for the flow, 0 is all of the object. */
static void add_range(struct replay *p, unsigned type, const struct replay_key *e, uint64_t offset,
		      uint64_t len)
{
	struct flow_op *o = add_op(p, len ? type : FLOW_PAUSE, e);

	if (!o)
		return;
	o->offset = offset;
	o->len = len;
}

static void set_object(struct replay_op *op, const struct replay_key *e)
{
	op->number = e->number;
	op->place = e->place;
}

static void start_write(struct replay *p, struct replay_op *op, const struct replay_row *w,
			const struct trace_row *row)
{
	struct replay_key *e =
		p->ranges ? replay_keys_find(&p->keys, w->id) : make_object(p, w, row->size);

	if (!e)
		return;
	if (p->ranges)
		add_range(p, FLOW_WRITE, e, row->offset, row->size);
	else
		add_write(p, e, w, REPLAY_ROLE_MAIN);
	set_object(op, e);
}

/* A read of what is not there.  NULL: it is not read. */
static struct replay_key *read_missing(struct replay *p, const struct replay_row *w,
				       const struct trace_row *row)
{
	struct replay_key *e;
	char key[100];

	switch (p->job->missing) {
	case REPLAY_CREATE:
		e = make_object(p, w, row->offset + row->size);
		if (e)
			add_write(p, e, w, REPLAY_ROLE_MAKE);
		return e;
	case REPLAY_FAIL:
		snprintf(key, sizeof(key), "%.*s", (int)min_u64(w->key_len, sizeof(key) - 1),
			 w->key);
		p->r->absent = p->absent = true;
		penstock_fail(&p->err, -ENODATA,
			      "%s:%" PRIu64 ": %s is read, but nothing has written it",
			      p->job->trace, trace_reader_line(p->source), key);
		return NULL;
	default:
		p->r->skipped++;
		return NULL;
	}
}

static void start_read(struct replay *p, struct replay_op *op, const struct replay_row *w,
		       const struct trace_row *row)
{
	struct replay_key *e = replay_keys_find(&p->keys, w->id);
	uint64_t left;

	op->hit = e != NULL;
	if (e)
		replay_keys_touch(&p->keys, e);
	else
		e = read_missing(p, w, row);
	if (!e)
		return;
	left = e->size - min_u64(e->size, row->offset);
	p->r->clipped += row->size > left;
	op->size = min_u64(row->size, left);
	set_object(op, e);
	if (op->size == e->size)
		add_op(p, FLOW_READ, e);
	else
		add_range(p, FLOW_READ, e, row->offset, op->size);
	if (trace_is_demotion(row))
		add_delete(p, e, REPLAY_ROLE_LEAVE);
}

static void start_delete(struct replay *p, struct replay_op *op, const struct replay_row *w)
{
	struct replay_key *e = replay_keys_find(&p->keys, w->id);

	if (!e) {
		p->r->skipped_deletes++;
		return;
	}
	op->size = 0;
	set_object(op, e);
	add_delete(p, e, REPLAY_ROLE_MAIN);
}

int replay_start_row(struct replay *p, const struct trace_row *row, uint64_t due_ns)
{
	struct replay_op op = {.size = row->size,
			       .due_ns = due_ns,
			       .op = row->op,
			       .phase = row->phase,
			       .measured = true};
	struct replay_row w;

	replay_row_resolve(&w, &p->map, row);
	if (w.passed == REPLAY_PASSED && p->ranges && row->op == TRACE_DELETE)
		w.passed = REPLAY_PASSED_OP;
	if (w.passed != REPLAY_PASSED) {
		p->r->passed[w.passed]++;
		return 0;
	}
	op.id = w.id;
	op.tier = (uint8_t)w.tier;
	p->nr_chain = 0;
	if (replay_at_store(p, w.place))
		replay_store_row(p, &op, &w, row);
	else if (row->op == TRACE_WRITE)
		start_write(p, &op, &w, row);
	else if (row->op == TRACE_READ)
		start_read(p, &op, &w, row);
	else
		start_delete(p, &op, &w);
	if (p->failed)
		return p->failed;
	replay_count_start(p, &op, clock_ns());
	return start_chain(p, &op, row->op == TRACE_READ && !op.hit && !op.at_store);
}

int replay_start_fill(struct replay *p, const struct replay_row *w, uint64_t size)
{
	struct replay_op op = {
		.id = w->id, .size = size, .op = TRACE_WRITE, .tier = (uint8_t)w->tier};
	struct replay_key *e = replay_keys_find(&p->keys, w->id);

	if (e && e->size == size) /* of an earlier run */
		return 0;
	if (replay_stopped(p))
		return replay_fail(p, -ECANCELED, "interrupted");
	if (replay_drain(p, p->job->depth - 1) < 0)
		return p->failed;
	p->nr_chain = 0;
	if (replay_at_store(p, w->place)) {
		replay_store_fill(p, &op, w, size);
		return start_chain(p, &op, false);
	}
	e = make_object(p, w, size);
	if (!e)
		return p->failed;
	add_write(p, e, w, REPLAY_ROLE_MAIN);
	set_object(&op, e);
	return start_chain(p, &op, false);
}
