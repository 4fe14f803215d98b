/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a directory: appended to in groups by the log writer, read once when the store is
 * opened.
 *
 * A log ends with a record that is torn where the process was killed while it wrote, which it does
 * in order; nobody was told that what it says is done.  A bad record with good ones behind it is
 * another matter: it may have said that something before it is gone or has another value.  So
 * nothing before it is believed.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

enum {
	WALK_BYTES = 4 << 20,
	WRITE_BYTES = 64 << 10, /* no handle splits so few */
};

/* ----------------------------------------------------------------- reading */

struct walker {
	struct store_walk *w;
	unsigned char *buf;
	size_t have, used; /* bytes in @buf, and of these done with */
	uint64_t base;     /* where in the file @buf begins */
	bool skipped;      /* something since the last good record */
};

/* More bytes behind those that are left; returns how many, or -errno. */
static int64_t walk_fill(struct walker *k, struct penstock_err *err)
{
	uint64_t at;
	int64_t r;

	memmove(k->buf, k->buf + k->used, k->have - k->used);
	k->have -= k->used;
	k->base += k->used;
	k->used = 0;
	at = k->base + k->have;
	r = penstock_pread(k->w->file, k->buf + k->have,
			   min_u64(WALK_BYTES - k->have, k->w->to - at), at, err);
	if (r > 0)
		k->have += (size_t)r;
	return r;
}

/* Records as far as they are whole; a bad one is looked past, eight bytes at a time. */
static int walk_records(struct walker *k, bool last)
{
	struct store_record rec;
	int n, r;

	while (k->have - k->used >= 8) {
		n = store_record_get(&rec, k->w->seed, k->buf + k->used, k->have - k->used);
		if (n == 0 && !last)
			return 0;
		if (n <= 0) {
			k->skipped = true;
			k->used += 8;
			continue;
		}
		r = k->skipped ? k->w->each(k->w->arg, NULL, NULL, 0) : 0;
		k->skipped = false;
		k->w->at = k->base + k->used;
		if (r == 0)
			r = k->w->each(k->w->arg, &rec, k->buf + k->used, (size_t)n);
		if (r)
			return r;
		k->used += (size_t)n;
		k->w->from = k->base + k->used;
	}
	return 0;
}

int store_journal_walk(struct store_walk *w, struct penstock_err *err)
{
	CLEANUP_FREE unsigned char *buf = malloc(WALK_BYTES);
	struct walker k = {.w = w, .buf = buf, .base = w->from};
	int64_t r = 0;

	if (!buf)
		return penstock_fail(err, -ENOMEM, "out of memory");
	while (k.base + k.have < w->to) {
		r = walk_fill(&k, err);
		if (r <= 0)
			return (int)r;
		r = walk_records(&k, k.base + k.have >= w->to);
		if (r)
			return (int)r;
	}
	return 0;
}

/* Claim the space of a record, or leave none claimed. */
static int claim_space(struct store_dir *d, struct store_entry *e, const struct store_record *r)
{
	uint64_t units = 0;
	int c = 0;

	for (uint32_t i = 0; i < r->nr && c == 0; i++) {
		struct extent x = store_record_piece(r, i);

		c = extents_alloc_at(&e->space, d->map, x);
		units += x.count;
	}
	if (c == 0 && units * STORE_UNIT < r->len)
		c = -EBADMSG;
	if (c < 0)
		extents_free(&e->space, d->map);
	return c;
}

static int load_set(struct store_dir *d, const struct store_record *r)
{
	struct penstock_store *s = d->store;
	struct store_hash h = store_hash_key(&s->secret, r->key, r->key_len);
	struct store_entry *old = store_index_find(&s->index, h), *e;

	if (store_tier_is_newer(d, h, r->gen))
		return 0;
	if (old && old->gen >= r->gen) /* on another directory: it must not come back */
		return old->dir == d->nr ? 0 : store_journal_drop(d, h, r->gen);
	if (old)
		old->dir == d->nr ? store_entry_drop(s, old) : store_entry_erase(s, old);
	e = store_index_new(&s->index);
	if (!e)
		return -ENOMEM;
	/* It stays until all logs have been read: they may have older values of the key. */
	s->has_conflicts = claim_space(d, e, r) < 0 || s->has_conflicts;
	e->hash = h;
	e->gen = r->gen;
	e->len = r->len;
	e->crc = r->crc;
	e->expiry = r->expiry;
	s->expiring = s->expiring || r->expiry;
	e->key_len = (uint16_t)r->key_len;
	e->dir = (uint8_t)d->nr;
	e->freq = r->cost & 3;
	e->state = STORE_LIVE;
	d->log_live += store_record_size(r->key_len, e->space.nr);
	if (store_index_add(&s->index, e) < 0) {
		d->log_live -= store_record_size(r->key_len, e->space.nr);
		extents_free(&e->space, d->map);
		store_index_free(&s->index, e);
		return -ENOMEM;
	}
	store_policy_add(&s->policy, &s->index, e);
	s->stats.entries++;
	s->stats.value_bytes += e->len;
	return 0;
}

/* Nothing that this directory's log has said so far is believed. */
static void drop_loaded(struct store_dir *d)
{
	struct penstock_store *s = d->store;
	struct store_entry *e;
	uint32_t pos = 0;
	uint64_t n = 0;
	char text[80];

	while ((e = store_index_next(&s->index, &pos)))
		if (e->dir == d->nr && e->state == STORE_LIVE) {
			store_entry_drop(s, e);
			n++;
		}
	s->stats.lost += 1 + n;
	store_tier_drop_records(d, false);
	snprintf(text, sizeof(text), "its log is damaged: %" PRIu64 " values before that are lost",
		 n);
	store_report_error(s, -EBADMSG, d->path, 0, text);
}

void store_journal_drop_spaceless(struct penstock_store *s)
{
	struct store_entry *e;
	uint32_t pos = 0;

	while (s->has_conflicts && (e = store_index_next(&s->index, &pos)))
		if (e->len && !e->space.nr && e->state == STORE_LIVE) {
			s->stats.lost++;
			store_entry_erase(s, e);
		}
}

static int load_record(void *arg, const struct store_record *r, const void *raw, size_t size)
{
	struct store_dir *d = arg;
	struct penstock_store *s = d->store;
	struct store_entry *e;

	(void)raw;
	(void)size;
	if (!r) {
		drop_loaded(d);
		return 0;
	}
	s->gen = max_u64(s->gen, r->gen);
	s->clock_base = max_u64(s->clock_base, r->time);
	if (r->type == STORE_RECORD_SET)
		return load_set(d, r);
	if (r->type == STORE_RECORD_BELOW)
		return store_tier_load_record(d, r);
	store_tier_load_drop(d, r);
	e = store_index_find(&s->index, r->hash);
	if (e && e->gen == r->gen && e->dir == d->nr)
		store_entry_drop(s, e);
	return 0;
}

int store_journal_read_head(struct store_dir *d, struct penstock_err *err)
{
	unsigned char head[STORE_LOG_HEAD];
	int64_t n = penstock_pread(d->log.file, head, sizeof(head), 0, err);
	int r;

	if (n < 0)
		return (int)n;
	r = n < (int64_t)sizeof(head) ? -EBADMSG : store_log_head_get(&d->log.head, head);
	if (r == -EPROTO)
		return penstock_fail(err, r, "%s: its log is of another version", d->path);
	return r < 0 ? penstock_fail(err, r, "%s: its log has no head", d->path) : 0;
}

int store_journal_write_head(const struct penstock_store *s, struct store_log *log,
			     struct penstock_err *err)
{
	unsigned char head[STORE_LOG_HEAD];
	int64_t r;

	log->head.clock = store_now(s);
	store_log_head_put(head, &log->head);
	r = penstock_pwrite(log->file, head, sizeof(head), 0, err);
	return r < 0 ? (int)r : 0;
}

static int write_heads(struct penstock_store *s, uint64_t since, uint64_t epoch, bool sync,
		       void (*failed)(struct store_dir *d, int code))
{
	int first = 0, r;

	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[i];

		if (d->excluded)
			continue;
		d->log.head.epoch = epoch;
		d->log.head.since = since;
		r = store_journal_write_head(s, &d->log, NULL);
		if (r == 0 && sync)
			r = store_sync(s, d->log.file);
		if (r < 0 && failed)
			failed(d, r);
		first = first ? first : r;
	}
	return first;
}

int store_journal_set_epoch(struct penstock_store *s, uint64_t since, uint64_t epoch,
			    void (*failed)(struct store_dir *d, int code))
{
	int r = s->nr_dirs > 1 ? write_heads(s, since, epoch, true, failed) : 0;

	/* Where all heads have the epoch none needs to be forgiven what is before it. */
	return r < 0 && !failed ? r : write_heads(s, epoch, epoch, !failed, failed);
}

int store_journal_load(struct store_dir *d, struct penstock_err *err)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct store_walk w = {
		.file = d->log.file,
		.seed = d->log.head.seed,
		.from = STORE_LOG_HEAD,
		.each = load_record,
		.arg = d,
	};
	int r = penstock_file_stat(d->log.file, &info);

	if (r < 0)
		return penstock_fail(err, r, "%s: log: %s", d->path, penstock_strerror(r));
	w.to = info.bytes;
	r = store_journal_walk(&w, err);
	d->log.end = w.from;
	return r;
}

/* ----------------------------------------------------------------- writing */

int store_journal_create(struct store_log *log, struct store_dir *d, const char *name,
			 struct penstock_err *err)
{
	unsigned char head[STORE_LOG_HEAD];
	struct penstock_short_name s;
	int fd = openat(d->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int64_t r;

	if (fd < 0)
		return penstock_fail(err, -errno, "%s/%s: %s", penstock_shorten_name(&s, d->path),
				     name, strerror(errno));
	store_log_head_put(head, &log->head);
	r = store_dir_adopt_fd(&log->file, &log->fd, d, fd, name, err);
	if (r == 0)
		r = penstock_pwrite(log->file, head, sizeof(head), 0, err);
	if (r < 0)
		return (int)r;
	log->end = STORE_LOG_HEAD;
	return 0;
}

static int journal_append(struct store_dir *d, const struct store_record *r,
			  const struct extents *space)
{
	struct store_bytes *p = &d->pending;

	if (ARRAY_RESERVE(p->at, p->capacity, p->len + STORE_RECORD_MAX) < 0)
		return -ENOMEM;
	p->len += store_record_put(p->at + p->len, d->log.head.seed, r, space);
	return 0;
}

int store_journal_set(struct store_dir *d, const struct store_op *op)
{
	const struct store_entry *e = op->entry;
	struct store_record r = {
		.type = STORE_RECORD_SET,
		.cost = op->batch->user.cost,
		.gen = e->gen,
		.time = store_now(d->store),
		.key = op->key,
		.key_len = op->key_len,
		.len = e->len,
		.crc = e->crc,
		.expiry = e->expiry,
	};

	return journal_append(d, &r, &e->space);
}

int store_journal_drop(struct store_dir *d, struct store_hash hash, uint64_t gen)
{
	struct store_record r = {
		.type = STORE_RECORD_DROP,
		.gen = gen,
		.time = store_now(d->store),
		.hash = hash,
	};

	return journal_append(d, &r, NULL);
}

int store_journal_below(struct store_dir *d, const struct store_entry *e, uint64_t run)
{
	struct store_record r = {
		.type = STORE_RECORD_BELOW,
		.gen = e->gen,
		.time = store_now(d->store),
		.hash = e->hash,
		.run = run,
		.len = e->len,
		.crc = e->crc,
		.expiry = e->expiry,
	};

	return journal_append(d, &r, NULL);
}

/* Of records that are still to be written, those that are wanted. */
static void filter_records(struct store_dir *d, struct store_bytes *b,
			   bool (*wanted)(struct store_dir *d, const struct store_record *r))
{
	struct store_record r;
	size_t kept = 0;
	int n;

	for (size_t at = 0; at < b->len; at += (size_t)n) {
		n = store_record_get(&r, d->log.head.seed, b->at + at, b->len - at);
		assert(n > 0);
		if (!wanted(d, &r))
			continue;
		memmove(b->at + kept, b->at + at, (size_t)n);
		kept += (size_t)n;
	}
	b->len = kept;
}

/* Those who set have been told that it has failed. */
static bool is_no_set(struct store_dir *d, const struct store_record *r)
{
	(void)d;
	return r->type != STORE_RECORD_SET;
}

/* What was gone when the log was rewritten is not in it. */
static bool is_not_rewritten(struct store_dir *d, const struct store_record *r)
{
	return r->type == STORE_RECORD_SET || store_journal_is_alive(d, r);
}

/* What is pending becomes the group; what could not be written stays its beginning. */
static int take_group(struct store_dir *d)
{
	struct store_bytes *g = &d->group, *p = &d->pending, t;
	int r = 0;

	pthread_mutex_lock(&d->store->lock);
	if (!g->len) {
		t = *g;
		*g = *p;
		*p = t;
	} else if (p->len) {
		r = ARRAY_RESERVE(g->at, g->capacity, g->len + p->len);
		if (r == 0) {
			memcpy(g->at + g->len, p->at, p->len);
			g->len += p->len;
			p->len = 0;
		} else {
			filter_records(d, p, is_no_set);
		}
	}
	store_unlock(d->store);
	return r;
}

int store_sync(struct penstock_store *s, struct penstock_file *file)
{
	struct penstock_op op = {.opcode = PENSTOCK_SYNC, .file = file};
	struct penstock_done done;
	int r = penstock_run(s->io, &op, &done, NULL);

	if (r == 0 && done.res < 0)
		r = (int)done.res;
	return r;
}

/*
 * One block of the handle's after the other: of several that are under way a kill may leave a later
 * one alone, and behind such a hole nothing of the log is believed.  Pages are whole or in parts.
 */
static int64_t write_in_order(struct store_dir *d, struct penstock_err *err)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0, n;
	int64_t r = 0;

	while (at < d->group.len && r >= 0) {
		uint64_t from = d->log.end + at, to = d->log.end + d->group.len;

		if (from % page || to - from < page)
			n = min_u64(to, align_up(from + 1, page)) - from;
		else
			n = min_u64(align_down(to - from, page), WRITE_BYTES);
		r = penstock_pwrite(d->log.file, d->group.at + at, n, from, err);
		at += n;
	}
	return r;
}

static int group_write(struct store_dir *d, struct penstock_err *err)
{
	struct penstock_store *s = d->store;
	bool durable = s->opts.flags & PENSTOCK_STORE_DURABLE;
	int64_t r = durable ? store_sync(s, d->data) : 0;

	if (r == 0)
		r = write_in_order(d, err);
	if (r >= 0 && durable)
		r = store_sync(s, d->log.file);
	return r < 0 ? store_quota_to_nospc((int)r) : 0;
}

/* Make it fit: a log that has just been rewritten has room for any. */
static int group_fit(struct store_dir *d)
{
	int r = 0;

	if (d->log.end + d->group.len > d->log_allocated) {
		r = store_journal_rewrite_whole(d);
		if (r == 0)
			filter_records(d, &d->group, is_not_rewritten);
	}
	return r == 0 && d->log.end + d->group.len > d->log_allocated ? -ENOSPC
								      : store_quota_to_nospc(r);
}

/*
 * The sets of the group have not been: not in the log, where some may be in part, and not in what
 * is still to be written, which would have no end.  What is gone has to be told, however late.
 */
static void group_failed(struct store_dir *d, bool full)
{
	store_log_truncate(d);
	store_log_space_allocate(d);
	filter_records(d, &d->group, is_no_set);
	if (!full)
		return;
	pthread_mutex_lock(&d->store->lock);
	d->full_ns = clock_ns() + STORE_RETRY_NS;
	store_unlock(d->store);
}

int store_journal_flush(struct store_dir *d)
{
	struct penstock_store *s = d->store;
	struct penstock_err err = {0, "the log cannot be written"};
	int r = take_group(d);
	bool full;

	if (r < 0 || !d->group.len)
		return r;
	r = group_fit(d);
	full = r == -ENOSPC;
	if (r == 0)
		r = group_write(d, &err);
	store_dir_count_result(d, r, err.msg);
	if (r < 0) {
		group_failed(d, full);
		return r;
	}
	d->log.end += d->group.len;
	pthread_mutex_lock(&s->lock);
	d->full_ns = 0;
	s->stats.log_bytes += d->group.len;
	s->stats.bytes_written += d->group.len;
	store_unlock(s);
	d->group.len = 0;
	return 0;
}
