/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_STRIPE_H
#define PENSTOCK_FILE_STRIPE_H

/*
 * Striped files: where bytes lie, and what holds for the members together.
 *
 * A member begins with STRIPE_DATA bytes for its header; then come its units.  Of members
 * that are files the size is that of their share: the whole ends where the first of them has
 * no more.  A writer makes all of them longer before it writes, under a lock, so that a
 * writer that was killed leaves at most members that are longer than the whole; the next
 * one cuts these.  The header of the first member says how long the whole was when it was
 * last closed, synced or truncated (its field "settled"): a member that has less has lost bytes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <penstock/stripe.h>

#include "base/replace.h"
#include "file/backing.h"
#include "file/manifest.h"

#define STRIPE_DATA (1ull << 20) /* where a member's units begin */

struct penstock_stripe {
	struct penstock_manifest *manifest;
	unsigned nr;
	uint64_t unit;
	uint64_t limit;       /* of block devices: the size of the whole; 0: of files, that grow */
	pthread_mutex_t lock; /* among threads, while sizes change */
	atomic_bool size_unrecorded; /* longer than the header says, as far as this process knows */
	int file;                    /* the manifest, the backing's */
	atomic_bool manifest_unsynced; /* made a moment ago, and durable when it is synced */
	struct penstock_backing members[];
};

/* How many of the first @end bytes lie in member @i. */
static inline uint64_t penstock_stripe_member_bytes(const struct penstock_stripe *t, unsigned i,
						    uint64_t end)
{
	uint64_t row = t->unit * t->nr, before = i * t->unit, rest = end % row;
	uint64_t last = rest > before ? rest - before : 0;

	return end / row * t->unit + (last < t->unit ? last : t->unit);
}

/* Where byte @at of member @i's share lies in the whole. */
static inline uint64_t penstock_stripe_offset(const struct penstock_stripe *t, unsigned i,
					      uint64_t at)
{
	uint64_t row = t->unit * t->nr, rows = at / t->unit;

	return rows > INT64_MAX / row - 1 ? INT64_MAX : rows * row + i * t->unit + at % t->unit;
}

/*
 * Open the members for what @s->fd, which is its manifest, was opened for.  Takes @m.  What is
 * wrong with a member is said in a line that names it.
 */
int penstock_stripe_open(struct penstock_backing *s, struct penstock_manifest *m, const char *name,
			 uint32_t direct, struct penstock_err *err);
int penstock_stripe_close(struct penstock_backing *s); /* records the size; 0 or -errno */

/* A member failed to do O_DIRECT: all do without from here on. */
void penstock_stripe_drop_direct(struct penstock_backing *s);

int64_t penstock_stripe_size(const struct penstock_stripe *t);
int penstock_stripe_truncate(struct penstock_stripe *t, uint64_t size);
/* Make it @end bytes long, with space for what lies behind @from; *@unable: but without space. */
int penstock_stripe_reserve(struct penstock_stripe *t, uint64_t from, uint64_t end, bool *unable);
/*
 * Write down how long it is, if it has size_unrecorded; no more than @synced.  @sync: for good, as
 * the end of a sync, after all members: a loss of power before leaves a header that tells what they
 * have.
 */
int penstock_stripe_record_size(struct penstock_stripe *t, uint64_t synced, bool sync);

/*
 * Verify an open member: 0 with *@out, or -errno and its state in *@state with a line in @err.
 * Its size is not looked at.
 */
int penstock_member_verify(const struct penstock_manifest *m, unsigned i,
			   struct penstock_backing *b, struct penstock_member_header *out,
			   uint32_t *state, struct penstock_err *err);
/* Bytes of data that it has, or has room for; or -errno. */
int64_t penstock_member_bytes(const struct penstock_backing *b);
/* Has it its share of @recorded_bytes? */
int penstock_member_check_size(const struct penstock_manifest *m, unsigned i,
			       const struct penstock_backing *b, uint64_t recorded_bytes,
			       struct penstock_err *err);

/*
 * An empty file that is open for writing: in a striped folder it becomes a striped one.  1 with
 * its manifest, 0: it is none, or -errno.
 */
int penstock_stripe_convert(const struct penstock_backing *s, struct penstock_manifest **out,
			    struct penstock_err *err);
/*
 * The folder manifest of the open folder @dir, or of one above it, that goes for a file of that
 * name; @full: its path, as far as there is one.  1, 0: there is none, also where @out is NULL; or
 * -errno.
 */
int penstock_stripe_find_folder_manifest(int dir, const char *name, char *full, size_t size,
					 struct penstock_manifest **out);
/* Make the folder manifest and the folders of members, which @m names. */
int penstock_stripe_make_folder(const struct penstock_manifest *m, const char *name,
				struct penstock_err *err);
int penstock_stripe_remove_folder(const struct penstock_manifest *m, const char *name,
				  struct penstock_err *err);
/* A file that is not this member is left alone, and the message says so. */
int penstock_member_remove(const struct penstock_manifest *m, unsigned i, struct penstock_err *err);
/* 0 with *@out, of a file or a folder; or -errno with a line. */
int penstock_manifest_load(struct penstock_manifest **out, const char *name,
			   struct penstock_err *err);

/*
 * A striped file in the place of what @r is open for (stripe_replace.c): of a striped file with the
 * same folders, or as the folder manifest of the folder says.  1: the new file is its manifest, and
 * empty; 0: it stays a plain one; or -errno with a line.  @expected: bytes to have room for, or 0.
 */
int penstock_stripe_replace_begin(struct penstock_replace *r, uint64_t expected, bool sync,
				  struct penstock_err *err);
/* The same with members that @m has; @name is for the eyes. */
int penstock_stripe_replace_with(struct penstock_replace *r, const struct penstock_manifest *m,
				 const char *name, uint64_t expected, bool sync,
				 struct penstock_err *err);
/* Remove files begun for @name, with their members, if they were neither published nor aborted. */
void penstock_stripe_remove_stale(int dir, const char *name);
/* Give back what was expected and is not needed. */
void penstock_stripe_free_unused(const struct penstock_replace *r);
/* Remove its members: it will not be published.  Before penstock_replace_close(). */
void penstock_stripe_replace_abort(const struct penstock_replace *r);

struct penstock_stripe_old {
	int fd;
	char *temp;
	struct penstock_manifest *m; /* NULL: it was no striped file */
};

/* penstock_replace_publish(), whatever the new and the old one are. */
int penstock_stripe_replace_publish(struct penstock_replace *r, struct penstock_stripe_old *old);
/* After it.  @gone: the old one will not come back, and its members go, with @sync for good. */
void penstock_stripe_replace_end(const struct penstock_replace *r, struct penstock_stripe_old *old,
				 bool gone, bool sync);

int penstock_stripe_generate_id(char *id);
char *penstock_stripe_member_name(const char *folder, const char *name, const char *id, unsigned i);
/* A file for member @i, with owner and permissions of @like; 0 or -errno. */
int penstock_member_create(const struct penstock_manifest *m, unsigned i, const char *name,
			   const struct stat *like, uint64_t expected, bool sync);
int penstock_member_header_create(const struct penstock_manifest *m, unsigned i,
				  const struct penstock_backing *b, const char *name);
int penstock_stripe_sync_folder(const char *path); /* that @path is in */
/* penstock_stripe_bytes() of a file in folder @dir. */
int64_t penstock_stripe_bytes_at(int dir, const char *name, int64_t size);

/* The header of an open member; @out->id empty: it has none. */
int penstock_member_header_read(const struct penstock_backing *b,
				struct penstock_member_header *out);
/* NULL: wipe it. */
int penstock_member_header_write(const struct penstock_backing *b,
				 const struct penstock_member_header *head);

#endif
