/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_HEADER_H
#define PENSTOCK_CKPT_HEADER_H

/* The header of a safetensors file: from JSON, checked by every rule, and back. */
#include <penstock/ckpt.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	HEADER_MAX = 100000000, /* bytes, without the eight that say how many */
	RANK_MAX = 64,
};

struct header {
	struct penstock_tensor *tensors; /* in the order of the file */
	uint64_t nr;
	uint64_t *by_name; /* their numbers, in the order of names */
	struct penstock_meta *meta;
	uint64_t nr_meta;
	uint64_t *dims; /* of all shapes */
	uint64_t room, room_meta, nr_dims, room_dims;
};

/*
 * Parse @len bytes of JSON at @text, which are changed and pointed into from then on, of a file of
 * @file_bytes.  0, -ENOMEM, or -EINVAL with a message that does not name the file.
 */
int header_parse(struct header *h, char *text, size_t len, uint64_t file_bytes,
		 struct penstock_err *err);
void header_free(struct header *h);

/* Bytes that dtype and shape make; -EOVERFLOW, or -EINVAL: not whole bytes. */
int tensor_bytes(const struct penstock_tensor *t, uint64_t *ret);

/*
 * The eight bytes, JSON and padding for @n tensors that lie in the file in the order @order, their
 * offsets relative to the end of the header; to be freed.  NULL: no memory.
 */
char *header_format(const struct penstock_tensor *tensors, const uint64_t *order, uint64_t n,
		    const struct penstock_meta *meta, uint64_t nr_meta, size_t *ret_len);

#endif
