/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of a file are those of a histogram, or the file is of another program. */
#include <errno.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/merge/merge_internal.h"

int merge_hist_read(struct penstock_hist *h, const json_t *j, const char *name, const char *where,
		    struct penstock_err *err)
{
	const json_t *b;
	size_t i;

	json_array_foreach(json_object_get(j, "buckets"), i, b)
	{
		struct penstock_hist_bucket one = {
			.low = (uint64_t)json_integer_value(json_array_get(b, 0)),
			.high = (uint64_t)json_integer_value(json_array_get(b, 1)),
			.count = (uint64_t)json_integer_value(json_array_get(b, 2)),
		};

		if (!penstock_hist_add_bucket(h, &one))
			return penstock_fail(err, -EINVAL,
					     "'%s': %s.buckets[%zu] is not a bucket of a histogram "
					     "of penstock",
					     name, where, i);
	}
	return 0;
}
