/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_IDSET_H
#define PENSTOCK_TRACE_IDSET_H

/*
 * A set of 64-bit numbers: 11 to 27 bytes each, and where they have values half as much again.
 * Zeroed is empty.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct idset {
	uint64_t *slots;     /* 0: free */
	size_t nr, capacity; /* capacity: a power of two */
	bool zero;           /* 0 is in */
	uint32_t *values;    /* of the slots; NULL: nobody asked for them */
	uint32_t zero_value;
};

/* 1: it was not in and is now; 0: it was in; -ENOMEM. */
int idset_add(struct idset *s, uint64_t id);
/* The same, with *@value kept for what was not in, and given back for what was. */
int idset_add_value(struct idset *s, uint64_t id, uint32_t *value);
void idset_fini(struct idset *s);

#endif
