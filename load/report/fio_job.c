/* SPDX-License-Identifier: Apache-2.0 */
#include "load/report/fio_job.h"

#include "base/size.h"

double fio_blocks_total(const struct fio_blocks *b)
{
	double sum = b->whole;

	for (unsigned i = 0; i < FIO_STEPS; i++)
		sum += b->steps[i];
	return sum;
}

void fio_job_head(FILE *f)
{
	fputs("; Give the file to work on: fio THIS --filename=FILE --size=64G\n"
	      "[global]\n"
	      "ioengine=libaio\n"
	      "direct=1\n"
	      "time_based\n"
	      "runtime=300\n"
	      "refill_buffers\n"
	      "norandommap\n"
	      "randrepeat=0\n"
	      "percentile_list=50:95:99:99.9:99.99\n"
	      "\n",
	      f);
}

/* fio wants whole percents that add up to 100: the most frequent takes what rounding leaves. */
static void split(FILE *f, const struct fio_blocks *b, uint64_t block)
{
	unsigned percent[FIO_STEPS + 1], left = 100, most = FIO_STEPS, shown = 0;
	double sum = fio_blocks_total(b), n[FIO_STEPS + 1];
	char text[SLUICE_SIZE_TEXT];

	for (unsigned i = 0; i <= FIO_STEPS; i++) {
		n[i] = i < FIO_STEPS ? b->steps[i] : b->whole;
		percent[i] = sum > 0 ? (unsigned)(100 * n[i] / sum) : 0;
		left -= percent[i];
		if (n[i] > n[most])
			most = i;
	}
	percent[most] += left;
	for (unsigned i = 0; i <= FIO_STEPS; i++)
		if (percent[i])
			fprintf(f, "%s%s/%u", shown++ ? ":" : "",
				sluice_size_exact(text, i < FIO_STEPS ? 4096ull << i : block),
				percent[i]);
}

void fio_job_split(FILE *f, const struct fio_blocks *read, const struct fio_blocks *write,
		   uint64_t block)
{
	fputs("bssplit=", f);
	split(f, read, block);
	putc(',', f);
	split(f, write, block);
	putc('\n', f);
}
