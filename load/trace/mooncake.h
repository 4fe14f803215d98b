/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_TRACE_MOONCAKE_H
#define SLUICE_TRACE_MOONCAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The hash id of a key; false when the key is not a number and had to be hashed. */
bool mooncake_id(uint64_t *out, const char *key, size_t len);

/* A list of ids that grows.  Zeroed is empty. */
struct id_list {
	uint64_t *v;
	size_t nr, room;
};
/* 0 or -ENOMEM. */
int id_list_add(struct id_list *l, uint64_t id);

#endif
