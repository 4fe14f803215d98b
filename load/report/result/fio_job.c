/* SPDX-License-Identifier: Apache-2.0 */
/* Job files for fio: what all of them begin with, and block sizes as shares of whole percents. */
#include "load/report/result/fio_job.h"

#include <errno.h>
#include <inttypes.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/result/text.h"

#define MIN_BYTES (64u << 20) /* of the file */

/* Direct I/O wants whole blocks of the file system. */
static uint64_t step_size(const struct block_sizes *b, unsigned i, uint64_t block)
{
	if (i == BLOCK_SIZES_ENDS)
		return block;
	return b->ends[i] > 0 ? align_up((uint64_t)(b->bytes[i] / b->ends[i] + 0.5), 4096) : 4096;
}

/* fio wants whole percents that add up to 100: the most frequent takes what rounding leaves. */
static void split(FILE *f, const struct block_sizes *b, uint64_t block)
{
	unsigned percent[BLOCK_SIZES_ENDS + 1], left = 100, most = 0, shown = 0;
	double sum = block_sizes_total(b), n[BLOCK_SIZES_ENDS + 1];
	char text[PENSTOCK_SIZE_TEXT];

	for (unsigned i = 0; i <= BLOCK_SIZES_ENDS; i++) {
		n[i] = i < BLOCK_SIZES_ENDS ? b->ends[i] : b->whole;
		percent[i] = sum > 0 ? (unsigned)(100 * n[i] / sum) : 0;
		left -= percent[i];
		if (n[i] > n[most])
			most = i;
	}
	percent[most] += left;
	for (unsigned i = 0; i <= BLOCK_SIZES_ENDS; i++)
		if (percent[i])
			fprintf(f, "%s%s/%u", shown++ ? ":" : "",
				penstock_size_exact(text, step_size(b, i, block)), percent[i]);
}

static void head(FILE *f, const struct fio_job *job)
{
	char size[PENSTOCK_SIZE_TEXT];

	/* A line end in a name would begin an option, of which some run programs. */
	fprintf(f, "; %s\n; ", job->what);
	report_escape_put(f, job->origin);
	fprintf(f,
		"\n; On another file: fio THIS --filename=FILE --size=64G\n"
		"[global]\n"
		"ioengine=libaio\n"
		"direct=1\n"
		"size=%s\n"
		"time_based\n"
		"runtime=300\n"
		"refill_buffers\n"
		"norandommap\n"
		"randrepeat=0\n"
		"percentile_list=50:95:99:99.9:99.99\n"
		"\n",
		penstock_size_exact(size, align_up(max_u64(job->bytes, MIN_BYTES), 1u << 20)));
}

int fio_job_write(FILE *f, const struct fio_job *job)
{
	double reads = block_sizes_total(job->read), writes = block_sizes_total(job->write);

	if (reads + writes <= 0)
		return -ENODATA;
	head(f, job);
	fprintf(f, "[%s]\nrw=%s\n", job->section,
		writes <= 0  ? "randread"
		: reads <= 0 ? "randwrite"
			     : "randrw");
	if (reads > 0 && writes > 0)
		fprintf(f, "rwmixread=%.0f\n", 100 * reads / (reads + writes));
	fputs("bssplit=", f);
	split(f, job->read, job->block);
	putc(',', f);
	split(f, job->write, job->block);
	fprintf(f, "\niodepth=%" PRIu64 "\n", job->depth);
	errno = 0;
	return fflush(f) || ferror(f) ? (errno ? -errno : -EIO) : 0;
}
