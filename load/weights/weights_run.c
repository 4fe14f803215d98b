/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a job of weights through a window: its model, its file and its window, and what comes of the
 * turns.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <penstock/gpu.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/measure/handle.h"
#include "load/measure/page_cache.h"
#include "load/weights/weights_run.h"

/* --------------------------------------------------------------------- model */

static void measure_model(struct weights_plan *p, const struct penstock_model *m)
{
	const struct penstock_group *g;
	uint64_t layer, expert;

	for (uint64_t i = 0; (g = penstock_model_get_group(m, i)); i++) {
		p->groups++;
		p->bytes += g->bytes;
		p->weights += g->nr;
		p->largest = max_u64(p->largest, g->bytes);
		if (weights_expert_of(g->name, &layer, &expert)) {
			p->expert_groups++;
			p->expert_bytes += g->bytes;
		}
	}
}

/* The window holds two groups and not the model, so that each use is a read. */
static int check_window(const struct weights_job *job, const struct weights_plan *p,
			struct penstock_err *err)
{
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];

	if (job->window < p->largest)
		return penstock_fail(
			err, -EINVAL,
			"--window: %s is smaller than the largest group of %s; a larger "
			"one, or --by tensor",
			penstock_size_format(a, job->window), penstock_size_format(b, p->largest));
	if (!p->bytes)
		return penstock_fail(err, -EINVAL, "%s: its weights have no bytes", job->model);
	return 0;
}

/* What was asked for and would not be done. */
static int weights_check_options(const struct weights_job *job, const struct weights_shape *shape,
				 struct penstock_err *err)
{
	if (!shape && job->bits)
		return penstock_fail(err, -EINVAL,
				     "--bits: '%s' is a model on disk and has its own", job->model);
	if (shape && job->size < 64 << 20)
		return penstock_fail(err, -EINVAL, "--size: a file of less than 64M tells nothing");
	if (shape && job->by != PENSTOCK_BY_LAYER)
		return penstock_fail(err, -EINVAL, "--by: '%s' is no model on disk", job->model);
	if (job->experts && job->by == PENSTOCK_BY_TENSOR)
		return penstock_fail(err, -EINVAL, "--by: with --experts what is used are experts");
	if (job->active && (!job->experts || strcmp(job->experts, "zipf") != 0))
		return penstock_fail(err, -EINVAL, "--active: is about --experts zipf");
	return shape && bed_check_folder(job->folder, true, err) < 0 ? -EINVAL : 0;
}

/* Before a file is made for it. */
static int check_gpu(const struct weights_job *job, struct penstock_err *err)
{
	void *p = NULL;
	int r = job->gpu ? penstock_gpu_alloc(&p, job->device, 1 << 20, err) : 0;

	penstock_gpu_free(p);
	return r;
}

static int check_model(const struct weights_job *job, struct weights_plan *plan,
		       struct penstock_io *io, struct penstock_err *err)
{
	struct weights_router *router = NULL;
	struct penstock_model *m;
	int r = weights_model(&m, io, job, "", job->size, err);

	if (r == -ENOENT && !strchr(job->model, '/') && access(job->model, F_OK) < 0)
		return penstock_fail(err, -EINVAL,
				     "%s: is no file, no folder, and not the name of a shape",
				     job->model);
	if (r < 0)
		return r;
	measure_model(plan, m);
	r = check_window(job, plan, err);
	if (r == 0 && job->experts)
		r = weights_router_open(&router, job, m, plan->shape, err);
	weights_router_close(router);
	penstock_model_close(m);
	return r;
}

int weights_make_plan(struct weights_job *job, struct weights_plan *plan, struct penstock_err *err)
{
	struct penstock_io *io;
	int r;

	memset(plan, 0, sizeof(*plan));
	plan->shape = weights_shape_find(job->model);
	plan->file_bytes = plan->shape ? job->size : 0;
	r = weights_check_options(job, plan->shape, err);
	if (r == 0)
		r = penstock_open(&io, &job->opts, err);
	if (r < 0)
		return r;
	r = check_model(job, plan, io, err);
	penstock_close(io, NULL);
	return r < 0 ? r : check_gpu(job, err);
}

static int weights_make_file(struct weights_run *run, struct penstock_err *err)
{
	const struct weights_job *job = run->job;
	struct bed_need need = {job->folder, job->size};
	struct bed_file_work work = {.stop = job->stop};
	int r = bed_check_space(&need, 1, err);

	if (r == 0)
		r = bed_folder_make(&run->folder, job->folder, "weights", NULL, err);
	if (r == 0)
		r = bed_file_init(&run->file, &run->folder, job->size, err, "weights");
	if (r == 0)
		r = bed_file_make(&run->file, err);
	if (r == 0)
		r = bed_files_fill(&run->file, 1, &work, err);
	run->res->made = work.bytes;
	return r;
}

/* --------------------------------------------------------------------- the whole */

/* Reading goes on all the time, and a group is used when it and all before it have been. */
static double ideal_turn_sec(const struct weights_run *run, const struct weights_turn *t,
			     double limit)
{
	double read_at = 0, free_at = 0,
	       compute_sec = run->res->compute_sec / (double)run->res->series.ops;

	for (uint64_t i = 0; i < t->nr; i++) {
		uint64_t k = (t->first + i) % run->res->plan.groups;

		read_at += (double)penstock_model_get_group(run->m, k)->bytes / limit;
		free_at = (read_at > free_at ? read_at : free_at) + compute_sec;
	}
	return free_at;
}

static void set_results(struct weights_run *run)
{
	struct weights_result *res = run->res;
	struct run_series *s = &res->series;
	double read_sec, limit;

	if (run->job->limit)
		limit_set(s, 1, true, (double)run->job->limit, "as given");
	else if (run->job->measure_limit)
		limit_set_measured(&run->limit, s, 1);
	limit = s->limit;
	res->tokens = s->sec > 0 ? run->job->batch * res->steps / s->sec : 0;
	if (limit <= 0 || !s->ops)
		return;
	read_sec = (double)res->stats.bytes_read / limit;
	if (run->job->experts) {
		res->ideal_sec = read_sec > res->compute_sec ? read_sec : res->compute_sec;
		res->bound = read_sec > 0 ? run->job->batch * res->steps / read_sec : 0;
		return;
	}
	for (unsigned i = 0; i < run->nr_turns; i++)
		res->ideal_sec += ideal_turn_sec(run, &run->turns[i], limit);
	res->bound = weights_bound(run->job->batch, limit, (double)res->plan.bytes);
}

static void finish_series(struct weights_run *run, int r, const struct penstock_err *err)
{
	struct run_series *s = &run->res->series;
	struct penstock_file *f;

	s->stats.size = sizeof(s->stats);
	penstock_get_stats(run->io, &s->stats);
	s->library_sec = (double)(s->stats.cpu_ns - run->warm.cpu_ns) / 1e9;
	s->run_bytes = s->bytes;
	if (penstock_file_open(&f, run->io, run->files.paths[run->files.largest], O_RDONLY, 0,
			       NULL) == 0) {
		s->file.size = sizeof(s->file);
		penstock_file_stat(f, &s->file);
		penstock_file_close(f, NULL);
	}
	s->done_flags = run->res->stats.direct ? PENSTOCK_DONE_DIRECT : PENSTOCK_DONE_BUFFERED;
	s->partial = r < 0;
	snprintf(s->partial_why, sizeof(s->partial_why), "%.150s", r < 0 ? err->msg : "");
	page_cache_describe(s, &run->files.facts, &run->res->path, 1);
	series_finish(s);
	run->res->cached = weights_files_resident(&run->files);
	run->res->ran = s->ops > 0;
}

static int run_window_make(struct weights_run *run, struct penstock_err *err)
{
	struct bed_buffers_opts want = {.memory = BED_OWN, .len = WEIGHTS_LIMIT_BUFFER, .nr = 1};
	uint64_t len = run->job->window + (64 << 10);
	int r = run->job->gpu ? penstock_gpu_alloc(&run->window, run->job->device, len, err)
			      : penstock_buf_alloc(&run->window, run->io, len, 0,
						   &run->res->series.buf, err);

	return r < 0 ? r : bed_buffers_open(&run->limit_buffers, &want, err);
}

static int weights_run_all(struct weights_run *run, struct penstock_err *err)
{
	struct run_series *s = &run->res->series;
	struct rusage before;
	int r;

	r = weights_model(&run->m, run->io, run->job, run->file.open_path, run->job->size, err);
	if (r < 0)
		return r;
	measure_model(&run->res->plan, run->m);
	r = weights_files_find(&run->files, run->m, err);
	if (r == 0)
		r = weights_files_check(&run->files, run->job->opts.s3, err);
	if (r == 0)
		r = run_window_make(run, err);
	if (r == 0)
		r = series_init(s);
	if (r == 0)
		r = weights_warm_up(run, err);
	if (r < 0)
		return r;
	run->warm.size = sizeof(run->warm);
	penstock_get_stats(run->io, &run->warm);
	getrusage(RUSAGE_SELF, &before);
	r = weights_turns(run, err);
	cpu_time_since(&before, &s->user_sec, &s->system_sec);
	set_results(run);
	finish_series(run, r, err);
	return r;
}

static void run_free(struct weights_run *run)
{
	weights_router_close(run->router);
	if (run->job->gpu)
		penstock_gpu_free(run->window);
	penstock_close(run->io, NULL);
	bed_buffers_close(&run->limit_buffers);
	penstock_model_close(run->m);
	weights_files_fini(&run->files);
	if (run->file.path)
		bed_file_fini(&run->file, false);
	if (run->folder.path)
		bed_folder_close(&run->folder, false);
}

int weights_run(const struct weights_job *job, struct weights_result *res, struct penstock_err *err)
{
	struct weights_run run = {.job = job, .res = res, .limit = {.read = true}};
	int r;

	memset(res, 0, sizeof(*res));
	snprintf(res->series.name, sizeof(res->series.name), "weights");
	res->series.read = true;
	res->series.opts = job->opts;
	res->series.memory = job->gpu ? BED_GPU : BED_OWN;
	res->plan.shape = weights_shape_find(job->model);
	res->plan.file_bytes = res->plan.shape ? job->size : 0;
	res->path.size = sizeof(res->path);
	r = penstock_probe_path(res->plan.shape ? job->folder : job->model, &res->path, err);
	if (r == 0)
		r = penstock_open(&run.io, &job->opts, err);
	if (r < 0)
		return r;
	if (res->plan.shape)
		r = weights_make_file(&run, err);
	if (r == 0)
		r = weights_run_all(&run, err);
	run_free(&run);
	return r;
}

void weights_result_fini(struct weights_result *res)
{
	series_fini(&res->series);
}
