/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows at a KV store.  Elsewhere a replay knows what exists and says what goes; a store says both
 * itself, so a row is one call to it, and what came of it is known when it has come back: a read
 * of what is not there is a miss, and with REPLAY_CREATE the value is set then, as who had to
 * compute it again would do.
 */
#include <errno.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/replay/replay_internal.h"

bool replay_at_store(const struct replay *p, unsigned place)
{
	return p->map.opts[place].kind == PLACE_STORE;
}

/* What an operation on a key is to the flow: its number follows from the key. */
static struct flow_op store_op(unsigned type, const struct replay_row *w, uint64_t size)
{
	return (struct flow_op){.type = (uint8_t)type,
				.place = (uint8_t)w->place,
				.object = w->id.a,
				.name = w->key,
				.name_len = w->key_len,
				.size = size,
				.content = content_id(w->key, w->key_len)};
}

int replay_store_row(struct replay *p, struct replay_op *op, const struct replay_row *w,
		     const struct trace_row *row)
{
	static const uint8_t types[] = {
		[TRACE_READ] = FLOW_READ, [TRACE_WRITE] = FLOW_WRITE, [TRACE_DELETE] = FLOW_DELETE};
	uint64_t size = row->op == TRACE_READ ? row->offset + row->size : row->size;
	struct flow_op ops[2] = {store_op(types[row->op], w, size)};
	unsigned nr = 1;

	op->at_store = true;
	op->place = (uint8_t)w->place;
	if (size > PENSTOCK_STORE_VALUE_MAX) {
		p->r->too_large++;
		return 0;
	}
	ops[0].set_missed = row->op == TRACE_READ && p->job->missing == REPLAY_CREATE;
	if (row->op == TRACE_READ && trace_is_demotion(row)) {
		ops[1] = store_op(FLOW_DELETE, w, 0);
		ops[1].tag = REPLAY_ROLE_LEAVE;
		nr = 2;
	}
	return replay_chain_of(p, ops, nr);
}

int replay_store_fill(struct replay *p, struct replay_op *op, const struct replay_row *w,
		      uint64_t size)
{
	struct flow_op set = store_op(FLOW_WRITE, w, size);

	op->at_store = true;
	op->place = (uint8_t)w->place;
	if (size > PENSTOCK_STORE_VALUE_MAX) {
		p->r->too_large++;
		return 0;
	}
	return replay_chain_of(p, &set, 1);
}

/* ---------------------------------------------------------------- what came of it */

/* A read found nothing; what was done about it is in @d. */
static void read_missed(struct replay *p, const struct flow_done *d)
{
	if (p->job->missing == REPLAY_CREATE) {
		p->r->too_large += d->result < 0;
		if (d->result >= 0)
			replay_count_created(p, d->size);
		return;
	}
	p->r->skipped++;
	if (p->job->missing != REPLAY_FAIL || p->absent)
		return;
	p->r->absent = p->absent = true;
	penstock_fail(&p->err, -ENODATA, "%s: is read, but the store has not got it: %s",
		      p->job->trace, d->error);
}

bool replay_store_result(struct replay *p, struct replay_op *op, unsigned role,
			 const struct flow_done *d)
{
	bool refused = d->result < 0 && d->result != -ENOENT && d->result != -ENOSPC;

	if (refused)
		return false; /* a failure, as anywhere else */
	if (d->type == FLOW_READ) {
		op->hit = !d->missed;
		replay_count_hit(p, op, d->end_ns);
		if (!d->missed) {
			p->r->clipped += op->size > d->size;
			op->size = d->size;
		} else {
			read_missed(p, d);
		}
	} else if (d->missed) {
		p->r->too_large += d->type == FLOW_WRITE;
		p->r->skipped_deletes += d->type == FLOW_DELETE && role == REPLAY_ROLE_MAIN;
	}
	return d->missed;
}
