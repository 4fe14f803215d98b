/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the state of a sweep that is resumed.  The first byte says whether the first line is
 * the right one; the rest is what follows.  The sweep is stopped before it measures anything.
 */
#include <math.h>
#include <stdatomic.h>

#include "load/jobs/sweep_work.h"
#include "tests/fuzz/scratch.h"

static atomic_int stopped = 1;

static void check_points(const struct sweep_result *res)
{
	for (unsigned i = 0; i < res->nr; i++) {
		const struct sweep_point *p = &res->points[i];

		FUZZ_CHECK(p->loops <= 2 && res->series[i].ops == p->loops);
		FUZZ_CHECK(isfinite(p->e2e_sec) && p->e2e_sec >= 0 && p->task_sec >= 0);
		FUZZ_CHECK(isfinite(p->worker_sec[0]) && p->worker_sec[0] >= 0);
	}
	FUZZ_CHECK(isfinite(res->earlier_sec) && res->earlier_sec >= 0);
}

static void resume(const struct sweep_job *job)
{
	struct penstock_err err = {0, ""};
	struct sweep_result res;
	struct sweep_plan plan;
	int r = sweep_state_check(job, job->state, &err);

	FUZZ_CHECK(r == 0 || (err.code == r && err.msg[0]));
	if (r < 0)
		return;
	r = sweep_plan(job, &plan, &err);
	FUZZ_CHECK(r < 0 || plan.left <= sweep_measurements(job));
	r = sweep_run(job, &res, &err);
	FUZZ_CHECK(r < 0 && err.code == r && err.msg[0]);
	check_points(&res);
	sweep_result_fini(&res);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char folder[128], state[128];
	const char *folders[] = {folder};
	struct config_space space = {.nr = 0};
	struct sweep_job job = {.folders = folders,
				.nr_folders = 1,
				.space = &space,
				.opts = PENSTOCK_OPTS_INIT,
				.read = true,
				.write = true,
				.io_size = 4096,
				.loops = 2,
				.state = state,
				.stop = &stopped};
	struct penstock_err err;
	FILE *f;

	if (!size)
		return 0;
	snprintf(folder, sizeof(folder), "%s", scratch_path("."));
	snprintf(state, sizeof(state), "%s", scratch_path("state"));
	job.opts.engine = "null";
	for (unsigned i = 0; i < 3; i++)
		FUZZ_CHECK(config_space_add(&space, CONFIG_SPACE_QUEUE_DEPTH, 8u << i, NULL,
					    &err) == 0);
	FUZZ_CHECK(sweep_state_open(&f, &job, &err) == 0);
	fclose(f);
	f = fopen(state, data[0] & 1 ? "we" : "ae");
	FUZZ_CHECK(f && fwrite(data + 1, 1, size - 1, f) == size - 1);
	fclose(f);
	job.resume = true;
	resume(&job);
	remove(state);
	config_space_fini(&space);
	return 0;
}
