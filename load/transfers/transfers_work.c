/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker of a transfers: take operations, wait for their turn, submit, collect,
 * count.  The source and the clock of counted time are shared by all workers,
 * under one lock; counts are the worker's own.
 */
#include "load/transfers/transfers_work.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/util.h"
#include "load/measure/rank_barrier.h"

#define POLL_NS 50000000 /* how soon a stop is noticed */
#define REAP    64
/* One block or so: done by penstock_run(), which needs no queue, but cannot be given up. */
#define INLINE_MAX (1u << 20)

/* ------------------------------------------------------------------ failure */

void transfers_fail_locked(struct transfers *s, const struct penstock_err *err)
{
	if (atomic_load(&s->failed))
		return;
	s->err = *err;
	atomic_store(&s->failed, true);
}

void transfers_fail(struct transfers *s, const struct penstock_err *err)
{
	pthread_mutex_lock(&s->lock);
	transfers_fail_locked(s, err);
	pthread_mutex_unlock(&s->lock);
}

bool transfers_stopped(struct transfers *s)
{
	return atomic_load(&s->failed) || asked_to_stop(s->job->stop);
}

/* ------------------------------------------------------------- counted time */

static void active_begin(struct transfers_worker *w, uint64_t now)
{
	struct transfers *s = w->transfers;

	if (w->active)
		return;
	w->active = true;
	pthread_mutex_lock(&s->lock);
	if (!s->nr_active++)
		s->active_since = now;
	pthread_mutex_unlock(&s->lock);
}

static void active_end(struct transfers_worker *w, uint64_t now)
{
	struct transfers *s = w->transfers;

	if (!w->active)
		return;
	w->active = false;
	pthread_mutex_lock(&s->lock);
	if (!--s->nr_active && now > s->active_since)
		s->active_ns += now - s->active_since;
	pthread_mutex_unlock(&s->lock);
}

/* The first operation that counts, or its wait, is about to begin: so does the counted time. */
static void count_begin(struct transfers *s)
{
	uint64_t now;

	if (atomic_load(&s->counting))
		return;
	pthread_mutex_lock(&s->lock);
	if (!atomic_load(&s->counting)) {
		now = rank_barrier_wait(); /* what was done up to here is nobody's time */
		for (unsigned i = 0; i < s->job->workers; i++) {
			struct penstock_stats stats = {.size = sizeof(stats)};

			penstock_get_stats(s->workers[i].io, &stats);
			s->library_ns += stats.cpu_ns;
		}
		getrusage(RUSAGE_SELF, &s->before);
		s->active_ns = 0;
		s->active_since = now;
		s->count_start_ns = now;
		atomic_store(&s->deadline_ns, s->job->runtime_ns ? now + s->job->runtime_ns : 0);
		atomic_store(&s->counting, true);
	}
	pthread_mutex_unlock(&s->lock);
}

static bool past_deadline(struct transfers *s, uint64_t now)
{
	uint64_t deadline = atomic_load(&s->deadline_ns);

	return deadline && now > deadline;
}

/* An operation ended at @now: counted time up to there. */
static uint64_t count_time(struct transfers *s, uint64_t now)
{
	uint64_t at;

	pthread_mutex_lock(&s->lock);
	at = s->active_ns + (s->nr_active && now > s->active_since ? now - s->active_since : 0);
	s->counted_ns = max_u64(s->counted_ns, at);
	pthread_mutex_unlock(&s->lock);
	return s->earlier_ns + at;
}

/* -------------------------------------------------------------------- hooks */

/* Call prepare() or finish(), which do not belong to the measurement. */
static int transfers_run_hook(struct transfers_worker *w,
			      int (*hook)(void *, const struct load_op *, void *,
					  struct penstock_err *),
			      const struct slot *slot, struct penstock_err *err)
{
	uint64_t before;
	int r;

	if (!hook)
		return 0;
	/* Of an operation with a time of its own the wait is counted, whatever it is used for. */
	if (!w->in_flight && !slot->op.not_before)
		active_end(w, clock_ns());
	before = thread_cpu_ns(pthread_self());
	r = hook(w->transfers->job->source.arg, &slot->op, slot->buf, err);
	if (atomic_load(&w->transfers->counting))
		w->hook_ns += thread_cpu_ns(pthread_self()) - before;
	return r;
}

/* --------------------------------------------------------------- operations */

/* Look for the next operation, unless one is waiting already.  False when there is none. */
static bool transfers_next_op(struct transfers_worker *w, struct penstock_err *err)
{
	struct transfers *s = w->transfers;
	int r;

	if (w->have_next || w->ended)
		return w->have_next;
	if (transfers_stopped(s) || past_deadline(s, clock_ns())) {
		w->ended = true;
		return false;
	}
	pthread_mutex_lock(&s->lock);
	r = s->job->source.next(s->job->source.arg, w->id, &w->next, err);
	pthread_mutex_unlock(&s->lock);
	w->have_next = r == 1;
	w->ended = r != 1;
	if (r < 0)
		transfers_fail(s, err);
	return w->have_next;
}

/* The file of a round: what it is like is known when it was used. */
static int round_open(struct transfers_worker *w, struct slot *slot, struct penstock_err *err)
{
	const struct bed_file *f = &w->transfers->job->files[slot->op.file];

	return penstock_file_open(&slot->file, w->io, f->open_path,
				  bed_file_flags(f, slot->op.read), 0, err);
}

static int round_close(struct transfers_worker *w, struct slot *slot, bool good,
		       struct penstock_err *err)
{
	int r;

	if (!slot->file)
		return 0;
	w->handle.file.size = sizeof(w->handle.file);
	penstock_file_stat(slot->file, &w->handle.file);
	/* Of an object that could not be written nothing is to be left. */
	r = good ? penstock_file_close(slot->file, err) : penstock_file_abort(slot->file, err);
	slot->file = NULL;
	return r;
}

/* It is over for this worker as well. */
static void round_time(struct transfers_worker *w, struct slot *slot)
{
	struct transfers *s = w->transfers;
	uint64_t last = atomic_load(&s->last);

	pthread_mutex_lock(&s->lock);
	slot->op.round_ns = last - s->active_since;
	pthread_mutex_unlock(&s->lock);
	active_end(w, last);
}

static void transfers_op_failed(struct transfers_worker *w, const struct slot *slot, int code,
				const char *msg)
{
	struct run_series *series = &w->series[slot->op.series];
	struct penstock_err err = {.code = code};

	/* What was given up because of a stop did not fail. */
	if (code == -ECANCELED && transfers_stopped(w->transfers))
		return;
	bed_file_describe(&w->transfers->job->files[slot->op.file], msg, err.msg, sizeof(err.msg));
	if (!series->errors++)
		snprintf(series->first_error, sizeof(series->first_error), "%s", err.msg);
	transfers_fail(w->transfers, &err);
}

/* Count a completed operation, then let the source look at it. */
static void transfers_op_count(struct transfers_worker *w, struct slot *slot)
{
	struct transfers *s = w->transfers;
	struct run_series *series = &w->series[slot->op.series];
	struct penstock_err err = {0, ""};

	slot->op.took_ns = slot->end_ns - slot->begin_ns;
	if (slot->op.warmup || past_deadline(s, slot->end_ns)) {
		series->warmup_bytes += slot->bytes;
	} else if (series_add(series, slot->bytes, slot->op.took_ns, count_time(s, slot->end_ns)) <
		   0) {
		penstock_fail(&err, -ENOMEM, "out of memory");
		transfers_fail(s, &err);
	}
	if (s->job->rounds)
		round_time(w, slot);
	if (transfers_run_hook(w, s->job->source.finish, slot, &err) < 0)
		transfers_fail(s, &err);
}

static void transfers_op_done(struct transfers_worker *w, struct slot *slot,
			      const struct penstock_done *done, uint64_t now)
{
	struct penstock_err err = {0, ""};
	bool rounds = w->transfers->job->rounds;
	int r = rounds ? round_close(w, slot, done->res >= 0, &err) : 0;

	slot->busy = false;
	w->in_flight--;
	w->series[slot->op.series].done_flags |= done->flags;
	w->handle.done_flags |= done->flags;
	slot->bytes = done->bytes;
	slot->end_ns = rounds ? clock_ns() : now;
	if (done->res < 0 || r < 0)
		transfers_op_failed(w, slot, done->res < 0 ? (int)done->res : r,
				    done->res < 0 ? done->msg : err.msg);
	else if (rounds)
		slot->completed = true;
	else
		transfers_op_count(w, slot);
}

static struct penstock_op make_op(const struct transfers_worker *w, const struct slot *slot)
{
	const struct load_op *op = &slot->op;
	const struct bed_file *f = &w->transfers->job->files[op->file];
	/* By name an object is written as a whole. */
	uint32_t whole = bed_file_remote(f) && !slot->file ? PENSTOCK_OP_TRUNCATE : 0;

	return (struct penstock_op){
		.opcode = op->read ? PENSTOCK_READ : PENSTOCK_WRITE,
		.flags = op->read ? PENSTOCK_OP_EXACT : whole,
		.file = w->files ? w->files[op->file] : slot->file,
		.path = f->open_path,
		.buf = slot->buf,
		.len = op->len,
		.offset = f->from + op->offset,
		.tag = (uint64_t)(slot - w->slots),
	};
}

/* Submit; a small operation that is alone is carried out on the spot. */
static void transfers_op_start(struct transfers_worker *w, struct slot *slot, uint64_t due_ns)
{
	bool inline_ = w->transfers->job->depth == 1 && slot->op.len <= INLINE_MAX;
	struct penstock_err err = {0, ""};
	struct penstock_op op;
	struct penstock_done done;
	uint64_t now;
	int r;

	slot->busy = true;
	w->in_flight++;
	if (!slot->op.warmup)
		count_begin(w->transfers);
	now = clock_ns();
	active_begin(w, now);
	if (!slot->op.warmup && due_ns)
		stat_moments_add(&w->series[slot->op.series].late,
				 now > due_ns ? (double)(now - due_ns) / 1e9 : 0);
	slot->begin_ns = clock_ns();
	r = w->transfers->job->rounds ? round_open(w, slot, &err) : 0;
	op = make_op(w, slot);
	if (r == 0)
		r = inline_ ? penstock_run(w->io, &op, &done, &err)
			    : penstock_submit(w->io, &op, 1, &slot->ticket, &err);
	if (r < 0) {
		round_close(w, slot, false, NULL);
		slot->busy = false;
		w->in_flight--;
		transfers_op_failed(w, slot, r, err.msg);
	} else if (inline_) {
		transfers_op_done(w, slot, &done, clock_ns());
	}
}

static struct slot *transfers_free_slot(struct transfers_worker *w)
{
	for (unsigned i = 0; i < w->transfers->job->depth; i++)
		if (!w->slots[i].busy)
			return &w->slots[i];
	return NULL;
}

/* When the next operation may begin; 0: at once. */
static uint64_t due_time(const struct transfers_worker *w)
{
	if (!w->next.not_before || w->next.warmup)
		return 0;
	count_begin(w->transfers);
	return w->transfers->count_start_ns + w->next.not_before;
}

/* Start what can be started.  Returns how long the next operation has to wait, ns. */
static uint64_t transfers_fill_queue(struct transfers_worker *w)
{
	struct penstock_err err = {0, ""};
	struct slot *slot;

	while ((slot = transfers_free_slot(w)) && transfers_next_op(w, &err)) {
		uint64_t due = due_time(w), now = clock_ns();

		if (now < due)
			return due - now;
		slot->op = w->next;
		w->have_next = false;
		if (transfers_run_hook(w, w->transfers->job->source.prepare, slot, &err) < 0)
			transfers_fail(w->transfers, &err);
		else
			transfers_op_start(w, slot, due);
	}
	return 0;
}

static void transfers_cancel_all(struct transfers_worker *w)
{
	for (unsigned i = 0; i < w->transfers->job->depth; i++)
		if (w->slots[i].busy)
			penstock_cancel(w->io, w->slots[i].ticket);
}

/* Collect what is finished; wait at most @wait_ns for the first. */
static void transfers_reap(struct transfers_worker *w, int64_t wait_ns)
{
	struct penstock_done done[REAP];
	uint64_t now;
	int n;

	if (transfers_stopped(w->transfers))
		transfers_cancel_all(w);
	n = penstock_wait_any(w->io, done, 1, w->in_flight < REAP ? w->in_flight : REAP, wait_ns);
	now = clock_ns(); /* one for all: what finish() takes is nobody's latency */
	for (int i = 0; i < n; i++)
		transfers_op_done(w, &w->slots[done[i].tag], &done[i], now);
}

/* Nothing in flight, and the next operation is not due: its wait is counted. */
static void wait_until_due(struct transfers_worker *w, uint64_t ns)
{
	struct timespec t = {0, (long)min_u64(ns, POLL_NS)};

	if (atomic_load(&w->transfers->counting))
		active_begin(w, clock_ns());
	nanosleep(&t, NULL);
	if (transfers_stopped(w->transfers) || past_deadline(w->transfers, clock_ns()))
		w->have_next = false;
}

/* Between two barriers, by one worker. */
static void round_begin(struct transfers *s, bool counts)
{
	s->in_round = atomic_exchange(&s->nr_ready, 0);
	atomic_store(&s->completed, 0);
	atomic_store(&s->last, 0);
	s->over = !s->in_round || transfers_stopped(s);
	if (!s->over && counts)
		count_begin(s);
}

static void round_run_op(struct transfers_worker *w, struct slot *slot)
{
	_Atomic uint64_t *last = &w->transfers->last;
	uint64_t seen = 0;

	transfers_op_start(w, slot, 0);
	while (w->in_flight)
		transfers_reap(w, POLL_NS);
	if (!slot->completed)
		return;
	atomic_fetch_add(&w->transfers->completed, 1);
	while (seen < slot->end_ns && !atomic_compare_exchange_weak(last, &seen, slot->end_ns))
		;
}

/*
 * One round.  The first two barriers keep the preparations of all workers out of its time;
 * behind the third it is known whether all have completed it.  False when there is none.
 */
static bool run_round(struct transfers_worker *w)
{
	struct transfers *s = w->transfers;
	struct slot *slot = &w->slots[0];
	struct penstock_err err = {0, ""};
	bool have = transfers_next_op(w, &err);

	w->have_next = slot->completed = false;
	if (have) {
		slot->op = w->next;
		atomic_fetch_add(&s->nr_ready, 1);
		if (transfers_run_hook(w, s->job->source.prepare, slot, &err) < 0)
			transfers_fail(s, &err);
	}
	pthread_barrier_wait(&s->barrier);
	if (w->id == 0)
		round_begin(s, have && !slot->op.warmup);
	pthread_barrier_wait(&s->barrier);
	if (s->over)
		return false;
	if (have)
		round_run_op(w, slot);
	pthread_barrier_wait(&s->barrier);
	if (slot->completed && atomic_load(&s->completed) == s->in_round)
		transfers_op_count(w, slot);
	active_end(w, clock_ns());
	return true;
}

static void transfers_loop(struct transfers_worker *w)
{
	for (;;) {
		uint64_t wait = transfers_fill_queue(w);

		if (w->in_flight)
			transfers_reap(w, (int64_t)(wait ? min_u64(wait, POLL_NS) : POLL_NS));
		else if (w->have_next)
			wait_until_due(w, wait);
		else if (w->ended || transfers_stopped(w->transfers))
			break;
	}
	active_end(w, clock_ns());
}

void *transfers_work(void *arg)
{
	struct transfers_worker *w = arg;
	struct transfers *s = w->transfers;

	pthread_mutex_lock(&s->lock); /* the starting signal */
	pthread_mutex_unlock(&s->lock);
	if (s->job->rounds)
		while (!s->abandoned && run_round(w))
			;
	else
		transfers_loop(w);
	w->handle.stats.size = sizeof(w->handle.stats);
	penstock_get_stats(w->io, &w->handle.stats);
	return NULL;
}
