/* SPDX-License-Identifier: Apache-2.0 */
/* Records in an array that grows, linked in the order of their last use. */
#include "load/model/kv_conv.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

int kv_convs_init(struct kv_convs *c, int64_t max)
{
	*c = (struct kv_convs){.oldest = KV_NO_CONV, .newest = KV_NO_CONV};
	c->max = max < 1 ? 1 : (uint32_t)min_u64((uint64_t)max, KV_NO_CONV - 1);
	c->capacity = (uint32_t)min_u64(c->max, 1024);
	c->v = calloc(c->capacity, sizeof(*c->v));
	return c->v ? 0 : -ENOMEM;
}

void kv_convs_fini(struct kv_convs *c)
{
	free(c->v);
	c->v = NULL;
}

static void unlink_slot(struct kv_convs *c, uint32_t slot)
{
	struct kv_conv *v = &c->v[slot];

	if (v->older == KV_NO_CONV)
		c->oldest = v->newer;
	else
		c->v[v->older].newer = v->newer;
	if (v->newer == KV_NO_CONV)
		c->newest = v->older;
	else
		c->v[v->newer].older = v->older;
}

static void conv_link_newest(struct kv_convs *c, uint32_t slot)
{
	c->v[slot].older = c->newest;
	c->v[slot].newer = KV_NO_CONV;
	if (c->newest == KV_NO_CONV)
		c->oldest = slot;
	else
		c->v[c->newest].newer = slot;
	c->newest = slot;
}

/* Without memory the manager stays as large as it is. */
static bool convs_grow(struct kv_convs *c)
{
	uint32_t capacity = (uint32_t)min_u64(c->max, 2 * (uint64_t)c->capacity);
	struct kv_conv *v =
		capacity > c->capacity ? reallocarray(c->v, capacity, sizeof(*v)) : NULL;

	if (!v)
		return false;
	c->v = v;
	c->capacity = capacity;
	return true;
}

uint32_t kv_convs_start(struct kv_convs *c, uint32_t user, uint64_t ms)
{
	uint32_t slot;

	if (c->nr < c->capacity || convs_grow(c)) {
		slot = c->nr++;
	} else {
		slot = c->oldest;
		unlink_slot(c, slot);
	}
	c->v[slot] = (struct kv_conv){.ms = ms, .user = user};
	conv_link_newest(c, slot);
	return slot;
}

bool kv_convs_has(const struct kv_convs *c, uint32_t slot, uint32_t user, uint64_t ms)
{
	return slot < c->nr && c->v[slot].user == user && c->v[slot].ms == ms;
}

uint32_t kv_convs_turn(struct kv_convs *c, uint32_t slot)
{
	if (c->newest != slot) {
		unlink_slot(c, slot);
		conv_link_newest(c, slot);
	}
	return ++c->v[slot].turns;
}
