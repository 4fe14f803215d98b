/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the series of a bench job one after the other; bench_plan.c decides what they are. */
#include "load/jobs/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/size.h"
#include "base/util.h"
#include "load/jobs/bench_files.h"
#include "load/measure/cache.h"
#include "load/measure/limit.h"
#include "load/measure/null.h"

/* A job while it runs. */
struct bench {
	const struct bench_job *job;
	struct bench_result *res;
	char dir[4096];
	struct bench_files files;
	struct bed_buffers buffers;
	enum bench_step step;
	uint64_t size;
	unsigned use;      /* files, the first so many */
	uint64_t start_ns; /* of the series */
};

/* ------------------------------------------------------------------- series */

/* What a series will have moved in the end: known, or as the time goes. */
static uint64_t expected_bytes(const struct bench *b, uint64_t bytes)
{
	const struct bench_job *job = b->job;
	uint64_t max_ns = job->runtime_ns ? job->runtime_ns : job->max_ns;
	double passed = (double)(clock_ns() - b->start_ns);
	double by_time = passed > 0 ? (double)bytes * (double)max_ns / passed : 0;
	double by_count = (double)(job->iterations + job->warmup) * (double)b->size;

	if (job->runtime_ns)
		return (uint64_t)by_time;
	return (uint64_t)(max_ns && bytes && by_time < by_count ? by_time : by_count);
}

static void on_tick(void *arg, uint64_t ops, uint64_t bytes)
{
	struct bench *b = arg;

	(void)ops;
	b->job->progress(b->job->progress_arg, b->step, b->size, bytes, expected_bytes(b, bytes));
}

/* Are these files moved by O_DIRECT with these options?  And push them out of the cache. */
static int look_at_files(struct bench *b, struct sluice_err *err)
{
	struct sluice_file_info info = {.size = sizeof(info)};
	struct sluice_file *file;
	struct sluice_io *io;
	int r = sluice_open(&io, &b->job->opts, err);

	if (r < 0)
		return r;
	r = sluice_file_open(&file, io, b->files.paths[0], O_RDWR, 0, err);
	if (r == 0)
		r = sluice_file_stat(file, &info);
	b->files.direct = r == 0 && info.direct;
	sluice_close(io, NULL);
	return r;
}

static void describe(struct bench *b, struct run_series *s, const struct bench_source *src)
{
	struct cache_facts f = {
		.read = s->read,
		.engine = s->stats.engine,
		.memory = cache_memory_behind(&b->res->path),
		.direct = s->stats.blocks_direct && !s->stats.blocks_buffered,
		.resident = src->resident,
		.unknown = src->unknown,
		.size = b->files.bytes,
		.durable = b->job->opts.durability != SLUICE_DURABLE_NONE,
	};

	cache_describe(s->cache, &f);
}

void bench_name(char *buf, size_t len, const struct bench_job *job, uint64_t size, const char *what)
{
	char text[SLUICE_SIZE_TEXT], mix[24] = "";

	if (job->rwmix)
		snprintf(mix, sizeof(mix), " of %u%% reads", job->rwmix);
	snprintf(buf, len, "%s%s %s%s", job->random ? "random " : "", what,
		 sluice_size_exact(text, size), mix);
}

static void name_series(struct bench *b, struct run_series *s, bool read)
{
	const struct bench_job *job = b->job;

	s->read = read;
	s->size = b->size;
	s->lock = job->lock;
	s->verify = job->verify;
	bench_name(s->name, sizeof(s->name), job, b->size, read ? "read" : "write");
}

/* The time limit of a job that did not ask for one: fewer iterations, and said so. */
static void note_limit(const struct bench_job *job, struct run_series *s, uint64_t done)
{
	if (job->runtime_ns || s->partial || !job->max_ns || done >= job->iterations)
		return;
	snprintf(s->time_limit, sizeof(s->time_limit),
		 "time limit of %.0f s: %llu of %llu iterations", (double)job->max_ns / 1e9,
		 (unsigned long long)done, (unsigned long long)job->iterations);
}

/* One run of the files as they are: one series, or two of a mix. */
static int run_series(struct bench *b, enum bench_step step, struct sluice_err *err)
{
	const struct bench_job *job = b->job;
	unsigned nr = step == BENCH_MIXED ? 2 : 1;
	struct run_series *s = &b->res->series[b->res->nr_series];
	struct bench_source src = {.job = job,
				   .files = &b->files,
				   .buffers = &b->buffers,
				   .read = step == BENCH_READ,
				   .nr_files = b->use};
	struct stream_job stream = {
		.source = bench_source(&src),
		.files = (const char *const *)b->files.paths,
		.nr_files = b->files.nr,
		.open_each = !job->open_once,
		.workers = 1,
		.depth = job->in_flight,
		.opts = job->opts,
		.buffers = &b->buffers,
		.nr_series = nr,
		.runtime_ns = job->runtime_ns ? job->runtime_ns : job->max_ns,
		.seed = job->seed,
		.stop = job->stop,
		.progress = job->progress ? on_tick : NULL,
		.progress_arg = b,
	};
	uint64_t done = 0;
	int r;

	b->step = step;
	b->start_ns = clock_ns();
	sluice_random_seed(&src.random, job->seed + b->size);
	for (unsigned i = 0; i < nr; i++)
		name_series(b, &s[i], step == BENCH_MIXED ? i == 0 : step == BENCH_READ);
	b->res->nr_series += nr;
	r = run_stream(&stream, s, err);
	for (unsigned i = 0; i < nr; i++) {
		done += s[i].ops;
		s[i].verified_bytes = i == 0 ? atomic_load(&src.verified) : 0;
		describe(b, &s[i], &src);
		b->res->bytes_written += series_wear(&s[i]);
	}
	for (unsigned i = 0; i < nr; i++)
		note_limit(job, &s[i], done);
	return r < 0 ? r : bench_stopped(job, err);
}

/* Whoever is told may take its time, and be stopped in it. */
static int tell(struct bench *b, unsigned first, struct sluice_err *err)
{
	for (unsigned i = first; b->job->series_done && i < b->res->nr_series; i++)
		b->job->series_done(b->job->series_arg, b->dir, &b->res->series[i], b->files.nr);
	return bench_stopped(b->job, err);
}

/* Make what the next series needs to be there, outside of its time. */
static int fill(struct bench *b, struct sluice_err *err)
{
	uint64_t written = 0;
	int r = bench_files_fill(&b->files, &written, err);

	b->res->bytes_written += written;
	b->res->series[b->res->nr_series].prepared_bytes += written;
	return r;
}

static int verify_written(struct bench *b, struct sluice_err *err)
{
	struct run_series *s = &b->res->series[b->res->nr_series - 1];

	if (!b->job->verify || s->read)
		return 0;
	return bench_files_verify(&b->files, &s->verified_bytes, err);
}

static int writes(struct bench *b, struct sluice_err *err)
{
	unsigned first = b->res->nr_series;
	int r = b->job->overwrite ? fill(b, err) : 0;

	if (r == 0)
		r = run_series(b, BENCH_WRITE, err);
	if (r == 0)
		r = verify_written(b, err);
	if (r == 0)
		r = tell(b, first, err);
	return r;
}

static int reads(struct bench *b, struct sluice_err *err)
{
	unsigned first = b->res->nr_series, full = 0;
	int r = 0;

	/* Writes that ended early are not made up for: what there is will do. */
	while (full < b->files.nr && b->files.full[full])
		full++;
	if (full >= b->job->in_flight && full)
		b->use = full;
	else
		r = fill(b, err);
	for (unsigned i = 0; i < b->use && r == 0; i++) {
		cache_drop(b->files.paths[i], b->files.bytes);
		r = bench_stopped(b->job, err);
	}
	if (r == 0)
		r = run_series(b, BENCH_READ, err);
	if (r == 0)
		r = tell(b, first, err);
	return r;
}

static int mixed(struct bench *b, struct sluice_err *err)
{
	unsigned first = b->res->nr_series;
	int r = fill(b, err);

	if (r == 0)
		r = run_series(b, BENCH_MIXED, err);
	if (r == 0)
		r = verify_written(b, err);
	if (r == 0)
		r = tell(b, first, err);
	return r;
}

/* All of one size. */
static int one_size(struct bench *b, uint64_t size, struct sluice_err *err)
{
	const struct bench_job *job = b->job;
	int r;

	b->size = size;
	r = bed_buffers_open(&b->buffers, job->memory, size, job->in_flight, job->opts.huge,
			     job->lock, err);
	for (unsigned i = 0; i < job->in_flight && r == 0; i++)
		r = bed_buf_fill(&b->buffers, bed_buf(&b->buffers, i), size, job->seed, 0, err);
	if (r == 0)
		r = bench_files_init(&b->files, job, b->dir, size, err);
	if (r == 0)
		r = look_at_files(b, err);
	b->use = b->files.nr;
	if (r == 0 && job->rwmix)
		r = mixed(b, err);
	if (r == 0 && !job->rwmix && job->write)
		r = writes(b, err);
	if (r == 0 && !job->rwmix && job->read)
		r = reads(b, err);
	bench_files_fini(&b->files);
	bed_buffers_close(&b->buffers);
	return r;
}

/* -------------------------------------------------------------------- limit */

static void set_limit(struct bench *b, bool read, double limit, const char *how)
{
	for (unsigned i = 0; i < b->res->nr_series; i++) {
		struct run_series *s = &b->res->series[i];

		if (s->read != read)
			continue;
		s->limit = limit;
		snprintf(s->limit_how, sizeof(s->limit_how), "%s", how);
	}
}

/* Ask the device with plain threads, on a file of its own. */
static int measure_limit(struct bench *b, uint64_t most_written, struct sluice_err *err)
{
	const struct bench_job *job = b->job;
	struct bench_job one = *job;
	struct limit_target target = {.len = LIMIT_FILE, .align = 4096};
	struct limit_result limit;
	void *content;
	int r;

	one.random = false;
	one.files = 1;
	one.seed = 0;
	if (job->progress)
		job->progress(job->progress_arg, BENCH_LIMIT, 0, 0, 0);
	r = bench_files_init(&b->files, &one, b->dir, LIMIT_FILE, err);
	if (r == 0)
		r = bench_files_fill(&b->files, &b->res->bytes_written, err);
	if (r == 0)
		r = sluice_mem_alloc(&content, LIMIT_FILE, SLUICE_HUGE_AUTO, 0, NULL, err);
	if (r == 0) {
		target.path = b->files.paths[0];
		target.content = content;
		for (int read = 0; read < 2; read++) {
			if (!(read ? job->read : job->write))
				continue;
			limit_measure(&limit, &target, 1, read, read ? 0 : most_written, LIMIT_SEC,
				      job->stop);
			set_limit(b, read, limit.bytes_per_sec, limit.how);
			b->res->bytes_written += read ? 0 : limit.bytes;
		}
		sluice_mem_free(content, LIMIT_FILE);
	}
	bench_files_fini(&b->files);
	return r < 0 ? r : bench_stopped(job, err);
}

/* ---------------------------------------------------------------------- run */

int bench_run(const struct bench_job *job, struct bench_result *result, struct sluice_err *err)
{
	struct bench b = {.job = job, .res = result};
	struct bench_plan plan;
	uint64_t start = clock_ns();
	int r = 0;

	bench_plan(job, &plan);
	*result = (struct bench_result){.path = {.size = sizeof(result->path)}};
	result->series = calloc(plan.nr_series, sizeof(*result->series));
	if (!result->series)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if ((size_t)snprintf(b.dir, sizeof(b.dir), "%s/sluice-bench-XXXXXX", job->folder) >=
	    sizeof(b.dir))
		return sluice_fail(err, -ENAMETOOLONG, "%s: name too long", job->folder);
	if (!mkdtemp(b.dir))
		return sluice_fail(err, -errno, "%s: cannot make a folder in it: %s", job->folder,
				   sluice_strerror(errno));
	result->began = true;
	sluice_probe_path(b.dir, &result->path, NULL);
	for (unsigned i = 0; i < job->nr_sizes && r == 0; i++)
		r = one_size(&b, job->sizes[i], err);
	if (r == 0 && job->limit) {
		set_limit(&b, true, (double)job->limit, "as given");
		set_limit(&b, false, (double)job->limit, "as given");
	} else if (engine_is_null(job->opts.engine)) {
		set_limit(&b, true, 0, NULL_LIMIT);
		set_limit(&b, false, 0, NULL_LIMIT);
	} else if (r == 0 && job->measure_limit) {
		r = measure_limit(&b, plan.limit_bytes, err);
	}
	rmdir(b.dir);
	result->sec = (double)(clock_ns() - start) / 1e9;
	return r;
}

void bench_result_fini(struct bench_result *result)
{
	for (unsigned i = 0; result->series && i < result->nr_series; i++)
		series_fini(&result->series[i]);
	free(result->series);
	*result = (struct bench_result){.nr_series = 0};
}
