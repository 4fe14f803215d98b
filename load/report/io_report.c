/* SPDX-License-Identifier: Apache-2.0 */
#include "load/report/io_report.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <sluice/version.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/text.h"
#include "load/run/io.h"

#define GIB ((double)(1u << 30))

/* Ways that were refused, in the words of the JSON and of the text. */
static const struct {
	uint32_t bit;
	const char *word;
} fallback_words[] = {
	{SLUICE_FELL_BUFFERED, "buffered"},       {SLUICE_FELL_UNREGISTERED, "unregistered"},
	{SLUICE_FELL_SMALL_PAGES, "small_pages"}, {SLUICE_FELL_UNLOCKED, "unlocked"},
	{SLUICE_FELL_NO_PREALLOC, "no_prealloc"}, {SLUICE_FELL_ENGINE, "engine"},
	{SLUICE_FELL_BLOCKING, "blocking"},       {SLUICE_FELL_CUFILE, "cufile"},
};

static const char *path_used(const struct io_result *res)
{
	return res->direct ? "O_DIRECT" : res->buffered ? "page cache" : "O_DIRECT and page cache";
}

/* How device memory was reached: the words of the JSON, and the same for people. */
static const struct {
	uint32_t bit;
	const char *word, *text;
} gpu_ways[] = {
	{SLUICE_DONE_CUFILE, "cufile", "cuFile, direct (GPUDirect Storage)"},
	{SLUICE_DONE_CUFILE_COMPAT, "cufile_compat", "cuFile in compatibility mode"},
	{SLUICE_DONE_RING, "ring", "the ring of pinned memory"},
};

static uint32_t all_ways(const struct io_result *res)
{
	uint32_t ways = 0;

	for (unsigned i = 0; i < res->nr_workers; i++)
		ways |= res->workers[i].ways;
	return ways;
}

static double cpu_per_gib(const struct io_result *res)
{
	return res->bytes ? (res->user_sec + res->system_sec) / ((double)res->bytes / GIB) : 0;
}

static double limit_share(const struct io_result *res)
{
	return res->limit > 0 && res->e2e_sec > 0 ? (double)res->bytes / res->e2e_sec / res->limit
						  : 0;
}

/* --------------------------------------------------------------------- text */

void io_report_places(FILE *f, const struct io_job *job)
{
	const char *what = job->gpu ? "gpu" : "process";

	fprintf(f, "Configuring %u %s to folder mapping\n", job->nr_places, what);
	for (unsigned i = 0; i < job->nr_places; i++)
		fprintf(f, "[%u]: %s %u <----> %s\n", i, what, job->places[i].device,
			job->places[i].folder);
}

static void text_results(FILE *f, const char *word, const struct io_result *res)
{
	fprintf(f, "Task %s Latency = %.9f sec\n", word, res->task_sec);
	fprintf(f, "Task %s Speed = %.9f GB/sec\n", word, io_speed(res->bytes, res->task_sec));
	fprintf(f, "E2E %s Latency = %.9f sec\n", word, res->e2e_sec);
	fprintf(f, "E2E %s Speed = %.9f GB/sec\n", word, io_speed(res->bytes, res->e2e_sec));
}

static void text_engine(FILE *f, const struct io_worker_result *w)
{
	char block[SLUICE_SIZE_TEXT];

	fprintf(f, "engine:     %s, queue depth %u, %u I/O thread%s, blocks of %s\n",
		w->stats.engine, w->stats.depth, w->stats.threads, w->stats.threads == 1 ? "" : "s",
		sluice_size_format(block, w->file.block));
	if (w->gpu.size)
		return;
	fprintf(f, "memory:     %s%s%s%s%s\n",
		w->buf.got & SLUICE_BUF_HUGE ? "huge pages" : "ordinary pages",
		w->buf.got & SLUICE_BUF_REGISTERED ? ", registered" : "",
		w->buf.got & SLUICE_BUF_LOCKED ? ", locked" : "", *w->buf.note ? "; " : "",
		w->buf.note);
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
	char ring[SLUICE_SIZE_TEXT];
	const char *between = " by ";

	fprintf(f, "memory:     GPU %u (%s%s%s)%s%s%s,", w->device, w->gpu.name,
		*w->gpu.pci ? " at " : "", w->gpu.pci,
		w->buf.got & SLUICE_BUF_REGISTERED ? ", registered" : "", *w->buf.note ? "; " : "",
		w->buf.note);
	for (unsigned i = 0; i < ARRAY_SIZE(gpu_ways); i++) {
		if (!(w->ways & gpu_ways[i].bit))
			continue;
		fprintf(f, "%s%s", between, gpu_ways[i].text);
		between = " and ";
	}
	if (w->ways & SLUICE_DONE_RING)
		fprintf(f, " (%s)", sluice_size_format(ring, w->stats.ring_bytes));
	fputc('\n', f);
}

static void text_path(FILE *f, const struct io_worker_result *w)
{
	const struct sluice_blockdev *d = &w->path.device;

	fprintf(f, "path:       %s: %s", w->folder,
		*w->path.fs ? w->path.fs : "unknown file system");
	if (w->path.has_device && *d->name)
		fprintf(f, " on %s", d->name);
	if (w->path.has_device && *d->model)
		fprintf(f, " (%s)", d->model);
	fprintf(f, ", %s%s%s\n", w->file.direct ? "O_DIRECT" : "page cache",
		*w->file.why ? ": " : "", w->file.why);
}

static void text_fallbacks(FILE *f, const struct io_result *res)
{
	const char *between = "";

	if (!res->fallbacks)
		return;
	fprintf(f, "fallbacks:  ");
	for (unsigned i = 0; i < ARRAY_SIZE(fallback_words); i++) {
		if (!(res->fallbacks & fallback_words[i].bit))
			continue;
		fprintf(f, "%s%s", between, fallback_words[i].word);
		between = ", ";
	}
	for (unsigned i = 0; i < res->nr_workers; i++) {
		if (!*res->workers[i].stats.fallback_why)
			continue;
		fprintf(f, " (%s)", res->workers[i].stats.fallback_why);
		break;
	}
	fputc('\n', f);
}

static void text_limit(FILE *f, const struct io_result *res)
{
	if (res->limit > 0)
		fprintf(f, "limit:      %.1f %% of %.3f GB/sec (%s)\n", 100 * limit_share(res),
			res->limit / GIB, res->limit_how);
	else
		fprintf(f, "limit:      %s\n", *res->limit_how ? res->limit_how : "not measured");
}

static void text_counted(FILE *f, const struct io_job *job, const struct io_result *res)
{
	uint32_t loops = res->nr_loops - res->first;
	char size[SLUICE_SIZE_TEXT];

	fprintf(f, "counted:    %u loop%s of %s by %u worker%s, ", loops, loops == 1 ? "" : "s",
		sluice_size_format(size, job->io_size), res->nr_workers,
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
			text_path(f, &res->workers[i]);
	text_counted(f, job, res);
	text_fallbacks(f, res);
	fprintf(f, "cache:      %s\n", res->cache);
	fprintf(f, "CPU:        %.4f s per GiB (user %.3f s, system %.3f s)\n", cpu_per_gib(res),
		res->user_sec, res->system_sec);
	text_limit(f, res);
	if (job->validate)
		fprintf(f, "validation: passed\n");
}

/* --------------------------------------------------------------------- JSON */

static json_t *settings_json(const struct io_job *job)
{
	const struct sluice_opts *o = &job->opts;
	json_t *j = json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:I}", "operation",
			      job->read ? "read" : "write", "io_size", (json_int_t)job->io_size,
			      "loops", (json_int_t)job->loops, "warmup_loops",
			      (json_int_t)job->warmup, "include_warmup_time", job->include_warmup,
			      "different_file_each_iteration", job->different_file, "validate",
			      job->validate, "seed", (json_int_t)job->seed);

	json_object_set_new(j, "engine", report_str_or_null(o->engine));
	json_object_set_new(j, "block_size",
			    o->block ? json_integer((json_int_t)o->block) : json_null());
	json_object_set_new(j, "queue_depth", json_integer(o->depth));
	json_object_set_new(j, "io_parallel", json_integer(o->threads));
	json_object_set_new(j, "single_submit", json_boolean(o->flags & SLUICE_SINGLE_SUBMIT));
	json_object_set_new(j, "sequential_requests", json_boolean(o->flags & SLUICE_NO_OVERLAP));
	json_object_set_new(j, "direct", json_string(io_direct_words[o->direct]));
	json_object_set_new(j, "durability", json_string(io_durability_words[o->durability]));
	json_object_set_new(j, "huge", json_string(io_huge_words[o->huge]));
	json_object_set_new(j, "memory", json_string(io_memory_words[job->memory]));
	json_object_set_new(j, "lock", json_boolean(job->lock));
	json_object_set_new(j, "gpu", json_boolean(job->gpu));
	json_object_set_new(j, "gds", json_boolean(job->gds));
	return j;
}

/* Which ways device memory was reached by; null where there was none. */
static json_t *gpu_path_json(const struct io_job *job, uint32_t ways)
{
	json_t *j;

	if (!job->gpu)
		return json_null();
	j = json_array();
	for (unsigned i = 0; i < ARRAY_SIZE(gpu_ways); i++)
		if (ways & gpu_ways[i].bit)
			json_array_append_new(j, json_string(gpu_ways[i].word));
	return j;
}

static json_t *gpu_json(const struct sluice_gpu_device *d)
{
	if (!d->size)
		return json_null();
	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I}", "name", report_str(d->name), "pci",
			 report_str_or_null(d->pci), "memory", (json_int_t)d->memory, "numa_node",
			 (json_int_t)d->numa_node, "pcie_gen", (json_int_t)d->pcie_gen_max,
			 "pcie_width", (json_int_t)d->pcie_width_max);
}

json_t *report_fallbacks_json(uint32_t bits)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < ARRAY_SIZE(fallback_words); i++)
		if (bits & fallback_words[i].bit)
			json_array_append_new(j, json_string(fallback_words[i].word));
	return j;
}

static json_t *ran_json(const struct io_job *job, const struct io_result *res)
{
	const struct io_worker_result *w = &res->workers[0];
	json_t *j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:o, s:o}", "engine",
			      w->stats.engine, "path", path_used(res), "block_size",
			      (json_int_t)w->file.block, "queue_depth", (json_int_t)w->stats.depth,
			      "io_parallel", (json_int_t)w->stats.threads, "huge_pages",
			      !!(w->buf.got & SLUICE_BUF_HUGE), "registered",
			      !!(w->buf.got & SLUICE_BUF_REGISTERED), "locked",
			      !!(w->buf.got & SLUICE_BUF_LOCKED), "fresh_loops",
			      job->read ? json_null() : json_integer(res->fresh), "fallbacks",
			      report_fallbacks_json(res->fallbacks));

	json_object_set_new(j, "gpu_path", gpu_path_json(job, all_ways(res)));
	return j;
}

static json_t *device_json(const struct sluice_path_info *p)
{
	const struct sluice_blockdev *d = &p->device;

	if (!p->has_device)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:b}", "name", report_str_or_null(d->name),
			 "model", report_str_or_null(d->model), "scheduler",
			 report_str_or_null(d->scheduler), "logical_block",
			 (json_int_t)d->logical_block, "max_segments", (json_int_t)d->max_segments,
			 "max_sectors_kb", (json_int_t)d->max_sectors_kb, "rotational",
			 d->rotational != 0);
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
	json_t *j = json_pack("{s:i, s:o, s:I, s:I, s:f, s:f}", "worker", (int)i, "folder",
			      report_str(w->folder), "device", (json_int_t)w->device,
			      "files_created", (json_int_t)w->made, "task_latency_sec", w->task_sec,
			      "e2e_latency_sec", w->e2e_sec);

	json_object_set_new(j, "warmup_task_sec", loops_json(w->task, 0, res->first));
	json_object_set_new(j, "warmup_e2e_sec", loops_json(w->e2e, 0, res->first));
	json_object_set_new(j, "task_sec", loops_json(w->task, res->first, res->nr_loops));
	json_object_set_new(j, "e2e_sec", loops_json(w->e2e, res->first, res->nr_loops));
	json_object_set_new(j, "resident_bytes",
			    !job->read || w->resident < 0 ? json_null()
							  : json_integer(w->resident));
	json_object_set_new(j, "file_system", report_str_or_null(w->path.fs));
	json_object_set_new(j, "mount", report_str_or_null(w->path.mount));
	json_object_set_new(j, "block_device", device_json(&w->path));
	json_object_set_new(j, "direct", json_boolean(w->file.direct));
	json_object_set_new(j, "direct_why_not", report_str_or_null(w->file.why));
	json_object_set_new(j, "memory_note", report_str_or_null(w->buf.note));
	json_object_set_new(j, "gpu", gpu_json(&w->gpu));
	json_object_set_new(j, "gpu_path", gpu_path_json(job, w->ways));
	json_object_set_new(j, "stats", stats_json(&w->stats));
	return j;
}

static json_t *totals_json(const struct io_result *res)
{
	return json_pack("{s:I, s:f, s:f, s:f, s:f}", "bytes", (json_int_t)res->bytes,
			 "task_latency_sec", res->task_sec, "task_gib_per_sec",
			 io_speed(res->bytes, res->task_sec), "e2e_latency_sec", res->e2e_sec,
			 "e2e_gib_per_sec", io_speed(res->bytes, res->e2e_sec));
}

static json_t *limit_json(const struct io_result *res)
{
	if (res->limit <= 0)
		return json_pack("{s:n, s:n, s:s}", "bytes_per_sec", "share", "how",
				 *res->limit_how ? res->limit_how : "not measured");
	return json_pack("{s:f, s:f, s:s}", "bytes_per_sec", res->limit, "share", limit_share(res),
			 "how", res->limit_how);
}

json_t *io_report_json(const struct io_job *job, const struct io_result *res, json_t *machine)
{
	json_t *workers = json_array();
	time_t now = time(NULL);
	struct tm tm;
	char when[32] = "";

	if (gmtime_r(&now, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	for (unsigned i = 0; i < res->nr_workers; i++)
		json_array_append_new(workers, worker_json(job, res, i));
	return json_pack(
		"{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:{s:f, s:f, s:f}, s:o, s:s}",
		"schema", "sluice-io/1", "sluice", SLUICE_VERSION_STRING, "time", when, "machine",
		machine, "settings", settings_json(job), "ran", ran_json(job, res), "cache",
		res->cache, "workers", workers, "totals", totals_json(res), "cpu", "user_sec",
		res->user_sec, "system_sec", res->system_sec, "sec_per_gib", cpu_per_gib(res),
		"limit", limit_json(res), "validation", job->validate ? "passed" : "not asked for");
}
