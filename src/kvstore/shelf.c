/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shelf: one directory of a store.  Its head is a line of text that says what it is, and the file
 * that is locked; beside it are the data file, which grows by steps that are preallocated, and the
 * log.  A directory that holds anything else is not ours, and nothing in it is touched.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/err.h"
#include "base/util.h"
#include "base/whole.h"
#include "kvstore/kvstore.h"

enum {
	HEAD_VERSION = 1,
	HEAD_BYTES = 128,
	SLACK = 64 << 10, /* for what a file system adds to files */
	STEPS = 64,       /* in which a data file grows, unless they are too large or too small */
};

/* -------------------------------------------------------------------- head */

int store_head_parse(struct store_head *ret, const char *text, size_t len)
{
	static const char title[] = "penstock-store ";
	char line[HEAD_BYTES] = "";
	int end = -1;

	if (len >= sizeof(line) || len < sizeof(title) || memchr(text, '\0', len) ||
	    memcmp(text, title, sizeof(title) - 1))
		return -EEXIST;
	memcpy(line, text, len);
	if (sscanf(line + sizeof(title) - 1, "%9u", &ret->version) != 1)
		return -EEXIST;
	if (ret->version != HEAD_VERSION)
		return -EPROTO;
	if (sscanf(line, "penstock-store %*9u %16" SCNx64 " %16" SCNx64 "\n%n", &ret->secret.a,
		   &ret->secret.b, &end) != 2 ||
	    end != (int)len)
		return -EEXIST;
	return 0;
}

static int head_write(int fd, const struct store_secret *secret)
{
	char line[HEAD_BYTES];
	int len = snprintf(line, sizeof(line), "penstock-store %d %016" PRIx64 " %016" PRIx64 "\n",
			   HEAD_VERSION, secret->a, secret->b);

	int r = penstock_whole_write(fd, line, (uint64_t)len, 0);

	if (!r && (ftruncate(fd, len) < 0 || fsync(fd) < 0))
		r = -errno;
	return r;
}

static int head_read(int fd, struct store_head *ret, const char *path, struct penstock_err *err)
{
	char line[HEAD_BYTES];
	int64_t n = penstock_whole_read(fd, line, sizeof(line), 0);
	int r = n < 0 ? (int)n : n == 0 ? -ENODATA : store_head_parse(ret, line, (size_t)n);

	if (r == -EPROTO)
		return penstock_fail(err, r,
				     "%s: is a store of version %u, and this program knows %d",
				     path, ret->version, HEAD_VERSION);
	if (r == -EEXIST)
		return penstock_fail(err, r, "%s: %s is not the head of a store", path,
				     STORE_HEAD_NAME);
	return r < 0 && r != -ENODATA ? penstock_fail(err, r, "%s: %s", path, strerror(-r)) : r;
}

static int head_lock(int fd, const char *path, struct penstock_err *err)
{
	struct stat st;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? penstock_fail(err, -EBUSY, "%s: another store has it open", path)
			       : penstock_fail(err, -errno, "%s: flock: %s", path, strerror(errno));
	/* Who had the lock before us may have removed the store, and another one make a new one. */
	if (fstat(fd, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	return st.st_nlink ? 0 : penstock_fail(err, -EBUSY, "%s: is being removed", path);
}

/* May a store be made here?  Only where nothing is. */
static int check_empty(int dir, const char *path, struct penstock_err *err)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return penstock_fail(err, r, "%s: %s", path, strerror(-r));
	}
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    strcmp(e->d_name, "lost+found") && strcmp(e->d_name, STORE_HEAD_NAME))
			r = penstock_fail(err, -EEXIST,
					  "%s: holds %s, and a new store needs an empty directory",
					  path, e->d_name);
	closedir(d);
	return r;
}

static int open_dir(const char *path, bool make, struct penstock_err *err)
{
	int fd;

	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? penstock_fail(err, -errno, "%s: %s", path, strerror(errno)) : fd;
}

int store_head_open(int *ret_dir, int *ret_head, struct store_head *ret, const char *path,
		    struct penstock_err *err)
{
	CLEANUP_CLOSE int dir = open_dir(path, false, err);
	CLEANUP_CLOSE int head =
		dir < 0 ? -1 : penstock_beneath_open(dir, STORE_HEAD_NAME, O_RDWR, 0);
	int r;

	if (dir < 0)
		return dir;
	if (head < 0)
		return head == -ENOENT ? penstock_fail(err, head, "%s: there is no store", path)
				       : penstock_fail(err, head, "%s/%s: %s", path,
						       STORE_HEAD_NAME, strerror(-head));
	r = head_lock(head, path, err);
	if (r == 0)
		r = head_read(head, ret, path, err);
	if (r == -ENODATA)
		r = penstock_fail(err, -EEXIST, "%s: %s is empty", path, STORE_HEAD_NAME);
	if (r < 0)
		return r;
	*ret_dir = dir;
	*ret_head = head;
	dir = head = -1;
	return 0;
}

/* ----------------------------------------------------------------- opening */

/* The head that is there, or room for a new one. */
static int shelf_head(struct store_shelf *sh, struct penstock_err *err)
{
	struct store_head h;
	int r;

	sh->head = penstock_beneath_open(sh->dir, STORE_HEAD_NAME, O_RDWR, 0);
	if (sh->head == -ENOENT) {
		r = check_empty(sh->dir, sh->path, err);
		if (r < 0)
			return r;
		sh->head = penstock_beneath_open(sh->dir, STORE_HEAD_NAME, O_RDWR | O_CREAT, 0600);
	}
	if (sh->head < 0)
		return penstock_fail(err, sh->head, "%s/%s: %s", sh->path, STORE_HEAD_NAME,
				     strerror(-sh->head));
	r = head_lock(sh->head, sh->path, err);
	sh->locked = r == 0;
	if (r == 0)
		r = head_read(sh->head, &h, sh->path, err);
	if (r == 0)
		sh->secret = h.secret;
	sh->fresh = r == -ENODATA; /* or its maker was killed just then */
	return sh->fresh ? check_empty(sh->dir, sh->path, err) : r;
}

static int shelf_begin(struct store_shelf *sh, struct penstock_err *err)
{
	int r = head_write(sh->head, &sh->store->secret);

	return r < 0 ? penstock_fail(err, r, "%s/%s: %s", sh->path, STORE_HEAD_NAME, strerror(-r))
		     : 0;
}

int store_shelf_take_fd(struct penstock_file **out, int *ret_fd, struct store_shelf *sh, int fd,
			const char *name, struct penstock_err *err)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0), r;

	if (kept < 0) {
		r = penstock_fail(err, -errno, "%s: %s", name, strerror(errno));
		close(fd);
		return r;
	}
	r = penstock_file_take_fd(out, sh->store->io, fd, name, err);
	if (r < 0)
		close(kept);
	else
		*ret_fd = kept;
	return r;
}

void store_log_close(struct store_log *log)
{
	if (log->file)
		close(log->fd);
	penstock_file_close(log->file, NULL);
	log->file = NULL;
}

static int shelf_open_file(struct penstock_file **out, int *ret_fd, struct store_shelf *sh,
			   const char *name, int flags, struct penstock_err *err)
{
	int fd = penstock_beneath_open(sh->dir, name, O_RDWR | flags, 0600);
	char full[512];

	penstock_line(full, sizeof(full), "%s/%s", sh->path, name);
	if (fd < 0)
		return fd == -ENOENT ? fd : penstock_fail(err, fd, "%s: %s", full, strerror(-fd));
	return store_shelf_take_fd(out, ret_fd, sh, fd, full, err);
}

/* What is behind the limit, after the capacity was made smaller, goes. */
static int shelf_data(struct store_shelf *sh, struct penstock_err *err)
{
	struct stat st;
	uint64_t units;
	int r = shelf_open_file(&sh->data, &sh->data_fd, sh, STORE_DATA_NAME, O_CREAT, err);

	if (r < 0)
		return r;
	if (fstat(sh->data_fd, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", sh->path, strerror(errno));
	units = (uint64_t)st.st_size / STORE_UNIT;
	if (units > sh->limit_units &&
	    ftruncate(sh->data_fd, (off_t)(sh->limit_units * STORE_UNIT)) < 0)
		return penstock_fail(err, -errno, "%s: %s", sh->path, strerror(errno));
	sh->map = extent_map_new(sh->limit_units, min_u64(units, sh->limit_units), 256, false);
	return sh->map ? 0 : penstock_fail(err, -ENOMEM, "out of memory");
}

static int shelf_log(struct store_shelf *sh, struct penstock_err *err)
{
	int r;

	unlinkat(sh->dir, STORE_NEW_NAME, 0);
	r = shelf_open_file(&sh->log.file, &sh->log.fd, sh, STORE_LOG_NAME, 0, err);
	if (r == 0)
		r = store_journal_head(sh, err);
	if (r == -EBADMSG) {
		store_tell(sh->store, r, sh->path, 0, "its log has no head: all it had is lost");
		sh->store->stats.lost++;
		store_log_close(&sh->log);
		unlinkat(sh->dir, STORE_LOG_NAME, 0);
		r = -ENOENT;
	}
	if (r != -ENOENT)
		return r;
	if (getrandom(&sh->log.head.seed, sizeof(sh->log.head.seed), 0) < 0)
		sh->log.head.seed = (uint32_t)clock_ns();
	return store_journal_create(&sh->log, sh, STORE_LOG_NAME, err);
}

static void shelf_sizes(struct store_shelf *sh, uint64_t share)
{
	uint64_t least = 4 * STORE_RECORD_MAX;

	sh->log_limit = sh->store->opts.log_bytes ? sh->store->opts.log_bytes : share / 64;
	sh->log_limit = max_u64(min_u64(sh->log_limit, share / 4), min_u64(least, share / 4));
	sh->limit_units = (share - 2 * sh->log_limit - min_u64(SLACK, share / 16)) / STORE_UNIT;
	sh->limit_units = min_u64(sh->limit_units, UINT32_MAX);
	sh->step_units = min_u64(max_u64(sh->limit_units / STEPS, 256), 1 << 16);
}

int store_shelf_open(struct store_shelf *sh, struct penstock_store *s, const char *path,
		     uint64_t share, struct penstock_err *err)
{
	sh->store = s;
	sh->dir = sh->head = sh->data_fd = -1;
	store_op_queue_init(&sh->waiting);
	shelf_sizes(sh, share);
	sh->path = strdup(path);
	if (!sh->path)
		return penstock_fail(err, -ENOMEM, "out of memory");
	sh->dir = open_dir(path, true, err);
	if (sh->dir < 0)
		return sh->dir;
	return shelf_head(sh, err);
}

int store_shelf_fill(struct store_shelf *sh, struct penstock_err *err)
{
	int r = sh->fresh ? shelf_begin(sh, err) : 0;

	if (r == 0)
		r = shelf_data(sh, err);
	if (r == 0)
		r = shelf_log(sh, err);
	return r;
}

int store_shelf_look(struct store_shelf *sh, struct penstock_store *s, const char *path,
		     struct penstock_err *err)
{
	struct store_head h;
	struct stat st;
	int r;

	*sh = (struct store_shelf){.store = s, .dir = -1, .head = -1, .data_fd = -1};
	sh->path = strdup(path);
	if (!sh->path)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = store_head_open(&sh->dir, &sh->head, &h, path, err);
	if (r < 0)
		return r;
	s->secret = h.secret;
	r = shelf_open_file(&sh->data, &sh->data_fd, sh, STORE_DATA_NAME, 0, err);
	if (r == 0)
		r = shelf_open_file(&sh->log.file, &sh->log.fd, sh, STORE_LOG_NAME, 0, err);
	if (r == -ENOENT)
		return penstock_fail(err, r, "%s: the store has no data or no log", path);
	if (r == 0 && fstat(sh->data_fd, &st) < 0)
		r = penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (r < 0)
		return r;
	sh->limit_units = (uint64_t)st.st_size / STORE_UNIT;
	sh->map = extent_map_new(sh->limit_units, sh->limit_units, 256, false);
	if (!sh->map)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return store_journal_head(sh, err);
}

void store_shelf_close(struct store_shelf *sh)
{
	if (sh->store && sh->store->io) {
		penstock_file_close(sh->data, NULL);
		store_log_close(&sh->log);
		store_log_close(&sh->rewrite.to);
	}
	if (sh->data_fd >= 0)
		close(sh->data_fd);
	/* Children of a fork have the same open file, and with it a lock that nobody lets go. */
	if (sh->head >= 0) {
		flock(sh->head, LOCK_UN);
		close(sh->head);
	}
	if (sh->dir >= 0)
		close(sh->dir);
	extent_map_free(sh->map);
	free(sh->pending.at);
	free(sh->group.at);
	free(sh->path);
	*sh = (struct store_shelf){.dir = -1, .head = -1, .data_fd = -1};
}

/* ------------------------------------------------------------------- later */

uint64_t store_shelf_disk_bytes(const struct store_shelf *sh)
{
	static const char *const names[] = {STORE_HEAD_NAME, STORE_DATA_NAME, STORE_LOG_NAME,
					    STORE_NEW_NAME};
	uint64_t sum = 0;
	struct stat st;

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (fstatat(sh->dir, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	return sum;
}

bool store_shelf_can_grow(const struct store_shelf *sh)
{
	return extent_map_ready(sh->map) < sh->limit_units && clock_ns() >= sh->retry_ns;
}

/* Only @map needs the lock. */
static int grow_data(struct store_shelf *sh)
{
	uint64_t ready = extent_map_ready(sh->map);
	uint64_t to = min_u64(ready + sh->step_units, sh->limit_units);
	int r = 0;

	if (fallocate(sh->data_fd, 0, (off_t)(ready * STORE_UNIT),
		      (off_t)((to - ready) * STORE_UNIT)) < 0)
		r = -errno;
	/* Where there is no preallocation, space is found as it is written. */
	if (r == -EOPNOTSUPP)
		r = ftruncate(sh->data_fd, (off_t)(to * STORE_UNIT)) < 0 ? -errno : 0;
	pthread_mutex_lock(&sh->store->lock);
	if (r == 0)
		extent_map_grow(sh->map, to);
	else
		sh->retry_ns = clock_ns() + STORE_RETRY_NS;
	store_unlock(sh->store);
	if (r < 0)
		store_tell(sh->store, r, sh->path, (to - ready) * STORE_UNIT,
			   "the data file cannot grow: older values make room");
	return r;
}

/* The log first: those who wait for the data ask once more. */
int store_shelf_grow(struct store_shelf *sh)
{
	bool log;

	pthread_mutex_lock(&sh->store->lock);
	log = store_log_space_is_short(sh);
	store_unlock(sh->store);
	if (log)
		return store_log_space_grow(sh);
	return extent_map_ready(sh->map) < sh->limit_units ? grow_data(sh) : 0;
}

/* What was on it is gone, and the others are told that it has missed something. */
void store_shelf_leave(struct store_shelf *sh)
{
	struct penstock_store *s = sh->store;
	struct store_entry *e;
	uint32_t pos = 0;

	sh->out = true;
	s->shelf_lost = true;
	s->stats.dirs_out++;
	while ((e = store_index_next(&s->index, &pos)))
		if (e->shelf == sh->nr && e->state == STORE_LIVE)
			store_entry_drop(s, e);
	/* While its log was being read not all was known. */
	store_tier_lose(sh, s->has_log_writer);
}

/* If it can still be told, then here and now: the others may be away when it comes back. */
void store_shelf_empty(struct store_shelf *sh)
{
	if (sh->locked && unlinkat(sh->dir, STORE_LOG_NAME, 0) == 0)
		fsync(sh->dir);
}

bool store_is_ours(int code)
{
	return code == -ENOMEM || code == -EMFILE || code == -ENFILE;
}

int store_full(int code)
{
	return code == -EDQUOT ? -ENOSPC : code;
}

void store_shelf_tell(struct store_shelf *sh, int code, const char *what)
{
	struct penstock_store *s = sh->store;
	bool out = false;

	pthread_mutex_lock(&s->lock);
	if (code == 0 || code == -ENOSPC || store_is_ours(code)) {
		sh->failures = code ? sh->failures : 0;
	} else if (++sh->failures >= STORE_OUT_AFTER && !sh->out) {
		store_shelf_leave(sh);
		out = true;
	}
	store_unlock(s);
	if (code)
		store_tell(s, code, sh->path, 0, what);
	if (out) {
		store_tell(s, code, sh->path, 0,
			   "has failed too often and is left out from here on");
		store_wake_log_writer(s);
	}
}
