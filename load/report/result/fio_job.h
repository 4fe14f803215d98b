/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_FIO_JOB_H
#define SLUICE_REPORT_RESULT_FIO_JOB_H

/* Jobs for fio with the block sizes of what was run. */
#include <stdint.h>
#include <stdio.h>

#include "load/measure/blocks.h"

/* What every job begins with, after lines of its own about where it comes from; @bytes of a file.
 */
void fio_job_head(FILE *f, uint64_t bytes);
/* bssplit= of reads and writes, a line; @block is the size of whole ones. */
void fio_job_split(FILE *f, const struct blocks *read, const struct blocks *write, uint64_t block);

#endif
