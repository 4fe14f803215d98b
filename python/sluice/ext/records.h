/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_PYTHON_RECORDS_H
#define SLUICE_PYTHON_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/ckpt.h>

/*
 * A thread that writes records of a zip archive to a writer, which nobody else uses meanwhile:
 * header, data, and behind them their CRC-32.  It never needs the GIL, so that what finds the
 * records may keep it.
 */
struct records;

/* NULL: no memory, or no thread. */
struct records *records_start(struct sluice_writer *writer);
/*
 * Records to write, of which the memory stays as it is until records_wait() has returned true; for
 * each four numbers: bytes of its header, address and bytes of its data, bytes behind it (0, 16,
 * 24).  @heads: all headers.  0, or -ENOMEM.
 */
int records_add(struct records *r, const void *numbers, size_t nr, const void *heads, size_t len);
/* Is all of it written, or has it failed, within so many milliseconds? */
bool records_wait(struct records *r, unsigned ms);
/* After that: the CRC-32 of every record so far; 0, or what failed. */
int records_result(const struct records *r, const uint32_t **sums, size_t *nr,
		   const struct sluice_err **err);
/* Leaves what is not begun.  NULL is allowed. */
void records_stop(struct records *r);

/* As sluice_writer_write() of host memory; *@crc of zip archives goes on. */
int output_put(struct sluice_writer *w, const char *buf, uint64_t len, uint32_t *crc,
	       struct sluice_err *err);

#endif
