/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_OBJECT_PLACE_BOOK_H
#define SLUICE_OBJECT_PLACE_BOOK_H

/*
 * The marker of a folder, `.sluice-objects', is the book of the files made in it.  Its first line
 * says what they are, and how many folders were made for them, every other one what happened to one
 * of them:
 *
 *	+NAME[ KEY]	is about to be made; KEY where the name was cut, escaped
 *	=NAME BYTES INODE BIRTH MTIME
 *			is complete; its size, number and times (ns) then
 *	-NAME		is gone, or was not made after all
 *	!WORD		of all of them: "kept" by the run that ends here, "used" by another one
 *
 * A name that was made more often than it went is ours, unless another file has it now.  Lines
 * are appended with one write(2) each, so that they survive a killed program and several
 * threads.
 */
#include <stdbool.h>
#include <stdint.h>

#include "load/object/flow.h"

#define BOOK_NAME ".sluice-objects"

/* By what a file is known again. */
struct book_file {
	uint64_t bytes, inode;
	uint64_t birth_ns, mtime_ns; /* birth 0: the file system does not say */
	uint64_t allocated;          /* bytes */
	bool regular, folder;
};
int book_look(struct book_file *f, int dir, const char *name); /* 0 or -errno */

struct book_entry {
	struct book_entry *next; /* in its bucket */
	int32_t count;           /* > 0: ours */
	bool complete;
	struct book_file file; /* when it was completed; inode 0: not known */
	char *key;             /* NULL: follows from the name */
	uint32_t key_len;
	char name[];
};

struct book {
	struct book_entry **buckets;
	uint64_t nr_buckets, nr;
	bool npy, hashed, slab;
	unsigned made; /* folders: this one and so many above it, itself included; 0: none */
};

/* Read it from @fd.  -EEXIST: it is something else; -EINVAL: a line makes no sense. */
int book_load(struct book *b, int fd, const char *path, struct sluice_err *err);
void book_free(struct book *b);
/* NULL: not ours. */
struct book_entry *book_find(const struct book *b, const char *name);
/* Is it the file that was completed?  A copy with its time counts, too; not known: yes. */
bool book_same_file(const struct book_entry *e, const struct book_file *now);
/* One after the other: start with *@pos = 0 and NULL. */
struct book_entry *book_next(const struct book *b, uint64_t *pos, struct book_entry *e);
/* It was removed, however often it was made. */
int book_note_gone(int fd, const struct book_entry *e);
/* A line on all of them: kept, or used. */
int book_note_all(int fd, bool kept);
/* Does the last line of the one in the folder say that its objects were kept? */
bool book_is_kept(const char *folder);
/* The first line, for a new one; @made as in struct book. */
int book_begin(int fd, const struct place_opts *o, unsigned made);

#endif
