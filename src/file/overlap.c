/* SPDX-License-Identifier: Apache-2.0 */
#include "file/overlap.h"

#include <unistd.h>

void penstock_overlap_init(struct penstock_overlap *o)
{
	pthread_mutex_init(&o->lock, NULL);
	o->direct.prev = o->direct.next = &o->direct;
	o->cached.prev = o->cached.next = &o->cached;
}

void penstock_overlap_fini(struct penstock_overlap *o)
{
	pthread_mutex_destroy(&o->lock);
}

bool penstock_overlap_begin(struct penstock_overlap *o, struct penstock_range *r, uint64_t off,
			    uint64_t len, bool cached)
{
	struct penstock_range *mine = cached ? &o->cached : &o->direct;
	struct penstock_range *others = cached ? &o->direct : &o->cached;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	bool free = true;

	r->first = off / page;
	r->last = (off + len - 1) / page;
	pthread_mutex_lock(&o->lock);
	for (struct penstock_range *x = others->next; x != others && free; x = x->next)
		free = r->last < x->first || x->last < r->first;
	if (free) {
		r->prev = mine->prev;
		r->next = mine;
		mine->prev->next = r;
		mine->prev = r;
	}
	pthread_mutex_unlock(&o->lock);
	return free;
}

void penstock_overlap_end(struct penstock_overlap *o, struct penstock_range *r)
{
	pthread_mutex_lock(&o->lock);
	r->prev->next = r->next;
	r->next->prev = r->prev;
	pthread_mutex_unlock(&o->lock);
}
