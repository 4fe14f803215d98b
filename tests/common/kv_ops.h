/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_KV_OPS_H
#define PENSTOCK_TESTS_KV_OPS_H

/*
 * Operations of the cache as a CSV text: one row each, `A' allocate or `R' read.
 *
 *	op,key,tokens,result_tier
 *	A,k0,10,gpu
 *	R,k0,0,gpu
 *
 * The first row names the columns, in any order, and more of them than these do no harm; without
 * it they are op, key, tokens.  Lines end with LF or CRLF, fields may be in quotes.
 */
#include <stddef.h>

#include <penstock/penstock.h>

#include "load/model/kv_key.h"

struct kv_op {
	bool allocate;
	uint32_t tokens;
	struct kv_key key;
};

struct kv_ops {
	struct kv_op *v;
	size_t nr, capacity;
};

/* 0, -ENOMEM, or -EINVAL with the number of the line in @err; @o is to be freed in any case. */
int kv_ops_parse(struct kv_ops *o, const char *text, size_t len, struct kv_texts *texts,
		 struct penstock_err *err);
void kv_ops_fini(struct kv_ops *o);

#endif
