/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation does once its turn has come: take space, open, move, sync, close. */
#include <errno.h>

#include "base/util.h"
#include "load/object/flow_internal.h"

static bool op_has_src(const struct op *op)
{
	return op->type != FLOW_WRITE && op->type != FLOW_PAUSE;
}

bool op_has_dst(const struct op *op)
{
	return op->type == FLOW_WRITE || op->type == FLOW_MOVE;
}

static unsigned dst_number(const struct op *op)
{
	return op->type == FLOW_MOVE ? op->to : op->place;
}

struct place *op_dst(const struct op *op)
{
	return op_has_dst(op) ? flow_place(op->flow, dst_number(op)) : NULL;
}

struct place *op_src(const struct op *op)
{
	return op_has_src(op) ? flow_place(op->flow, op->place) : NULL;
}

/* Where it writes, be it in the place of its object. */
static struct place *op_target(const struct op *op)
{
	return op->type == FLOW_WRITE_RANGE ? op_src(op) : op_dst(op);
}

static bool on_gpu(const struct place *p)
{
	return p && p->o.kind == PLACE_GPU;
}

bool op_on_gpu(const struct op *op)
{
	return on_gpu(op_src(op)) || on_gpu(op_dst(op));
}

static bool in_store(const struct place *p)
{
	return p && place_is_store(p);
}

static bool in_bucket(const struct place *p)
{
	return p && place_is_bucket(p);
}

static bool in_files(const struct place *p)
{
	return p && p->o.kind == PLACE_FILES;
}

/* ------------------------------------------------------------ object and space */

static void replace_object(struct flow *f, struct op *op)
{
	struct object *o = op->object;

	if (o->place == op->place && in_bucket(flow_place(f, o->place))) {
		op->overwrites = true;
		op->ref = o->ref;
		attrs_free(&f->attrs, o->attrs);
	} else if (in_files(flow_place(f, o->place)) || in_bucket(flow_place(f, o->place))) {
		op->old_attrs = o->attrs;
		op->old_ref = o->ref;
		op->old_place = o->place;
		op->old_file = object_take_file(f, o);
	} else {
		attrs_free(&f->attrs, o->attrs);
	}
	o->attrs = NULL;
	object_clear(f, o);
}

void op_claim(struct flow *f, struct op *op)
{
	struct object *o = op->object;
	char name[NAME_TEXT];

	op->passed = PASSED_OBJECT;
	op->end = op->size;
	if (op->type == FLOW_WRITE) {
		if (o->exists)
			replace_object(f, op);
		return;
	}
	if (in_store(op_src(op)) || (op->type == FLOW_DELETE && !o->exists))
		return; /* only the store knows; as it should be */
	if (!o->exists || o->place != op->place) {
		op_fail(op, -ENOENT, "object %llu (%s): is not in place %u",
			(unsigned long long)o->node.hash, attrs_print_name(name, o->attrs),
			op->place);
		return;
	}
	if (op->type == FLOW_MOVE && op->size != o->size) { /* the caller was told wrong */
		uint64_t charge = place_charge(op_dst(op), o->size);

		f->space[op->to].reserved += charge - op->charge;
		op->charge = charge;
	}
	op->size = o->size;
	op->from = op->len ? min_u64(op->offset, o->size) : 0;
	op->end = op->len ? min_u64(op->offset + op->len, o->size) : o->size;
	if (op->type == FLOW_READ || op->type == FLOW_WRITE_RANGE)
		object_share_file(o, op);
	else
		op->src_file = object_take_file(f, o);
}

/* Units are there, or will be. */
static int take_units(struct flow *f, struct op *op, bool force)
{
	unsigned place = dst_number(op);
	struct place *p = flow_place(f, place);
	uint64_t units = op->charge / p->unit, ready = extent_map_ready(p->map);
	int r = extents_alloc(&op->where, p->map, units);

	if (ready < extent_map_units(p->map) &&
	    (r == -ENOSPC || extent_map_unused(p->map) * p->unit < PLACE_STEP / 2))
		flow_grow_memory(f, place, r == -ENOSPC ? units : 0);
	if (r == -ENOSPC && (f->growing[place] || !force))
		return -EAGAIN;
	if (r == -ENOSPC && slab_stretch(p, units - extent_map_unused(p->map)) == 0)
		r = extents_alloc(&op->where, p->map, units);
	return r;
}

int op_take_space(struct flow *f, struct op *op, bool force)
{
	unsigned place = dst_number(op);
	struct place *p = flow_place(f, place);
	int r = 0;

	if (in_store(p))
		return 0;
	if (p->map && !p->o.stretch && op->charge > f->space[place].limit)
		return -ENOSPC;
	if (!force && !quota_is_granted(&f->space[place], op->space_ticket))
		return -EAGAIN;
	if (p->map)
		r = take_units(f, op, force);
	if (r == 0) {
		place_add_used(p, op->charge);
		op->space = SPACE_TAKEN;
	}
	return r;
}

/* ------------------------------------------------------------------- starting */

static enum op_mode choose_mode(const struct op *op)
{
	const struct place *src = op_src(op), *dst = op_dst(op);
	bool from = src && src->o.kind != PLACE_NULL, to = dst && dst->o.kind != PLACE_NULL;

	if (op->type == FLOW_WRITE_RANGE && from)
		return place_is_storage(src) ? MODE_WRITE : MODE_FILL;
	if (op->type == FLOW_DELETE || (!from && !to))
		return MODE_NONE;
	if (from && to) {
		if (place_is_storage(src))
			return place_is_storage(dst) ? MODE_PASS : MODE_LOAD;
		return place_is_storage(dst) ? MODE_STORE : MODE_COPY;
	}
	if (to)
		return place_is_storage(dst) ? MODE_WRITE : MODE_FILL;
	if (place_is_storage(src))
		return MODE_READ;
	return op->type == FLOW_READ ? MODE_COPY_OUT : MODE_NONE;
}

void op_used(struct op *op, bool write, uint64_t begin_ns, uint64_t end_ns)
{
	span_add(&op->device, begin_ns, end_ns);
	span_add(write ? &op->write_device : &op->read_device, begin_ns, end_ns);
	if (write)
		op->write_begin = begin_ns;
	else
		op->read_end = end_ns;
}

/* A place that keeps nothing takes its time all the same, one object after the other. */
static void use_link(struct flow *f, struct op *op, unsigned place, bool write)
{
	double rate = flow_place(f, place)->o.bytes_per_sec;
	uint64_t *free_at = &f->link[place][write], from;

	if (rate <= 0)
		return;
	from = max_u64(f->now, *free_at);
	*free_at = from + (uint64_t)((double)(op->end - op->from) / rate * 1e9);
	op_used(op, write, from, *free_at);
	op->timer_ns = max_u64(op->timer_ns, *free_at);
}

static void use_links(struct flow *f, struct op *op)
{
	const struct place *src = op_src(op), *dst = op_dst(op);

	if (op->type == FLOW_DELETE)
		return;
	if (src && src->o.kind == PLACE_NULL)
		use_link(f, op, op->place, op->type == FLOW_WRITE_RANGE);
	if (dst && dst->o.kind == PLACE_NULL)
		use_link(f, op, dst_number(op), true);
	if (op->timer_ns > f->now) {
		op->todo |= TODO_TIMER;
		flow_timer(f, op, op->timer_ns);
	}
}

void op_opened(struct flow *f, struct op *op)
{
	if (f->aborted)
		op_fail(op, -ECANCELED, "cancelled");
	if (op->code < 0) {
		op_moved(f, op);
		return;
	}
	if (in_store(op_src(op)) || in_store(op_dst(op))) {
		store_start(f, op);
		return;
	}
	if (in_bucket(op_src(op)) || in_bucket(op_dst(op))) {
		use_links(f, op);
		bucket_start_op(f, op);
		return;
	}
	if (op->dst_file && !f->stats.file.size) {
		f->stats.file.size = sizeof(f->stats.file);
		penstock_file_stat(op->dst_file, &f->stats.file);
	}
	op->mode = (uint8_t)choose_mode(op);
	if (in_files(op_dst(op)) && op_dst(op)->o.layout == PLACE_NPY)
		op->todo |= TODO_HEADER;
	op->pos = op->mode == MODE_NONE ? op->end : op->from;
	use_links(f, op);
	atomic_store(&op->chunks, 1);
	if ((op->todo & TODO_HEADER) || op->pos < op->end)
		slot_queue_enter(f, op);
	else if (!(op->todo & TODO_TIMER))
		op_moved(f, op);
}

static void file_opened(struct task *t, void *owner)
{
	op_opened(owner, container_of(t, struct op, task));
}

static void open_files(struct flow *f, struct op *op)
{
	op->start_ns = f->now;
	op->counted = true;
	f->nr_files++;
	op->task.run = file_task_open;
	op->task.done = file_opened;
	thread_pool_push(&f->file_threads, &op->task);
}

/* So many files may be open; the others wait, and whoever has some open waits for nobody. */
static void open_later(struct flow *f, struct op *op)
{
	op->task.next = NULL;
	*f->unopened_tail = &op->task;
	f->unopened_tail = &op->task.next;
}

void op_start(struct flow *f, struct op *op)
{
	bool read = in_files(op_src(op)) && op->type != FLOW_DELETE && !op->src_file;

	op->state = OP_RUNS;
	op->start_ns = f->now;
	if (!op->old_attrs && (op->code < 0 || !(read || in_files(op_dst(op)))))
		op_opened(f, op);
	else if (f->nr_files + f->nr_kept_open < f->max_files)
		open_files(f, op);
	else
		open_later(f, op);
}

/* The files of an operation are closed, or will be before those of the next are opened. */
static void uncount_files(struct flow *f, struct op *op)
{
	struct task *next;

	f->nr_files -= op->counted;
	op->counted = false;
	while ((next = f->unopened) && f->nr_files + f->nr_kept_open < f->max_files) {
		f->unopened = next->next;
		if (!f->unopened)
			f->unopened_tail = &f->unopened;
		open_files(f, container_of(next, struct op, task));
	}
}

/* --------------------------------------------------------------------- ending */

static void file_closed(struct task *t, void *owner)
{
	struct op *op = container_of(t, struct op, task);

	span_add(&op->device, op->sync_begin, op->sync_end);
	span_add(&op->write_device, op->sync_begin, op->sync_end);
	if (!op->passed_on || !--op->inflight) /* or its last chunk is still on its way to us */
		op_closed(owner, op);
}

/* Whether the object is gone from its place when the operation ends, however it does. */
bool op_leaves(const struct op *op)
{
	const struct object *o = op->object;

	return (op->type == FLOW_MOVE || op->type == FLOW_DELETE) && !op->cancelled && o->exists &&
	       o->place == op->place;
}

bool op_syncs(const struct op *op)
{
	const struct place *to = op_target(op);

	return op->code == 0 && to && place_is_storage(to) &&
	       to->o.durability != PENSTOCK_DURABLE_NONE;
}

/* Whether a file thread has to make it durable, or to close or remove something. */
static bool needs_file_thread(const struct op *op)
{
	return op_syncs(op) || op->space == SPACE_FILE || (op_leaves(op) && in_files(op_src(op)));
}

void op_moved(struct flow *f, struct op *op)
{
	if (op->passed_on || !needs_file_thread(op)) {
		op_closed(f, op);
		return;
	}
	op->task.run = file_task_close;
	op->task.done = file_closed;
	thread_pool_push(&f->file_threads, &op->task);
}

/*
 * The thread that moves the last chunk gives the operation to a file thread, while chunks are still
 * on their way to this thread, which counts them.  Both write to nothing that is the same: the file
 * thread has times of its own, and an operation that failed is not passed on.
 */
void op_all_cut(struct op *op)
{
	bool moves = op->mode == MODE_WRITE || op->mode == MODE_STORE || op->mode == MODE_PASS ||
		     op->mode == MODE_LOAD;

	if (!moves || (op->todo & TODO_TIMER) || !needs_file_thread(op))
		return;
	op->task.run = file_task_close;
	op->task.done = file_closed;
	op->passed_on = true;
	op->inflight++;
	atomic_fetch_sub(&op->chunks, 1);
}

static void op_commit(struct op *op)
{
	struct object *o = op->object;

	if (op->type == FLOW_WRITE) {
		o->attrs = TAKE_PTR(op->attrs);
		o->size = op->size;
		o->content = op->content;
		o->element = op->element;
	}
	o->exists = true;
	o->place = (uint8_t)dst_number(op);
	o->where = op->where;
	o->ref = op->ref;
	op->where = (struct extents){0};
	op->space = SPACE_NONE; /* the object has it now */
}

static void give_space(struct op *op)
{
	struct place *p = op_dst(op);

	if (p->map)
		extents_free(&op->where, p->map);
	p->used -= op->charge;
	p->objects--;
	op->space = SPACE_RESERVED;
}

void op_closed(struct flow *f, struct op *op)
{
	if (op_leaves(op))
		object_clear(f, op->object);
	if (op_has_dst(op) && op->code == 0 && !in_store(op_dst(op)))
		op_commit(op);
	else if (op->space >= SPACE_TAKEN)
		give_space(op);
	uncount_files(f, op);
	op_end(f, op);
}
