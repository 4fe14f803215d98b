/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log writer does what may take time: it writes the logs, a group of sets and deletes at a
 * time, and lets the sets be found then; it clears the store (clear.c), makes data files larger
 * before space is short, and rewrites logs that are mostly history.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

/* With @lock: a record for what a set has written. */
static int log_set(struct penstock_store *s, struct store_op *op)
{
	struct store_entry *e = op->entry, *old = store_index_find(&s->index, e->hash);
	struct store_dir *d = &s->dirs[e->dir];
	uint32_t ttl = op->batch->user.ttl_s ? op->batch->user.ttl_s : s->opts.ttl_s;
	int code = atomic_load(&op->error);

	s->stats.bytes_written += align_up(e->len, STORE_UNIT);
	if (code == 0 && store_op_has_result(op))
		code = -ETIME;
	if (code == 0 && d->excluded)
		code = -EIO;
	if (code == 0 &&
	    op->batch->clears_begun != s->queues.clears_begun) /* which are the log writer's */
		code = -ECANCELED;
	/* What is below is out of date from here on, so that it is not logged behind this one. */
	if (code == 0 && !op->promotes_gen)
		store_tier_forget(s, e->hash);
	else if (code == 0 && !store_tier_has(s, e->hash, op->promotes_gen))
		code = -ESTALE;
	if (code < 0)
		return code;
	/* What it replaces on another directory must be gone there when this one is complete. */
	if (old && old->dir != e->dir)
		code = store_journal_drop(&s->dirs[old->dir], old->hash, old->gen);
	if (code < 0)
		return code;
	e->gen = ++s->gen;
	s->expiring = s->expiring || ttl;
	e->expiry = ttl ? (uint32_t)min_u64(store_now(s) + ttl, UINT32_MAX) : 0;
	return store_journal_set(d, op);
}

static void group_begin(struct penstock_store *s, struct store_op *list)
{
	for (struct store_op *op = list; op; op = op->next)
		if (op->state == STORE_OP_WRITE) {
			int code = atomic_load(&op->error);

			store_dir_count_result(&s->dirs[op->entry->dir], code,
					       "a value cannot be written");
		}
	pthread_mutex_lock(&s->lock);
	for (struct store_op *op = list; op; op = op->next)
		op->code = op->state == STORE_OP_WRITE ? log_set(s, op) : 0;
	store_unlock(s);
}

/* With @lock: a set is visible, or has never been. */
static void publish_or_discard(struct penstock_store *s, struct store_op *op)
{
	struct store_entry *e = op->entry;

	s->stats.sets++;
	if (op->code == 0)
		op->code = s->dirs[e->dir].excluded ? -EIO : s->dirs[e->dir].code;
	/* What was called late must not appear afterwards. */
	if (op->code == 0 && !store_op_lock_result(op))
		op->code = -ETIME;
	if (op->code == 0 && op->promotes_gen && !store_tier_has(s, e->hash, op->promotes_gen))
		op->code = -ESTALE;
	if (op->code == 0)
		op->code = store_set_publish(s, op);
	if (op->code < 0) {
		s->stats.errors += op->code != -ETIME && op->code != -ENOSPC &&
				   op->code != -ESTALE && op->code != -ECANCELED;
		s->stats.sets_no_space += op->code == -ENOSPC;
		/* Its record is in the log, if that could be written. */
		if (e->gen && s->dirs[e->dir].code == 0)
			store_journal_drop(&s->dirs[e->dir], e->hash, e->gen);
		store_set_discard(s, op);
	}
	if (op->buf)
		store_staging_put(s, op->buf);
}

static void group_end(struct penstock_store *s, struct store_op *list, int code)
{
	struct store_op *next;

	pthread_mutex_lock(&s->lock);
	for (struct store_op *op = list; op; op = op->next) {
		if (op->code == 0)
			op->code = code;
		if (op->state == STORE_OP_WRITE)
			publish_or_discard(s, op);
	}
	store_unlock(s);
	for (struct store_op *op = list; op; op = next) {
		int64_t good = op->state == STORE_OP_WRITE ? (int64_t)op->len : 0;

		next = op->next;
		store_op_finish(op, op->code < 0 ? op->code : good);
	}
	store_signal_done(s);
}

/* A directory that comes back one day is behind the others then. */
void store_advance_epoch(struct penstock_store *s)
{
	uint64_t epoch = 0;
	bool lost;

	pthread_mutex_lock(&s->lock);
	lost = s->dir_excluded;
	s->dir_excluded = false;
	store_unlock(s);
	if (!lost)
		return;
	for (unsigned i = 0; i < s->nr_dirs; i++)
		epoch = max_u64(epoch, s->dirs[i].log.head.epoch);
	lost = store_journal_set_epoch(s, epoch, store_next_epoch(epoch), NULL) < 0;
	pthread_mutex_lock(&s->lock);
	s->dir_excluded = s->dir_excluded || lost;
	store_unlock(s);
}

/*
 * Write the logs of all directories; @list waits for it.  A set or delete is complete when its log
 * is written, and the others as far as they have to say that something is gone: one that could not
 * be told that it has an older value of the key would give it out after the next start.  And when
 * it is known of a directory that was left out that it was.
 */
static void commit_group(struct penstock_store *s, struct store_op *list)
{
	int code = 0;

	group_begin(s, list);
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[i];

		d->code = d->excluded ? -EIO : store_journal_flush(d);
		if (!d->excluded && d->code < 0 && d->group.len && !code)
			code = d->code;
	}
	store_advance_epoch(s);
	group_end(s, list, code);
}

static void wake_waiting_sets(struct penstock_store *s, struct store_dir *d)
{
	struct store_op *list;

	pthread_mutex_lock(&s->lock);
	d->growth_requested = false;
	list = store_op_queue_take_all(&d->waiting);
	store_unlock(s);
	store_queue_ops(s, list);
}

/* Returns whether there is more to do. */
static bool grow_and_compact(struct penstock_store *s)
{
	bool more = false, grow, rewrite;

	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[i];

		pthread_mutex_lock(&s->lock);
		grow = d->growth_requested;
		rewrite = !d->excluded && store_journal_needs_rewrite(d);
		store_unlock(s);
		if (grow && !d->excluded)
			store_dir_grow(d);
		if (grow)
			wake_waiting_sets(s, d);
		if (rewrite)
			more = store_journal_rewrite(d) == 0 || more;
	}
	return more;
}

/* Who dies now, and comes back with a clock that is behind, knows how late it was. */
static void write_clock(struct penstock_store *s)
{
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_log *log = &s->dirs[i].log;

		if (!s->dirs[i].excluded)
			store_journal_write_head(s, log, NULL);
	}
}

/* With @queues.lock: until there is work; true: it is time to write the clock down. */
static bool wait_for_commits(struct penstock_store *s)
{
	struct store_queues *q = &s->queues;
	uint64_t end = clock_ns() + atomic_load(&s->clock_tick_ns);
	struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};

	if (s->expiring)
		return pthread_cond_clockwait(&q->commit, &q->lock, CLOCK_MONOTONIC, &ts) ==
		       ETIMEDOUT;
	pthread_cond_wait(&q->commit, &q->lock);
	return false;
}

static void *log_writer_run(void *arg)
{
	struct penstock_store *s = arg;
	struct store_queues *q = &s->queues;
	struct store_op *list;
	bool more = false;

	pthread_mutex_lock(&q->lock);
	while (!q->stop_log_writer || q->to_commit.first) {
		if (!q->to_commit.first && !q->wake_log_writer && !more && !q->stop_log_writer) {
			if (wait_for_commits(s)) {
				pthread_mutex_unlock(&q->lock);
				write_clock(s);
				pthread_mutex_lock(&q->lock);
			}
			continue;
		}
		q->wake_log_writer = false;
		list = store_op_queue_take_all(&q->to_commit);
		pthread_mutex_unlock(&q->lock);
		commit_group(s, list);
		store_run_clears(s);
		more = grow_and_compact(s);
		pthread_mutex_lock(&q->lock);
	}
	pthread_mutex_unlock(&q->lock);
	commit_group(s, NULL);
	return NULL;
}

int store_log_writer_start(struct penstock_store *s, struct penstock_err *err)
{
	int r = thread_start(&s->log_writer, log_writer_run, s);

	s->has_log_writer = r == 0;
	return r < 0 ? penstock_fail(err, r, "no thread: %s", strerror(-r)) : 0;
}

void store_log_writer_stop(struct penstock_store *s)
{
	if (!s->has_log_writer)
		return;
	pthread_mutex_lock(&s->queues.lock);
	s->queues.stop_log_writer = true;
	pthread_cond_signal(&s->queues.commit);
	pthread_mutex_unlock(&s->queues.lock);
	pthread_join(s->log_writer, NULL);
}
