/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a checkpoint writer: all of it durable, and visible in one step. */
#include "ckpt/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/util.h"
#include "ckpt/ckpt_upload.h"
#include "ckpt/ckptopts.h"
#include "ckpt/crcfile.h"
#include "file/stripe.h"

/* A chunk that was written over: what counts is what is there now. */
static int reread_chunk(void *arg, uint64_t offset, uint64_t len, uint32_t *ret_crc)
{
	struct penstock_writer *w = arg;
	CLEANUP_FREE char *data = malloc(len);
	struct penstock_err err;
	int64_t n;

	if (!data)
		return writer_record_errno(w, "read", -ENOMEM);
	n = penstock_pread(w->file, data, len, offset, &err);
	if (n != (int64_t)len)
		return n < 0 ? writer_record_error(w, (int)n, err.msg)
			     : writer_record_errno(w, "read", -ENODATA);
	*ret_crc = penstock_crc32c(0, data, len);
	return 0;
}

/* Its checksums; @set has all else. */
static int make_crcs(struct penstock_writer *w, struct crc_set *set)
{
	if (w->o.flags & PENSTOCK_WRITER_NO_CRC)
		return 0;
	set->flags = 0;
	set->nr = crc_chunks(w->end);
	set->crcs = malloc(max_u64(set->nr, 1) * sizeof(*set->crcs));
	if (!set->crcs)
		return writer_record_errno(w, "commit", -ENOMEM);
	return crc_pieces_combine(&w->pieces, w->end, set->crcs, reread_chunk, w);
}

static int make_set(struct penstock_writer *w, struct crc_set *set)
{
	struct stat st;

	if (fstat(w->rep.fd, &st) < 0)
		return writer_record_errno(w, "stat", -errno);
	*set = crc_set_for_stat(&st, w->end);
	return make_crcs(w, set);
}

static int upload_commit(struct penstock_writer *w, struct crc_set *set)
{
	struct penstock_err err;
	int r;

	*set = (struct crc_set){.bytes = w->end, .flags = CRC_SET_UNKNOWN};
	r = make_crcs(w, set);
	if (r < 0)
		return r;
	r = ckpt_upload_commit(TAKE_PTR(w->up), set, &err);
	return r < 0 ? writer_record_error(w, r, err.msg) : 0;
}

/* All bytes in the file, and no more. */
static int finish_data(struct penstock_writer *w, struct crc_set *set)
{
	struct stat st;
	int r;

	writer_slot_flush(w);
	writer_wait_all(w);
	if (w->code)
		return w->code;
	if (!w->striped && fstat(w->rep.fd, &st) < 0)
		return writer_record_errno(w, "stat", -errno);
	if (w->o.flags & PENSTOCK_WRITER_CALLER_WRITES)
		w->end = (uint64_t)st.st_size;
	if (!w->striped && /* which is never longer than what was written */
	    (uint64_t)st.st_size != w->end && ftruncate(w->rep.fd, (off_t)w->end) < 0)
		return writer_record_errno(w, "truncate", -errno);
	if (w->striped && w->end < w->o.expected)
		penstock_stripe_free_unused(&w->rep);
	r = penstock_replace_copy_permissions(&w->rep);
	return r < 0 ? writer_record_errno(w, "set permissions of", r) : make_set(w, set);
}

/* Is there a FILE.crc, or may there be one? */
static bool has_crc(const struct penstock_writer *w)
{
	return faccessat(w->rep.dir, w->crcname, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	       (errno != ENOENT && errno != ENAMETOOLONG);
}

/*
 * The data durable, and meanwhile FILE.crc, if there is to be one: what two fsync(2) wait for is
 * mostly the same.
 */
static int sync_data(struct penstock_writer *w, const struct crc_set *set, struct crc_replace *next)
{
	bool sync = !(w->o.flags & PENSTOCK_WRITER_NO_SYNC);
	struct writer_slot flushing = {.w = w, .busy = sync};
	struct penstock_op op = {.opcode = PENSTOCK_SYNC,
				 .file = w->file,
				 .on_done = writer_slot_done,
				 .arg = &flushing};
	struct penstock_err err;
	int r = sync ? penstock_submit(w->io, &op, 1, NULL, &err) : 1;

	if (r != 1)
		return writer_record_error(w, r, err.msg);
	if (!(set->flags & CRC_SET_UNKNOWN) || has_crc(w)) {
		r = crc_replace_open(next, &w->rep, w->crcname, set, sync);
		if (r < 0)
			writer_record_errno(w, "write the checksums of", r);
	}
	for (unsigned i = 0; i < w->o.buffers; i++) /* takes its time, and there is some now */
		writer_slot_free(&w->slots[i]);
	pthread_mutex_lock(&w->lock);
	while (flushing.busy)
		pthread_cond_wait(&w->wakeup, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return w->code;
}

static int sync_folder(const struct penstock_writer *w)
{
	return w->o.flags & PENSTOCK_WRITER_NO_SYNC ? 0 : penstock_replace_sync_folder(w->rep.dir);
}

/*
 * FILE.crc, which describes the file that is there now and the one that will be, and then the file.
 * Under the lock of the folder: no other writer does the same meanwhile.
 */
static int publish(struct penstock_writer *w, struct crc_replace *next)
{
	bool sync = !(w->o.flags & PENSTOCK_WRITER_NO_SYNC);
	struct penstock_stripe_old old;
	int r = next->file ? crc_replace_publish(next) : 0;

	if (r == 0 && next->file)
		r = sync_folder(w);
	if (r < 0)
		return writer_record_errno(w, "write the checksums of", r);
	r = penstock_stripe_replace_publish(&w->rep, &old);
	if (r < 0) {
		penstock_stripe_replace_end(&w->rep, &old, false, sync);
		return writer_record_errno(w, "rename to", r);
	}
	r = sync_folder(w);
	penstock_stripe_replace_end(&w->rep, &old, r == 0, sync);
	if (r < 0)
		return writer_record_errno(
			w, "the new file is visible, but may not stay: fsync the folder of", r);
	if (next->file && next->set->flags & CRC_SET_UNKNOWN)
		unlinkat(w->rep.dir, w->crcname, 0);
	return 0;
}

unsigned penstock_writer_lock_ms = 120 * 1000;

/* Nobody can lock this folder, or we may not open it. */
static bool has_no_lock(int code)
{
	return code == EACCES || code == EPERM || code == EROFS || code == ENOTSUP ||
	       code == ENOSYS || code == ENOLCK || code == EINVAL;
}

/*
 * Wait for those who are at this step in the same folder, which takes each of them some
 * milliseconds, but not for ever: anybody may hold this lock.
 */
static int lock_folder(int fd)
{
	const struct timespec moment = {.tv_nsec = 2000000};

	for (uint64_t end = clock_ns() + penstock_writer_lock_ms * 1000000ull;;) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (clock_ns() > end)
			return -ETIMEDOUT;
		nanosleep(&moment, NULL);
	}
}

static void publish_locked(struct penstock_writer *w, struct crc_replace *next)
{
	/* A description of its own: that of rep.dir would be shared with a child of fork(). */
	int lock = openat(w->rep.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = lock < 0 ? -errno : lock_folder(lock);

	if (r == -ETIMEDOUT)
		writer_record_errno(w, "another program holds the lock (flock) of the folder of",
				    r);
	else if (r < 0 && !has_no_lock(-r))
		writer_record_errno(w, "lock the folder of", r);
	else
		publish(w, next);
	if (lock >= 0)
		close(lock);
}

int penstock_writer_commit(struct penstock_writer *w, struct penstock_err *err)
{
	struct crc_replace next = {0};
	struct crc_set set = {0};
	int r = writer_check(w, err);

	if (r == -ECHILD) {
		writer_free(w);
		return r;
	}
	if (r == 0 && w->up) {
		upload_commit(w, &set);
	} else if (!w->up) {
		r = finish_data(w, &set);
		if (r == 0)
			r = sync_data(w, &set, &next);
		if (r == 0)
			publish_locked(w, &next);
	}
	r = writer_get_error(w, err);
	crc_replace_close(&next);
	free(set.crcs);
	writer_free(w);
	return r;
}
