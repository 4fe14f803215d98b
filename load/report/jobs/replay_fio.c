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
	const struct blocks *in = &r->scan->mix[0], *out = &r->scan->mix[1];
	double reads = blocks_total(in), writes = blocks_total(out);

	if (reads + writes <= 0)
		return -ENODATA;
	fprintf(f,
		"; Blocks, mix and depth of a trace, made by sluice replay --export-fio.\n"
		"; %" PRIu64 " rows of %" PRIu64 " of %s\n",
		r->scan->used_rows, r->scan->rows, r->job->trace);
	fio_job_head(f, working_set(r->scan));
	fprintf(f,
		"[replay]\n"
		"rw=%s\n",
		writes <= 0  ? "randread"
		: reads <= 0 ? "randwrite"
			     : "randrw");
	if (reads > 0 && writes > 0)
		fprintf(f, "rwmixread=%.0f\n", 100 * reads / (reads + writes));
	fio_job_split(f, in, out, r->scan->block);
	fprintf(f, "iodepth=%" PRIu64 "\n", blocks_in_flight(r, (uint64_t)(reads + writes)));
	return fflush(f) || ferror(f) ? -EIO : 0;
}
