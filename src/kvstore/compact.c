/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting the log of a directory when most of it is history: records of what is alive are copied
 * to a new file, a piece at a time between groups, until there is nothing left to copy; then the
 * new log takes the name of the old one.  Sets and deletes meanwhile go to the end of the old one,
 * which the copying reaches, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

struct copying {
	struct store_dir *d;
	struct store_bytes out;
	const struct store_walk *walk;
};

static bool is_entry_of(const struct store_entry *e, const struct store_dir *d, uint64_t gen)
{
	return e && e->gen == gen && e->dir == d->nr;
}

bool store_journal_is_alive(struct store_dir *d, const struct store_record *r)
{
	struct penstock_store *s = d->store;
	struct store_hash h = r->type == STORE_RECORD_SET
				      ? store_hash_key(&s->secret, r->key, r->key_len)
				      : r->hash;
	bool alive;

	pthread_mutex_lock(&s->lock);
	alive = (r->type != STORE_RECORD_BELOW &&
		 is_entry_of(store_index_find(&s->index, h), d, r->gen)) ||
		(r->type != STORE_RECORD_SET && is_entry_of(store_tier_find(s, h), d, r->gen));
	store_unlock(s);
	return alive;
}

static int copy_if_alive(void *arg, const struct store_record *r, const void *raw, size_t size)
{
	struct copying *c = arg;
	bool wanted;

	if (!r) /* what cannot be read is not there after the next start */
		return 0;
	/*
	 * What has come since we began is about records that may have been copied: a drop says that
	 * one of them is gone, and so does a set of the same key, even one that is gone itself.
	 */
	wanted = c->walk->at >= c->d->rewrite.began ||
		 (r->type != STORE_RECORD_DROP && store_journal_is_alive(c->d, r));
	if (!wanted)
		return 0;
	if (ARRAY_RESERVE(c->out.at, c->out.capacity, c->out.len + size) < 0)
		return -ENOMEM;
	memcpy(c->out.at + c->out.len, raw, size);
	c->out.len += size;
	return 0;
}

/* Write what was found, and remember how far we are. */
static int compact_copy_out(struct store_dir *d, const struct copying *c, uint64_t from)
{
	struct store_rewrite *w = &d->rewrite;
	struct penstock_store *s = d->store;
	int64_t r = 0;

	if (c->out.len)
		r = penstock_pwrite(w->to.file, c->out.at, c->out.len, w->to.end, NULL);
	if (r < 0)
		return (int)r;
	w->from = from;
	w->to.end += c->out.len;
	pthread_mutex_lock(&s->lock);
	s->stats.log_bytes += c->out.len;
	s->stats.bytes_written += c->out.len;
	store_unlock(s);
	return 0;
}

static int copy_piece(struct store_dir *d)
{
	struct copying c = {.d = d};
	struct store_walk walk = {
		.file = d->log.file,
		.seed = d->log.head.seed,
		.from = d->rewrite.from,
		.to = min_u64(d->rewrite.from + d->store->log_piece, d->log.end),
		.each = copy_if_alive,
		.arg = &c,
	};
	int r;

	c.walk = &walk;
	r = store_journal_walk(&walk, NULL);
	/* Where nothing could be read, do not stay. */
	if (r == 0)
		r = compact_copy_out(d, &c, walk.from > d->rewrite.from ? walk.from : walk.to);
	free(c.out.at);
	return r;
}

void store_journal_abort_rewrite(struct store_dir *d)
{
	store_log_close(&d->rewrite.to);
	unlinkat(d->dir_fd, STORE_NEW_NAME, 0);
	d->rewrite = (struct store_rewrite){0};
	store_log_space_allocate(d);
}

static int compact_begin(struct store_dir *d)
{
	struct store_rewrite *w = &d->rewrite;
	int r;

	*w = (struct store_rewrite){.from = STORE_LOG_HEAD, .began = d->log.end};
	w->to.head = d->log.head;
	r = store_journal_create(&w->to, d, STORE_NEW_NAME, NULL);
	w->active = r == 0;
	return r;
}

/* All is copied: the new log is the log. */
static int compact_finish(struct store_dir *d)
{
	struct store_log old = d->log;
	int r;

	d->rewrite.to.head = d->log.head;
	r = store_journal_write_head(d->store, &d->rewrite.to, NULL);
	if (r == 0)
		r = store_sync(d->store, d->rewrite.to.file);
	if (r < 0)
		return r;
	if (renameat(d->dir_fd, STORE_NEW_NAME, d->dir_fd, STORE_LOG_NAME) < 0)
		return -errno;
	fsync(d->dir_fd);
	pthread_mutex_lock(&d->store->lock);
	d->log = d->rewrite.to;
	store_unlock(d->store);
	d->rewrite = (struct store_rewrite){0};
	store_log_close(&old);
	store_log_space_allocate(d);
	return 0;
}

bool store_journal_needs_rewrite(const struct store_dir *d)
{
	uint64_t small = d->store->log_piece / 4;

	return d->rewrite.active ||
	       (d->log.end > min_u64(small, d->log_allocated / 2) &&
		d->log.end > 2 * (d->log_live + STORE_LOG_HEAD) && clock_ns() >= d->rewrite_ns);
}

static int rewrite_step(struct store_dir *d, bool whole)
{
	int r = d->rewrite.active ? 0 : compact_begin(d);

	while (r == 0 && d->rewrite.active) {
		r = d->rewrite.from < d->log.end ? copy_piece(d) : compact_finish(d);
		if (!whole)
			break;
	}
	if (r < 0) {
		d->rewrite_ns = clock_ns() + STORE_RETRY_NS;
		store_journal_abort_rewrite(d);
	}
	return r;
}

int store_journal_rewrite(struct store_dir *d)
{
	return rewrite_step(d, false);
}

int store_journal_rewrite_whole(struct store_dir *d)
{
	if (clock_ns() < d->full_ns) /* it has just been tried */
		return -ENOSPC;
	if (d->rewrite.active)
		store_journal_abort_rewrite(d);
	return rewrite_step(d, true);
}
