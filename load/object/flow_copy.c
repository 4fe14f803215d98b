/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of an object are, and what copy threads do with them: copy between the memory of
 * places and buffers, make content, check it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "load/object/flow_internal.h"

void slot_fail(struct slot *s, int code, const char *msg)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&s->code, &none, code))
		s->msg = strdup(msg);
}

/* --------------------------------------------------------------- where bytes are */

static struct extent units_at(const struct place *p, const struct extents *where, uint64_t pos,
			      struct extent_hint *hint)
{
	return extents_find(where, pos / p->unit, hint);
}

/* Offset in the slab or arena of byte @pos of the object; *@len is cut to what lies there in a row.
 */
static uint64_t place_offset(const struct place *p, const struct extents *where, uint64_t pos,
			     uint64_t *len, struct extent_hint *hint)
{
	struct extent x = units_at(p, where, pos, hint);
	uint64_t into = pos % p->unit, offset;

	offset = (uint64_t)x.start * p->unit + into;
	*len = min_u64(*len, (uint64_t)x.count * p->unit - into);
	/* Host memory grows in steps, and the driver takes no copy across two that it has pinned.
	 */
	if (p->o.kind == PLACE_MEMORY)
		*len = min_u64(*len, PLACE_STEP - offset % PLACE_STEP);
	return offset;
}

struct end src_end(struct op *op, struct extent_hint *hint)
{
	struct place *p = op_src(op);

	return (struct end){p, &op->object->where,
			    p->o.kind == PLACE_SLAB ? op->flow->slab[op->place] : op->src_file,
			    hint};
}

struct end dst_end(struct op *op, struct extent_hint *hint)
{
	unsigned place = op->type == FLOW_MOVE ? op->to : op->place;
	struct place *p = op_dst(op);

	if (op->type == FLOW_WRITE_RANGE)
		return src_end(op, hint);

	return (struct end){p, &op->where,
			    p->o.kind == PLACE_SLAB ? op->flow->slab[place] : op->dst_file, hint};
}

char *end_addr(const struct end *e, uint64_t pos, uint64_t *len)
{
	return e->place->base + place_offset(e->place, e->where, pos, len, e->hint);
}

uint64_t end_offset(const struct end *e, uint64_t pos, uint64_t *len)
{
	if (e->place->o.kind == PLACE_FILES)
		return pos + (e->place->o.layout == PLACE_NPY ? PLACE_HEADER : 0);
	return SLAB_HEAD + place_offset(e->place, e->where, pos, len, e->hint);
}

/* ------------------------------------------------------------- in the copy threads */

static struct slot *task_slot(struct task *t)
{
	return container_of(t, struct slot, task);
}

void copy_task_check(struct task *t)
{
	struct slot *s = task_slot(t);
	const struct op *op = s->op;
	const struct flow *f = op->flow;
	uint64_t good = content_check(&f->content, s->data, s->len, op->object->content, s->pos);
	char name[NAME_TEXT], msg[NAME_TEXT + 120];

	if (good == s->len)
		return;
	snprintf(msg, sizeof(msg), "verification failed: %s: offset %" PRIu64 " holds 0x%02x%s",
		 attrs_print_name(name, op->object->attrs), s->pos + good,
		 (unsigned char)s->data[good],
		 (s->pos + good) % CONTENT_BLOCK < 16 ? ", a block of another object or place"
						      : "");
	slot_fail(s, -EBADMSG, msg);
}

/* A chunk between the host memory of places; to NULL: into its buffer. */
static void copy_host(struct slot *s, const struct end *to, const struct end *from)
{
	s->start_ns = clock_ns();
	for (uint64_t at = 0, n; at < s->len; at += n) {
		n = s->len - at;
		const char *source = end_addr(from, s->pos + at, &n);
		char *target = to ? end_addr(to, s->pos + at, &n) : s->data + at;
		memcpy(target, source, n);
	}
	s->end_ns = clock_ns();
}

void copy_task_out(struct task *t)
{
	struct extent_hint hint = {0};
	struct end src = src_end(task_slot(t)->op, &hint);

	copy_host(task_slot(t), NULL, &src);
}

void copy_task_copy(struct task *t)
{
	struct extent_hint here = {0}, there = {0};
	struct end src = src_end(task_slot(t)->op, &here), dst = dst_end(task_slot(t)->op, &there);

	copy_host(task_slot(t), &dst, &src);
}

static void make_content(const struct op *op, char *to, uint64_t len, uint64_t pos)
{
	const struct flow *f = op->flow;

	if (f->o.fill)
		content_fill(&f->content, to, len,
			     op->type == FLOW_WRITE ? op->content : op->object->content, pos);
	else
		content_noise(&f->content, to, len, pos);
}

void copy_task_make(struct task *t)
{
	struct slot *s = task_slot(t);

	make_content(s->op, s->data, s->len, s->pos);
}

void copy_task_fill(struct task *t)
{
	struct slot *s = task_slot(t);
	struct extent_hint hint = {0};
	struct end dst = dst_end(s->op, &hint);

	s->start_ns = clock_ns();
	for (uint64_t at = 0, n; at < s->len; at += n) {
		n = s->len - at;
		char *to = end_addr(&dst, s->pos + at, &n);
		make_content(s->op, to, n, s->pos + at);
	}
	s->end_ns = clock_ns();
}
