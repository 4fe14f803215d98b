/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_WEIGHTS_MODEL_H
#define PENSTOCK_WEIGHTS_MODEL_H

/* The list of weights from inside, and those who fill it from what is on disk. */
#include <penstock/weights.h>
#include <stdbool.h>

#include "base/table.h"

struct model_path {
	struct penstock_table_node node;
	uint32_t nr; /* of the file */
	char text[];
};

struct penstock_model {
	struct penstock_weight *weights;
	uint32_t *files; /* of each weight, its file */
	uint64_t nr, capacity, files_capacity;
	struct penstock_group *groups;
	uint64_t nr_groups, groups_capacity;
	struct model_path **paths; /* of the files, each once */
	uint64_t nr_paths, paths_capacity;
	struct penstock_table by_path;
};

/* Weights were added in one group: make groups by their names, in order of use.  0 or -ENOMEM. */
int model_regroup(struct penstock_model *m, uint32_t by, struct penstock_err *err);

/*
 * Add a weight of a file; one that holds all experts of a layer, along its first dimension, as
 * many weights where @by says so.
 */
int model_add_parts(struct penstock_model *m, const struct penstock_weight *t, uint32_t by,
		    struct penstock_err *err);

/* All weights of a file of GGUF. */
int gguf_add(struct penstock_model *m, struct penstock_io *io, const char *path, uint32_t by,
	     struct penstock_err *err);
/* Does it begin like one? */
bool gguf_is(const unsigned char *head, uint64_t len);

/* All tensors of a file of safetensors. */
int shard_add(struct penstock_model *m, struct penstock_io *io, const char *path,
	      struct penstock_err *err);
/* Those that an index of several files names, which lie in the same folder. */
int shards_add(struct penstock_model *m, struct penstock_io *io, const char *index,
	       struct penstock_err *err);

#endif
