/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a window.  Whoever brings one back makes the next ones, so that the handle always has
 * some; never more than a limit, so that a request out of order comes soon.  On their way to a
 * device reads pass through pinned memory of the window's own and not through the handle's pinned
 * pool: when the disk was done and when the copy was, is known only so.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "weights/weights_internal.h"

/* ------------------------------------------------------------------- clocks */

static void clock_start(uint64_t *nr, uint64_t *since)
{
	if ((*nr)++ == 0)
		*since = clock_ns();
}

static void clock_stop(uint64_t *nr, uint64_t since, uint64_t *sum)
{
	if (--*nr == 0)
		*sum += clock_ns() - since;
}

/* Is the disk idle because there is no room for what comes next? */
static void count_idle_time(struct penstock_weights *w)
{
	bool idle = !w->reading && !w->closing && w->nr_placed < schedule_len(w);

	if (idle && !w->idle_since) {
		w->idle_since = clock_ns();
	} else if (!idle && w->idle_since) {
		w->stats.stall_caller_ns += clock_ns() - w->idle_since;
		w->idle_since = 0;
	}
}

/* -------------------------------------------------------------------- ends */

static void group_set_error(struct weights_group *g, int code, const char *msg)
{
	if (g->code)
		return;
	g->code = code;
	g->next_range = g->nr_ranges; /* the rest is of no use */
	g->msg = strdup(msg);
}

/* All of a read is over. */
static void finish_read(struct penstock_weights *w, struct weights_read *r)
{
	struct weights_group *g = r->g;

	w->bytes_in_flight -= r->len;
	w->reads_in_flight--;
	r->next = w->free;
	w->free = r;
	if (--g->in_flight)
		return;
	if (g->state == WEIGHTS_DROPPED) {
		placement_drop(w, g);
	} else if (g->next_range == g->nr_ranges) {
		g->state = g->code ? WEIGHTS_FAILED : WEIGHTS_READY;
	}
}

/* Callbacks come in here and leave here: what may be free afterwards is not touched. */
static void callback_begin(struct penstock_weights *w)
{
	pthread_mutex_lock(&w->lock);
	w->busy++;
}

static void callback_end(struct penstock_weights *w)
{
	w->busy--;
	pthread_cond_signal(&w->wakeup);
	pthread_mutex_unlock(&w->lock);
}

static void copy_done(void *arg, const struct penstock_done *done)
{
	struct weights_read *r = arg;
	struct penstock_weights *w = r->w;

	callback_begin(w);
	clock_stop(&w->copying, w->copying_since, &w->stats.copy_ns);
	if (done->res < 0)
		group_set_error(r->g, (int)done->res, done->msg);
	else
		w->stats.bytes_copied += r->len;
	finish_read(w, r);
	weights_submit_reads(w);
	callback_end(w);
}

/* To the device.  The lock is held, but not while it is submitted. */
static void copy_start(struct penstock_weights *w, struct weights_read *r, uint64_t len)
{
	struct penstock_iov iov[2] = {{r->to, len}, {r->bounce, len}};
	struct penstock_op op = {
		.opcode = PENSTOCK_COPY, .nr_iov = 2, .iov = iov, .on_done = copy_done, .arg = r};
	struct penstock_err err = {0, ""};
	int n;

	clock_start(&w->copying, &w->copying_since);
	pthread_mutex_unlock(&w->lock);
	n = penstock_submit(w->io, &op, 1, NULL, &err);
	pthread_mutex_lock(&w->lock);
	if (n == 1)
		return;
	clock_stop(&w->copying, w->copying_since, &w->stats.copy_ns);
	group_set_error(r->g, n, err.msg);
	finish_read(w, r);
}

static void fail_short_read(struct penstock_weights *w, const struct weights_read *r, uint64_t got)
{
	struct penstock_short_name short_name;
	char msg[508];

	penstock_print_elided(
		msg, sizeof(msg),
		"%s: ends at byte %" PRIu64 ", and weights of group '%s' at byte %" PRIu64,
		penstock_shorten_name(&short_name, w->files[r->file].path), r->offset + got,
		w->m->groups[r->g - w->groups].name, r->offset + r->need);
	group_set_error(r->g, -ENODATA, msg);
}

static void read_done(void *arg, const struct penstock_done *done)
{
	struct weights_read *r = arg;
	struct penstock_weights *w = r->w;

	callback_begin(w);
	clock_stop(&w->reading, w->reading_since, &w->stats.disk_ns);
	r->g->read_done_ns = clock_ns();
	if (done->res < 0)
		group_set_error(r->g, (int)done->res, done->msg);
	else if ((uint64_t)done->res < r->need)
		fail_short_read(w, r, (uint64_t)done->res);
	else
		w->stats.bytes_read += (uint64_t)done->res;
	if (r->bounce && !r->g->code && r->g->state != WEIGHTS_DROPPED)
		copy_start(w, r, (uint64_t)done->res);
	else
		finish_read(w, r);
	weights_submit_reads(w);
	callback_end(w);
}

/* ------------------------------------------------------------------- begins */

/* The next piece of the group: equal ones, whole pages, of at most WEIGHTS_READ. */
static void fill_read(struct penstock_weights *w, struct weights_group *g, struct weights_read *r)
{
	const struct weights_range *range = &g->ranges[g->next_range];
	uint64_t n = (range->len + WEIGHTS_READ - 1) / WEIGHTS_READ;
	uint64_t len =
		min_u64(align_up((range->len + n - 1) / n, w->page), range->len - g->next_pos);
	uint64_t offset = range->offset + g->next_pos;

	r->g = g;
	r->file = range->file;
	r->offset = offset;
	r->len = len;
	r->need = range->end > offset ? min_u64(range->end - offset, len) : 0;
	r->to = w->window + g->at + range->at + g->next_pos;
	g->next_pos += len;
	if (g->next_pos == range->len) {
		g->next_range++;
		g->next_pos = 0;
	}
}

static struct weights_read *next_read(struct penstock_weights *w)
{
	struct weights_group *g;
	struct weights_read *r;

	if (w->closing || w->bytes_in_flight >= WEIGHTS_BYTES_IN_FLIGHT || !w->free)
		return NULL;
	g = schedule_next_to_read(w);
	if (!g)
		return NULL;
	r = w->free;
	w->free = r->next;
	fill_read(w, g, r);
	g->in_flight++;
	w->bytes_in_flight += r->len;
	w->reads_in_flight++;
	w->stats.reads++;
	clock_start(&w->reading, &w->reading_since);
	return r;
}

static struct penstock_op read_op(const struct penstock_weights *w, struct weights_read *r)
{
	const struct weights_file *f = &w->files[r->file];

	return (struct penstock_op){
		.opcode = PENSTOCK_READ,
		.file = f->file,
		.path = f->file ? NULL : f->path,
		.buf = r->bounce ? r->bounce : r->to,
		.len = r->len,
		.offset = r->offset,
		.on_done = read_done,
		.arg = r,
		.memory = r->bounce || !w->device ? PENSTOCK_MEMORY_HOST : PENSTOCK_MEMORY_ANY,
	};
}

/* Without the lock for as long as it takes; what is not taken has failed. */
static void submit_batch(struct penstock_weights *w, struct weights_read **v, unsigned n)
{
	struct penstock_op ops[WEIGHTS_BATCH];
	struct penstock_err err = {0, ""};
	unsigned done = 0;

	for (unsigned i = 0; i < n; i++)
		ops[i] = read_op(w, v[i]);
	while (done < n) {
		int r;

		pthread_mutex_unlock(&w->lock);
		r = penstock_submit(w->io, ops + done, n - done, NULL, &err);
		pthread_mutex_lock(&w->lock);
		if (r > 0) {
			done += (unsigned)r;
			continue;
		}
		clock_stop(&w->reading, w->reading_since, &w->stats.disk_ns);
		group_set_error(v[done]->g, r ? r : -EAGAIN, err.msg);
		finish_read(w, v[done++]);
	}
}

void weights_submit_reads(struct penstock_weights *w)
{
	struct weights_read *v[WEIGHTS_BATCH], *r;
	unsigned n;

	do {
		n = 0;
		if (!w->closing)
			schedule_place_groups(w);
		while (n < WEIGHTS_BATCH && (r = next_read(w)))
			v[n++] = r;
		count_idle_time(w);
		if (n)
			submit_batch(w, v, n);
	} while (n);
}

/* ------------------------------------------------------------------- fences */

/* The caller has it no more. */
void weights_release_group(struct penstock_weights *w, struct weights_group *g)
{
	g->held--;
	placement_touch(w, g);
	if (!g->held && !g->scheduled && !(w->o.flags & PENSTOCK_WEIGHTS_EXPERTS))
		placement_drop(w, g);
}

struct fence {
	struct penstock_weights *w;
	struct weights_group *g;
};

static void fence_done(void *arg, const struct penstock_done *done)
{
	CLEANUP_FREE struct fence *f = arg;
	struct penstock_weights *w = f->w;

	(void)done; /* a window that failed uses nothing any more, either */
	callback_begin(w);
	w->fences--;
	weights_release_group(w, f->g);
	weights_submit_reads(w);
	callback_end(w);
}

/* A copy of a few bytes that nobody needs is done when all before it in the stream is. */
int weights_submit_fence(struct penstock_weights *w, struct weights_group *g, void *stream,
			 struct penstock_err *err)
{
	enum { BYTES = 16 };
	struct penstock_iov iov[2] = {{w->fence_buf, BYTES}, {w->fence_buf + BYTES, BYTES}};
	struct penstock_op op = {.opcode = PENSTOCK_COPY,
				 .flags = PENSTOCK_OP_STREAM,
				 .nr_iov = 2,
				 .iov = iov,
				 .on_done = fence_done,
				 .stream = stream};
	struct fence *f = malloc(sizeof(*f));
	int n;

	if (!f)
		return penstock_fail(err, -ENOMEM, "out of memory");
	*f = (struct fence){w, g};
	op.arg = f;
	w->fences++;
	pthread_mutex_unlock(&w->lock);
	n = penstock_submit(w->io, &op, 1, NULL, err);
	pthread_mutex_lock(&w->lock);
	if (n == 1)
		return 0;
	w->fences--;
	free(f);
	return n;
}
