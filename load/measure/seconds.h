/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_SECONDS_H
#define PENSTOCK_MEASURE_SECONDS_H

/*
 * What each second of a run looked like, for charts over time.  A row is a struct of the owner's
 * with members of 8 bytes; channels say what they are called and how they are added up and told,
 * so that merging and writing out know no owner.
 */
#include <stddef.h>
#include <stdint.h>

enum second_kind {
	SECOND_COUNT, /* uint64_t */
	SECOND_SUM,   /* double */
	SECOND_MEAN,  /* double: a sum, told divided by the uint64_t at @of; nothing where that is 0
		       */
	SECOND_MAX,   /* double: the largest; nothing where the uint64_t at @of is 0 */
};

struct second_channel {
	const char *name; /* NULL: not told */
	enum second_kind kind;
	size_t at, of;
};

struct seconds {
	const struct second_channel *channels;
	unsigned nr_channels;
	size_t size; /* of a row */
	char *rows;
	uint32_t nr;
};

/* The row of the second in which @at_ns lies; those between are made.  NULL: no memory. */
void *seconds_at(struct seconds *s, uint64_t at_ns);
/* Add what another worker counted: 0 or -ENOMEM. */
int seconds_merge(struct seconds *s, const struct seconds *other);
void seconds_fini(struct seconds *s);

static inline const void *seconds_row(const struct seconds *s, uint32_t i)
{
	return s->rows + i * s->size;
}

/* What is told of a row: NAN where there is nothing. */
double seconds_value(const struct second_channel *c, const void *row);

#endif
