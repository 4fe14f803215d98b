/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/ckptopts.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"

int ckpt_opts_buffers(uint32_t *buffers, uint64_t *bytes, uint64_t preset, struct penstock_err *err)
{
	enum { PRESET = 4, MIN = 2, MAX = 64 };
	const uint64_t most = 1ull << 30;

	if (!*buffers)
		*buffers = PRESET;
	if (!*bytes)
		*bytes = preset;
	if (*buffers < MIN || *buffers > MAX)
		return penstock_fail(err, -EINVAL, "buffers: %u is outside %d..%d", *buffers, MIN,
				     MAX);
	if (*bytes % PENSTOCK_CHUNK || *bytes > most)
		return penstock_fail(err, -EINVAL,
				     "buffer_bytes: %" PRIu64
				     " is not a multiple of 1 MiB of at most 1 GiB",
				     *bytes);
	return 0;
}
