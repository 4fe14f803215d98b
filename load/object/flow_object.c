/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects by number, and the order of operations on each.  An operation joins the queue of its
 * object when its chain is started, and waits for those before it that it must not run beside:
 * reads never wait for reads, and ranges only where they overlap.
 */

#include "base/util.h"
#include "load/object/flow_internal.h"

struct object *object_get(struct flow *f, uint64_t number)
{
	struct penstock_table_node *n = penstock_table_find(&f->table, number);
	struct object *o = n ? container_of(n, struct object, node) : arena_get(&f->objects);

	if (n || !o)
		return o;
	if (penstock_table_insert(&f->table, &o->node, number) == 0)
		return o;
	arena_put(&f->objects, o);
	return NULL;
}

void object_forget(struct flow *f, struct object *o)
{
	if (o->first || o->exists || o->closing)
		return;
	penstock_table_remove(&f->table, &o->node);
	attrs_free(&f->attrs, o->attrs);
	arena_put(&f->objects, o);
}

/* ------------------------------------------------------------ their files */

void object_share_file(struct object *o, struct op *op)
{
	op->rw = op->type == FLOW_WRITE_RANGE || o->range_written;
	if (!o->shared_file || (op->rw && !o->shared_file->rw))
		return;
	op->shared_file = o->shared_file;
	op->src_file = o->shared_file->file;
	o->shared_file->users++;
}

struct penstock_file *object_take_file(struct flow *f, struct object *o)
{
	struct penstock_file *file = o->shared_file ? o->shared_file->file : NULL;

	if (o->shared_file) {
		f->nr_kept_open--;
		arena_put(&f->shared_files, o->shared_file);
	}
	o->shared_file = NULL;
	return file;
}

static void drop_shared_file(struct flow *f, struct object *o, struct shared_file *h)
{
	flow_close_file(f, o, h->file);
	f->nr_kept_open--;
	arena_put(&f->shared_files, h);
}

/* The file of an operation becomes the object's, where others follow that can use it. */
static bool keep_file_open(struct flow *f, struct object *o, const struct op *op)
{
	struct shared_file *h, *old = o->shared_file;

	if (!o->first || (old && (old->rw || !op->rw)) || f->nr_kept_open >= f->max_files / 2)
		return false;
	h = arena_get(&f->shared_files);
	if (!h)
		return false;
	h->file = op->src_file;
	h->rw = op->rw;
	o->shared_file = h;
	f->nr_kept_open++;
	if (old && !old->users)
		drop_shared_file(f, o, old);
	return true;
}

/* The file stays open for those that follow; whoever replaces or removes it closes it himself. */
static void leave_file(struct flow *f, struct object *o, struct op *op)
{
	struct shared_file *h = op->shared_file;

	if (h) {
		if (!--h->users && h != o->shared_file)
			drop_shared_file(f, o, h);
	} else if (op->src_file && !keep_file_open(f, o, op)) {
		flow_close_file(f, o, op->src_file);
	}
	op->shared_file = NULL;
	op->src_file = NULL;
	if (o->shared_file && !o->first && !o->shared_file->users) {
		drop_shared_file(f, o, o->shared_file);
		o->shared_file = NULL;
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
	return op->len && (op->type == FLOW_READ || op->type == FLOW_WRITE_RANGE);
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

	if (op->type == FLOW_READ && !o->nr_exclusive)
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
	o->nr_exclusive += op->type != FLOW_READ;
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
	o->nr_exclusive -= op->type != FLOW_READ;
	leave_file(f, o, op);
	if (op->type != FLOW_READ || o->nr_exclusive)
		unblock(f, op);
	object_forget(f, o);
}

void object_clear(struct flow *f, struct object *o)
{
	struct place *p = flow_place(f, o->place);
	uint64_t charge = place_charge(p, o->size);

	if (!o->exists)
		return;
	o->exists = false;
	if (p->map)
		extents_free(&o->where, p->map);
	p->used -= charge;
	p->objects--;
	space_return(f, o->place, charge);
}

/* For the index of a slab. */
static void object_keep(struct place *p, const struct object *o)
{
	struct place_old kept = {.name = o->attrs->text,
				 .name_len = o->attrs->name_len,
				 .size = o->size,
				 .content = o->content,
				 .where = o->where,
				 .shape = o->attrs->shape_len ? o->attrs->text + o->attrs->name_len
							      : NULL,
				 .element = o->element};

	slab_keep(p, &kept);
}

void objects_fini(struct flow *f)
{
	struct penstock_table_node *n = NULL;
	uint64_t pos = 0;

	while ((n = penstock_table_next(&f->table, &pos, n))) {
		struct object *o = container_of(n, struct object, node);
		struct place *p = o->exists ? flow_place(f, o->place) : NULL;

		if (p && p->o.kind == PLACE_SLAB && p->o.keep)
			object_keep(p, o);
		if (p && p->map)
			extents_free(&o->where, p->map);
		if (o->attrs && o->attrs->class >= ATTRS_CLASSES)
			attrs_free(&f->attrs, o->attrs);
	}
	penstock_table_fini(&f->table);
	arena_fini(&f->objects);
}
