/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for fio with the block sizes, the mix and the depth of a trace: an object is moved in
 * blocks of the engine's size, and an end that is rounded up to a power of two.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/util.h"
#include "load/report/fio_job.h"
#include "load/report/replay_report.h"

#define AUTO_BYTES (32u << 20) /* in flight where no queue depth is given */

static struct fio_blocks blocks_of(const struct replay_mix *m)
{
	struct fio_blocks b = {.whole = (double)m->whole};

	_Static_assert(REPLAY_BLOCKS == FIO_STEPS, "the same ends");
	for (unsigned i = 0; i < FIO_STEPS; i++)
		b.steps[i] = (double)m->ends[i];
	return b;
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
	struct fio_blocks in = blocks_of(&r->scan->mix[0]), out = blocks_of(&r->scan->mix[1]);
	double reads = fio_blocks_total(&in), writes = fio_blocks_total(&out);

	if (reads + writes <= 0)
		return -ENODATA;
	fprintf(f,
		"; Blocks, mix and depth of a trace, made by sluice replay --export-fio.\n"
		"; %" PRIu64 " rows of %" PRIu64 " of %s\n",
		r->scan->used_rows, r->scan->rows, r->job->trace);
	fio_job_head(f);
	fprintf(f,
		"[replay]\n"
		"rw=%s\n",
		writes <= 0  ? "randread"
		: reads <= 0 ? "randwrite"
			     : "randrw");
	if (reads > 0 && writes > 0)
		fprintf(f, "rwmixread=%.0f\n", 100 * reads / (reads + writes));
	fio_job_split(f, &in, &out, r->scan->block);
	fprintf(f, "iodepth=%" PRIu64 "\n", blocks_in_flight(r, (uint64_t)(reads + writes)));
	return fflush(f) || ferror(f) ? -EIO : 0;
}
