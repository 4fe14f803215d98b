/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a file of checksums.  The first byte says whether its own checksum is put right, so
 * that what lies behind it is reached.  What is accepted comes out the same when it is written
 * again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/util.h"
#include "ckpt/crcfile.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE unsigned char *buf = NULL;
	CLEANUP_FREE void *again = NULL;
	const char *why = NULL;
	struct crcfile f;
	size_t len;
	int r;

	if (!size)
		return 0;
	len = size - 1;
	buf = malloc(size);
	if (!buf)
		return 0;
	memcpy(buf, data + 1, len);
	if (data[0] & 1 && len >= 4) {
		uint32_t crc = penstock_crc32c(0, buf, len - 4);

		for (unsigned i = 0; i < 4; i++)
			buf[len - 4 + i] = (unsigned char)(crc >> 8 * i);
	}
	r = crcfile_parse(&f, buf, len, &why);
	FUZZ_CHECK(r == 0 || (r == -EBADMSG && why));
	if (r < 0)
		return 0;
	for (unsigned i = 0; i < f.nr; i++)
		FUZZ_CHECK(f.sets[i].nr ==
			   (f.sets[i].flags & CRC_SET_UNKNOWN ? 0 : crc_chunks(f.sets[i].bytes)));
	again = crcfile_format(f.sets, f.nr, &size);
	FUZZ_CHECK(again && size == len && !memcmp(again, buf, len));
	crcfile_free(&f);
	return 0;
}
