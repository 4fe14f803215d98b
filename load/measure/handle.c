/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the texts and the limits of struct penstock_stats are counters of 64 bits, which are
 * added whatever their names are.  A new member makes an assertion fail until it has its place.
 */
#include "load/measure/handle.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define COUNTERS    offsetof(struct penstock_stats, ops)
#define LIMITS      offsetof(struct penstock_stats, inline_bytes) /* the same for all */
#define NR_COUNTERS ((LIMITS - COUNTERS) / sizeof(uint64_t))

static_assert(COUNTERS == 4 * sizeof(uint32_t) + 32 + 256, "a member that is not merged");
static_assert(NR_COUNTERS == 18, "is the new member a counter? then correct the number");
/* Behind the limits there is one more counter. */
static_assert(sizeof(struct penstock_stats) == LIMITS + 3 * sizeof(uint64_t), "the same");

void handle_stats_add(struct penstock_stats *sum, const struct penstock_stats *one)
{
	uint64_t a[NR_COUNTERS], b[NR_COUNTERS];

	if (!sum->size) {
		*sum = *one;
		return;
	}
	sum->fallbacks |= one->fallbacks;
	if (!sum->fallback_why[0])
		memcpy(sum->fallback_why, one->fallback_why, sizeof(sum->fallback_why));
	memcpy(a, (char *)sum + COUNTERS, sizeof(a));
	memcpy(b, (const char *)one + COUNTERS, sizeof(b));
	for (unsigned i = 0; i < NR_COUNTERS; i++)
		a[i] += b[i];
	memcpy((char *)sum + COUNTERS, a, sizeof(a));
	sum->blocks_object += one->blocks_object;
}

/* --------------------------------------------------------------------- words */

const char *const io_direct_words[] = {"auto", "always", "never", NULL};
const char *const io_durability_words[] = {"none", "data", "full", NULL};
const char *const io_huge_words[] = {"auto", "reserved", "never", NULL};
