/* SPDX-License-Identifier: Apache-2.0 */
/* Job files for fio: what all of them begin with, and block sizes as shares of whole percents. */
#include "load/report/result/fio_job.h"

#include "base/size.h"
#include "base/util.h"

#define LEAST_BYTES (64u << 20) /* of the file */

void fio_job_head(FILE *f, uint64_t bytes)
{
	char text[SLUICE_SIZE_TEXT];

	fprintf(f,
		"; On another file: fio THIS --filename=FILE --size=64G\n"
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
		sluice_size_exact(text, align_up(max_u64(bytes, LEAST_BYTES), 1u << 20)));
}

/* Direct I/O wants whole blocks of the file system. */
static uint64_t step_size(const struct blocks *b, unsigned i, uint64_t block)
{
	if (i == BLOCKS_ENDS)
		return block;
	return b->ends[i] > 0 ? align_up((uint64_t)(b->bytes[i] / b->ends[i] + 0.5), 4096) : 4096;
}

/* fio wants whole percents that add up to 100: the most frequent takes what rounding leaves. */
static void split(FILE *f, const struct blocks *b, uint64_t block)
{
	unsigned percent[BLOCKS_ENDS + 1], left = 100, most = BLOCKS_ENDS, shown = 0;
	double sum = blocks_total(b), n[BLOCKS_ENDS + 1];
	char text[SLUICE_SIZE_TEXT];

	for (unsigned i = 0; i <= BLOCKS_ENDS; i++) {
		n[i] = i < BLOCKS_ENDS ? b->ends[i] : b->whole;
		percent[i] = sum > 0 ? (unsigned)(100 * n[i] / sum) : 0;
		left -= percent[i];
		if (n[i] > n[most])
			most = i;
	}
	percent[most] += left;
	for (unsigned i = 0; i <= BLOCKS_ENDS; i++)
		if (percent[i])
			fprintf(f, "%s%s/%u", shown++ ? ":" : "",
				sluice_size_exact(text, step_size(b, i, block)), percent[i]);
}

void fio_job_split(FILE *f, const struct blocks *read, const struct blocks *write, uint64_t block)
{
	fputs("bssplit=", f);
	split(f, read, block);
	putc(',', f);
	split(f, write, block);
	putc('\n', f);
}
