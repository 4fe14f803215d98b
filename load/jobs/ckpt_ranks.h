/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_CKPT_RANKS_H
#define PENSTOCK_JOBS_CKPT_RANKS_H

/*
 * The processes of a checkpoint job.  Each gets lines "make|save|load|compare OBJECT FILE" and
 * answers "ok" with nanoseconds, or "fail" with a reason: our own by fork(2), torch's a Python
 * program.  They end with the process that started them.
 */
#include <stdio.h>
#include <sys/types.h>

#include "load/jobs/ckpt.h"

/* What one process says of one operation, nanoseconds. */
struct ckpt_times {
	uint64_t total, made, close; /* the operation; of it the generator and the end */
	uint64_t user, system;       /* CPU time of the process */
};

/* What the handle of a process reports. */
struct ckpt_handle_info {
	struct penstock_stats stats;
	struct penstock_file_info file;
	struct penstock_buf_info buf;
};

struct ckpt_rank {
	pid_t pid;
	int fd;
	char line[512]; /* of an answer, so far */
	size_t len;
	struct ckpt_times times;
};

struct ckpt_ranks {
	const struct ckpt_job *job;
	enum ckpt_method method;
	struct ckpt_rank *ranks;
	unsigned nr;
	struct ckpt_handle_info *info; /* shared with them */
};

/* Start them and wait until all are ready.  ckpt_ranks_end() is due in every case. */
int ckpt_ranks_start(struct ckpt_ranks *r, const struct ckpt_job *job, enum ckpt_method method,
		     struct penstock_err *err);
/*
 * Let all do @verb; the file of each is @files[rank].  *@ret_ns: from the beginning to the end of
 * the last.  0, -ECANCELED, or what the first of them failed with.
 */
int ckpt_ranks_do(struct ckpt_ranks *r, const char *verb, uint64_t object, char *const *files,
		  uint64_t *ret_ns, struct penstock_err *err);
void ckpt_ranks_end(struct ckpt_ranks *r);

/* The body of a process of ours: until there is no line any more.  Returns its exit status. */
int ckpt_rank_main(const struct ckpt_job *job, enum ckpt_method method, unsigned rank, int fd,
		   struct ckpt_handle_info *info);
/* The Python program of the others; its arguments are size, rank and seed. */
extern const char ckpt_torch_program[];

#endif
