/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a checkpoint job: a handle, a generator, memory, and lines to answer. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/gen.h"
#include "base/util.h"
#include "load/jobs/ckpt_ranks.h"
#include "load/jobs/generated_file.h"
#include "load/measure/handle.h"

struct rank_process {
	const struct ckpt_job *job;
	struct generated_file file;
	struct penstock_gen gen;
	unsigned rank;
	int out;
	struct ckpt_handle_info *info;
};

static void answer_fail(const struct rank_process *b, int r, const char *why)
{
	dprintf(b->out, "fail %d %.400s\n", -r, why);
}

static int rank_init(struct rank_process *b, enum ckpt_method method, struct penstock_err *err)
{
	const struct ckpt_job *job = b->job;
	struct generated_file *p = &b->file;
	void *buf;
	int r = penstock_gen_init(&b->gen, job->seed, job->dedup, job->compress, err);

	if (r == 0)
		r = penstock_open(&p->io, &job->opts, err);
	if (r < 0)
		return r;
	p->buf_len = method == CKPT_MEMORY ? job->size : min_u64(job->size, job->chunk);
	r = penstock_buf_alloc(&buf, p->io, p->buf_len, 0, &b->info->buf, err);
	p->buf = buf;
	p->ready = method == CKPT_MEMORY;
	p->gen = &b->gen;
	p->len = job->size;
	p->stop = job->stop;
	p->writer.buffers = p->reader.buffers = job->buffers;
	p->writer.buffer_bytes = p->reader.buffer_bytes = job->chunk;
	p->reader.verify = PENSTOCK_VERIFY_ALWAYS;
	return r;
}

static int rank_run_command(struct rank_process *b, const char *verb, struct penstock_err *err)
{
	if (!strcmp(verb, "make")) {
		generated_file_fill(&b->file);
		return 0;
	}
	if (!strcmp(verb, "save"))
		return generated_file_save(&b->file, err);
	return !strcmp(verb, "load") ? generated_file_load(&b->file, err)
				     : generated_file_compare(&b->file, err);
}

/* "VERB OBJECT FILE". */
static void rank_send_answer(struct rank_process *b, char *line)
{
	struct penstock_err err = {0, "not understood"};
	char *rest = line, *verb = strsep(&rest, " "), *object = strsep(&rest, " ");
	struct rusage before;
	double user, system;
	int r = -EINVAL;

	getrusage(RUSAGE_SELF, &before);
	if (rest) {
		b->file.object = strtoull(object, NULL, 10) << 20 | b->rank;
		b->file.path = rest;
		r = rank_run_command(b, verb, &err);
	}
	cpu_time_since(&before, &user, &system);
	generated_file_get_info(&b->file, &b->info->stats, &b->info->file);
	if (r < 0)
		answer_fail(b, r, err.msg);
	else
		dprintf(b->out, "ok %" PRIu64 " %" PRIu64 " %" PRIu64 " %.0f %.0f\n",
			b->file.total_ns, b->file.made_ns, b->file.close_ns, user * 1e9,
			system * 1e9);
}

int ckpt_rank_main(const struct ckpt_job *job, enum ckpt_method method, unsigned rank, int fd,
		   struct ckpt_handle_info *info)
{
	struct rank_process b = {
		.job = job,
		.rank = rank,
		.out = fd,
		.info = info,
		.file = {.writer = PENSTOCK_WRITER_OPTS_INIT, .reader = PENSTOCK_READER_OPTS_INIT},
	};
	FILE *lines = fdopen(fd, "r");
	struct penstock_err err = {0, "out of memory"};
	CLEANUP_FREE char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	int r = lines ? rank_init(&b, method, &err) : -ENOMEM;

	if (r < 0)
		answer_fail(&b, r, err.msg);
	else
		dprintf(fd, "ok 0 0 0 0 0\n");
	while (r == 0 && (n = getline(&line, &capacity, lines)) > 0) {
		line[n - 1] = 0;
		rank_send_answer(&b, line);
	}
	if (b.file.io)
		penstock_close(b.file.io, NULL);
	if (lines)
		fclose(lines);
	return 0;
}
