/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for fio with the block sizes, the mix and the depth of a trace: an object is moved in
 * blocks of the engine's size, and an end.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/util.h"
#include "load/report/jobs/replay_report.h"
#include "load/report/result/fio_job.h"

#define AUTO_BYTES (32u << 20) /* in flight where no queue depth is given */

/* As much as the trace has at once, in all places. */
static uint64_t working_set(const struct replay_scan *s)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < REPLAY_PLACES; i++)
		bytes += s->need[i].peak;
	return bytes;
}

/* Blocks in flight: those of all operations, as many as the queues take. */
static uint64_t blocks_in_flight(const struct replay_report *r, uint64_t blocks)
{
	const struct replay_job *job = r->job;
	uint64_t threads = job->opts.threads ? job->opts.threads : 1, rows = 0, depth;
	uint64_t most =
		job->opts.depth ? job->opts.depth * threads : AUTO_BYTES / r->scan->block * threads;

	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		if (job->tiers[t].used)
			rows += r->scan->count[t][TRACE_READ].ops +
				r->scan->count[t][TRACE_WRITE].ops;
	depth = job->depth * max_u64(1, rows ? blocks / rows : 1);
	return max_u64(1, blocks > rows ? min_u64(depth, most) : depth);
}

int replay_report_fio(FILE *f, const struct replay_report *r)
{
	const struct replay_scan *s = r->scan;
	double blocks = block_sizes_total(&s->mix[0]) + block_sizes_total(&s->mix[1]);
	CLEANUP_FREE char *origin = NULL;

	if (asprintf(&origin, "%" PRIu64 " rows of %" PRIu64 " of %s", s->used_rows, s->rows,
		     r->job->trace) < 0)
		return -ENOMEM;
	return fio_job_write(f, &(struct fio_job){.what = "Blocks, mix and depth of a trace, made "
							  "by penstock replay --export-fio.",
						  .origin = origin,
						  .section = "replay",
						  .read = &s->mix[0],
						  .write = &s->mix[1],
						  .block = s->block,
						  .bytes = working_set(s),
						  .depth = blocks_in_flight(r, (uint64_t)blocks)});
}
