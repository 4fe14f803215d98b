/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_FULL_IO_H
#define PENSTOCK_BASE_FULL_IO_H

/*
 * pread(2) and pwrite(2) of all that was asked for, for the small files that say what others hold:
 * half of a manifest must not be taken for a file without one.  What is interrupted goes on, what
 * is refused for now (EAGAIN) is tried again for about a tenth of a second.
 */
#include <stdint.h>

/* How many bytes, fewer only where the file ends; or -errno. */
int64_t penstock_full_pread(int fd, void *buf, uint64_t len, uint64_t at);
/* 0 or -errno. */
int penstock_full_pwrite(int fd, const void *buf, uint64_t len, uint64_t at);

#endif
