/* SPDX-License-Identifier: Apache-2.0 */
/* Builds fio's command line, runs it in the folder of the job, and reads the JSON it prints. */
#include "load/jobs/fio.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/jobs/bench.h"
#include "load/jobs/external_program.h"
#include "load/measure/series.h"
#include "load/stat/stat.h"

struct fio_args {
	char (*v)[96];
	unsigned nr;
};

static void add_arg(struct fio_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_arg(struct fio_args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->nr < FIO_ARGS)
		vsnprintf(a->v[a->nr++], sizeof(*a->v), fmt, ap);
	va_end(ap);
}

bool fio_exists(void)
{
	return external_program_exists("fio");
}

/* ------------------------------------------------------------------- running */

/* With one operation at a time the time is the sum of latencies, as it is for us. */
static void job_numbers(struct fio_result *r, const json_t *job, bool alone)
{
	static const char *const kinds[] = {"read", "write"};
	double bytes = 0, ms = 0, latency = 0, ios = 0;

	for (unsigned i = 0; i < 2; i++) {
		const json_t *k = json_object_get(job, kinds[i]);
		double n = json_number_value(json_object_get(k, "total_ios"));
		double one = json_number_value(json_object_get(k, "io_bytes"));
		double t = json_number_value(json_object_get(k, "runtime"));

		bytes += one;
		ms = t > ms ? t : ms;
		ios += n;
		latency += n *
			   json_number_value(json_object_get(json_object_get(k, "lat_ns"), "mean"));
		if (i == 1)
			r->bytes_written += (uint64_t)one;
	}
	if (bytes <= 0)
		return;
	/* The run time is in whole milliseconds. */
	r->bytes_per_sec = alone && latency > 0 ? bytes / (latency / 1e9)
			   : ms > 0             ? bytes / (ms / 1e3)
						: bytes / 1e-3;
	r->latency_mean = ios > 0 ? latency / ios / 1e9 : 0;
}

static void run_once(struct fio_result *r, const char *dir, const struct fio_args *a, char *files,
		     bool alone, const atomic_int *stop)
{
	CLEANUP_FREE char *text = NULL;
	char *argv[FIO_ARGS + 2];
	const char *begin;
	json_t *root;
	int status;

	for (unsigned i = 0; i < a->nr; i++)
		argv[i] = a->v[i];
	argv[a->nr] = files;
	argv[a->nr + 1] = NULL;
	status = files ? external_program_run(argv, dir, stop, &text) : -ENOMEM;
	if (status < 0) {
		snprintf(r->why_not, sizeof(r->why_not), "fio cannot be started: %s",
			 penstock_strerror(status));
		return;
	}
	begin = text ? strchr(text, '{') : NULL;
	root = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	job_numbers(r, json_array_get(json_object_get(root, "jobs"), 0), alone);
	json_decref(root);
	if (asked_to_stop(stop)) {
		r->bytes_per_sec = 0; /* not of the whole work; what it wrote it wrote */
		snprintf(r->why_not, sizeof(r->why_not), "interrupted");
	} else if (r->bytes_per_sec <= 0) {
		snprintf(r->why_not, sizeof(r->why_not), "fio failed with status %d", status);
	}
}

/* ------------------------------------------------------------------ the work */

static const char *rw_word(const struct bench_job *job, bool read)
{
	if (job->rwmix)
		return job->random ? "randrw" : "rw";
	if (job->random)
		return read ? "randread" : "randwrite";
	return read ? "read" : "write";
}

static void build_args(struct fio_args *a, const struct bench_job *job, const struct run_series *s,
		       uint64_t bytes, uint64_t block, unsigned depth, bool huge)
{
	bool direct = s->stats.blocks_direct && !s->stats.blocks_buffered;

	add_arg(a, "fio");
	add_arg(a, "--name=penstock");
	add_arg(a, "--output-format=json");
	add_arg(a, "--rw=%s", rw_word(job, s->read));
	if (job->rwmix)
		add_arg(a, "--rwmixread=%u", job->rwmix);
	add_arg(a, "--ioengine=%s", !strcmp(s->stats.engine, "io_uring") ? "io_uring" : "libaio");
	add_arg(a, "--direct=%d", direct);
	add_arg(a, "--bs=%llu", (unsigned long long)block);
	add_arg(a, "--iodepth=%u", depth);
	add_arg(a, "--file_service_type=sequential");
	add_arg(a, "--filesize=%llu",
		(unsigned long long)(job->random ? job->span / s->size * s->size : s->size));
	add_arg(a, "--allow_file_create=0"); /* they are there, and ours to remove */
	add_arg(a, "--thread");
	add_arg(a, "--randrepeat=1");
	if (huge)
		add_arg(a, "--iomem=mmaphuge");
	if (job->rate)
		add_arg(a, "--rate=%llu", (unsigned long long)job->rate);
	if (job->opts.durability && !s->read)
		add_arg(a, "--fdatasync=1");
	add_arg(a, "--io_size=%llu", (unsigned long long)max_u64(bytes / block * block, block));
}

/* Are there as many bytes of reserved huge pages?  It knows no others. */
static bool huge_pages_for(uint64_t bytes)
{
	unsigned long long nr = 0, kib = 2048;
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "HugePages_Free: %llu", &nr);
		sscanf(line, "Hugepagesize: %llu", &kib);
	}
	if (f)
		fclose(f);
	return nr * kib * 1024 >= bytes + 2 * kib * 1024;
}

/* "--filename=a:b:c", to be freed. */
static char *filename_arg(const char *const *names, unsigned nr)
{
	size_t len = sizeof("--filename=");
	char *text, *end;

	for (unsigned i = 0; i < nr; i++)
		len += strlen(names[i]) + 1;
	text = malloc(len);
	if (!text)
		return NULL;
	end = stpcpy(text, "--filename=");
	for (unsigned i = 0; i < nr; i++) {
		end = stpcpy(end, strrchr(names[i], '/') ? strrchr(names[i], '/') + 1 : names[i]);
		*end++ = i + 1 < nr ? ':' : 0;
	}
	return text;
}

void fio_add_turn(struct fio_variant *w, const struct fio_result *one, double ours)
{
	if (one->bytes_per_sec <= 0 || ours <= 0 || w->n == SERIES_REPEATS)
		return;
	w->ours += ours;
	w->theirs += one->bytes_per_sec;
	w->latency_mean += one->latency_mean;
	w->log_ratio[w->n++] = log(ours / one->bytes_per_sec);
}

static void add_word(char *buf, size_t size, const char *text)
{
	size_t len = strlen(buf);

	snprintf(buf + len, size - len, "%s%s", len ? "; " : "", text);
}

static void report_differences(struct fio_result *ret, const struct bench_job *job,
			       const struct run_series *s, bool huge)
{
	*ret->differs = 0;
	if (!job->open_once)
		add_word(ret->differs, sizeof(ret->differs),
			 "fio opens files beforehand, ours in its time");
	if (!s->read && !job->overwrite)
		add_word(ret->differs, sizeof(ret->differs), "fio writes over existing data");
	if (job->memory == BED_GPU)
		add_word(ret->differs, sizeof(ret->differs), "fio moves host memory");
	if ((s->buf.got & PENSTOCK_BUF_HUGE) && !huge)
		add_word(ret->differs, sizeof(ret->differs),
			 "fio has small pages: no huge ones are reserved");
}

void fio_run_turn(struct fio_result *ret, const struct bench_job *job, const char *dir,
		  const struct run_series *s, const char *const *names, unsigned nr_names,
		  uint64_t ops, double ours)
{
	uint64_t block = min_u64(s->file.block ? s->file.block : s->size, s->size);
	bool split = s->size % block == 0 && block < s->size && ret->turns % 2;
	uint64_t pieces = split ? s->size / block : 1;
	unsigned depth = (unsigned)min_u64(pieces * job->in_flight,
					   split ? (uint64_t)s->stats.depth * s->stats.threads
						 : job->in_flight);
	bool huge = (s->buf.got & PENSTOCK_BUF_HUGE) &&
		    huge_pages_for((split ? block : s->size) * depth);
	struct fio_variant *w = &ret->variant[split];
	struct fio_result one = {.bytes_per_sec = 0};
	struct fio_args a = {w->args, 0};
	CLEANUP_FREE char *files = filename_arg(names, nr_names);

	bench_name(ret->series, sizeof(ret->series), job, s->size,
		   job->rwmix ? "read and write"
		   : s->read  ? "read"
			      : "write");
	ret->turns++;
	build_args(&a, job, s, ops * s->size, split ? block : s->size, depth ? depth : 1, huge);
	w->nr_args = a.nr;
	report_differences(ret, job, s, huge);
	run_once(&one, dir, &a, files, depth == 1 && !job->rate, job->stop);
	ret->bytes_written += one.bytes_written;
	memcpy(ret->why_not, one.why_not, sizeof(ret->why_not));
	fio_add_turn(w, &one, ours);
}

static double variant_ratio(const struct fio_variant *w)
{
	double sum = 0;

	for (unsigned i = 0; i < w->n; i++)
		sum += w->log_ratio[i];
	return w->n ? exp(sum / w->n) : INFINITY;
}

void fio_choose_variant(struct fio_result *ret)
{
	const struct fio_variant *w =
		&ret->variant[variant_ratio(&ret->variant[1]) < variant_ratio(&ret->variant[0])];
	double half = stat_drift_half(w->log_ratio, w->n);

	ret->ratio = ret->low = ret->high = NAN;
	if (!w->n)
		return;
	ret->why_not[0] = 0;
	ret->ratio = variant_ratio(w);
	ret->low = ret->ratio * exp(-half);
	ret->high = ret->ratio * exp(half);
	ret->ours = w->ours / w->n;
	ret->bytes_per_sec = w->theirs / w->n;
	ret->latency_mean = w->latency_mean / w->n;
	memcpy(ret->args, w->args, sizeof(ret->args));
	ret->nr_args = w->nr_args;
}
