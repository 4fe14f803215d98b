/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One directory of a store.  Its head is a line of text that says what it is, and the file
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

#include "base/err.h"
#include "base/full_io.h"
#include "base/openat_safe.h"
#include "base/util.h"
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

	int r = penstock_full_pwrite(fd, line, (uint64_t)len, 0);

	if (!r && (ftruncate(fd, len) < 0 || fsync(fd) < 0))
		r = -errno;
	return r;
}

static int head_read(int fd, struct store_head *ret, const char *path, struct penstock_err *err)
{
	char line[HEAD_BYTES];
	int64_t n = penstock_full_pread(fd, line, sizeof(line), 0);
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
		dir < 0 ? -1 : penstock_openat_safe(dir, STORE_HEAD_NAME, O_RDWR, 0);
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
static int dir_open_head(struct store_dir *d, struct penstock_err *err)
{
	struct store_head h;
	int r;

	d->head_fd = penstock_openat_safe(d->dir_fd, STORE_HEAD_NAME, O_RDWR, 0);
	if (d->head_fd == -ENOENT) {
		r = check_empty(d->dir_fd, d->path, err);
		if (r < 0)
			return r;
		d->head_fd =
			penstock_openat_safe(d->dir_fd, STORE_HEAD_NAME, O_RDWR | O_CREAT, 0600);
	}
	if (d->head_fd < 0)
		return penstock_fail(err, d->head_fd, "%s/%s: %s", d->path, STORE_HEAD_NAME,
				     strerror(-d->head_fd));
	r = head_lock(d->head_fd, d->path, err);
	d->locked = r == 0;
	if (r == 0)
		r = head_read(d->head_fd, &h, d->path, err);
	if (r == 0)
		d->secret = h.secret;
	d->fresh = r == -ENODATA; /* or the process that made it was killed just then */
	return d->fresh ? check_empty(d->dir_fd, d->path, err) : r;
}

static int write_new_head(struct store_dir *d, struct penstock_err *err)
{
	int r = head_write(d->head_fd, &d->store->secret);

	return r < 0 ? penstock_fail(err, r, "%s/%s: %s", d->path, STORE_HEAD_NAME, strerror(-r))
		     : 0;
}

int store_dir_adopt_fd(struct penstock_file **out, int *ret_fd, struct store_dir *d, int fd,
		       const char *name, struct penstock_err *err)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0), r;

	if (kept < 0) {
		r = penstock_fail(err, -errno, "%s: %s", name, strerror(errno));
		close(fd);
		return r;
	}
	r = penstock_file_take_fd(out, d->store->io, fd, name, err);
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

static int dir_open_file(struct penstock_file **out, int *ret_fd, struct store_dir *d,
			 const char *name, int flags, struct penstock_err *err)
{
	int fd = penstock_openat_safe(d->dir_fd, name, O_RDWR | flags, 0600);
	char full[512];

	penstock_print_elided(full, sizeof(full), "%s/%s", d->path, name);
	if (fd < 0)
		return fd == -ENOENT ? fd : penstock_fail(err, fd, "%s: %s", full, strerror(-fd));
	return store_dir_adopt_fd(out, ret_fd, d, fd, full, err);
}

/* What is behind the limit, after the capacity was made smaller, goes. */
static int dir_open_data(struct store_dir *d, struct penstock_err *err)
{
	struct stat st;
	uint64_t units;
	int r = dir_open_file(&d->data, &d->data_fd, d, STORE_DATA_NAME, O_CREAT, err);

	if (r < 0)
		return r;
	if (fstat(d->data_fd, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", d->path, strerror(errno));
	units = (uint64_t)st.st_size / STORE_UNIT;
	if (units > d->limit_units &&
	    ftruncate(d->data_fd, (off_t)(d->limit_units * STORE_UNIT)) < 0)
		return penstock_fail(err, -errno, "%s: %s", d->path, strerror(errno));
	d->map = extent_map_new(d->limit_units, min_u64(units, d->limit_units), 256, false);
	return d->map ? 0 : penstock_fail(err, -ENOMEM, "out of memory");
}

static int dir_open_log(struct store_dir *d, struct penstock_err *err)
{
	int r;

	unlinkat(d->dir_fd, STORE_NEW_NAME, 0);
	r = dir_open_file(&d->log.file, &d->log.fd, d, STORE_LOG_NAME, 0, err);
	if (r == 0)
		r = store_journal_read_head(d, err);
	if (r == -EBADMSG) {
		store_report_error(d->store, r, d->path, 0,
				   "its log has no head: all it had is lost");
		d->store->stats.lost++;
		store_log_close(&d->log);
		unlinkat(d->dir_fd, STORE_LOG_NAME, 0);
		r = -ENOENT;
	}
	if (r != -ENOENT)
		return r;
	if (getrandom(&d->log.head.seed, sizeof(d->log.head.seed), 0) < 0)
		d->log.head.seed = (uint32_t)clock_ns();
	return store_journal_create(&d->log, d, STORE_LOG_NAME, err);
}

static void dir_set_sizes(struct store_dir *d, uint64_t share)
{
	uint64_t least = 4 * STORE_RECORD_MAX;

	d->log_limit = d->store->opts.log_bytes ? d->store->opts.log_bytes : share / 64;
	d->log_limit = max_u64(min_u64(d->log_limit, share / 4), min_u64(least, share / 4));
	d->limit_units = (share - 2 * d->log_limit - min_u64(SLACK, share / 16)) / STORE_UNIT;
	d->limit_units = min_u64(d->limit_units, UINT32_MAX);
	d->step_units = min_u64(max_u64(d->limit_units / STEPS, 256), 1 << 16);
}

int store_dir_open(struct store_dir *d, struct penstock_store *s, const char *path, uint64_t share,
		   struct penstock_err *err)
{
	d->store = s;
	d->dir_fd = d->head_fd = d->data_fd = -1;
	store_op_queue_init(&d->waiting);
	dir_set_sizes(d, share);
	d->path = strdup(path);
	if (!d->path)
		return penstock_fail(err, -ENOMEM, "out of memory");
	d->dir_fd = open_dir(path, true, err);
	if (d->dir_fd < 0)
		return d->dir_fd;
	return dir_open_head(d, err);
}

int store_dir_open_files(struct store_dir *d, struct penstock_err *err)
{
	int r = d->fresh ? write_new_head(d, err) : 0;

	if (r == 0)
		r = dir_open_data(d, err);
	if (r == 0)
		r = dir_open_log(d, err);
	return r;
}

int store_dir_open_readonly(struct store_dir *d, struct penstock_store *s, const char *path,
			    struct penstock_err *err)
{
	struct store_head h;
	struct stat st;
	int r;

	*d = (struct store_dir){.store = s, .dir_fd = -1, .head_fd = -1, .data_fd = -1};
	d->path = strdup(path);
	if (!d->path)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = store_head_open(&d->dir_fd, &d->head_fd, &h, path, err);
	if (r < 0)
		return r;
	s->secret = h.secret;
	r = dir_open_file(&d->data, &d->data_fd, d, STORE_DATA_NAME, 0, err);
	if (r == 0)
		r = dir_open_file(&d->log.file, &d->log.fd, d, STORE_LOG_NAME, 0, err);
	if (r == -ENOENT)
		return penstock_fail(err, r, "%s: the store has no data or no log", path);
	if (r == 0 && fstat(d->data_fd, &st) < 0)
		r = penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (r < 0)
		return r;
	d->limit_units = (uint64_t)st.st_size / STORE_UNIT;
	d->map = extent_map_new(d->limit_units, d->limit_units, 256, false);
	if (!d->map)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return store_journal_read_head(d, err);
}

void store_dir_close(struct store_dir *d)
{
	if (d->store && d->store->io) {
		penstock_file_close(d->data, NULL);
		store_log_close(&d->log);
		store_log_close(&d->rewrite.to);
	}
	if (d->data_fd >= 0)
		close(d->data_fd);
	/* Children of a fork have the same open file, and with it a lock that nobody lets go. */
	if (d->head_fd >= 0) {
		flock(d->head_fd, LOCK_UN);
		close(d->head_fd);
	}
	if (d->dir_fd >= 0)
		close(d->dir_fd);
	extent_map_free(d->map);
	free(d->pending.at);
	free(d->group.at);
	free(d->path);
	*d = (struct store_dir){.dir_fd = -1, .head_fd = -1, .data_fd = -1};
}

/* ------------------------------------------------------------------- later */

uint64_t store_dir_disk_bytes(const struct store_dir *d)
{
	static const char *const names[] = {STORE_HEAD_NAME, STORE_DATA_NAME, STORE_LOG_NAME,
					    STORE_NEW_NAME};
	uint64_t sum = 0;
	struct stat st;

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (fstatat(d->dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	return sum;
}

bool store_dir_can_grow(const struct store_dir *d)
{
	return extent_map_ready(d->map) < d->limit_units && clock_ns() >= d->retry_ns;
}

/* Only @map needs the lock. */
static int grow_data(struct store_dir *d)
{
	uint64_t ready = extent_map_ready(d->map);
	uint64_t to = min_u64(ready + d->step_units, d->limit_units);
	int r = 0;

	if (fallocate(d->data_fd, 0, (off_t)(ready * STORE_UNIT),
		      (off_t)((to - ready) * STORE_UNIT)) < 0)
		r = -errno;
	/* Where there is no preallocation, space is found as it is written. */
	if (r == -EOPNOTSUPP)
		r = ftruncate(d->data_fd, (off_t)(to * STORE_UNIT)) < 0 ? -errno : 0;
	pthread_mutex_lock(&d->store->lock);
	if (r == 0)
		extent_map_grow(d->map, to);
	else
		d->retry_ns = clock_ns() + STORE_RETRY_NS;
	store_unlock(d->store);
	if (r < 0)
		store_report_error(d->store, r, d->path, (to - ready) * STORE_UNIT,
				   "the data file cannot grow: older values make room");
	return r;
}

/* The log first: those who wait for the data ask once more. */
int store_dir_grow(struct store_dir *d)
{
	bool log;

	pthread_mutex_lock(&d->store->lock);
	log = store_log_space_is_short(d);
	store_unlock(d->store);
	if (log)
		return store_log_space_grow(d);
	return extent_map_ready(d->map) < d->limit_units ? grow_data(d) : 0;
}

/* What was on it is gone, and the others are told that it has missed something. */
void store_dir_exclude(struct store_dir *d)
{
	struct penstock_store *s = d->store;
	struct store_entry *e;
	uint32_t pos = 0;

	d->excluded = true;
	s->dir_excluded = true;
	s->stats.dirs_out++;
	while ((e = store_index_next(&s->index, &pos)))
		if (e->dir == d->nr && e->state == STORE_LIVE)
			store_entry_drop(s, e);
	/* While its log was being read not all was known. */
	store_tier_drop_records(d, s->has_log_writer);
}

/* If it can still be told, then here and now: the others may be away when it comes back. */
void store_dir_remove_log(struct store_dir *d)
{
	if (d->locked && unlinkat(d->dir_fd, STORE_LOG_NAME, 0) == 0)
		fsync(d->dir_fd);
}

bool store_is_process_error(int code)
{
	return code == -ENOMEM || code == -EMFILE || code == -ENFILE;
}

int store_quota_to_nospc(int code)
{
	return code == -EDQUOT ? -ENOSPC : code;
}

void store_dir_count_result(struct store_dir *d, int code, const char *what)
{
	struct penstock_store *s = d->store;
	bool out = false;

	pthread_mutex_lock(&s->lock);
	if (code == 0 || code == -ENOSPC || store_is_process_error(code)) {
		d->failures = code ? d->failures : 0;
	} else if (++d->failures >= STORE_EXCLUDE_AFTER && !d->excluded) {
		store_dir_exclude(d);
		out = true;
	}
	store_unlock(s);
	if (code)
		store_report_error(s, code, d->path, 0, what);
	if (out) {
		store_report_error(s, code, d->path, 0,
				   "has failed too often and is left out from here on");
		store_wake_log_writer(s);
	}
}
