/* SPDX-License-Identifier: Apache-2.0 */
/* What can be said of a sweep before it begins: for it, and against it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/bed/folders.h"
#include "load/jobs/sweep.h"
#include "load/jobs/sweep_state.h"
#include "load/measure/limit.h"
#include "load/measure/null.h"
#include "load/measure/ram.h"

/* --------------------------------------------------------------------- plan */

/* Which measurements are known, each once. */
struct known {
	const struct sweep_job *job;
	struct sweep_plan *plan;
	bool *seen;
};

static uint64_t per_direction(const struct sweep_job *job)
{
	return (uint64_t)space_points(job->space) * job->loops;
}

static int count_known(void *arg, const struct sweep_sample *m, struct sluice_err *err)
{
	struct known *k = arg;
	uint64_t at = (uint64_t)m->index * k->job->loops + m->loop;

	(void)err;
	if (m->loop >= k->job->loops || at >= sweep_measurements(k->job) || k->seen[at])
		return 0;
	k->seen[at] = true;
	k->plan->left--;
	return 0;
}

static bool moves(const struct sweep_job *job, unsigned point)
{
	const struct space_value *v = space_value(job->space, point, SPACE_ENGINE);

	return !engine_is_null(v ? v->text : job->opts.engine);
}

unsigned sweep_moves(const struct sweep_job *job)
{
	unsigned n = 0;

	for (unsigned p = 0; p < space_points(job->space); p++)
		n += moves(job, p);
	return n;
}

/* Measurements that write and are not known. */
static uint64_t writes_left(const struct sweep_job *job, const bool *seen)
{
	uint64_t n = 0, first = job->read ? per_direction(job) : 0;

	for (uint64_t at = 0; job->write && at < per_direction(job); at++)
		n += !seen[first + at] && moves(job, (unsigned)(at / job->loops));
	return n;
}

int sweep_plan(const struct sweep_job *job, struct sweep_plan *ret, struct sluice_err *err)
{
	CLEANUP_FREE bool *seen = calloc(sweep_measurements(job) + 1, sizeof(*seen));
	struct known known = {.job = job, .plan = ret, .seen = seen};
	int r = 0;

	*ret = (struct sweep_plan){.left = sweep_measurements(job)};
	if (!seen)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if (job->state && job->resume)
		r = sweep_state_load(job, count_known, &known, err);
	/* files are made first */
	ret->writes = (1 + writes_left(job, seen)) * sweep_bytes(job);
	return r;
}

uint64_t sweep_limit_writes(const struct sweep_job *job)
{
	uint64_t points = sweep_moves(job);

	if (!job->write || !job->measure_limit || job->limit || !points)
		return 0;
	return limit_most_written((1 + points * job->loops) * sweep_bytes(job));
}

/* -------------------------------------------------------------------- check */

static int check_memory(const struct sweep_job *job, struct sluice_err *err)
{
	char need_text[SLUICE_SIZE_TEXT], have_text[SLUICE_SIZE_TEXT];
	uint64_t have = ram_available(), need = sweep_bytes(job);
	unsigned kinds = 0;

	for (uint32_t memory = 0; memory <= BED_GPU; memory++) {
		bool used = false;

		for (unsigned p = 0; p < space_points(job->space) && !used; p++) {
			const struct space_value *v = space_value(job->space, p, SPACE_MEMORY);

			used = (v ? v->n : job->memory) == memory;
		}
		if (used && memory == BED_GPU) {
			int r = bed_gpu_check(err);

			if (r < 0)
				return r;
		}
		kinds += used && memory != BED_GPU;
	}
	need *= kinds;
	if (have && need > have)
		return sluice_fail(
			err, -EINVAL, "not enough memory: %s needed for buffers, %s available",
			sluice_size_format(need_text, need), sluice_size_format(have_text, have));
	return 0;
}

/* On how many axes is @point not at the first value? */
static unsigned steps_away(const struct space *s, unsigned point)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->nr; i++)
		n += space_value(s, point, s->axes[i].kind) != &s->axes[i].values[0];
	return n;
}

/*
 * Every value once, and all the last ones together, without a file: the library
 * knows its own ranges.
 */
static int check_points(const struct sweep_job *job, struct sluice_err *err)
{
	unsigned nr = space_points(job->space);

	for (unsigned p = 0; p < nr; p++) {
		struct sluice_opts opts = job->opts;
		uint32_t memory = job->memory;
		struct sluice_io *io;
		int r;

		if (steps_away(job->space, p) > 1 && p != nr - 1)
			continue;
		space_apply(job->space, p, &opts, &memory);
		r = sluice_open(&io, &opts, err);
		if (r == 0)
			r = sluice_close(io, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int sweep_check(const struct sweep_job *job, struct sluice_err *err)
{
	int r;

	if (!job->nr_folders || !job->io_size || !job->loops || (!job->read && !job->write))
		return sluice_fail(err, -EINVAL,
				   "a sweep needs a folder, a size, a loop and a direction");
	r = folders_check(job->folders, job->nr_folders, job->io_size, err);
	if (r == 0)
		r = check_memory(job, err);
	if (r == 0)
		r = check_points(job, err);
	if (r == 0 && job->state && job->resume)
		r = sweep_state_check(job, job->state, err);
	return r;
}
