/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_DIRECT_ALIGN_H
#define PENSTOCK_FILE_DIRECT_ALIGN_H

#include <stdint.h>

/*
 * What O_DIRECT asks of an address (*@mem) and of offset and length (*@off) on
 * the open file or block device @fd, both powers of two, and who said so:
 * "statx" (kernel 6.1), else "block device", else "page size".  @from may be
 * NULL.  Returns 0, or -EOPNOTSUPP when the kernel says that this file cannot
 * do O_DIRECT, or another -errno when @fd cannot be examined.
 */
int penstock_direct_align_find(int fd, uint32_t *mem, uint32_t *off, const char **from);

#endif
