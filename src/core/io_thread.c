/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O threads: each owns one queue and its engine, works while there is
 * something to do, and sleeps in its engine, or on a condition where nothing is
 * in flight and the engine cannot wait for that.  Whoever adds work wakes as many
 * as it takes: see sleep_state.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/err.h"
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/spin.h"
#include "core/submitter.h"

enum { POLL_NS = 1000000 };

__thread struct queue *current_queue;

static void wake_from(struct queue *q, enum sleep_state state)
{
	if (state != THREAD_IDLE) {
		q->io->engine->wake(q->engine);
		return;
	}
	pthread_mutex_lock(&q->idle_lock);
	pthread_cond_signal(&q->idle_cond);
	pthread_mutex_unlock(&q->idle_lock);
}

void queue_wake(struct queue *q)
{
	wake_from(q, inbox_claim_wake(&q->inbox));
}

void queues_stop(struct penstock_io *io)
{
	pthread_mutex_lock(&io->lock);
	atomic_exchange(&io->stop, true); /* see sleep_state.h */
	for (unsigned i = 0; i < io->nr_queues; i++)
		if (io->queues[i].started && !io->queues[i].open_result)
			queue_wake(&io->queues[i]);
	pthread_mutex_unlock(&io->lock);
}

/*
 * Wake as many sleeping queues as there are blocks for.  One that runs looks at
 * the list before it sleeps, so it counts as awake.
 */
void queues_wake(struct penstock_io *io)
{
	unsigned active = atomic_load(&io->nr_active), awake = 0;
	uint64_t need = min_u64(atomic_load(&io->pending_blocks), active);
	enum sleep_state state;

	if (atomic_load(&io->pending_remote)) { /* those are the first one's */
		state = inbox_claim_wake(&io->queues[0].inbox);
		if (state == THREAD_IDLE || state == THREAD_REAPING)
			wake_from(&io->queues[0], state);
	}
	for (unsigned i = 0; i < active; i++)
		awake += inbox_state(&io->queues[i].inbox) == THREAD_RUNNING;
	for (unsigned i = 0; i < active && awake < need; i++) {
		state = inbox_claim_wake(&io->queues[i].inbox);
		if (state != THREAD_IDLE && state != THREAD_REAPING)
			continue;
		wake_from(&io->queues[i], state);
		awake++;
	}
}

/* What lies before a queue becomes everybody's. */
static void queue_share_inbox(struct penstock_io *io, struct queue *q)
{
	struct op *op = (struct op *)mpsc_stack_take(&q->inbox.stack, true), *next, *ended = NULL;

	if (!op)
		return;
	pthread_mutex_lock(&io->lock);
	for (; op; op = next) {
		next = op->next;
		if (atomic_load(&op->state) == OP_PENDING) {
			pending_add(io, op);
			continue;
		}
		op_begin(op);
		op_cancel(op);
		op->next = ended;
		ended = op;
	}
	queues_wake(io);
	pthread_mutex_unlock(&io->lock);
	ops_finish(io, NULL, ended);
}

/* Has it been away since this thread last saw it, and for long? */
static bool is_stuck(struct queue *q, struct thread_cache *cache)
{
	unsigned period = atomic_load_explicit(&q->busy_periods, memory_order_relaxed);
	uint64_t now = clock_ns();

	if (cache->seen_busy_period == period)
		return now - cache->seen_at > STUCK_NS;
	cache->seen_busy_period = period;
	cache->seen_at = now;
	return false;
}

bool queue_push_ops(struct queue *q, struct thread_cache *cache, struct op *newest,
		    struct op *oldest)
{
	bool behind = mpsc_stack_push(&q->inbox.stack, &newest->item, &oldest->item);
	enum sleep_state state = inbox_claim_wake(&q->inbox);

	if (state == THREAD_IDLE || state == THREAD_REAPING)
		wake_from(q, state);
	else if (state == THREAD_BUSY && behind && is_stuck(q, cache))
		queue_share_inbox(q->io, q);
	return state == THREAD_RUNNING && !behind;
}

void queue_rescue(struct penstock_io *io, struct queue *q)
{
	if (io->nr_queues > 1 && inbox_state(&q->inbox) == THREAD_BUSY)
		queue_share_inbox(io, q);
}

static void run_calls(struct queue *q)
{
	struct penstock_io *io = q->io;
	struct call *c;

	pthread_mutex_lock(&io->lock);
	while ((c = q->calls)) {
		q->calls = c->next;
		pthread_mutex_unlock(&io->lock);
		c->result = c->run(q, c->arg);
		pthread_mutex_lock(&io->lock);
		c->done = true;
		pthread_cond_broadcast(&io->changed);
	}
	atomic_store(&q->called, false);
	pthread_mutex_unlock(&io->lock);
}

/* Is there anything to do that does not lie on the stack? */
static bool has_other_work(struct queue *q)
{
	return atomic_load(&q->called) || atomic_load(&q->has_cancelled) || pending_for(q) ||
	       atomic_load(&q->io->stop);
}

static bool has_work(void *arg)
{
	struct queue *q = arg;

	return mpsc_stack_any(&q->inbox.stack) || has_other_work(q);
}

/* Until another thread has changed the state. */
static void sleep_on_condition(struct queue *q)
{
	pthread_mutex_lock(&q->idle_lock);
	while (inbox_state(&q->inbox) == THREAD_IDLE)
		pthread_cond_wait(&q->idle_cond, &q->idle_lock);
	pthread_mutex_unlock(&q->idle_lock);
}

/*
 * Sleep with nothing in flight, in the engine where it can do that: io_uring lets
 * go of a file only when its thread next enters the kernel by it.
 */
static void sleep_idle(struct queue *q)
{
	struct penstock_io *io = q->io;
	struct penstock_req *none = NULL;
	bool in_engine = io->engine->idles && !q->reap_failures;

	atomic_fetch_add(&io->nr_idle, 1);
	if (inbox_announce(&q->inbox, in_engine ? THREAD_REAPING : THREAD_IDLE) &&
	    !has_other_work(q)) {
		if (!in_engine)
			sleep_on_condition(q);
		else if (io->engine->reap(q->engine, &none, -1) < 0)
			q->reap_failures++;
	}
	if (inbox_resume(&q->inbox) == THREAD_RUNNING)
		COUNT(&q->count, wakeups, 1);
	atomic_fetch_sub(&io->nr_idle, 1);
}

/* Sleep until there is work.  False: the handle is being closed and nothing is left. */
static bool idle(struct queue *q)
{
	uint64_t start = clock_ns();

	if (!spin_until(q->spin_ns, has_work, q)) {
		if (!q->index)
			q->io->window_start.ns = 0;
		while (!has_work(q))
			sleep_idle(q);
	}
	q->spin_ns = spin_learn(q->spin_ns, clock_ns() - start);
	return mpsc_stack_any(&q->inbox.stack) || atomic_load(&q->called) ||
	       atomic_load(&q->has_cancelled) || pending_for(q) || !atomic_load(&q->io->stop);
}

void queue_step_aside(struct queue *q)
{
	struct penstock_io *io = q->io;

	if (io->nr_queues == 1)
		return;
	atomic_store_explicit(&q->busy_periods, q->busy_periods + 1, memory_order_relaxed);
	inbox_announce(&q->inbox, THREAD_BUSY);
	if (!pending_seen(io)) /* a queue that runs was counted on for that */
		return;
	pthread_mutex_lock(&io->lock);
	queues_wake(io);
	pthread_mutex_unlock(&io->lock);
}

void queue_step_back(struct queue *q)
{
	if (q->io->nr_queues > 1)
		inbox_resume(&q->inbox);
}

/* Work of a kind that there is capacity for. */
static bool has_work_for(struct queue *q)
{
	struct penstock_io *io = q->io;
	unsigned can;
	bool any;

	if (atomic_load(&q->called) || atomic_load(&q->has_cancelled))
		return true;
	if (!pending_for(q))
		return false;
	pthread_mutex_lock(&io->lock);
	/* Not where all of it waits for members of which this queue has enough under way. */
	can = queue_can(q);
	any = pending_any(io, can) &&
	      ((can & KIND_REMOTE && atomic_load(&io->pending_remote)) || pending_next(q, can));
	pthread_mutex_unlock(&io->lock);
	return any;
}

/*
 * May the queue sleep in its engine until something comes back?  Yes with no
 * capacity for more, when others see to what it has too much of, or with nothing to do; then
 * others know that they have to wake it.
 */
static bool may_sleep(struct queue *q, bool *ret_marked)
{
	*ret_marked = queue_capacity(q) && !q->local;
	if (*ret_marked)
		return inbox_announce(&q->inbox, THREAD_REAPING) && !has_work_for(q);
	if (q->local && queue_capacity(q))
		return false;
	queue_step_aside(q);
	if (q->io->nr_queues > 1)
		queue_share(q);
	return !atomic_load(&q->called) && !atomic_load(&q->has_cancelled);
}

static void blocks_give_up(struct block *blocks, unsigned n, struct penstock_req **list)
{
	for (unsigned i = 0; blocks && i < n; i++)
		if (blocks[i].inflight) {
			blocks[i].tries = INTERRUPTS_MAX;
			blocks[i].lost = true;
			penstock_req_push(list, &blocks[i].req, -EIO);
		}
}

/*
 * reap() failed.  That may pass (no memory); if it does not, what the engine
 * holds is out of reach: all of it fails, and so does whatever comes after.
 */
static void reap_failed(struct queue *q, int code)
{
	struct timespec ts = {0, 1000000};
	struct penstock_req *list = NULL;

	if (q->reap_failures++ < REAP_FAILURES_MAX) {
		nanosleep(&ts, NULL);
		return;
	}
	q->broken = code;
	blocks_give_up(q->blocks, q->io->opts.depth, &list);
	blocks_give_up(q->device_blocks, COPY_BLOCKS, &list);
	queue_harvest(q, list);
}

uint64_t queues_cpu_ns(struct penstock_io *io)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < io->nr_queues; i++) {
		sum += thread_cpu_ns(io->queues[i].thread);
		if (io->engine->cpu_ns)
			sum += io->engine->cpu_ns(io->queues[i].engine);
	}
	return sum;
}

struct thread_count_sample queues_sample(struct queue *q)
{
	struct penstock_io *io = q->io;
	struct rusage use;
	struct thread_count_sample now = {.ns = clock_ns(),
					  .busy_ns = queues_cpu_ns(io),
					  .threads = atomic_load(&io->nr_active),
					  .most = io->max_queues,
					  .behind = pending_seen(io) || q->local ||
						    mpsc_stack_any(&q->inbox.stack)};

	for (unsigned i = 0; i < io->nr_queues; i++) {
		now.bytes += atomic_load_explicit(&io->queues[i].moved, memory_order_relaxed);
		now.busy_ns +=
			atomic_load_explicit(&io->queues[i].blocked_ns, memory_order_relaxed);
	}
	if (getrusage(RUSAGE_SELF, &use) == 0)
		now.kernel_ns = (uint64_t)use.ru_stime.tv_sec * 1000000000u +
				(uint64_t)use.ru_stime.tv_usec * 1000u;
	return now;
}

static void queues_adjust_number(struct queue *q)
{
	struct penstock_io *io = q->io;
	struct thread_count_sample *since = &io->window_start, now;
	unsigned n;

	if (clock_ns() - since->ns < THREAD_COUNT_WINDOW_NS)
		return;
	now = queues_sample(q);
	if (!since->ns) { /* it had nothing to do before that */
		*since = now;
		return;
	}
	now.ns -= since->ns;
	now.busy_ns -= since->busy_ns;
	now.kernel_ns -= since->kernel_ns;
	now.bytes -= since->bytes;
	n = thread_count_choose(&io->thread_count, &now);
	if (n != now.threads)
		queues_resize(io, n);
	*since = queues_sample(q);
}

/* Sleep, if so, until the engine, the S3 client or another thread has something. */
static int queue_reap(struct queue *q, struct penstock_req **list, bool sleep)
{
	const struct penstock_engine *engine = q->io->engine;
	int64_t patience;

	if (q->nr_remote)
		sleep = sleep && remote_may_sleep(q);
	patience = sleep ? device_poll_ns(q) : 0;
	/*
	 * An engine that has nothing may not wait; then it is looked at now and then.  So is a
	 * write that waits for another thread's, which does not know of it.
	 */
	if (patience < 0 &&
	    ((!q->inflight && !engine->idles) || (q->ready && q->waits_for_overlap)))
		patience = POLL_NS;
	return engine->reap(q->engine, list, patience);
}

/* The same, without changing its state where there is something already. */
static int queue_await(struct queue *q, struct penstock_req **list)
{
	const struct penstock_engine *engine = q->io->engine;
	bool marked, sleep;
	int r;

	if (engine->ready && engine->ready(q->engine))
		return engine->reap(q->engine, list, 0);
	sleep = may_sleep(q, &marked);
	r = queue_reap(q, list, sleep);
	if (inbox_resume(&q->inbox) == THREAD_RUNNING && marked)
		COUNT(&q->count, wakeups, 1);
	return r;
}

static void queue_work(struct queue *q)
{
	struct penstock_req *list = NULL;
	struct penstock_io *io = q->io;
	int r;

	if (atomic_load(&q->called))
		run_calls(q);
	if (atomic_load(&q->has_cancelled))
		queue_end_cancelled(q);
	if (q->nr_remote)
		queue_collect_remote(q);
	if (device_busy(q))
		queue_collect_copied(q);
	queue_pull(q);
	queue_submit(q);
	if (!q->inflight && !device_busy(q) && !q->nr_remote)
		return;
	if (!q->index && !io->opts.threads && io->max_queues > 1)
		queues_adjust_number(q);
	r = queue_await(q, &list);
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
	q->has_opened = true;
	pthread_cond_broadcast(&q->io->changed);
	pthread_mutex_unlock(&q->io->lock);
}

/* The engine is opened by the thread that will use it: io_uring likes one owner. */
static void *queue_main(void *arg)
{
	struct queue *q = arg;
	struct penstock_engine_params p = {
		.depth = q->io->opts.depth,
		.settings = q->io->settings,
		.nr_files = FILE_SLOTS,
		.nr_bufs = BUF_SLOTS,
	};
	int r;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	current_queue = q;
	r = q->io->engine->open(q->engine, &p, &q->open_err);
	if (!r && q->io->engine->fixed_lists)
		q->fixed_lists = q->io->engine->fixed_lists(q->engine);
	report_open(q, r);
	if (r < 0)
		return NULL;
	do {
		queue_work(q);
	} while (q->inflight || q->nr_remote || q->ready || q->local || device_busy(q) || idle(q));
	device_close(q);
	remote_leave(q);
	pthread_mutex_lock(&q->io->lock); /* queues_stop() may be about to wake it */
	pthread_mutex_unlock(&q->io->lock);
	q->io->engine->close(q->engine);
	return NULL;
}

int queue_call(struct queue *q, int (*run)(struct queue *q, void *arg), void *arg)
{
	struct penstock_io *io = q->io;
	struct call c = {.run = run, .arg = arg};

	if (queue_current(io))
		return -EDEADLK;
	pthread_mutex_lock(&io->lock);
	c.next = q->calls;
	q->calls = &c;
	atomic_exchange(&q->called, true); /* see sleep_state.h */
	queue_wake(q);
	while (!c.done)
		pthread_cond_wait(&io->changed, &io->lock);
	pthread_mutex_unlock(&io->lock);
	return c.result;
}

int queue_start(struct queue *q, struct penstock_err *err)
{
	struct penstock_io *io = q->io;
	int r;

	q->spin_ns = SPIN_START_NS;
	pthread_mutex_init(&q->idle_lock, NULL);
	pthread_cond_init(&q->idle_cond, NULL);
	q->ready_tail = &q->ready;
	q->local_tail = &q->local;
	q->starved_tail = &q->starved;
	q->engine = calloc(1, io->engine->state_size);
	q->blocks = calloc(io->opts.depth, sizeof(*q->blocks));
	q->bounce_free = calloc(BOUNCE_SLOTS, sizeof(*q->bounce_free));
	if (!q->engine || !q->blocks || !q->bounce_free)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < io->opts.depth; i++) {
		q->blocks[i].req.next = (struct penstock_req *)q->free;
		q->free = &q->blocks[i];
	}
	q->nr_free = io->opts.depth;
	r = thread_start(&q->thread, queue_main, q);
	q->started = !r;
	if (r < 0)
		return penstock_fail(err, r, "threads: cannot start I/O thread %u of %u: %s",
				     q->index + 1, io->nr_queues, strerror(-r));
	pthread_setname_np(q->thread, "penstock-io");
	pthread_mutex_lock(&io->lock);
	while (!q->has_opened)
		pthread_cond_wait(&io->changed, &io->lock);
	pthread_mutex_unlock(&io->lock);
	if (q->open_result < 0)
		return penstock_fail(err, q->open_result, "%s", q->open_err.msg);
	return 0;
}

static void queues_grow(struct penstock_io *io, unsigned n)
{
	struct penstock_err err;

	for (unsigned i = io->nr_queues; i < n && i < io->max_queues; i++) {
		struct queue *q = &io->queues[i];

		q->io = io;
		q->index = i;
		if (queue_start(q, &err) < 0) {
			queue_free(q);
			io->max_queues = i;
			return;
		}
		pthread_mutex_lock(&io->lock);
		io->nr_queues = i + 1;
		pthread_mutex_unlock(&io->lock);
	}
}

/* A new queue takes part only when it counts: see submitters_quiet(). */
void queues_resize(struct penstock_io *io, unsigned n)
{
	queues_grow(io, n);
	atomic_store(&io->nr_active, (unsigned)min_u64(n, io->nr_queues));
	submitters_assign_queues(io);
}

/* The thread has been told to stop, or never ran. */
void queue_free(struct queue *q)
{
	if (q->started)
		pthread_join(q->thread, NULL);
	free(q->remote_blocks);
	penstock_area_unmap(&q->bounce_area);
	free(q->bounce_free);
	device_free(q);
	free(q->blocks);
	free(q->engine);
	pthread_cond_destroy(&q->idle_cond);
	pthread_mutex_destroy(&q->idle_lock);
}
