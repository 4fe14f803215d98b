/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/ckpt_upload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/keyhash.h"
#include "base/util.h"

enum {
	TRIES = 64,         /* others may replace FILE.crc while it is read and written */
	FILE_MAX = 1 << 30, /* of FILE.crc, as of a file */
	PART_MIN = 5 << 20, /* of an upload */
	PART_MAX = 1 << 30,
};

struct ckpt_upload {
	struct penstock_s3 *c;
	struct penstock_s3_upload *up;
	char *uri, *crcuri;
};

/* --------------------------------------------------------------------- checksums */

struct crc_set crc_set_for_object(const struct penstock_s3_info *info)
{
	uint64_t hash = penstock_key_hash(info->etag, strlen(info->etag), 0);

	return (struct crc_set){
		.bytes = info->bytes, .inode = hash ? hash : 1, .flags = CRC_SET_UNKNOWN};
}

/* Is it of an object that nobody has seen yet? */
static bool is_announced(const struct crc_set *s)
{
	return s->inode == 0;
}

/* One try; -ESTALE: it was replaced meanwhile. */
static int load_once(struct crc_object *out, struct penstock_s3 *c, const char *crcuri,
		     struct penstock_err *err)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	const char *why = "it is no file of checksums";
	CLEANUP_FREE char *data = NULL;
	int64_t n;
	int r = penstock_s3_stat(c, crcuri, &info, err);

	*out = (struct crc_object){.exists = r == 0};
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	memcpy(out->etag, info.etag, sizeof(out->etag));
	if (info.bytes > FILE_MAX)
		return penstock_fail(err, -EBADMSG, "%s: %s", crcuri, why);
	data = malloc(info.bytes + 1);
	if (!data)
		return penstock_fail(err, -ENOMEM, "%s: out of memory", crcuri);
	n = penstock_s3_read(c, crcuri, data, info.bytes, 0, info.etag, err);
	if (n < 0)
		return n == -ENOENT ? -ESTALE : (int)n;
	r = crcfile_parse(&out->f, data, (size_t)n, &why);
	return r < 0 ? penstock_fail(err, r, "%s: %s", crcuri, r == -EBADMSG ? why : strerror(-r))
		     : 0;
}

static int load_crc_object(struct crc_object *out, struct penstock_s3 *c, const char *crcuri,
			   struct penstock_err *err)
{
	int r = -ESTALE;

	for (unsigned i = 0; i < TRIES && r == -ESTALE; i++)
		r = load_once(out, c, crcuri, err);
	return r;
}

int crc_object_load(struct crc_object *out, struct penstock_s3 *c, const char *uri,
		    struct penstock_err *err)
{
	CLEANUP_FREE char *crcuri = NULL;

	if (asprintf(&crcuri, "%s.crc", uri) < 0) {
		crcuri = NULL;
		return penstock_fail(err, -ENOMEM, "%s: out of memory", uri);
	}
	return load_crc_object(out, c, crcuri, err);
}

/* What FILE.crc is going to say. */
struct crc_sets {
	struct crc_set sets[CRC_SETS_MAX];
	unsigned nr;
};

/*
 * Where it is full one goes: the oldest of a writer that has not come, and died long ago as one may
 * think; not one that may be of @now.
 */
static void crc_sets_add(struct crc_sets *t, const struct crc_set *s, const struct crc_set *now)
{
	unsigned i = 0;

	if (t->nr == CRC_SETS_MAX - 1) {
		while (i < t->nr - 1 &&
		       (!is_announced(&t->sets[i]) || (now && t->sets[i].bytes == now->bytes)))
			i++;
		memmove(t->sets + i, t->sets + i + 1, (--t->nr - i) * sizeof(*t->sets));
	}
	t->sets[t->nr++] = *s;
}

/*
 * The sets of @f that may be of what is there (@now, or NULL: nothing) or is about to come.  Its
 * own is known, or is one of those of its size; of more than can be kept it is none, and nothing is
 * known of it from here on.
 */
static void crc_sets_keep(struct crc_sets *t, const struct crcfile *f, const struct crc_set *now)
{
	unsigned same = 0;
	bool exact = false;

	for (unsigned i = 0; now && i < f->nr; i++) {
		same += f->sets[i].bytes == now->bytes;
		exact |= f->sets[i].inode == now->inode && f->sets[i].bytes == now->bytes;
	}
	if (now && !exact && (!same || same >= CRC_SETS_MAX - 1)) {
		crc_sets_add(t, now, NULL);
		exact = true;
	}
	for (unsigned i = 0; i < f->nr; i++) {
		const struct crc_set *s = &f->sets[i];
		bool its = now && s->bytes == now->bytes && (!exact || s->inode == now->inode);

		if (its || is_announced(s))
			crc_sets_add(t, s, exact ? NULL : now);
	}
}

static int put_crc_object(const struct ckpt_upload *u, const struct crc_sets *t,
			  const struct crc_object *over, struct penstock_s3_info *info,
			  struct penstock_err *err)
{
	CLEANUP_FREE void *data = NULL;
	size_t len;

	data = crcfile_format(t->sets, t->nr, &len);
	if (!data)
		return penstock_fail(err, -ENOMEM, "%s: out of memory", u->crcuri);
	return penstock_s3_put(u->c, u->crcuri, data, len, over->exists ? 0 : PENSTOCK_S3_NEW,
			       over->exists ? over->etag : NULL, info, err);
}

/* One try to announce @set; leaves in @over what is there now, for what follows. */
static int announce_once(const struct ckpt_upload *u, const struct crc_set *set,
			 struct crc_object *over, struct penstock_err *err)
{
	struct penstock_s3_info now = {.size = sizeof(now)}, put = {.size = sizeof(put)};
	struct crc_sets t = {.nr = 0};
	struct crc_set is;
	int r = load_crc_object(over, u->c, u->crcuri, err), found;

	if (r == -EBADMSG) /* a damaged one is replaced */
		r = 0;
	if (r < 0 || (!over->exists && set->flags & CRC_SET_UNKNOWN))
		return r;
	found = penstock_s3_stat(u->c, u->uri, &now, err);
	if (found < 0 && found != -ENOENT)
		return found;
	is = crc_set_for_object(&now);
	crc_sets_keep(&t, &over->f, found == 0 ? &is : NULL);
	t.sets[t.nr++] = *set;
	r = put_crc_object(u, &t, over, &put, err);
	if (r == 0) {
		over->exists = true;
		memcpy(over->etag, put.etag, sizeof(over->etag));
	}
	return r;
}

/* FILE.crc with @set of an object that is about to come. */
static int announce(const struct ckpt_upload *u, const struct crc_set *set, struct crc_object *over,
		    struct penstock_err *err)
{
	int r = -ESTALE;

	for (unsigned i = 0; i < TRIES && (r == -ESTALE || r == -EEXIST || r == -ENOENT); i++) {
		crcfile_free(&over->f);
		r = announce_once(u, set, over, err);
	}
	return r;
}

/*
 * The object is there: say that the set is its, and forget that of the one before.  What fails here
 * leaves a FILE.crc that is right, but has more sets than it needs.
 */
static void confirm(const struct ckpt_upload *u, const struct crc_set *set,
		    const struct crc_object *over, const struct penstock_s3_info *info)
{
	const char *crcuri = u->crcuri;
	struct crc_sets t = {.nr = 0};
	struct crc_set mine = *set;

	if (!over->exists)
		return;
	if (set->flags & CRC_SET_UNKNOWN) {
		penstock_s3_delete(u->c, &crcuri, 1, NULL);
		return;
	}
	if (!info->etag[0] || !over->etag[0]) /* there are such servers */
		return;
	mine.inode = crc_set_for_object(info).inode;
	mine.mtime_ns = 0;
	crc_sets_keep(&t, &over->f, NULL);
	t.sets[t.nr++] = mine;
	put_crc_object(u, &t, over, NULL, NULL);
}

/* --------------------------------------------------------------------- the object */

static void upload_free(struct ckpt_upload *u)
{
	free(u->uri);
	free(u->crcuri);
	free(u);
}

/* Is there something under the name of the checksums that is none? */
static int check_crcname(const struct ckpt_upload *u, struct penstock_err *err)
{
	struct penstock_err why = {0, ""};
	struct crc_object over;
	int r = load_crc_object(&over, u->c, u->crcuri, &why);

	if (r == 0)
		crcfile_free(&over.f);
	if (r == -EBADMSG && strstr(why.msg, "no file of checksums"))
		return penstock_fail(err, -EEXIST,
				     "%s is there and is no file of checksums of ours: it would be "
				     "replaced",
				     u->crcuri);
	return r == 0 || r == -EBADMSG ? 0 : penstock_fail(err, r, "%s", why.msg);
}

static int ckpt_upload_begin(struct ckpt_upload *u, const struct penstock_writer_opts *o,
			     struct penstock_err *err)
{
	struct penstock_s3_upload_opts up = PENSTOCK_S3_UPLOAD_OPTS_INIT;
	int r = check_crcname(u, err);

	up.part = min_u64(max_u64(o->buffer_bytes, PART_MIN), PART_MAX);
	up.in_flight = o->buffers;
	up.expected = o->expected;
	return r < 0 ? r : penstock_s3_upload_open(&u->up, u->c, u->uri, &up, err);
}

int ckpt_upload_open(struct ckpt_upload **out, struct penstock_s3 *c, const char *uri,
		     const struct penstock_writer_opts *o, struct penstock_err *err)
{
	struct ckpt_upload *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return penstock_fail(err, -ENOMEM, "%s: out of memory", uri);
	u->c = c;
	u->uri = strdup(uri);
	if (asprintf(&u->crcuri, "%s.crc", uri) < 0)
		u->crcuri = NULL;
	if (u->uri && u->crcuri)
		r = ckpt_upload_begin(u, o, err);
	else
		r = penstock_fail(err, -ENOMEM, "%s: out of memory", uri);
	if (r < 0)
		upload_free(u);
	else
		*out = u;
	return r;
}

int ckpt_upload_write(struct ckpt_upload *u, const void *buf, uint64_t len,
		      struct penstock_err *err)
{
	return penstock_s3_upload_write(u->up, buf, len, err);
}

int ckpt_upload_commit(struct ckpt_upload *u, const struct crc_set *set, struct penstock_err *err)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct crc_object over = {.exists = false};
	struct crc_set pending = *set;
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	pending.inode = 0;
	pending.mtime_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
	r = announce(u, &pending, &over, err);
	if (r == 0)
		r = penstock_s3_upload_commit(TAKE_PTR(u->up), &info, err);
	if (r == 0)
		confirm(u, set, &over, &info);
	crcfile_free(&over.f);
	ckpt_upload_abort(u);
	return r;
}

void ckpt_upload_abort(struct ckpt_upload *u)
{
	if (!u)
		return;
	penstock_s3_upload_abort(u->up);
	upload_free(u);
}
