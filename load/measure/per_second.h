/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_PER_SECOND_H
#define PENSTOCK_MEASURE_PER_SECOND_H

/*
 * What each second of a run looked like, for charts over time.  A row is a struct of the owner's
 * with members of 8 bytes; channels say what they are called and how they are added up and told,
 * so that merging and writing out know no owner.
 */
#include <stddef.h>
#include <stdint.h>

enum per_second_kind {
	PER_SECOND_COUNT, /* uint64_t */
	PER_SECOND_SUM,   /* double */
	PER_SECOND_MEAN,  /* double: a sum, told divided by the uint64_t at @of; nothing where that
			   * is 0
			   */
	PER_SECOND_MAX,   /* double: the largest; nothing where the uint64_t at @of is 0 */
};

struct per_second_channel {
	const char *name; /* NULL: not told */
	enum per_second_kind kind;
	size_t at, of;
};

struct per_second {
	const struct per_second_channel *channels;
	unsigned nr_channels;
	size_t size; /* of a row */
	char *rows;
	uint32_t nr;
};

/* The row of the second in which @at_ns lies; those between are made.  NULL: no memory. */
void *per_second_at(struct per_second *s, uint64_t at_ns);
/* Add what another worker counted: 0 or -ENOMEM. */
int per_second_merge(struct per_second *s, const struct per_second *other);
void per_second_fini(struct per_second *s);

static inline const void *per_second_row(const struct per_second *s, uint32_t i)
{
	return s->rows + i * s->size;
}

/* What is told of a row: NAN where there is nothing. */
double per_second_value(const struct per_second_channel *c, const void *row);

#endif
