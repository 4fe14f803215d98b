/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the command line of gdsio and reads the line it prints. */
#include "load/jobs/gdsio.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/jobs/bench.h"
#include "load/jobs/external_program.h"

#define GDSIO_USUAL "/usr/local/cuda/gds/tools/gdsio"

enum { XFER_GPUD = 0, XFER_CPU_GPU = 2 };

const char *gdsio_find(void)
{
	return external_program_exists("gdsio")       ? "gdsio"
	       : external_program_exists(GDSIO_USUAL) ? GDSIO_USUAL
						      : NULL;
}

/* Threads, each with one operation in flight in its part of the file. */
static unsigned gdsio_threads(const struct bench_job *job, uint64_t bytes, uint64_t size)
{
	return (unsigned)max_u64(1, min_u64(job->in_flight, bytes / size));
}

static void gdsio_args(struct fio_variant *w, const struct bench_job *job,
		       const struct run_series *s, uint64_t bytes)
{
	bool gds = !strcmp(s->stats.engine, "cufile");
	const struct {
		const char *letter;
		uint64_t value;
	} options[] = {
		{"-d", 0},
		{"-w", gdsio_threads(job, bytes, s->size)},
		{"-s", bytes},
		{"-i", s->size},
		{"-x", gds ? XFER_GPUD : XFER_CPU_GPU},
		{"-I", (s->read ? 0 : 1) + (job->random ? 2 : 0)},
		{"-T", 1}, /* of reads: seconds; writes end with the file */
	};
	unsigned nr = sizeof(options) / sizeof(*options) - !s->read;

	w->nr_args = 0;
	snprintf(w->args[w->nr_args++], sizeof(w->args[0]), "%s", gdsio_find());
	for (unsigned i = 0; i < nr; i++) {
		snprintf(w->args[w->nr_args++], sizeof(w->args[0]), "%s", options[i].letter);
		snprintf(w->args[w->nr_args++], sizeof(w->args[0]), "%llu",
			 (unsigned long long)options[i].value);
	}
}

/* "... Throughput: 6.5 GiB/sec, Avg_Latency: 1197.4 usecs ..." */
static bool gdsio_figures(struct fio_result *one, const char *text)
{
	const char *at = text ? strstr(text, "Throughput: ") : NULL;
	double gib, usec;

	if (!at || sscanf(at, "Throughput: %lf GiB/sec, Avg_Latency: %lf usecs", &gib, &usec) != 2)
		return false;
	one->bytes_per_sec = gib * (double)(1ull << 30);
	one->latency_mean = usec / 1e6;
	return gib > 0;
}

void gdsio_run_turn(struct fio_result *ret, const struct bench_job *job, const char *dir,
		    const struct run_series *s, const char *name, uint64_t ops, double ours)
{
	uint64_t file = job->random ? job->span / s->size * s->size : s->size;
	uint64_t bytes = s->read ? file : min_u64(file, ops * s->size);
	struct fio_variant *w = &ret->variant[0];
	struct fio_result one = {.bytes_per_sec = 0};
	char *argv[FIO_ARGS + 3], base[96], option[] = "-f";
	CLEANUP_FREE char *text = NULL;
	int status;

	bench_name(ret->series, sizeof(ret->series), job, s->size, s->read ? "read" : "write");
	snprintf(ret->differs, sizeof(ret->differs),
		 "gdsio has one file, %u thread(s), and opens it beforehand",
		 gdsio_threads(job, bytes, s->size));
	gdsio_args(w, job, s, bytes);
	for (unsigned i = 0; i < w->nr_args; i++)
		argv[i] = w->args[i];
	snprintf(base, sizeof(base), "%s", strrchr(name, '/') ? strrchr(name, '/') + 1 : name);
	argv[w->nr_args] = option;
	argv[w->nr_args + 1] = base;
	argv[w->nr_args + 2] = NULL;
	status = external_program_run(argv, dir, job->stop, &text);
	ret->bytes_written += s->read || status < 0 ? 0 : bytes;
	ret->why_not[0] = 0;
	if (asked_to_stop(job->stop))
		snprintf(ret->why_not, sizeof(ret->why_not), "interrupted");
	else if (status < 0)
		snprintf(ret->why_not, sizeof(ret->why_not), "gdsio cannot be started: %s",
			 penstock_strerror(status));
	else if (status > 0 || !gdsio_figures(&one, text))
		snprintf(ret->why_not, sizeof(ret->why_not), "gdsio failed with status %d", status);
	else
		fio_add_turn(w, &one, ours);
}
