/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A KV-cache workload as a trace: the load on its virtual clock, the cache's decisions, and a row
 * per operation.  Nothing waits for anything, unless the job asks for the real clock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/err.h"
#include "base/util.h"
#include "load/kv/kv_result.h"
#include "load/kv/kv_simulator.h"
#include "load/measure/handle.h"
#include "load/model/kv_queue.h"
#include "load/trace/trace.h"

#define SECOND_NS      1000000000ull
#define TICK_NS        ((uint64_t)(KV_SCALE_SEC * 1e9))
#define PROGRESS_NS    100000000ull /* of wall time */
#define PROGRESS_EVERY 64           /* requests between looks at the clock */

/* A request that is being generated. */
struct pending {
	struct kv_request_done done;
	uint32_t next_free;
};

struct tracer {
	const struct kv_job *job;
	struct kv_params params; /* the job's, with the epoch of the clock */
	struct kv_result *r;
	struct kv_simulator model;
	struct trace_writer *writer;
	struct penstock_err *err;

	bool counting;            /* the run has begun */
	struct kv_second *second; /* of the request */
	uint64_t left;            /* seconds that have ended */
	uint64_t ops[KV_TIERS][2], evict_ops[KV_TIERS][2];
	uint64_t steps[KV_STEPS];

	struct penstock_heap ends; /* of generation; who: number of a struct pending */
	struct pending *pending;
	uint32_t free;
	uint64_t last_end_ns;

	struct kv_scale scale;
	uint64_t tick_ns; /* of the autoscaler's last sample */
	uint64_t tick_tokens;

	uint64_t begin_ns; /* on the real clock */
	uint64_t reported_ns;
};

/* -------------------------------------------------------------------------- rows */

static int put_row(struct tracer *t, const struct kv_event *ev)
{
	int r = kv_simulator_row(&t->model, ev, kv_load_row(t->model.load), t->err);

	if (r < 0)
		return r;
	t->r->rows += ev->type != KV_EV_DELETE || t->job->trace_extended;
	return trace_write(t->writer, &t->model.row, t->err);
}

static void count_io(struct tracer *t, const struct kv_event *ev)
{
	struct kv_second *s = t->second;
	int write = ev->type == KV_EV_WRITE;

	(write ? s->write_bytes : s->read_bytes)[ev->tier] += ev->size;
	if (ev->tier == KV_NVME)
		(*(write ? &s->write_ops : &s->read_ops))++;
	s->hits += !write && ev->phase != KV_EVICT;
	(ev->phase == KV_EVICT ? t->evict_ops : t->ops)[ev->tier][write]++;
}

static int tracer_emit(void *arg, const struct kv_event *ev)
{
	struct tracer *t = arg;

	if (t->counting) {
		kv_count(&t->r->counts, ev, &t->model.opts);
		if (ev->type == KV_EV_READ || ev->type == KV_EV_WRITE)
			count_io(t, ev);
		t->second->misses += ev->type == KV_EV_MISS;
	}
	return ev->type == KV_EV_MISS ? 0 : put_row(t, ev);
}

/* ---------------------------------------------------------------- stop and progress */

static bool tracer_stopped(const struct tracer *t)
{
	return asked_to_stop(t->job->stop);
}

static void tracer_report_progress(struct tracer *t)
{
	const struct kv_counts *n = &t->r->counts;
	uint64_t now;

	if (!t->job->progress)
		return;
	now = clock_ns();
	if (now - t->reported_ns < PROGRESS_NS)
		return;
	t->reported_ns = now;
	t->job->progress(t->job->progress_arg, (double)kv_load_clock(t->model.load) / 1e9,
			 t->r->requests, n->total_read_bytes + n->total_write_bytes);
}

/* The real clock: not before its time. */
static void wait_until(struct tracer *t, uint64_t at_ns)
{
	uint64_t now = clock_ns(), until = t->begin_ns + at_ns;

	for (; now < until && !tracer_stopped(t); now = clock_ns()) {
		uint64_t ns = min_u64(until - now, PROGRESS_NS);
		struct timespec ts = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};

		tracer_report_progress(t);
		nanosleep(&ts, NULL);
	}
}

/* ------------------------------------------------------------------------ requests */

/* Count what ends up to @until_ns. */
static int complete(struct tracer *t, uint64_t until_ns)
{
	while (t->ends.nr && t->ends.v[0].key <= until_ns) {
		uint32_t i = (uint32_t)penstock_heap_pop(&t->ends).value;

		if (kv_result_request(t->r, &t->params, &t->pending[i].done) < 0)
			return penstock_fail(t->err, -ENOMEM, "out of memory");
		t->pending[i].next_free = t->free;
		t->free = i;
	}
	return 0;
}

static void begin_generation(struct tracer *t, const struct kv_request *r,
			     const struct kv_planned *d)
{
	struct pending *p = &t->pending[t->free];
	uint64_t end = kv_load_clock(t->model.load) + d->generation_ns;

	penstock_heap_push(&t->ends, end, t->free);
	t->free = p->next_free;
	t->last_end_ns = max_u64(t->last_end_ns, end);
	p->done = (struct kv_request_done){
		.end_ns = end,
		.tokens = d->tokens,
		.qos = r->qos,
		.end_to_end = (double)(end - r->arrival_ns) / 1e9,
		.generation = (double)d->generation_ns / 1e9,
	};
}

/* Of the seconds that have ended by now: what waits. */
static void leave_seconds(struct tracer *t, uint64_t now_ns)
{
	for (; (t->left + 1) * SECOND_NS <= now_ns && t->left < t->r->seconds.nr; t->left++) {
		struct kv_second *s = per_second_at(&t->r->seconds, t->left * SECOND_NS);

		s->queued = kv_load_queued_at(t->model.load, now_ns);
		s->in_flight = t->ends.nr;
	}
}

static int enter_second(struct tracer *t, uint64_t at_ns)
{
	t->second = per_second_at(&t->r->seconds, at_ns);
	if (!t->second)
		return penstock_fail(t->err, -ENOMEM, "out of memory");
	leave_seconds(t, at_ns);
	return 0;
}

static void count_step(void *arg, enum kv_step s)
{
	((struct tracer *)arg)->steps[s]++;
}

static int do_request(struct tracer *t, const struct kv_request *q)
{
	bool document = q->type == KV_REQ_INGEST;
	struct kv_planned planned;
	int r = complete(t, q->start_ns);

	if (r == 0)
		r = enter_second(t, q->start_ns);
	if (r < 0)
		return r;
	kv_simulator_request(&t->model, q);
	t->model.row.qos = document ? -1 : (int8_t)q->qos;
	r = kv_plan(t->model.load, t->model.cache, q, document ? NULL : count_step, t, &planned);
	if (r < 0 || document)
		return r;
	kv_result_planned(t->r, &t->params, &planned);
	begin_generation(t, q, &planned);
	return 0;
}

/* --------------------------------------------------------------------- autoscaling */

/* The autoscaler's sample.  1: it says that the run is over. */
static int scale(struct tracer *t)
{
	uint64_t now = t->tick_ns + TICK_NS;
	struct kv_scale_sample sample = {.queued = kv_load_queued(t->model.load)};
	enum kv_scale_action action;
	int r = complete(t, now);

	if (r < 0)
		return r;
	sample.tokens_per_sec = t->params.policy.averages_since_start
					? (double)t->r->tokens / ((double)now / 1e9)
					: (double)(t->r->tokens - t->tick_tokens) / KV_SCALE_SEC;
	t->tick_ns = now;
	t->tick_tokens = t->r->tokens;
	action = kv_scale_feed(&t->scale, &sample);
	if (kv_result_scaled(t->r, &t->scale, action, (double)now / 1e9, &sample) < 0)
		return penstock_fail(t->err, -ENOMEM, "out of memory");
	if (action == KV_SCALE_STOP)
		return 1;
	if (!t->params.policy.scales_number_only &&
	    (action == KV_SCALE_UP || action == KV_SCALE_DOWN))
		kv_load_set_users(t->model.load, t->scale.users, now);
	return 0;
}

/* ------------------------------------------------------------------------- the run */

/* Everything was asked for: the interval ends with the time, or with the last request. */
static uint64_t natural_end(const struct tracer *t)
{
	uint64_t limit = kv_load_limit(t->model.load);

	return kv_load_exhausted(t->model.load) ? min_u64(limit, t->last_end_ns) : limit;
}

/* 0: go on, 1: the autoscaler has seen enough, or -errno. */
static int do_next(struct tracer *t, int what, const struct kv_request *q)
{
	if (t->job->clock == KV_CLOCK_REAL)
		wait_until(t, what == KV_LOAD_PAUSE ? t->tick_ns + TICK_NS : q->start_ns);
	if (tracer_stopped(t))
		return 0;
	return what == KV_LOAD_PAUSE ? scale(t) : do_request(t, q);
}

/* Until the load ends.  *@end_ns is the end of the interval. */
static int tracer_run(struct tracer *t, uint64_t *end_ns)
{
	struct kv_request q;
	int r = 0, what;

	for (uint64_t n = 0; r == 0 && !tracer_stopped(t); n++) {
		if (t->params.autoscale)
			kv_load_pause_at(t->model.load, t->tick_ns + TICK_NS);
		what = kv_load_next(t->model.load, &q);
		if (what == 0) {
			*end_ns = natural_end(t);
			return kv_load_error(t->model.load, t->err);
		}
		r = do_next(t, what, &q);
		if (n % PROGRESS_EVERY == 0)
			tracer_report_progress(t);
	}
	*end_ns = kv_load_clock(t->model.load);
	if (tracer_stopped(t))
		kv_result_partial(t->r, "stopped");
	return r < 0 ? r : 0;
}

/* --------------------------------------------------------------------------- result */

/* Operations took no time; as upstream, their zeros are samples. */
static int add_zeros(struct tracer *t)
{
	struct kv_result *r = t->r;
	int e = samples_add_n(&r->prefill, 0, t->steps[KV_STEP_PREFILL]);

	if (e == 0)
		e = samples_add_n(&r->decode, 0, t->steps[KV_STEP_DECODE]);
	for (int i = 0; i < KV_TIERS; i++) {
		for (int j = 0; j < 2; j++) {
			uint64_t evicted = t->evict_ops[i][j];
			uint64_t n =
				t->ops[i][j] + (t->params.policy.hides_evictions ? 0 : evicted);

			if (e == 0)
				e = samples_add_n(&r->tier[i][j], 0, n);
			if (e == 0)
				e = samples_add_n(&r->evict[i][j], 0, evicted);
			if (e == 0 && i == KV_NVME)
				e = samples_add_n(&r->device[j], 0, n);
			if (e == 0 && i == KV_NVME)
				e = samples_add_n(&r->host[j], 0, n);
		}
	}
	return e < 0 ? penstock_fail(t->err, e, "out of memory") : 0;
}

static void fill_series(struct tracer *t)
{
	static const char *const names[] = {"storage read", "storage write"};

	for (int j = 0; j < 2; j++) {
		struct run_series *s = &t->r->series[j];

		snprintf(s->name, sizeof(s->name), "%s", names[j]);
		s->read = j == 0;
		s->ops = t->ops[KV_NVME][j] + t->evict_ops[KV_NVME][j];
		s->bytes = j ? t->r->counts.tier_written[KV_NVME] : t->r->counts.tier_read[KV_NVME];
		s->sec = t->r->elapsed_sec;
		s->partial = t->r->partial;
		memcpy(s->partial_why, t->r->partial_why, sizeof(s->partial_why));
	}
}

static int tracer_finish(struct tracer *t, uint64_t end_ns)
{
	struct kv_result *r = t->r;
	/* upstream waits for what is being generated, and counts it */
	int e = complete(t, t->params.policy.counts_late ? UINT64_MAX : end_ns);

	leave_seconds(t, end_ns);
	r->elapsed_sec = (double)end_ns / 1e9;
	r->has_gpu = t->model.opts.has_gpu;
	snprintf(r->gpu_how, sizeof(r->gpu_how), "bookkeeping: a trace moves nothing");
	r->memory_bytes = kv_cache_memory(t->model.cache) + kv_load_memory(t->model.load);
	if (!t->params.autoscale || !r->nr_scale)
		r->users_end = r->users_peak = r->users_start;
	kv_result_tiers(r, t->model.cache);
	fill_series(t);
	return e < 0 ? e : add_zeros(t);
}

/* -------------------------------------------------------------------- begin and end */

static int prepare_pending(struct tracer *t)
{
	uint32_t nr = kv_load_workers(UINT32_MAX) + 1;

	t->pending = calloc(nr, sizeof(*t->pending));
	if (!t->pending || penstock_heap_reserve(&t->ends, nr) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++)
		t->pending[i].next_free = i + 1;
	return 0;
}

static uint64_t epoch_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* Everything that can be wrong is found before the file is made. */
static int tracer_prepare(struct tracer *t)
{
	struct trace_writer_opts o = {
		.extended = t->job->trace_extended,
		.reproducible = t->job->clock == KV_CLOCK_VIRTUAL,
	};
	int r;

	if (t->job->clock == KV_CLOCK_REAL)
		t->params.epoch_ns = epoch_now();
	t->r->users_start = kv_params_own_users(&t->params);
	if (prepare_pending(t) < 0 || kv_scale_init(&t->scale, &t->params) < 0)
		return penstock_fail(t->err, -ENOMEM, "out of memory");
	r = kv_simulator_open(&t->model, &t->params, tracer_emit, t, t->err);
	if (r < 0)
		return r;
	kv_result_input(t->r, t->model.load);
	return trace_writer_open(&t->writer, t->job->trace_path, &o, t->err);
}

static void clean_up(struct tracer *t)
{
	kv_simulator_close(&t->model);
	kv_scale_fini(&t->scale);
	penstock_heap_fini(&t->ends);
	free(t->pending);
}

/* The trace from its first row to the end of the file. */
static int trace(struct tracer *t)
{
	uint64_t end_ns = 0;
	int r = kv_simulator_prepare(&t->model, t->job->stop),
	    e; /* rows, but nothing that counts */

	t->counting = true;
	t->begin_ns = clock_ns();
	if (r == 0)
		r = tracer_run(t, &end_ns);
	if (r < 0)
		kv_result_partial(t->r, kv_load_error(t->model.load, NULL) < 0
						? "reading the input failed"
						: "writing the trace failed");
	e = tracer_finish(t, end_ns);
	r = r < 0 ? r : e;
	e = trace_writer_close(t->writer, r < 0 ? NULL : t->err);
	return r < 0 ? r : e;
}

int kv_run_trace(const struct kv_job *job, struct kv_result *r, struct penstock_err *err)
{
	struct tracer t = {.job = job, .params = *job->params, .r = r, .err = err};
	uint64_t begin = clock_ns();
	struct rusage before;
	int e;

	getrusage(RUSAGE_SELF, &before);
	e = tracer_prepare(&t);
	if (e == 0)
		e = trace(&t);
	clean_up(&t);
	r->wall_sec = (double)(clock_ns() - begin) / 1e9;
	cpu_time_since(&before, &r->cpu_user_sec, &r->cpu_system_sec);
	return e;
}
