/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEM_COPY_H
#define SLUICE_MEM_COPY_H

#include <stddef.h>

/*
 * memcpy() for large data that is not used again soon: it goes past the caches
 * on its way out.
 */
void sluice_copy_stream(void *to, const void *from, size_t len);

#endif
