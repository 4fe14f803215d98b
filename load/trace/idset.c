/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing, at most three quarters full. */
#include "load/trace/idset.h"

#include <errno.h>
#include <stdlib.h>

static size_t slot_of(const struct idset *s, uint64_t id)
{
	uint64_t h = id * 0x9e3779b97f4a7c15ull;

	return (size_t)(h ^ h >> 32) & (s->room - 1);
}

static size_t find(const struct idset *s, uint64_t id)
{
	size_t i = slot_of(s, id);

	while (s->slots[i] && s->slots[i] != id)
		i = (i + 1) & (s->room - 1);
	return i;
}

static int grow(struct idset *s)
{
	struct idset bigger = {.nr = s->nr, .room = s->room ? s->room * 2 : 1024};

	bigger.slots = calloc(bigger.room, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->room; i++)
		if (s->slots[i])
			bigger.slots[find(&bigger, s->slots[i])] = s->slots[i];
	bigger.zero = s->zero;
	free(s->slots);
	*s = bigger;
	return 0;
}

int idset_add(struct idset *s, uint64_t id)
{
	size_t i;

	if (!id) {
		bool was = s->zero;

		s->zero = true;
		return !was;
	}
	if (s->nr >= s->room / 4 * 3 && grow(s) < 0)
		return -ENOMEM;
	i = find(s, id);
	if (s->slots[i])
		return 0;
	s->slots[i] = id;
	s->nr++;
	return 1;
}

void idset_fini(struct idset *s)
{
	free(s->slots);
	*s = (struct idset){.slots = NULL};
}
