/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_JOB_SPACE_H
#define PENSTOCK_JOBS_JOB_SPACE_H

/*
 * The configurations that sweep and tune walk: the product of a few axes, each a
 * setting with its values, in the words of ds_io's options.  A point is a number
 * below space_points(); the last axis varies fastest.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

enum space_kind {
	SPACE_BLOCK_SIZE,
	SPACE_QUEUE_DEPTH,
	SPACE_SEQUENTIAL,
	SPACE_SINGLE,
	SPACE_IO_PARALLEL,
	SPACE_ENGINE,
	SPACE_MEMORY, /* BED_* */
	SPACE_KINDS,
};

/* "block_size", ...: ds_io's options; "engine" and "memory" are ours. */
extern const char *const space_names[SPACE_KINDS];

struct space_value {
	uint64_t n;
	char *text; /* of SPACE_ENGINE */
};

struct space_axis {
	enum space_kind kind;
	unsigned nr;
	struct space_value *values;
};

struct space {
	unsigned nr;
	struct space_axis axes[SPACE_KINDS];
};

/*
 * Add a value to the axis of @kind, which becomes the last one if it is new.  Range
 * and meaning of @n are checked: -EINVAL with the reason in @err; -EEXIST when the
 * value is there already.
 */
int space_add(struct space *s, enum space_kind kind, uint64_t n, const char *text,
	      struct penstock_err *err);
void space_fini(struct space *s);

unsigned space_points(const struct space *s);
/* The value of @point on the axis of @kind; NULL when the space has no such axis. */
const struct space_value *space_value(const struct space *s, unsigned point, enum space_kind kind);
/* Set in @opts, and in *@memory, what the axes say; the rest stays. */
void space_apply(const struct space *s, unsigned point, struct penstock_opts *opts,
		 uint32_t *memory);

/*
 * What a configuration takes, to choose between equals: threads first, then
 * memory in flight, then what is not the default.
 */
double space_cost(const struct penstock_opts *opts);

/*
 * The name upstream gives to a configuration in one direction, without ".txt":
 * read_block_overlap_ftd1_d32_bs1M_p8.  What is not an axis has the value it has in
 * @opts.  Engine and memory stand behind the number of folders, where upstream's parser
 * takes any text, when their axes have several values: ftd1-io-uring-plain.  Block
 * sizes are in K or M; other letters and odd sizes that parser does not know.
 */
void space_name(char *buf, size_t size, const struct space *s, unsigned point, bool read,
		unsigned nr_folders, const struct penstock_opts *opts);

/* The spaces of upstream's tools. */
int space_nvme_tune(struct space *s, struct penstock_err *err); /* ds_nvme_tune: 64 points */

#endif
