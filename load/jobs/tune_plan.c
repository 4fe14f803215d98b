/* SPDX-License-Identifier: Apache-2.0 */
/* What a search takes, of disk, of wear and of time; and whether it can be had at all. */
#include "load/jobs/tune_plan.h"

#include <errno.h>
#include <math.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/measure/limit.h"

#define UPSTREAM_SIZE (400ull << 20) /* ds_nvme_tune's io_size */
#define LATENCY_SIZE  (1ull << 20)   /* of an operation whose latency matters ... */
#define LATENCY_FILE  (256ull << 20)
#define LATENCY_OPS   200           /* ... and their number per probe: p99 is the third largest */
#define FILE_PER_SEC  (32ull << 20) /* of the budget, of file: the race needs time, too */
#define LIMIT_SHARE   0.25          /* of the budget, at most, to measure the limit */

bool tune_small_ops(const struct tune_job *job)
{
	return job->goal == TUNE_LATENCY;
}

/* The largest file that leaves time for the race. */
static uint64_t file_size(const struct tune_job *job)
{
	if (job->exhaustive)
		return UINT64_MAX;
	return max_u64(TUNE_SMALLEST, (uint64_t)fmin(job->budget_sec, 1e6) * FILE_PER_SEC);
}

struct trials_job tune_trials_job(const struct tune_job *job)
{
	struct trials_job l = {.name = "tune",
			       .folders = job->folders,
			       .nr_folders = job->nr_folders,
			       .huge = job->opts.huge,
			       .lock = job->lock,
			       .seed = job->seed,
			       .stop = job->stop};

	l.op_size = job->io_size          ? job->io_size
		    : tune_small_ops(job) ? LATENCY_SIZE
					  : min_u64(UPSTREAM_SIZE, file_size(job));
	l.file_size = tune_small_ops(job)
			      ? max_u64(min_u64(LATENCY_FILE, file_size(job)), 4 * l.op_size)
			      : l.op_size;
	return l;
}

unsigned tune_probe_ops(const struct tune_job *job)
{
	return tune_small_ops(job) ? LATENCY_OPS : 1;
}

/* Before the race: a measurement with the default settings. */
static bool finds_floor(const struct tune_job *job)
{
	return (job->goal == TUNE_LATENCY || job->goal == TUNE_CPU) && !job->floor;
}

/* What a probe of operations of @op_size writes; 0: of the size the job has at first. */
static uint64_t probe_writes(const struct tune_job *job, uint64_t op_size)
{
	struct trials_job l = tune_trials_job(job);

	l.op_size = op_size ? op_size : l.op_size;
	return job->write ? trial_bytes(&l, tune_probe_ops(job)) : 0;
}

/* What an exhaustive search writes. */
static uint64_t all_writes(const struct tune_job *job)
{
	return (uint64_t)config_space_points(job->space) * job->loops * probe_writes(job, 0);
}

double tune_limit_sec(const struct tune_job *job)
{
	unsigned dirs = (unsigned)job->read + job->write;
	double sec =
		job->exhaustive ? LIMIT_SEC : fmin(LIMIT_SEC, LIMIT_SHARE * job->budget_sec / dirs);

	return sec < LIMIT_MIN_SEC ? 0 : sec;
}

/* What measuring the limit may write: most of max_write is for the race. */
uint64_t tune_limit_writes(const struct tune_job *job)
{
	if (!job->write || !job->measure_limit || job->limit || tune_limit_sec(job) <= 0)
		return 0;
	if (job->exhaustive)
		return limit_max_write(all_writes(job));
	return min_u64(limit_max_write(UINT64_MAX),
		       job->max_write ? job->max_write / 8 : UINT64_MAX);
}

uint64_t tune_race_writes(const struct tune_job *job, uint64_t written)
{
	uint64_t taken = written + tune_limit_writes(job);

	return !job->max_write ? UINT64_MAX : job->max_write > taken ? job->max_write - taken : 0;
}

/* Bytes written before the race, the measurement that finds the floor being one of @probe. */
static uint64_t writes_before(const struct tune_job *job, uint64_t probe)
{
	struct trials_job l = tune_trials_job(job);

	return l.file_size * l.nr_folders + tune_limit_writes(job) + (finds_floor(job) ? probe : 0);
}

/* It must be enough for the smallest race there is. */
static int check_wear(const struct tune_job *job, struct penstock_err *err)
{
	char need_text[PENSTOCK_SIZE_TEXT], most_text[PENSTOCK_SIZE_TEXT];
	uint64_t probe = probe_writes(job, job->io_size || tune_small_ops(job) ? 0 : TUNE_SMALLEST);
	uint64_t need = writes_before(job, probe) + probe;

	if (!job->max_write || job->exhaustive)
		return 0;
	if (need <= job->max_write)
		return 0;
	return penstock_fail(err, -EINVAL,
			     "max_write: %s is less than what files and a measurement take: %s",
			     penstock_size_format(most_text, job->max_write),
			     penstock_size_format(need_text, need));
}

/* Every kind of memory that is named must be there. */
static int check_memory(const struct tune_job *job, struct penstock_err *err)
{
	bool seen[BED_GPU + 1] = {false};
	struct bed_buffers buffers;
	uint32_t memory;
	int r = 0;

	for (unsigned i = 0; i < config_space_points(job->space) && r == 0; i++) {
		tune_opts(job, i, &memory);
		if (seen[memory])
			continue;
		seen[memory] = true;
		r = bed_buffers_open(
			&buffers,
			&(struct bed_buffers_opts){.memory = memory, .len = 4096, .nr = 1}, err);
		if (r == 0)
			bed_buffers_close(&buffers);
	}
	return r;
}

int tune_check(const struct tune_job *job, struct penstock_err *err)
{
	struct trials_job l = tune_trials_job(job);
	struct penstock_io *io;
	int r;

	if (!job->read && !job->write)
		return penstock_fail(err, -EINVAL, "neither reading nor writing is to be measured");
	if ((job->goal == TUNE_READ && !job->read) || (job->goal == TUNE_WRITE && !job->write))
		return penstock_fail(err, -EINVAL, "goal: %s is what is not to be measured",
				     tune_goal_words[job->goal]);
	r = trials_check(&l, 1, err);
	if (r == 0)
		r = check_wear(job, err);
	if (r == 0)
		r = check_memory(job, err);
	/* Every engine that is named must work, or the search would end in the middle. */
	for (unsigned i = 0; r == 0 && i < config_space_points(job->space); i++) {
		const struct config_space_value *v =
			config_space_value(job->space, i, CONFIG_SPACE_ENGINE);
		struct penstock_opts opts = tune_opts(job, i, NULL);

		if (i && !v)
			break;
		r = penstock_open(&io, &opts, err);
		if (r == 0)
			penstock_close(io, NULL);
	}
	return r;
}

/* All that an exhaustive search moves, and the time of the limits. */
static double all_seconds(const struct tune_job *job, double speed)
{
	struct trials_job l = tune_trials_job(job);
	unsigned dirs = (unsigned)job->read + job->write;
	double probes = (double)config_space_points(job->space) * job->loops + finds_floor(job);
	double bytes = probes * dirs * (double)trial_bytes(&l, tune_probe_ops(job)) +
		       (double)(l.file_size * l.nr_folders);

	return bytes / speed + (job->measure_limit && !job->limit ? tune_limit_sec(job) * dirs : 0);
}

void tune_plan(const struct tune_job *job, double speed, struct tune_plan *ret)
{
	struct trials_job l = tune_trials_job(job);
	uint64_t before = writes_before(job, probe_writes(job, 0));
	double race = job->write ? speed * job->budget_sec * (job->read ? 0.5 : 1) : 0;

	*ret = (struct tune_plan){.space = l.file_size * l.nr_folders,
				  .limit_writes = tune_limit_writes(job),
				  .seconds = job->exhaustive ? all_seconds(job, speed) : 0};
	ret->write_most = job->exhaustive ? before + all_writes(job)
			  : job->write    ? job->max_write
					  : ret->space;
	ret->write_likely = job->exhaustive ? ret->write_most
					    : min_u64(ret->write_most, before + (uint64_t)race);
}
