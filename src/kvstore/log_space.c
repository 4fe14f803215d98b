/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space of logs on the drive.  What a log may need is allocated before there are sets that need it,
 * and once more for the file that it is rewritten to, so that a file system that others fill up
 * takes away nothing: older values make room then.
 *
 * Records of what is there and of what is under way take at most half of it.  So a group of sets
 * always fits behind a log that has just been rewritten.
 *
 * A store that is opened with a smaller capacity than before gives back what is too much: blocks
 * behind the end of a log, and of a log that is too long itself the oldest entries.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

enum { LOG_SPACE_STEPS = 64, LOG_SPACE_STEP_LEAST = 256 << 10 };

bool store_log_space_fits(const struct store_dir *d, uint64_t size)
{
	return d->log_live + d->log_in_flight + size <= d->log_allocated / 2;
}

bool store_log_space_is_short(const struct store_dir *d)
{
	return d->log_allocated < d->log_limit &&
	       (d->log_live + d->log_in_flight >= d->log_allocated / 4 ||
		d->log_below >= d->log_allocated / 16) &&
	       clock_ns() >= d->retry_ns;
}

bool store_log_space_is_usable(const struct store_dir *d)
{
	return (!d->full_ns || clock_ns() >= d->full_ns) &&
	       (d->log_allocated / 2 >= STORE_RECORD_MAX / 2 || store_log_space_is_short(d));
}

static int allocate_file(int dir, const char *name, uint64_t bytes)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), r = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	/* Where there is no preallocation, space is found as it is written. */
	if (bytes && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) < 0 && errno != EOPNOTSUPP)
		r = -errno;
	/* A full XFS refuses what there is already. */
	if (r == -ENOSPC && fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 >= bytes)
		r = 0;
	close(fd);
	return r;
}

static int allocate_both(struct store_dir *d, uint64_t bytes)
{
	int r = allocate_file(d->dir_fd, STORE_LOG_NAME, bytes);

	return r < 0 ? r : allocate_file(d->dir_fd, STORE_NEW_NAME, bytes);
}

static int set_log_space(struct store_dir *d, uint64_t bytes)
{
	int r = allocate_both(d, bytes);

	pthread_mutex_lock(&d->store->lock);
	if (r == 0)
		d->log_allocated = bytes;
	else
		d->retry_ns = clock_ns() + STORE_RETRY_NS;
	store_unlock(d->store);
	return r;
}

static uint64_t log_space_step(const struct store_dir *d)
{
	return max_u64(d->log_limit / LOG_SPACE_STEPS, LOG_SPACE_STEP_LEAST);
}

bool store_log_is_too_long(const struct store_dir *d)
{
	return d->log.end > d->log_limit;
}

/* Free what the file has behind its end, if all together is more than @most. */
static void free_behind_end(const struct store_dir *d, uint64_t most)
{
	struct stat st;

	if (fstat(d->log.fd, &st) < 0 ||
	    ((uint64_t)st.st_blocks * 512 > most && ftruncate(d->log.fd, st.st_size) < 0))
		store_report_error(d->store, -errno, d->path, 0, "its log keeps space that it had");
}

void store_log_space_init(struct store_dir *d)
{
	uint64_t least = min_u64(align_up(d->log.end, STORE_UNIT), d->log_limit);
	uint64_t want = align_up(max_u64(5 * d->log_live, d->log.end), log_space_step(d));

	if (store_log_is_too_long(d)) { /* until it is shorter, which is soon */
		d->log_allocated = d->log.end + d->pending.len;
		return;
	}
	free_behind_end(d, d->log_limit);
	want = min_u64(want, d->log_limit);
	while (set_log_space(d, want) < 0 && want > least) {
		want = max_u64(least, align_up(want / 2, STORE_UNIT));
		/* What one file has got of too much, the other one would miss. */
		free_behind_end(d, want);
		unlinkat(d->dir_fd, STORE_NEW_NAME, 0);
	}
	d->log_allocated = want;
}

/* The oldest go, until the others have half of it as always. */
int store_log_shrink(struct store_dir *d)
{
	struct penstock_store *s = d->store;
	uint64_t most = d->log_limit / 2 - STORE_LOG_HEAD;
	struct store_entry *e;
	uint32_t pos = 0;
	int r;

	if (!store_log_is_too_long(d))
		return 0;
	if (d->log_below > d->log_limit / 8)
		store_tier_drop_records(d, true);
	while (d->log_live > most && (e = store_index_next(&s->index, &pos))) {
		if (e->dir != d->nr)
			continue;
		s->stats.evictions++;
		s->stats.evicted_bytes += e->len;
		store_entry_drop(s, e);
	}
	r = store_journal_rewrite_whole(d);
	if (r == 0)
		store_log_space_init(d);
	return r;
}

int store_log_space_grow(struct store_dir *d)
{
	int r = set_log_space(d, min_u64(d->log_allocated + log_space_step(d), d->log_limit));

	if (r < 0)
		store_report_error(d->store, r, d->path, log_space_step(d),
				   "the log cannot grow: older values make room");
	return r;
}

void store_log_space_allocate(struct store_dir *d)
{
	allocate_both(d, d->log_allocated);
}

/* One that is not longer keeps what it has behind its end. */
int store_log_truncate(const struct store_dir *d)
{
	int r = 0;
	struct stat st;

	if (fstat(d->log.fd, &st) < 0 ||
	    ((uint64_t)st.st_size > d->log.end && ftruncate(d->log.fd, (off_t)d->log.end) < 0)) {
		r = -errno;
		store_report_error(d->store, r, d->path, 0, "the end of its log cannot be cut off");
	}
	return r;
}
