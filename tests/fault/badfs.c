/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system in memory that misbehaves as file names ask:
 *
 *	badfs MOUNTPOINT [async]
 *
 * runs in the foreground, says "ready" on standard output when it is mounted,
 * and unmounts when it is terminated.  Anywhere in the path of a file:
 *
 *	reio=N weio=N   reading, writing byte N fails with EIO; what is before it moves
 *	short=N         one transfer in N moves about half of what was asked for
 *	again=N intr=N  one transfer in N fails with EAGAIN, EINTR
 *	nodirect=1      open with O_DIRECT fails with EINVAL
 *	nodirect=2      ... only transfers through it do
 *	nodirect=3      ... only writes do
 *	align=N         transfers with O_DIRECT at other than multiples of N fail with EINVAL
 *	full=N          bytes from N on do not fit: ENOSPC
 *	falloc=E        fallocate fails with errno E; without, it is not supported
 *	fsync=1 flush=1 fsync, close fail with EIO
 *	sleep=N         a read takes N milliseconds
 *	meet=N          a read waits until N reads are in flight; a read left alone fails (EIO)
 *
 * With the variable BADFS_LOG set, what is done is written to the file it names: see badlog.h.
 *
 * The page cache is off, so that every transfer comes here as it was asked for.
 * With "async" the kernel may cut a direct transfer in pieces and do them at
 * once; then it makes EIO of a short write.  Without, io_uring of Linux 6.18
 * goes on after a short transfer at the old position, and says it went well.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/fault/badlog.h"

enum { NR_NODES = 256, MEET_S = 20 };

struct node {
	char *path; /* NULL: free */
	bool is_dir;
	mode_t mode;
	char *data;
	size_t size;
	size_t capacity;
	unsigned transfers;
	unsigned here; /* reads that wait for others, */
	uint64_t met;  /* and how often there were enough */
	unsigned opens;
	bool gone; /* has no name any more, and is freed when it is closed */
	uint64_t id;
};

static struct node nodes[NR_NODES];
static bool async_dio;
static uint64_t last_id;
static int log_fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t meeting = PTHREAD_COND_INITIALIZER;

static void record(enum badlog_op op, const struct node *n, uint64_t off, uint64_t len,
		   const char *name, const char *to, const void *data)
{
	struct badlog rec = {.op = op, .id = n ? n->id : 0, .offset = off, .len = len};

	if (log_fd < 0)
		return;
	snprintf(rec.name, sizeof(rec.name), "%s", name);
	snprintf(rec.to, sizeof(rec.to), "%s", to);
	if (write(log_fd, &rec, sizeof(rec)) != (ssize_t)sizeof(rec) ||
	    (data && write(log_fd, data, len) != (ssize_t)len))
		abort();
}

static struct node *find(const char *path)
{
	for (unsigned i = 0; i < NR_NODES; i++)
		if (nodes[i].path && !nodes[i].gone && !strcmp(nodes[i].path, path))
			return &nodes[i];
	return NULL;
}

static struct node *add(const char *path, mode_t mode, bool is_dir)
{
	for (unsigned i = 0; i < NR_NODES; i++) {
		if (nodes[i].path)
			continue;
		memset(&nodes[i], 0, sizeof(nodes[i]));
		nodes[i].path = strdup(path);
		nodes[i].mode = mode;
		nodes[i].is_dir = is_dir;
		nodes[i].id = ++last_id;
		return nodes[i].path ? &nodes[i] : NULL;
	}
	return NULL;
}

static int resize(struct node *n, size_t size)
{
	if (size > n->capacity) {
		char *p = realloc(n->data, size + (1 << 20));

		if (!p)
			return -ENOMEM;
		memset(p + n->capacity, 0, size + (1 << 20) - n->capacity);
		n->data = p;
		n->capacity = size + (1 << 20);
	}
	if (size < n->size)
		memset(n->data + size, 0, n->size - size);
	n->size = size;
	return 0;
}

/* The value of "key=" in the path, or @absent. */
static uint64_t setting(const struct node *n, const char *key, uint64_t absent)
{
	const char *p = n->path;
	size_t len = strlen(key);

	for (; (p = strstr(p, key)); p++)
		if (p[len] == '=' && (p[-1] == '/' || p[-1] == ','))
			return strtoull(p + len + 1, NULL, 10);
	return absent;
}

/* ------------------------------------------------------------------- names */

static void fill_stat(const struct node *n, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = (n->is_dir ? S_IFDIR : S_IFREG) | (n->mode & 07777);
	st->st_ino = n->id;
	st->st_nlink = n->is_dir ? 2 : 1;
	st->st_size = (off_t)n->size;
	st->st_blocks = (blkcnt_t)((n->size + 511) / 512);
	st->st_blksize = 4096;
}

static int bad_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	struct node *n;

	pthread_mutex_lock(&lock);
	n = fi && fi->fh ? (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1) : find(path);
	if (n)
		fill_stat(n, st);
	pthread_mutex_unlock(&lock);
	return n ? 0 : -ENOENT;
}

static int bad_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off,
		       struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	size_t len = strcmp(path, "/") ? strlen(path) : 0;

	(void)off;
	(void)fi;
	(void)flags;
	fill(buf, ".", NULL, 0, 0);
	fill(buf, "..", NULL, 0, 0);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < NR_NODES; i++) {
		const char *p = nodes[i].path;

		if (p && !nodes[i].gone && !strncmp(p, path, len) && p[len] == '/' && p[len + 1] &&
		    !strchr(p + len + 1, '/'))
			fill(buf, p + len + 1, NULL, 0, 0);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int bad_mkdir(const char *path, mode_t mode)
{
	int r;

	pthread_mutex_lock(&lock);
	r = find(path) ? -EEXIST : add(path, mode, true) ? 0 : -ENOSPC;
	pthread_mutex_unlock(&lock);
	return r;
}

/* Nobody has it open, and it has no name. */
static void free_unused(struct node *n)
{
	if (!n->gone || n->opens)
		return;
	free(n->path);
	free(n->data);
	memset(n, 0, sizeof(*n));
}

static void remove_name(struct node *n)
{
	n->gone = true;
	free_unused(n);
}

static int bad_unlink(const char *path)
{
	struct node *n;

	pthread_mutex_lock(&lock);
	n = find(path);
	if (n) {
		record(BADLOG_UNLINK, n, 0, 0, path, "", NULL);
		remove_name(n);
	}
	pthread_mutex_unlock(&lock);
	return n ? 0 : -ENOENT;
}

/* Of files alone. */
static int bad_rename(const char *from, const char *to, unsigned flags)
{
	struct node *n, *old;
	char *path = strdup(to);
	int r = -ENOENT;

	pthread_mutex_lock(&lock);
	n = find(from);
	old = find(to);
	if (flags || !path || (n && n->is_dir)) {
		r = -EINVAL;
	} else if (n && n != old) {
		record(BADLOG_RENAME, n, 0, 0, from, to, NULL);
		if (old)
			remove_name(old);
		free(n->path);
		n->path = path;
		path = NULL;
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	free(path);
	return r;
}

static int bad_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	struct node *n;
	int r = -ENOENT;

	pthread_mutex_lock(&lock);
	n = fi && fi->fh ? (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1) : find(path);
	if (n)
		r = resize(n, (size_t)size);
	if (r == 0)
		record(BADLOG_TRUNCATE, n, 0, (uint64_t)size, path, "", NULL);
	pthread_mutex_unlock(&lock);
	return r;
}

/* ------------------------------------------------------------------- files */

/* The lowest bit of the handle says O_DIRECT. */
static int open_node(struct node *n, struct fuse_file_info *fi)
{
	bool direct = fi->flags & O_DIRECT;

	if (direct && setting(n, "nodirect", 0) == 1)
		return -EINVAL;
	fi->fh = (uint64_t)(uintptr_t)n | direct;
	fi->direct_io = 1;
	n->opens++;
	return 0;
}

static int bad_open(const char *path, struct fuse_file_info *fi)
{
	struct node *n;
	int r = -ENOENT;

	pthread_mutex_lock(&lock);
	n = find(path);
	if (n && (fi->flags & O_TRUNC))
		resize(n, 0);
	if (n)
		r = open_node(n, fi);
	pthread_mutex_unlock(&lock);
	return r;
}

static int bad_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	struct node *n;
	int r = -ENOSPC;

	pthread_mutex_lock(&lock);
	n = find(path);
	if (!n) {
		n = add(path, mode, false);
		if (n)
			record(BADLOG_CREATE, n, 0, 0, path, "", NULL);
	}
	if (n)
		r = open_node(n, fi);
	pthread_mutex_unlock(&lock);
	return r;
}

/*
 * Is it the turn of this fault?  By chance, but the same in every run: strictly
 * every N-th could hit the same block again and again.
 */
static bool turn(const struct node *n, const char *key, unsigned nth)
{
	uint64_t every = setting(n, key, 0), h = nth;

	for (const char *p = key; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x9e3779b97f4a7c15;
	return every && (h >> 32) % every == 0;
}

/* How many of @len bytes at @off a transfer moves, or -errno. */
static int64_t spoil(struct node *n, bool direct, bool writes, size_t len, uint64_t off)
{
	uint64_t eio = setting(n, writes ? "weio" : "reio", UINT64_MAX);
	uint64_t full = writes ? setting(n, "full", UINT64_MAX) : UINT64_MAX;
	uint64_t nodirect = setting(n, "nodirect", 0), align = setting(n, "align", 1);
	unsigned nth = ++n->transfers;

	if (direct && (nodirect == 2 || (nodirect == 3 && writes)))
		return -EINVAL;
	if (direct && (off % align || len % align))
		return -EINVAL;
	if (turn(n, "again", nth))
		return -EAGAIN;
	if (turn(n, "intr", nth))
		return -EINTR;
	if (off >= full)
		return -ENOSPC;
	if (off + len > full)
		len = full - off;
	if (off <= eio && off + len > eio) {
		if (off == eio)
			return -EIO;
		len = eio - off;
	}
	if (len > 1 && turn(n, "short", nth))
		len = len / 2 + nth % 3 * (len > 8);
	return (int64_t)len;
}

/* With the lock.  False: it is the only one. */
static bool meet_others(struct node *n)
{
	uint64_t need = setting(n, "meet", 0), met = n->met;
	struct timespec end;
	int r = 0;

	if (++n->here >= need) {
		n->here = 0;
		n->met++;
		pthread_cond_broadcast(&meeting);
		return true;
	}
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += MEET_S;
	while (n->met == met && !r)
		r = pthread_cond_timedwait(&meeting, &lock, &end);
	if (n->met != met)
		return true;
	n->here--;
	return false;
}

static void take_time(struct node *n)
{
	long ms = (long)setting(n, "sleep", 0);
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	if (ms)
		nanosleep(&ts, NULL);
}

static int bad_read(const char *path, char *buf, size_t len, off_t off, struct fuse_file_info *fi)
{
	struct node *n = (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1);
	int64_t r;

	(void)path;
	take_time(n);
	pthread_mutex_lock(&lock);
	if ((size_t)off >= n->size)
		len = 0;
	else if ((size_t)off + len > n->size)
		len = n->size - (size_t)off;
	r = len ? spoil(n, fi->fh & 1, false, len, (uint64_t)off) : 0;
	if (len && !meet_others(n))
		r = -EIO;
	if (r > 0)
		memcpy(buf, n->data + off, (size_t)r);
	pthread_mutex_unlock(&lock);
	return (int)r;
}

static int bad_write(const char *path, const char *buf, size_t len, off_t off,
		     struct fuse_file_info *fi)
{
	struct node *n = (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1);
	int64_t r;

	pthread_mutex_lock(&lock);
	r = spoil(n, fi->fh & 1, true, len, (uint64_t)off);
	if (r > 0 && (size_t)off + (size_t)r > n->size) {
		int e = resize(n, (size_t)off + (size_t)r);

		r = e < 0 ? e : r;
	}
	if (r > 0) {
		memcpy(n->data + off, buf, (size_t)r);
		record(BADLOG_WRITE, n, (uint64_t)off, (uint64_t)r, path, "", buf);
	}
	pthread_mutex_unlock(&lock);
	return (int)r;
}

static int bad_fallocate(const char *path, int mode, off_t off, off_t len,
			 struct fuse_file_info *fi)
{
	struct node *n = (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1);

	(void)path;
	(void)mode;
	(void)off;
	(void)len;
	return -(int)setting(n, "falloc", EOPNOTSUPP);
}

static int bad_fsync(const char *path, int datasync, struct fuse_file_info *fi)
{
	struct node *n = (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1);

	(void)datasync;
	if (setting(n, "fsync", 0))
		return -EIO;
	pthread_mutex_lock(&lock);
	record(BADLOG_FSYNC, n, 0, 0, path, "", NULL);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int bad_fsyncdir(const char *path, int datasync, struct fuse_file_info *fi)
{
	(void)datasync;
	(void)fi;
	pthread_mutex_lock(&lock);
	record(BADLOG_FSYNCDIR, NULL, 0, 0, path, "", NULL);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int bad_release(const char *path, struct fuse_file_info *fi)
{
	struct node *n = (struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1);

	(void)path;
	pthread_mutex_lock(&lock);
	n->opens--;
	free_unused(n);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int bad_flush(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return setting((struct node *)(uintptr_t)(fi->fh & ~(uint64_t)1), "flush", 0) ? -EIO : 0;
}

static void *bad_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	if (!async_dio)
		conn->want &= ~(unsigned)FUSE_CAP_ASYNC_DIO;
	cfg->attr_timeout = 0;
	cfg->entry_timeout = 0;
	cfg->negative_timeout = 0;
	cfg->hard_remove = 1;
	cfg->nullpath_ok = 0;
	cfg->use_ino = 1;
	printf("ready\n");
	fflush(stdout);
	return NULL;
}

static const struct fuse_operations operations = {
	.init = bad_init,
	.getattr = bad_getattr,
	.readdir = bad_readdir,
	.mkdir = bad_mkdir,
	.rmdir = bad_unlink,
	.unlink = bad_unlink,
	.rename = bad_rename,
	.truncate = bad_truncate,
	.open = bad_open,
	.create = bad_create,
	.read = bad_read,
	.write = bad_write,
	.fallocate = bad_fallocate,
	.fsync = bad_fsync,
	.fsyncdir = bad_fsyncdir,
	.flush = bad_flush,
	.release = bad_release,
};

int main(int argc, char **argv)
{
	char foreground[] = "-f", o[] = "-o", few[] = "max_threads=8";
	char *args[] = {argv[0], foreground, o, few, argc > 1 ? argv[1] : NULL, NULL};

	if (argc < 2) {
		fprintf(stderr, "usage: badfs MOUNTPOINT [async]\n");
		return 2;
	}
	if (getenv("BADFS_LOG")) {
		log_fd = open(getenv("BADFS_LOG"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (log_fd < 0)
			return 2;
	}
	async_dio = argc > 2 && !strcmp(argv[2], "async");
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* not to outlive the test */
	add("/", 0755, true);
	return fuse_main(5, args, &operations, NULL);
}
