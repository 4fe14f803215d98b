/* SPDX-License-Identifier: Apache-2.0 */
/* Folders by descriptor: made, locked, noted in, removed; and those that killed runs left. */
#include "load/bed/bed_folder.h"

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
#include <sys/sysmacros.h>

#include <penstock/ckpt.h>
#include <penstock/s3.h>
#include <penstock/stripe.h>

#include "base/err.h"
#include "base/openat_safe.h"
#include "base/util.h"
#include "load/bed/bed_prefix.h"
#include "load/measure/rank_barrier.h"

#define JOURNAL      ".penstock-bed"
#define JOURNAL_HEAD "penstock bed 2\n"
#define BED_NEW      ".penstock-new" /* of a file that the journal does not have yet */
#define PREFIX       "penstock-"
#define RANDOM_LEN   6
#define DIR_FLAGS    (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* ------------------------------------------------- what a killed run has left */

/* Nobody but this user can have put something there. */
static bool is_private(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH)) && (type == S_IFDIR || st.st_nlink == 1);
}

int bed_id_read(struct bed_id *id, int dir, const char *name)
{
	struct statx st;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH),
		  STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
		return -errno;
	*id = (struct bed_id){.device = makedev(st.stx_dev_major, st.stx_dev_minor),
			      .inode = st.stx_ino};
	if (st.stx_mask & STATX_BTIME)
		id->birth_ns = (uint64_t)st.stx_btime.tv_sec * 1000000000u + st.stx_btime.tv_nsec;
	return 0;
}

bool bed_id_matches(const struct bed_id *id, int dir, const char *name)
{
	struct bed_id now;

	return bed_id_read(&now, dir, name) == 0 && !memcmp(&now, id, sizeof(now));
}

static bool bed_is_plain(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* A line of the journal: "INODE BIRTH NAME"; inode 0: whatever file has the name. */
static void reap_file(int dir, char *line)
{
	struct bed_id in, was = {.inode = strtoull(line, &line, 10)};
	char *name;

	was.birth_ns = strtoull(line, &name, 10);
	name += *name == ' ';
	name[strcspn(name, "\n")] = 0;
	if (!*name || strchr(name, '/') || bed_id_read(&in, dir, "") < 0)
		return;
	was.device = in.device;
	if (was.inode ? bed_id_matches(&was, dir, name) : bed_is_plain(dir, name))
		penstock_stripe_unlink(dir, name);
	if (!was.inode)
		penstock_writer_remove_stale(dir, name);
}

/* Made a moment before the end, so that the journal does not have it: nothing is in it. */
static void reap_new(int dir)
{
	struct stat st;

	if (fstatat(dir, BED_NEW, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    !st.st_size)
		unlinkat(dir, BED_NEW, 0);
}

static void reap_files(int dir)
{
	int fd = openat(dir, JOURNAL, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	FILE *journal = fd >= 0 && is_private(fd, S_IFREG) ? fdopen(fd, "r") : NULL;
	CLEANUP_FREE char *line = NULL;
	size_t capacity = 0;

	if (!journal) {
		if (fd >= 0)
			close(fd);
		return;
	}
	/* Whoever holds the journal works in the folder. */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && getline(&line, &capacity, journal) > 0 &&
	    !strcmp(line, JOURNAL_HEAD)) {
		while (getline(&line, &capacity, journal) > 0)
			reap_file(dir, line);
		reap_new(dir);
		unlinkat(dir, JOURNAL, 0);
	}
	fclose(journal);
}

/* penstock-JOB-XXXXXX, which nobody holds. */
static void reap_folder(int parent, const char *name)
{
	size_t len = strlen(name), least = strlen(PREFIX) + RANDOM_LEN + 2;
	struct bed_id id;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || len < least ||
	    name[len - RANDOM_LEN - 1] != '-')
		return;
	CLEANUP_CLOSE int fd = openat(parent, name, DIR_FLAGS | O_NOFOLLOW);

	if (fd < 0 || !is_private(fd, S_IFDIR) || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	reap_files(fd);
	if (bed_id_read(&id, fd, "") == 0 && bed_id_matches(&id, parent, name))
		unlinkat(parent, name, AT_REMOVEDIR); /* empty ones only */
}

static void reap_all(int parent)
{
	DIR *d = fdopendir(openat(parent, ".", DIR_FLAGS));
	struct dirent *e;

	while (d && (e = readdir(d)))
		reap_folder(parent, e->d_name);
	if (d)
		closedir(d);
}

/* --------------------------------------------------------------- open, make */

/* May somebody else rename what is in this folder? */
static bool is_open_to_others(const struct stat *st)
{
	return (st->st_uid != 0 && st->st_uid != geteuid()) ||
	       ((st->st_mode & (S_IWGRP | S_IWOTH)) && !(st->st_mode & S_ISVTX));
}

/* Could another folder come to its path?  Looks at all those above it. */
static bool is_exposed(int fd)
{
	struct stat st, below = {.st_ino = 0};
	bool found = false;
	int up;

	fd = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (!found && fd >= 0 && fstat(fd, &st) == 0 &&
	       (st.st_ino != below.st_ino || st.st_dev != below.st_dev)) {
		found = is_open_to_others(&st);
		below = st;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = up;
	}
	penstock_cleanup_close(&fd);
	return found;
}

/* With a number of a process, for those that we start. */
static int choose_open_path(struct bed_folder *f)
{
	if (is_exposed(f->fd) && access("/proc/self/fd", X_OK) == 0) {
		if (asprintf(&f->open_path, "/proc/%d/fd/%d", getpid(), f->fd) < 0)
			f->open_path = NULL;
	} else {
		f->open_path = strdup(f->path);
	}
	return f->open_path ? 0 : -ENOMEM;
}

/* A name in a store, without slashes at its end. */
static int open_prefix(struct bed_folder *f, struct penstock_s3 *s3, struct penstock_err *err)
{
	size_t n = strlen(f->path);

	while (n && f->path[n - 1] == '/')
		f->path[--n] = 0;
	f->s3 = s3;
	f->open_path = strdup(f->path);
	if (f->open_path && s3)
		return 0;
	penstock_fail(err, f->open_path ? -ENOTSUP : -ENOMEM, "%s: %s", f->path,
		      f->open_path ? "this is not for objects" : "out of memory");
	bed_folder_close(f, true);
	return err->code;
}

/* A new one of ours, in the first @len letters of @parent. */
static int mark_prefix(struct bed_folder *f, int len, const char *parent, struct penstock_err *err)
{
	char *in;
	int r;

	if (asprintf(&in, "%.*s", len, parent) < 0)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	else
		r = bed_prefix_make(f->s3, in, f->path, err), free(in);
	f->marked = r == 0;
	if (r < 0)
		bed_folder_close(f, true);
	return r;
}

int bed_folder_open(struct bed_folder *f, const char *path, struct penstock_s3 *s3,
		    struct penstock_err *err)
{
	*f = (struct bed_folder){.path = strdup(path), .fd = -1, .parent = -1, .journal_fd = -1};
	if (!f->path)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (penstock_s3_is_uri(path, NULL) > 0)
		return open_prefix(f, s3, err);
	f->fd = open(path, DIR_FLAGS);
	if (f->fd >= 0 && choose_open_path(f) == 0)
		return 0;
	penstock_fail(err, -errno, "%s: %s", path, penstock_strerror(errno));
	bed_folder_close(f, true);
	return err->code;
}

static void bed_name_of(char *out, uint64_t number)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	for (unsigned i = 0; i < RANDOM_LEN; i++, number /= sizeof(letters) - 1)
		out[i] = letters[number % (sizeof(letters) - 1)];
	out[RANDOM_LEN] = 0;
}

static uint64_t random_number(void)
{
	uint64_t r;

	return getrandom(&r, sizeof(r), 0) == (ssize_t)sizeof(r) ? r : clock_ns();
}

/* Folder, lock, journal; -EAGAIN: somebody reaped it before it was locked, or has the name. */
static int try_make(struct bed_folder *f, const char *name)
{
	if (mkdirat(f->parent, name, 0700) < 0)
		return errno == EEXIST ? -EAGAIN : -errno;
	f->fd = openat(f->parent, name, DIR_FLAGS | O_NOFOLLOW);
	if (f->fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	/* Where a file system has no locks nobody reaps. */
	if (flock(f->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return -EAGAIN;
	f->journal_fd =
		openat(f->fd, JOURNAL, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->journal_fd < 0 || write(f->journal_fd, JOURNAL_HEAD, strlen(JOURNAL_HEAD)) <= 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	/* From here on the journal is held: the folder is for those to lock who work in it. */
	flock(f->journal_fd, LOCK_EX | LOCK_NB);
	flock(f->fd, LOCK_UN);
	return 0;
}

static void undo_make(struct bed_folder *f, const char *name)
{
	unlinkat(f->fd, JOURNAL, 0);
	penstock_cleanup_close(&f->fd);
	penstock_cleanup_close(&f->journal_fd);
	f->fd = f->journal_fd = -1;
	unlinkat(f->parent, name, AT_REMOVEDIR);
}

/* @number: of its name; 0: a new one. */
static int make_numbered(struct bed_folder *f, const char *parent, const char *job, uint64_t number,
			 struct penstock_s3 *s3, struct penstock_err *err)
{
	bool uri = penstock_s3_is_uri(parent, NULL) > 0;
	size_t len = strlen(parent);
	char *name;
	int r = -EAGAIN;

	while (uri && len && parent[len - 1] == '/')
		len--;
	*f = (struct bed_folder){.fd = -1, .parent = -1, .journal_fd = -1};
	if (asprintf(&f->path, "%.*s/" PREFIX "%s-XXXXXX", (int)len, parent, job) < 0) {
		f->path = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	name = f->path + len + 1;
	if (uri) {
		bed_name_of(name + strlen(name) - RANDOM_LEN, random_number());
		r = open_prefix(f, s3, err);
		return r < 0 ? r : mark_prefix(f, (int)len, parent, err);
	}
	f->parent = open(parent, DIR_FLAGS);
	if (f->parent < 0)
		r = -errno;
	else
		reap_all(f->parent);
	for (unsigned tries = 0; tries < 100 && r == -EAGAIN; tries++) {
		bed_name_of(name + strlen(name) - RANDOM_LEN, number ? number : random_number());
		r = try_make(f, name);
		if (r == 0)
			r = choose_open_path(f);
		if (r < 0 && f->fd >= 0)
			undo_make(f, name);
	}
	if (r == 0)
		return 0;
	bed_folder_close(f, true);
	return penstock_fail(err, r, "%s: cannot make a folder in it: %s", parent,
			     penstock_strerror(r));
}

int bed_folder_make(struct bed_folder *f, const char *parent, const char *job,
		    struct penstock_s3 *s3, struct penstock_err *err)
{
	return make_numbered(f, parent, job, 0, s3, err);
}

int bed_folder_share(struct bed_folder *f, const char *parent, const char *job,
		     const struct bed_share *share, struct penstock_err *err)
{
	char name[RANDOM_LEN + 1];
	CLEANUP_FREE char *path = NULL;
	int r;

	bed_name_of(name, share->number);
	if (asprintf(&path, "%s/" PREFIX "%s-%s", parent, job, name) < 0) {
		path = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	r = share->rank ? 0 : make_numbered(f, parent, job, share->number, NULL, err);
	if (r == 0)
		rank_barrier_wait();
	if (r == 0 && share->rank)
		r = bed_folder_open(f, path, NULL, err);
	if (r == -ENOENT && share->rank)
		penstock_fail(err, r,
			      "%s: is not there, which rank 0 has made: the folder has to be one "
			      "that all ranks share",
			      path);
	return r;
}

static int name_new(const struct bed_folder *f, const char *name, const struct bed_id *id)
{
	if (dprintf(f->journal_fd, "%" PRIu64 " %" PRIu64 " %s\n", id->inode, id->birth_ns, name) <
	    0)
		return -errno;
	return penstock_renameat_new(f->fd, BED_NEW, name);
}

/* As @first; it becomes @name where that is another one. */
static int bed_add_file(const struct bed_folder *f, const char *first, const char *name,
			struct bed_id *ret)
{
	int fd = openat(f->fd, first, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : bed_id_read(ret, fd, "");

	if (r == 0 && first != name)
		r = name_new(f, name, ret);
	if (r == 0)
		return fd;
	if (fd >= 0) {
		unlinkat(f->fd, first, 0);
		close(fd);
	}
	return r;
}

/* Where nothing can be renamed the journal does not have it, and a killed run leaves it. */
int bed_folder_add(const struct bed_folder *f, const char *name, struct bed_id *ret)
{
	int fd = f->journal_fd >= 0 ? bed_add_file(f, BED_NEW, name, ret) : -ENOSYS;

	return fd == -ENOSYS ? bed_add_file(f, name, name, ret) : fd;
}

int bed_folder_expect(const struct bed_folder *f, const char *name, struct penstock_err *err)
{
	if (f->journal_fd >= 0 && dprintf(f->journal_fd, "0 0 %s\n", name) < 0)
		return penstock_fail(err, -errno, "%s/" JOURNAL ": %s", f->path,
				     penstock_strerror(errno));
	return 0;
}

/* Of one that was made: 0, or why it stays. */
static int remove_made(const struct bed_folder *f, bool keep)
{
	const char *name = strrchr(f->path, '/') + 1;
	struct bed_id id;

	unlinkat(f->fd, JOURNAL, 0); /* what is kept is nobody's to reap */
	if (keep)
		return -ENOTEMPTY;
	if (bed_id_read(&id, f->fd, "") < 0 || !bed_id_matches(&id, f->parent, name))
		return -ESTALE;
	return unlinkat(f->parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int bed_folder_close(struct bed_folder *f, bool keep)
{
	int r = f->path && f->journal_fd >= 0 ? remove_made(f, keep) : 0;

	if (f->marked)
		bed_prefix_close(f->s3, f->path);
	if (f->path) {
		penstock_cleanup_close(&f->journal_fd);
		penstock_cleanup_close(&f->fd);
		penstock_cleanup_close(&f->parent);
	}
	free(f->path);
	free(f->open_path);
	*f = (struct bed_folder){.path = NULL};
	return r;
}
