/* SPDX-License-Identifier: Apache-2.0 */
/* The files and buffers of trials.h, and one configuration after the other on them. */
#include "load/jobs/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/folders.h"
#include "load/measure/cache.h"
#include "load/measure/limit.h"
#include "load/measure/ram.h"
#include "load/stream/stream.h"

#define CHUNK  (8u << 20)
#define WARMUP (1u << 20) /* an operation that does not count: threads are awake, pages there */

/* -------------------------------------------------------------------- check */

int trials_check(const struct trials_job *job, struct sluice_err *err)
{
	uint64_t have = ram_available(), need = 0;
	char need_text[SLUICE_SIZE_TEXT], have_text[SLUICE_SIZE_TEXT];
	int r = folders_check(job->folders, job->nr_folders, job->file_size, err);

	if (r < 0)
		return r;
	if (__builtin_mul_overflow(job->op_size, (uint64_t)job->nr_folders, &need) ||
	    (have && need > have / 10 * 9))
		return sluice_fail(
			err, -EINVAL, "not enough memory: %s needed for buffers, %s available",
			sluice_size_format(need_text, need), sluice_size_format(have_text, have));
	return 0;
}

/* --------------------------------------------------------------------- open */

static int fill(struct trials *trials, struct sluice_io *io, void *buf, unsigned i,
		struct sluice_err *err)
{
	const struct trials_job *job = &trials->job;
	struct sluice_file *file;
	int r = sluice_file_open(&file, io, trials->paths[i], O_RDWR | O_CREAT | O_EXCL, 0600, err);
	uint64_t n;

	for (uint64_t off = 0; r == 0 && off < job->file_size; off += n) {
		int64_t moved;

		n = min_u64(CHUNK, job->file_size - off);
		sluice_pattern_fill(buf, n, job->seed + i, off);
		moved = sluice_pwrite(file, buf, n, off, err);
		if (moved < 0)
			return (int)moved;
		trials->written += n;
		if (job->stop && atomic_load(job->stop))
			return sluice_fail(err, -ECANCELED, "interrupted");
		if (job->progress)
			job->progress(job->progress_arg, trials->written,
				      job->nr_folders * job->file_size);
	}
	return r < 0 ? r : sluice_file_close(file, err);
}

static int make_place(struct trials *trials, unsigned i, struct sluice_err *err)
{
	const char *folder = trials->job.folders[i];
	char *dir;

	if (asprintf(&dir, "%s/sluice-trials-XXXXXX", folder) < 0)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if (!mkdtemp(dir)) {
		int r = sluice_fail(err, -errno, "%s: cannot make a folder in it: %s", folder,
				    sluice_strerror(errno));

		free(dir);
		return r;
	}
	trials->dirs[i] = dir;
	if (asprintf(&trials->paths[i], "%s/data", dir) < 0) {
		trials->paths[i] = NULL;
		return sluice_fail(err, -ENOMEM, "out of memory");
	}
	trials->info[i].size = sizeof(trials->info[i]);
	sluice_probe_path(dir, &trials->info[i], NULL);
	trials->direct[i] = trials->info[i].direct;
	return 0;
}

int trials_fill(struct trials *trials, struct sluice_err *err)
{
	uint64_t start = clock_ns();
	struct sluice_io *io;
	void *buf;
	int r = sluice_open(&io, NULL, err);

	if (r < 0)
		return r;
	r = sluice_buf_alloc(&buf, io, CHUNK, 0, NULL, err);
	for (unsigned i = 0; i < trials->job.nr_folders && r == 0; i++)
		r = fill(trials, io, buf, i, err);
	sluice_close(io, NULL);
	trials->fill_sec = (double)(clock_ns() - start) / 1e9;
	return r;
}

int trials_open(struct trials *trials, const struct trials_job *job, struct sluice_err *err)
{
	int r = 0;

	*trials = (struct trials){.job = *job};
	trials->dirs = calloc(job->nr_folders, sizeof(*trials->dirs));
	trials->paths = calloc(job->nr_folders, sizeof(*trials->paths));
	trials->direct = calloc(job->nr_folders, sizeof(*trials->direct));
	trials->info = calloc(job->nr_folders, sizeof(*trials->info));
	if (!trials->dirs || !trials->paths || !trials->direct || !trials->info)
		return sluice_fail(err, -ENOMEM, "out of memory");
	sluice_random_seed(&trials->random, job->seed);
	for (unsigned i = 0; i < job->nr_folders && r == 0; i++)
		r = make_place(trials, i, err);
	return r;
}

void trials_close(struct trials *trials)
{
	for (unsigned i = 0; i < trials->job.nr_folders; i++) {
		if (trials->paths && trials->paths[i])
			unlink(trials->paths[i]);
		if (trials->dirs && trials->dirs[i])
			rmdir(trials->dirs[i]);
		free(trials->paths ? trials->paths[i] : NULL);
		free(trials->dirs ? trials->dirs[i] : NULL);
	}
	for (unsigned i = 0; i <= BED_GPU; i++)
		if (trials->buffers[i].nr)
			bed_buffers_close(&trials->buffers[i]);
	free(trials->paths);
	free(trials->dirs);
	free(trials->direct);
	free(trials->info);
	*trials = (struct trials){.turn = 0};
}

static int need_buffers(struct trials *trials, uint32_t memory, struct sluice_err *err)
{
	struct bed_buffers *p = &trials->buffers[memory];
	int r;

	if (p->nr)
		return 0;
	r = bed_buffers_open(p, memory, trials->job.op_size, trials->job.nr_folders,
			     trials->job.huge, trials->job.lock, err);
	if (r < 0) {
		p->nr = 0;
		return r;
	}
	/* Written back is what the file holds, or other parts of the same pattern. */
	for (unsigned i = 0; i < p->nr && r == 0; i++)
		r = bed_buf_fill(p, bed_buf(p, i), p->len, trials->job.seed + i, 0, err);
	return r;
}

/* -------------------------------------------------------------------- probe */

struct probe {
	struct trials *trials;
	bool read;
	unsigned ops;
	unsigned *done; /* per worker */
};

static int next(void *arg, unsigned worker, struct load_op *op, struct sluice_err *err)
{
	struct probe *p = arg;
	const struct trials_job *job = &p->trials->job;
	uint64_t places = job->file_size / job->op_size;

	(void)err;
	if (p->done[worker] > p->ops)
		return 0;
	*op = (struct load_op){
		.read = p->read,
		.warmup = p->done[worker] == 0,
		.file = worker,
		.len = job->op_size,
		.offset = sluice_random_below(&p->trials->random, places) * job->op_size,
	};
	if (op->warmup)
		op->len = min_u64(WARMUP, op->len);
	p->done[worker]++;
	return 1;
}

uint64_t trial_bytes(const struct trials_job *job, unsigned ops)
{
	return job->nr_folders * (job->op_size * ops + min_u64(WARMUP, job->op_size));
}

static void drop_caches(struct trials *trials)
{
	trials->resident = trials->unknown = 0;
	for (unsigned i = 0; i < trials->job.nr_folders; i++) {
		int64_t left = cache_drop(trials->paths[i], trials->job.file_size);

		if (left < 0)
			trials->unknown = left;
		else if (left > trials->resident)
			trials->resident = left;
	}
}

static void describe(struct trials *trials, struct run_series *s, const struct sluice_opts *opts)
{
	struct cache_facts f = {
		.read = s->read,
		.engine = s->stats.engine,
		.memory = cache_memory_behind(&trials->info[0]),
		.direct = s->stats.blocks_direct && !s->stats.blocks_buffered,
		.resident = trials->resident,
		.unknown = trials->unknown,
		.size = trials->job.file_size,
		.durable = opts->durability != SLUICE_DURABLE_NONE,
	};

	cache_describe(s->cache, &f);
}

/*
 * Add a probe to what is known of its configuration; its time comes behind what there
 * is.  A probe has few operations, so all of them are among its samples.
 */
static int add(struct run_series *sum, const struct run_series *one)
{
	uint64_t before = (uint64_t)(sum->sec * 1e9);
	int r = sum->hist ? 0 : series_init(sum);

	for (uint32_t i = 0; i < one->nr_samples && r == 0; i++) {
		const struct series_sample *s = &one->samples[i];

		r = series_add(sum, s->bytes, s->latency_ns, before + s->end_ns, s->key);
	}
	sum->warmup_bytes += one->warmup_bytes;
	sum->ways |= one->ways;
	sum->no_storage = one->no_storage;
	sum->sec += one->sec;
	sum->user_sec += one->user_sec;
	sum->system_sec += one->system_sec;
	sum->library_sec += one->library_sec;
	sum->run_bytes += one->run_bytes;
	sum->stats = one->stats;
	sum->file = one->file;
	sum->buf = one->buf;
	sum->partial |= one->partial;
	snprintf(sum->cache, sizeof(sum->cache), "%s", one->cache);
	return r;
}

int trial_run(struct trials *trials, const struct sluice_opts *opts, uint32_t memory, bool read,
	      unsigned ops, struct run_series *sum, struct trial_numbers *last,
	      struct sluice_err *err)
{
	CLEANUP_FREE unsigned *done = calloc(trials->job.nr_folders, sizeof(*done));
	struct probe p = {.trials = trials, .read = read, .ops = ops, .done = done};
	struct run_series one = {.read = read};
	struct stream_job stream = {
		.source = {.next = next, .arg = &p},
		.files = (const char *const *)trials->paths,
		.nr_files = trials->job.nr_folders,
		.workers = trials->job.nr_folders,
		.depth = 1,
		.opts = *opts,
		.buffers = &trials->buffers[memory],
		.nr_series = 1,
		.seed = trials->job.seed + trials->turn++,
		.stop = trials->job.stop,
	};
	struct stat_summary latency;
	bool exact;
	int r = done ? need_buffers(trials, memory, err)
		     : sluice_fail(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	if (read)
		drop_caches(trials);
	r = run_stream(&stream, &one, err);
	one.read = read;
	trials->written += series_wear(&one);
	describe(trials, &one, opts);
	if (r == 0 && last) {
		*last = (struct trial_numbers){.speed = series_speed(&one),
					       .cpu = series_cpu_per_gib(&one)};
		if (series_latency(&one, &latency, &exact) == 0)
			last->p99 = latency.percentile[STAT_P99];
	}
	if (r == 0 && add(sum, &one) < 0)
		r = sluice_fail(err, -ENOMEM, "out of memory");
	series_fini(&one);
	if (r == 0 && trials->job.stop && atomic_load(trials->job.stop))
		r = sluice_fail(err, -ECANCELED, "interrupted");
	return r;
}

/* -------------------------------------------------------------------- limit */

int trials_limit(struct trials *trials, struct limit *l, uint64_t most_written, double sec,
		 struct sluice_err *err)
{
	unsigned nr = trials->job.nr_folders;
	CLEANUP_FREE struct limit_target *targets = calloc(nr, sizeof(*targets));
	const struct bed_buffers *b = &trials->buffers[BED_OWN];
	uint64_t before = l->moved;
	int r = targets ? need_buffers(trials, BED_OWN, err)
			: sluice_fail(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	for (unsigned i = 0; i < nr; i++)
		targets[i] = (struct limit_target){
			.paths = (const char *const *)&trials->paths[i],
			.nr_paths = 1,
			.len = trials->job.file_size,
			.buf = bed_buf(b, i),
			.nr_bufs = 1,
			.buf_len = b->len,
			.align = 4096,
		};
	limit_try(l, targets, nr, l->read ? 0 : most_written, sec, trials->job.stop);
	trials->written += l->read ? 0 : l->moved - before;
	return 0;
}
