/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which operation is next where a member of a striped file has its share of what a queue has in
 * flight, and that no member gets more than its part of slots and bounce buffers.
 */
#include <semaphore.h>

#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "tests/common/t.h"

enum { UNIT = 2 << 20, BLOCK = 1 << 20, SMALL = 4096, DEPTH = 128, OPS = 200, PAGE = 4096 };
enum { PIECES = 64, PIECE = 64 << 10 };

static struct penstock_io io;
static struct queue queues[2];
#define q queues[0]
static struct penstock_file file;
static struct file_member members[2];
static struct member_load loads[2];
static struct op ops[OPS];
static struct block blocks[DEPTH];
static struct penstock_stripe stripe;
static unsigned nr_ops;

/* A striped file of two members, and a queue with nothing to do. */
static void setup(void)
{
	memset(&io, 0, sizeof(io));
	memset(queues, 0, sizeof(queues));
	memset(&file, 0, sizeof(file));
	memset(loads, 0, sizeof(loads));
	memset(ops, 0, sizeof(ops));
	nr_ops = 0;
	op_list_init(&io.pending);
	io.opts.depth = DEPTH;
	io.queues = queues;
	io.nr_queues = io.nr_active = io.max_queues = 1;
	q.io = &io;
	q.local_tail = &q.local;
	q.ready_tail = &q.ready;
	for (unsigned i = 0; i < DEPTH; i++) {
		blocks[i].req.next = (struct penstock_req *)q.free;
		q.free = &blocks[i];
	}
	q.nr_free = DEPTH;
	stripe.unit = UNIT;
	stripe.nr = 2;
	file.io = &io;
	file.backing.stripe = &stripe;
	file.backing.direct = true;
	file.backing.off_align = file.backing.mem_align = file.backing.write_align = PAGE;
	file.members = members;
	file.nr_members = 2;
	file.member_loads = loads;
	file.striped = true;
}

static struct op *new_op(enum penstock_opcode opcode, uint64_t offset, uint64_t len, uintptr_t addr)
{
	struct op *op = &ops[nr_ops++];

	op->opcode = opcode;
	op->file = &file;
	op->remote_or_striped = file.remote_or_striped;
	op->offset = offset;
	op->len = op->stop = len;
	op->block = BLOCK;
	op->one = (struct penstock_iov){(void *)addr, len};
	op->iov = &op->one;
	op->nr_iov = 1;
	return op;
}

/* Reads or writes of one unit each, that all queues share. */
static void share(enum penstock_opcode opcode, const unsigned *units, unsigned nr)
{
	setup();
	for (unsigned i = 0; i < nr; i++)
		pending_add(&io, new_op(opcode, (uint64_t)units[i] * UNIT, UNIT, PAGE));
}

/* One that is for this queue alone. */
static struct op *give(enum penstock_opcode opcode, uint64_t offset, uint64_t len, uintptr_t addr)
{
	struct op *op = new_op(opcode, offset, len, addr);

	op->queue = &q;
	op->state = OP_PENDING;
	mpsc_stack_push(&q.inbox.stack, &op->item, &op->item);
	return op;
}

/* Take what there is room for; the engine has it, and keeps it. */
static void pull(void)
{
	queue_pull(&q);
	for (; q.ready; q.ready = (struct block *)q.ready->req.next)
		q.inflight++;
	q.ready_tail = &q.ready;
}

static struct op *next(void)
{
	return pending_next(&q, 0);
}

static void who_waits_for_a_slow_member_lets_others_by(void)
{
	static const unsigned units[] = {0, 2, 5};

	share(PENSTOCK_READ, units, 3);
	T_EQ(next() == &ops[0], true);
	loads[0].bytes = MEMBER_BYTES - 1;
	T_EQ(next() == &ops[0], true);
	loads[0].bytes = MEMBER_BYTES;
	T_EQ(next() == &ops[2], true);
	/* all have their share: as without any */
	loads[1].bytes = MEMBER_BYTES;
	T_EQ(next() == &ops[0], true);
	/* a few blocks in flight are few for each */
	io.opts.depth = 4;
	loads[0] = (struct member_load){.blocks = 2};
	loads[1] = (struct member_load){.blocks = 1};
	T_EQ(next() == &ops[2], true);
}

static void nobody_gets_the_last_quarter(void)
{
	static const unsigned units[] = {0, 2};

	share(PENSTOCK_READ, units, 2);
	loads[0].blocks = DEPTH / 4 * 3 - 1;
	T_EQ(next() == &ops[0], true);
	loads[0].blocks++;
	T_EQ(next() == NULL, true);
	loads[0] = (struct member_load){.bounced = BOUNCE_SLOTS / 4 * 3 - 1};
	T_EQ(next() == &ops[0], true);
	loads[0].bounced++;
	T_EQ(next() == NULL, true);
	/* bytes, where the library decides how many */
	io.flight_bytes = 32 << 20;
	loads[0] = (struct member_load){.bytes = 24 << 20};
	T_EQ(next() == &ops[0], true);
	io.auto_depth = true;
	T_EQ(next() == NULL, true);
	/* a depth of a few is what was asked for */
	io.opts.depth = 8;
	loads[0] = (struct member_load){.blocks = 7};
	T_EQ(next() == &ops[0], true);
	/* nor does one that is alone */
	io.opts.depth = DEPTH;
	loads[0].blocks = DEPTH / 4 * 3;
	pending_del(&io, &ops[1]);
	T_EQ(next() == NULL, true);
}

static void who_may_go_is_found_far_behind(void)
{
	struct op *far;

	setup();
	for (unsigned i = 0; i < 100; i++)
		pending_add(&io, new_op(PENSTOCK_READ, 2 * (uint64_t)i * UNIT, UNIT, PAGE));
	far = new_op(PENSTOCK_READ, UNIT, UNIT, PAGE);
	pending_add(&io, far);
	loads[0].blocks = DEPTH / 4 * 3;
	T_EQ(next() == far, true);
	pending_del(&io, far);
	T_EQ(next() == NULL, true);
	T_EQ(next() == NULL, true); /* that was looked for */
	pending_add(&io, far);
	T_EQ(next() == far, true);
	/* the member that it is for has its share, and then a block of it is back */
	loads[1].blocks = DEPTH / 2;
	T_EQ(next() == NULL, true);
	blocks[0].op = far;
	blocks[0].load = &loads[1];
	pending_block_done(&q, &blocks[0]);
	loads[1].blocks--;
	T_EQ(next() == far, true);
}

static void the_later_of_two_writes_stays_the_later(void)
{
	static const unsigned units[] = {0, 1, 1};

	share(PENSTOCK_WRITE, units, 3);
	ops[0].len = 2 * UNIT; /* its second unit is where the others write */
	loads[0].bytes = MEMBER_BYTES;
	T_EQ(next() == &ops[0], true);
}

static void small_ones_of_a_queue_let_others_by(void)
{
	const struct op *late;

	setup();
	for (unsigned i = 0; i < 150; i++)
		give(PENSTOCK_READ, (uint64_t)i * SMALL, SMALL, PAGE);
	for (unsigned i = 0; i < 10; i++)
		give(PENSTOCK_READ, UNIT + (uint64_t)i * SMALL, SMALL, PAGE);
	pull();
	T_EQ(loads[0].blocks, DEPTH / 4 * 3);
	T_EQ(loads[0].bytes, DEPTH / 4 * 3 * SMALL);
	T_EQ(loads[1].blocks, 10);
	/* who comes now as well */
	give(PENSTOCK_READ, UNIT, SMALL, PAGE);
	late = give(PENSTOCK_READ, 0, SMALL, PAGE);
	pull();
	T_EQ(loads[0].blocks, DEPTH / 4 * 3);
	T_EQ(loads[1].blocks, 11);
	/* one is back: the one that has waited longest is next, not the last to come */
	loads[0].blocks--;
	pull();
	T_EQ(loads[0].blocks, DEPTH / 4 * 3);
	T_EQ(late->state, OP_PENDING);
	T_EQ(ops[DEPTH / 4 * 3].state, OP_ISSUED);
	T_EQ(io.pending_ops, 150 + 1 - DEPTH / 4 * 3 - 1);
}

static void odd_addresses_leave_bounce_buffers_to_others(void)
{
	setup();
	for (unsigned i = 0; i < 2 * BOUNCE_SLOTS; i++)
		give(PENSTOCK_READ, 2 * (uint64_t)i * UNIT, BLOCK, PAGE + 1);
	for (unsigned i = 0; i < 3; i++)
		give(PENSTOCK_READ, UNIT + 2 * (uint64_t)i * UNIT, BLOCK, PAGE + 1);
	pull();
	T_EQ(loads[0].bounced, BOUNCE_SLOTS / 4 * 3);
	T_EQ(loads[1].bounced, 3);
	T_EQ(q.inflight, BOUNCE_SLOTS / 4 * 3 + 3);
}

static void a_write_does_not_pass_one_that_waits(void)
{
	struct op *first, *second;

	setup();
	loads[0].blocks = DEPTH / 4 * 3;
	first = give(PENSTOCK_WRITE, 2 * UNIT, SMALL, PAGE);
	second = give(PENSTOCK_WRITE, 2 * UNIT - SMALL, 2 * SMALL, PAGE);
	pull();
	T_EQ(first->state, OP_PENDING);
	T_EQ(second->state, OP_PENDING);
	T_EQ(loads[1].blocks, 0);
	/* room for both: in the order in which they came */
	loads[0].blocks = 0;
	T_EQ(next() == first, true);
	pull();
	pull();
	T_EQ(loads[0].blocks, 2);
	T_EQ(loads[1].blocks, 1);
}

/* Pieces of a list may be smaller than blocks: then there are more of them than was thought. */
static void who_has_more_blocks_than_expected_is_seen_to_the_end(void)
{
	static struct penstock_iov pieces[PIECES];
	struct op *op;

	setup();
	io.nr_active = 2;
	file.backing.stripe = NULL;
	file.backing.direct = file.striped = false;
	op = new_op(PENSTOCK_READ, 0, (uint64_t)PIECES * PIECE, PAGE);
	for (unsigned i = 0; i < PIECES; i++)
		pieces[i] = (struct penstock_iov){(void *)(uintptr_t)(PAGE + 2 * i * PIECE), PIECE};
	op->iov = pieces;
	op->nr_iov = PIECES;
	pending_add(&io, op);
	while (op->state == OP_PENDING) {
		T_OK(io.pending_blocks > 0);
		pull();
	}
	T_EQ(q.inflight, PIECES);
	T_EQ(io.pending_blocks, 0);
}

static void see_what_is_left(void *arg, const struct penstock_done *done)
{
	(void)done;
	T_OK(!q.local && !mpsc_stack_any(&q.inbox.stack));
	*(uint64_t *)arg = io.pending_ops;
}

/* One that a user waits for, and one that another callback has submitted. */
static void a_callback_may_wait_for_what_was_not_begun(void)
{
	struct op *first, *op;
	uint64_t left = 0;

	setup();
	io.nr_queues = io.nr_active = 2;
	give(PENSTOCK_READ, 0, SMALL, PAGE);
	queue_end_cancelled(&q); /* off the stack */
	op = new_op(PENSTOCK_READ, SMALL, SMALL, PAGE);
	T_OK(queue_add_local(&q, op));
	T_EQ(q.nr_local, 2);
	first = new_op(PENSTOCK_READ, 2 * SMALL, SMALL, PAGE);
	first->on_done = see_what_is_left;
	first->arg = &left;
	first->spare = true;
	file.refs = OPS;
	ops_finish(&io, &q, first);
	T_EQ(left, 2);
	T_EQ(q.inbox.state, THREAD_RUNNING);
}

/* The I/O thread is in here until it may go on. */
static void hold(void *arg, const struct penstock_done *done)
{
	sem_t *sems = arg;

	T_EQ(done->res, SMALL);
	sem_post(&sems[0]);
	sem_wait(&sems[1]);
}

static void nothing_overtakes_a_large_one_of_the_same_call(void)
{
	enum { MANY = 3 * PULL_MAX };
	static char mem[64 * SMALL];
	struct penstock_op some[MANY];
	struct penstock_done done[MANY];
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct penstock_io *handle;
	sem_t sems[2];

	opts.engine = "null";
	opts.threads = 1;
	opts.block = SMALL;
	T_EQ(penstock_open(&handle, &opts, NULL), 0);
	t_file_make(t_path("large"), 1, SMALL);
	sem_init(&sems[0], 0, 0);
	sem_init(&sems[1], 0, 0);
	for (unsigned i = 0; i < MANY; i++)
		some[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
					       .path = t_path("large"),
					       .buf = mem,
					       .len = SMALL,
					       .memory = PENSTOCK_MEMORY_HOST};
	some[0].on_done = hold;
	some[0].arg = sems;
	T_EQ(penstock_submit(handle, some, 1, NULL, NULL), 1);
	sem_wait(&sems[0]);
	some[0].on_done = NULL;
	some[0].len = sizeof(mem);
	T_EQ(penstock_submit(handle, some, MANY, NULL, NULL), MANY);
	T_OK(!mpsc_stack_any(&handle->queues[0].inbox.stack));
	T_EQ(handle->pending_ops, MANY);
	sem_post(&sems[1]);
	T_EQ(penstock_wait_any(handle, done, MANY, MANY, -1), MANY);
	T_EQ(penstock_close(handle, NULL), 0);
	sem_destroy(&sems[0]);
	sem_destroy(&sems[1]);
}

static const struct t_case cases[] = {
	T_CASE(who_waits_for_a_slow_member_lets_others_by),
	T_CASE(nobody_gets_the_last_quarter),
	T_CASE(who_may_go_is_found_far_behind),
	T_CASE(the_later_of_two_writes_stays_the_later),
	T_CASE(small_ones_of_a_queue_let_others_by),
	T_CASE(odd_addresses_leave_bounce_buffers_to_others),
	T_CASE(a_write_does_not_pass_one_that_waits),
	T_CASE(who_has_more_blocks_than_expected_is_seen_to_the_end),
	T_CASE(a_callback_may_wait_for_what_was_not_begun),
	T_CASE(nothing_overtakes_a_large_one_of_the_same_call),
};

int main(void)
{
	const struct t_group group = {"pending", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
