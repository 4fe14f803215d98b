/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the pinned pool, taken by hand from the queues of a handle that has nothing to do. */
#include "core/core.h"
#include "core/queue.h"
#include "tests/gpu/fixture.h"

enum { SEED = 61, LARGEST = PINNED_PIECE };

static struct queue *queues;

static void setup(void)
{
	struct penstock_op op;

	fixture_setup();
	t_file_make(fixture_path, SEED, 4096);
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, fixture_alloc(0, 4096), 4096, 0);
	FIXTURE_DO(&op, 4096, 0);
	queues = fixture_io->queues;
}

static void *get(unsigned queue, uint64_t len)
{
	void *p = NULL;
	int r = pinned_pool_get(&queues[queue], len, &p);

	T_OK(r == 0 || (r == -EBUSY && !p));
	return p;
}

/* All of it, in the largest pieces. */
static unsigned get_all(unsigned queue, void **pieces, unsigned max)
{
	unsigned n = 0;

	while (n < max && (pieces[n] = get(queue, LARGEST)))
		n++;
	return n;
}

static void nothing_is_lost_and_nothing_given_twice(void)
{
	enum { NR = 400 };
	static struct {
		unsigned char *at;
		uint64_t len;
	} held[NR];
	unsigned most = (unsigned)(fixture_io->pinned_pool.bytes / LARGEST), n;
	void *pieces[256];
	struct penstock_random r;

	penstock_random_seed(&r, t_seed());
	for (unsigned long i = 0; i < t_ops(20000); i++) {
		unsigned k = (unsigned)penstock_random_below(&r, NR);
		uint64_t len = penstock_random_below(&r, 3) ? 4096 : LARGEST;

		if (held[k].at) {
			T_EQ(held[k].at[0], k % 251);
			T_EQ(held[k].at[held[k].len - 1], k % 251);
			pinned_pool_put(&queues[0], held[k].at);
			held[k].at = NULL;
			continue;
		}
		held[k].len = 1 + penstock_random_below(&r, len);
		held[k].at = get(0, held[k].len);
		if (!held[k].at) {
			pinned_pool_stop_waiting(&queues[0]);
			continue;
		}
		T_OK(is_aligned((uintptr_t)held[k].at, 4096));
		held[k].at[0] = held[k].at[held[k].len - 1] = k % 251;
	}
	for (unsigned k = 0; k < NR; k++)
		if (held[k].at)
			pinned_pool_put(&queues[0], held[k].at);
	memset(held, 0, sizeof(held));
	n = get_all(0, pieces, T_COUNT(pieces));
	T_EQ(n, most);
	pinned_pool_stop_waiting(&queues[0]);
	while (n)
		pinned_pool_put(&queues[0], pieces[--n]);
}

static void who_waits_longest_is_served_first(void)
{
	void *pieces[256], *small, *large;
	unsigned n = get_all(0, pieces, T_COUNT(pieces));

	/* queue 0 waits for a large one; there is one page too few, and queue 1 must not take it */
	pinned_pool_put(&queues[0], pieces[--n]);
	pinned_pool_stop_waiting(&queues[0]);
	small = get(1, 4096);
	T_OK(small);
	T_OK(!get(0, LARGEST));
	T_OK(!get(1, 4096));
	pinned_pool_put(&queues[1], small);
	T_OK(!get(1, 4096));
	large = get(0, LARGEST);
	T_OK(large);
	T_OK(!get(1, 4096));
	pinned_pool_put(&queues[0], large);
	small = get(1, 4096);
	T_OK(small);
	pinned_pool_put(&queues[1], small);
	while (n)
		pinned_pool_put(&queues[0], pieces[--n]);
}

/* Its thread may be busy with a callback: where there is enough, nobody waits for it. */
static void who_waits_and_does_not_look_holds_nobody_up(void)
{
	void *pieces[256], *other;
	unsigned n = get_all(0, pieces, T_COUNT(pieces));

	T_OK(queues[0].pinned_waits);
	while (n > 4)
		pinned_pool_put(&queues[0], pieces[--n]);
	other = get(1, LARGEST);
	T_OK(other);
	pinned_pool_put(&queues[1], other);
	while (n)
		pinned_pool_put(&queues[0], pieces[--n]);
	pinned_pool_stop_waiting(&queues[0]);
}

static const struct t_case cases[] = {
	T_CASE(nothing_is_lost_and_nothing_given_twice),
	T_CASE(who_waits_longest_is_served_first),
	T_CASE(who_waits_and_does_not_look_holds_nobody_up),
};

const struct t_group pinned_pool_pieces = {
	"pieces", setup, fixture_teardown, cases, T_COUNT(cases),
};
