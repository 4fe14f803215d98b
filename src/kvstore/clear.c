/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything is forgotten.  The log writer does it, between two groups: it alone lets sets be found
 * and writes logs, so that all there is to forget stands still.  Logs are cut off behind their
 * heads, which takes no space and is one step for each.  A set is told by its batch: one that came
 * before the last clear began is not logged.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

/* With @lock: nobody finds anything; records of what is gone are not needed. */
static void clear_index(struct penstock_store *s)
{
	struct store_entry *e;
	uint32_t pos = 0;

	while ((e = store_index_next(&s->index, &pos)))
		if (e->state == STORE_LIVE)
			store_entry_drop(s, e);
	store_tier_clear(s);
	for (unsigned i = 0; i < s->nr_dirs; i++)
		s->dirs[i].pending.len = s->dirs[i].group.len = 0;
}

static int cut_log(struct store_dir *d)
{
	struct penstock_store *s = d->store;
	int r;

	if (d->rewrite.active)
		store_journal_abort_rewrite(d);
	/* What records have said of the time, the head says from here on. */
	r = store_journal_write_head(s, &d->log, NULL);
	pthread_mutex_lock(&s->lock);
	d->log.end = STORE_LOG_HEAD;
	d->full_ns = 0;
	store_unlock(s);
	if (r == 0)
		r = store_log_truncate(d);
	if (r == 0)
		r = store_sync(s, d->log.file);
	store_log_space_allocate(d);
	return r;
}

/*
 * Of one that could not be told, or is left out already, nothing is found; nor later, when it comes
 * back beside others, which know that it was away, or empty.
 */
static void clear_dir(struct store_dir *d, struct penstock_err *err)
{
	struct penstock_store *s = d->store;
	int r = d->excluded ? 0 : cut_log(d);

	if (r < 0) {
		store_report_error(s, r, d->path, 0,
				   "its log cannot be cleared, and it is left out");
		penstock_fail(err, r, "%s: log: %s", d->path, penstock_strerror(r));
		pthread_mutex_lock(&s->lock);
		store_dir_exclude(d);
		store_unlock(s);
	}
	if (d->excluded)
		store_dir_remove_log(d);
}

void store_run_clears(struct penstock_store *s)
{
	struct store_queues *q = &s->queues;
	struct penstock_err err = {0, ""};

	pthread_mutex_lock(&s->lock);
	pthread_mutex_lock(&q->lock);
	if (q->clears_begun == q->clears_wanted) {
		pthread_mutex_unlock(&q->lock);
		store_unlock(s);
		return;
	}
	q->clears_begun = q->clears_wanted;
	pthread_mutex_unlock(&q->lock);
	clear_index(s);
	store_unlock(s);
	for (unsigned i = 0; i < s->nr_dirs; i++)
		clear_dir(&s->dirs[i], &err);
	store_advance_epoch(s);
	pthread_mutex_lock(&q->lock);
	q->clears_done = q->clears_begun;
	q->clear_err = err;
	pthread_cond_broadcast(&q->finished);
	pthread_mutex_unlock(&q->lock);
}

int penstock_store_clear(struct penstock_store *store, struct penstock_err *err)
{
	struct store_queues *q;
	struct penstock_err found;
	uint64_t mine;
	int r = store_check(store, err);

	if (r < 0)
		return r;
	q = &store->queues;
	pthread_mutex_lock(&q->lock);
	mine = ++q->clears_wanted;
	q->wake_log_writer = true;
	pthread_cond_signal(&q->commit);
	while (q->clears_done < mine)
		pthread_cond_wait(&q->finished, &q->lock);
	found = q->clear_err;
	pthread_mutex_unlock(&q->lock);
	return found.code < 0 ? penstock_fail(err, found.code, "%s", found.msg) : 0;
}
