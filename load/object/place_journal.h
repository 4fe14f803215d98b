/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_PLACE_JOURNAL_H
#define PENSTOCK_OBJECT_PLACE_JOURNAL_H

/*
 * The marker of a folder, `.penstock-objects', is the journal of the files made in it.  Its first
 * line says what they are, how many folders were made for them, and a number that nobody can guess;
 * every other one what happened to one of them:
 *
 *	+NAME[ KEY]	is about to be named; KEY where the name was cut, escaped
 *	@NAME INODE BIRTH
 *			is this file: its number, and the time (ns) at which it was made
 *	=NAME BYTES INODE BIRTH MTIME
 *			is complete; its size and times then
 *	-NAME		is gone, or was not made after all
 *	!WORD		of all of them: "kept" by the run that ends here, "used" by another one
 *
 * A name alone says nothing: ours is the file that was made for it.  A file is made under a name
 * with the number of the first line in it (journal_temp_name()), and gets its own when its lines
 * are written: whenever a run is killed, each file is known.  Lines that belong together are
 * appended with one write(2), so they survive a killed program and several threads.  The journal is
 * read once, when the folder is opened, and only where nobody else can have written to it; from
 * then on it is kept in memory as well (place_dir_file.c).
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/table.h"
#include "load/object/flow.h"

#define JOURNAL_NAME ".penstock-objects"

/* By what a file is known again. */
struct file_identity {
	uint64_t bytes, inode;
	uint64_t birth_ns, mtime_ns; /* birth 0: the file system does not say */
};

/* What is there now. */
struct file_stat {
	struct file_identity file;
	uint64_t allocated; /* bytes */
	uint32_t links;
	bool regular, folder;
};
/* Remove a file; of a striped one the members, too.  0 or -errno. */
int unlink_with_members(int dir, const char *name);
/* Bytes of @name in @folder, which was seen so; of a striped one the whole's. */
uint64_t striped_file_bytes(const char *folder, const char *name, const struct file_stat *seen);
/* @name below the folder, "" the descriptor itself; 0 or -errno. */
int file_stat_at(struct file_stat *s, int dir, const char *name);

enum journal_state { JOURNAL_BEGUN, JOURNAL_MADE, JOURNAL_COMPLETE };

struct journal_entry {
	struct penstock_table_node node; /* by its name */
	struct file_identity file;
	char *key; /* NULL: follows from the name */
	uint32_t key_len;
	uint8_t state; /* enum journal_state */
	char name[];
};

struct journal {
	struct penstock_table table;
	bool npy, hashed, slab;
	uint64_t owner; /* the number of the run that began it; 0: none */
	unsigned made;  /* folders: this one and so many above it, itself included; 0: none */
	uint64_t bytes; /* of whole lines */
};

/* A file that nobody but the user can have written to. */
bool file_is_private(const struct stat *st);
/* Read it from @fd.  -EEXIST: it is something else; -EINVAL: a line makes no sense. */
int journal_load(struct journal *b, int fd, const char *path, struct penstock_err *err);
void journal_free(struct journal *b);
struct journal_entry *journal_find(const struct journal *b, const char *name); /* NULL: not in it */
struct journal_entry *journal_add(struct journal *b, const char *name);        /* NULL: no memory */
void journal_drop(struct journal *b, struct journal_entry *e);
/* One after the other: start with *@pos = 0 and NULL. */
struct journal_entry *journal_next(const struct journal *b, uint64_t *pos, struct journal_entry *e);
/* Is it the file of @e?  Of one that is complete a copy with its time counts, too. */
bool journal_entry_matches(const struct journal_entry *e, const struct file_stat *now);

/* Does the last line of the one in the folder say that its objects were kept? */
bool journal_is_kept(const char *folder);
/* The name of file @nr, in the folder of @name, until it is named so. */
void journal_temp_name(char out[], size_t size, const struct journal *b, const char *name,
		       unsigned nr);
/* Is it such a name? */
bool journal_is_temp_name(const struct journal *b, const char *name);
/* The first line, for a new one: how many folders were made, and a new number, are in @b. */
int journal_begin(struct journal *b, int fd, const struct place_opts *o);
/* Lines on a file: @e as it is now, or gone; on all of them: kept, or used. */
int journal_write(int fd, const struct journal_entry *e);
int journal_write_gone(int fd, const char *name);
int journal_write_all(int fd, bool kept);

#endif
