/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream writer.  What is written is copied into buffers, each of which is one stretch of the
 * file and goes to the storage as one transfer when it is full; while it is on its way the next one
 * is filled.  The address of a byte in its buffer and its offset in the file agree modulo a page,
 * so that all but the ragged ends of a stretch can go past the page cache.
 */
#include <sluice/ckpt.h>
#include <sluice/gpu.h>
#include <sluice/stripe.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/optscopy.h"
#include "base/replace.h"
#include "base/util.h"
#include "ckpt/ckptopts.h"
#include "ckpt/crcfile.h"
#include "ckpt/sums.h"
#include "ckpt/upload.h"

enum {
	PAGE = 4096,
	STEP = 64 << 10, /* copied and summed while it is in the processor's cache */
	FIRST = 1 << 20, /* the first buffer, as long as nobody knows how much comes */
	SOON = 4 << 20,  /* the first buffer is sent off at this, the next at twice as much, ... */
	BUFFER = 32 << 20,
};

struct slot {
	struct sluice_writer *w;
	char *buf;
	uint64_t room;   /* of @buf, bytes */
	uint64_t base;   /* offset in the file of its first byte, a multiple of a page */
	uint64_t lo, hi; /* what of the file is in it */
	uint64_t stop;   /* offset in the file at which it is sent off */
	bool busy;       /* on its way: under the lock */
	bool pinned;
};

struct sluice_writer {
	struct sluice_io *io;
	struct sluice_file *file;
	struct sluice_writer_opts o;
	struct sluice_replace rep;
	struct ckpt_upload *up; /* instead of a file: an object */
	char *path;             /* as the caller calls it */
	char *crcname;          /* FILE.crc, in the same folder */
	pid_t pid;
	uint64_t pos, end; /* where the next byte goes, how long the file is */
	struct sums sums;
	struct slot *slots;
	struct slot *cur; /* is being filled */
	uint64_t nr_taken;

	pthread_mutex_t lock;
	pthread_cond_t back; /* a slot is no longer busy */
	int code;            /* the first failure, */
	char msg[508];       /* and its words */
};

/* ----------------------------------------------------------------- failures */

/* Keep the first failure; returns it. */
static int note(struct sluice_writer *w, int code, const char *msg)
{
	pthread_mutex_lock(&w->lock);
	if (!w->code) {
		w->code = code;
		snprintf(w->msg, sizeof(w->msg), "%s", msg);
	}
	code = w->code;
	pthread_mutex_unlock(&w->lock);
	return code;
}

static int note_errno(struct sluice_writer *w, const char *what, int code)
{
	struct sluice_short room;
	struct sluice_err err;

	sluice_fail(&err, code, "%s %s: %s", what, sluice_shorten(&room, w->path), strerror(-code));
	return note(w, code, err.msg);
}

/* What has failed so far, with its message. */
static int failed(struct sluice_writer *w, struct sluice_err *err)
{
	int code;

	pthread_mutex_lock(&w->lock);
	code = w->code;
	if (code)
		sluice_fail(err, code, "%s", w->msg);
	pthread_mutex_unlock(&w->lock);
	return code;
}

static int check(struct sluice_writer *w, struct sluice_err *err)
{
	if (w->pid != getpid())
		return sluice_fail(err, -ECHILD, "%s: the writer belongs to the parent process",
				   w->path);
	return failed(w, err);
}

/* ------------------------------------------------------------------ buffers */

static void slot_free(struct slot *s)
{
	if (!s->buf)
		return;
	if (s->pinned)
		sluice_gpu_unpin(s->buf);
	sluice_buf_free(s->w->io, s->buf);
	s->buf = NULL;
	s->pinned = false;
}

/* As large as it will be needed, as far as that is known. */
static uint64_t slot_want(const struct sluice_writer *w)
{
	uint64_t full = w->o.buffer_bytes;

	if (w->o.expected)
		return min_u64(full, align_up(w->o.expected, FIRST));
	return w->end ? full : min_u64(full, FIRST);
}

static int slot_alloc(struct sluice_writer *w, struct slot *s)
{
	struct sluice_err err;
	uint64_t want = slot_want(w);
	void *buf;
	int r;

	if (s->buf && s->room >= want)
		return 0;
	slot_free(s);
	r = sluice_buf_alloc(&buf, w->io, want, 0, NULL, &err);
	if (r < 0)
		return note(w, r, err.msg);
	s->buf = buf;
	s->room = want;
	return 0;
}

static struct slot *idle_slot(struct sluice_writer *w)
{
	for (unsigned i = 0; i < w->o.buffers; i++)
		if (!w->slots[i].busy)
			return &w->slots[i];
	return NULL;
}

/* A slot for what is written at the position. */
static int slot_take(struct sluice_writer *w)
{
	struct slot *s;
	int r;

	pthread_mutex_lock(&w->lock);
	while (!(s = idle_slot(w)))
		pthread_cond_wait(&w->back, &w->lock);
	pthread_mutex_unlock(&w->lock);
	r = slot_alloc(w, s);
	if (r < 0)
		return r;
	s->base = align_down(w->pos, PAGE);
	s->lo = s->hi = w->pos;
	s->stop = s->base + min_u64(s->room, (uint64_t)SOON << min_u64(w->nr_taken++, 16));
	w->cur = s;
	return 0;
}

static void slot_done(void *arg, const struct sluice_done *done)
{
	struct slot *s = arg;
	struct sluice_writer *w = s->w;

	if (done->res < 0)
		note(w, (int)done->res, done->msg);
	pthread_mutex_lock(&w->lock);
	s->busy = false;
	pthread_cond_broadcast(&w->back);
	pthread_mutex_unlock(&w->lock);
}

/* Is some of it on its way already?  Two transfers of one byte must not race.  Under the lock. */
static bool is_under_way(const struct sluice_writer *w, const struct slot *s)
{
	bool any = false;

	for (unsigned i = 0; i < w->o.buffers; i++) {
		const struct slot *o = &w->slots[i];

		/* by whole pages: parts of one may take different ways */
		any |= o->busy && align_down(s->lo, PAGE) < o->hi &&
		       align_down(o->lo, PAGE) < s->hi;
	}
	return any;
}

/* Send off what has been filled. */
static int slot_flush(struct sluice_writer *w)
{
	struct slot *s = TAKE_PTR(w->cur);
	struct sluice_err err;
	struct sluice_op op = {
		.opcode = SLUICE_WRITE,
		.file = w->file,
		.on_done = slot_done,
		.arg = s,
		.memory = SLUICE_MEMORY_HOST,
	};
	int r;

	if (!s || s->lo == s->hi)
		return 0;
	op.buf = s->buf + (s->lo - s->base);
	op.len = s->hi - s->lo;
	op.offset = s->lo;
	pthread_mutex_lock(&w->lock);
	while (is_under_way(w, s))
		pthread_cond_wait(&w->back, &w->lock);
	s->busy = true;
	pthread_mutex_unlock(&w->lock);
	r = sluice_submit(w->io, &op, 1, NULL, &err);
	if (r == 1)
		return 0;
	s->busy = false; /* nobody else has seen it */
	return note(w, r, err.msg);
}

static void drain(struct sluice_writer *w)
{
	bool any;

	pthread_mutex_lock(&w->lock);
	do {
		any = false;
		for (unsigned i = 0; i < w->o.buffers; i++)
			any |= w->slots[i].busy;
		if (any)
			pthread_cond_wait(&w->back, &w->lock);
	} while (any);
	pthread_mutex_unlock(&w->lock);
}

/* ------------------------------------------------------------------ writing */

static int copy_host(struct sluice_writer *w, char *to, const char *from, uint64_t len)
{
	int r = 0;

	for (uint64_t n, at = 0; at < len && r == 0; at += n) {
		n = min_u64(len - at, STEP);
		if (!(w->o.flags & SLUICE_WRITER_NO_CRC))
			r = sums_add(&w->sums, w->pos + at, from + at, n);
		memcpy(to + at, from + at, n);
	}
	return r < 0 ? note_errno(w, "write", r) : 0;
}

static int copy_device(struct sluice_writer *w, char *to, const void *from, uint64_t len)
{
	struct sluice_iov iov[2] = {{to, len}, {(void *)(uintptr_t)from, len}};
	struct sluice_op op = {.opcode = SLUICE_COPY, .nr_iov = 2, .iov = iov};
	struct sluice_done done;
	struct sluice_err err;
	int r;

	if (!w->cur->pinned) /* else it is only slower */
		w->cur->pinned = sluice_gpu_pin(w->cur->buf, w->cur->room, NULL) == 0;
	r = sluice_run(w->io, &op, &done, &err);
	if (r < 0)
		return note(w, r, err.msg);
	if (done.res < 0)
		return note(w, (int)done.res, done.msg);
	r = w->o.flags & SLUICE_WRITER_NO_CRC ? 0 : sums_add(&w->sums, w->pos, to, len);
	return r < 0 ? note_errno(w, "write", r) : 0;
}

/* As much as fits into the buffer at hand; returns how much, or what failed. */
static int64_t write_some(struct sluice_writer *w, const char *from, uint64_t len, bool device)
{
	struct slot *s;
	char *to;
	int r = w->cur ? 0 : slot_take(w);

	if (r < 0)
		return r;
	s = w->cur;
	len = min_u64(len, s->stop - w->pos);
	to = s->buf + (w->pos - s->base);
	r = device ? copy_device(w, to, from, len) : copy_host(w, to, from, len);
	if (r < 0)
		return r;
	w->pos += len;
	w->end = max_u64(w->end, w->pos);
	s->hi = max_u64(s->hi, w->pos);
	if (w->pos == s->stop)
		r = slot_flush(w);
	return r < 0 ? r : (int64_t)len;
}

/*
 * To an upload, which has buffers of its own, as much as goes in one step; what comes from a device
 * goes through one of ours.
 */
static int64_t upload_some(struct sluice_writer *w, const char *from, uint64_t len, bool device)
{
	struct slot *s = &w->slots[0];
	struct sluice_err err;
	int r = device ? slot_alloc(w, s) : 0;

	len = min_u64(len, device ? s->room : STEP);
	w->cur = s;
	if (r == 0 && device)
		r = copy_device(w, s->buf, from, len);
	else if (r == 0 && !(w->o.flags & SLUICE_WRITER_NO_CRC))
		r = sums_add(&w->sums, w->pos, from, len);
	w->cur = NULL;
	if (r < 0)
		return device ? r : note_errno(w, "write", r);
	r = ckpt_upload_write(w->up, device ? s->buf : from, len, &err);
	if (r < 0)
		return note(w, r, err.msg);
	w->pos += len;
	w->end = w->pos;
	return (int64_t)len;
}

/* Zeros up to the position, where that was moved on. */
static int upload_gap(struct sluice_writer *w)
{
	static const char zeros[4096];
	uint64_t to = w->pos;
	int64_t n = 0;

	for (w->pos = w->end; w->pos < to && n >= 0;)
		n = upload_some(w, zeros, min_u64(to - w->pos, sizeof(zeros)), false);
	return n < 0 ? (int)n : 0;
}

int sluice_writer_write(struct sluice_writer *w, const void *buf, uint64_t len,
			struct sluice_err *err)
{
	const char *from = buf;
	uint64_t end;
	bool device;
	int r = check(w, err);

	if (r < 0 || !len)
		return r;
	if (!buf)
		return sluice_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64, len);
	if (__builtin_add_overflow(w->pos, len, &end) || end > INT64_MAX)
		return sluice_fail(err, -EFBIG,
				   "%s: offset %" PRIu64 " + length %" PRIu64 " is beyond 2^63",
				   w->path, w->pos, len);
	device = sluice_gpu_device(buf) >= 0;
	if (w->up && upload_gap(w) < 0)
		return failed(w, err);
	while (len) {
		int64_t n = w->up ? upload_some(w, from, len, device)
				  : write_some(w, from, len, device);

		if (n < 0)
			return failed(w, err);
		from += n;
		len -= (uint64_t)n;
	}
	return failed(w, err);
}

/* Within the buffer at hand; beyond what is in it only over bytes that nobody has written. */
static bool seek_here(struct sluice_writer *w, uint64_t offset)
{
	struct slot *s = w->cur;

	if (!s || offset < s->lo || offset > s->stop)
		return false;
	if (offset > s->hi) {
		if (s->hi < w->end)
			return false;
		memset(s->buf + (s->hi - s->base), 0, offset - s->hi);
		s->hi = offset;
	}
	return true;
}

int sluice_writer_seek(struct sluice_writer *w, uint64_t offset, struct sluice_err *err)
{
	int r = check(w, err);

	if (r < 0 || offset == w->pos)
		return r;
	if (offset > INT64_MAX)
		return sluice_fail(err, -EFBIG, "%s: offset %" PRIu64 " is beyond 2^63", w->path,
				   offset);
	if (w->up && offset < w->end)
		return sluice_fail(err, -ESPIPE,
				   "%s: an object is written from its beginning to its end, and "
				   "offset %" PRIu64 " was written already",
				   w->path, offset);
	if (!w->up && !seek_here(w, offset) && slot_flush(w) < 0)
		return failed(w, err);
	w->pos = offset;
	return 0;
}

uint64_t sluice_writer_tell(const struct sluice_writer *w)
{
	return w->pos;
}

/* ------------------------------------------------------------------ opening */

static void writer_free(struct sluice_writer *w)
{
	bool forked = w->pid != getpid();

	for (unsigned i = 0; w->slots && !forked && i < w->o.buffers; i++)
		slot_free(&w->slots[i]);
	if (!forked) /* else the upload is the parent's */
		ckpt_upload_abort(w->up);
	sluice_file_close(w->file, NULL);
	sluice_replace_close(&w->rep, forked);
	sums_free(&w->sums);
	free(w->slots);
	free(w->crcname);
	free(w->path);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->back);
	free(w);
}

static int load_opts(struct sluice_writer_opts *o, const struct sluice_writer_opts *user,
		     struct sluice_err *err)
{
	int r = sluice_opts_copy(o, sizeof(*o), user, err);

	if (r < 0)
		return r;
	if (!o->mode)
		o->mode = 0666;
	if (o->flags & ~(SLUICE_WRITER_NO_SYNC | SLUICE_WRITER_NO_CRC))
		return sluice_fail(err, -EINVAL, "flags: 0x%x has unknown bits", o->flags);
	if (o->mode > 07777)
		return sluice_fail(err, -EINVAL, "mode: 0%o is beyond 07777", o->mode);
	if (o->expected > INT64_MAX)
		return sluice_fail(err, -EINVAL, "expected: %" PRIu64 " is beyond 2^63",
				   o->expected);
	return ckpt_opts_buffers(&o->buffers, &o->buffer_bytes, BUFFER, err);
}

static int writer_make(struct sluice_writer **out, const char *path,
		       const struct sluice_writer_opts *o)
{
	struct sluice_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->o = *o;
	w->pid = getpid();
	w->rep = (struct sluice_replace)SLUICE_REPLACE_NONE;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->back, NULL);
	w->path = strdup(path);
	w->slots = calloc(o->buffers, sizeof(*w->slots));
	for (unsigned i = 0; w->slots && i < o->buffers; i++)
		w->slots[i].w = w;
	if (!w->path || !w->slots) {
		writer_free(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

/* Is there something under the name of the checksums that is none? */
static int check_crcname(struct sluice_writer *w, struct sluice_err *err)
{
	struct sluice_err why = {0, ""};
	struct crcfile f;
	int r;

	if (asprintf(&w->crcname, "%s.crc", w->rep.name) < 0) {
		w->crcname = NULL;
		return sluice_fail(err, -ENOMEM, "%s: out of memory", w->path);
	}
	r = crcfile_load(&f, w->rep.dir, w->crcname, &why);
	if (r == 0)
		crcfile_free(&f);
	if (r == -EBADMSG && strstr(why.msg, "no file of checksums"))
		return sluice_fail(err, -EEXIST,
				   "%s.crc is there and is no file of checksums of ours: it would "
				   "be replaced",
				   w->path);
	return 0; /* a damaged one is replaced */
}

/* What is not supported is no failure; that there is no room is one, now instead of later. */
static int reserve(struct sluice_writer *w, struct sluice_err *err)
{
	int r;

	if (!w->o.expected)
		return 0;
	do {
		r = fallocate(w->rep.fd, 0, 0, (off_t)w->o.expected) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r == 0 || r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL)
		return 0;
	return sluice_fail(err, r, "%s: there is no room for %" PRIu64 " bytes: %s", w->path,
			   w->o.expected, strerror(-r));
}

static int upload_begin(struct sluice_writer *w, struct sluice_err *err)
{
	struct sluice_object *c = sluice_get_objects(w->io);

	if (!c)
		return sluice_fail(err, -ENOTSUP,
				   "%s: the handle has no client of object stores (objects of "
				   "struct sluice_opts)",
				   w->path);
	return ckpt_upload_open(&w->up, c, w->path, &w->o, err);
}

static int file_begin(struct sluice_writer *w, struct sluice_err *err)
{
	int r, fd;

	/* the file that takes its place would leave the members behind, and nobody would know of
	 * them */
	if (sluice_stripe_is(w->path) == 1)
		return sluice_fail(
			err, -EEXIST,
			"%s: is a striped file, which cannot be replaced; `sluice stripe "
			"rm' removes it",
			w->path);
	r = sluice_replace_open(&w->rep, w->path, w->o.mode);
	if (r == -EINVAL)
		return sluice_fail(err, r, "%s: only a regular file can be replaced", w->path);
	if (r < 0)
		return sluice_fail(err, r, "open %s: %s", w->path, strerror(-r));
	r = check_crcname(w, err);
	if (r == 0)
		r = reserve(w, err);
	if (r < 0)
		return r;
	fd = fcntl(w->rep.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return sluice_fail(err, -errno, "open %s: %s", w->path, strerror(errno));
	return sluice_file_take_fd(&w->file, w->io, fd, w->path, err);
}

static int writer_begin(struct sluice_writer *w, struct sluice_err *err)
{
	int r = sluice_object_is_uri(w->path, err);

	if (r < 0)
		return r;
	return r ? upload_begin(w, err) : file_begin(w, err);
}

int sluice_writer_open(struct sluice_writer **out, struct sluice_io *io, const char *path,
		       const struct sluice_writer_opts *opts, struct sluice_err *err)
{
	struct sluice_writer_opts o;
	struct sluice_writer *w;
	int r;

	if (!io || !path)
		return sluice_fail(err, -EINVAL, "%s: is NULL", io ? "path" : "io");
	r = load_opts(&o, opts, err);
	if (r < 0)
		return r;
	r = writer_make(&w, path, &o);
	if (r < 0)
		return sluice_fail(err, r, "%s: out of memory", path);
	w->io = io;
	r = writer_begin(w, err);
	if (r < 0)
		writer_free(w);
	else
		*out = w;
	return r;
}

/* --------------------------------------------------------------- committing */

/* A chunk that was written over: what counts is what is there now. */
static int sum_again(void *arg, uint64_t offset, uint64_t len, uint32_t *ret_crc)
{
	struct sluice_writer *w = arg;
	CLEANUP_FREE char *data = malloc(len);
	struct sluice_err err;
	int64_t n;

	if (!data)
		return note_errno(w, "read", -ENOMEM);
	n = sluice_pread(w->file, data, len, offset, &err);
	if (n != (int64_t)len)
		return n < 0 ? note(w, (int)n, err.msg) : note_errno(w, "read", -ENODATA);
	*ret_crc = sluice_crc32c(0, data, len);
	return 0;
}

/* Its checksums; @set has all else. */
static int make_sums(struct sluice_writer *w, struct crc_set *set)
{
	if (w->o.flags & SLUICE_WRITER_NO_CRC)
		return 0;
	set->flags = 0;
	set->nr = crc_chunks(w->end);
	set->crcs = malloc(max_u64(set->nr, 1) * sizeof(*set->crcs));
	if (!set->crcs)
		return note_errno(w, "commit", -ENOMEM);
	return sums_join(&w->sums, w->end, set->crcs, sum_again, w);
}

static int make_set(struct sluice_writer *w, struct crc_set *set)
{
	struct stat st;

	if (fstat(w->rep.fd, &st) < 0)
		return note_errno(w, "stat", -errno);
	*set = crc_set_of(&st);
	return make_sums(w, set);
}

static int upload_commit(struct sluice_writer *w, struct crc_set *set)
{
	struct sluice_err err;
	int r;

	*set = (struct crc_set){.bytes = w->end, .flags = CRC_SET_NONE};
	r = make_sums(w, set);
	if (r < 0)
		return r;
	r = ckpt_upload_commit(TAKE_PTR(w->up), set, &err);
	return r < 0 ? note(w, r, err.msg) : 0;
}

/* All bytes in the file, and no more. */
static int finish_data(struct sluice_writer *w, struct crc_set *set)
{
	struct stat st;
	int r;

	slot_flush(w);
	drain(w);
	if (w->code)
		return w->code;
	if (fstat(w->rep.fd, &st) < 0 ||
	    ((uint64_t)st.st_size != w->end && ftruncate(w->rep.fd, (off_t)w->end) < 0))
		return note_errno(w, "truncate", -errno);
	r = sluice_replace_rights(&w->rep);
	return r < 0 ? note_errno(w, "set permissions of", r) : make_set(w, set);
}

/*
 * The data durable, and meanwhile FILE.crc, if there is to be one: what two fsync(2) wait for is
 * mostly the same.
 */
static int settle(struct sluice_writer *w, const struct crc_set *set, struct crc_next *next)
{
	bool sync = !(w->o.flags & SLUICE_WRITER_NO_SYNC);
	struct slot flushing = {.w = w, .busy = sync};
	struct sluice_op op = {
		.opcode = SLUICE_SYNC, .file = w->file, .on_done = slot_done, .arg = &flushing};
	struct sluice_err err;
	int r = sync ? sluice_submit(w->io, &op, 1, NULL, &err) : 1;

	if (r != 1)
		return note(w, r, err.msg);
	if (!(set->flags & CRC_SET_NONE) ||
	    faccessat(w->rep.dir, w->crcname, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT) {
		r = crc_next_make(next, &w->rep, w->crcname, set, sync);
		if (r < 0)
			note_errno(w, "write the checksums of", r);
	}
	pthread_mutex_lock(&w->lock);
	while (flushing.busy)
		pthread_cond_wait(&w->back, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return w->code;
}

static int sync_folder(const struct sluice_writer *w)
{
	return w->o.flags & SLUICE_WRITER_NO_SYNC ? 0 : sluice_replace_sync(w->rep.dir);
}

/*
 * FILE.crc, which describes the file that is there now and the one that will be, and then the file.
 * Under the lock of the folder: no other writer does the same meanwhile.
 */
static int show(struct sluice_writer *w, struct crc_next *next)
{
	int r = next->of ? crc_next_show(next) : 0;

	if (r == 0 && next->of)
		r = sync_folder(w);
	if (r < 0)
		return note_errno(w, "write the checksums of", r);
	r = sluice_replace_show(&w->rep);
	if (r < 0)
		return note_errno(w, "rename to", r);
	r = sync_folder(w);
	if (r < 0)
		return note_errno(
			w, "the new file is visible, but may not stay: fsync the folder of", r);
	if (next->of && next->set->flags & CRC_SET_NONE)
		unlinkat(w->rep.dir, w->crcname, 0);
	return 0;
}

unsigned sluice_writer_lock_ms = 120 * 1000;

/*
 * Wait for those who are at this step in the same folder, which takes each of them some
 * milliseconds, but not for ever: anybody may hold this lock.  Where there are no locks nobody can.
 */
static int lock_folder(int fd)
{
	const struct timespec moment = {.tv_nsec = 2000000};

	for (uint64_t end = clock_ns() + sluice_writer_lock_ms * 1000000ull;;) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
			return 0;
		if (clock_ns() > end)
			return -ETIMEDOUT;
		nanosleep(&moment, NULL);
	}
}

static void show_locked(struct sluice_writer *w, struct crc_next *next)
{
	/* A description of its own: that of rep.dir would be shared with a child of fork(). */
	int lock = openat(w->rep.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (lock >= 0 && lock_folder(lock) < 0)
		note_errno(w, "another program holds the lock (flock) of the folder of",
			   -ETIMEDOUT);
	else
		show(w, next);
	if (lock >= 0)
		close(lock);
}

int sluice_writer_commit(struct sluice_writer *w, struct sluice_err *err)
{
	struct crc_next next = {0};
	struct crc_set set = {0};
	int r = check(w, err);

	if (r == -ECHILD) {
		writer_free(w);
		return r;
	}
	if (r == 0 && w->up) {
		upload_commit(w, &set);
	} else if (!w->up) {
		r = finish_data(w, &set);
		if (r == 0)
			r = settle(w, &set, &next);
		if (r == 0)
			show_locked(w, &next);
	}
	r = failed(w, err);
	crc_next_free(&next);
	free(set.crcs);
	writer_free(w);
	return r;
}

void sluice_writer_abort(struct sluice_writer *w)
{
	if (!w)
		return;
	if (w->pid == getpid())
		drain(w);
	writer_free(w);
}
