/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BED_BED_FOLDER_H
#define SLUICE_BED_BED_FOLDER_H

/*
 * The folders files are made in: one that the user named, or a new one inside it that
 * is ours alone and goes with all that was made in it.
 *
 * Ours is locked while it is in use and has a book of the files made in it.  What a
 * killed run left is removed by the next one that makes a folder beside it: those files
 * that the book names and that are the same still.  A book is trusted only where folder and
 * book belong to this user and nobody else may write to them.
 */
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct bed_folder {
	char *path; /* NULL: none, and the rest means nothing */
	int fd;     /* works whatever becomes of the path */
	int parent; /* of a new one: what it is in; else -1 */
	int book;   /* the same */
};

/* Use @path, which must be there. */
int bed_folder_open(struct bed_folder *f, const char *path, struct sluice_err *err);
/* Make @parent/sluice-@job-XXXXXX. */
int bed_folder_make(struct bed_folder *f, const char *parent, const char *job,
		    struct sluice_err *err);
/* Note a file that was just made. */
int bed_folder_note(const struct bed_folder *f, const char *name, uint64_t inode,
		    struct sluice_err *err);
/*
 * Remove one that was made, unless there is something else in it or it is to be kept: 0,
 * else -errno.  Whatever it was, it is closed; one that is none may be given.
 */
int bed_folder_close(struct bed_folder *f, bool keep);

#endif
