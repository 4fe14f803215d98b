/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint reader's beginning, where file and checksums must belong together, and its end. */
#include "ckpt/reader.h"

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
#include "base/replace.h"
#include "base/util.h"
#include "ckpt/ckpt_upload.h"
#include "ckpt/ckptopts.h"

enum {
	BUFFER = 8 << 20,
	OPEN_TRIES = 16,
};

/*
 * Of the checksums that were loaded, those of the file @is.  1: there are some, 0: nothing is known
 * of it; -ENOENT: they are of others.  *@ret_own: it is the file they were made of, not one of the
 * same size.
 */
static int pick_crc_sets(struct penstock_reader *r, const struct crc_set *is, bool *ret_own)
{
	bool none = false;

	*ret_own = crcfile_select_sets(&r->crc, is);
	for (unsigned i = 0; i < r->crc.nr; i++)
		none |= r->crc.sets[i].flags & CRC_SET_UNKNOWN;
	if (r->crc.nr && !none)
		return 1;
	crcfile_free(&r->crc);
	return none ? 0 : -ENOENT;
}

static int other_size(const struct penstock_reader *r, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	const char *base = strrchr(r->path, '/') ? strrchr(r->path, '/') + 1 : r->path;

	return penstock_fail(
		err, -EBADMSG,
		"%s has %" PRIu64 " bytes and %s.crc describes a file of another size: it was "
		"written by another program, or cut; remove %s.crc, or read without verification",
		penstock_shorten_name(&short_name, r->path), r->bytes, base, base);
}

/* Does the name stand for another file than this one by now? */
static bool is_other(int dir, const char *name, const struct stat *st)
{
	struct stat now;

	return fstatat(dir, name, &now, 0) < 0 || now.st_ino != st->st_ino ||
	       now.st_dev != st->st_dev;
}

/*
 * The checksums of the file that is open, and is @st.  -EAGAIN: it has been replaced meanwhile;
 * what is there may be of two later ones, of the same size.
 */
static int load_crc_file(struct penstock_reader *r, int dir, const char *name,
			 const struct stat *st, struct penstock_err *err)
{
	const struct crc_set is = crc_set_for_stat(st, r->bytes);
	CLEANUP_FREE char *crcname = NULL;
	bool own = false;
	int e;

	if (asprintf(&crcname, "%s.crc", name) < 0) {
		crcname = NULL;
		return penstock_fail(err, -ENOMEM, "%s: out of memory", r->path);
	}
	e = crcfile_load(&r->crc, dir, crcname, err);
	if (e < 0 && e != -ENOENT && e != -ENAMETOOLONG)
		return e;
	e = e < 0 ? 0 : pick_crc_sets(r, &is, &own);
	if (own)
		return 0;
	if (is_other(dir, name, st)) {
		crcfile_free(&r->crc);
		return -EAGAIN;
	}
	return e < 0 ? other_size(r, err) : 0;
}

/*
 * The checksums of an object that was @was before it was opened.  -EAGAIN: it has been replaced
 * meanwhile.
 */
static int load_crc_object(struct penstock_reader *r, struct penstock_s3 *c,
			   const struct penstock_s3_info *was, struct penstock_err *err)
{
	struct penstock_s3_info now = {.size = sizeof(now)};
	struct crc_set is = crc_set_for_object(was);
	struct crc_object crc;
	bool own;
	int e = crc_object_load(&crc, c, r->path, err);

	if (e < 0)
		return e;
	r->crc = crc.f;
	e = crc.exists ? pick_crc_sets(r, &is, &own) : 0;
	if (e == 0)
		return 0;
	if (penstock_s3_stat(c, r->path, &now, NULL) < 0 || strcmp(now.etag, was->etag) != 0) {
		crcfile_free(&r->crc);
		return -EAGAIN;
	}
	return e > 0 ? 0 : other_size(r, err);
}

/* One try. */
static int open_object(struct penstock_reader *r, struct penstock_err *err)
{
	struct penstock_s3 *c = penstock_get_s3(r->io);
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_s3_info was = {.size = sizeof(was)};
	bool verify = c && r->o.verify != PENSTOCK_VERIFY_NEVER;
	int e = verify ? penstock_s3_stat(c, r->path, &was, err) : 0;

	if (e == 0)
		e = penstock_file_open(&r->file, r->io, r->path, O_RDONLY, 0, err);
	if (e < 0)
		return e;
	penstock_file_stat(r->file, &info);
	r->bytes = info.bytes;
	e = verify ? load_crc_object(r, c, &was, err) : 0;
	if (e < 0)
		penstock_file_close(TAKE_PTR(r->file), NULL);
	return e;
}

/* One try. */
static int open_data(struct penstock_reader *r, struct penstock_err *err)
{
	CLEANUP_FREE char *name = NULL;
	CLEANUP_CLOSE int dir = -1;
	CLEANUP_CLOSE int fd = -1;
	struct penstock_file_info info = {.size = sizeof(info)};
	struct stat st;
	int e = penstock_replace_resolve_path(r->path, &dir, &name), taken;

	if (e < 0)
		return penstock_fail(err, e, "open %s: %s", r->path, strerror(-e));
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return penstock_fail(err, -errno, "open %s: %s", r->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return penstock_fail(err, -EINVAL, "%s: is no regular file", r->path);
	/* It was for what is no file; with it io_uring answers instead of waiting for the disk. */
	if (fcntl(fd, F_SETFL, O_RDONLY) < 0)
		return penstock_fail(err, -errno, "open %s: %s", r->path, strerror(errno));
	taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (taken < 0)
		return penstock_fail(err, -errno, "open %s: %s", r->path, strerror(errno));
	e = penstock_file_take_fd(&r->file, r->io, taken, r->path, err);
	if (e < 0) /* the members of a striped one go when it is replaced */
		return is_other(dir, name, &st) ? -EAGAIN : e;
	r->bytes = penstock_file_stat(r->file, &info) == 0 ? info.bytes : (uint64_t)st.st_size;
	e = r->o.verify != PENSTOCK_VERIFY_NEVER ? load_crc_file(r, dir, name, &st, err) : 0;
	if (e < 0)
		penstock_file_close(TAKE_PTR(r->file), NULL);
	return e;
}

static int load_opts(struct penstock_reader_opts *o, const struct penstock_reader_opts *user,
		     struct penstock_err *err)
{
	int r = penstock_opts_copy(o, sizeof(*o), user, err);

	if (r < 0)
		return r;
	if (o->flags)
		return penstock_fail(err, -EINVAL, "flags: 0x%x has unknown bits", o->flags);
	if (o->verify > PENSTOCK_VERIFY_NEVER)
		return penstock_fail(err, -EINVAL,
				     "verify: %u is none of PENSTOCK_VERIFY_AUTO, _ALWAYS, _NEVER",
				     o->verify);
	return ckpt_opts_buffers(&o->buffers, &o->buffer_bytes, BUFFER, err);
}

int penstock_reader_open(struct penstock_reader **out, struct penstock_io *io, const char *path,
			 const struct penstock_reader_opts *opts, struct penstock_err *err)
{
	struct penstock_reader_opts o;
	struct penstock_reader *r;
	int e, object;

	if (!io || !path)
		return penstock_fail(err, -EINVAL, "%s: is NULL", io ? "path" : "io");
	object = penstock_s3_is_uri(path, err);
	e = object < 0 ? object : load_opts(&o, opts, err);
	if (e < 0)
		return e;
	r = calloc(1, sizeof(*r));
	if (r)
		r->path = strdup(path);
	if (!r || !r->path) {
		free(r);
		return penstock_fail(err, -ENOMEM, "%s: out of memory", path);
	}
	r->io = io;
	r->o = o;
	r->ahead = READER_AHEAD_FIRST;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wakeup, NULL);
	e = -EAGAIN;
	for (unsigned i = 0; i < OPEN_TRIES && e == -EAGAIN; i++)
		e = object ? open_object(r, err) : open_data(r, err);
	if (e == -EAGAIN)
		e = penstock_fail(err, -EBUSY, "%s: is replaced again and again", path);
	if (e == 0 && o.verify == PENSTOCK_VERIFY_ALWAYS && !r->crc.nr)
		e = penstock_fail(err, -ENODATA, "%s: there are no checksums to verify it with",
				  path);
	r->matching_sets = (1u << r->crc.nr) - 1;
	if (e < 0)
		penstock_reader_close(r);
	else
		*out = r;
	return e;
}

void penstock_reader_close(struct penstock_reader *r)
{
	if (!r)
		return;
	reader_wait_all(r);
	if (r->pinned)
		penstock_gpu_unpin(r->pool);
	if (r->pool)
		penstock_buf_free(r->io, r->pool);
	penstock_file_close(r->file, NULL);
	crcfile_free(&r->crc);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->wakeup);
	free(r->path);
	free(r);
}
