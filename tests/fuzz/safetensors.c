/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the header of a safetensors file.  The first byte says how many bytes of data there
 * are behind it.  What is accepted covers the file exactly, and comes out the same when it is
 * written and read again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ckpt/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

static void check_ranges(const struct safetensors_header *h, uint64_t begin, uint64_t end)
{
	for (uint64_t i = 0; i < h->nr; i++) {
		const struct penstock_tensor *t = &h->tensors[i];
		uint64_t bytes;

		FUZZ_CHECK(t->offset == begin && t->len <= end - begin);
		FUZZ_CHECK(tensor_bytes(t, &bytes) == 0 && bytes == t->len);
		FUZZ_CHECK(t->rank <= RANK_MAX && penstock_dtype_name(t->dtype));
		begin += t->len;
	}
	FUZZ_CHECK(begin == end);
}

static void check_again(const struct safetensors_header *h)
{
	CLEANUP_FREE uint64_t *order = malloc((h->nr + 1) * sizeof(*order));
	CLEANUP_FREE char *text = NULL;
	struct penstock_err err = {0, ""};
	struct safetensors_header again;
	uint64_t data = 0;
	size_t len;

	FUZZ_CHECK(order);
	for (uint64_t i = 0; i < h->nr; i++) {
		order[i] = i;
		data += h->tensors[i].len;
	}
	text = safetensors_header_format(h->tensors, order, h->nr, h->meta, h->nr_meta, &len);
	FUZZ_CHECK(text && len % 8 == 0);
	FUZZ_CHECK(safetensors_header_parse(&again, text + 8, len - 8, len + data, &err) == 0);
	FUZZ_CHECK(again.nr == h->nr && again.nr_meta == h->nr_meta);
	check_ranges(&again, len, len + data);
	for (uint64_t i = 0; i < h->nr_meta; i++)
		FUZZ_CHECK(!strcmp(h->meta[i].key, again.meta[i].key) &&
			   !strcmp(h->meta[i].value, again.meta[i].value));
	safetensors_header_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = NULL;
	struct penstock_err err = {0, ""};
	struct safetensors_header h;
	uint64_t file;
	int r;

	if (!size)
		return 0;
	text = malloc(size); /* exactly, so that a byte too far is seen */
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	file = 8 + (size - 1) + data[0];
	r = safetensors_header_parse(&h, text, size - 1, file, &err);
	FUZZ_CHECK(r == 0 || (r == -EINVAL && err.code == r && err.msg[0]));
	if (r < 0)
		return 0;
	check_ranges(&h, 8 + (size - 1), file);
	check_again(&h);
	safetensors_header_free(&h);
	return 0;
}
