/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BED_BED_FOLDER_H
#define PENSTOCK_BED_BED_FOLDER_H

/*
 * The test bed ("bed") of a run is what the run works on: folders, files in them and buffers in
 * memory (buffers.h), prepared before the run and removed after it.  bed_check.h says before
 * what would be missing.
 *
 * The folders files are made in: one that the user named, or a new one inside it that
 * is ours alone and goes with all that was made in it.
 *
 * Ours has a journal of the files made in it, which is locked while it is in use.  What a
 * killed run left is removed by the next one that makes a folder beside it: those files
 * that the journal names and that are the same still.  A journal is trusted only where folder and
 * journal belong to this user and nobody else may write to them.
 */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct bed_folder {
	char *path;             /* NULL: none, and the rest means nothing */
	int fd;                 /* works whatever becomes of the path */
	int parent;             /* of a new one: what it is in; else -1 */
	int journal_fd;         /* the same */
	struct penstock_s3 *s3; /* it is a prefix of an object store: no descriptors; or NULL */
	bool marked;            /* it is a new one there */
	char *open_path; /* as files in it are opened: the path, or by way of the descriptor where
		     others could put another folder there */
};

/* Which file it is: numbers are given again to new files, but not with the same birth. */
struct bed_id {
	uint64_t device, inode, birth_ns; /* birth 0: the file system does not say */
};
/* @name in the folder @dir, "" the descriptor itself; links are not followed.  0 or -errno. */
int bed_id_read(struct bed_id *id, int dir, const char *name);
bool bed_id_matches(const struct bed_id *id, int dir, const char *name);

/* Use @path, which must be there.  @s3: the client, where it is s3://BUCKET or below. */
int bed_folder_open(struct bed_folder *f, const char *path, struct penstock_s3 *s3,
		    struct penstock_err *err);
/*
 * Make @parent/penstock-@job-XXXXXX; of a store see bed_prefix.h.
 */
int bed_folder_make(struct bed_folder *f, const char *parent, const char *job,
		    struct penstock_s3 *s3, struct penstock_err *err);
/*
 * The same for processes that share it, which are on hosts that share the file system: the first
 * makes it, under a name that all of them know, and the others wait for that.
 */
struct bed_share {
	bool on;
	unsigned rank, size; /* of how many */
	uint64_t number;     /* that all have, and nobody else */
};
int bed_folder_share(struct bed_folder *f, const char *parent, const char *job,
		     const struct bed_share *share, struct penstock_err *err);
/*
 * A new file, open for writing, and which it is.  In a folder of ours it has another name until the
 * journal knows it: whenever a run is killed, what it made is known.
 */
int bed_folder_add(const struct bed_folder *f, const char *name, struct bed_id *ret);
/*
 * A file of this name will come into a folder of ours and be replaced as a whole, by those who do
 * the work: whichever it is goes with what a killed run left.
 */
int bed_folder_expect(const struct bed_folder *f, const char *name, struct penstock_err *err);
/*
 * Remove one that was made, unless there is something else in it or it is to be kept: 0,
 * else -errno.  Whatever it was, it is closed; one that is none may be given.
 */
int bed_folder_close(struct bed_folder *f, bool keep);

#endif
