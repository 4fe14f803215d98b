/* SPDX-License-Identifier: Apache-2.0 */
/* Folders by descriptor: made, locked, noted in, removed; and those that killed runs left. */
#include "load/bed/bed_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/util.h"

#define BOOK       ".sluice-bed"
#define BOOK_HEAD  "sluice bed 1\n"
#define PREFIX     "sluice-"
#define RANDOM_LEN 6
#define DIR_FLAGS  (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* ------------------------------------------------- what a killed run has left */

/* Nobody but this user can have put something there. */
static bool is_private(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH)) && (type == S_IFDIR || st.st_nlink == 1);
}

static bool is_inode(int dir, const char *name, uint64_t inode)
{
	struct stat st, in;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir, &in) == 0 &&
	       st.st_ino == inode && st.st_dev == in.st_dev;
}

/* A line of the book: "INODE NAME". */
static void reap_file(int dir, char *line)
{
	char *name;
	uint64_t inode = strtoull(line, &name, 10);

	name += *name == ' ';
	name[strcspn(name, "\n")] = 0;
	if (*name && !strchr(name, '/') && is_inode(dir, name, inode))
		unlinkat(dir, name, 0);
}

/* Made a moment before the end, so that the book does not have it: nothing is in it. */
static void reap_empty(int dir)
{
	DIR *d = fdopendir(openat(dir, ".", DIR_FLAGS));
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, BOOK) != 0 &&
		    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !st.st_size &&
		    S_ISREG(st.st_mode) && st.st_uid == geteuid())
			unlinkat(dir, e->d_name, 0);
	if (d)
		closedir(d);
}

static void reap_files(int dir)
{
	int fd = openat(dir, BOOK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	FILE *book = fd >= 0 && is_private(fd, S_IFREG) ? fdopen(fd, "r") : NULL;
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;

	if (!book) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (getline(&line, &room, book) > 0 && !strcmp(line, BOOK_HEAD)) {
		while (getline(&line, &room, book) > 0)
			reap_file(dir, line);
		reap_empty(dir);
		unlinkat(dir, BOOK, 0);
	}
	fclose(book);
}

/* sluice-JOB-XXXXXX, which nobody holds. */
static void reap_folder(int parent, const char *name)
{
	size_t len = strlen(name), least = strlen(PREFIX) + RANDOM_LEN + 2;
	struct stat st;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || len < least ||
	    name[len - RANDOM_LEN - 1] != '-')
		return;
	CLEANUP_CLOSE int fd = openat(parent, name, DIR_FLAGS | O_NOFOLLOW);

	if (fd < 0 || !is_private(fd, S_IFDIR) || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	reap_files(fd);
	if (fstat(fd, &st) == 0 && is_inode(parent, name, st.st_ino))
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

int bed_folder_open(struct bed_folder *f, const char *path, struct sluice_err *err)
{
	*f = (struct bed_folder){.path = strdup(path), .fd = -1, .parent = -1, .book = -1};
	if (!f->path)
		return sluice_fail(err, -ENOMEM, "out of memory");
	f->fd = open(path, DIR_FLAGS);
	if (f->fd >= 0)
		return 0;
	sluice_fail(err, -errno, "folder: %s: %s", path, sluice_strerror(errno));
	bed_folder_close(f, true);
	return err->code;
}

static void random_name(char *out)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	unsigned char r[RANDOM_LEN];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		for (unsigned i = 0; i < RANDOM_LEN; i++)
			r[i] = (unsigned char)(clock_ns() >> (5 * i));
	for (unsigned i = 0; i < RANDOM_LEN; i++)
		out[i] = letters[r[i] % (sizeof(letters) - 1)];
	out[RANDOM_LEN] = 0;
}

/* Folder, lock, book; -EAGAIN: somebody reaped it before it was locked, or has the name. */
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
	f->book = openat(f->fd, BOOK, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->book >= 0 && write(f->book, BOOK_HEAD, strlen(BOOK_HEAD)) > 0)
		return 0;
	return errno == ENOENT ? -EAGAIN : -errno;
}

static void undo_make(struct bed_folder *f, const char *name)
{
	unlinkat(f->fd, BOOK, 0);
	sluice_cleanup_close(&f->fd);
	sluice_cleanup_close(&f->book);
	f->fd = f->book = -1;
	unlinkat(f->parent, name, AT_REMOVEDIR);
}

int bed_folder_make(struct bed_folder *f, const char *parent, const char *job,
		    struct sluice_err *err)
{
	char *name;
	int r = -EAGAIN;

	*f = (struct bed_folder){.fd = -1, .parent = -1, .book = -1};
	if (asprintf(&f->path, "%s/" PREFIX "%s-XXXXXX", parent, job) < 0) {
		f->path = NULL;
		return sluice_fail(err, -ENOMEM, "out of memory");
	}
	name = f->path + strlen(parent) + 1;
	f->parent = open(parent, DIR_FLAGS);
	if (f->parent < 0)
		r = -errno;
	else
		reap_all(f->parent);
	for (unsigned tries = 0; tries < 100 && r == -EAGAIN; tries++) {
		random_name(name + strlen(name) - RANDOM_LEN);
		r = try_make(f, name);
		if (r < 0 && f->fd >= 0)
			undo_make(f, name);
	}
	if (r == 0)
		return 0;
	bed_folder_close(f, true);
	return sluice_fail(err, r, "%s: cannot make a folder in it: %s", parent,
			   sluice_strerror(r));
}

int bed_folder_note(const struct bed_folder *f, const char *name, uint64_t inode,
		    struct sluice_err *err)
{
	if (f->book >= 0 && dprintf(f->book, "%llu %s\n", (unsigned long long)inode, name) < 0)
		return sluice_fail(err, -errno, "%s/" BOOK ": %s", f->path, sluice_strerror(errno));
	return 0;
}

/* Of one that was made: 0, or why it stays. */
static int remove_made(const struct bed_folder *f, bool keep)
{
	const char *name = strrchr(f->path, '/') + 1;
	struct stat st;

	unlinkat(f->fd, BOOK, 0); /* what is kept is nobody's to reap */
	if (keep)
		return -ENOTEMPTY;
	if (fstat(f->fd, &st) < 0 || !is_inode(f->parent, name, st.st_ino))
		return -ESTALE;
	return unlinkat(f->parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int bed_folder_close(struct bed_folder *f, bool keep)
{
	int r = f->path && f->book >= 0 ? remove_made(f, keep) : 0;

	if (f->path) {
		sluice_cleanup_close(&f->book);
		sluice_cleanup_close(&f->fd);
		sluice_cleanup_close(&f->parent);
	}
	free(f->path);
	*f = (struct bed_folder){.path = NULL};
	return r;
}
