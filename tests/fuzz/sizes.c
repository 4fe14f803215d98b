/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: sizes as people type them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char buf[PENSTOCK_SIZE_TEXT], *s = malloc(size + 1);
	uint64_t v = 0x5a5a5a5a5a5a5a5a, again = 0;
	int r;

	if (!s)
		return 0;
	memcpy(s, data, size);
	s[size] = '\0';
	r = penstock_size_parse(&v, s);
	if (r < 0) {
		FUZZ_CHECK(r == -EINVAL || r == -ERANGE);
		FUZZ_CHECK(v == 0x5a5a5a5a5a5a5a5a); /* untouched */
	} else {
		FUZZ_CHECK(r == 0);
		FUZZ_CHECK(strlen(penstock_size_format(buf, v)) < sizeof(buf));
		FUZZ_CHECK(strlen(penstock_size_exact(buf, v)) < sizeof(buf));
		FUZZ_CHECK(penstock_size_parse(&again, buf) == 0 && again == v);
	}
	/* any number can be shown and read again */
	v = 0;
	memcpy(&v, data, size < sizeof(v) ? size : sizeof(v));
	FUZZ_CHECK(penstock_size_format(buf, v) == buf && buf[0]);
	FUZZ_CHECK(penstock_size_parse(&again, penstock_size_exact(buf, v)) == 0 && again == v);
	free(s);
	return 0;
}
