/* SPDX-License-Identifier: Apache-2.0 */
#include "core/thread_count.h"

#include "base/util.h"

static bool is_busy(const struct pace_seen *seen, unsigned percent)
{
	return max_u64(seen->busy_ns, seen->kernel_ns) >= seen->ns / 100 * percent * seen->threads;
}

/* What was tried is over: was it worth it? */
static bool has_paid(struct pace *p, uint64_t rate)
{
	bool paid = rate >= p->rate + p->rate / 8;

	p->rate = 0;
	if (paid) {
		p->patience = 0;
		return true;
	}
	p->patience = p->patience ? (unsigned)min_u64(2 * p->patience, PACE_WAIT_MAX) : PACE_WAIT;
	p->wait = p->patience;
	return false;
}

unsigned pace_judge(struct pace *p, const struct pace_seen *seen)
{
	uint64_t rate = seen->bytes / max_u64(seen->ns / 1000000, 1);

	if (p->fresh || !seen->behind) {
		p->fresh = false;
		return seen->threads;
	}
	if (p->rate && !has_paid(p, rate)) {
		p->fresh = true;
		return p->before;
	}
	if (seen->threads > 1 && !is_busy(seen, 40)) {
		p->fresh = true;
		return seen->threads / 2;
	}
	if (p->wait) {
		p->wait--;
		return seen->threads;
	}
	if (!is_busy(seen, 80) || seen->threads >= seen->most)
		return seen->threads;
	p->rate = max_u64(rate, 1);
	p->before = seen->threads;
	p->fresh = true;
	return (unsigned)min_u64(2 * seen->threads, seen->most);
}
