/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_GLOB_H
#define PENSTOCK_BASE_GLOB_H

/*
 * A pattern for glob(3): @files in the folder @path, whose name may have characters that mean
 * something there.  To be freed; NULL for want of memory.
 */
char *penstock_glob_pattern(const char *path, const char *files);

#endif
