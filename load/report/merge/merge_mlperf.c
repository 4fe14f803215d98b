/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MLPerf makes of the ranks of a KV cache: rates are each rank's own, added up, and of
 * percentiles the largest that a rank has.  Neither is what one process would have had, which is
 * beside it.
 */
#include <math.h>
#include <string.h>

#include "load/report/merge/merge_internal.h"
#include "load/report/result/text.h"

static const json_t *storage_tier(const json_t *kv)
{
	const json_t *tiers = json_object_get(kv, "tiers"), *t;
	size_t i;

	json_array_foreach(tiers, i, t)
	{
		const char *name = json_string_value(json_object_get(t, "name"));

		if (name && !strcmp(name, "nvme"))
			return t;
	}
	return NULL;
}

static void update_worst(double *p95, const json_t *of, const char *what)
{
	const json_t *v = json_object_get(json_object_get(of, what), "p95");

	if (json_is_number(v))
		*p95 = fmax(*p95, json_number_value(v));
}

/* Null where no rank has one. */
static json_t *number_or_null(double v)
{
	return v >= 0 ? json_real(v) : json_null();
}

json_t *merge_mlperf(const struct merge_input *in, unsigned nr)
{
	double read = 0, written = 0, tokens = 0, storage = -1, device[2] = {-1, -1};
	bool any = false;

	for (unsigned i = 0; i < nr; i++) {
		const json_t *kv = json_object_get(in[i].result, "kv"), *tier = storage_tier(kv);
		double sec = report_number(kv, "elapsed_sec");

		if (!kv)
			continue;
		any = true;
		read += sec > 0 ? report_number(tier, "read_bytes") / sec : 0;
		written += sec > 0 ? report_number(tier, "written_bytes") / sec : 0;
		tokens += sec > 0 ? report_number(kv, "tokens") / sec : 0;
		update_worst(&storage, json_object_get(kv, "latency"), "storage");
		update_worst(&device[0], tier, "device_read");
		update_worst(&device[1], tier, "device_write");
	}
	if (!any)
		return NULL;
	return json_pack("{s:f, s:f, s:f, s:o, s:o, s:o}", "read_bytes_per_sec", read,
			 "write_bytes_per_sec", written, "tokens_per_sec", tokens, "storage_p95",
			 number_or_null(storage), "device_read_p95", number_or_null(device[0]),
			 "device_write_p95", number_or_null(device[1]));
}
