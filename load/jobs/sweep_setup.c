/* SPDX-License-Identifier: Apache-2.0 */
/* Points of a sweep, and what trials of them need. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/jobs/sweep_work.h"
#include "load/measure/handle.h"

static void name_point(struct sweep *w, unsigned index)
{
	const struct sweep_job *job = w->job;
	struct run_series *s = &w->res->series[index];
	struct sweep_point *p = &w->res->points[index];

	p->point = index % w->nr_points;
	s->read = job->read && index < w->nr_points;
	s->size = job->io_size;
	s->opts = job->opts;
	s->memory = job->memory;
	config_space_apply(job->space, p->point, &s->opts, &s->memory);
	config_space_name(s->name, sizeof(s->name), job->space, p->point, s->read, job->nr_folders,
			  &job->opts);
	s->no_storage = engine_is_null(s->opts.engine);
	snprintf(s->limit_how, sizeof(s->limit_how), "%s",
		 s->no_storage ? NULL_LIMIT : "not measured");
}

int sweep_alloc_points(struct sweep *w, struct penstock_err *err)
{
	const struct sweep_job *job = w->job;
	unsigned both = (unsigned)job->read + (unsigned)job->write;

	w->nr_points = config_space_points(job->space);
	w->res->series = calloc((size_t)both * w->nr_points, sizeof(*w->res->series));
	w->res->points = calloc((size_t)both * w->nr_points, sizeof(*w->res->points));
	w->known = calloc((size_t)both * w->nr_points, (size_t)job->loops * sizeof(*w->known));
	w->worker_sec = calloc(job->nr_folders, sizeof(*w->worker_sec));
	if (!w->res->series || !w->res->points || !w->known || !w->worker_sec)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (; w->res->nr < both * w->nr_points; w->res->nr++) {
		struct sweep_point *p = &w->res->points[w->res->nr];

		p->worker_sec = calloc(job->nr_folders, sizeof(*p->worker_sec));
		if (!p->worker_sec || series_init(&w->res->series[w->res->nr]) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		name_point(w, w->res->nr);
	}
	return 0;
}

struct trials_job sweep_trials_job(const struct sweep_job *job)
{
	return (struct trials_job){
		.name = "sweep",
		.folders = job->folders,
		.nr_folders = job->nr_folders,
		.s3 = job->opts.s3,
		.file_size = job->io_size,
		.op_size = job->io_size,
		.rounds = true,
		.flush = job->flush,
		.huge = job->opts.huge,
		.seed = job->seed,
		.stop = job->stop,
	};
}

int sweep_add_wear(struct sweep *w, uint64_t bytes, struct penstock_err *err)
{
	w->res->bytes_written += bytes;
	return sweep_state_add_wear(w->state, w->job, bytes, err);
}

void sweep_count_left(struct sweep *w)
{
	uint64_t left;

	for (size_t i = 0; i < (size_t)w->res->nr * w->job->loops; i++)
		w->left[w->res->series[i / w->job->loops].read] += !w->known[i];
	left = w->left[0] + w->left[1];
	w->res->resumed = (unsigned)(sweep_measurements(w->job) - left);
	w->left_bytes = left * sweep_bytes(w->job);
}

void sweep_close(struct sweep *w)
{
	w->res->paths = TAKE_PTR(w->trials.info);
	trials_close(&w->trials);
	if (w->state)
		fclose(w->state);
	free(w->known);
	free(w->worker_sec);
}
