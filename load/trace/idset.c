/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing, at most three quarters full. */
#include "load/trace/idset.h"

#include <errno.h>
#include <stdlib.h>

static size_t slot_of(const struct idset *s, uint64_t id)
{
	uint64_t h = id * 0x9e3779b97f4a7c15ull;

	return (size_t)(h ^ h >> 32) & (s->capacity - 1);
}

static size_t idset_slot(const struct idset *s, uint64_t id)
{
	size_t i = slot_of(s, id);

	while (s->slots[i] && s->slots[i] != id)
		i = (i + 1) & (s->capacity - 1);
	return i;
}

static int idset_grow(struct idset *s, bool valued)
{
	struct idset bigger = *s;

	bigger.capacity = s->capacity ? s->capacity * 2 : 1024;
	bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
	bigger.values = valued ? calloc(bigger.capacity, sizeof(*bigger.values)) : NULL;
	if (!bigger.slots || (valued && !bigger.values)) {
		free(bigger.slots);
		free(bigger.values);
		return -ENOMEM;
	}
	for (size_t i = 0; i < s->capacity; i++) {
		size_t to;

		if (!s->slots[i])
			continue;
		to = idset_slot(&bigger, s->slots[i]);
		bigger.slots[to] = s->slots[i];
		if (valued)
			bigger.values[to] = s->values[i];
	}
	free(s->slots);
	free(s->values);
	*s = bigger;
	return 0;
}

/* @kept is where the value is, or NULL. */
static int idset_remember(bool was, uint32_t *kept, uint32_t *value)
{
	if (kept && was)
		*value = *kept;
	else if (kept)
		*kept = *value;
	return !was;
}

int idset_add_value(struct idset *s, uint64_t id, uint32_t *value)
{
	bool was = s->zero;
	size_t i;

	if (!id) {
		s->zero = true;
		return idset_remember(was, value ? &s->zero_value : NULL, value);
	}
	if (s->nr >= s->capacity / 4 * 3 && idset_grow(s, value) < 0)
		return -ENOMEM;
	i = idset_slot(s, id);
	was = s->slots[i];
	s->slots[i] = id;
	s->nr += !was;
	return idset_remember(was, value ? &s->values[i] : NULL, value);
}

int idset_add(struct idset *s, uint64_t id)
{
	return idset_add_value(s, id, NULL);
}

void idset_fini(struct idset *s)
{
	free(s->slots);
	free(s->values);
	*s = (struct idset){.slots = NULL};
}
