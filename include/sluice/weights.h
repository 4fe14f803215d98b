/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_WEIGHTS_H
#define SLUICE_WEIGHTS_H

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Weights that are streamed from storage: a model larger than memory passes through a window.
 *
 *	sluice_model_open                            a model on disk, or
 *	sluice_model_new -> sluice_model_group -> sluice_model_add ...   a list of the caller's
 *
 *	sluice_weights_open -> sluice_weights_next -> (use it) -> sluice_weights_release ...
 *	                    -> sluice_weights_close, at any moment
 *
 * A model is a list of weights, each a range of a file, in groups: what is used at once, a layer
 * or an expert.  A stream reads groups ahead of their use, in that order, into as much memory as
 * it was given.  sluice_weights_next() waits for its own group and no other.
 *
 * Reads are made for the device and not for the tensors: neighbours are read together, in pieces
 * of 1 to 4 MiB, in whole pages.  A weight lies in the window where its place in the file puts it
 * within a page, so that O_DIRECT needs no copy.  What is between two weights of a group, and
 * in the pages at its ends, is read along.
 *
 * Threads.  A model may be used by any number of streams, and must outlive them.  A stream is used
 * by one thread at a time and has none of its own: reads are started by the calls of the caller and
 * by the handle's I/O threads.
 *
 * Processes.  After fork() a stream belongs to the parent: calls return -ECHILD, and
 * sluice_weights_close() frees memory.
 *
 * Errors, versions and structs with @size first: as in sluice.h.
 */
struct sluice_model;
struct sluice_weights; /* a stream */

/* ------------------------------------------------------------------- models */

/* One range of a file. */
struct sluice_weight {
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
struct sluice_group {
	const char *name;
	uint64_t first;
	uint64_t nr;
	uint64_t bytes; /* of all of them */
};

enum sluice_model_by {
	SLUICE_BY_LAYER = 0,  /* all names that are the same up to their first number */
	SLUICE_BY_EXPERT = 1, /* experts by themselves, up to the number behind "experts" */
	SLUICE_BY_TENSOR = 2,
};

/* Options of sluice_model_open().  Start from SLUICE_MODEL_OPTS_INIT; zero means "default". */
struct sluice_model_opts {
	uint32_t size; /* set by SLUICE_MODEL_OPTS_INIT */
	uint32_t by;   /* enum sluice_model_by */
};
/* clang-format off */
#define SLUICE_MODEL_OPTS_INIT {sizeof(struct sluice_model_opts), 0}
/* clang-format on */

/*
 * Find out what a model on disk consists of.  @path is
 *   - a file of safetensors, or the index of several (*.safetensors.index.json);
 *   - a file of GGUF;
 *   - a folder with such files, or s3://BUCKET/PREFIX/ with such objects; where it has an index,
 *     that says which weights and files count;
 *   - a folder of DeepSpeed with swapped parameters (N_param.tensor.swp): a group each.
 * Groups come in the order of use as names tell it: what embeds, then by number, then the rest;
 * see sluice_model_order() for another one.  @opts may be NULL.  Only what describes the weights is
 * read.  Returns 0, or
 *   -EINVAL	a file is none of these, or damaged, or shorter than it says; the message names it
 *   -ENOENT	there is nothing of the kind in the folder
 */
SLUICE_API int sluice_model_open(struct sluice_model **out, struct sluice_io *io, const char *path,
				 const struct sluice_model_opts *opts, struct sluice_err *err);

/* An empty one: begin a group, then add its weights.  Names and shapes are copied. */
SLUICE_API int sluice_model_new(struct sluice_model **out, struct sluice_err *err);
SLUICE_API int sluice_model_group(struct sluice_model *m, const char *name, struct sluice_err *err);
SLUICE_API int sluice_model_add(struct sluice_model *m, const struct sluice_weight *weight,
				struct sluice_err *err);

/*
 * The groups in another order of use: number @order[i] comes i-th from now on; each of them once.
 * Before streams are opened.
 */
SLUICE_API int sluice_model_order(struct sluice_model *m, const uint64_t *order, uint64_t n,
				  struct sluice_err *err);

/* The @i-th; NULL past the last.  They live as long as @m, and until something is added. */
SLUICE_API const struct sluice_group *sluice_model_get_group(const struct sluice_model *m,
							     uint64_t i);
SLUICE_API const struct sluice_weight *sluice_model_get_weight(const struct sluice_model *m,
							       uint64_t i);
SLUICE_API void sluice_model_close(struct sluice_model *m); /* NULL is allowed */

/* ------------------------------------------------------------------ streams */

enum sluice_weights_memory {
	SLUICE_WEIGHTS_HOST = 0,
	SLUICE_WEIGHTS_PINNED = 1, /* host memory that CUDA copies from without staging it */
	SLUICE_WEIGHTS_DEVICE = 2, /* memory of CUDA device @device */
};

/* Bits of struct sluice_weights_opts.flags. */
#define SLUICE_WEIGHTS_CYCLIC 0x1u /* behind the last group the first comes again */
/*
 * Nothing is read unless it is wanted or hinted at, and what was released stays until its room is
 * needed: the window is a cache from which the least recently used go.
 */
#define SLUICE_WEIGHTS_EXPERTS 0x2u

/* Options of sluice_weights_open().  Start from SLUICE_WEIGHTS_OPTS_INIT; zero means "default". */
struct sluice_weights_opts {
	uint32_t size;   /* set by SLUICE_WEIGHTS_OPTS_INIT */
	uint32_t flags;  /* SLUICE_WEIGHTS_* */
	uint64_t window; /* bytes (all groups, at most 1 GiB, at least two of the largest) */
	uint32_t memory; /* enum sluice_weights_memory */
	uint32_t device; /* number of the CUDA device */
	/*
	 * The window, if it is the caller's: @window bytes of host or device memory that outlive
	 * the stream; @memory and @device are not looked at.
	 */
	void *addr;
};
/* clang-format off */
#define SLUICE_WEIGHTS_OPTS_INIT {sizeof(struct sluice_weights_opts), 0, 0, 0, 0, NULL}
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
SLUICE_API int sluice_weights_open(struct sluice_weights **out, struct sluice_io *io,
				   const struct sluice_model *m,
				   const struct sluice_weights_opts *opts, struct sluice_err *err);

/* A group in the window. */
struct sluice_view {
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
SLUICE_API int sluice_weights_next(struct sluice_weights *w, struct sluice_view *view,
				   struct sluice_err *err);

/*
 * Give a group back, once for each time it was given: its room is used for the next ones.  -EINVAL:
 * it is not held.
 */
SLUICE_API int sluice_weights_release(struct sluice_weights *w, uint64_t group,
				      struct sluice_err *err);
/*
 * The same, when all that is queued in the CUDA stream @stream by now is done; returns at once. For
 * a window in device memory.
 */
SLUICE_API int sluice_weights_release_after(struct sluice_weights *w, uint64_t group, void *stream,
					    struct sluice_err *err);

/*
 * These groups come next, behind those wanted before, and then the order goes on where it was.  For
 * a stream of experts there is no other order; of one call those come first that are in the
 * window, the others in the order given.
 */
SLUICE_API int sluice_weights_want(struct sluice_weights *w, const uint64_t *groups, uint64_t n,
				   struct sluice_err *err);

/*
 * These will be wanted, perhaps: read them when nothing else is left to read.  Only for a stream
 * of experts.
 */
SLUICE_API int sluice_weights_hint(struct sluice_weights *w, const uint64_t *groups, uint64_t n,
				   struct sluice_err *err);

/* The next @n groups in order of use are not needed; returns how many there were. */
SLUICE_API int64_t sluice_weights_skip(struct sluice_weights *w, uint64_t n,
				       struct sluice_err *err);

struct sluice_weights_stats {
	uint32_t size;         /* sizeof(struct sluice_weights_stats), set by the caller */
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
	uint64_t stall_disk_ns;   /* the caller waited in sluice_weights_next() for reads */
	uint64_t stall_copy_ns;   /* ... for copies to the device, when all was read */
	uint64_t stall_caller_ns; /* nothing was read, because the caller held the window */
	/* Bytes that lie in the window at this moment, of groups that are complete. */
	uint64_t resident;
};
SLUICE_API int sluice_weights_get_stats(struct sluice_weights *w,
					struct sluice_weights_stats *stats);

/* Wait for what is in flight and free all of it; views are gone.  NULL is allowed. */
SLUICE_API void sluice_weights_close(struct sluice_weights *w);

#ifdef __cplusplus
}
#endif
#endif
