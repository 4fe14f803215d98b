/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on their way to a queue, in its engine and back: in every order there is, see waits.h.
 */
#include "tests/unit/src/core/waits.h"

static struct penstock_req *engine_has, *engine_keeps;
static struct penstock_file file;
static char file_name[] = "file";
static unsigned woken, answered, slow_reads, held;

static int engine_submit(void *state, struct penstock_req *const *reqs, unsigned n)
{
	(void)state;
	for (unsigned i = 0; i < n; i++)
		penstock_req_push(slow_reads && reqs[i]->code == PENSTOCK_REQ_READ ? &engine_keeps
										   : &engine_has,
				  reqs[i], (int32_t)reqs[i]->len);
	return (int)n;
}

/* This is where bytes are moved: not after the result has been seen. */
static int engine_reap(void *state, struct penstock_req **done, int64_t timeout_ns)
{
	int n = 0;

	(void)state;
	step();
	if (timeout_ns > 0 && !engine_has)
		block_while(is_set, &held); /* it looks again and again, until that is over */
	else if (timeout_ns && !engine_has)
		block_while(is_clear, &woken);
	woken = 0;
	*done = engine_has;
	engine_has = NULL;
	for (const struct penstock_req *req = *done; req; req = req->next, n++)
		T_EQ(answered, 0);
	return n;
}

static bool tells; /* that it has something */

static bool engine_ready(const void *state)
{
	(void)state;
	return tells && engine_has;
}

static void engine_wake(void *state)
{
	(void)state;
	woken = 1;
}

static const struct penstock_engine engine = {.name = "test",
					      .idles = true,
					      .submit = engine_submit,
					      .reap = engine_reap,
					      .ready = engine_ready,
					      .wake = engine_wake};

/* Operations that are to go to the first queue. */
static void setup_queue(void)
{
	setup();
	io->engine = &engine;
	io->opts.depth = DEPTH;
	queue->blocks = calloc(DEPTH, sizeof(*queue->blocks));
	for (unsigned i = 0; i < DEPTH; i++)
		block_put(queue, &queue->blocks[i]);
	queue->ready_tail = &queue->ready;
	queue->local_tail = &queue->local;
	queue->starved_tail = &queue->starved;
	queue->started = true;
	io->queues[1].open_result = -1;
	file = (struct penstock_file){
		.io = io, .refs = 1 + OPS, .name = file_name, .nr_members = 1};
	file.single = (struct file_member){.backing = &file.backing, .slot = -1};
	file.members = &file.single;
	for (unsigned i = 0; i < OPS; i++) {
		ops[i]->file = &file;
		ops[i]->iov = &ops[i]->one;
		ops[i]->one = (struct penstock_iov){&file, 1};
		ops[i]->nr_iov = 1;
		ops[i]->cursor = 0;
		ops[i]->queue = queue;
		ops[i]->state = OP_PENDING;
	}
	engine_has = NULL;
	woken = answered = 0;
}

static void io_thread(void)
{
	do {
		queue_work(queue);
	} while (queue->inflight || queue->ready || queue->local || idle(queue));
}

static unsigned victim; /* modulo OPS */

static void cancel_and_wait(void)
{
	struct penstock_done d;
	int r;

	for (unsigned i = 0; i < OPS; i++)
		queue_push_ops(queue, thread_cache_get(io), ops[i], ops[i]);
	r = penstock_cancel(io, tickets[victim % OPS]);
	for (unsigned i = 0; i < OPS; i++) {
		T_EQ(penstock_wait(io, tickets[i], -1, &d), 0);
		T_EQ(d.res, i == victim % OPS && r == 0 ? -ECANCELED : 1);
	}
	T_OK(r == 0 || r == -EALREADY);
	answered = 1;
	queues_stop(io);
}

static void rescue(void)
{
	queue_rescue(io, queue);
}

static void all_are_free(void)
{
	T_EQ(file.refs, 1);
	T_OK(submitters_quiet(io) && !engine_has && !engine_keeps);
	T_EQ(queue->nr_free, DEPTH);
}

static void what_is_cancelled_on_its_way_is_over_once_and_not_touched_again(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = cancel_and_wait;
	bodies[1] = io_thread;
	bodies[2] = rescue;
	for (victim = 0; victim < 2 * OPS; victim++) {
		tells = victim >= OPS;
		in_all_orders(2, FEW, setup_queue, all_are_free);
		in_all_orders(3, FEW, setup_queue, all_are_free);
	}
}

static struct penstock_growth growth;
static struct penstock_range range;

/* A write that another one is in the way of, while a read takes its time. */
static void setup_overlap(void)
{
	setup_queue();
	file.backing = (struct penstock_backing){.direct = true,
						 .growth = &growth,
						 .off_align = 1,
						 .write_align = 1,
						 .mem_align = 1};
	ops[1]->opcode = PENSTOCK_WRITE;
	penstock_overlap_init(&growth.overlap);
	T_OK(penstock_overlap_begin(&growth.overlap, &range, 0, 1, true));
	slow_reads = held = 1;
	engine_keeps = NULL;
}

static void end_the_other_and_wait(void)
{
	struct penstock_done d;

	for (unsigned i = 0; i < OPS; i++)
		queue_push_ops(queue, thread_cache_get(io), ops[i], ops[i]);
	step();
	penstock_overlap_end(&growth.overlap, &range);
	held = 0;
	T_EQ(penstock_wait(io, tickets[1], -1, &d), 0);
	slow_reads = 0;
	engine_has = TAKE_PTR(engine_keeps);
	woken = 1;
	T_EQ(penstock_wait(io, tickets[0], -1, &d), 0);
	T_EQ(penstock_wait(io, tickets[2], -1, &d), 0);
	queues_stop(io);
}

static void a_write_goes_on_when_what_it_overlaps_is_over_elsewhere(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = end_the_other_and_wait;
	bodies[1] = io_thread;
	in_all_orders(2, FEW, setup_overlap, all_are_free);
}

static const struct t_case cases[] = {
	T_CASE(what_is_cancelled_on_its_way_is_over_once_and_not_touched_again),
	T_CASE(a_write_goes_on_when_what_it_overlaps_is_over_elsewhere),
};

int main(void)
{
	const struct t_group group = {"waits_queue", NULL, NULL, cases, T_COUNT(cases)};
	int r = t_run(&group, 1, NULL);

	teardown();
	return r;
}
