/* SPDX-License-Identifier: Apache-2.0 */
#include "base/optscopy.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

int penstock_opts_copy(void *o, uint32_t size, const void *user, struct penstock_err *err)
{
	const unsigned char *bytes = user;
	uint32_t known;

	memset(o, 0, size);
	if (!user)
		return 0;
	memcpy(&known, user, sizeof(known));
	if (known < sizeof(known) * 2)
		return penstock_fail(err, -EINVAL,
				     "size: %u is too small; start from ..._OPTS_INIT", known);
	memcpy(o, user, min_u64(known, size));
	for (uint32_t i = size; i < known; i++)
		if (bytes[i])
			return penstock_fail(err, -E2BIG,
					     "size: a field is set that this library (%s) does not "
					     "know",
					     PENSTOCK_VERSION_STRING);
	return 0;
}
