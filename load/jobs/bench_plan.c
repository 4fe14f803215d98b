/* SPDX-License-Identifier: Apache-2.0 */
/* What a bench job will do and need, before it does anything. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/bed/buffers.h"
#include "load/jobs/bench.h"
#include "load/jobs/gdsio.h"
#include "load/measure/handle.h"
#include "load/measure/limit.h"

#define MAX_ON_DISK (2ull << 30) /* tensors of one size, unless the job says how many */
/* The same of a job that ends by time, per second: making files must not take longer than it. */
#define MIN_ON_DISK     (512ull << 20)
#define ON_DISK_PER_SEC (128ull << 20)
#define FILES_PER_SEC   256
#define MIN_FILES       1024
#define DEFAULT_SPAN    (1ull << 30)  /* of the file for random access */
#define RESERVE         (16ull << 20) /* directories, metadata */
#define MIN_OPS         5             /* of a repeat */

static uint64_t round_to_u64(double v)
{
	return v < 9e18 ? (uint64_t)v : UINT64_MAX / 2;
}

/* As many as a job by time makes; others have one per iteration. */
static uint64_t files_by_time(const struct bench_job *job, uint64_t size)
{
	uint64_t sec = job->runtime_ns / 1000000000;
	uint64_t bytes = min_u64(max_u64(sec * ON_DISK_PER_SEC, MIN_ON_DISK), MAX_ON_DISK);

	return min_u64(bytes / size, max_u64(sec * FILES_PER_SEC, MIN_FILES));
}

unsigned bench_nr_files(const struct bench_job *job, uint64_t size)
{
	uint64_t nr = job->files;

	if (job->random)
		return 1;
	if (!nr)
		nr = max_u64(job->runtime_ns ? files_by_time(job, size)
					     : min_u64(MAX_ON_DISK / size, job->iterations),
			     job->in_flight);
	return (unsigned)max_u64(min_u64(nr, 100000), 1);
}

uint64_t bench_turn_ns(const struct bench_job *job, uint64_t size, uint64_t n)
{
	return round_to_u64(ceil((double)n * (double)size / (double)job->rate * 1e9));
}

unsigned bench_repeats(const struct bench_job *job)
{
	uint64_t max_ns = job->runtime_ns ? job->runtime_ns : job->max_ns;
	uint64_t nr = SERIES_REPEATS, slowest = 0;

	if (!job->runtime_ns)
		nr = min_u64(nr, job->iterations / max_u64(MIN_OPS, job->in_flight));
	for (unsigned i = 0; i < job->nr_sizes && job->rate; i++)
		slowest = max_u64(slowest, bench_turn_ns(job, job->sizes[i], 1));
	if (slowest && max_ns)
		nr = min_u64(nr, max_ns / (MIN_OPS * slowest));
	return nr < STAT_CI_MIN ? 1 : (unsigned)nr;
}

/* Operations of a series that do not count. */
static uint64_t warmups(const struct bench_job *job)
{
	return job->warmup ? job->warmup + bench_repeats(job) - 1 : 0;
}

static uint64_t bytes_on_disk(const struct bench_job *job, uint64_t size)
{
	return job->random ? job->span / size * size : bench_nr_files(job, size) * size;
}

static uint64_t largest(const struct bench_job *job)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < job->nr_sizes; i++)
		most = max_u64(most, job->sizes[i]);
	return most;
}

/* --------------------------------------------------------------------- plan */

/* Without a measurement: what devices of the kind do, cautiously. */
static void assume_speed(const struct bench_job *job, struct bench_plan *p)
{
	struct penstock_path_info info = {.size = sizeof(info)};
	bool known = penstock_probe_path(job->folder, &info, NULL) == 0 && info.has_device;

	if (job->limit) {
		p->speed = (double)job->limit;
		snprintf(p->speed_how, sizeof(p->speed_how), "as --limit says");
	} else if (known && info.device.rotational && *info.device.model) {
		/* virtual disks say so too, and have no model */
		p->speed = 150e6;
		snprintf(p->speed_how, sizeof(p->speed_how), "assumed for a rotating disk");
	} else {
		p->speed = 1e9;
		snprintf(p->speed_how, sizeof(p->speed_how), "assumed; --limit knows better");
	}
	if (job->rate && (double)job->rate < p->speed) {
		p->speed = (double)job->rate;
		snprintf(p->speed_how, sizeof(p->speed_how), "as --rate says");
	}
}

/* Bytes that one series moves at most, and about how long that takes. */
static double series_bytes(const struct bench_job *job, const struct bench_plan *p, uint64_t size,
			   double *sec)
{
	double bytes = (double)(job->iterations + warmups(job)) * (double)size;
	double max = (double)(job->runtime_ns ? job->runtime_ns : job->max_ns) / 1e9;

	if (job->runtime_ns) /* what is in flight at the end is moved, too */
		bytes = max * p->speed +
			(double)(warmups(job) + bench_repeats(job) * job->in_flight) * (double)size;
	*sec = bytes / p->speed;
	if (max > 0)
		*sec = fmin(*sec, max);
	return bytes;
}

/* Of @bytes in operations of @size, those of a kind that @share of them is of, at most. */
static double share_of(double bytes, uint64_t size, double share)
{
	double ops = bytes / (double)size;

	/* A mix is drawn: three standard deviations more is as good as never. */
	if (share > 0 && share < 1)
		ops = fmin(ops, ops * share + 3 * sqrt(ops * share * (1 - share)) + 1);
	else
		ops *= share;
	return ops * (double)size;
}

/* fio does the operations that count once more, on the same files. */
static void plan_fio(struct bench_plan *p, double writes, double reads)
{
	p->write_bytes += round_to_u64(writes);
	p->read_bytes += round_to_u64(reads);
	p->seconds += (writes + reads) / p->speed;
}

static void plan_size(const struct bench_job *job, struct bench_plan *p, uint64_t size)
{
	bool first_fills = job->overwrite || !job->write;
	double sec, bytes = series_bytes(job, p, size, &sec),
		    on_disk = (double)bytes_on_disk(job, size);
	double share = job->rwmix ? job->rwmix / 100.0 : 1;
	double reads = job->read ? share_of(bytes, size, share) : 0;
	double writes = job->write ? share_of(bytes, size, job->rwmix ? 1 - share : 1) : 0;

	if (engine_is_null(job->opts.engine))
		reads = writes = 0;
	p->nr_series += job->rwmix ? 2 : (unsigned)job->read + job->write;
	p->space += bytes_on_disk(job, size);
	p->read_bytes += round_to_u64(reads);
	p->write_bytes += round_to_u64(writes + (first_fills ? on_disk : 0));
	p->seconds += sec * (job->rwmix ? 1 : (double)job->read + job->write) +
		      (first_fills ? on_disk / p->speed : 0);
	if (job->verify && writes > 0) {
		p->read_bytes += round_to_u64(on_disk);
		p->seconds += on_disk / p->speed;
	}
	if (job->compare_fio)
		plan_fio(p, writes, reads);
	if (bench_with_gdsio(job)) /* no more than that */
		plan_fio(p, writes, reads);
}

bool bench_with_gdsio(const struct bench_job *job)
{
	return job->compare_fio && job->memory == BED_GPU && !job->rwmix && gdsio_find();
}

/* On the files of the largest size, in each direction that the job has. */
static void plan_limit(const struct bench_job *job, struct bench_plan *p)
{
	p->limit_size = largest(job);
	p->limit_bytes = job->write ? limit_max_write(p->write_bytes) : 0;
	p->write_bytes += p->limit_bytes;
	if (job->read)
		p->read_bytes += round_to_u64(LIMIT_SEC * p->speed);
	p->seconds += LIMIT_SEC * ((double)job->read + job->write);
}

void bench_plan(const struct bench_job *job, struct bench_plan *p)
{
	bool moves = !engine_is_null(job->opts.engine);

	*p = (struct bench_plan){.open_ended =
					 job->runtime_ns && job->write && !job->rate && moves};
	assume_speed(job, p);
	for (unsigned i = 0; i < job->nr_sizes; i++)
		plan_size(job, p, job->sizes[i]);
	p->memory = largest(job) * job->in_flight;
	if (job->measure_limit && !job->limit && moves && !job->share.on)
		plan_limit(job, p);
}

/* -------------------------------------------------------------------- check */

/* At its rate a series must come to an operation before its time is over. */
static int check_rate(const struct bench_job *job, uint64_t size, struct penstock_err *err)
{
	uint64_t max_ns = job->runtime_ns ? job->runtime_ns : job->max_ns;
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];

	if (!job->rate || !max_ns || bench_turn_ns(job, size, 1) < max_ns)
		return 0;
	return penstock_fail(
		err, -EINVAL,
		"rate: at %s per second a tensor of %s takes %.1f s, but a series %.1f s%s",
		penstock_size_exact(a, job->rate), penstock_size_exact(b, size),
		(double)bench_turn_ns(job, size, 1) / 1e9, (double)max_ns / 1e9,
		job->runtime_ns ? "" : "; give --iterations or --runtime");
}

static int check_settings(const struct bench_job *job, struct penstock_err *err)
{
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];

	if (!job->nr_sizes || (!job->iterations && !job->runtime_ns) || !job->in_flight ||
	    (!job->write && !job->read))
		return penstock_fail(err, -EINVAL,
				     "a job needs a size, an iteration and a direction");
	for (unsigned i = 0; i < job->nr_sizes; i++) {
		for (unsigned k = 0; k < i; k++)
			if (job->sizes[i] == job->sizes[k])
				return penstock_fail(err, -EINVAL, "size: %s is there twice",
						     penstock_size_exact(a, job->sizes[i]));
		if (check_rate(job, job->sizes[i], err) < 0)
			return -EINVAL;
		if (job->random && job->span && job->sizes[i] > job->span)
			return penstock_fail(err, -EINVAL, "span: %s is less than a tensor of %s",
					     penstock_size_exact(a, job->span),
					     penstock_size_exact(b, job->sizes[i]));
		if (!job->random && job->verify &&
		    bench_nr_files(job, job->sizes[i]) < job->in_flight)
			return penstock_fail(
				err, -EINVAL,
				"files: %u are too few to verify %u operations at a time",
				job->files, job->in_flight);
	}
	return 0;
}

static int check_free_space(const struct bench_job *job, struct penstock_err *err)
{
	struct bench_plan plan;
	int r;

	bench_plan(job, &plan);
	if (job->share.on)
		plan.space *= job->share.size;
	r = bed_check_space(&(struct bed_need){job->folder, plan.space + RESERVE}, 1, err);
	if (r == 0 && job->memory != BED_GPU)
		r = bed_check_memory(largest(job), job->in_flight, err);
	return r;
}

/* What the job leaves open, as much of it as there is free_bytes for. */
static void choose_defaults(struct bench_job *job)
{
	int64_t have = bed_free_bytes(job->folder);
	uint64_t free_bytes = have < 0 ? UINT64_MAX : (uint64_t)have; /* where it does not say */
	uint64_t most = largest(job), sum = 0, on_disk = 0;

	/* A file that is read meanwhile, or of which a part is written, has to be there. */
	job->overwrite |= job->random || job->rwmix || job->share.on;
	job->open_once |= job->random;
	if (job->random && !job->span) {
		job->span = max_u64(DEFAULT_SPAN, 16 * most);
		if (free_bytes / 2 / job->nr_sizes < job->span)
			job->span =
				max_u64(align_down(free_bytes / 2 / job->nr_sizes, 1u << 20), most);
	}
	for (unsigned i = 0; i < job->nr_sizes; i++) {
		sum += job->sizes[i];
		on_disk += bytes_on_disk(job, job->sizes[i]);
	}
	if (!job->random && !job->files && free_bytes != UINT64_MAX && on_disk > free_bytes / 2)
		job->files =
			(uint32_t)max_u64(min_u64(free_bytes / 2 / sum, 100000), job->in_flight);
}

int bench_check(struct bench_job *job, struct penstock_err *err)
{
	struct penstock_io *io;
	int r = bed_check_folder(job->folder, true, err);

	if (r == 0)
		r = check_settings(job, err);
	if (r < 0)
		return r;
	if (job->memory == BED_GPU) {
		r = bed_gpu_check(0, err);
		if (r < 0)
			return r;
	}
	choose_defaults(job);
	r = check_free_space(job, err);
	if (r < 0)
		return r;
	r = penstock_open(&io, &job->opts, err); /* the library knows its own ranges */
	return r < 0 ? r : penstock_close(io, err);
}
