/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What file threads do: open, make, close and remove files, and make memory usable.  An operation
 * that a file thread has belongs to it alone; of its object it only reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/flow_internal.h"

/* @fd: what a place has opened, or its error. */
static int take_file(struct op *op, const struct place *p, struct place_ref ref,
		     const struct attrs *l, int fd, struct penstock_file **out,
		     struct penstock_err *err)
{
	char path[PLACE_PATH];
	int r = fd;

	if (fd >= 0) {
		place_file_path(p, ref, l->text, l->name_len, path);
		r = penstock_file_take_fd(out, op->flow->io, fd, path, err);
	}
	if (r < 0)
		op_fail_named(op, l, r, err->msg);
	return r < 0 ? r : 0;
}

/* What a write replaces; that it is gone already is no reason not to write. */
static void remove_old(struct op *op)
{
	struct place *p = flow_place(op->flow, op->old_place);
	const struct attrs *l = op->old_attrs;
	CLEANUP_FREE char *uri = NULL;
	struct penstock_err err;
	int r;

	if (!l)
		return;
	penstock_file_close(TAKE_PTR(op->old_file), NULL);
	if (place_is_bucket(p)) {
		uri = bucket_uri(p, op->old_ref, l->text, l->name_len);
		r = uri ? penstock_s3_delete(p->bucket.client, (const char *const *)&uri, 1, &err)
			: penstock_fail(&err, -ENOMEM, "out of memory");
	} else {
		r = place_file_retire(p, op->old_ref, l->text, l->name_len, &err);
	}
	if (r < 0 && r != -ENOENT && r != -ESTALE)
		op_fail_named(op, l, r, err.msg);
}

static int make_dst(struct op *op, struct place *p)
{
	const struct attrs *l = op_attrs(op);
	uint64_t head = p->o.layout == PLACE_NPY ? PLACE_HEADER : 0;
	struct penstock_err err;
	int fd = place_file_make(p, &op->ref, l->text, l->name_len, op->size + head, &err);

	if (fd >= 0)
		op->space = SPACE_FILE;
	return take_file(op, p, op->ref, l, fd, &op->dst_file, &err);
}

static int open_src(struct op *op, struct place *p)
{
	const struct attrs *l = op->object->attrs;
	struct place_ref ref = op->object->ref;
	struct penstock_err err;
	int fd = place_file_open(p, ref, l->text, l->name_len, op->rw ? O_RDWR : O_RDONLY, &err);

	return take_file(op, p, ref, l, fd, &op->src_file, &err);
}

void file_task_open(struct task *t)
{
	struct op *op = container_of(t, struct op, task);
	struct place *src = op_src(op), *dst = op_dst(op);
	int r = 0;

	remove_old(op);
	if (op->code < 0)
		return;
	if (src && src->o.kind == PLACE_FILES && !op->src_file)
		r = open_src(op, src);
	if (r == 0 && dst && dst->o.kind == PLACE_FILES)
		make_dst(op, dst);
}

/* The destination: complete, or as if it had never been. */
static void close_dst(struct op *op, struct place *p)
{
	const struct attrs *l = op_attrs(op);
	struct penstock_err err;
	int r = penstock_file_close(TAKE_PTR(op->dst_file), &err);

	if (r == 0 && op->code == 0)
		r = place_file_done(p, op->ref, l->text, l->name_len, &err);
	if (r < 0)
		op_fail_named(op, l, r, err.msg);
	if (op->code < 0)
		place_file_remove(p, op->ref, l->text, l->name_len, NULL);
}

static void remove_src(struct op *op, struct place *p)
{
	const struct attrs *l = op->object->attrs;
	struct penstock_err err;
	int r;

	penstock_file_close(TAKE_PTR(op->src_file), NULL);
	r = place_file_retire(p, op->object->ref, l->text, l->name_len, &err);
	if (r < 0 && op->type == FLOW_DELETE)
		op_fail_named(op, l, r, err.msg);
}

static void sync_dst(struct op *op)
{
	struct end dst = dst_end(op, NULL);
	struct penstock_op u = {.opcode = PENSTOCK_SYNC, .file = dst.file};
	struct penstock_done done;
	struct penstock_err err;
	int r;

	op->sync_begin = clock_ns();
	r = penstock_run(op->flow->io, &u, &done, &err);

	if (r < 0)
		op_fail(op, r, "%s", err.msg);
	else if (done.res < 0)
		op_fail(op, (int)done.res, "%s", done.msg);
	op->sync_end = clock_ns();
}

void file_task_close(struct task *t)
{
	struct op *op = container_of(t, struct op, task);
	struct place *src = op_src(op), *dst = op_dst(op);

	if (op_syncs(op))
		sync_dst(op);
	if (op->space == SPACE_FILE)
		close_dst(op, dst);
	if (op_leaves(op) && src->o.kind == PLACE_FILES)
		remove_src(op, src);
}

/* ------------------------------------------------------------ no operation's */

struct file_job {
	struct task task;
	struct flow *flow;
	struct penstock_file *file;
	struct object *object;
	unsigned place;
	uint64_t from, len; /* units */
	int code;
};

static void file_job_done(struct task *t, void *owner)
{
	struct flow *f = owner;

	f->nr_file_jobs--;
	free(t);
}

static struct file_job *file_job_new(struct flow *f, void (*run)(struct task *t),
				     void (*done)(struct task *t, void *owner))
{
	struct file_job *e = calloc(1, sizeof(*e));

	if (e) {
		e->task.run = run;
		e->task.done = done;
		e->flow = f;
		f->nr_file_jobs++;
	}
	return e;
}

static void discard(struct task *t)
{
	penstock_file_close(container_of(t, struct file_job, task)->file, NULL);
}

static void discarded(struct task *t, void *owner)
{
	object_closed(owner, container_of(t, struct file_job, task)->object);
	file_job_done(t, owner);
}

void flow_close_file(struct flow *f, struct object *o, struct penstock_file *file)
{
	struct file_job *e = file_job_new(f, discard, discarded);

	if (!e) {
		penstock_file_close(file, NULL);
		return;
	}
	e->file = file;
	e->object = o;
	o->closing++;
	thread_pool_push(&f->file_threads, &e->task);
}

static void file_job_grow(struct task *t)
{
	struct file_job *e = container_of(t, struct file_job, task);
	struct place *p = flow_place(e->flow, e->place);

	e->code = place_memory_grow(p, e->from * p->unit, e->len * p->unit);
	if (e->code == 0 && e->flow->io)
		penstock_buf_register(e->flow->io, p->base + e->from * p->unit, e->len * p->unit,
				      p->huge, NULL, NULL);
	if (e->code == 0 && e->flow->gpu)
		place_pin(p, p->base + e->from * p->unit, e->len * p->unit);
}

static void grown(struct task *t, void *owner)
{
	struct file_job *e = container_of(t, struct file_job, task);
	struct flow *f = owner;
	struct place *p = flow_place(f, e->place);

	f->growing[e->place] = false;
	if (e->code == 0)
		extent_map_grow(p->map, e->from + e->len);
	else
		f->no_memory[e->place] = true;
	space_return(f, e->place, 0);
	file_job_done(t, owner);
}

void flow_grow_memory(struct flow *f, unsigned place, uint64_t units)
{
	struct place *p = flow_place(f, place);
	uint64_t ready = extent_map_ready(p->map), all = extent_map_units(p->map), step;
	struct file_job *e;

	if (f->growing[place] || f->no_memory[place])
		return;
	e = file_job_new(f, file_job_grow, grown);
	if (!e)
		return;
	step = max_u64(1, PLACE_STEP / p->unit);
	e->place = place;
	e->from = ready;
	e->len = min_u64((max_u64(units, 1) + step - 1) / step * step, all - ready);
	f->growing[place] = true;
	thread_pool_push(&f->file_threads, &e->task);
}
