/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects by number, and the order of operations on each.  An operation joins the queue of its
 * object when its chain is started; it is enabled when only reads are before it and it is a
 * read itself, or when nothing is.
 */
#include <stdlib.h>

#include "base/util.h"
#include "load/run/flow_in.h"

static struct object **bucket_of(const struct flow *f, uint64_t number)
{
	return &f->buckets[number * 0x9e3779b97f4a7c15ull >> 20 & (f->nr_buckets - 1)];
}

static bool grow(struct flow *f)
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
			o->next = *bucket_of(f, o->number);
			*bucket_of(f, o->number) = o;
		}
	free(old);
	return true;
}

struct object *object_get(struct flow *f, uint64_t number)
{
	struct object *o;

	if (f->nr_objects >= f->nr_buckets && !grow(f))
		return NULL;
	for (o = *bucket_of(f, number); o; o = o->next)
		if (o->number == number)
			return o;
	o = arena_get(&f->objects);
	if (!o)
		return NULL;
	o->number = number;
	o->next = *bucket_of(f, number);
	*bucket_of(f, number) = o;
	f->nr_objects++;
	return o;
}

void object_forget(struct flow *f, struct object *o)
{
	struct object **at = bucket_of(f, o->number);

	if (o->first || o->exists || o->closing)
		return;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	f->nr_objects--;
	label_free(&f->labels, o->label);
	arena_put(&f->objects, o);
}

void object_join(struct object *o, struct op *op)
{
	op->oprev = o->last;
	op->onext = NULL;
	op->enabled = !o->last ||
		      (op->type == FLOW_READ && o->last->enabled && o->last->type == FLOW_READ);
	if (o->last)
		o->last->onext = op;
	else
		o->first = op;
	o->last = op;
}

static void enable(struct flow *f, struct op *op)
{
	op->enabled = true;
	if (op->state == OP_OBJECT)
		flow_ready(f, op);
}

/* The file stays open for a read that follows; whoever writes or removes it closes it himself. */
static void leave_file(struct flow *f, struct object *o, struct op *op)
{
	struct sluice_file *file = op->src_file;

	if (!file)
		return;
	op->src_file = NULL;
	if (file == o->file)
		o->file_users--;
	else if (!o->file && o->first)
		o->file = file;
	else
		clerk_discard(f, o, file);
	if (o->file && !o->first && !o->file_users) {
		clerk_discard(f, o, o->file);
		o->file = NULL;
	}
}

void object_closed(struct flow *f, struct object *o)
{
	if (--o->closing)
		return;
	if (o->first && o->first->state == OP_OBJECT)
		flow_ready(f, o->first);
	object_forget(f, o);
}

void object_leave(struct flow *f, struct op *op)
{
	struct object *o = op->object;
	struct op *next;

	*(op->oprev ? &op->oprev->onext : &o->first) = op->onext;
	*(op->onext ? &op->onext->oprev : &o->last) = op->oprev;
	leave_file(f, o, op);
	next = o->first;
	if (next && !next->enabled) {
		enable(f, next);
		while (next->type == FLOW_READ && next->onext && next->onext->type == FLOW_READ) {
			next = next->onext;
			enable(f, next);
		}
	}
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
static void keep(struct place *p, const struct object *o)
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
				keep(p, o);
			if (p && p->map)
				extents_give(&o->where, p->map);
			if (o->label && o->label->class >= LABEL_CLASSES)
				label_free(&f->labels, o->label);
		}
	free(f->buckets);
	arena_fini(&f->objects);
}
