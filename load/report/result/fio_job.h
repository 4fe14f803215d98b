/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_FIO_JOB_H
#define PENSTOCK_REPORT_RESULT_FIO_JOB_H

/* A job for fio with the block sizes, the mix and the depth of what was run. */
#include <stdint.h>
#include <stdio.h>

#include "load/measure/block_sizes.h"

struct fio_job {
	const char *what;    /* it is made of, and by which command: two lines of comment ... */
	const char *origin;  /* ... this one of any text */
	const char *section; /* name of the job */
	const struct block_sizes *read, *write;
	uint64_t block; /* bytes of a whole one */
	uint64_t bytes; /* of the file, at least */
	uint64_t depth;
};

/* 0, -ENODATA where no block was moved, or -errno. */
int fio_job_write(FILE *f, const struct fio_job *job);

#endif
