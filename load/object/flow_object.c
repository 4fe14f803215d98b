/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects by number, and the order of operations on each.  An operation joins the queue of its
 * object when its chain is started, and waits for those before it that it must not run beside:
 * reads never wait for reads, and ranges only where they overlap.
 */
#include <stdlib.h>

#include "base/util.h"
#include "load/object/flow_in.h"

static struct object **object_bucket(const struct flow *f, uint64_t number)
{
	return &f->buckets[number * 0x9e3779b97f4a7c15ull >> 20 & (f->nr_buckets - 1)];
}

static bool buckets_grow(struct flow *f)
{
	struct object **old = f->buckets, *o, *next;
	uint64_t nr = f->nr_buckets;

	f->buckets = calloc(nr ? 2 * nr : 1024, sizeof(struct object *));
	if (!f->buckets) {
		f->buckets = old;
		return nr; /* slower, but it goes on */
	}
	f->nr_buckets = nr ? 2 * nr : 1024;
	for (uint64_t i = 0; i < nr; i++)
		for (o = old[i]; o; o = next) {
			next = o->next;
			o->next = *object_bucket(f, o->number);
			*object_bucket(f, o->number) = o;
		}
	free(old);
	return true;
}

struct object *object_get(struct flow *f, uint64_t number)
{
	struct object *o;

	if (f->nr_objects >= f->nr_buckets && !buckets_grow(f))
		return NULL;
	for (o = *object_bucket(f, number); o; o = o->next)
		if (o->number == number)
			return o;
	o = arena_get(&f->objects);
	if (!o)
		return NULL;
	o->number = number;
	o->next = *object_bucket(f, number);
	*object_bucket(f, number) = o;
	f->nr_objects++;
	return o;
}

void object_forget(struct flow *f, struct object *o)
{
	struct object **at = object_bucket(f, o->number);

	if (o->first || o->exists || o->closing)
		return;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	f->nr_objects--;
	label_free(&f->labels, o->label);
	arena_put(&f->objects, o);
}

/* ------------------------------------------------------------ their files */

void object_share_file(struct object *o, struct op *op)
{
	op->rw = op->type == FLOW_PATCH || o->patched;
	if (!o->handle || (op->rw && !o->handle->rw))
		return;
	op->handle = o->handle;
	op->src_file = o->handle->file;
	o->handle->users++;
}

struct sluice_file *object_take_file(struct flow *f, struct object *o)
{
	struct sluice_file *file = o->handle ? o->handle->file : NULL;

	if (o->handle)
		arena_put(&f->handles, o->handle);
	o->handle = NULL;
	return file;
}

static void drop_handle(struct flow *f, struct object *o, struct handle *h)
{
	clerk_discard(f, o, h->file);
	arena_put(&f->handles, h);
}

/* The file of an operation becomes the object's, where others follow that can use it. */
static bool donate(struct flow *f, struct object *o, const struct op *op)
{
	struct handle *h, *old = o->handle;

	if (!o->first || (old && (old->rw || !op->rw)))
		return false;
	h = arena_get(&f->handles);
	if (!h)
		return false;
	h->file = op->src_file;
	h->rw = op->rw;
	o->handle = h;
	if (old && !old->users)
		drop_handle(f, o, old);
	return true;
}

/* The file stays open for those that follow; whoever replaces or removes it closes it himself. */
static void leave_file(struct flow *f, struct object *o, struct op *op)
{
	struct handle *h = op->handle;

	if (h) {
		if (!--h->users && h != o->handle)
			drop_handle(f, o, h);
	} else if (op->src_file && !donate(f, o, op)) {
		clerk_discard(f, o, op->src_file);
	}
	op->handle = NULL;
	op->src_file = NULL;
	if (o->handle && !o->first && !o->handle->users) {
		drop_handle(f, o, o->handle);
		o->handle = NULL;
	}
}

void object_closed(struct flow *f, struct object *o)
{
	if (--o->closing)
		return;
	if (o->first && o->first->state == OP_OBJECT && !o->first->blockers)
		flow_ready(f, o->first);
	object_forget(f, o);
}

/* ------------------------------------------------------------ their order */

static bool ranged(const struct op *op)
{
	return op->len && (op->type == FLOW_READ || op->type == FLOW_PATCH);
}

/* Must one of them wait for the other? */
static bool conflict(const struct op *a, const struct op *b)
{
	if (a->type == FLOW_READ && b->type == FLOW_READ)
		return false;
	if (!ranged(a) || !ranged(b))
		return true;
	return a->offset < b->offset + b->len && b->offset < a->offset + a->len;
}

static uint32_t count_blockers(const struct object *o, const struct op *op)
{
	uint32_t n = 0;

	if (op->type == FLOW_READ && !o->nr_alone)
		return 0;
	if (op->type != FLOW_READ && !ranged(op))
		return o->nr_ops;
	for (const struct op *before = o->first; before; before = before->onext)
		n += conflict(before, op);
	return n;
}

void object_join(struct object *o, struct op *op)
{
	op->blockers = count_blockers(o, op);
	op->oprev = o->last;
	op->onext = NULL;
	*(o->last ? &o->last->onext : &o->first) = op;
	o->last = op;
	o->nr_ops++;
	o->nr_alone += op->type != FLOW_READ;
}

static void unblock(struct flow *f, const struct op *op)
{
	for (struct op *next = op->onext; next; next = next->onext)
		if (conflict(op, next) && --next->blockers == 0 && next->state == OP_OBJECT)
			flow_ready(f, next);
}

void object_leave(struct flow *f, struct op *op)
{
	struct object *o = op->object;

	*(op->oprev ? &op->oprev->onext : &o->first) = op->onext;
	*(op->onext ? &op->onext->oprev : &o->last) = op->oprev;
	o->nr_ops--;
	o->nr_alone -= op->type != FLOW_READ;
	leave_file(f, o, op);
	if (op->type != FLOW_READ || o->nr_alone)
		unblock(f, op);
	object_forget(f, o);
}

void object_vanish(struct flow *f, struct object *o)
{
	struct place *p = flow_place(f, o->place);
	uint64_t charge = place_charge(p, o->size);

	if (!o->exists)
		return;
	o->exists = false;
	if (p->map)
		extents_give(&o->where, p->map);
	p->used -= charge;
	p->objects--;
	space_return(f, o->place, charge);
}

/* For the index of a slab. */
static void object_keep(struct place *p, const struct object *o)
{
	struct place_old kept = {.name = o->label->text,
				 .name_len = o->label->name_len,
				 .size = o->size,
				 .content = o->content,
				 .where = o->where,
				 .shape = o->label->shape_len ? o->label->text + o->label->name_len
							      : NULL,
				 .element = o->element};

	slab_keep(p, &kept);
}

void objects_fini(struct flow *f)
{
	struct object *o;
	struct place *p;

	for (uint64_t i = 0; i < f->nr_buckets; i++)
		for (o = f->buckets[i]; o; o = o->next) {
			p = o->exists ? flow_place(f, o->place) : NULL;
			if (p && p->o.kind == PLACE_SLAB && p->o.keep)
				object_keep(p, o);
			if (p && p->map)
				extents_give(&o->where, p->map);
			if (o->label && o->label->class >= LABEL_CLASSES)
				label_free(&f->labels, o->label);
		}
	free(f->buckets);
	arena_fini(&f->objects);
}
