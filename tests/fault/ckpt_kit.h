/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_CKPT_KIT_H
#define PENSTOCK_TESTS_CKPT_KIT_H

/*
 * Checkpoints that say which they are: eight bytes of number, then the pattern of that number; of
 * different lengths.
 */
#include <limits.h>
#include <penstock/ckpt.h>
#include <stdbool.h>
#include <sys/types.h>

/* Bytes of checkpoint @nr, at most CKPT_MAX. */
enum { CKPT_MAX = 1 << 21 };
uint64_t ckpt_len(uint64_t nr);

/* Save it under @path; 0 or -errno.  It may be called in a child, and checks nothing. */
int ckpt_save(struct penstock_io *io, const char *path, uint64_t nr, uint32_t flags,
	      struct penstock_err *err);

/* The number of the one that is there, whole and verified; -ENOENT, or the test fails. */
int64_t ckpt_load(struct penstock_io *io, const char *path);

/* A child that saves one after the other, from @nr on, until somebody ends it. */
pid_t ckpt_fork_saver(const char *path, uint64_t nr, int *ret_done_fd);
/* The last of them that was done, or @none; when it has ended. */
uint64_t ckpt_last_saved(int done_fd, uint64_t none);

/* A folder of the test's with one name in it, which is striped over folders beside it or not. */
enum { CKPT_MEMBERS = 2 };
struct ckpt_dirs {
	bool striped;
	char folder[PATH_MAX], file[PATH_MAX], members[CKPT_MEMBERS][PATH_MAX];
};

void ckpt_dirs_create(struct ckpt_dirs *at, const char *name, bool striped);
/* Nothing is left but @names, and the members of what is there. */
void ckpt_dirs_check_left(const struct ckpt_dirs *at, const char *names);

/* Nothing is in the folder @dir but what is named here, comma-separated. */
void ckpt_check_left(const char *dir, const char *names);

#endif
