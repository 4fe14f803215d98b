/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BED_FOLDERS_H
#define SLUICE_BED_FOLDERS_H

/* The folders a job measures in, looked at before it begins. */
#include <stdint.h>

#include <sluice/sluice.h>

/*
 * Do all exist, can files be made in them, is none there twice, and is there room for
 * @bytes in each?  Folders on one file system share its room.  0, or -EINVAL with
 * the reason.  Makes nothing.
 */
int folders_check(const char *const *folders, unsigned nr, uint64_t bytes, struct sluice_err *err);

#endif
