/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from results: whoever writes a duration has one, and not all of them know results. */
#include "base/hist.h"
#include "base/util.h"
#include "load/report/result/text.h"

json_t *report_histogram(const struct penstock_hist *h)
{
	json_t *buckets = json_array();
	struct penstock_hist_bucket b;

	for (unsigned pos = 0; h && penstock_hist_next(h, &pos, &b);)
		json_array_append_new(buckets, json_pack("[I, I, I]", (json_int_t)b.low,
							 (json_int_t)b.high, (json_int_t)b.count));
	return json_pack("{s:s, s:f, s:o}", "unit", "ns", "max_error", PENSTOCK_HIST_ERROR,
			 "buckets", buckets);
}

json_t *report_hist_levels(const struct penstock_hist *h, uint64_t sum_ns)
{
	static const char *const names[] = {"p50", "p90", "p95", "p99", "p99.9", "p99.99"};
	static const double levels[] = {50, 90, 95, 99, 99.9, 99.99};
	json_t *j;

	if (!h->count)
		return json_null();
	j = json_pack("{s:I, s:b, s:f, s:f}", "n", (json_int_t)h->count, "exact", false, "mean",
		      (double)sum_ns / (double)h->count / 1e9, "max", (double)h->max / 1e9);
	for (unsigned i = 0; i < ARRAY_SIZE(levels); i++)
		json_object_set_new(j, names[i],
				    json_real(penstock_hist_percentile(h, levels[i]) / 1e9));
	json_object_set_new(j, "histogram", report_histogram(h));
	return j;
}
