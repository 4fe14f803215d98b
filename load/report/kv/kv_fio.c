/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for fio with the block sizes, the mix and the depth of a run.  An object is moved in
 * blocks of the engine's size and one that is smaller: so what the device saw follows from the
 * sizes of the objects.
 */
#include <inttypes.h>

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/fio_job.h"

static void fio_count(struct block_sizes *n, const struct run_series *s, uint64_t block)
{
	uint64_t kept = series_kept(s);

	for (uint64_t i = 0; i < kept; i++)
		block_sizes_add(n, series_sample(s, i)->bytes, block,
				(double)s->ops / (double)kept);
}

int kv_report_fio(FILE *f, const struct kv_report *r)
{
	const struct run_series *read = &r->res->series[0], *write = &r->res->series[1];
	uint64_t block = read->file.block ? read->file.block : write->file.block;
	struct block_sizes in = {0}, out = {0};
	uint64_t depth = r->res->series[0].stats.depth;
	char origin[256];

	block = block ? block : 1u << 20;
	fio_count(&in, read, block);
	fio_count(&out, write, block);
	snprintf(origin, sizeof(origin), "%" PRIu64 " objects read, %" PRIu64 " written, model %s.",
		 read->ops, write->ops, r->job->params->model->name);
	return fio_job_write(
		f, &(struct fio_job){.what = "Blocks, mix and depth of a KV-cache run, made by "
					     "penstock kv --export-fio.",
				     .origin = origin,
				     .section = "kv-cache",
				     .read = &in,
				     .write = &out,
				     .block = block,
				     .bytes = r->res->used[KV_NVME],
				     .depth = max_u64(depth, 32)});
}
