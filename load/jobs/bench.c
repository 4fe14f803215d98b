/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the series of a bench job one after the other; bench_plan.c decides what they are. */
#include "load/jobs/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/random.h"
#include "base/size.h"
#include "base/util.h"
#include "load/jobs/bench_run.h"
#include "load/jobs/gdsio.h"
#include "load/measure/limit.h"
#include "load/measure/page_cache.h"
#include "load/measure/rank_barrier.h"

/* ------------------------------------------------------------------- series */

/* What a series will have moved in the end: known, or as the time goes. */
static uint64_t expected_bytes(const struct bench *b, uint64_t bytes)
{
	const struct bench_job *job = b->job;
	uint64_t max_ns = job->runtime_ns ? job->runtime_ns : job->max_ns;
	double passed = b->series->sec * 1e9 + (double)(clock_ns() - b->start_ns);
	double by_time = passed > 0 ? (double)bytes * (double)max_ns / passed : 0;
	double by_count = (double)job->iterations * (double)b->series->size;

	if (job->runtime_ns)
		return (uint64_t)by_time;
	return (uint64_t)(max_ns && bytes && by_time < by_count ? by_time : by_count);
}

static void on_tick(void *arg, uint64_t bytes)
{
	struct bench *b = arg;

	bytes += b->series->bytes;
	b->job->progress(b->job->progress_arg, b->step, b->series->size, bytes,
			 expected_bytes(b, bytes));
}

/* Are these files moved by O_DIRECT with these options? */
static int check_direct(struct bench *b, struct bench_files *files, struct penstock_err *err)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_file *file;
	struct penstock_io *io;
	int r;

	files->direct = bed_file_remote(&files->files[0]); /* past this machine's page cache */
	if (files->direct)
		return 0;
	r = penstock_open(&io, &b->job->opts, err);
	if (r < 0)
		return r;
	r = penstock_file_open(&file, io, files->files[0].open_path, O_RDWR | O_NOFOLLOW, 0, err);
	if (r == 0)
		r = penstock_file_stat(file, &info);
	files->direct = r == 0 && info.direct;
	penstock_close(io, NULL);
	return r;
}

void bench_name(char *buf, size_t len, const struct bench_job *job, uint64_t size, const char *what)
{
	char text[PENSTOCK_SIZE_TEXT], mix[24] = "";

	if (job->rwmix)
		snprintf(mix, sizeof(mix), " of %u%% reads", job->rwmix);
	snprintf(buf, len, "%s%s %s%s", job->random ? "random " : "", what,
		 penstock_size_exact(text, size), mix);
}

static void name_series(struct bench *b, struct run_series *s, uint64_t size, bool read)
{
	const struct bench_job *job = b->job;

	s->read = read;
	s->size = size;
	s->lock = job->lock;
	s->verify = job->verify;
	bench_name(s->name, sizeof(s->name), job, size, read ? "read" : "write");
}

/* The time limit of a job that did not ask for one: fewer iterations, and said so. */
static void set_time_limit(const struct bench_job *job, struct run_series *s, uint64_t done)
{
	if (job->runtime_ns || s->partial || !job->max_ns || done >= job->iterations)
		return;
	snprintf(s->time_limit, sizeof(s->time_limit),
		 "time limit of %.0f s: %llu of %llu iterations", (double)job->max_ns / 1e9,
		 (unsigned long long)done, (unsigned long long)job->iterations);
}

/* The part of @whole that falls to this repeat. */
static uint64_t repeat_share(const struct bench *b, uint64_t whole)
{
	return whole / b->repeats + (b->round < whole % b->repeats);
}

/*
 * The time of a turn; 0: there is none left.  A limit is shared by the turns to come, but where
 * one was too short for an operation the next has all of it.
 */
static uint64_t turn_ns(const struct bench *b, uint64_t used_ns, bool nothing_yet)
{
	const struct bench_job *job = b->job;
	uint64_t left = job->max_ns > used_ns ? job->max_ns - used_ns : 0;

	if (job->runtime_ns)
		return repeat_share(b, job->runtime_ns);
	return b->round && nothing_yet ? left : left / (b->repeats - b->round);
}

/* fio on the files that counted in the turn; @before: what had counted before it. */
static int run_fio_turn(struct bench *b, struct bench_size *z, bool read,
			const struct series_repeat *before, struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	unsigned at = z->first + (read && job->write), nr = job->rwmix ? 2 : 1;
	const struct run_series *s = &b->res->series[at];
	const struct bench_source *src = &z->source[read];
	struct fio_result *fio = &b->res->fio[at / nr];
	const char *names[FIO_FILES];
	uint64_t ops = 0, bytes = 0, files, written = fio->bytes_written;

	for (unsigned i = 0; i < nr; i++) {
		ops += s[i].ops;
		bytes += s[i].bytes;
	}
	if (ops <= before->ops || s->sec <= before->sec)
		return 0;
	files = min_u64(min_u64(ops - before->ops, src->nr_files), FIO_FILES);
	for (uint64_t i = 0; i < files; i++)
		names[i] = z->files.paths[(src->warm_end + i) % src->nr_files];
	if (penstock_stripe_get_kind(names[0]))
		return penstock_fail(err, -EOPNOTSUPP,
				     "%s: --compare-fio: the files are striped, of which fio knows "
				     "nothing",
				     job->folder);
	fio_run_turn(fio, job, b->folder.open_path, s, names, (unsigned)files, ops - before->ops,
		     (double)(bytes - before->bytes) / (s->sec - before->sec));
	b->res->nr_fio = at / nr + 1 > b->res->nr_fio ? at / nr + 1 : b->res->nr_fio;
	b->res->bytes_written += fio->bytes_written - written;
	if (b->res->gdsio && penstock_check_stop(job->stop, err) == 0) {
		struct fio_result *g = &b->res->gdsio[at];

		written = g->bytes_written;
		gdsio_run_turn(g, job, b->folder.open_path, s, names[0], ops - before->ops,
			       (double)(bytes - before->bytes) / (s->sec - before->sec));
		b->res->bytes_written += g->bytes_written - written;
	}
	return penstock_check_stop(job->stop, err);
}

/* A repeat of a series, or of both of a mix. */
static int run_turn(struct bench *b, struct bench_size *z, enum bench_step step,
		    struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	bool read = step == BENCH_READ;
	unsigned nr = step == BENCH_MIXED ? 2 : 1, at = z->first + (read && job->write);
	struct run_series *s = &b->res->series[at];
	struct bench_source *src = &z->source[read];
	struct transfers_job work = {
		.source = bench_source(src),
		.files = z->files.files,
		.nr_files = z->files.nr,
		.open_each = !job->open_once,
		.workers = 1,
		.depth = job->in_flight,
		.opts = job->opts,
		.buffers = &b->buffers,
		.nr_series = nr,
		.runtime_ns = turn_ns(b, z->used_ns[read], !(s[0].ops + s[nr - 1].ops)),
		.stop = job->stop,
		.progress = job->progress ? on_tick : NULL,
		.progress_arg = b,
	};
	struct series_repeat before = {.sec = s->sec};
	uint64_t wear = 0;
	int r;

	if (!work.runtime_ns && job->max_ns) {
		rank_barrier_wait(); /* others may have time left: turns stay the same for all */
		return 0;
	}
	src->warm_end = src->issued + (b->round ? min_u64(job->warmup, 1) : job->warmup);
	src->end = src->warm_end + repeat_share(b, job->iterations);
	b->step = step;
	b->series = s;
	b->start_ns = clock_ns();
	for (unsigned i = 0; i < nr; i++) {
		name_series(b, &s[i], z->size, nr == 2 ? i == 0 : read);
		wear += series_wear(&s[i]);
		before.ops += s[i].ops;
		before.bytes += s[i].bytes;
	}
	b->res->nr_series = at + nr > b->res->nr_series ? at + nr : b->res->nr_series;
	r = run_transfers(&work, s, err);
	for (unsigned i = 0; i < nr; i++) {
		s[i].verified_bytes = i == 0 ? atomic_load(&src->verified) : 0;
		page_cache_describe(&s[i], &src->facts, &b->res->path, 1);
		series_end_repeat(&s[i]);
		b->res->bytes_written += series_wear(&s[i]);
	}
	b->res->bytes_written -= wear;
	z->used_ns[read] += clock_ns() - b->start_ns;
	if (r == 0 && b->res->fio)
		r = run_fio_turn(b, z, read, &before, err);
	return r < 0 ? r : penstock_check_stop(job->stop, err);
}

/* Make what series @at of a size needs to be there, outside of its time. */
static int bench_fill(struct bench *b, struct bench_size *z, unsigned at, struct penstock_err *err)
{
	uint64_t written = 0;
	int r = bench_files_fill(&z->files, &written, err);

	b->res->bytes_written += written;
	b->res->series[z->first + at].prepared_bytes += written;
	return r;
}

static int writes(struct bench *b, struct bench_size *z, struct penstock_err *err)
{
	int r = b->job->overwrite ? bench_fill(b, z, 0, err) : 0;

	return r < 0 ? r : run_turn(b, z, b->job->rwmix ? BENCH_MIXED : BENCH_WRITE, err);
}

static int reads(struct bench *b, struct bench_size *z, struct penstock_err *err)
{
	struct bench_files *f = &z->files;
	unsigned full = 0;
	int r = 0;

	/* What was written so far is read: there is more of it in each round. */
	while (full < f->nr && f->files[full].full)
		full++;
	if (full < b->job->in_flight || !full)
		r = bench_fill(b, z, b->job->write, err);
	else
		z->source[1].nr_files = full;
	for (unsigned i = 0; i < z->source[1].nr_files && r == 0; i++) {
		page_cache_drop(f->files[i].open_path, f->files[i].from, f->bytes);
		r = penstock_check_stop(b->job->stop, err);
	}
	return r < 0 ? r : run_turn(b, z, BENCH_READ, err);
}

/* ------------------------------------------------------------------- rounds */

static int open_files_of_size(struct bench *b, struct bench_size *z, unsigned first_file,
			      struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	int r = bench_files_init(&z->files, job, &b->folder, z->size, first_file, err);

	for (int read = 0; read < 2; read++) {
		z->source[read] = (struct bench_source){.job = job,
							.files = &z->files,
							.buffers = &b->buffers,
							.read = read,
							.nr_files = z->files.nr};
		z->source[read].facts = (struct page_cache_facts){.size = z->files.bytes,
								  .durable = job->opts.durability !=
									     PENSTOCK_DURABLE_NONE};
		penstock_random_seed(&z->source[read].random, job->seed + z->size);
	}
	return r < 0 ? r : check_direct(b, &z->files, err);
}

/* All of one size in a round, with new buffers: where they are matters, too. */
static int run_size(struct bench *b, struct bench_size *z, struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	struct bed_buffers_opts want = {.memory = job->memory,
					.len = z->size,
					.nr = job->in_flight,
					.huge = job->opts.huge,
					.lock = job->lock};
	int r = bed_buffers_open(&b->buffers, &want, err);

	for (unsigned i = 0; i < job->in_flight && r == 0; i++)
		r = bed_buf_fill(&b->buffers, b->buffers.bufs[i], z->size, job->seed, 0, err);
	if (r == 0 && job->write)
		r = writes(b, z, err);
	if (r == 0 && !job->verify)
		bench_limit_turn(b, z, false);
	if (r == 0 && job->read && !job->rwmix)
		r = reads(b, z, err);
	if (r == 0)
		bench_limit_turn(b, z, true);
	bed_buffers_close(&b->buffers);
	return r;
}

static int run_rounds(struct bench *b, struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	unsigned files = 0, series = 0;
	int r = 0;

	for (unsigned i = 0; i < job->nr_sizes && r == 0; i++) {
		struct bench_size *z = &b->sizes[i];

		z->size = job->sizes[i];
		z->first = series;
		r = open_files_of_size(b, z, files, err);
		files += z->files.nr;
		series += (unsigned)job->write + job->read;
	}
	for (b->round = 0; b->round < b->repeats && r == 0; b->round++)
		for (unsigned i = 0; i < job->nr_sizes && r == 0; i++)
			r = run_size(b, &b->sizes[i], err);
	return r;
}

/* Read back what was written last, and compare. */
static int verify_written(struct bench *b, struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	int r = 0;

	for (unsigned i = 0; job->verify && job->write && i < job->nr_sizes && r == 0; i++) {
		struct bench_size *z = &b->sizes[i];

		r = bench_files_verify(
			&z->files, &b->res->series[z->first + !!job->rwmix].verified_bytes, err);
	}
	return r;
}

/* What ended early, and why: a failure of one series is the end of all. */
static void end_series(struct bench *b, int status, const char *why)
{
	struct run_series *s = b->res->series;
	unsigned step = b->job->rwmix ? 2 : 1;

	for (unsigned i = 0; i < b->res->nr_series; i++) {
		const struct run_series *pair = &s[i - i % step];

		if (status < 0 && !s[i].partial) {
			s[i].partial = true;
			snprintf(s[i].partial_why, sizeof(s[i].partial_why), "%s", why);
		}
		set_time_limit(b->job, &s[i], pair[0].ops + (step == 2 ? pair[1].ops : 0));
	}
}

/* Whoever is told may take its time, and be stopped in it. */
static int report_series(struct bench *b, struct penstock_err *err)
{
	const struct bench_job *job = b->job;

	for (unsigned i = 0; job->series_done && i < b->res->nr_series; i++)
		job->series_done(job->series_arg, &b->res->series[i]);
	return penstock_check_stop(job->stop, err);
}

/* ---------------------------------------------------------------------- run */

static int make_folder(struct bench *b, struct penstock_err *err)
{
	const struct bench_job *job = b->job;
	int r = job->share.on
			? bed_folder_share(&b->folder, job->folder, "bench", &job->share, err)
			: bed_folder_make(&b->folder, job->folder, "bench", job->opts.s3, err);

	if (r < 0)
		return r;
	b->res->began = true;
	penstock_probe_path(b->folder.path, &b->res->path, NULL);
	return 0;
}

int bench_run(const struct bench_job *job, struct bench_result *result, struct penstock_err *err)
{
	CLEANUP_FREE struct bench_size *sizes = calloc(job->nr_sizes, sizeof(*sizes));
	struct bench b = {.job = job, .res = result, .sizes = sizes, .repeats = bench_repeats(job)};
	struct penstock_err local;
	struct bench_plan plan;
	uint64_t start = clock_ns();
	int r;

	err = err ? err : &local;
	bench_plan(job, &plan);
	*result = (struct bench_result){.path = {.size = sizeof(result->path)}};
	result->series = calloc(plan.nr_series, sizeof(*result->series));
	if (job->compare_fio)
		result->fio = calloc(plan.nr_series, sizeof(*result->fio));
	if (bench_with_gdsio(job))
		result->gdsio = calloc(plan.nr_series, sizeof(*result->gdsio));
	if (!result->series || !sizes || (job->compare_fio && !result->fio) ||
	    (bench_with_gdsio(job) && !result->gdsio))
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = make_folder(&b, err);
	if (r < 0)
		return r;
	b.limit_size = bench_measures_limit(job) ? plan.limit_size : 0;
	b.limit_bytes = plan.limit_bytes;
	b.limit[true].read = true;
	r = run_rounds(&b, err);
	if (r == 0)
		r = verify_written(&b, err);
	end_series(&b, r, err->msg);
	if (r == 0)
		r = report_series(&b, err);
	if (r == 0 && job->share.on)
		rank_barrier_wait(); /* others may be reading what is removed now */
	for (unsigned i = 0; i < job->nr_sizes; i++)
		bench_files_fini(&sizes[i].files);
	bench_set_limits(&b);
	for (unsigned i = 0; i < result->nr_fio; i++)
		fio_choose_variant(&result->fio[i]);
	for (unsigned i = 0; result->gdsio && i < result->nr_fio; i++)
		fio_choose_variant(&result->gdsio[i]);
	bed_folder_close(&b.folder, false);
	result->failed = r < 0;
	result->sec = (double)(clock_ns() - start) / 1e9;
	return r;
}

void bench_result_fini(struct bench_result *result)
{
	for (unsigned i = 0; result->series && i < result->nr_series; i++)
		series_fini(&result->series[i]);
	free(result->series);
	free(result->fio);
	free(result->gdsio);
	*result = (struct bench_result){.nr_series = 0};
}
