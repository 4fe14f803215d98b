/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BED_BUFFERS_H
#define PENSTOCK_BED_BUFFERS_H

/*
 * The buffers of transfers: so many of one size, of one kind of memory, which
 * outlive the handles that move them.  What is in them is looked at only here, device
 * memory through a window of host memory.
 */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

enum bed_memory {
	BED_OWN,   /* penstock_mem_alloc(): huge pages, registered */
	BED_PLAIN, /* page aligned, 4 KiB pages, not registered */
	BED_ODD,   /* the same at an odd address */
	BED_GPU,
};
/* How users spell them, in this order; NULL-terminated.  The second ends before the GPU. */
extern const char *const bed_memory_words[];
extern const char *const bed_host_words[];

struct bed_buffers_opts {
	uint32_t memory; /* enum bed_memory */
	uint64_t len;    /* bytes of each buffer */
	unsigned nr;
	uint32_t huge; /* enum penstock_huge, of BED_OWN */
	bool lock;
	bool odd;                /* an odd address, of BED_GPU as well */
	const uint32_t *devices; /* of BED_GPU: of each buffer; NULL: the first one for all */
};

struct bed_buffers {
	struct bed_buffers_opts want;
	char **bufs; /* each */
	void *map;   /* what they are in, of host memory */
	uint64_t step, map_len;
	struct penstock_buf_info info;
};

/* Is there such a GPU?  0, -ENOTSUP or -ENODEV with the reason. */
int bed_gpu_check(uint32_t device, struct penstock_err *err);

/* Returns 0, -ENOMEM, or -ENOTSUP where there is no such memory; then there is nothing to close. */
int bed_buffers_open(struct bed_buffers *b, const struct bed_buffers_opts *want,
		     struct penstock_err *err);
/* Those that were never opened may be closed. */
void bed_buffers_close(struct bed_buffers *b);

/* Make @io know @nr of them, where that helps; @info says what came of it. */
int bed_buffers_register(const struct bed_buffers *b, unsigned first, unsigned nr,
			 struct penstock_io *io, struct penstock_buf_info *info,
			 struct penstock_err *err);
void bed_buffers_unregister(const struct bed_buffers *b, unsigned first, unsigned nr,
			    struct penstock_io *io);

/*
 * Of one of @b, or of other host memory where @b is NULL: make @buf hold @len bytes of pattern
 * @seed from @offset on, or a byte that is none of them.
 */
int bed_buf_fill(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		 uint64_t offset, struct penstock_err *err);
int bed_buf_poison(const struct bed_buffers *b, void *buf, uint64_t len, struct penstock_err *err);
/* Compare; -EBADMSG with @name and the first wrong offset in @err. */
int bed_buf_check(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		  uint64_t offset, const char *name, struct penstock_err *err);

#endif
