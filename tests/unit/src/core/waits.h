/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_UNIT_WAITS_H
#define PENSTOCK_TESTS_UNIT_WAITS_H

/*
 * A handle of which the code runs in every order there is: core/submitter.c, queue.c, queue_pull.c,
 * io_thread.c and wait.c are run as they are, by threads of users and one of I/O that may change at
 * every atomic access and every lock.  Locks and conditions are the test's own, and time stands
 * still but where the test lets it go on: nobody is saved by a timeout.
 */
#include <pthread.h>

#include "tests/unit/src/core/orders.h"

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
#define clock_ns()                             time_ns

static uint64_t time_ns;

#include "core/io_thread.c"
#include "core/queue.c"
#include "core/queue_pull.c"
#include "core/submitter.c"
#include "core/wait.c"

enum { OPS = 3, USERS = 2, QUEUES = 2, DEPTH = 2 };
enum { FEW = T_ASAN ? 1 : 2, MORE = T_ASAN ? 1 : 3 }; /* interruptions */

static struct penstock_io *io;
static struct queue *queue;
static struct op *ops[OPS];
static uint64_t tickets[OPS];
static uint32_t guard = 1;
static struct thread_cache kept[ORDERS_THREADS][ARRAY_SIZE(thread_caches)];
static int nr_got[ORDERS_THREADS];
static unsigned owner[OPS]; /* the user who submitted it */
static bool pending;        /* the last one: nothing of it is issued */

/* Each thread remembers its own submitter. */
static void change(unsigned from, unsigned to)
{
	memcpy(kept[from], thread_caches, sizeof(thread_caches));
	memcpy(thread_caches, kept[to], sizeof(thread_caches));
}

static void teardown(void)
{
	if (!io)
		return;
	submitters_free(io);
	free(queue->blocks);
	free(queue);
	free(io);
	io = NULL;
}

/* As submitted: the users have a submitter each, and operations under way. */
static void setup(void)
{
	teardown();
	memset(kept, 0, sizeof(kept));
	memset(thread_caches, 0, sizeof(thread_caches));
	memset(nr_got, 0, sizeof(nr_got));
	io = zalloc_lines(sizeof(*io));
	queue = zalloc_lines(QUEUES * sizeof(*queue));
	T_OK(io && queue);
	io->fork_guard = &guard;
	io->engine = &penstock_engine_null;
	io->serial = 1;
	io->queues = queue;
	io->nr_queues = io->nr_active = io->max_queues = io->opts.threads = QUEUES;
	queue[0].io = queue[1].io = io;
	queue[1].inbox.state = THREAD_BUSY; /* nothing is to be expected of it */
	op_list_init(&io->pending);
	for (unsigned i = 0; i < USERS; i++) {
		memset(thread_caches, 0, sizeof(thread_caches));
		memset(io->submitter_owners, 0,
		       sizeof(io->submitter_owners)); /* all are one thread */
		thread_cache_get(io)->submitter->spin_ns = 0;
		memcpy(kept[i], thread_caches, sizeof(thread_caches));
	}
	memcpy(thread_caches, kept[0], sizeof(thread_caches));
	memcpy(kept[USERS], thread_caches,
	       sizeof(thread_caches)); /* one more than there are submitters */
	for (unsigned i = 0; i < OPS; i++) {
		ops[i] = submitter_take_ops(kept[owner[i]][1].submitter, 1);
		memset((char *)ops[i] + offsetof(struct op, file), 0,
		       offsetof(struct op, failure) - offsetof(struct op, file));
		ops[i]->opcode = PENSTOCK_READ;
		ops[i]->tag = i;
		ops[i]->len = ops[i]->stop = ops[i]->block = 1;
		ops[i]->cursor = pending && i == OPS - 1 ? 0 : 1;
		ops[i]->state = OP_ISSUED;
		tickets[i] = op_ticket(ops[i]);
		ops[i]->submitter->submitted++;
		if (pending && i == OPS - 1)
			pending_add(io, ops[i]);
	}
	on_change = change;
}

#endif
