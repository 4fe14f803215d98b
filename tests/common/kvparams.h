/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_KVPARAMS_H
#define PENSTOCK_TESTS_KVPARAMS_H

/* Parameters of a KV-cache workload as the command has them without options, and its load. */
#include "load/model/kv_load.h"

/* tiny-1b, seed 42, no generation time; kv_config_fini(&p->config) is due. */
void t_kv_params(struct kv_params *p, uint32_t users, double duration_sec);

/* One load at a time: setup, change t_kv.params, begin as often as you like, teardown. */
struct t_kv {
	struct kv_params params;
	struct kv_load *load;
	struct kv_texts *texts;
};
extern struct t_kv t_kv;

void t_kv_setup(void); /* 20 users, 60 s */
void t_kv_teardown(void);
void t_kv_begin(void);
/* The next start of the virtual clock. */
bool t_kv_next(struct kv_request *r);
/* All of them, from the beginning: how many. */
unsigned t_kv_count(void);
/* Is that its name?  Says so when not. */
bool t_kv_is_key(struct kv_key key, const char *want);

/* FNV-1a: start with T_SUM. */
#define T_SUM 0xcbf29ce484222325ull
uint64_t t_sum(uint64_t sum, const void *data, size_t len);

#endif
