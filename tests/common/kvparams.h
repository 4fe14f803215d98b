/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_TESTS_KVPARAMS_H
#define SLUICE_TESTS_KVPARAMS_H

/* Parameters of a KV-cache workload as the command has them without options. */
#include "load/model/kv_load.h"

/* tiny-1b, seed 42, no generation time; kv_config_fini(&p->config) is due. */
void t_kv_params(struct kv_params *p, uint32_t users, double duration_sec);

#endif
