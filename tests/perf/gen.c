/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast content is made and checked by one core: perf-gen, which prints JSON.  A buffer of
 * 256 KiB stays in the cache; time is CPU time of the thread, so that a busy machine does not
 * count, and the best of several turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/gen.h"
#include "base/util.h"

enum { LEN = 256 << 10, TURNS = 9, TIMES = 1000 };

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double speed(const struct penstock_gen *g, void *buf, bool check)
{
	double best = 0, t;
	size_t right = 0;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		t = cpu_seconds();
		for (unsigned i = 0; i < TIMES; i++) {
			if (check)
				right += penstock_gen_check(g, 1, 0, buf, LEN) == LEN;
			else
				penstock_gen_fill(g, 1, (uint64_t)i * LEN, buf, LEN);
		}
		t = (double)TIMES * LEN / (cpu_seconds() - t) / 1e9;
		best = t > best ? t : best;
		penstock_gen_fill(g, 1, 0, buf, LEN);
	}
	if (check && right != TURNS * TIMES)
		exit(1);
	return best;
}

int main(void)
{
	static const double ratios[][2] = {{1, 1}, {1.5, 1}, {1, 2}, {2.7, 2.7}};
	void *buf = aligned_alloc(4096, LEN);
	struct penstock_gen g;
	double made;

	if (!buf)
		return 1;
	for (unsigned k = 0; penstock_gen_kernel(k); k++)
		for (unsigned i = 0; i < ARRAY_SIZE(ratios); i++) {
			if (penstock_gen_init(&g, 1, ratios[i][0], ratios[i][1], NULL) < 0)
				return 1;
			g.kernel = penstock_gen_kernel(k)->words;
			made = speed(&g, buf, false);
			printf("{\"kernel\": \"%s\", \"dedup\": %g, \"compress\": %g, "
			       "\"fill_gb_s\": %.1f, \"check_gb_s\": %.1f}\n",
			       penstock_gen_kernel(k)->name, ratios[i][0], ratios[i][1], made,
			       speed(&g, buf, true));
		}
	free(buf);
	return 0;
}
