/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_BADLOG_H
#define PENSTOCK_TESTS_BADLOG_H

/*
 * What badfs was asked to do, in order, in the file that the variable BADFS_LOG names: what
 * would be in the write cache of a drive, and when it was flushed.
 */
#include <stdint.h>

enum badlog_op {
	BADLOG_CREATE = 1, /* a file @id with the name @name */
	BADLOG_WRITE,      /* @len bytes at @offset, which follow the record */
	BADLOG_TRUNCATE,   /* to @len bytes */
	BADLOG_RENAME,     /* @name to @to */
	BADLOG_UNLINK,
	BADLOG_FSYNC,    /* of file @id */
	BADLOG_FSYNCDIR, /* of all names */
};

struct badlog {
	uint32_t op;
	uint32_t unused;
	uint64_t id;
	uint64_t offset;
	uint64_t len;
	char name[64];
	char to[64];
};

#endif
