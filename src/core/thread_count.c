/* SPDX-License-Identifier: Apache-2.0 */
#include "core/thread_count.h"

#include "base/util.h"

static bool is_busy(const struct thread_count_sample *sample, unsigned percent)
{
	return max_u64(sample->busy_ns, sample->kernel_ns) >=
	       sample->ns / 100 * percent * sample->threads;
}

/* What was tried is over: was it worth it? */
static bool has_paid(struct thread_count *count, uint64_t rate)
{
	bool paid = rate >= count->rate + count->rate / 8;

	count->rate = 0;
	if (paid) {
		count->patience = 0;
		return true;
	}
	count->patience = count->patience
				  ? (unsigned)min_u64(2 * count->patience, THREAD_COUNT_WAIT_MAX)
				  : THREAD_COUNT_WAIT;
	count->wait = count->patience;
	return false;
}

unsigned thread_count_choose(struct thread_count *count, const struct thread_count_sample *sample)
{
	uint64_t rate = sample->bytes / max_u64(sample->ns / 1000000, 1);

	if (count->fresh || !sample->behind) {
		count->fresh = false;
		return sample->threads;
	}
	if (count->rate && !has_paid(count, rate)) {
		count->fresh = true;
		return count->before;
	}
	if (sample->threads > 1 && !is_busy(sample, 40)) {
		count->fresh = true;
		return sample->threads / 2;
	}
	if (count->wait) {
		count->wait--;
		return sample->threads;
	}
	if (!is_busy(sample, 80) || sample->threads >= sample->most)
		return sample->threads;
	count->rate = max_u64(rate, 1);
	count->before = sample->threads;
	count->fresh = true;
	return (unsigned)min_u64(2 * sample->threads, sample->most);
}
