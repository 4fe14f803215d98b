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

bool store_log_space_fits(const struct store_shelf *sh, uint64_t size)
{
	return sh->log_live + sh->log_in_flight + size <= sh->log_allocated / 2;
}

bool store_log_space_is_short(const struct store_shelf *sh)
{
	return sh->log_allocated < sh->log_limit &&
	       (sh->log_live + sh->log_in_flight >= sh->log_allocated / 4 ||
		sh->log_below >= sh->log_allocated / 16) &&
	       clock_ns() >= sh->retry_ns;
}

bool store_log_space_is_usable(const struct store_shelf *sh)
{
	return (!sh->full_ns || clock_ns() >= sh->full_ns) &&
	       (sh->log_allocated / 2 >= STORE_RECORD_MAX / 2 || store_log_space_is_short(sh));
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

static int allocate_both(struct store_shelf *sh, uint64_t bytes)
{
	int r = allocate_file(sh->dir, STORE_LOG_NAME, bytes);

	return r < 0 ? r : allocate_file(sh->dir, STORE_NEW_NAME, bytes);
}

static int set_log_space(struct store_shelf *sh, uint64_t bytes)
{
	int r = allocate_both(sh, bytes);

	pthread_mutex_lock(&sh->store->lock);
	if (r == 0)
		sh->log_allocated = bytes;
	else
		sh->retry_ns = clock_ns() + STORE_RETRY_NS;
	store_unlock(sh->store);
	return r;
}

static uint64_t log_space_step(const struct store_shelf *sh)
{
	return max_u64(sh->log_limit / LOG_SPACE_STEPS, LOG_SPACE_STEP_LEAST);
}

bool store_log_is_too_long(const struct store_shelf *sh)
{
	return sh->log.end > sh->log_limit;
}

/* Free what the file has behind its end, if all together is more than @most. */
static void free_behind_end(const struct store_shelf *sh, uint64_t most)
{
	struct stat st;

	if (fstat(sh->log.fd, &st) < 0 ||
	    ((uint64_t)st.st_blocks * 512 > most && ftruncate(sh->log.fd, st.st_size) < 0))
		store_tell(sh->store, -errno, sh->path, 0, "its log keeps space that it had");
}

void store_log_space_init(struct store_shelf *sh)
{
	uint64_t least = min_u64(align_up(sh->log.end, STORE_UNIT), sh->log_limit);
	uint64_t want = align_up(max_u64(5 * sh->log_live, sh->log.end), log_space_step(sh));

	if (store_log_is_too_long(sh)) { /* until it is shorter, which is soon */
		sh->log_allocated = sh->log.end + sh->pending.len;
		return;
	}
	free_behind_end(sh, sh->log_limit);
	want = min_u64(want, sh->log_limit);
	while (set_log_space(sh, want) < 0 && want > least) {
		want = max_u64(least, align_up(want / 2, STORE_UNIT));
		/* What one file has got of too much, the other one would miss. */
		free_behind_end(sh, want);
		unlinkat(sh->dir, STORE_NEW_NAME, 0);
	}
	sh->log_allocated = want;
}

/* The oldest go, until the others have half of it as always. */
int store_log_shrink(struct store_shelf *sh)
{
	struct penstock_store *s = sh->store;
	uint64_t most = sh->log_limit / 2 - STORE_LOG_HEAD;
	struct store_entry *e;
	uint32_t pos = 0;
	int r;

	if (!store_log_is_too_long(sh))
		return 0;
	if (sh->log_below > sh->log_limit / 8)
		store_tier_lose(sh, true);
	while (sh->log_live > most && (e = store_index_next(&s->index, &pos))) {
		if (e->shelf != sh->nr)
			continue;
		s->stats.evictions++;
		s->stats.evicted_bytes += e->len;
		store_entry_drop(s, e);
	}
	r = store_journal_rewrite_whole(sh);
	if (r == 0)
		store_log_space_init(sh);
	return r;
}

int store_log_space_grow(struct store_shelf *sh)
{
	int r = set_log_space(sh, min_u64(sh->log_allocated + log_space_step(sh), sh->log_limit));

	if (r < 0)
		store_tell(sh->store, r, sh->path, log_space_step(sh),
			   "the log cannot grow: older values make room");
	return r;
}

void store_log_space_allocate(struct store_shelf *sh)
{
	allocate_both(sh, sh->log_allocated);
}

/* One that is not longer keeps what it has behind its end. */
int store_log_truncate(const struct store_shelf *sh)
{
	int r = 0;
	struct stat st;

	if (fstat(sh->log.fd, &st) < 0 ||
	    ((uint64_t)st.st_size > sh->log.end && ftruncate(sh->log.fd, (off_t)sh->log.end) < 0)) {
		r = -errno;
		store_tell(sh->store, r, sh->path, 0, "the end of its log cannot be cut off");
	}
	return r;
}
