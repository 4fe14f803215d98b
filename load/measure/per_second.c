/* SPDX-License-Identifier: Apache-2.0 */
/* The table of seconds of everything that is measured. */
#include "load/measure/per_second.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define SECOND_NS 1000000000u

enum {
	MAX_SECONDS = 1000000, /* a run of more (11 days) goes on, its last second gets the rest */
	STEP = 64,             /* a long run must not copy its seconds every second */
};

void *per_second_at(struct per_second *s, uint64_t at_ns)
{
	uint32_t i = (uint32_t)min_u64(at_ns / SECOND_NS, MAX_SECONDS - 1);
	size_t capacity = align_up(i + 1, STEP), had = align_up(s->nr, STEP);

	if (capacity > had) {
		char *more = reallocarray(s->rows, capacity, s->size);

		if (!more)
			return NULL;
		memset(more + had * s->size, 0, (capacity - had) * s->size);
		s->rows = more;
	}
	s->nr = i >= s->nr ? i + 1 : s->nr;
	return s->rows + i * s->size;
}

static uint64_t count_at(const void *row, size_t at)
{
	uint64_t v;

	memcpy(&v, (const char *)row + at, sizeof(v));
	return v;
}

static double real_at(const void *row, size_t at)
{
	double v;

	memcpy(&v, (const char *)row + at, sizeof(v));
	return v;
}

static void channel_add(const struct per_second_channel *c, char *to, const char *from)
{
	uint64_t n = count_at(to, c->at) + count_at(from, c->at);
	double a = real_at(to, c->at), b = real_at(from, c->at);
	double v = c->kind == PER_SECOND_MAX ? fmax(a, b) : a + b;

	memcpy(to + c->at, c->kind == PER_SECOND_COUNT ? (void *)&n : (void *)&v, sizeof(v));
}

int per_second_merge(struct per_second *s, const struct per_second *other)
{
	if (other->nr && !per_second_at(s, (uint64_t)(other->nr - 1) * SECOND_NS))
		return -ENOMEM;
	for (uint32_t i = 0; i < other->nr; i++)
		for (unsigned c = 0; c < s->nr_channels; c++)
			channel_add(&s->channels[c], s->rows + i * s->size,
				    per_second_row(other, i));
	return 0;
}

void per_second_fini(struct per_second *s)
{
	free(s->rows);
	s->rows = NULL;
	s->nr = 0;
}

double per_second_value(const struct per_second_channel *c, const void *row)
{
	uint64_t n;

	if (c->kind == PER_SECOND_COUNT)
		return (double)count_at(row, c->at);
	if (c->kind == PER_SECOND_SUM)
		return real_at(row, c->at);
	n = count_at(row, c->of);
	if (!n)
		return NAN;
	return real_at(row, c->at) / (c->kind == PER_SECOND_MEAN ? (double)n : 1);
}
