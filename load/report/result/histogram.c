/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from results: whoever writes a duration has one, and not all of them know results. */
#include "base/hist.h"
#include "load/report/result/text.h"

json_t *report_histogram(const struct sluice_hist *h)
{
	json_t *buckets = json_array();
	struct sluice_hist_bucket b;

	for (unsigned pos = 0; h && sluice_hist_next(h, &pos, &b);)
		json_array_append_new(buckets, json_pack("[I, I, I]", (json_int_t)b.low,
							 (json_int_t)b.high, (json_int_t)b.count));
	return json_pack("{s:s, s:f, s:o}", "unit", "ns", "max_error", SLUICE_HIST_ERROR, "buckets",
			 buckets);
}
