/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_MOUNTS_H
#define PENSTOCK_TESTS_MOUNTS_H

/*
 * File systems of a test.  They live in a mount namespace of its own, so they
 * are gone when the program ends, however it ends.
 */
#include <stdbool.h>
#include <stdint.h>

/* Root and a private namespace, or the program is skipped. */
void mounts_need(void);

/* Mount on t_path(@name), which is made.  Return 0, or -errno with a note. */
int mounts_tmpfs(const char *name, const char *options);
/* A file system of @type ("ext4") of @bytes in an image file. */
int mounts_image(const char *name, const char *type, uint64_t bytes);
void mounts_end(const char *name);

/*
 * Keep what is on the image in this moment, as a drive has it when its power fails; it lies on a
 * file system that shares blocks between files (XFS).  Later have that mounted in its place.
 */
int mounts_keep(const char *name);
int mounts_back(const char *name);

/*
 * The file system of @program (see tests/fault/badfs.c) on t_path(@name) until the program ends,
 * or the program is skipped.
 */
void mounts_badfs(const char *name, const char *program, bool async);

#endif
