/* SPDX-License-Identifier: Apache-2.0 */
/* What an I/O job found out as a result, like that of the other commands; docs/result.md. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/jobs/io.h"
#include "load/measure/null.h"
#include "load/report/jobs/io_report.h"
#include "load/report/result/lines.h"
#include "load/report/result/text.h"

/* ------------------------------------------------------------------- series */

/*
 * An operation is one loop of one worker, and its latency the task time: open, move,
 * close, without the wait for the other workers.  All of them count the same time,
 * that of the loops from barrier to barrier.
 */
static int add_loops(struct run_series *s, const struct io_job *job, const struct io_result *res)
{
	struct sluice_random keys;
	int r = 0;

	sluice_random_seed(&keys, job->seed);
	for (unsigned i = 0; i < res->nr_workers; i++) {
		const struct io_worker_result *w = &res->workers[i];
		double start = 0;

		for (uint32_t k = res->first; k < res->nr_loops && r == 0; k++) {
			r = series_add(s, job->io_size, (uint64_t)llround(w->task[k] * 1e9),
				       (uint64_t)((start + w->task[k]) * 1e9),
				       sluice_random_next(&keys));
			start += w->e2e[k];
		}
	}
	series_finish(s);
	return r;
}

/* What all workers have in common is taken from the first; the rest is added up. */
static void sum_stats(struct run_series *s, const struct io_result *res)
{
	const struct io_worker_result *w = &res->workers[0];

	s->stats = w->stats;
	s->stats.fallbacks = res->fallbacks;
	s->file = w->file;
	s->buf = w->buf;
	s->ways = w->ways;
	for (unsigned i = 1; i < res->nr_workers; i++) {
		w = &res->workers[i];
		s->stats.blocks_direct += w->stats.blocks_direct;
		s->stats.blocks_buffered += w->stats.blocks_buffered;
		s->ways |= w->ways;
		if (!*s->stats.fallback_why)
			memcpy(s->stats.fallback_why, w->stats.fallback_why,
			       sizeof(s->stats.fallback_why));
	}
}

/* Bytes of all workers that only they know of. */
static void sum_bytes(struct run_series *s, const struct io_job *job, const struct io_result *res)
{
	uint64_t written = 0;

	s->warmup_bytes = (uint64_t)res->nr_workers * res->first * job->io_size;
	for (unsigned i = 0; i < res->nr_workers; i++) {
		s->prepared_bytes += res->workers[i].prepared_bytes;
		s->verified_bytes += res->workers[i].verified_bytes;
		written += res->workers[i].stats.bytes_written;
	}
	/* A loop that was interrupted wrote as well. */
	if (!job->read && written > s->warmup_bytes + res->bytes)
		s->warmup_bytes = written - res->bytes;
}

static int make_series(struct run_series *s, const struct io_job *job, const struct io_result *res)
{
	char size[SLUICE_SIZE_TEXT];

	if (series_init(s) < 0)
		return -ENOMEM;
	snprintf(s->name, sizeof(s->name), "%s %s", job->read ? "read" : "write",
		 sluice_size_exact(size, job->io_size));
	s->read = job->read;
	s->size = job->io_size;
	s->opts = job->opts;
	s->memory = job->gpu ? BED_GPU : job->memory;
	s->lock = job->lock;
	s->no_storage = engine_is_null(job->opts.engine);
	s->sec = res->e2e_sec;
	s->user_sec = res->user_sec;
	s->system_sec = res->system_sec;
	s->library_sec = res->library_sec;
	s->run_bytes = res->bytes;
	memcpy(s->cache, res->cache, sizeof(s->cache));
	s->limit = res->limit;
	memcpy(s->limit_how, res->limit_how, sizeof(s->limit_how));
	s->verify = job->validate;
	s->partial = res->partial;
	if (res->partial)
		snprintf(s->partial_why, sizeof(s->partial_why), "interrupted: %u of %u loops",
			 res->nr_loops - res->first,
			 job->loops + (job->include_warmup ? job->warmup : 0));
	sum_bytes(s, job, res);
	sum_stats(s, res);
	return add_loops(s, job, res);
}

/* ----------------------------------------------------------------------- io */

static json_t *gpu_json(const struct sluice_gpu_device *d)
{
	if (!d->size)
		return json_null();
	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I}", "name", report_str(d->name), "pci",
			 report_str_or_null(d->pci), "memory", (json_int_t)d->memory, "numa_node",
			 (json_int_t)d->numa_node, "pcie_gen", (json_int_t)d->pcie_gen_max,
			 "pcie_width", (json_int_t)d->pcie_width_max);
}

static json_t *stats_json(const struct sluice_stats *s)
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

	json_object_set_new(j, "blocks_ring", json_integer((json_int_t)s->blocks_ring));
	json_object_set_new(j, "blocks_cufile", json_integer((json_int_t)s->blocks_cufile));
	json_object_set_new(j, "ring_bytes", json_integer((json_int_t)s->ring_bytes));
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
	json_object_set_new(j, "direct", json_boolean(w->file.direct));
	json_object_set_new(j, "direct_why_not", report_str_or_null(w->file.why));
	json_object_set_new(j, "memory_note", report_str_or_null(w->buf.note));
	json_object_set_new(j, "gpu", gpu_json(&w->gpu));
	json_object_set_new(j, "gpu_path", job->gpu ? report_gpu_path_json(w->ways) : json_null());
	json_object_set_new(j, "stats", stats_json(&w->stats));
	return j;
}

static json_t *rate(uint64_t bytes, double sec)
{
	return sec > 0 ? json_real((double)bytes / sec) : json_null();
}

static json_t *io_json(const struct io_job *job, const struct io_result *res, uint32_t ways)
{
	json_t *workers = json_array();

	for (unsigned i = 0; i < res->nr_workers; i++)
		json_array_append_new(workers, worker_json(job, res, i));
	return json_pack("{s:f, s:o, s:f, s:o, s:o, s:o, s:o}", "task_sec", res->task_sec,
			 "task_bytes_per_sec", rate(res->bytes, res->task_sec), "e2e_sec",
			 res->e2e_sec, "e2e_bytes_per_sec", rate(res->bytes, res->e2e_sec),
			 "gpu_path", job->gpu ? report_gpu_path_json(ways) : json_null(),
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
				(struct result_target){.folder = w->folder, .info = w->path};
	}
	return nr;
}

int io_report_result(struct io_report *rep, struct result *r, const struct io_job *job,
		     const struct io_result *res)
{
	*rep = (struct io_report){.targets = calloc(res->nr_workers, sizeof(*rep->targets))};
	if (!rep->targets || make_series(&rep->series, job, res) < 0)
		return -ENOMEM;
	r->targets = rep->targets;
	r->nr_targets = make_targets(rep->targets, res);
	r->series = &rep->series;
	r->nr_series = 1;
	r->io = io_json(job, res, rep->series.ways);
	r->bytes_written = series_written(&rep->series) + (job->read ? 0 : res->limit_bytes);
	return r->io ? 0 : -ENOMEM;
}

void io_report_fini(struct io_report *rep)
{
	series_fini(&rep->series);
	free(rep->targets);
	rep->targets = NULL;
}
