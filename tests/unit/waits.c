/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on their way to a queue and back, and who waits for them or cancels them, in every
 * order there is: core/port.c, queue.c, queue_pull.c, thread.c and wait.c are run as they are, by
 * threads of users and one of I/O that may change at every atomic access and every lock.  Locks and
 * conditions are the test's own, and time stands still: nobody is saved by a timeout.
 */
#include <pthread.h>

#include "orders.h"

/* A lock is taken or not, a condition is signalled or not. */
static bool is_set(void *flag)
{
	return *(const unsigned *)flag;
}

static bool is_clear(void *flag)
{
	return !is_set(flag);
}

static int test_lock(pthread_mutex_t *lock)
{
	step();
	if (is_set(lock))
		block_while(is_set, lock);
	*(unsigned *)lock = 1;
	return 0;
}

static int test_unlock(pthread_mutex_t *lock)
{
	*(unsigned *)lock = 0;
	return 0;
}

static int test_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	*(unsigned *)cond = 0;
	test_unlock(lock);
	block_while(is_clear, cond);
	return test_lock(lock);
}

static int test_signal(pthread_cond_t *cond)
{
	*(unsigned *)cond = 1;
	return 0;
}

#include "base/util.h"

#define pthread_mutex_lock(lock)               test_lock(lock)
#define pthread_mutex_unlock(lock)             test_unlock(lock)
#define pthread_cond_wait(cond, lock)          test_wait(cond, lock)
#define pthread_cond_timedwait(cond, lock, ts) ((void)(ts), test_wait(cond, lock))
#define pthread_cond_signal(cond)              test_signal(cond)
#define clock_ns()                             ((uint64_t)0)

#include "core/port.c"
#include "core/queue.c"
#include "core/queue_pull.c"
#include "core/thread.c"
#include "core/wait.c"

enum { OPS = 3, USERS = 2, QUEUES = 2, DEPTH = 2 };
enum { FEW = T_ASAN ? 1 : 2, MORE = T_ASAN ? 1 : 3 }; /* interruptions */

static struct sluice_io *io;
static struct queue *queue;
static struct op *ops[OPS];
static uint64_t tickets[OPS];
static uint32_t guard = 1;
static struct here kept[ORDERS_THREADS][ARRAY_SIZE(heres)];
static struct sluice_done got[ORDERS_THREADS][OPS];
static int nr_got[ORDERS_THREADS];
static unsigned owner[OPS]; /* the user who submitted it */
static bool pending;        /* the last one: nothing of it is issued */
static int cancelled;

/* Each thread remembers its own port. */
static void change(unsigned from, unsigned to)
{
	memcpy(kept[from], heres, sizeof(heres));
	memcpy(heres, kept[to], sizeof(heres));
}

static void teardown(void)
{
	if (!io)
		return;
	ports_free(io);
	free(queue->blocks);
	free(queue);
	free(io);
	io = NULL;
}

/* As submitted: the users have a port each, and operations under way. */
static void setup(void)
{
	teardown();
	memset(kept, 0, sizeof(kept));
	memset(heres, 0, sizeof(heres));
	memset(nr_got, 0, sizeof(nr_got));
	io = zalloc_lines(sizeof(*io));
	queue = zalloc_lines(QUEUES * sizeof(*queue));
	T_OK(io && queue);
	io->guard = &guard;
	io->engine = &sluice_engine_null;
	io->opened = 1;
	io->queues = queue;
	io->nr_queues = io->nr_active = io->max_queues = io->opts.threads = QUEUES;
	queue[0].io = queue[1].io = io;
	queue[1].hand.state = HAND_BUSY; /* nothing is to be expected of it */
	op_list_init(&io->pending);
	for (unsigned i = 0; i < USERS; i++) {
		memset(heres, 0, sizeof(heres));
		here_of(io)->port->spin_ns = 0;
		memcpy(kept[i], heres, sizeof(heres));
	}
	memcpy(heres, kept[0], sizeof(heres));
	memcpy(kept[USERS], heres, sizeof(heres)); /* one more than there are ports */
	for (unsigned i = 0; i < OPS; i++) {
		ops[i] = port_take(kept[owner[i]][1].port, 1);
		memset((char *)ops[i] + offsetof(struct op, file), 0,
		       offsetof(struct op, fault) - offsetof(struct op, file));
		ops[i]->opcode = SLUICE_READ;
		ops[i]->tag = i;
		ops[i]->len = ops[i]->stop = ops[i]->block = 1;
		ops[i]->cursor = pending && i == OPS - 1 ? 0 : 1;
		ops[i]->state = OP_ISSUED;
		tickets[i] = op_ticket(ops[i]);
		ops[i]->port->submitted++;
		if (pending && i == OPS - 1)
			pend_add(io, ops[i]);
	}
	on_change = change;
}

static void finish(unsigned i)
{
	ops[i]->next = NULL;
	ops_finish(io, queue, ops[i]);
}

static void ask(unsigned min, unsigned max)
{
	nr_got[current] = sluice_wait_any(io, got[current], min, max, -1);
}

/* ----------------------------------------------------------------- cases */

static void ask_for_one(void)
{
	ask(1, 1);
}

static void ask_for_two(void)
{
	ask(2, 2);
}

static void ask_for_all(void)
{
	ask(OPS, OPS);
}

static void finish_all(void)
{
	for (unsigned i = 0; i < OPS; i++)
		finish(i);
}

/* Every result went to one of them. */
static void check_once(int want)
{
	unsigned seen[OPS] = {0};
	int n = 0;

	for (unsigned i = 0; i < ORDERS_THREADS; i++)
		for (int k = 0; k < nr_got[i]; k++, n++)
			T_EQ(seen[got[i][k].tag]++, 0);
	T_EQ(n, want);
}

static void all_three_once(void)
{
	check_once(OPS);
}

static void who_asks_is_told_when_there_are_enough(void)
{
	owner[0] = owner[2] = 0;
	owner[1] = 1;
	bodies[0] = ask_for_all;
	bodies[1] = finish_all;
	in_all_orders(2, MORE, setup, all_three_once);
	bodies[0] = ask_for_two;
	bodies[1] = ask_for_one;
	bodies[2] = finish_all;
	in_all_orders(3, FEW, setup, all_three_once);
}

static bool nobody_has_one(void *arg)
{
	(void)arg;
	return nr_got[1] < 1;
}

static void finish_one_at_a_time(void)
{
	finish(0);
	block_while(nobody_has_one, NULL);
	finish(1);
	finish(2);
}

static void who_asks_for_two_does_not_keep_the_first_from_others(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = ask_for_two;
	bodies[1] = ask_for_one;
	bodies[2] = finish_one_at_a_time;
	in_all_orders(3, FEW, setup, all_three_once);
}

/* Two at once, and without waiting for them: who waits for two may have been told already. */
static void finish_and_take_one(void)
{
	ops[0]->next = ops[1];
	ops[1]->next = NULL;
	ops_finish(io, queue, ops[0]);
	nr_got[current] = sluice_wait_any(io, got[current], 1, 1, 0);
	if (nr_got[current])
		block_while(nobody_has_one, NULL);
	finish(2);
}

static void who_is_told_too_late_leaves_the_rest_to_others(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = ask_for_two;
	bodies[1] = ask_for_one;
	bodies[2] = finish_and_take_one;
	in_all_orders(3, FEW, setup, all_three_once);
}

static void ask_for_too_many(void)
{
	static struct sluice_done room[OPS + 1];

	nr_got[current] = sluice_wait_any(io, room, OPS + 1, OPS + 1, -1);
	memcpy(got[current], room, OPS * sizeof(*room));
}

static void who_asks_for_more_than_there_will_be_is_not_left_waiting(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = ask_for_too_many;
	bodies[1] = finish_all;
	in_all_orders(2, MORE, setup, all_three_once);
}

static void wait_for_the_first(void)
{
	T_EQ(sluice_wait(io, tickets[0], -1, &got[current][0]), 0);
	T_EQ(got[current][0].tag, 0);
	nr_got[current] = 1;
}

static bool nobody_waits(void *arg)
{
	(void)arg;
	return !ops[0]->waiters && !nr_got[0];
}

static void finish_what_is_waited_for(void)
{
	block_while(nobody_waits, NULL);
	finish_all();
}

static void ask_beside_a_wait(void)
{
	block_while(nobody_waits, NULL);
	ask(2, OPS);
}

static void a_result_that_is_waited_for_by_ticket_is_not_for_others(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = wait_for_the_first;
	bodies[1] = ask_beside_a_wait;
	bodies[2] = finish_what_is_waited_for;
	in_all_orders(3, FEW, setup, all_three_once);
}

static void cancel_the_last(void)
{
	cancelled = sluice_cancel(io, tickets[OPS - 1]);
}

static void finish_two(void)
{
	finish(0);
	finish(1);
}

static void wait_for_all(void)
{
	struct sluice_summary sum;

	T_EQ(sluice_wait_all(io, -1, &sum), 0);
	T_EQ(sum.ops, OPS);
	T_EQ(sum.failed, 1);
}

static void it_was_cancelled(void)
{
	T_EQ(cancelled, 0);
	T_OK(ports_quiet(io));
}

static void all_is_over_when_the_last_is_cancelled(void)
{
	owner[0] = owner[2] = 1;
	owner[1] = 0;
	pending = true;
	bodies[0] = wait_for_all;
	bodies[1] = cancel_the_last;
	bodies[2] = finish_two;
	in_all_orders(3, FEW, setup, it_was_cancelled);
	pending = false;
}

/* ------------------------------------- an operation that is cancelled on its way */

static struct sluice_req *engine_has;
static struct sluice_file file;
static char file_name[] = "file";
static unsigned woken, answered;

static int engine_submit(void *state, struct sluice_req *const *reqs, unsigned n)
{
	(void)state;
	for (unsigned i = 0; i < n; i++)
		sluice_req_push(&engine_has, reqs[i], (int32_t)reqs[i]->len);
	return (int)n;
}

/* This is where bytes are moved: not after the result has been seen. */
static int engine_reap(void *state, struct sluice_req **done, int64_t timeout_ns)
{
	int n = 0;

	(void)state;
	step();
	if (timeout_ns && !engine_has)
		block_while(is_clear, &woken);
	woken = 0;
	*done = engine_has;
	engine_has = NULL;
	for (const struct sluice_req *req = *done; req; req = req->next, n++)
		T_EQ(answered, 0);
	return n;
}

static void engine_wake(void *state)
{
	(void)state;
	woken = 1;
}

static const struct sluice_engine engine = {.name = "test",
					    .idles = true,
					    .submit = engine_submit,
					    .reap = engine_reap,
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
	file = (struct sluice_file){.io = io, .refs = 1 + OPS, .name = file_name, .nr_parts = 1};
	file.whole = (struct part){.store = &file.store, .slot = -1};
	file.parts = &file.whole;
	for (unsigned i = 0; i < OPS; i++) {
		ops[i]->file = &file;
		ops[i]->iov = &ops[i]->one;
		ops[i]->one = (struct sluice_iov){&file, 1};
		ops[i]->nr_iov = 1;
		ops[i]->cursor = 0;
		ops[i]->home = queue;
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

static unsigned victim;

static void cancel_and_wait(void)
{
	struct sluice_done d;
	int r;

	for (unsigned i = 0; i < OPS; i++)
		queue_give(queue, here_of(io), ops[i], ops[i]);
	r = sluice_cancel(io, tickets[victim]);
	for (unsigned i = 0; i < OPS; i++) {
		T_EQ(sluice_wait(io, tickets[i], -1, &d), 0);
		T_EQ(d.res, i == victim && r == 0 ? -ECANCELED : 1);
	}
	T_OK(r == 0 || r == -EALREADY);
	answered = 1;
	queue_stop(io);
}

static void rescue(void)
{
	queue_rescue(io, queue);
}

static void all_are_free(void)
{
	T_EQ(file.refs, 1);
	T_OK(ports_quiet(io) && !engine_has);
	T_EQ(queue->nr_free, DEPTH);
}

static void what_is_cancelled_on_its_way_is_over_once_and_not_touched_again(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = cancel_and_wait;
	bodies[1] = io_thread;
	bodies[2] = rescue;
	for (victim = 0; victim < OPS; victim++)
		in_all_orders(2, FEW, setup_queue, all_are_free);
	for (victim = 0; victim < OPS; victim++)
		in_all_orders(3, FEW, setup_queue, all_are_free);
}

static const struct t_case cases[] = {
	T_CASE(who_asks_is_told_when_there_are_enough),
	T_CASE(who_asks_for_two_does_not_keep_the_first_from_others),
	T_CASE(who_is_told_too_late_leaves_the_rest_to_others),
	T_CASE(who_asks_for_more_than_there_will_be_is_not_left_waiting),
	T_CASE(a_result_that_is_waited_for_by_ticket_is_not_for_others),
	T_CASE(all_is_over_when_the_last_is_cancelled),
	T_CASE(what_is_cancelled_on_its_way_is_over_once_and_not_touched_again),
};

int main(void)
{
	const struct t_group group = {"waits", NULL, NULL, cases, T_COUNT(cases)};
	int r = t_run(&group, 1, NULL);

	teardown();
	return r;
}
