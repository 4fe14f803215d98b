/* SPDX-License-Identifier: Apache-2.0 */
/* What is put into the cache before the interval begins: preconditioning, and what decode reads. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "load/kv/kv_run.h"

#define GIVE_UP  50 /* failures in a row; upstream's */
#define SLICE_NS 100000000

static unsigned fill_width(const struct kv_params *p)
{
	long n = p->precondition_threads;

	if (!n)
		n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (unsigned)n : 1;
}

static int fill_wait(struct kv_run *k, unsigned most)
{
	int r = 0;

	while (r >= 0 && k->active > most && !kv_run_stopped(k))
		r = kv_run_wait(k, clock_ns() + SLICE_NS);
	return r < 0 ? r : 0;
}

static int given_up(struct kv_run *k)
{
	if (k->fill_failures <= GIVE_UP)
		return 0;
	return kv_run_fail(k, -EIO, "%u writes in a row failed before the run: %s",
			   k->fill_failures, k->r->first_error);
}

int kv_run_fill(struct kv_run *k)
{
	unsigned width = fill_width(k->p);
	struct kv_key key;
	uint32_t tokens;
	int r = 0;

	flow_set_allocs(k->flow, k->p->max_concurrent_allocs);
	for (uint64_t i = 0;
	     r == 0 && !kv_run_stopped(k) && kv_prepop(k->p, k->pl.storage, i, &key, &tokens);
	     i++) {
		if (key.kind == KV_KEY_PREPOP)
			flow_set_allocs(k->flow, 0); /* upstream's go past the semaphore */
		r = fill_wait(k, width - 1);
		if (r == 0)
			r = given_up(k);
		if (r == 0)
			r = kv_run_start_fill(k, key, tokens);
	}
	if (r == 0)
		r = fill_wait(k, 0);
	if (r == 0)
		r = given_up(k);
	flow_set_allocs(k->flow, k->p->max_concurrent_allocs);
	k->fill_failures = 0;
	memset(k->r->first_error, 0, sizeof(k->r->first_error));
	return r;
}
