/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_GDSIO_H
#define PENSTOCK_JOBS_GDSIO_H

/*
 * NVIDIA's gdsio beside bench, as fio.h has it for fio: where it is installed and the memory is a
 * GPU's.  It takes one file at a time, so it has the first one of the turn.
 */
#include "load/jobs/fio.h"

/* Its name or path; NULL: it is not installed. */
const char *gdsio_find(void);
/* A turn on the file @name of @dir, of @ops operations at most, beside one of ours. */
void gdsio_run_turn(struct fio_result *ret, const struct bench_job *job, const char *dir,
		    const struct run_series *s, const char *name, uint64_t ops, double ours);

#endif
