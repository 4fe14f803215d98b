/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint job: methods in turn, and what the processes' answers come to. */
#include "load/jobs/ckpt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"
#include "load/bed/bed_file.h"
#include "load/bed/buffers.h"
#include "load/jobs/ckpt_ranks.h"
#include "load/measure/handle.h"
#include "load/measure/limit.h"
#include "load/measure/page_cache.h"
#include "load/measure/rank_barrier.h"

#define LIMIT_BUFFER (32u << 20)

/* -------------------------------------------------------------------- the run */

struct run {
	const struct ckpt_job *job;
	struct ckpt_result *res;
	struct bed_folder folder;
	char **files; /* of a checkpoint, one per process */
	struct page_cache_facts facts;
	/* what the device gives */
	struct bed_file limit_file;
	struct bed_buffers limit_buffers;
	struct limit limit[2];
};

/* The files of save @nr; one name for all saves, unless they are distinct. */
static int name_files(struct run *run, unsigned nr, struct penstock_err *err)
{
	for (unsigned i = 0; i < run->job->processes; i++) {
		free(run->files[i]);
		if (asprintf(&run->files[i], "%s/checkpoint-%u-rank-%u", run->folder.path,
			     run->job->distinct ? nr : 0, i) < 0) {
			run->files[i] = NULL;
			return penstock_fail(err, -ENOMEM, "out of memory");
		}
	}
	return 0;
}

/* Files come by rename(2): the journal has their names before, and that of their checksums. */
static int record_sizes(struct run *run, struct penstock_err *err)
{
	int r = 0;

	for (unsigned i = 0; i < run->job->processes && r == 0; i++) {
		const char *name = strrchr(run->files[i], '/') + 1;
		char crc_name[64];

		snprintf(crc_name, sizeof(crc_name), "%s.crc", name);
		r = bed_folder_expect(&run->folder, name, err);
		if (r == 0)
			r = bed_folder_expect(&run->folder, crc_name, err);
	}
	return r;
}

static void remove_files(struct run *run)
{
	for (unsigned nr = 0; nr < (run->job->distinct ? run->job->saves : 1); nr++) {
		if (name_files(run, nr, NULL) < 0)
			return;
		for (unsigned i = 0; i < run->job->processes; i++) {
			const char *name = strrchr(run->files[i], '/') + 1;
			char crc_name[64];

			snprintf(crc_name, sizeof(crc_name), "%s.crc", name);
			penstock_stripe_unlink(run->folder.fd, name);
			unlinkat(run->folder.fd, crc_name, 0);
		}
	}
}

/* What was made beforehand, for the operation that follows. */
static void count_made(struct ckpt_direction *dir, const struct ckpt_ranks *ranks)
{
	for (unsigned i = 0; i < ranks->nr; i++)
		dir->made_sec += (double)ranks->ranks[i].times.made / 1e9;
}

/* One operation of all processes, as a sample of @dir. */
static int ckpt_count(struct run *run, struct ckpt_direction *dir, const struct ckpt_ranks *ranks,
		      uint64_t wall_ns, struct penstock_err *err)
{
	struct run_series *s = &dir->series;
	uint64_t bytes = ckpt_total_bytes(run->job), slowest = 1;

	count_made(dir, ranks);
	for (unsigned i = 0; i < ranks->nr; i++) {
		const struct ckpt_times *t = &ranks->ranks[i].times;

		slowest = max_u64(slowest, t->total);
		dir->close_sec += (double)t->close / 1e9;
		dir->all_sec += (double)t->total / 1e9;
		s->user_sec += (double)t->user / 1e9;
		s->system_sec += (double)t->system / 1e9;
	}
	if (ARRAY_RESERVE(dir->slowest, dir->slowest_capacity, dir->nr_slowest + 1) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	dir->slowest[dir->nr_slowest++] = (double)slowest / 1e9;
	dir->slowest_sec += (double)slowest / 1e9;
	dir->slowest_rate += (double)run->job->size / ((double)slowest / 1e9);
	s->sec += (double)wall_ns / 1e9;
	series_turn(s, clock_ns() - wall_ns, wall_ns);
	s->run_bytes += bytes;
	if (series_add(s, bytes, wall_ns, (uint64_t)(s->sec * 1e9)) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return 0;
}

static void report_progress(const struct run *run, unsigned method, bool read, unsigned done,
			    unsigned of)
{
	if (run->job->progress)
		run->job->progress(run->job->arg, method, read, done * ckpt_total_bytes(run->job),
				   of * ckpt_total_bytes(run->job));
}

static void ckpt_limit_turn(struct run *run, bool read)
{
	struct limit *l = &run->limit[read];
	const char *path = run->limit_file.path;
	struct limit_target t = {
		.paths = &path,
		.nr_paths = 1,
		.len = run->limit_file.len,
		.nr_bufs = 1,
		.buf_len = LIMIT_BUFFER,
		.step = LIMIT_BUFFER,
		.align = 4096,
	};

	if (!path || l->tries >= 2 * LIMIT_CONFIGS)
		return;
	t.buf = run->limit_buffers.bufs[0];
	limit_try(l, &t, 1,
		  read ? 0
		       : limit_max_write(run->job->saves * ckpt_total_bytes(run->job)) /
				  LIMIT_CONFIGS / 2,
		  LIMIT_SEC / LIMIT_CONFIGS, run->job->stop);
}

static int do_saves(struct run *run, struct ckpt_ranks *ranks, struct ckpt_direction *dir,
		    struct penstock_err *err)
{
	const struct ckpt_job *job = run->job;
	uint64_t ns;
	int r = 0;

	for (unsigned i = 0; i < job->saves && r == 0; i++) {
		r = name_files(run, i, err);
		if (r == 0)
			r = record_sizes(run, err);
		if (r == 0 && ranks->method != CKPT_STREAMING) {
			r = ckpt_ranks_do(ranks, "make", i, run->files, &ns, err);
			count_made(dir, ranks);
		}
		if (r == 0) {
			rank_barrier_wait();
			r = ckpt_ranks_do(ranks, "save", i, run->files, &ns, err);
		}
		if (r == 0)
			r = ckpt_count(run, dir, ranks, ns, err);
		report_progress(run, ranks->method, false, i + 1, job->saves);
		ckpt_limit_turn(run, false);
		r = r < 0 ? r : penstock_check_stop(run->job->stop, err);
	}
	return r;
}

/* The save that load @nr reads. */
static unsigned nr_saved(const struct ckpt_job *job, unsigned nr)
{
	return job->distinct ? nr % job->saves : job->saves - 1;
}

static void drop_files(struct run *run)
{
	for (unsigned i = 0; i < run->job->processes; i++) {
		struct stat st;

		if (stat(run->files[i], &st) < 0)
			continue;
		page_cache_add(&run->facts,
			       page_cache_drop(run->files[i], 0, (uint64_t)st.st_size));
		run->facts.size = (uint64_t)st.st_size;
	}
}

static int do_loads(struct run *run, struct ckpt_ranks *ranks, struct ckpt_direction *dir,
		    struct penstock_err *err)
{
	const struct ckpt_job *job = run->job;
	uint64_t ns;
	int r = 0;

	run->facts = (struct page_cache_facts){.size = 1};
	for (unsigned i = 0; i < job->loads && r == 0; i++) {
		r = name_files(run, nr_saved(job, i), err);
		if (r == 0) {
			drop_files(run);
			rank_barrier_wait();
			r = ckpt_ranks_do(ranks, "load", nr_saved(job, i), run->files, &ns, err);
		}
		if (r == 0)
			r = ckpt_count(run, dir, ranks, ns, err);
		report_progress(run, ranks->method, true, i + 1, job->loads);
		ckpt_limit_turn(run, true);
		r = r < 0 ? r : penstock_check_stop(run->job->stop, err);
	}
	return r;
}

/* Every file that is there, every byte, out of the measured time. */
static int compare_all(struct run *run, struct ckpt_ranks *ranks, struct ckpt_direction *dir,
		       struct penstock_err *err)
{
	const struct ckpt_job *job = run->job;
	uint64_t ns;
	int r = 0;

	for (unsigned i = job->distinct ? 0 : job->saves - 1; i < job->saves && r == 0; i++) {
		r = name_files(run, i, err);
		if (r == 0)
			r = ckpt_ranks_do(ranks, "compare", i, run->files, &ns, err);
		if (r == 0)
			dir->series.verified_bytes += ckpt_total_bytes(job);
		r = r < 0 ? r : penstock_check_stop(run->job->stop, err);
	}
	return r;
}

/* ------------------------------------------------------------------- one method */

static int direction_init(struct ckpt_direction *dir, const struct ckpt_job *job, unsigned method,
			  bool read)
{
	struct run_series *s = &dir->series;

	snprintf(s->name, sizeof(s->name), "%s %s", read ? "load" : "save",
		 ckpt_method_words[method]);
	s->read = read;
	s->size = ckpt_total_bytes(job);
	s->opts = job->opts;
	s->opts.durability = read ? PENSTOCK_DURABLE_NONE : PENSTOCK_DURABLE_FULL;
	s->verify = read;
	s->memory = method == CKPT_TORCH ? BED_PLAIN : BED_OWN;
	return series_init(s);
}

/* Counters of a handle go on: what @dir has of them is what came since @before. */
static void take_stats(struct ckpt_direction *dir, const struct ckpt_ranks *ranks,
		       const struct ckpt_direction *before)
{
	struct penstock_stats *st = &dir->series.stats;

	if (ranks->method == CKPT_TORCH) {
		/* It goes through the page cache, one thread for each process. */
		*st = (struct penstock_stats){.size = sizeof(*st),
					      .engine = "torch",
					      .threads = 1,
					      .depth = 1,
					      .blocks = 1,
					      .blocks_buffered = 1};
		return;
	}
	for (unsigned i = 0; i < ranks->nr; i++)
		handle_stats_add(st, &ranks->info[i].stats);
	if (!before)
		return;
	st->blocks -= min_u64(st->blocks, before->series.stats.blocks);
	st->blocks_direct -= min_u64(st->blocks_direct, before->series.stats.blocks_direct);
	st->blocks_buffered -= min_u64(st->blocks_buffered, before->series.stats.blocks_buffered);
	st->bytes_written -= min_u64(st->bytes_written, before->series.stats.bytes_written);
	st->cpu_ns -= min_u64(st->cpu_ns, before->series.stats.cpu_ns);
}

static void direction_finish(struct run *run, struct ckpt_direction *dir,
			     const struct ckpt_ranks *ranks, const struct ckpt_direction *before,
			     int r, const struct penstock_err *err)
{
	struct run_series *s = &dir->series;

	take_stats(dir, ranks, before);
	s->library_sec = (double)s->stats.cpu_ns / 1e9;
	s->file = ranks->info[0].file;
	s->buf = ranks->info[0].buf;
	s->partial = r < 0;
	snprintf(s->partial_why, sizeof(s->partial_why), "%.150s", r < 0 ? err->msg : "");
	run->facts.durable = true;
	page_cache_describe(s, &run->facts, &run->res->path, 1);
	series_finish(s);
}

static int ckpt_measure(struct run *run, struct ckpt_ranks *ranks, struct penstock_err *err)
{
	struct ckpt_direction *both = run->res->directions[ranks->method];
	int r = do_saves(run, ranks, &both[0], err);

	direction_finish(run, &both[0], ranks, NULL, r, err);
	if (r < 0 || !run->job->saves)
		return r;
	r = do_loads(run, ranks, &both[1], err);
	if (r == 0 && run->job->loads)
		r = compare_all(run, ranks, &both[1], err);
	direction_finish(run, &both[1], ranks, &both[0], r, err);
	return r;
}

static int run_method(struct run *run, enum ckpt_method method, struct penstock_err *err)
{
	struct ckpt_result *res = run->res;
	struct penstock_err why = {0, ""};
	struct ckpt_ranks ranks;
	int r = 0;

	if (ckpt_method_missing(run->job, method, res->why_not[method]))
		return 0;
	for (unsigned read = 0; read < 2 && r == 0; read++)
		r = direction_init(&res->directions[method][read], run->job, method, read);
	if (r < 0)
		return penstock_fail(err, r, "out of memory");
	r = ckpt_ranks_start(&ranks, run->job, method, &why);
	if (r == 0) {
		res->ran[method] = true;
		r = ckpt_measure(run, &ranks, &why);
	} else if (method == CKPT_TORCH && r != -ECANCELED) {
		/* It need not be there; what is wrong with it is said. */
		snprintf(res->why_not[method], sizeof(res->why_not[method]), "%.180s", why.msg);
		r = 0;
	}
	ckpt_ranks_end(&ranks);
	remove_files(run);
	return r < 0 ? penstock_fail(err, r, "%s", why.msg) : 0;
}

/* ------------------------------------------------------------------- the whole */

static int limit_open(struct run *run, struct penstock_err *err)
{
	const struct ckpt_job *job = run->job;
	struct bed_file_work work = {.stop = job->stop};
	struct bed_buffers_opts want = {.memory = BED_OWN, .len = LIMIT_BUFFER, .nr = 1};
	int r;

	if (!job->measure_limit || job->limit)
		return 0;
	r = bed_file_init(&run->limit_file, &run->folder, ckpt_limit_len(job), err, "limit");
	if (r == 0)
		r = bed_file_make(&run->limit_file, err);
	if (r == 0)
		r = bed_files_fill(&run->limit_file, 1, &work, err);
	run->res->limit_bytes += work.bytes;
	return r < 0 ? r : bed_buffers_open(&run->limit_buffers, &want, err);
}

/* What ran, in order, each with the limit of its direction. */
static void collect_series(struct run *run)
{
	struct ckpt_result *res = run->res;
	const struct ckpt_job *job = run->job;

	for (unsigned i = 0; i < 2 * CKPT_METHODS; i++)
		if (res->ran[i / 2] && res->directions[i / 2][i % 2].series.ops)
			res->series[res->nr_series++] = res->directions[i / 2][i % 2].series;
	for (unsigned read = 0; read < 2; read++)
		if (job->limit)
			limit_set(res->series, res->nr_series, read, (double)job->limit,
				  "as given");
		else if (job->measure_limit)
			limit_set_measured(&run->limit[read], res->series, res->nr_series);
	res->limit_bytes += run->limit[0].moved;
}

static int ckpt_run_all(struct run *run, struct penstock_err *err)
{
	int r = limit_open(run, err);

	for (unsigned m = 0; m < CKPT_METHODS && r == 0; m++)
		if (run->job->methods[m])
			r = run_method(run, m, err);
	collect_series(run);
	return r;
}

int ckpt_run(const struct ckpt_job *job, struct ckpt_result *res, struct penstock_err *err)
{
	struct run run = {.job = job, .res = res, .limit = {{.read = false}, {.read = true}}};
	int r;

	memset(res, 0, sizeof(*res));
	res->path.size = sizeof(res->path);
	r = penstock_probe_path(job->folder, &res->path, err);
	if (r < 0)
		return r;
	run.files = calloc(job->processes, sizeof(*run.files));
	if (!run.files)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = bed_folder_make(&run.folder, job->folder, "ckpt", NULL, err);
	if (r == 0)
		r = ckpt_run_all(&run, err);
	bed_buffers_close(&run.limit_buffers);
	if (run.limit_file.path)
		bed_file_fini(&run.limit_file, false);
	bed_folder_close(&run.folder, false);
	for (unsigned i = 0; i < job->processes; i++)
		free(run.files[i]);
	free(run.files);
	return r;
}

void ckpt_result_fini(struct ckpt_result *res)
{
	for (unsigned i = 0; i < 2 * CKPT_METHODS; i++) {
		series_fini(&res->directions[i / 2][i % 2].series);
		free(res->directions[i / 2][i % 2].slowest);
	}
}
