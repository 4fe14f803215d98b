/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_STOREKIT_H
#define PENSTOCK_TESTS_STOREKIT_H

/* What the tests of the KV store share: one at a time in t_dir(), and calls for one key. */
#include <penstock/store.h>

#include "tests/common/t.h"

extern struct penstock_store *sk;          /* the one that is open */
extern struct penstock_store_opts sk_opts; /* for the next one; sk_reset() */
unsigned sk_reported_errors(void);         /* since sk_reset() */

void sk_reset(void);
/* @dirs: names separated by spaces, in t_dir(). */
int sk_try_open(const char *dirs, uint64_t capacity, struct penstock_err *err);
void sk_open(const char *dirs, uint64_t capacity);
void sk_close(void);

/* Around a case: a store in "d"; nothing is left. */
void sk_begin(void);
void sk_end(void);

/* A batch of @n keys that are numbers; values begin with the number and are made of @seed. */
int64_t sk_set(const char *key, uint64_t seed, uint64_t len);
/* The value must be of @seed if there is one; returns its length, or why not. */
int64_t sk_get(const char *key, uint64_t seed, uint64_t room);
int64_t sk_exists(const char *key);
int64_t sk_delete(const char *key);
struct penstock_store_stats sk_stats(void);

/* One operation with everything; the key has @key_len bytes. */
int64_t sk_op(uint32_t opcode, const void *key, uint32_t key_len, void *buf, uint64_t len,
	      uint64_t deadline_ns);

#endif
