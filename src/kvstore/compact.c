/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting the log of a shelf when most of it is history: records of what is alive are copied to
 * a new file, a piece at a time between groups, until there is nothing left to copy; then the new
 * log takes the name of the old one.  Sets and deletes meanwhile go to the end of the old one,
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
	struct store_shelf *sh;
	struct store_bytes out;
	const struct store_walk *walk;
};

static bool is_this(const struct store_entry *e, const struct store_shelf *sh, uint64_t gen)
{
	return e && e->gen == gen && e->shelf == sh->nr;
}

bool store_journal_is_alive(struct store_shelf *sh, const struct store_record *r)
{
	struct penstock_store *s = sh->store;
	struct store_hash h = r->type == STORE_RECORD_SET
				      ? store_hash_key(&s->secret, r->key, r->key_len)
				      : r->hash;
	bool alive;

	pthread_mutex_lock(&s->lock);
	alive = (r->type != STORE_RECORD_BELOW &&
		 is_this(store_index_find(&s->index, h), sh, r->gen)) ||
		(r->type != STORE_RECORD_SET && is_this(store_tier_find(s, h), sh, r->gen));
	store_unlock(s);
	return alive;
}

static int copy_one(void *arg, const struct store_record *r, const void *raw, size_t size)
{
	struct copying *c = arg;
	bool wanted;

	if (!r) /* what cannot be read is not there after the next start */
		return 0;
	/*
	 * What has come since we began is about records that may have been copied: a drop says that
	 * one of them is gone, and so does a set of the same key, even one that is gone itself.
	 */
	wanted = c->walk->at >= c->sh->rewrite.began ||
		 (r->type != STORE_RECORD_DROP && store_journal_is_alive(c->sh, r));
	if (!wanted)
		return 0;
	if (ARRAY_ROOM(c->out.at, c->out.capacity, c->out.len + size) < 0)
		return -ENOMEM;
	memcpy(c->out.at + c->out.len, raw, size);
	c->out.len += size;
	return 0;
}

/* Write what was found, and remember how far we are. */
static int compact_copy_out(struct store_shelf *sh, const struct copying *c, uint64_t from)
{
	struct store_rewrite *w = &sh->rewrite;
	struct penstock_store *s = sh->store;
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

static int copy_piece(struct store_shelf *sh)
{
	struct copying c = {.sh = sh};
	struct store_walk walk = {
		.file = sh->log.file,
		.seed = sh->log.head.seed,
		.from = sh->rewrite.from,
		.to = min_u64(sh->rewrite.from + sh->store->log_piece, sh->log.end),
		.each = copy_one,
		.arg = &c,
	};
	int r;

	c.walk = &walk;
	r = store_journal_walk(&walk, NULL);
	/* Where nothing could be read, do not stay. */
	if (r == 0)
		r = compact_copy_out(sh, &c, walk.from > sh->rewrite.from ? walk.from : walk.to);
	free(c.out.at);
	return r;
}

void store_journal_give_up(struct store_shelf *sh)
{
	store_log_close(&sh->rewrite.to);
	unlinkat(sh->dir, STORE_NEW_NAME, 0);
	sh->rewrite = (struct store_rewrite){0};
	store_log_space_allocate(sh);
}

static int compact_begin(struct store_shelf *sh)
{
	struct store_rewrite *w = &sh->rewrite;
	int r;

	*w = (struct store_rewrite){.from = STORE_LOG_HEAD, .began = sh->log.end};
	w->to.head = sh->log.head;
	r = store_journal_create(&w->to, sh, STORE_NEW_NAME, NULL);
	w->active = r == 0;
	return r;
}

/* All is copied: the new log is the log. */
static int compact_finish(struct store_shelf *sh)
{
	struct store_log old = sh->log;
	int r;

	sh->rewrite.to.head = sh->log.head;
	r = store_journal_stamp(sh->store, &sh->rewrite.to, NULL);
	if (r == 0)
		r = store_sync(sh->store, sh->rewrite.to.file);
	if (r < 0)
		return r;
	if (renameat(sh->dir, STORE_NEW_NAME, sh->dir, STORE_LOG_NAME) < 0)
		return -errno;
	fsync(sh->dir);
	pthread_mutex_lock(&sh->store->lock);
	sh->log = sh->rewrite.to;
	store_unlock(sh->store);
	sh->rewrite = (struct store_rewrite){0};
	store_log_close(&old);
	store_log_space_allocate(sh);
	return 0;
}

bool store_journal_is_long(const struct store_shelf *sh)
{
	uint64_t small = sh->store->log_piece / 4;

	return sh->rewrite.active ||
	       (sh->log.end > min_u64(small, sh->log_allocated / 2) &&
		sh->log.end > 2 * (sh->log_live + STORE_LOG_HEAD) && clock_ns() >= sh->rewrite_ns);
}

static int rewrite_some(struct store_shelf *sh, bool whole)
{
	int r = sh->rewrite.active ? 0 : compact_begin(sh);

	while (r == 0 && sh->rewrite.active) {
		r = sh->rewrite.from < sh->log.end ? copy_piece(sh) : compact_finish(sh);
		if (!whole)
			break;
	}
	if (r < 0) {
		sh->rewrite_ns = clock_ns() + STORE_RETRY_NS;
		store_journal_give_up(sh);
	}
	return r;
}

int store_journal_rewrite(struct store_shelf *sh)
{
	return rewrite_some(sh, false);
}

int store_journal_rewrite_whole(struct store_shelf *sh)
{
	if (clock_ns() < sh->full_ns) /* it has just been tried */
		return -ENOSPC;
	if (sh->rewrite.active)
		store_journal_give_up(sh);
	return rewrite_some(sh, true);
}
