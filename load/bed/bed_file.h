/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BED_BED_FILE_H
#define PENSTOCK_BED_BED_FILE_H

/*
 * Files that work is done on: made, filled with a pattern, checked and removed.  A file
 * is known by its folder's descriptor, its name and, once it is there, by device and
 * inode: what came into its place meanwhile is neither used nor removed.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "load/bed/bed_folder.h"

struct bed_file {
	const struct bed_folder *folder;
	char *path;
	const char *name; /* the end of it */
	char *open_path;  /* what to open, see struct bed_folder */
	uint64_t from;    /* of a range of a shared file: where it begins in there */
	uint64_t len;     /* that it has when it is full ... */
	uint64_t seed;    /* ... of this pattern */
	bool full;
	bool found;         /* it was there before */
	bool striped;       /* as a striped one */
	bool made;          /* by us: removed at the end */
	uint64_t old_bytes; /* bytes it had before, at most @len */
	struct bed_id id;   /* of one that was found or made */
};

/* Name it.  bed_file_fini() is due. */
int bed_file_init(struct bed_file *f, const struct bed_folder *folder, uint64_t len,
		  struct penstock_err *err, const char *name, ...)
	__attribute__((format(printf, 5, 6)));
/* Is it there (@found), plain and with all its pattern, as both ends show (@full)? */
int bed_file_inspect(struct bed_file *f, bool *ret_plain, struct penstock_err *err);
/*
 * Make it, empty; one that was found is emptied.  One that came into being since is
 * not touched: -EEXIST.
 */
int bed_file_make(struct bed_file *f, struct penstock_err *err);
/*
 * Make @files the ranges that this process has of one file @name in @folder, @len bytes each: the
 * first process makes the file, with its size, and the others wait for it; in the end it removes
 * it, for which all have to wait for each other before.  No page is in two ranges.
 */
int bed_files_share(struct bed_file *files, unsigned nr, uint64_t len,
		    const struct bed_folder *folder, const struct bed_share *share,
		    const char *name, struct penstock_err *err);
/* Is what its path leads to still the same file?  -ESTALE if not. */
int bed_file_same(const struct bed_file *f, struct penstock_err *err);
/* Flags to open it with: an object is read, or written as a whole. */
int bed_file_flags(const struct bed_file *f, bool read);
/* A message about what was opened, with its path. */
void bed_file_describe(const struct bed_file *f, const char *msg, char *out, size_t size);
/* Remove it if it was made here and shall not stay; free the name. */
void bed_file_fini(struct bed_file *f, bool keep);

static inline bool bed_file_remote(const struct bed_file *f)
{
	return f->folder && f->folder->s3;
}

struct bed_file_work {
	const atomic_int *stop; /* optional: give up when it is not 0, -ECANCELED */
	uint64_t bytes;         /* moved so far, added up over calls */
	/* Optional: a piece was moved. */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

/* Write the pattern into those that are not full. */
int bed_files_fill(struct bed_file *files, unsigned nr, struct bed_file_work *work,
		   struct penstock_err *err);
/* Read all full ones back, past the page cache where that is possible: -EBADMSG if not right. */
int bed_files_verify(struct bed_file *files, unsigned nr, struct bed_file_work *work,
		     struct penstock_err *err);

#endif
