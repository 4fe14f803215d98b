/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: operations of the KV cache as CSV, and the cache that carries them out. */
#include <errno.h>
#include <string.h>

#include "load/model/kv_cache.h"
#include "tests/common/kv_ops.h"
#include "tests/fuzz/fuzz.h"

static void carry_out(const struct kv_ops *ops, unsigned char limits)
{
	static const struct kv_model small = {"small", "", 1, 1, 1, 1, 0, "int8", "mla", 1, 0};
	struct kv_cache_opts o;
	struct kv_cache *c = NULL;
	struct penstock_err err;

	kv_cache_opts_defaults(&o);
	o.model = &small;
	o.limit[KV_GPU] = limits & 15;
	o.limit[KV_CPU] = limits >> 2;
	o.limit[KV_NVME] = limits & 1 ? KV_UNLIMITED : limits;
	if (kv_cache_new(&c, &o, NULL, NULL) < 0)
		return;
	for (size_t i = 0; i < ops->nr && i < 10000; i++) {
		const struct kv_op *op = &ops->v[i];
		int r = op->allocate ? kv_cache_allocate(c, op->key, op->tokens)
				     : kv_cache_access(c, op->key, KV_DECODE, KV_USER);

		FUZZ_CHECK((r >= 0 && r < KV_TIERS) || (r == -ENOENT && !op->allocate));
	}
	FUZZ_CHECK(kv_cache_check(c, &err) == 0);
	kv_cache_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_texts *texts = kv_texts_new();
	struct penstock_err err = {0, ""};
	struct kv_ops ops;
	int r;

	if (!texts || !size)
		goto out;
	r = kv_ops_parse(&ops, (const char *)data + 1, size - 1, texts, &err);
	FUZZ_CHECK(r == 0 || r == -ENOMEM || (r == -EINVAL && !strncmp(err.msg, "line ", 5)));
	if (r == 0)
		carry_out(&ops, data[0]);
	kv_ops_fini(&ops);
out:
	kv_texts_free(texts);
	return 0;
}
