/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run: rows are taken from the trace when they are due and there is room for one more
 * operation.
 */
#include "load/replay/replay.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/util.h"
#include "load/measure/rank_barrier.h"
#include "load/replay/replay_internal.h"

#define SLICE_NS 100000000ull /* how soon a stop is noticed, and progress reported */

int replay_fail(struct replay *p, int code, const char *fmt, ...)
{
	va_list ap;

	if (p->failed)
		return p->failed;
	p->failed = p->err.code = code;
	va_start(ap, fmt);
	penstock_vprint_elided(p->err.msg, sizeof(p->err.msg), fmt, ap);
	va_end(ap);
	return code;
}

bool replay_stopped(const struct replay *p)
{
	return asked_to_stop(p->job->stop);
}

/* ------------------------------------------------------------------ completions */

static void replay_on_op(void *arg, const struct flow_done *d)
{
	replay_count_done(arg, d);
}

static void replay_on_chain(void *arg, uint64_t tag, uint64_t end_ns)
{
	struct replay *p = arg;

	p->ops[tag].next = p->unused;
	p->unused = (uint32_t)tag + 1;
	p->in_flight--;
	p->last_end_ns = max_u64(p->last_end_ns, end_ns);
}

static void replay_report_progress(struct replay *p, uint64_t now_ns)
{
	const struct replay_job *job = p->job;
	const struct replay_result *r = p->r;
	uint64_t bytes = r->prefilled.bytes;

	if (!job->progress || now_ns < p->next_report_ns)
		return;
	p->next_report_ns = now_ns + SLICE_NS;
	if (p->measuring) {
		bytes = 0;
		for (unsigned t = 0; t < REPLAY_TIERS; t++)
			bytes += r->done[t][TRACE_READ].bytes + r->done[t][TRACE_WRITE].bytes;
	}
	job->progress(job->progress_arg, p->measuring ? "Replay:" : "Prefill:", r->rows,
		      p->measuring && p->scan ? p->scan->rows : 0, bytes);
}

/* Work until @until_ns or until a chain ends. */
static int replay_wait(struct replay *p, uint64_t until_ns)
{
	struct flow_handler h = {replay_on_op, replay_on_chain, p};
	uint64_t now = clock_ns();

	flow_wait(p->flow, min_u64(until_ns, now + SLICE_NS), &h);
	now = clock_ns();
	if (p->measuring)
		replay_count_seconds(p, now);
	replay_report_progress(p, now);
	return p->failed;
}

/* Until no more than @most operations are in flight. */
int replay_drain(struct replay *p, uint32_t most)
{
	while (p->in_flight > most && !p->failed && !replay_stopped(p))
		replay_wait(p, UINT64_MAX);
	return p->failed;
}

/* ---------------------------------------------------------------------- prefill */

static int fill_found(void *arg, const struct replay_row *w, uint64_t size)
{
	return replay_start_fill(arg, w, size);
}

static int fill_files(struct replay *p)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < p->scan->nr_files; i++) {
		const struct replay_file *f = &p->scan->files[i];
		struct trace_row row = TRACE_ROW_INIT;
		struct replay_row w;

		row.key = f->name;
		row.key_len = f->name_len;
		row.op = TRACE_WRITE;
		row.tier = f->tier < TRACE_TIERS ? f->tier : TRACE_NO_TIER;
		replay_row_resolve(&w, &p->map, &row);
		r = replay_start_fill(p, &w, f->size);
	}
	return r;
}

/* What is there when the trace begins; not measured. */
static int replay_prefill(struct replay *p)
{
	struct penstock_err err = {0, ""};
	uint64_t begin = clock_ns();
	int r = 0;

	if (p->ranges)
		r = fill_files(p);
	else if (p->job->prefill)
		r = replay_find_initial(p->job, fill_found, p, &err);
	if (r < 0)
		replay_fail(p, r, "%s", err.msg);
	replay_drain(p, 0);
	p->r->prefill_sec = (double)(clock_ns() - begin) / 1e9;
	if (!p->failed && p->r->errors[TRACE_WRITE])
		replay_fail(p, -EIO, "prefill: %s", p->r->first_error);
	return p->failed;
}

/* ---------------------------------------------------------------------- the run */

static void begin_interval(struct replay *p)
{
	struct flow_stats st;

	p->begin_ns = p->last_end_ns = rank_barrier_wait();
	flow_get_stats(p->flow, &st);
	p->library_ns = st.io.cpu_ns;
	getrusage(RUSAGE_SELF, &p->before);
	p->tick_sec = 1;
	p->measuring = true;
	p->pace.factor = p->job->pace;
}

/* The next row that is ours, and when it is due: 1, 0 at the end, or -errno. */
static int take_row(struct replay *p, struct trace_row *row, uint64_t *due_ns)
{
	struct penstock_err err = {0, ""};
	bool own = false;
	int r;

	do {
		r = trace_read(p->source, row, &err);
		if (r > 0 && replay_row_check(p->job, row, trace_reader_line(p->source), &err) < 0)
			r = err.code;
		if (r < 0)
			return replay_fail(p, r, "%s", err.msg);
		if (!r)
			break;
		*due_ns = p->begin_ns + replay_due(&p->pace, row->time_ns);
		own = replay_owns(p->job, row, p->rows_read++);
	} while (!own && !replay_stopped(p));
	p->r->rows += own;
	return own;
}

/* Rows in order, each when it is due. */
static int run_rows(struct replay *p)
{
	uint64_t due = 0, now = clock_ns();
	struct trace_row row;
	bool have = false;
	int r = 1;

	while (!p->failed && !replay_stopped(p)) {
		have = have && !p->absent; /* a store says so when it has answered */
		if (!have && r > 0 && !p->absent) {
			r = take_row(p, &row, &due);
			if (r < 0)
				return r;
			have = r > 0;
		}
		if (!have && !p->in_flight)
			break;
		if (have && due > now)
			now = clock_ns();
		if (have && due <= now && p->in_flight < p->job->depth) {
			replay_start_row(p, &row, due);
			have = false;
			continue;
		}
		replay_wait(p, have && p->in_flight < p->job->depth ? due : UINT64_MAX);
		now = clock_ns();
	}
	return p->absent && !p->failed ? p->failed = p->err.code : p->failed;
}

static void abort_all(struct replay *p)
{
	struct flow_handler h = {replay_on_op, replay_on_chain, p};

	if (!p->flow)
		return;
	flow_abort(p->flow);
	while (flow_wait(p->flow, UINT64_MAX, &h))
		;
}

/* The result, and all in it, are of a part of the trace. */
static void replay_partial(struct replay *p)
{
	struct replay_result *r = p->r;

	r->partial = true;
	snprintf(r->partial_why, sizeof(r->partial_why), "%s",
		 p->failed ? p->err.msg : "interrupted");
	for (unsigned i = 0; i < r->nr_series; i++) {
		r->series[i].partial = true;
		snprintf(r->series[i].partial_why, sizeof(r->series[i].partial_why), "%s",
			 r->partial_why);
	}
}

static void replay_run_all(struct replay *p)
{
	bool cut;

	if (replay_prefill(p) < 0) {
		replay_partial(p);
		return;
	}
	begin_interval(p);
	run_rows(p);
	cut = replay_stopped(p) || p->failed;
	p->measuring = false; /* what ends later does not count */
	replay_count_end(p, cut ? clock_ns() : p->last_end_ns);
	abort_all(p);
	if (cut)
		replay_partial(p);
}

int replay_run(const struct replay_job *job, const struct replay_scan *scan,
	       struct replay_result *r, struct penstock_err *err)
{
	struct replay p = {.job = job, .scan = scan, .r = r};
	uint64_t begin = clock_ns();
	int e, closed;

	replay_result_init(r);
	e = replay_open(&p, err);
	if (e == 0)
		replay_run_all(&p);
	if (p.failed) {
		abort_all(&p);
		*err = p.err;
		e = p.failed;
	}
	closed = replay_close(&p, e < 0 ? NULL : err);
	r->wall_sec = (double)(clock_ns() - begin) / 1e9;
	return e < 0 ? e : closed;
}
