/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_BACKING_H
#define PENSTOCK_FILE_BACKING_H

/*
 * A file as bytes at offsets: how it was opened, what O_DIRECT asks for, and a
 * second descriptor without O_DIRECT for what O_DIRECT cannot take.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <penstock/penstock.h>

#include "file/overlap.h"

/*
 * Space for a file that grows: who extends it, and where it must end if that
 * fails.  One per inode and handle, however often the file is open there.
 */
struct penstock_growth {
	struct penstock_growth *next;
	dev_t dev;
	ino_t ino;
	unsigned refs;
	pthread_mutex_t lock;
	uint64_t old_size;          /* size before the extending writes now in flight */
	uint64_t written_end;       /* end of the bytes that must stay, of those that are done */
	uint64_t reserved_end;      /* how far space was asked for */
	unsigned writes;            /* extending writes in flight */
	bool failed;                /* one of them failed */
	uint64_t failed_at;         /* where the first of those that failed starts */
	atomic_bool cannot_reserve; /* the file system cannot preallocate */
	struct penstock_overlap overlap;
};

/* The one for this inode in @list, made if need be; NULL: no memory.  The caller locks @list. */
struct penstock_growth *penstock_growth_get(struct penstock_growth **list, dev_t dev, ino_t ino);
void penstock_growth_put(struct penstock_growth **list, struct penstock_growth *x);

struct penstock_backing {
	int fd;                 /* for bulk data; O_DIRECT while @direct */
	atomic_int buffered_fd; /* the same file without O_DIRECT, or -1; may equal @fd */
	atomic_bool direct;
	int borrowed;     /* the caller's descriptor, which is not closed; or -1 */
	bool device;      /* a block device */
	bool fuse;        /* on a FUSE file system */
	bool tmpfs;       /* on one in memory */
	bool direct_only; /* O_DIRECT or nothing */
	bool synced;      /* opened with O_SYNC or O_DSYNC */
	int access;       /* O_RDONLY, O_WRONLY, O_RDWR */
	uint32_t mem_align;
	uint32_t off_align;   /* offset and length, reads */
	uint32_t write_align; /* writes: what is not a multiple of this goes through buffered_fd */
	dev_t dev;
	ino_t ino;
	pthread_mutex_t lock; /* of buffered_fd being opened and of @why */
	char why[128];        /* why not direct */
	struct penstock_growth
		*growth; /* the owner of the backing sets it; NULL: nothing to track */
	struct penstock_stripe *stripe;      /* @fd is a manifest: the bytes are in its members */
	struct penstock_object_file *object; /* an object; there is no @fd.  The owner closes it */
};

/* Open @path with open(2)'s flags and mode, O_DIRECT as @direct (enum penstock_direct) says. */
int penstock_backing_open(struct penstock_backing *s, const char *path, int oflags, unsigned mode,
			  uint32_t direct, struct penstock_err *err);
/* The same for a member of a striped file, which is not one itself whatever is in it. */
int penstock_backing_open_member(struct penstock_backing *s, const char *path, int oflags,
				 uint32_t direct, struct penstock_err *err);
/* The same for a descriptor, which is the backing's then and closed on failure, too. */
int penstock_backing_open_owned_fd(struct penstock_backing *s, int fd, const char *name,
				   uint32_t direct, struct penstock_err *err);
/* The same for a descriptor that stays the caller's. */
int penstock_backing_open_borrowed_fd(struct penstock_backing *s, int fd, uint32_t direct,
				      struct penstock_err *err);
/* The same for an object, which is the backing's then. */
void penstock_backing_open_object(struct penstock_backing *s, struct penstock_object_file *object,
				  int oflags);
/* Returns 0 or what close(2) said. */
int penstock_backing_close(struct penstock_backing *s);

/* The descriptor without O_DIRECT, opened when first asked for; or -errno. */
int penstock_backing_buffered_fd(struct penstock_backing *s);
/* O_DIRECT was accepted at open and refused now: do without from here on; or -errno. */
int penstock_backing_give_up_direct(struct penstock_backing *s, const char *why);

/* Size now, or -errno. */
int64_t penstock_backing_size(const struct penstock_backing *s);
/* As ftruncate(2); 0 or -errno.  Nothing for block devices. */
int penstock_backing_truncate(struct penstock_backing *s, uint64_t size);

/*
 * A write of [off, off + len) is about to start: preallocate what lies behind
 * the end of the file.  Returns 1 when it extends the file (then
 * penstock_growth_end_write() must follow), 0 when it does not, -errno when there is no
 * room; then the file is as it was.  *ret_reserved: space was allocated.
 */
int penstock_growth_begin_write(struct penstock_backing *s, uint64_t off, uint64_t len,
				bool *ret_reserved);
/*
 * That write is over and @good bytes of it are in the file.  When the last one
 * in flight ends and any failed, what nobody wrote is given back.
 */
void penstock_growth_end_write(struct penstock_backing *s, uint64_t off, uint64_t good,
			       bool failed);

/* Open the file once more, with other flags; or -errno. */
int penstock_backing_reopen(const struct penstock_backing *s, int flags);

#endif
