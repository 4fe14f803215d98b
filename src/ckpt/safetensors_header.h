/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_SAFETENSORS_HEADER_H
#define PENSTOCK_CKPT_SAFETENSORS_HEADER_H

/* The header of a safetensors file: from JSON, checked by every rule, and back. */
#include <penstock/ckpt.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	SAFETENSORS_HEADER_MAX = 100000000, /* bytes, without the eight that say how many */
	RANK_MAX = 64,
};

struct safetensors_header {
	struct penstock_tensor *tensors; /* in the order of the file */
	uint64_t nr;
	uint64_t *by_name; /* their numbers, in the order of names */
	struct penstock_meta *meta;
	uint64_t nr_meta;
	uint64_t *dims; /* of all shapes */
	uint64_t capacity, meta_capacity, nr_dims, dims_capacity;
};

/*
 * Parse @len bytes of JSON at @text, which are changed and pointed into from then on, of a file of
 * @file_bytes.  0, -ENOMEM, or -EINVAL with a message that does not name the file.
 */
int safetensors_header_parse(struct safetensors_header *h, char *text, size_t len,
			     uint64_t file_bytes, struct penstock_err *err);
void safetensors_header_free(struct safetensors_header *h);

/* Bytes that dtype and shape make; -EOVERFLOW, or -EINVAL: not whole bytes. */
int tensor_bytes(const struct penstock_tensor *t, uint64_t *ret);

/*
 * The eight bytes, JSON and padding for @n tensors that lie in the file in the order @order, their
 * offsets relative to the end of the header; to be freed.  NULL: no memory.
 */
char *safetensors_header_format(const struct penstock_tensor *tensors, const uint64_t *order,
				uint64_t n, const struct penstock_meta *meta, uint64_t nr_meta,
				size_t *ret_len);

#endif
