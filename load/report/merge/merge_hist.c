/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of a file are those of a histogram, or the file is of another program. */
#include <errno.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/merge/merge_in.h"

int merge_hist_read(struct sluice_hist *h, const json_t *j, const char *name, const char *where,
		    struct sluice_err *err)
{
	const json_t *b;
	size_t i;

	json_array_foreach(json_object_get(j, "buckets"), i, b)
	{
		struct sluice_hist_bucket one = {
			.low = (uint64_t)json_integer_value(json_array_get(b, 0)),
			.high = (uint64_t)json_integer_value(json_array_get(b, 1)),
			.count = (uint64_t)json_integer_value(json_array_get(b, 2)),
		};

		if (!sluice_hist_add_bucket(h, &one))
			return sluice_fail(err, -EINVAL,
					   "'%s': %s.buckets[%zu] is not a bucket of a histogram "
					   "of sluice",
					   name, where, i);
	}
	return 0;
}
