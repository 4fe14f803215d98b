/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_FIO_JOB_H
#define SLUICE_REPORT_FIO_JOB_H

/*
 * Jobs for fio with the block sizes of what was run: an object is moved in blocks of the
 * engine's size and an end, which is rounded up to a power of two.
 */
#include <stdint.h>
#include <stdio.h>

#define FIO_STEPS 12 /* ends of 4K, 8K, ... 8M */

struct fio_blocks {
	double whole, steps[FIO_STEPS]; /* how many */
};

double fio_blocks_total(const struct fio_blocks *b);
/* What every job begins with, after lines of its own about where it comes from. */
void fio_job_head(FILE *f);
/* bssplit= of reads and writes, a line; @block is the size of whole ones. */
void fio_job_split(FILE *f, const struct fio_blocks *read, const struct fio_blocks *write,
		   uint64_t block);

#endif
