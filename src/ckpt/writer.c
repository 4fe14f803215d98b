/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint writer.  What is written is copied into buffers, each of which is one stretch of
 * the file and goes to the storage as one transfer when it is full; while it is on its way the next
 * one is filled.  The address of a byte in its buffer and its offset in the file agree modulo a
 * page, so that all but the ragged ends of a stretch can go past the page cache.
 */
#include "ckpt/writer.h"

#include <penstock/gpu.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/optscopy.h"
#include "base/util.h"
#include "ckpt/ckpt_upload.h"
#include "ckpt/ckptopts.h"
#include "ckpt/crcfile.h"
#include "file/stripe.h"

enum {
	STEP = 64 << 10, /* copied and summed while it is in the processor's cache */
	BUFFER = 32 << 20,
};

/* ------------------------------------------------------------------ writing */

/* What a write is of, beside its length. */
struct source {
	const char *from;
	bool device;
	uint32_t *crc; /* CRC-32 that goes on, or NULL */
};

/* The checksums that are wanted of @len bytes at @data, which are written at @offset. */
static int add_checksums(struct penstock_writer *w, const struct source *s, uint64_t offset,
			 const char *data, uint64_t len)
{
	if (s->crc)
		*s->crc = penstock_crc32(*s->crc, data, len);
	return w->o.flags & PENSTOCK_WRITER_NO_CRC ? 0
						   : crc_pieces_add(&w->pieces, offset, data, len);
}

/* A step at a time: the checksums and the copy read it while it is in the processor's cache. */
static int copy_host(struct penstock_writer *w, char *to, const struct source *s, uint64_t len)
{
	int r = 0;

	for (uint64_t n, at = 0; at < len && r == 0; at += n) {
		n = min_u64(len - at, STEP);
		r = add_checksums(w, s, w->pos + at, s->from + at, n);
		if (to)
			memcpy(to + at, s->from + at, n);
	}
	return r < 0 ? writer_record_errno(w, "write", r) : 0;
}

static int copy_device(struct penstock_writer *w, char *to, const struct source *s, uint64_t len)
{
	struct penstock_iov iov[2] = {{to, len}, {(void *)(uintptr_t)s->from, len}};
	struct penstock_op op = {.opcode = PENSTOCK_COPY, .nr_iov = 2, .iov = iov};
	struct source in_slot = {to, false, s->crc};
	struct penstock_done done;
	struct penstock_err err;
	int r;

	if (!w->filling->pinned) /* else it is only slower */
		w->filling->pinned =
			penstock_gpu_pin(w->filling->buf, w->filling->capacity, NULL) == 0;
	r = penstock_run(w->io, &op, &done, &err);
	if (r < 0)
		return writer_record_error(w, r, err.msg);
	if (done.res < 0)
		return writer_record_error(w, (int)done.res, done.msg);
	return copy_host(w, NULL, &in_slot, len);
}

/* As much as fits into the buffer at hand; returns how much, or what failed. */
static int64_t write_some(struct penstock_writer *w, const struct source *src, uint64_t len)
{
	struct writer_slot *s;
	char *to;
	int r = w->filling ? 0 : writer_slot_take(w);

	if (r < 0)
		return r;
	s = w->filling;
	if (w->pos > s->end) { /* what a seek has passed over, now that something comes behind it */
		memset(s->buf + (s->end - s->base), 0, w->pos - s->end);
		s->end = w->pos;
	}
	len = min_u64(len, s->flush_at - w->pos);
	to = s->buf + (w->pos - s->base);
	r = src->device ? copy_device(w, to, src, len) : copy_host(w, to, src, len);
	if (r < 0)
		return r;
	w->pos += len;
	w->end = max_u64(w->end, w->pos);
	s->end = max_u64(s->end, w->pos);
	if (w->pos == s->flush_at)
		r = writer_slot_flush(w);
	return r < 0 ? r : (int64_t)len;
}

/*
 * To an upload, which has buffers of its own, as much as goes in one step; what comes from a device
 * goes through one of ours.
 */
static int64_t upload_some(struct penstock_writer *w, const struct source *src, uint64_t len)
{
	struct writer_slot *s = &w->slots[0];
	struct penstock_err err;
	int r = src->device ? writer_slot_alloc(w, s) : 0;

	len = min_u64(len, src->device ? s->capacity : STEP);
	w->filling = s;
	if (r == 0)
		r = src->device ? copy_device(w, s->buf, src, len) : copy_host(w, NULL, src, len);
	w->filling = NULL;
	if (r < 0)
		return r;
	r = ckpt_upload_write(w->up, src->device ? s->buf : src->from, len, &err);
	if (r < 0)
		return writer_record_error(w, r, err.msg);
	w->pos += len;
	w->end = w->pos;
	return (int64_t)len;
}

/* Zeros up to the position, where that was moved on. */
static int upload_gap(struct penstock_writer *w)
{
	static const char zeros[4096];
	const struct source src = {zeros, false, NULL};
	uint64_t to = w->pos;
	int64_t n = 0;

	for (w->pos = w->end; w->pos < to && n >= 0;)
		n = upload_some(w, &src, min_u64(to - w->pos, sizeof(zeros)));
	return n < 0 ? (int)n : 0;
}

/* A writer of this process that writes itself. */
static int check_writes_itself(struct penstock_writer *w, struct penstock_err *err)
{
	int r = writer_check(w, err);

	if (r == 0 && w->o.flags & PENSTOCK_WRITER_CALLER_WRITES)
		return penstock_fail(err, -EINVAL, "%s: its bytes are the caller's to write",
				     w->path);
	return r;
}

static int check_range(const struct penstock_writer *w, const void *buf, uint64_t len,
		       uint64_t offset, struct penstock_err *err)
{
	uint64_t end;

	if (!buf)
		return penstock_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64, len);
	if (__builtin_add_overflow(offset, len, &end) || end > INT64_MAX)
		return penstock_fail(err, -EFBIG,
				     "%s: offset %" PRIu64 " + length %" PRIu64 " is beyond 2^63",
				     w->path, offset, len);
	return 0;
}

int penstock_writer_write_crc32(struct penstock_writer *w, const void *buf, uint64_t len,
				uint32_t *crc, struct penstock_err *err)
{
	struct source src = {buf, false, crc};
	int r = check_writes_itself(w, err);

	if (r < 0 || !len)
		return r;
	r = check_range(w, buf, len, w->pos, err);
	if (r < 0)
		return r;
	src.device = penstock_gpu_device(buf) >= 0;
	if (w->up && upload_gap(w) < 0)
		return writer_get_error(w, err);
	while (len) {
		int64_t n = w->up ? upload_some(w, &src, len) : write_some(w, &src, len);

		if (n < 0)
			return writer_get_error(w, err);
		src.from += n;
		len -= (uint64_t)n;
	}
	return writer_get_error(w, err);
}

int penstock_writer_write(struct penstock_writer *w, const void *buf, uint64_t len,
			  struct penstock_err *err)
{
	return penstock_writer_write_crc32(w, buf, len, NULL, err);
}

/* Within the buffer at hand; beyond what is in it only over bytes that nobody has written. */
static bool is_in_buffer(const struct penstock_writer *w, uint64_t offset)
{
	const struct writer_slot *s = w->filling;

	return s && offset >= s->begin && offset <= s->flush_at &&
	       (offset <= s->end || s->end == w->end);
}

int penstock_writer_seek(struct penstock_writer *w, uint64_t offset, struct penstock_err *err)
{
	int r = check_writes_itself(w, err);

	if (r < 0 || offset == w->pos)
		return r;
	if (offset > INT64_MAX)
		return penstock_fail(err, -EFBIG, "%s: offset %" PRIu64 " is beyond 2^63", w->path,
				     offset);
	if (w->up && offset < w->end)
		return penstock_fail(err, -ESPIPE,
				     "%s: an object is written from its beginning to its end, and "
				     "offset %" PRIu64 " was written already",
				     w->path, offset);
	if (!w->up && !is_in_buffer(w, offset) && writer_slot_flush(w) < 0)
		return writer_get_error(w, err);
	w->pos = offset;
	return 0;
}

uint64_t penstock_writer_tell(const struct penstock_writer *w)
{
	return w->pos;
}

/* ------------------------------------------------- bytes that others write */

static int check_caller_writes(struct penstock_writer *w, struct penstock_err *err)
{
	int r = writer_check(w, err);

	if (r == 0 && !(w->o.flags & PENSTOCK_WRITER_CALLER_WRITES))
		return penstock_fail(err, -EINVAL,
				     "%s: was opened without PENSTOCK_WRITER_CALLER_WRITES",
				     w->path);
	return r;
}

int penstock_writer_fd(struct penstock_writer *w, struct penstock_err *err)
{
	int r = check_caller_writes(w, err), flags = r < 0 ? -1 : fcntl(w->rep.fd, F_GETFL);

	if (r < 0)
		return r;
	/* its other half is w->file, for which it may have been changed */
	if (flags < 0 || fcntl(w->rep.fd, F_SETFL, flags & ~O_DIRECT) < 0)
		return penstock_fail(err, -errno, "%s: %s", w->path, strerror(errno));
	return w->rep.fd;
}

int penstock_writer_add_checksum(struct penstock_writer *w, const void *buf, uint64_t len,
				 uint64_t offset, struct penstock_err *err)
{
	int r = check_caller_writes(w, err);

	if (r < 0 || !len)
		return r;
	r = check_range(w, buf, len, offset, err);
	if (r < 0 || w->o.flags & PENSTOCK_WRITER_NO_CRC)
		return r;
	r = crc_pieces_add(&w->pieces, offset, buf, len);
	if (r < 0)
		writer_record_errno(w, "checksum", r);
	return writer_get_error(w, err);
}

/* ------------------------------------------------------------------ opening */

void writer_free(struct penstock_writer *w)
{
	bool forked = w->pid != getpid();

	for (unsigned i = 0; w->slots && !forked && i < w->o.buffers; i++)
		writer_slot_free(&w->slots[i]);
	if (!forked) /* else the upload is the parent's */
		ckpt_upload_abort(w->up);
	penstock_file_close(w->file, NULL);
	if (!forked)
		penstock_stripe_replace_abort(&w->rep);
	penstock_replace_close(&w->rep, forked);
	crc_pieces_free(&w->pieces);
	free(w->slots);
	free(w->crcname);
	free(w->path);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wakeup);
	free(w);
}

static int load_opts(struct penstock_writer_opts *o, const struct penstock_writer_opts *user,
		     struct penstock_err *err)
{
	int r = penstock_opts_copy(o, sizeof(*o), user, err);

	if (r < 0)
		return r;
	if (!o->mode)
		o->mode = 0666;
	if (o->flags &
	    ~(PENSTOCK_WRITER_NO_SYNC | PENSTOCK_WRITER_NO_CRC | PENSTOCK_WRITER_CALLER_WRITES))
		return penstock_fail(err, -EINVAL, "flags: 0x%x has unknown bits", o->flags);
	if (o->flags & PENSTOCK_WRITER_CALLER_WRITES && o->expected)
		return penstock_fail(err, -EINVAL, "expected: what others write they reserve");
	if (o->mode > 07777)
		return penstock_fail(err, -EINVAL, "mode: 0%o is beyond 07777", o->mode);
	if (o->expected > INT64_MAX)
		return penstock_fail(err, -EINVAL, "expected: %" PRIu64 " is beyond 2^63",
				     o->expected);
	return ckpt_opts_buffers(&o->buffers, &o->buffer_bytes, BUFFER, err);
}

static int writer_make(struct penstock_writer **out, const char *path,
		       const struct penstock_writer_opts *o)
{
	struct penstock_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->o = *o;
	w->pid = getpid();
	w->rep = (struct penstock_replace)PENSTOCK_REPLACE_NONE;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wakeup, NULL);
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

/* Can there be checksums, and is there nothing else under their name? */
static int check_crcname(struct penstock_writer *w, struct penstock_err *err)
{
	struct penstock_err why = {0, ""};
	struct crcfile f;
	struct stat st;
	int r;

	if (asprintf(&w->crcname, "%s.crc", w->rep.name) < 0) {
		w->crcname = NULL;
		return penstock_fail(err, -ENOMEM, "%s: out of memory", w->path);
	}
	r = crcfile_load(&f, w->rep.dir, w->crcname, &why);
	if (r == 0)
		crcfile_free(&f);
	if (r == -ENAMETOOLONG && !(w->o.flags & PENSTOCK_WRITER_NO_CRC))
		return penstock_fail(err, r, "%s is too long a name to have a .crc beside it",
				     w->rep.name);
	if ((r == -EBADMSG && strstr(why.msg, "no file of checksums")) ||
	    (fstatat(w->rep.dir, w->crcname, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	     !S_ISREG(st.st_mode))) /* a link, which may lead to one of ours */
		return penstock_fail(
			err, -EEXIST,
			"%s.crc is there and is no file of checksums of ours: it would "
			"be replaced",
			w->path);
	return 0; /* a damaged one is replaced */
}

/* What is not supported is no failure; that there is no room is one, now instead of later. */
static int writer_reserve(struct penstock_writer *w, struct penstock_err *err)
{
	int r;

	if (!w->o.expected)
		return 0;
	do {
		r = fallocate(w->rep.fd, 0, 0, (off_t)w->o.expected) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r == 0 || r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL)
		return 0;
	return penstock_fail(err, r, "%s: there is no room for %" PRIu64 " bytes: %s", w->path,
			     w->o.expected, strerror(-r));
}

static int writer_upload_begin(struct penstock_writer *w, struct penstock_err *err)
{
	struct penstock_s3 *c = penstock_get_s3(w->io);

	if (!c)
		return penstock_fail(err, -ENOTSUP,
				     "%s: the handle has no client of object stores (objects of "
				     "struct penstock_opts)",
				     w->path);
	return ckpt_upload_open(&w->up, c, w->path, &w->o, err);
}

static int file_begin(struct penstock_writer *w, struct penstock_err *err)
{
	int r, fd;

	r = penstock_replace_open(&w->rep, w->path, w->o.mode);
	if (r == -EINVAL)
		return penstock_fail(err, r, "%s: only a regular file can be replaced", w->path);
	if (r < 0)
		return penstock_fail(err, r, "open %s: %s", w->path, strerror(-r));
	r = check_crcname(w, err);
	if (r == 0 && !(w->o.flags & PENSTOCK_WRITER_CALLER_WRITES))
		r = penstock_stripe_replace_begin(&w->rep, w->o.expected,
						  !(w->o.flags & PENSTOCK_WRITER_NO_SYNC), err);
	w->striped = r == 1;
	if (r == 0)
		r = writer_reserve(w, err);
	if (r < 0)
		return r;
	fd = fcntl(w->rep.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return penstock_fail(err, -errno, "open %s: %s", w->path, strerror(errno));
	return penstock_file_take_fd(&w->file, w->io, fd, w->path, err);
}

static int writer_begin(struct penstock_writer *w, struct penstock_err *err)
{
	int r = penstock_s3_is_uri(w->path, err);

	if (r < 0)
		return r;
	if (r && w->o.flags & PENSTOCK_WRITER_CALLER_WRITES)
		return penstock_fail(err, -EOPNOTSUPP, "%s: an object has no descriptor", w->path);
	return r ? writer_upload_begin(w, err) : file_begin(w, err);
}

int penstock_writer_open(struct penstock_writer **out, struct penstock_io *io, const char *path,
			 const struct penstock_writer_opts *opts, struct penstock_err *err)
{
	struct penstock_writer_opts o;
	struct penstock_writer *w;
	int r;

	if (!io || !path)
		return penstock_fail(err, -EINVAL, "%s: is NULL", io ? "path" : "io");
	r = load_opts(&o, opts, err);
	if (r < 0)
		return r;
	r = writer_make(&w, path, &o);
	if (r < 0)
		return penstock_fail(err, r, "%s: out of memory", path);
	w->io = io;
	r = writer_begin(w, err);
	if (r < 0)
		writer_free(w);
	else
		*out = w;
	return r;
}

void penstock_writer_abort(struct penstock_writer *w)
{
	if (!w)
		return;
	if (w->pid == getpid())
		writer_wait_all(w);
	writer_free(w);
}

void penstock_writer_remove_stale(int dir, const char *name)
{
	penstock_replace_remove_stale(dir, name, PENSTOCK_REPLACE_SUFFIX, NULL);
	penstock_stripe_remove_stale(dir, name);
}
