/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_FILES_H
#define SLUICE_JOBS_FILES_H

/*
 * The files of a job: their names, whose they are, what is in them, and whether
 * there is room.  A file that this program wrote carries the data pattern of
 * its name, so it can be told from a stranger's, and be checked.
 */
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

struct io_job;

struct job_file {
	char *path;
	uint64_t pattern; /* seed of its content */
	uint64_t had;     /* bytes it had before the job, at most the job's size */
	bool exists;      /* before the job */
	bool ours;        /* holds the pattern */
	bool created;     /* by this job: removed at the end */
};

/* One, or one per loop. */
unsigned files_per_worker(const struct io_job *job);

/*
 * Name file @index of worker @tid and look at what is there.  Returns 0, or
 * -EEXIST when the job must not touch it, with the reason in @err.
 */
int file_init(struct job_file *f, const struct io_job *job, unsigned tid, unsigned index,
	      struct sluice_err *err);

/*
 * Make the file, empty; one that was there is emptied.  A file that came into
 * being since file_init() looked is not touched: -EEXIST.
 */
int file_create(struct job_file *f, struct sluice_err *err);

/* Remove it if this job created it and does not keep it; free the name. */
void file_fini(struct job_file *f, const struct io_job *job);

/* Is there room for all of @files (of all workers, in order)?  -ENOSPC if not. */
int files_room(const struct io_job *job, const struct job_file *files, struct sluice_err *err);

/* Is there memory for the buffers of all workers?  -ENOMEM if not. */
int memory_room(const struct io_job *job, struct sluice_err *err);

#endif
