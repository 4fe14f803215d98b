/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O threads: each owns one queue and its engine, works while there is
 * something to do, and sleeps in its engine, or on a condition where nothing is
 * in flight and the engine cannot wait for that.  Whoever adds work wakes as many
 * as it takes.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "core/core.h"

/* Set in I/O threads: how a callback finds its queue. */
static __thread struct queue *current_queue;

struct queue *queue_current(const struct sluice_io *io)
{
	return current_queue && current_queue->io == io ? current_queue : NULL;
}

/* Wherever it sleeps, or is about to.  Under io->lock. */
static void wake_one(struct queue *q)
{
	if (q->state == QUEUE_IDLE)
		pthread_cond_signal(&q->work);
	else
		q->io->engine->wake(q->engine);
}

void queue_stop(struct sluice_io *io)
{
	pthread_mutex_lock(&io->lock);
	io->stop = true;
	for (unsigned i = 0; i < io->nr_queues; i++)
		if (io->queues[i].started && !io->queues[i].open_result)
			wake_one(&io->queues[i]);
	pthread_mutex_unlock(&io->lock);
}

/*
 * Wake as many sleeping queues as there are blocks for.  One that runs looks at
 * the list before it sleeps, so it counts as awake.
 */
void queue_wake(struct sluice_io *io)
{
	uint64_t need = min_u64(io->pend_blocks, io->nr_queues);
	unsigned awake = 0;
	struct queue *q;

	for (unsigned i = 0; i < io->nr_queues; i++)
		awake += io->queues[i].state == QUEUE_RUNS && !io->queues[i].aside;
	for (unsigned i = 0; i < io->nr_queues && awake < need; i++) {
		q = &io->queues[i];
		if (q->state == QUEUE_RUNS)
			continue;
		COUNT(io->count.wakeups, 1);
		wake_one(q);
		q->state = QUEUE_RUNS;
		awake++;
	}
}

static void run_calls(struct queue *q)
{
	struct sluice_io *io = q->io;
	struct call *c;

	pthread_mutex_lock(&io->lock);
	while ((c = q->calls)) {
		q->calls = c->next;
		pthread_mutex_unlock(&io->lock);
		c->result = c->run(q, c->arg);
		pthread_mutex_lock(&io->lock);
		c->done = true;
		pthread_cond_broadcast(&io->called);
	}
	q->called = false;
	pthread_mutex_unlock(&io->lock);
}

/*
 * Sleep with nothing in flight, in the engine where it can do that: io_uring lets
 * go of a file only when its thread next enters the kernel by it.  Under io->lock.
 */
static void doze(struct queue *q)
{
	struct sluice_io *io = q->io;
	struct sluice_req *none = NULL;
	bool in_engine = io->engine->idles && !q->reap_failures;

	q->state = in_engine ? QUEUE_REAPS : QUEUE_IDLE;
	io->nr_idle++;
	if (in_engine) {
		pthread_mutex_unlock(&io->lock);
		if (io->engine->reap(q->engine, &none, -1) < 0)
			q->reap_failures++;
		pthread_mutex_lock(&io->lock);
	} else {
		pthread_cond_wait(&q->work, &io->lock);
	}
	io->nr_idle--;
	q->state = QUEUE_RUNS;
}

/* Sleep until there is work.  False: the handle is being closed and nothing is left. */
static bool idle(struct queue *q)
{
	struct sluice_io *io = q->io;
	bool go_on = true;

	pthread_mutex_lock(&io->lock);
	while (go_on && io->pending.next == &io->pending && !q->calls) {
		if (io->stop)
			go_on = false;
		else
			doze(q);
	}
	pthread_mutex_unlock(&io->lock);
	return go_on;
}

void queue_step_aside(struct queue *q)
{
	struct sluice_io *io = q->io;

	if (io->nr_queues == 1)
		return;
	q->aside = true;
	if (!io->nr_idle)
		return;
	pthread_mutex_lock(&io->lock);
	if (io->pending.next != &io->pending)
		queue_wake(io);
	pthread_mutex_unlock(&io->lock);
}

/*
 * May the queue sleep in its engine until something comes back?  Yes with no
 * room for more, or with nothing pending; then *ret_marked says that others know
 * they have to wake it.
 */
static bool may_sleep(struct queue *q, bool *ret_marked)
{
	struct sluice_io *io = q->io;

	*ret_marked = false;
	if (!queue_room(q)) {
		queue_step_aside(q);
		return !q->called;
	}
	if (q->local)
		return false;
	pthread_mutex_lock(&io->lock);
	*ret_marked = !q->calls && !pend_any(io, device_room(q));
	if (*ret_marked)
		q->state = QUEUE_REAPS;
	pthread_mutex_unlock(&io->lock);
	return *ret_marked;
}

static void blocks_give_up(struct block *blocks, unsigned n, struct sluice_req **list)
{
	for (unsigned i = 0; blocks && i < n; i++)
		if (blocks[i].inflight) {
			blocks[i].tries = INTERRUPTS_MAX;
			blocks[i].lost = true;
			sluice_req_push(list, &blocks[i].req, -EIO);
		}
}

/*
 * reap() failed.  That may pass (no memory); if it does not, what the engine
 * holds is out of reach: all of it fails, and so does whatever comes after.
 */
static void reap_failed(struct queue *q, int code)
{
	struct timespec ts = {0, 1000000};
	struct sluice_req *list = NULL;

	if (q->reap_failures++ < REAP_PATIENCE) {
		nanosleep(&ts, NULL);
		return;
	}
	q->broken = code;
	blocks_give_up(q->blocks, q->io->opts.depth, &list);
	blocks_give_up(q->more_blocks, COPY_BLOCKS, &list);
	queue_harvest(q, list);
}

static void queue_work(struct queue *q)
{
	struct sluice_req *list = NULL;
	struct sluice_io *io = q->io;
	bool marked, sleep;
	int r;

	if (q->called)
		run_calls(q);
	if (device_busy(q))
		queue_copied(q);
	queue_pull(q);
	queue_submit(q);
	if (!q->inflight && !device_busy(q))
		return;
	sleep = may_sleep(q, &marked);
	r = io->engine->reap(q->engine, &list, sleep ? device_patience(q) : 0);
	queue_step_back(q);
	if (marked) {
		pthread_mutex_lock(&io->lock);
		q->state = QUEUE_RUNS;
		pthread_mutex_unlock(&io->lock);
	}
	if (r < 0) {
		reap_failed(q, r);
		return;
	}
	q->reap_failures = 0;
	queue_harvest(q, list);
}

static void report_open(struct queue *q, int r)
{
	pthread_mutex_lock(&q->io->lock);
	q->open_result = r;
	q->ready_to_go = true;
	pthread_cond_broadcast(&q->io->called);
	pthread_mutex_unlock(&q->io->lock);
}

/* The engine is opened by the thread that will use it: io_uring likes one owner. */
static void *queue_main(void *arg)
{
	struct queue *q = arg;
	struct sluice_engine_params p = {
		.depth = q->io->opts.depth,
		.settings = q->io->settings,
		.nr_files = FILE_SLOTS,
		.nr_bufs = BUF_SLOTS,
	};
	int r;

	current_queue = q;
	r = q->io->engine->open(q->engine, &p, &q->open_err);
	report_open(q, r);
	if (r < 0)
		return NULL;
	do {
		queue_work(q);
	} while (q->inflight || q->ready || q->local || device_busy(q) || idle(q));
	device_close(q);
	q->io->engine->close(q->engine);
	return NULL;
}

int queue_call(struct queue *q, int (*run)(struct queue *q, void *arg), void *arg)
{
	struct sluice_io *io = q->io;
	struct call c = {.run = run, .arg = arg};

	if (queue_current(io))
		return -EDEADLK;
	pthread_mutex_lock(&io->lock);
	c.next = q->calls;
	q->calls = &c;
	q->called = true;
	wake_one(q);
	while (!c.done)
		pthread_cond_wait(&io->called, &io->lock);
	pthread_mutex_unlock(&io->lock);
	return c.result;
}

int queue_start(struct queue *q, struct sluice_err *err)
{
	struct sluice_io *io = q->io;
	int r;

	pthread_cond_init(&q->work, NULL);
	q->ready_tail = &q->ready;
	q->local_tail = &q->local;
	q->starved_tail = &q->starved;
	q->engine = calloc(1, io->engine->state_size);
	q->blocks = calloc(io->opts.depth, sizeof(*q->blocks));
	q->bounce_free = calloc(BOUNCE_SLOTS, sizeof(*q->bounce_free));
	if (!q->engine || !q->blocks || !q->bounce_free)
		return sluice_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < io->opts.depth; i++) {
		q->blocks[i].req.next = (struct sluice_req *)q->free;
		q->free = &q->blocks[i];
	}
	q->nr_free = io->opts.depth;
	r = thread_start(&q->thread, queue_main, q);
	q->started = !r;
	if (r < 0)
		return sluice_fail(err, r, "threads: cannot start I/O thread %u of %u: %s",
				   q->index + 1, io->nr_queues, strerror(-r));
	pthread_setname_np(q->thread, "sluice-io");
	pthread_mutex_lock(&io->lock);
	while (!q->ready_to_go)
		pthread_cond_wait(&io->called, &io->lock);
	pthread_mutex_unlock(&io->lock);
	if (q->open_result < 0)
		return sluice_fail(err, q->open_result, "%s", q->open_err.msg);
	return 0;
}

/* The thread has been told to stop, or never ran. */
void queue_free(struct queue *q)
{
	if (q->started)
		pthread_join(q->thread, NULL);
	sluice_area_unmap(&q->bounce_area);
	free(q->bounce_free);
	device_free(q);
	free(q->blocks);
	free(q->engine);
	pthread_cond_destroy(&q->work);
}
