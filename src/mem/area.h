/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEM_AREA_H
#define PENSTOCK_MEM_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PENSTOCK_AREA_HUGE = 2 << 20 }; /* bytes of a huge page */

/* Anonymous memory for I/O: on huge pages if it can be, locked if asked. */
struct penstock_area {
	void *addr;
	size_t len;    /* what may be used, a multiple of the page size */
	uint32_t page; /* page size underneath, as far as known */
	bool huge;
	bool locked;
	int huge_errno; /* why not huge, 0 when not asked */
	int lock_errno;
};

enum {
	PENSTOCK_AREA_LOCK = 1,
	PENSTOCK_AREA_LAZY = 2, /* huge pages appear as they are touched: most may never be */
};

/* @huge: enum penstock_huge.  @how: PENSTOCK_AREA_*.  Returns 0 or -ENOMEM. */
int penstock_area_map(struct penstock_area *a, uint64_t len, uint32_t huge, unsigned how);
/* Needs no more than @a->addr and, as @a->len, the length that was asked for or given. */
void penstock_area_unmap(struct penstock_area *a);

/* Does the kernel put all large memory on huge pages, unasked? */
bool penstock_area_huge_by_default(void);

/* Ask the kernel to put memory of the caller's on huge pages (6.1); 0 or -errno. */
int penstock_area_collapse(void *addr, uint64_t len);

#endif
