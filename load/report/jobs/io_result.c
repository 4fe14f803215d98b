/* SPDX-License-Identifier: Apache-2.0 */
/* What an I/O job found out as a result, like that of the other commands; docs/result.md. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "load/jobs/io.h"
#include "load/report/jobs/io_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

/* ----------------------------------------------------------------------- io */

static json_t *gpu_json(const struct penstock_gpu_device *d)
{
	if (!d->size)
		return json_null();
	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I}", "name", report_str(d->name), "pci",
			 report_str_or_null(d->pci), "memory", (json_int_t)d->memory, "numa_node",
			 (json_int_t)d->numa_node, "pcie_gen", (json_int_t)d->pcie_gen_max,
			 "pcie_width", (json_int_t)d->pcie_width_max);
}

static json_t *io_stats_json(const struct penstock_stats *s)
{
	json_t *j = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "ops",
		(json_int_t)s->ops, "bytes_read", (json_int_t)s->bytes_read, "bytes_written",
		(json_int_t)s->bytes_written, "blocks", (json_int_t)s->blocks, "blocks_direct",
		(json_int_t)s->blocks_direct, "blocks_buffered", (json_int_t)s->blocks_buffered,
		"blocks_bounced", (json_int_t)s->blocks_bounced, "blocks_fixed",
		(json_int_t)s->blocks_fixed, "resubmissions", (json_int_t)s->resubmissions,
		"preallocations", (json_int_t)s->preallocations, "fallback_why",
		report_str_or_null(s->fallback_why));

	json_object_set_new(j, "blocks_pinned_pool", report_count(s->blocks_pinned_pool));
	json_object_set_new(j, "blocks_cufile", report_count(s->blocks_cufile));
	json_object_set_new(j, "pinned_pool_bytes", report_count(s->pinned_pool_bytes));
	return j;
}

static json_t *loops_json(const double *sec, uint32_t from, uint32_t to)
{
	json_t *j = json_array();

	for (uint32_t i = from; i < to; i++)
		json_array_append_new(j, json_real(sec[i]));
	return j;
}

static json_t *worker_json(const struct io_job *job, const struct io_result *res, unsigned i)
{
	const struct io_worker_result *w = &res->workers[i];
	json_t *j = json_object();

	report_set_path(j, "folder", w->folder);
	json_object_set_new(j, "device", json_integer(w->device));
	json_object_set_new(j, "files_created", json_integer(w->made));
	json_object_set_new(j, "task_sec", json_real(w->task_sec));
	json_object_set_new(j, "e2e_sec", json_real(w->e2e_sec));
	json_object_set_new(j, "task", loops_json(w->task, res->first, res->nr_loops));
	json_object_set_new(j, "e2e", loops_json(w->e2e, res->first, res->nr_loops));
	json_object_set_new(j, "warmup_task", loops_json(w->task, 0, res->first));
	json_object_set_new(j, "warmup_e2e", loops_json(w->e2e, 0, res->first));
	json_object_set_new(j, "resident_bytes",
			    !job->read || w->resident < 0 ? json_null()
							  : json_integer(w->resident));
	json_object_set_new(j, "direct", json_boolean(w->handle.file.direct));
	json_object_set_new(j, "direct_why_not", report_str_or_null(w->handle.file.why));
	json_object_set_new(j, "memory_note", report_str_or_null(w->handle.buf.note));
	json_object_set_new(j, "gpu", gpu_json(&w->gpu));
	json_object_set_new(j, "gpu_path",
			    job->gpu ? report_gpu_path_json(w->handle.done_flags) : json_null());
	json_object_set_new(j, "stats", io_stats_json(&w->handle.stats));
	return j;
}

static json_t *rate(uint64_t bytes, double sec)
{
	return sec > 0 ? json_real((double)bytes / sec) : json_null();
}

static json_t *io_json(const struct io_job *job, const struct io_result *res)
{
	json_t *workers = json_array();

	for (unsigned i = 0; i < res->nr_workers; i++)
		json_array_append_new(workers, worker_json(job, res, i));
	return json_pack("{s:f, s:o, s:f, s:o, s:o, s:o, s:o}", "task_sec", res->task_sec,
			 "task_bytes_per_sec", rate(res->series.bytes, res->task_sec), "e2e_sec",
			 res->e2e_sec, "e2e_bytes_per_sec", rate(res->series.bytes, res->e2e_sec),
			 "gpu_path",
			 job->gpu ? report_gpu_path_json(res->series.done_flags) : json_null(),
			 "fresh_loops", job->read ? json_null() : json_integer(res->fresh),
			 "workers", workers);
}

/* ---------------------------------------------------------------- the whole */

/* Each folder once. */
static unsigned make_targets(struct result_target *targets, const struct io_result *res)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < res->nr_workers; i++) {
		const struct io_worker_result *w = &res->workers[i];
		unsigned k = 0;

		while (k < nr && strcmp(targets[k].folder, w->folder) != 0)
			k++;
		if (k == nr)
			targets[nr++] =
				(struct result_target){.folder = w->folder, .info = res->paths[i]};
	}
	return nr;
}

int io_report_result(struct io_report *rep, struct result *r, const struct io_job *job,
		     const struct io_result *res)
{
	*rep = (struct io_report){.targets = calloc(res->nr_workers, sizeof(*rep->targets))};
	if (!rep->targets)
		return -ENOMEM;
	r->targets = rep->targets;
	r->nr_targets = make_targets(rep->targets, res);
	r->series = &res->series;
	r->nr_series = 1;
	r->io = io_json(job, res);
	r->bytes_written = series_written(&res->series) + (job->read ? 0 : res->limit_bytes);
	return r->io ? 0 : -ENOMEM;
}

void io_report_fini(struct io_report *rep)
{
	free(rep->targets);
	rep->targets = NULL;
}
