/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_CONFIG_SPACE_H
#define PENSTOCK_JOBS_CONFIG_SPACE_H

/*
 * The configurations that sweep and tune walk: the product of a few axes, each a
 * setting with its values, in the words of ds_io's options.  A point is a number
 * below config_space_points(); the last axis varies fastest.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

enum config_space_kind {
	CONFIG_SPACE_BLOCK_SIZE,
	CONFIG_SPACE_QUEUE_DEPTH,
	CONFIG_SPACE_SEQUENTIAL,
	CONFIG_SPACE_SINGLE,
	CONFIG_SPACE_IO_PARALLEL,
	CONFIG_SPACE_ENGINE,
	CONFIG_SPACE_MEMORY, /* BED_* */
	CONFIG_SPACE_KINDS,
};

/* "block_size", ...: ds_io's options; "engine" and "memory" are ours. */
extern const char *const config_space_names[CONFIG_SPACE_KINDS];

struct config_space_value {
	uint64_t n;
	char *text; /* of CONFIG_SPACE_ENGINE */
};

struct config_space_axis {
	enum config_space_kind kind;
	unsigned nr;
	struct config_space_value *values;
};

struct config_space {
	unsigned nr;
	struct config_space_axis axes[CONFIG_SPACE_KINDS];
};

/*
 * Add a value to the axis of @kind, which becomes the last one if it is new.  Range
 * and meaning of @n are checked: -EINVAL with the reason in @err; -EEXIST when the
 * value is there already.
 */
int config_space_add(struct config_space *s, enum config_space_kind kind, uint64_t n,
		     const char *text, struct penstock_err *err);
void config_space_fini(struct config_space *s);

unsigned config_space_points(const struct config_space *s);
/* The value of @point on the axis of @kind; NULL when the space has no such axis. */
const struct config_space_value *config_space_value(const struct config_space *s, unsigned point,
						    enum config_space_kind kind);
/* Set in @opts, and in *@memory, what the axes say; the rest stays. */
void config_space_apply(const struct config_space *s, unsigned point, struct penstock_opts *opts,
			uint32_t *memory);

/*
 * What a configuration takes, to choose between equals: threads first, then
 * memory in flight, then what is not the default.
 */
double config_space_cost(const struct penstock_opts *opts);

/*
 * The name upstream gives to a configuration in one direction, without ".txt":
 * read_block_overlap_ftd1_d32_bs1M_p8.  What is not an axis has the value it has in
 * @opts.  Engine and memory stand behind the number of folders, where upstream's parser
 * takes any text, when their axes have several values: ftd1-io-uring-plain.  Block
 * sizes are in K or M; other letters and odd sizes that parser does not know.
 */
void config_space_name(char *buf, size_t size, const struct config_space *s, unsigned point,
		       bool read, unsigned nr_folders, const struct penstock_opts *opts);

/* The spaces of upstream's tools. */
int config_space_nvme_tune(struct config_space *s,
			   struct penstock_err *err); /* ds_nvme_tune: 64 points */

#endif
