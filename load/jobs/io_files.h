/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_IO_FILES_H
#define PENSTOCK_JOBS_IO_FILES_H

/*
 * The files of an io job.  Their names are ds_io's, and a file that this program wrote
 * carries the data pattern of its name, so it can be told from a stranger's.  Files that
 * are there, or shall stay, are used where the user wants them; others are made in a
 * folder of the run's own, so that no other run meets them.
 */
#include "load/bed/bed_file.h"
#include "load/jobs/io.h"

struct io_files {
	const struct io_job *job;
	unsigned per, nr;           /* files of a worker, of all */
	struct bed_file *all;       /* of the workers in their order */
	struct bed_folder *targets; /* of each worker: what the user named ... */
	struct bed_folder *own;     /* ... and a new one in it, where one is needed */
	unsigned *made;             /* files that were made for it, or emptied */
	uint64_t prepared_bytes;    /* written into files to be read */
};

/* Name all and look at what is there: -EEXIST when the job must not touch one. */
int io_files_init(struct io_files *f, const struct io_job *job, struct penstock_err *err);
/* Is there room?  -EINVAL if not. */
int io_files_check_space(const struct io_files *f, struct penstock_err *err);
/* Make those that are missing; files to be read get their content. */
int io_files_make(struct io_files *f, struct bed_file_work *work, struct penstock_err *err);
/* In how many turns the loops are done, with plain threads behind each. */
unsigned io_turns(const struct io_job *job);
/* Remove what was made and shall not stay. */
void io_files_fini(struct io_files *f);

#endif
