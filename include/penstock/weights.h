/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_WEIGHTS_H
#define PENSTOCK_WEIGHTS_H

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Weights from storage: a model larger than memory passes through a window.
 *
 *	penstock_model_open                            a model on disk, or
 *	penstock_model_new -> penstock_model_group -> penstock_model_add ...  the caller's list
 *
 *	penstock_weights_open -> penstock_weights_next -> (use it) -> penstock_weights_release ...
 *	                      -> penstock_weights_close, at any moment
 *
 * A model is a list of weights, each a range of a file, in groups: what is used at once, a layer
 * or an expert.  A window reads groups ahead of their use, in that order, into as much memory as
 * it was given.  penstock_weights_next() waits for its own group and no other.
 *
 * Reads are made for the device and not for the tensors: neighbours are read together, in pieces
 * of 1 to 4 MiB, in whole pages.  A weight lies in the window where its place in the file puts it
 * within a page, so that O_DIRECT needs no copy.  What is between two weights of a group, and
 * in the pages at its ends, is read along.
 *
 * Threads.  A model may be used by any number of windows, and must outlive them.  A window is used
 * by one thread at a time and has none of its own: reads are started by the calls of the caller and
 * by the handle's I/O threads.
 *
 * Processes.  After fork() a window belongs to the parent: calls return -ECHILD, and
 * penstock_weights_close() frees memory.
 *
 * Errors, versions and structs with @size first: as in penstock.h.
 */
struct penstock_model;
struct penstock_weights; /* a window */

/* ------------------------------------------------------------------- models */

/* One range of a file. */
struct penstock_weight {
	const char *name;  /* UTF-8 */
	const char *path;  /* the file */
	const char *dtype; /* "BF16", "Q4_K", ...; NULL: only bytes */
	uint64_t offset;
	uint64_t len;
	const uint64_t *shape; /* row-major; NULL where @rank is 0 */
	uint32_t rank;
	uint32_t reserved; /* 0 */
};

/* Weights that are used at once: numbers @first to @first + @nr - 1. */
struct penstock_group {
	const char *name;
	uint64_t first;
	uint64_t nr;
	uint64_t bytes; /* of all of them */
};

enum penstock_model_by {
	PENSTOCK_BY_LAYER = 0,  /* all names that are the same up to their first number */
	PENSTOCK_BY_EXPERT = 1, /* experts by themselves, up to the number behind "experts" */
	PENSTOCK_BY_TENSOR = 2,
};

/* Options of penstock_model_open().  Start from PENSTOCK_MODEL_OPTS_INIT; zero means "default". */
struct penstock_model_opts {
	uint32_t size; /* set by PENSTOCK_MODEL_OPTS_INIT */
	uint32_t by;   /* enum penstock_model_by */
};
/* clang-format off */
#define PENSTOCK_MODEL_OPTS_INIT {sizeof(struct penstock_model_opts), 0}
/* clang-format on */

/*
 * Find out what a model on disk consists of.  @path is
 *   - a file of safetensors, or the index of several (*.safetensors.index.json);
 *   - a file of GGUF;
 *   - a folder with such files, or s3://BUCKET/PREFIX/ with such objects; where it has an index,
 *     that says which weights and files count;
 *   - a folder of DeepSpeed with swapped parameters (N_param.tensor.swp): a group each.
 * Groups come in the order of use as names tell it: what embeds, then by number, then the rest;
 * see penstock_model_order() for another one.  @opts may be NULL.  Only what describes the weights
 * is read.  Returns 0, or
 *   -EINVAL	a file is none of these, or damaged, or shorter than it says; the message names it
 *   -ENOENT	there is nothing of the kind in the folder
 */
PENSTOCK_API int penstock_model_open(struct penstock_model **out, struct penstock_io *io,
				     const char *path, const struct penstock_model_opts *opts,
				     struct penstock_err *err);

/* An empty one: begin a group, then add its weights.  Names and shapes are copied. */
PENSTOCK_API int penstock_model_new(struct penstock_model **out, struct penstock_err *err);
PENSTOCK_API int penstock_model_group(struct penstock_model *m, const char *name,
				      struct penstock_err *err);
PENSTOCK_API int penstock_model_add(struct penstock_model *m, const struct penstock_weight *weight,
				    struct penstock_err *err);

/*
 * The groups in another order of use: number @order[i] comes i-th from now on; each of them once.
 * Before windows are opened.
 */
PENSTOCK_API int penstock_model_order(struct penstock_model *m, const uint64_t *order, uint64_t n,
				      struct penstock_err *err);

/* The @i-th; NULL past the last.  They live as long as @m, and until something is added. */
PENSTOCK_API const struct penstock_group *penstock_model_get_group(const struct penstock_model *m,
								   uint64_t i);
PENSTOCK_API const struct penstock_weight *penstock_model_get_weight(const struct penstock_model *m,
								     uint64_t i);
PENSTOCK_API void penstock_model_close(struct penstock_model *m); /* NULL is allowed */

/* ------------------------------------------------------------------ windows */

enum penstock_weights_memory {
	PENSTOCK_WEIGHTS_HOST = 0,
	PENSTOCK_WEIGHTS_PINNED = 1, /* host memory that CUDA copies from without staging it */
	PENSTOCK_WEIGHTS_DEVICE = 2, /* memory of CUDA device @device */
};

/* Bits of struct penstock_weights_opts.flags. */
#define PENSTOCK_WEIGHTS_CYCLIC 0x1u /* behind the last group the first comes again */
/*
 * Nothing is read unless it is requested or hinted at. A released group stays until its space is
 * needed: the window is a cache from which the least recently used go.
 */
#define PENSTOCK_WEIGHTS_EXPERTS 0x2u

/* Options of penstock_weights_open().  Start from PENSTOCK_WEIGHTS_OPTS_INIT; zero means "default".
 */
struct penstock_weights_opts {
	uint32_t size;   /* set by PENSTOCK_WEIGHTS_OPTS_INIT */
	uint32_t flags;  /* PENSTOCK_WEIGHTS_* */
	uint64_t window; /* bytes (all groups, at most 1 GiB, at least two of the largest) */
	uint32_t memory; /* enum penstock_weights_memory */
	uint32_t device; /* number of the CUDA device */
	/*
	 * The window, if it is the caller's: @window bytes of host or device memory that outlive
	 * the window; @memory and @device are not looked at.
	 */
	void *addr;
};
/* clang-format off */
#define PENSTOCK_WEIGHTS_OPTS_INIT {sizeof(struct penstock_weights_opts), 0, 0, 0, 0, NULL}
/* clang-format on */

/*
 * Open the files, allocate the window and begin to read.  A group lies in the window in one piece,
 * with the pages around its weights: at least the largest must fit in (-EINVAL), and reading goes
 * on beside the use of one group only where two do.  @opts may be NULL.  Returns 0, or
 *   -EINVAL	a field is out of range, a file is too short for a weight; the message names it
 *   -E2BIG	@opts sets a field this library does not know
 *   -ENOMEM	there is no such memory
 *   -ENOTSUP, -ENODEV	there is no CUDA driver, no such device
 * or what open(2) says of a file.
 */
PENSTOCK_API int penstock_weights_open(struct penstock_weights **out, struct penstock_io *io,
				       const struct penstock_model *m,
				       const struct penstock_weights_opts *opts,
				       struct penstock_err *err);

/* A group in the window. */
struct penstock_view {
	uint64_t group;
	uint64_t first; /* of its weights, in the model */
	uint64_t nr;
	char *base;
	const uint64_t *at; /* weight @first + i is at @base + @at[i] */
};

/*
 * The next group in order of use, as soon as all of it is there.  It stays where it is until it is
 * released.  Returns 1; 0 when there is no next one; or
 *   -ENOBUFS	what the caller holds leaves no room for it in the window
 *   -ENODATA	a file has become shorter
 * or what else reading it met: that group is over, and the one behind it comes next.
 */
PENSTOCK_API int penstock_weights_next(struct penstock_weights *w, struct penstock_view *view,
				       struct penstock_err *err);

/*
 * Give a group back, once for each time it was given: its room is used for the next ones.  -EINVAL:
 * it is not held.
 */
PENSTOCK_API int penstock_weights_release(struct penstock_weights *w, uint64_t group,
					  struct penstock_err *err);
/*
 * The same, when all that is queued in the CUDA stream @stream by now is done; returns at once. For
 * a window in device memory.
 */
PENSTOCK_API int penstock_weights_release_after(struct penstock_weights *w, uint64_t group,
						void *stream, struct penstock_err *err);

/*
 * These groups come next, behind those requested before, and then the order goes on where it was.
 * For a window of experts there is no other order; of one call those come first that are in the
 * window, the others in the order given.
 */
PENSTOCK_API int penstock_weights_request(struct penstock_weights *w, const uint64_t *groups,
					  uint64_t n, struct penstock_err *err);

/*
 * These may be requested soon: read them when nothing else is left to read.  Only for a window
 * of experts.
 */
PENSTOCK_API int penstock_weights_hint(struct penstock_weights *w, const uint64_t *groups,
				       uint64_t n, struct penstock_err *err);

/* The next @n groups in order of use are not needed; returns how many there were. */
PENSTOCK_API int64_t penstock_weights_skip(struct penstock_weights *w, uint64_t n,
					   struct penstock_err *err);

struct penstock_weights_stats {
	uint32_t size;         /* sizeof(struct penstock_weights_stats), set by the caller */
	uint32_t direct;       /* 1: all files are read by O_DIRECT */
	uint64_t window;       /* bytes */
	uint64_t largest;      /* bytes of the window that the largest group takes */
	uint64_t groups;       /* given */
	uint64_t bytes;        /* of the weights in them */
	uint64_t bytes_read;   /* from the files, with what was read along */
	uint64_t bytes_copied; /* to a device */
	uint64_t reads;
	uint64_t hits;      /* of the groups: were in the window when they were asked for, */
	uint64_t misses;    /* had to be waited for, or read for this use */
	uint64_t evicted;   /* thrown out for others */
	uint64_t wasted;    /* read, or begun, and never given */
	uint64_t in_flight; /* bytes on their way now */
	uint64_t disk_ns;   /* time in which something was being read */
	uint64_t copy_ns;   /* time in which something was being copied to the device */
	/* Time that was lost: */
	uint64_t stall_disk_ns;   /* the caller waited in penstock_weights_next() for reads */
	uint64_t stall_copy_ns;   /* ... for copies to the device, when all was read */
	uint64_t stall_caller_ns; /* nothing was read, because the caller held the window */
	/* Bytes that lie in the window at this moment, of groups that are complete. */
	uint64_t resident;
};
PENSTOCK_API int penstock_weights_get_stats(struct penstock_weights *w,
					    struct penstock_weights_stats *stats);

/* Wait for what is in flight and free all of it; views are gone.  NULL is allowed. */
PENSTOCK_API void penstock_weights_close(struct penstock_weights *w);

#ifdef __cplusplus
}
#endif
#endif
