/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_KV_KV_CONFIG_H
#define PENSTOCK_CLI_KV_KV_CONFIG_H

/* --config of `penstock kv': the YAML file of kv-cache.py, as strict as there. */
#include <stdbool.h>
#include <stddef.h>

#include "load/model/kv_params.h"

struct cli_problems;

/*
 * Set in @c, which has the defaults, what the YAML in @text says.  Everything that is wrong goes
 * to @problems, what is odd to @warnings; the lines begin with @name, the name of the file.
 */
void kv_config_parse(struct kv_config *c, const char *text, size_t len, const char *name,
		     struct cli_problems *problems, struct cli_problems *warnings);
/* The same for a file. */
void kv_config_load(struct kv_config *c, const char *path, struct cli_problems *problems,
		    struct cli_problems *warnings);

/*
 * The keys, for the documentation and the tests: the @i-th in full, "rag.top_k_chunks", and whether
 * upstream leaves it without effect; NULL past the last.
 */
const char *kv_config_key(unsigned i, bool *ret_dead);

#endif
