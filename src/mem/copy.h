/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEM_COPY_H
#define PENSTOCK_MEM_COPY_H

#include <stddef.h>

/*
 * memcpy() for large data that is not used again soon: it goes past the caches
 * on its way out.
 */
void penstock_copy_nontemporal(void *to, const void *from, size_t len);

#endif
