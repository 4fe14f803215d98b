/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation waits for before it starts: its turn, a permit, its object, space. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/util.h"
#include "load/object/flow_internal.h"

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

void op_fail_named(struct op *op, const struct attrs *l, int code, const char *msg)
{
	char name[NAME_TEXT];

	op_fail(op, code, "%s: %s", attrs_print_name(name, l), msg);
}

void flow_ready(struct flow *f, struct op *op)
{
	op->state = OP_WAIT_CHAIN;
	op->task.next = NULL;
	*f->ready_tail = &op->task;
	f->ready_tail = &op->task.next;
}

/* The operations that wait for the quota and may go now. */
static void quota_wake(struct flow *f, struct quota *l)
{
	while (l->waiting.nr && quota_is_granted(l, penstock_heap_first(&l->waiting)))
		flow_ready(f, op_heap_take(&l->waiting));
}

static void quota_return(struct flow *f, struct quota *l, uint64_t amount)
{
	l->returned += amount;
	quota_wake(f, l);
}

void permits_return(struct flow *f, uint32_t nr)
{
	quota_return(f, &f->permits, nr);
}

void space_return(struct flow *f, unsigned place, uint64_t amount)
{
	quota_return(f, &f->space[place], amount);
}

/* Wait for a quota; without the memory for that, fail. */
static void wait_at(struct flow *f, struct op *op, struct quota *l, uint64_t ticket)
{
	if (op_heap_put(&l->waiting, ticket, op) < 0) {
		op_fail(op, -ENOMEM, "out of memory");
		op_end(f, op);
	}
}

static bool pass_permit(struct flow *f, struct op *op)
{
	if (!op->alloc_begin || op->passed >= PASSED_PERMIT)
		return true;
	op->state = OP_PERMIT;
	if (!quota_is_granted(&f->permits, op->permit_ticket)) {
		wait_at(f, op, &f->permits, op->permit_ticket);
		return false;
	}
	op->passed = PASSED_PERMIT;
	op->chain->permits++;
	return true;
}

static bool pass_space(struct flow *f, struct op *op, bool force)
{
	unsigned place = op->type == FLOW_WRITE ? op->place : op->to;
	char name[NAME_TEXT];
	int r;

	if (!op_has_dst(op) || op->space >= SPACE_TAKEN || op->code < 0)
		return true;
	op->state = OP_SPACE;
	r = op_take_space(f, op, force);
	if (r == -EAGAIN) {
		wait_at(f, op, &f->space[place], op->space_ticket);
		return false;
	}
	if (r < 0)
		op_fail(op, r, "%s: no room for %" PRIu64 " bytes in place %u, which has %" PRIu64,
			attrs_print_name(name, op_attrs(op)), op->size, place,
			f->space[place].limit);
	return true;
}

/* It does not begin; one that has replaced something already still has to remove that. */
static void cancel(struct flow *f, struct op *op)
{
	op_fail(op, -ECANCELED, "cancelled");
	op->cancelled = true;
	if (op->old_attrs)
		op_start(f, op);
	else
		op_end(f, op);
}

/* Let an operation whose turn has come go as far as it can. */
static void admit(struct flow *f, struct op *op, bool force)
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
	if (op->blockers ||
	    (op->object->closing && op->type != FLOW_READ && op->type != FLOW_WRITE_RANGE))
		return;
	if (op->passed < PASSED_OBJECT)
		op_claim(f, op);
	if (pass_space(f, op, force))
		op_start(f, op);
}

void admit_ready(struct flow *f)
{
	struct task *t = f->ready, *next;

	f->ready = NULL;
	f->ready_tail = &f->ready;
	for (; t; t = next) {
		next = t->next;
		admit(f, container_of(t, struct op, task), false);
	}
}

void admit_oldest(struct flow *f)
{
	struct op *op = f->first ? f->first->ops : NULL;
	struct penstock_heap *h;

	if (!op || op->state != OP_SPACE)
		return;
	h = &f->space[op->type == FLOW_WRITE ? op->place : op->to].waiting;
	for (uint64_t i = 0; i < h->nr; i++)
		if (h->v[i].value == (uintptr_t)op) {
			penstock_heap_remove(h, i);
			admit(f, op, true);
			return;
		}
}

void flow_set_allocs(struct flow *f, unsigned n)
{
	f->permits.limit = n ? n : UINT64_MAX;
	quota_wake(f, &f->permits);
}

void admit_all(struct flow *f)
{
	while (f->permits.waiting.nr)
		flow_ready(f, op_heap_take(&f->permits.waiting));
	for (unsigned i = 0; i < f->o.nr_places; i++)
		while (f->space[i].waiting.nr)
			flow_ready(f, op_heap_take(&f->space[i].waiting));
	for (struct chain *c = f->first; c; c = c->next)
		if (c->ops->state == OP_OBJECT)
			flow_ready(f, c->ops);
}
