/* SPDX-License-Identifier: Apache-2.0 */
/* What can be said against a sweep before it begins. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/run/files.h"
#include "load/run/folders.h"
#include "load/run/pool.h"
#include "load/run/sweep.h"
#include "load/run/sweep_state.h"

static int check_memory(const struct sweep_job *job, struct sluice_err *err)
{
	char need_text[SLUICE_SIZE_TEXT], have_text[SLUICE_SIZE_TEXT];
	uint64_t have = files_available_memory(), need = sweep_bytes(job);
	unsigned kinds = 0;

	for (uint32_t memory = 0; memory <= POOL_GPU; memory++) {
		bool used = false;

		for (unsigned p = 0; p < space_points(job->space) && !used; p++) {
			const struct space_value *v = space_value(job->space, p, SPACE_MEMORY);

			used = (v ? v->n : job->memory) == memory;
		}
		if (used && memory == POOL_GPU) {
			int r = pool_gpu_check(err);

			if (r < 0)
				return r;
		}
		kinds += used && memory != POOL_GPU;
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
