/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_SIZE_H
#define PENSTOCK_BASE_SIZE_H

/* Sizes in bytes as people type and read them. */
#include <stddef.h>
#include <stdint.h>

/*
 * "4096", "64K", "1M", "1.5G", "2TiB", "0x1000": powers of two, either case, an
 * optional B or iB behind the letter.  A fraction needs a letter and must come
 * to whole bytes.  Returns 0, -EINVAL for anything else, or -ERANGE when it
 * does not fit; *@out is written only on success.
 */
int penstock_size_parse(uint64_t *out, const char *s);

/* "1.5 GiB", "4 KiB", "512 B" for people; returns @buf. */
#define PENSTOCK_SIZE_TEXT 24
char *penstock_size_format(char buf[PENSTOCK_SIZE_TEXT], uint64_t bytes);

/* "64K", "1M", "4097": exact and short, what penstock_size_parse() takes; returns @buf. */
char *penstock_size_exact(char buf[PENSTOCK_SIZE_TEXT], uint64_t bytes);

#endif
