/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BED_BUFFERS_H
#define SLUICE_BED_BUFFERS_H

/*
 * The buffers of a stream: so many of one size, of one kind of memory, which
 * outlive the handles that move them.  What is in them is looked at only here, device
 * memory through a window of host memory, by one thread at a time.
 */
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

enum bed_memory {
	BED_OWN,   /* sluice_mem_alloc(): huge pages, registered */
	BED_PLAIN, /* page aligned, 4 KiB pages, not registered */
	BED_ODD,   /* the same at an odd address */
	BED_GPU,
};
/* How users spell them, in this order; NULL-terminated.  The second ends before the GPU. */
extern const char *const bed_memory_words[];
extern const char *const bed_host_words[];

struct bed_buffers {
	uint32_t memory; /* enum bed_memory */
	uint64_t len;    /* bytes of each buffer */
	unsigned nr;
	char *first; /* the others follow at distance @step */
	uint64_t step;
	void *map;
	uint64_t map_len;
	char *stage; /* of device memory: the window */
	uint64_t stage_len;
	struct sluice_buf_info info;
};

/* Is there a GPU?  0, -ENOTSUP or -ENODEV with the reason. */
int bed_gpu_check(struct sluice_err *err);

/* Returns 0, -ENOMEM, or -ENOTSUP where there is no such memory. */
int bed_buffers_open(struct bed_buffers *b, uint32_t memory, uint64_t len, unsigned nr,
		     uint32_t huge, bool lock, struct sluice_err *err);
void bed_buffers_close(struct bed_buffers *b);

/* Make @io know the buffers, where that helps; @info says what came of it. */
int bed_buffers_register(const struct bed_buffers *b, struct sluice_io *io,
			 struct sluice_buf_info *info, struct sluice_err *err);
void bed_buffers_unregister(const struct bed_buffers *b, struct sluice_io *io);

static inline void *bed_buf(const struct bed_buffers *b, unsigned i)
{
	return b->first + i * b->step;
}

/* Make @buf hold @len bytes of pattern @seed from @offset on, or a byte that is none of them. */
int bed_buf_fill(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		 uint64_t offset, struct sluice_err *err);
int bed_buf_poison(const struct bed_buffers *b, void *buf, uint64_t len, struct sluice_err *err);
/* Compare; -EBADMSG with @name and the first wrong offset in @err. */
int bed_buf_check(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		  uint64_t offset, const char *name, struct sluice_err *err);

#endif
