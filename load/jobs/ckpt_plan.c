/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint job before it runs: models, what it needs, whether that is there. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/jobs/ckpt.h"
#include "load/measure/limit.h"

#define DEFAULT_SIZE      (128u << 20)
#define DEFAULT_PROCESSES 4
#define LIMIT_FILE        (1ull << 30)
#define GB                1000000000ull

const char *const ckpt_method_words[] = {"memory", "streaming", "torch", NULL};
const char *const ckpt_model_words[] = {"none", "8b", "70b", "405b", "1t", NULL};

/* MLPerf Storage, Rules.md, section 4. */
const struct ckpt_model ckpt_models[] = {
	{"none", 0, 0, 0},
	{"8b", 105 * GB, 8, 105 * GB},
	{"70b", 912 * GB, 64, 114 * GB},
	{"405b", 5290 * GB, 512, 94 * GB},
	{"1t", 18000 * GB, 1024, 161 * GB},
};

uint64_t ckpt_total_bytes(const struct ckpt_job *job)
{
	return job->size * job->processes;
}

uint64_t ckpt_limit_len(const struct ckpt_job *job)
{
	return job->measure_limit ? align_up(min_u64(ckpt_total_bytes(job), LIMIT_FILE), 1u << 20)
				  : 0;
}

static unsigned nr_methods(const struct ckpt_job *job)
{
	unsigned nr = 0;

	for (unsigned m = 0; m < CKPT_METHODS; m++)
		nr += job->methods[m];
	return nr;
}

void ckpt_plan(const struct ckpt_job *job, struct ckpt_plan *ret)
{
	uint64_t bytes = ckpt_total_bytes(job), nr = nr_methods(job);

	*ret = (struct ckpt_plan){.bytes = bytes};
	ret->limit =
		job->measure_limit ? ckpt_limit_len(job) + limit_max_write(job->saves * bytes) : 0;
	ret->writes = nr * job->saves * bytes + ret->limit;
	ret->reads = nr * ((uint64_t)job->loads + 1) * bytes;
	/* While a save goes on, the one before is there. */
	ret->space = bytes * (job->distinct    ? job->saves
			      : job->saves > 1 ? 2
					       : 1) +
		     ckpt_limit_len(job);
	ret->memory[CKPT_MEMORY] = (job->size + job->buffers * job->chunk) * job->processes;
	ret->memory[CKPT_STREAMING] = (job->buffers + 1) * job->chunk * job->processes;
	ret->memory[CKPT_TORCH] = 2 * bytes;
}

static void set_defaults(struct ckpt_job *job)
{
	const struct ckpt_model *model = &ckpt_models[job->model];

	if (!job->processes)
		job->processes = job->model ? CKPT_SUBSET : DEFAULT_PROCESSES;
	if (!job->size)
		job->size = job->model ? model->subset / CKPT_SUBSET : DEFAULT_SIZE;
}

bool ckpt_method_missing(const struct ckpt_job *job, enum ckpt_method method, char why[192])
{
	struct ckpt_plan plan;
	struct penstock_err err;

	ckpt_plan(job, &plan);
	if (bed_check_memory(plan.memory[method], 1, &err) == 0)
		return false;
	snprintf(why, 192, "%.180s", err.msg);
	return true;
}

int ckpt_check(struct ckpt_job *job, struct penstock_err *err)
{
	struct bed_need need = {.folder = job->folder};
	struct ckpt_plan plan;
	int r;

	set_defaults(job);
	if (!nr_methods(job))
		return penstock_fail(err, -EINVAL, "no method is left to measure");
	if (job->loads && !job->saves)
		return penstock_fail(err, -EINVAL,
				     "saves: there is nothing to load without a save");
	if (job->size > UINT64_MAX / 4096 / job->processes / (job->saves + 1ull))
		return penstock_fail(err, -EINVAL, "size: %" PRIu64 " is too much", job->size);
	ckpt_plan(job, &plan);
	need.bytes = plan.space;
	r = bed_check_folder(job->folder, true, err);
	return r < 0 ? r : bed_check_space(&need, 1, err);
}
