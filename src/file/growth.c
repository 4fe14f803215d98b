/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that grow.  An O_DIRECT write beyond the end of a file is done
 * synchronously inside the submitting call on ext4 and XFS, so space is
 * allocated first, which also finds a full file system before any byte moves.
 * It moves the end of the file ahead of the data; if the data then does not
 * come, the end is put back to where the data does.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/full_io.h"
#include "base/util.h"
#include "file/backing.h"
#include "file/stripe.h"

enum { BLOCK = 4096 }; /* of file systems; a larger one only keeps a little more */

struct penstock_growth *penstock_growth_get(struct penstock_growth **list, dev_t dev, ino_t ino)
{
	struct penstock_growth *x;

	for (x = *list; x; x = x->next)
		if (x->dev == dev && x->ino == ino)
			break;
	if (!x) {
		x = calloc(1, sizeof(*x));
		if (!x)
			return NULL;
		x->dev = dev;
		x->ino = ino;
		pthread_mutex_init(&x->lock, NULL);
		penstock_overlap_init(&x->overlap);
		x->next = *list;
		*list = x;
	}
	x->refs++;
	return x;
}

void penstock_growth_put(struct penstock_growth **list, struct penstock_growth *x)
{
	if (!x || --x->refs)
		return;
	while (*list != x)
		list = &(*list)->next;
	*list = x->next;
	pthread_mutex_destroy(&x->lock);
	penstock_overlap_fini(&x->overlap);
	free(x);
}

/* End of the bytes in [from, to), part of a block, that are not zero; 0 when all are.  What cannot
 * be read may be data. */
static uint64_t end_of_bytes(int fd, uint64_t from, uint64_t to)
{
	unsigned char part[BLOCK];
	int64_t n = to > from ? penstock_full_pread(fd, part, to - from, from) : 0;

	if (n < 0)
		return to;
	while (n > 0 && !part[n - 1])
		n--;
	return n > 0 ? from + (uint64_t)n : 0;
}

/*
 * Somebody else (another process, another handle) may have written between the
 * end of our data and the start of what failed; reserved space that nobody wrote
 * reads as a hole.  SEEK_DATA counts in blocks, so the parts of blocks at either
 * end are looked at by byte.  Returns the end of the last data there, at least @end.
 */
static uint64_t end_in_file(const struct penstock_backing *s, uint64_t end, uint64_t limit)
{
	int fd = penstock_backing_reopen(s, O_RDONLY); /* its offset is ours to move */
	uint64_t first = min_u64(align_up(end, BLOCK), limit);
	uint64_t last = max_u64(align_down(limit, BLOCK), first);
	off_t data, hole = (off_t)first;

	if (fd < 0)
		return limit; /* cannot tell: cut nothing that may be data */
	end = max_u64(end, end_of_bytes(fd, end, first));
	while ((data = lseek(fd, hole, SEEK_DATA)) >= 0 && (uint64_t)data < last) {
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			break;
		end = min_u64((uint64_t)hole, last);
	}
	end = max_u64(end, end_of_bytes(fd, last, limit));
	close(fd);
	return end;
}

static uint64_t end_of_data(const struct penstock_backing *s, uint64_t end, uint64_t limit)
{
	const struct penstock_stripe *t = s->stripe;
	uint64_t last = end, from, to, got;

	if (!t)
		return end_in_file(s, end, limit);
	for (unsigned i = 0; i < t->nr; i++) {
		from = penstock_stripe_member_bytes(t, i, end);
		to = penstock_stripe_member_bytes(t, i, limit);
		got = from < to
			      ? end_in_file(&t->members[i], STRIPE_DATA + from, STRIPE_DATA + to) -
					STRIPE_DATA
			      : from;
		if (got > from)
			last = max_u64(last, penstock_stripe_offset(t, i, got - 1) + 1);
	}
	return last;
}

/* Give back what lies behind the data, unless somebody else has made the file longer still. */
static void growth_trim(struct penstock_backing *s)
{
	struct penstock_growth *x = s->growth;
	uint64_t end = max_u64(x->old_size, x->written_end);
	int64_t size = penstock_backing_size(s);

	x->failed = false;
	if (size <= 0 || (uint64_t)size <= end || (uint64_t)size > x->reserved_end)
		return;
	if (end < x->failed_at)
		end = end_of_data(s, end, x->failed_at);
	penstock_backing_truncate(s, end);
}

static void growth_record_failure(struct penstock_growth *x, uint64_t off)
{
	x->failed_at = x->failed ? min_u64(x->failed_at, off) : off;
	x->failed = true;
}

/* Has the file blocks for all of it, and those behind its end have been reserved before? */
static bool has_blocks(const struct penstock_backing *s, uint64_t end)
{
	struct stat st;

	return fstat(s->fd, &st) == 0 && (uint64_t)st.st_blocks * 512 >= end;
}

static int growth_reserve(struct penstock_backing *s, uint64_t from, uint64_t end,
			  bool *ret_reserved)
{
	int r;

	if (s->stripe) {
		bool unable = s->growth->cannot_reserve;

		r = penstock_stripe_reserve(s->stripe, from, end, &unable);
		s->growth->cannot_reserve = unable;
		*ret_reserved = !r && !unable;
		return r;
	}
	if (s->growth->cannot_reserve)
		return 0;
	do {
		r = fallocate(s->fd, 0, (off_t)from, (off_t)(end - from));
	} while (r < 0 && errno == EINTR);
	*ret_reserved = r == 0;
	if (r == 0)
		return 0;
	/* A full XFS refuses what there is already, and writes it. */
	if (errno == ENOSPC && has_blocks(s, end))
		return 0;
	if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == EPERM) {
		s->growth->cannot_reserve = true;
		return 0;
	}
	return -errno;
}

int penstock_growth_begin_write(struct penstock_backing *s, uint64_t off, uint64_t len,
				bool *ret_reserved)
{
	struct penstock_growth *x = s->growth;
	uint64_t end = off + len;
	int64_t size;
	int r;

	*ret_reserved = false;
	if (s->device || !len || !x)
		return 0;
	pthread_mutex_lock(&x->lock);
	/* Not before: a write that fails meanwhile gives back what it had made the file longer by.
	 */
	size = penstock_backing_size(s);
	if (size < 0) {
		pthread_mutex_unlock(&x->lock);
		return (int)size;
	}
	if (!x->writes)
		x->old_size = x->written_end = x->reserved_end = (uint64_t)size;
	/* Inside what another write has reserved is still beyond the real end. */
	if (end <= x->old_size) {
		pthread_mutex_unlock(&x->lock);
		return 0;
	}
	x->reserved_end = max_u64(x->reserved_end, end);
	r = end > (uint64_t)size
		    ? growth_reserve(s, max_u64(off, (uint64_t)size), end, ret_reserved)
		    : 0;
	if (r < 0) {
		growth_record_failure(x, off);
		if (!x->writes)
			growth_trim(s);
	} else {
		x->writes++;
		r = 1;
	}
	pthread_mutex_unlock(&x->lock);
	return r;
}

void penstock_growth_end_write(struct penstock_backing *s, uint64_t off, uint64_t good, bool failed)
{
	struct penstock_growth *x = s->growth;

	pthread_mutex_lock(&x->lock);
	if (good)
		x->written_end = max_u64(x->written_end, off + good);
	if (failed)
		growth_record_failure(x, off);
	if (!--x->writes && x->failed)
		growth_trim(s);
	pthread_mutex_unlock(&x->lock);
}
