/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for fio with the block sizes, the mix and the depth of a run.  An object is moved in
 * blocks of the engine's size and one that is smaller: so what the device saw follows from the
 * sizes of the objects.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/kv_report.h"

#define STEPS 12 /* 4K, 8K, ... 8M: what is smaller than a block is rounded up to one of these */

struct sizes {
	double whole, steps[STEPS]; /* blocks */
};

static uint64_t step_bytes(unsigned i)
{
	return 4096ull << i;
}

static void count(struct sizes *n, const struct run_series *s, uint64_t block)
{
	double each = s->nr_samples ? (double)s->ops / s->nr_samples : 0;

	for (uint32_t i = 0; i < s->nr_samples; i++) {
		uint64_t rest = s->samples[i].bytes % block;
		unsigned k = 0;

		n->whole += each * (double)(s->samples[i].bytes / block);
		if (!rest)
			continue;
		while (k + 1 < STEPS && step_bytes(k) < rest)
			k++;
		if (step_bytes(k) >= block)
			n->whole += each;
		else
			n->steps[k] += each;
	}
}

static double total(const struct sizes *n)
{
	double sum = n->whole;

	for (unsigned i = 0; i < STEPS; i++)
		sum += n->steps[i];
	return sum;
}

/* fio wants whole percents that add up to 100: the block of full size takes what is left. */
static void split(FILE *f, const struct sizes *n, uint64_t block)
{
	double sum = total(n);
	char text[SLUICE_SIZE_TEXT];
	unsigned left = 100;

	for (unsigned i = 0; i < STEPS; i++) {
		unsigned percent = sum > 0 ? (unsigned)(n->steps[i] / sum * 100 + 0.5) : 0;

		percent = percent > left ? left : percent;
		left -= percent;
		if (percent)
			fprintf(f, "%s/%u%s", sluice_size_exact(text, step_bytes(i)), percent,
				left ? ":" : "");
	}
	if (left)
		fprintf(f, "%s/%u", sluice_size_exact(text, block), left);
}

int kv_report_fio(FILE *f, const struct kv_report *r)
{
	const struct run_series *read = &r->res->series[0], *write = &r->res->series[1];
	uint64_t block = read->file.block ? read->file.block : write->file.block;
	struct sizes in = {0}, out = {0};
	uint32_t depth = r->res->series[0].stats.depth;
	double share;

	block = block ? block : 1u << 20;
	count(&in, read, block);
	count(&out, write, block);
	if (total(&in) + total(&out) <= 0)
		return -ENODATA;
	share = total(&in) / (total(&in) + total(&out));
	fprintf(f,
		"; Blocks, mix and depth of a KV-cache run, made by sluice kv --export-fio.\n"
		"; %" PRIu64 " objects read, %" PRIu64 " written, model %s.\n"
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
		"[kv-cache]\n"
		"rw=randrw\n"
		"rwmixread=%.0f\n",
		read->ops, write->ops, r->job->params->model->name, share * 100);
	fprintf(f, "bssplit=");
	split(f, &in, block);
	putc(',', f);
	split(f, &out, block);
	fprintf(f, "\niodepth=%u\n", depth > 32 ? depth : 32);
	return fflush(f) || ferror(f) ? -EIO : 0;
}
