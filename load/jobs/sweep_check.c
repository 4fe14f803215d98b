/* SPDX-License-Identifier: Apache-2.0 */
/* What can be said of a sweep before it begins: for it, and against it. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/jobs/sweep_work.h"
#include "load/measure/handle.h"
#include "load/measure/limit.h"

/* --------------------------------------------------------------------- plan */

/* Which measurements are known, each once. */
struct measured_points {
	const struct sweep_job *job;
	struct sweep_plan *plan;
	bool *measured;
};

static uint64_t per_direction(const struct sweep_job *job)
{
	return (uint64_t)config_space_points(job->space) * job->loops;
}

static int count_known(void *arg, const struct sweep_sample *m, struct penstock_err *err)
{
	struct measured_points *k = arg;
	uint64_t at = (uint64_t)m->index * k->job->loops + m->loop;

	(void)err;
	if (m->loop >= k->job->loops || at >= sweep_measurements(k->job) || k->measured[at])
		return 0;
	k->measured[at] = true;
	k->plan->left--;
	return 0;
}

static bool moves(const struct sweep_job *job, unsigned point)
{
	const struct config_space_value *v =
		config_space_value(job->space, point, CONFIG_SPACE_ENGINE);

	return !engine_is_null(v ? v->text : job->opts.engine);
}

unsigned sweep_moves(const struct sweep_job *job)
{
	unsigned n = 0;

	for (unsigned p = 0; p < config_space_points(job->space); p++)
		n += moves(job, p);
	return n;
}

/* Measurements that write and are not known. */
static uint64_t writes_left(const struct sweep_job *job, const bool *measured)
{
	uint64_t n = 0, first = job->read ? per_direction(job) : 0;

	for (uint64_t at = 0; job->write && at < per_direction(job); at++)
		n += !measured[first + at] && moves(job, (unsigned)(at / job->loops));
	return n;
}

int sweep_plan(const struct sweep_job *job, struct sweep_plan *ret, struct penstock_err *err)
{
	CLEANUP_FREE bool *measured = calloc(sweep_measurements(job) + 1, sizeof(*measured));
	struct measured_points known = {.job = job, .plan = ret, .measured = measured};
	uint64_t wear = 0;
	int r = 0;

	*ret = (struct sweep_plan){.left = sweep_measurements(job)};
	if (!measured)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (job->state && job->resume)
		r = sweep_state_load(job, count_known, &known, &wear, err);
	/* files are made first */
	ret->writes = (1 + writes_left(job, measured)) * sweep_bytes(job);
	return r;
}

uint64_t sweep_limit_writes(const struct sweep_job *job)
{
	uint64_t points = sweep_moves(job);

	if (!job->write || !job->measure_limit || job->limit || !points)
		return 0;
	return limit_max_write((1 + points * job->loops) * sweep_bytes(job));
}

/* -------------------------------------------------------------------- check */

/* Kinds of host memory that are used; -ENOTSUP, -ENODEV where there is no GPU for the others. */
static int count_kinds(const struct sweep_job *job, struct penstock_err *err)
{
	bool used[BED_GPU + 1] = {false};

	for (unsigned p = 0; p < config_space_points(job->space); p++) {
		const struct config_space_value *v =
			config_space_value(job->space, p, CONFIG_SPACE_MEMORY);

		used[v ? v->n : job->memory] = true;
	}
	if (used[BED_GPU]) {
		int r = bed_gpu_check(0, err);

		if (r < 0)
			return r;
	}
	return used[BED_OWN] + used[BED_PLAIN] + used[BED_ODD];
}

/* On how many axes is @point not at the first value? */
static unsigned steps_away(const struct config_space *s, unsigned point)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->nr; i++)
		n += config_space_value(s, point, s->axes[i].kind) != &s->axes[i].values[0];
	return n;
}

/*
 * Every value once, and all the last ones together, without a file: the library
 * knows its own ranges.
 */
static int check_points(const struct sweep_job *job, struct penstock_err *err)
{
	unsigned nr = config_space_points(job->space);

	for (unsigned p = 0; p < nr; p++) {
		struct penstock_opts opts = job->opts;
		uint32_t memory = job->memory;
		struct penstock_io *io;
		int r;

		if (steps_away(job->space, p) > 1 && p != nr - 1)
			continue;
		config_space_apply(job->space, p, &opts, &memory);
		r = penstock_open(&io, &opts, err);
		if (r == 0)
			r = penstock_close(io, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int sweep_check(const struct sweep_job *job, struct penstock_err *err)
{
	struct trials_job trials;
	int r;

	if (!job->nr_folders || !job->io_size || !job->loops || (!job->read && !job->write))
		return penstock_fail(err, -EINVAL,
				     "a sweep needs a folder, a size, a loop and a direction");
	trials = sweep_trials_job(job);
	r = count_kinds(job, err);
	if (r >= 0)
		r = trials_check(&trials, (unsigned)r, err);
	if (r == 0)
		r = check_points(job, err);
	if (r == 0 && job->state && job->resume)
		r = sweep_state_check(job, job->state, err);
	return r;
}
