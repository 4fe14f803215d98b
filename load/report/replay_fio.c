/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for fio with the block sizes, the mix and the depth of a trace: an object is moved in
 * blocks of the engine's size, and an end that is rounded up to a power of two.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/replay_report.h"

#define AUTO_BYTES (32u << 20) /* in flight where no queue depth is given */

static uint64_t total(const struct replay_mix *m)
{
	uint64_t sum = m->whole;

	for (unsigned i = 0; i < REPLAY_BLOCKS; i++)
		sum += m->ends[i];
	return sum;
}

/* fio wants whole percents that add up to 100: the most frequent takes what rounding leaves. */
static void split(FILE *f, const struct replay_mix *m, uint32_t block)
{
	uint64_t sum = total(m), n[REPLAY_BLOCKS + 1], size;
	unsigned percent[REPLAY_BLOCKS + 1], left = 100, most = REPLAY_BLOCKS, shown = 0;
	char text[SLUICE_SIZE_TEXT];

	for (unsigned i = 0; i <= REPLAY_BLOCKS; i++) {
		n[i] = i < REPLAY_BLOCKS ? m->ends[i] : m->whole;
		percent[i] = sum ? (unsigned)(100.0 * (double)n[i] / (double)sum) : 0;
		left -= percent[i];
		if (n[i] > n[most])
			most = i;
	}
	percent[most] += left;
	for (unsigned i = 0; i <= REPLAY_BLOCKS; i++) {
		size = i < REPLAY_BLOCKS ? 4096ull << i : block;
		if (percent[i])
			fprintf(f, "%s%s/%u", shown++ ? ":" : "", sluice_size_exact(text, size),
				percent[i]);
	}
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
	const struct replay_mix *m = r->scan->mix;
	uint64_t reads = total(&m[0]), writes = total(&m[1]);

	if (!(reads + writes))
		return -ENODATA;
	fprintf(f,
		"; Blocks, mix and depth of a trace, made by sluice replay --export-fio.\n"
		"; %" PRIu64 " rows of %" PRIu64 " of %s\n"
		"; Give the file to work on: fio THIS --filename=FILE --size=64G\n"
		"[global]\n"
		"ioengine=libaio\n"
		"direct=1\n"
		"time_based\n"
		"runtime=300\n"
		"refill_buffers\n"
		"norandommap\n"
		"randrepeat=0\n"
		"percentile_list=50:95:99:99.9:99.99\n"
		"\n"
		"[replay]\n"
		"rw=%s\n",
		r->scan->used_rows, r->scan->rows, r->job->trace,
		!writes  ? "randread"
		: !reads ? "randwrite"
			 : "randrw");
	if (reads && writes)
		fprintf(f, "rwmixread=%.0f\n", 100.0 * (double)reads / (double)(reads + writes));
	fprintf(f, "bssplit=");
	split(f, &m[0], r->scan->block);
	putc(',', f);
	split(f, &m[1], r->scan->block);
	fprintf(f, "\niodepth=%" PRIu64 "\n", blocks_in_flight(r, reads + writes));
	return fflush(f) || ferror(f) ? -EIO : 0;
}
