/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the head of a KV store, its line of text, and the head of a log. */
#include <errno.h>
#include <string.h>

#include "kvstore/kvstore.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char log[STORE_LOG_HEAD] = {0};
	struct store_log_head lh;
	struct store_head h;
	int r = store_head_parse(&h, (const char *)data, size);

	FUZZ_CHECK(r == 0 || r == -EEXIST || r == -EPROTO);
	memcpy(log, data, size < sizeof(log) ? size : sizeof(log));
	r = store_log_head_get(&lh, log);
	FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -EPROTO);
	return 0;
}
