/* SPDX-License-Identifier: Apache-2.0 */
/* What `penstock io' prints. */
#include "load/report/jobs/io_report.h"

#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/jobs/io.h"
#include "load/report/result/report_lines.h"

#define GIB ((double)(1u << 30))

static const char *path_used(const struct io_result *res)
{
	const struct penstock_stats *st = &res->series.stats;

	if (st->blocks_object)
		return "objects";
	return !st->blocks_direct     ? "page cache"
	       : !st->blocks_buffered ? "O_DIRECT"
				      : "O_DIRECT and page cache";
}

static double cpu_per_gib(const struct io_result *res)
{
	return res->series.bytes ? (res->series.user_sec + res->series.system_sec) /
					   ((double)res->series.bytes / GIB)
				 : 0;
}

static double limit_share(const struct io_result *res)
{
	return res->series.limit > 0 && res->e2e_sec > 0
		       ? (double)res->series.bytes / res->e2e_sec / res->series.limit
		       : 0;
}

/* --------------------------------------------------------------------- text */

void io_report_targets(FILE *f, const struct io_job *job)
{
	const char *what = job->gpu ? "gpu" : "process";

	fprintf(f, "Configuring %u %s to folder mapping\n", job->nr_targets, what);
	for (unsigned i = 0; i < job->nr_targets; i++)
		fprintf(f, "[%u]: %s %u <----> %s\n", i, what, job->targets[i].device,
			job->targets[i].folder);
}

void io_report_plan(FILE *f, const struct io_job *job, const struct io_plan *plan)
{
	uint64_t writes = plan->prepares + plan->limit + (job->read ? 0 : plan->moves);
	char size[PENSTOCK_SIZE_TEXT];

	fprintf(f, "Would %s %s by %u worker%s, %u loop%s after %u to warm up\n",
		job->read ? "read" : "write", penstock_size_exact(size, job->io_size),
		job->nr_targets, job->nr_targets == 1 ? "" : "s", job->loops,
		job->loops == 1 ? "" : "s", job->warmup);
	report_plan_writes(f, writes, plan->limit, false);
	fprintf(f, "disk space: %s\n", penstock_size_format(size, plan->space));
	report_plan_time(f, plan->seconds, plan->speed, job->limit);
}

static void text_results(FILE *f, const char *word, const struct io_result *res)
{
	fprintf(f, "Task %s Latency = %.9f sec\n", word, res->task_sec);
	fprintf(f, "Task %s Speed = %.9f GB/sec\n", word,
		io_speed(res->series.bytes, res->task_sec));
	fprintf(f, "E2E %s Latency = %.9f sec\n", word, res->e2e_sec);
	fprintf(f, "E2E %s Speed = %.9f GB/sec\n", word, io_speed(res->series.bytes, res->e2e_sec));
}

static void text_engine(FILE *f, const struct io_worker_result *w)
{
	char block[PENSTOCK_SIZE_TEXT];

	fprintf(f, "engine:     %s, queue depth %u, %u I/O thread%s, blocks of %s\n",
		w->handle.stats.engine, w->handle.stats.depth, w->handle.stats.threads,
		w->handle.stats.threads == 1 ? "" : "s",
		penstock_size_format(block, w->handle.file.block));
	if (w->gpu.size)
		return;
	fprintf(f, "memory:     %s%s%s%s%s\n",
		w->handle.buf.got & PENSTOCK_BUF_HUGE ? "huge pages" : "ordinary pages",
		w->handle.buf.got & PENSTOCK_BUF_REGISTERED ? ", registered" : "",
		w->handle.buf.got & PENSTOCK_BUF_LOCKED ? ", locked" : "",
		*w->handle.buf.note ? "; " : "", w->handle.buf.note);
}

/* Is this the first worker with its GPU? */
static bool first_with(const struct io_result *res, unsigned i)
{
	unsigned k = 0;

	while (res->workers[k].device != res->workers[i].device)
		k++;
	return k == i;
}

/* Which GPU, its memory, and the way the bytes took. */
static void text_gpu(FILE *f, const struct io_worker_result *w)
{
	char pool[PENSTOCK_SIZE_TEXT];

	fprintf(f, "memory:     GPU %u (%s%s%s)%s%s%s,", w->device, w->gpu.name,
		*w->gpu.pci ? " at " : "", w->gpu.pci,
		w->handle.buf.got & PENSTOCK_BUF_REGISTERED ? ", registered" : "",
		*w->handle.buf.note ? "; " : "", w->handle.buf.note);
	if (w->handle.done_flags)
		fputs(" by ", f);
	report_gpu_path(f, w->handle.done_flags, " and ");
	if (w->handle.done_flags & PENSTOCK_DONE_PINNED_POOL)
		fprintf(f, " (%s)", penstock_size_format(pool, w->handle.stats.pinned_pool_bytes));
	fputc('\n', f);
}

static void text_path(FILE *f, const struct io_worker_result *w,
		      const struct penstock_path_info *path)
{
	report_path(f, w->folder, path);
	if (w->handle.stats.blocks_object)
		fputc('\n', f);
	else
		fprintf(f, ", %s%s%s\n", w->handle.file.direct ? "O_DIRECT" : "page cache",
			*w->handle.file.why ? ": " : "", w->handle.file.why);
}

static void text_fallbacks(FILE *f, const struct io_result *res)
{
	if (!res->series.stats.fallbacks)
		return;
	fprintf(f, "fallbacks:  ");
	report_fallbacks(f, res->series.stats.fallbacks, ", ");
	for (unsigned i = 0; i < res->nr_workers; i++) {
		if (!*res->workers[i].handle.stats.fallback_why)
			continue;
		fprintf(f, " (%s)", res->workers[i].handle.stats.fallback_why);
		break;
	}
	fputc('\n', f);
}

static void text_limit(FILE *f, const struct io_result *res)
{
	if (res->series.limit > 0)
		fprintf(f, "limit:      %.1f %% of %.3f GiB/s (%s)\n", 100 * limit_share(res),
			res->series.limit / GIB, res->series.limit_how);
	else
		fprintf(f, "limit:      %s\n",
			*res->series.limit_how ? res->series.limit_how : "not measured");
	if (res->series.limit > 0)
		report_limit_line(f, limit_share(res),
				  res->fresh && !res->series.stats.blocks_object,
				  res->series.limit_how);
}

static void text_counted(FILE *f, const struct io_job *job, const struct io_result *res)
{
	uint32_t loops = res->nr_loops - res->first;
	char size[PENSTOCK_SIZE_TEXT];

	fprintf(f, "counted:    %u loop%s of %s by %u worker%s, ", loops, loops == 1 ? "" : "s",
		penstock_size_format(size, job->io_size), res->nr_workers,
		res->nr_workers == 1 ? "" : "s");
	if (job->read)
		fprintf(f, "%s\n", path_used(res));
	else if (!res->fresh || res->fresh == loops)
		fprintf(f, "%s, %s\n", path_used(res),
			res->fresh ? "into fresh files" : "over existing data");
	else
		fprintf(f, "%s, %u into fresh files, the rest over existing data\n", path_used(res),
			res->fresh);
}

void io_report_text(FILE *f, const struct io_job *job, const struct io_result *res)
{
	text_results(f, job->read ? "Read" : "Write", res);
	text_engine(f, &res->workers[0]);
	for (unsigned i = 0; job->gpu && i < res->nr_workers; i++)
		if (first_with(res, i))
			text_gpu(f, &res->workers[i]);
	for (unsigned i = 0; i < res->nr_workers; i++)
		if (!i || strcmp(res->workers[i].folder, res->workers[i - 1].folder) != 0)
			text_path(f, &res->workers[i], &res->paths[i]);
	text_counted(f, job, res);
	text_fallbacks(f, res);
	fprintf(f, "cache:      %s\n", res->series.cache);
	fprintf(f, "CPU:        %.4f s per GiB (user %.3f s, system %.3f s)\n", cpu_per_gib(res),
		res->series.user_sec, res->series.system_sec);
	text_limit(f, res);
	if (job->validate && !res->partial)
		fprintf(f, "validation: passed\n");
	if (res->partial)
		fprintf(f, "partial:    interrupted, %u of %u loops\n", res->nr_loops - res->first,
			job->loops + (job->include_warmup ? job->warmup : 0));
}
