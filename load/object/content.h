/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_CONTENT_H
#define PENSTOCK_OBJECT_CONTENT_H

/*
 * What objects hold: noise that is the same for all of them, and in every block of 4 KiB a
 * stamp that says which object it belongs to and where.  So no two blocks are alike, a block
 * in the wrong place is found out, and a buffer that holds the noise is made right by
 * one cache line per block.
 */
#include <stddef.h>
#include <stdint.h>

#define CONTENT_BLOCK  4096u
#define CONTENT_STAMP  64u
#define CONTENT_PERIOD (1u << 20) /* after which the noise repeats */

struct content {
	uint64_t seed;
	unsigned char *noise; /* CONTENT_PERIOD bytes */
};

int content_init(struct content *c, uint64_t seed); /* 0 or -ENOMEM */
void content_fini(struct content *c);

/* Bytes [@pos, @pos + @len) of object @id.  Noise and stamps apart, and both. */
void content_noise(const struct content *c, void *buf, uint64_t len, uint64_t pos);
void content_stamp(const struct content *c, void *buf, uint64_t len, uint64_t id, uint64_t pos);
void content_fill(const struct content *c, void *buf, uint64_t len, uint64_t id, uint64_t pos);
/* Offset into @buf of the first byte that differs, or @len when none does. */
uint64_t content_check(const struct content *c, const void *buf, uint64_t len, uint64_t id,
		       uint64_t pos);

/* The id of an object with this name. */
uint64_t content_id(const void *name, size_t len);

#endif
