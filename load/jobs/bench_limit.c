/* SPDX-License-Identifier: Apache-2.0 */
/* What the device gives, measured between the turns of a bench job. */
#include "base/util.h"
#include "load/jobs/bench_run.h"
#include "load/measure/handle.h"

bool bench_measures_limit(const struct bench_job *job)
{
	return job->measure_limit && !job->limit && !engine_is_null(job->opts.engine) &&
	       !job->share.on;
}

/* The buffers of the work, or as many that plain threads can use. */
static const struct bed_buffers *limit_buffers(struct bench *b, struct bed_buffers *own,
					       uint64_t size)
{
	const struct bench_job *job = b->job;
	struct bed_buffers_opts want = {.len = size, .nr = job->in_flight, .huge = job->opts.huge};

	if (b->buffers.map && (job->memory == BED_OWN || job->memory == BED_PLAIN))
		return &b->buffers;
	return bed_buffers_open(own, &want, NULL) < 0 ? NULL : own;
}

void bench_limit_turn(struct bench *b, const struct bench_size *z, bool read)
{
	const struct bench_job *job = b->job;
	struct limit_schedule schedule = {
		.done = b->round + 1, .all = b->repeats, .sec = LIMIT_SEC};
	struct limit *l = &b->limit[read];
	struct bed_buffers own = {.bufs = NULL};
	const struct bed_buffers *buffers;
	struct limit_target t = {.paths = z->files.paths,
				 .len = z->files.bytes,
				 .align = 4096,
				 .s3 = job->opts.s3,
				 .in_flight = job->in_flight,
				 .block = job->opts.block};
	uint64_t before = l->moved;

	if (z->size != b->limit_size || !(read ? job->read : job->write))
		return;
	while (t.nr_paths < z->files.nr && z->files.files[t.nr_paths].full)
		t.nr_paths++;
	buffers = limit_buffers(b, &own, z->size);
	if (!buffers || !t.nr_paths)
		return;
	t.buf = buffers->bufs[0];
	t.nr_bufs = buffers->want.nr;
	t.buf_len = buffers->want.len;
	t.step = buffers->step;
	if (job->progress)
		job->progress(job->progress_arg, BENCH_LIMIT, z->size, 0, 0);
	schedule.max_bytes = read ? 0 : b->limit_bytes;
	limit_run_due(l, &t, 1, &schedule, job->stop);
	b->res->bytes_written += read ? 0 : l->moved - before;
	if (buffers == &own)
		bed_buffers_close(&own);
}

void bench_set_limits(struct bench *b)
{
	const struct bench_job *job = b->job;
	const char *how = job->limit                         ? "as given"
			  : engine_is_null(job->opts.engine) ? NULL_LIMIT
							     : NULL;

	for (int read = 0; read < 2; read++) {
		if (how)
			limit_set(b->res->series, b->res->nr_series, read, (double)job->limit, how);
		else if (bench_measures_limit(job))
			limit_set_measured(&b->limit[read], b->res->series, b->res->nr_series);
	}
}
