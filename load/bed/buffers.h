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

/* As enum io_memory, and one more. */
enum { POOL_OWN, POOL_PLAIN, POOL_ODD, POOL_GPU };
extern const char *const pool_words[];

struct pool {
	uint32_t memory; /* POOL_* */
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
int pool_gpu_check(struct sluice_err *err);

/* Returns 0, -ENOMEM, or -ENOTSUP where there is no such memory. */
int pool_open(struct pool *p, uint32_t memory, uint64_t len, unsigned nr, uint32_t huge, bool lock,
	      struct sluice_err *err);
void pool_close(struct pool *p);

/* Make @io know the buffers, where that helps; @info says what came of it. */
int pool_register(const struct pool *p, struct sluice_io *io, struct sluice_buf_info *info,
		  struct sluice_err *err);
void pool_unregister(const struct pool *p, struct sluice_io *io);

static inline void *pool_buf(const struct pool *p, unsigned i)
{
	return p->first + i * p->step;
}

/* Make @buf hold @len bytes of pattern @seed from @offset on, or a byte that is none of them. */
int pool_fill(const struct pool *p, void *buf, uint64_t len, uint64_t seed, uint64_t offset,
	      struct sluice_err *err);
int pool_poison(const struct pool *p, void *buf, uint64_t len, struct sluice_err *err);
/* Compare; -EBADMSG with @name and the first wrong offset in @err. */
int pool_check(const struct pool *p, void *buf, uint64_t len, uint64_t seed, uint64_t offset,
	       const char *name, struct sluice_err *err);

#endif
