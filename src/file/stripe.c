/* SPDX-License-Identifier: Apache-2.0 */
/* An open striped file: its members opened and verified, and what concerns all of them. */
#include "file/stripe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"

/* ------------------------------------------------------------- one member */

/* Memory for a header as O_DIRECT will have it, and @len of it that is read and written. */
static char *alloc_header(const struct penstock_backing *b, size_t *len)
{
	*len = max_u64(MEMBER_HEADER_BYTES, b->write_align);
	return aligned_alloc(max_u64(MEMBER_HEADER_BYTES, b->mem_align),
			     *len + MEMBER_HEADER_BYTES);
}

int penstock_member_header_read(const struct penstock_backing *b,
				struct penstock_member_header *out)
{
	size_t len;
	CLEANUP_FREE char *buf = alloc_header(b, &len);
	int64_t n;

	memset(out, 0, sizeof(*out));
	if (!buf)
		return -ENOMEM;
	memset(buf, 0, len + MEMBER_HEADER_BYTES);
	n = penstock_full_pread(b->fd, buf, len, 0);
	if (n < 0)
		return (int)n;
	if (n >= MEMBER_HEADER_BYTES)
		penstock_member_header_parse(out, buf);
	return 0;
}

int penstock_member_header_write(const struct penstock_backing *b,
				 const struct penstock_member_header *head)
{
	size_t len;
	CLEANUP_FREE char *buf = alloc_header(b, &len);
	int r;

	if (!buf)
		return -ENOMEM;
	memset(buf, 0, len);
	r = head ? penstock_member_header_format(head, buf) : 0;
	return r < 0 ? r : penstock_full_pwrite(b->fd, buf, len, 0);
}

int64_t penstock_member_bytes(const struct penstock_backing *b)
{
	int64_t size = penstock_backing_size(b);

	return size < 0 ? size : size > (int64_t)STRIPE_DATA ? size - (int64_t)STRIPE_DATA : 0;
}

static int fail_foreign(struct penstock_err *err, uint32_t *state, unsigned i,
			const struct penstock_manifest *m, const char *what)
{
	struct penstock_short_name short_name;

	*state = PENSTOCK_MEMBER_FOREIGN;
	return penstock_fail(err, -EBADMSG, "member %u of %u, %s: %s", i + 1, m->nr,
			     penstock_shorten_name(&short_name, m->members[i]), what);
}

int penstock_member_verify(const struct penstock_manifest *m, unsigned i,
			   struct penstock_backing *b, struct penstock_member_header *out,
			   uint32_t *state, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	int r = penstock_member_header_read(b, out);

	*state = PENSTOCK_MEMBER_MISSING;
	if (r < 0)
		return penstock_fail(
			err, r, "member %u of %u, %s: its header cannot be read: %s", i + 1, m->nr,
			penstock_shorten_name(&short_name, m->members[i]), strerror(-r));
	if (!out->id[0])
		return fail_foreign(err, state, i, m, "is foreign: it has no header of a member");
	if (strcmp(out->id, m->id))
		return fail_foreign(err, state, i, m,
				    "is foreign: it belongs to another striped file");
	if (out->unit != m->unit || out->nr != m->nr)
		return fail_foreign(err, state, i, m,
				    "is foreign: unit or number of members differ");
	*state = PENSTOCK_MEMBER_EXCHANGED;
	if (out->index != i)
		return penstock_fail(
			err, -EBADMSG, "member %u of %u, %s: is exchanged: it is member %u", i + 1,
			m->nr, penstock_shorten_name(&short_name, m->members[i]), out->index + 1);
	*state = PENSTOCK_MEMBER_GOOD;
	return 0;
}

int penstock_member_check_size(const struct penstock_manifest *m, unsigned i,
			       const struct penstock_backing *b, uint64_t recorded_bytes,
			       struct penstock_err *err)
{
	const struct penstock_stripe t = {.nr = m->nr, .unit = m->unit};
	uint64_t share = penstock_stripe_member_bytes(&t, i, recorded_bytes);
	int64_t size = penstock_backing_size(b);
	struct penstock_short_name short_name;

	if (size >= 0 && (uint64_t)size >= STRIPE_DATA + share)
		return 0;
	return penstock_fail(err, size < 0 ? (int)size : -ENODATA,
			     "member %u of %u, %s: is short: it has %" PRId64 " bytes, and %" PRIu64
			     " belong to it",
			     i + 1, m->nr, penstock_shorten_name(&short_name, m->members[i]), size,
			     (uint64_t)STRIPE_DATA + share);
}

/* ---------------------------------------------------------- the lock, sizes */

/*
 * One writer at a time changes sizes.  The lock of the file goes with the open file: it keeps out
 * other processes and other openings in this one, but not threads that share this one.  Where
 * there are no locks it goes without.
 */
static void stripe_lock(struct penstock_stripe *t, short how)
{
	struct flock l = {.l_type = how, .l_whence = SEEK_SET, .l_len = 1};

	if (how != F_UNLCK)
		pthread_mutex_lock(&t->lock);
	while (fcntl(t->members[0].fd, F_OFD_SETLKW, &l) < 0 && errno == EINTR)
		;
	if (how == F_UNLCK)
		pthread_mutex_unlock(&t->lock);
}

int64_t penstock_stripe_size(const struct penstock_stripe *t)
{
	uint64_t size = t->limit ? t->limit : INT64_MAX;
	int64_t bytes;

	for (unsigned i = 0; !t->limit && i < t->nr; i++) {
		bytes = penstock_member_bytes(&t->members[i]);
		if (bytes < 0)
			return bytes;
		size = min_u64(size, penstock_stripe_offset(t, i, (uint64_t)bytes));
	}
	return (int64_t)size;
}

static int set_size(const struct penstock_backing *b, uint64_t size)
{
	int r;

	do {
		r = ftruncate(b->fd, (off_t)size);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

/* Under the lock.  @only_shorter: what has less stays. */
static int set_sizes(const struct penstock_stripe *t, uint64_t size, bool only_shorter)
{
	int r = 0;

	for (unsigned i = 0; i < t->nr && !r; i++) {
		uint64_t want = STRIPE_DATA + penstock_stripe_member_bytes(t, i, size);
		int64_t now = penstock_backing_size(&t->members[i]);

		if (now < 0)
			r = (int)now;
		else if ((uint64_t)now > want || ((uint64_t)now < want && !only_shorter))
			r = set_size(&t->members[i], want);
	}
	return r;
}

/* Under the lock, if that is shorter than what the header says, or longer. */
static int write_recorded_bytes(const struct penstock_stripe *t, uint64_t size, bool shorter)
{
	struct penstock_member_header head;
	int r = penstock_member_header_read(&t->members[0], &head);

	if (r < 0 || !head.id[0] ||
	    (shorter ? head.recorded_bytes <= size : head.recorded_bytes >= size))
		return r;
	head.recorded_bytes = size;
	return penstock_member_header_write(&t->members[0], &head);
}

int penstock_stripe_truncate(struct penstock_stripe *t, uint64_t size)
{
	int r;

	if (t->limit)
		return 0;
	stripe_lock(t, F_WRLCK);
	r = write_recorded_bytes(t, size, true); /* first, so that nothing is ever short */
	if (!r)
		r = set_sizes(t, size, false);
	stripe_lock(t, F_UNLCK);
	if (!r)
		atomic_store(&t->size_unrecorded, true);
	return r;
}

int penstock_stripe_record_size(struct penstock_stripe *t, uint64_t synced, bool sync)
{
	int64_t size;
	int r;

	if (sync && atomic_exchange(&t->manifest_unsynced, false) && fdatasync(t->file) < 0)
		return -errno;
	if (!atomic_exchange(&t->size_unrecorded, false))
		return 0;
	stripe_lock(t, F_WRLCK);
	size = penstock_stripe_size(t);
	r = size < 0 ? (int)size : write_recorded_bytes(t, min_u64((uint64_t)size, synced), false);
	stripe_lock(t, F_UNLCK);
	if (!r && sync && fdatasync(t->members[0].fd) < 0)
		r = -errno;
	if (r < 0 || synced < (uint64_t)size)
		atomic_store(&t->size_unrecorded, true);
	return r;
}

/* Space for [from, to) of member @i.  1: the file system knows no such thing. */
static int stripe_reserve(const struct penstock_backing *b, uint64_t from, uint64_t to)
{
	int r;

	do {
		r = fallocate(b->fd, 0, (off_t)from, (off_t)(to - from));
	} while (r < 0 && errno == EINTR);
	if (!r)
		return 0;
	return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == EPERM ? 1
											   : -errno;
}

static int reserve_all(const struct penstock_stripe *t, uint64_t from, uint64_t end, bool *unable)
{
	int r = 0;

	for (unsigned i = 0; i < t->nr && r >= 0 && !*unable; i++) {
		uint64_t a = penstock_stripe_member_bytes(t, i, from),
			 z = penstock_stripe_member_bytes(t, i, end);

		r = z > a ? stripe_reserve(&t->members[i], STRIPE_DATA + a, STRIPE_DATA + z) : 0;
		*unable |= r > 0;
	}
	/* Those of which nothing will be written grow as well, or the whole would end there. */
	for (unsigned i = 0; i < t->nr && r >= 0; i++) {
		uint64_t want = STRIPE_DATA + penstock_stripe_member_bytes(t, i, end);
		int64_t now = penstock_backing_size(&t->members[i]);

		r = now < 0 ? (int)now : (uint64_t)now < want ? set_size(&t->members[i], want) : 0;
	}
	return r < 0 ? r : 0;
}

int penstock_stripe_reserve(struct penstock_stripe *t, uint64_t from, uint64_t end, bool *unable)
{
	int64_t before;
	int r;

	stripe_lock(t, F_WRLCK);
	before = penstock_stripe_size(t);
	r = before < 0 ? (int)before : reserve_all(t, from, end, unable);
	if (r < 0 && before >= 0)
		set_sizes(t, (uint64_t)before, true);
	stripe_lock(t, F_UNLCK);
	if (!r)
		atomic_store(&t->size_unrecorded, true);
	return r;
}

/* ---------------------------------------------------------- open and close */

/* What holds for all: the strictest of their alignments, and O_DIRECT if all have it. */
static void merge_limits(struct penstock_backing *s, const struct penstock_backing *b)
{
	s->mem_align = (uint32_t)max_u64(s->mem_align, b->mem_align);
	s->off_align = (uint32_t)max_u64(s->off_align, b->off_align);
	s->write_align = (uint32_t)max_u64(s->write_align, b->write_align);
	s->fuse |= b->fuse;
	if (s->direct && !b->direct) {
		memcpy(s->why, b->why, sizeof(s->why));
		s->direct = false;
	}
}

void penstock_stripe_drop_direct(struct penstock_backing *s)
{
	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->stripe->nr; i++)
		if (s->direct && !s->stripe->members[i].direct) {
			memcpy(s->why, s->stripe->members[i].why, sizeof(s->why));
			s->direct = false;
		}
	pthread_mutex_unlock(&s->lock);
}

/* Sizes of files as a writer that was killed may have left them, or the size of the whole. */
static int equalize_sizes(const struct penstock_backing *s, struct penstock_stripe *t)
{
	int64_t least = INT64_MAX, size;

	if (s->device) {
		for (unsigned i = 0; i < t->nr; i++)
			least = (int64_t)min_u64((uint64_t)least,
						 (uint64_t)penstock_member_bytes(&t->members[i]));
		t->limit = align_down((uint64_t)least, t->unit) * t->nr;
		return t->limit ? 0 : -ENOSPC;
	}
	if (s->access == O_RDONLY)
		return 0;
	stripe_lock(t, F_WRLCK);
	size = penstock_stripe_size(t);
	if (size >= 0)
		size = set_sizes(t, (uint64_t)size, true);
	stripe_lock(t, F_UNLCK);
	return (int)size;
}

/* Have all members what belongs to them?  Not while another changes sizes. */
static int check_member_sizes(struct penstock_stripe *t, struct penstock_err *err)
{
	struct penstock_member_header head;
	int r;

	stripe_lock(t, F_RDLCK);
	r = penstock_member_header_read(&t->members[0], &head);
	if (r < 0)
		penstock_fail(err, r, "%s: %s", t->manifest->members[0], strerror(-r));
	for (unsigned i = 0; i < t->nr && !r; i++)
		r = penstock_member_check_size(t->manifest, i, &t->members[i], head.recorded_bytes,
					       err);
	stripe_lock(t, F_UNLCK);
	return r;
}

/* The next member: open and verified; t->nr counts it. */
static int open_member(struct penstock_backing *s, struct penstock_stripe *t, uint32_t direct,
		       struct penstock_err *err)
{
	const struct penstock_manifest *m = t->manifest;
	struct penstock_backing *b = &t->members[t->nr];
	int flags = s->access == O_RDONLY ? O_RDONLY : O_RDWR;
	struct penstock_member_header head;
	struct penstock_err why;
	unsigned i = t->nr;
	uint32_t state;
	int r;

	r = penstock_backing_open_member(b, m->members[i], flags | (s->synced ? O_DSYNC : 0),
					 direct, &why);
	if (r < 0)
		return penstock_fail(err, r, "member %u of %u, %s", i + 1, m->nr, why.msg);
	t->nr++;
	r = penstock_member_verify(m, i, b, &head, &state, err);
	if (r < 0)
		return r;
	if (i == 0)
		s->device = b->device;
	if (b->device != s->device)
		return penstock_fail(err, -EBADMSG, "member %u of %u, %s: is %s block device",
				     i + 1, m->nr, m->members[i], b->device ? "a" : "no");
	if (t->unit % b->write_align)
		return penstock_fail(
			err, -EINVAL,
			"member %u of %u, %s: needs units of a multiple of %u, not %" PRIu64, i + 1,
			m->nr, m->members[i], b->write_align, t->unit);
	merge_limits(s, b);
	return 0;
}

static void stripe_free(struct penstock_stripe *t)
{
	penstock_manifest_free(t->manifest);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int penstock_stripe_open(struct penstock_backing *s, struct penstock_manifest *m, const char *name,
			 uint32_t direct, struct penstock_err *err)
{
	struct penstock_stripe *t = calloc(1, sizeof(*t) + m->nr * sizeof(t->members[0]));
	struct penstock_err why = {-ENOMEM, "out of memory"};
	int r = t ? 0 : -ENOMEM;

	if (!t) {
		penstock_manifest_free(m);
		return penstock_fail(err, r, "%s: out of memory", name);
	}
	pthread_mutex_init(&t->lock, NULL);
	t->manifest = m;
	t->file = s->fd;
	t->unit = m->unit;
	s->direct = direct != PENSTOCK_DIRECT_NEVER;
	s->mem_align = s->off_align = s->write_align = 1;
	s->why[0] = '\0';
	while (!r && t->nr < m->nr)
		r = open_member(s, t, direct, &why);
	if (!r && !s->device)
		r = check_member_sizes(t, &why);
	if (!r) {
		r = equalize_sizes(s, t);
		if (r < 0)
			penstock_fail(&why, r, "the sizes of its members: %s", strerror(-r));
	}
	if (r < 0) {
		for (unsigned i = 0; i < t->nr; i++)
			penstock_backing_close(&t->members[i]);
		stripe_free(t);
		return penstock_fail(err, r, "%s: %s", name, why.msg);
	}
	s->stripe = t;
	return 0;
}

int penstock_stripe_close(struct penstock_backing *s)
{
	struct penstock_stripe *t = s->stripe;
	int r = penstock_stripe_record_size(t, UINT64_MAX, false), r2;

	for (unsigned i = 0; i < t->nr; i++) {
		r2 = penstock_backing_close(&t->members[i]);
		r = r < 0 ? r : r2;
	}
	stripe_free(t);
	s->stripe = NULL;
	return r;
}
