/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_RECORDS_H
#define PENSTOCK_PYTHON_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/ckpt.h>

/*
 * A zip archive as torch.save() writes it, from the position of a writer on that nobody else uses
 * meanwhile.  A thread writes its records, while who finds them, which is Python, keeps the GIL and
 * finds the next ones.
 */
struct records;

/* Contents begin at multiples of @alignment.  NULL: no memory, or no thread. */
struct records *records_start(struct penstock_writer *writer, uint32_t alignment);
/*
 * A record of @bytes at @data, host or device memory that stays as it is until records_wait() has
 * returned true, or which is copied.  0, or -ENOMEM.
 */
int records_add(struct records *r, const char *name, size_t name_len, const void *data,
		uint64_t bytes, bool copy);
/* There are no more: a record that tells this archive from others, and the directory. */
void records_end(struct records *r);
/* Is all of it written, or has it failed, within so many milliseconds? */
bool records_wait(struct records *r, unsigned ms);
/* After that: 0, or what failed. */
int records_result(const struct records *r, const struct penstock_err **err);
/* Leaves what is not written.  NULL is allowed. */
void records_stop(struct records *r);

#endif
