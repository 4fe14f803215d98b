/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_OPENAT_SAFE_H
#define PENSTOCK_BASE_OPENAT_SAFE_H

/*
 * Files below a folder that is open, whatever others make of the names on the way to them: no
 * symbolic link is followed, and nothing outside the folder is reached.
 */
#include <sys/types.h>

/*
 * As openat(2).  A descriptor, or -errno: -ELOOP or -ENOTDIR where a name is a link, -EXDEV where
 * the name leads out of the folder.
 */
int penstock_openat_safe(int dir, const char *name, int flags, mode_t mode);

/*
 * The folder that holds @name, for calls that take a folder and a name in it, which is *@ret_last.
 * It is @dir itself where @name has no slash; else it is closed by penstock_openat_parent_close().
 */
int penstock_openat_parent(int dir, const char *name, const char **ret_last);
void penstock_openat_parent_close(int dir, int parent);

/*
 * To a name that nothing has: 0, -EEXIST or another -errno, -ENOSYS where the file system has no
 * way. Where it can neither rename so nor link, what comes to the name in the same moment is lost.
 */
int penstock_renameat_new(int dir, const char *from, const char *to);

/* As unlinkat(2): 0 or -errno. */
int penstock_unlinkat_safe(int dir, const char *name, int flags);

#endif
