/* SPDX-License-Identifier: Apache-2.0 */
/* A window of weights: its calls. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "weights/weights_internal.h"

static int check_process(const struct penstock_weights *w, struct penstock_err *err)
{
	return w->pid == getpid()
		       ? 0
		       : penstock_fail(err, -ECHILD, "the window belongs to the parent process");
}

static int fail_no_space(const struct penstock_weights *w, const struct weights_group *g,
			 struct penstock_err *err)
{
	char need[PENSTOCK_SIZE_TEXT], all[PENSTOCK_SIZE_TEXT];

	return penstock_fail(err, -ENOBUFS,
			     "window: the groups that are held leave no room for '%s' of %s in %s: "
			     "release one, or take a larger window",
			     w->m->groups[g - w->groups].name,
			     penstock_size_format(need, g->window_bytes),
			     penstock_size_format(all, w->window_len));
}

/* How long the caller waited, and for what. */
static void count_wait_time(struct penstock_weights *w, const struct weights_group *g,
			    uint64_t since)
{
	uint64_t now = clock_ns(), disk = now;

	if (w->nr_bounce_bufs && g->read_done_ns < now)
		disk = max_u64(g->read_done_ns, since);
	w->stats.stall_disk_ns += disk - since;
	w->stats.stall_copy_ns += now - disk;
}

/* Until it is there, or has failed; or there is nothing that could bring it. */
static int wait_for_group(struct penstock_weights *w, const struct weights_group *g)
{
	bool ready = g->state == WEIGHTS_READY;
	uint64_t since;

	if (!(w->o.flags & PENSTOCK_WEIGHTS_EXPERTS)) {
		w->stats.hits += ready;
		w->stats.misses += !ready;
	}
	if (ready)
		return 0;
	since = clock_ns();
	while (g->state != WEIGHTS_READY && g->state != WEIGHTS_FAILED) {
		if (g->state != WEIGHTS_LOADING && !w->reads_in_flight && !w->fences)
			return -ENOBUFS;
		pthread_cond_wait(&w->wakeup, &w->lock);
	}
	count_wait_time(w, g, since);
	return 0;
}

/* It will not be given: what went wrong with it. */
static int report_group_error(struct penstock_weights *w, struct weights_group *g,
			      struct penstock_err *err)
{
	int code = penstock_fail(err, g->code, "%s", g->msg ? g->msg : strerror(-g->code));

	schedule_pop(w);
	if (g->scheduled) /* again, later: it is read again, then */
		schedule_rewind(w);
	if (!g->held)
		placement_drop(w, g);
	weights_submit_reads(w);
	return code;
}

static void deliver_group(struct penstock_weights *w, struct weights_group *g,
			  struct penstock_view *view)
{
	const struct penstock_group *mg = &w->m->groups[g - w->groups];

	schedule_pop(w);
	g->held++;
	g->delivered = true;
	g->hinted = false;
	w->stats.groups++;
	w->stats.bytes += mg->bytes;
	*view = (struct penstock_view){
		.group = (uint64_t)(g - w->groups),
		.first = mg->first,
		.nr = mg->nr,
		.base = w->window + g->at,
		.at = w->at + mg->first,
	};
}

static int next_locked(struct penstock_weights *w, struct penstock_view *view,
		       struct penstock_err *err)
{
	struct weights_group *g;
	int r;

	if (!schedule_len(w))
		return 0;
	weights_submit_reads(w);
	g = schedule_at(w, 0);
	r = wait_for_group(w, g);
	if (r < 0)
		return fail_no_space(w, g, err);
	if (g->state == WEIGHTS_FAILED)
		return report_group_error(w, g, err);
	deliver_group(w, g, view);
	weights_submit_reads(w); /* in a cycle, there is one more to come */
	return 1;
}

int penstock_weights_next(struct penstock_weights *w, struct penstock_view *view,
			  struct penstock_err *err)
{
	int r = check_process(w, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&w->lock);
	r = next_locked(w, view, err);
	pthread_mutex_unlock(&w->lock);
	return r;
}

static int release_locked(struct penstock_weights *w, uint64_t group, bool fence, void *stream,
			  struct penstock_err *err)
{
	struct weights_group *g = group < w->nr_groups ? &w->groups[group] : NULL;

	if (!g || !g->held)
		return penstock_fail(err, -EINVAL, "group: %" PRIu64 " is not held", group);
	if (fence && !w->fence_buf)
		return penstock_fail(err, -EINVAL,
				     "stream: is for a window in device memory, and this is not");
	if (fence)
		return weights_submit_fence(w, g, stream, err);
	weights_release_group(w, g);
	weights_submit_reads(w);
	return 0;
}

int penstock_weights_release(struct penstock_weights *w, uint64_t group, struct penstock_err *err)
{
	int r = check_process(w, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&w->lock);
	r = release_locked(w, group, false, NULL, err);
	pthread_mutex_unlock(&w->lock);
	return r;
}

int penstock_weights_release_after(struct penstock_weights *w, uint64_t group, void *stream,
				   struct penstock_err *err)
{
	int r = check_process(w, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&w->lock);
	r = release_locked(w, group, true, stream, err);
	pthread_mutex_unlock(&w->lock);
	return r;
}

static int check_groups(const struct penstock_weights *w, const uint64_t *groups, uint64_t n,
			struct penstock_err *err)
{
	int r = check_process(w, err);

	for (uint64_t i = 0; r == 0 && i < n; i++)
		if (groups[i] >= w->nr_groups)
			r = penstock_fail(err, -EINVAL,
					  "group: %" PRIu64 " is not within the %" PRIu64
					  " of the model",
					  groups[i], w->nr_groups);
	return r;
}

int penstock_weights_request(struct penstock_weights *w, const uint64_t *groups, uint64_t n,
			     struct penstock_err *err)
{
	int r = check_groups(w, groups, n, err);

	if (r < 0 || !n)
		return r;
	pthread_mutex_lock(&w->lock);
	r = schedule_append(w, groups, n);
	if (r < 0)
		penstock_fail(err, r, "out of memory");
	else
		weights_submit_reads(w);
	pthread_mutex_unlock(&w->lock);
	return r;
}

int penstock_weights_hint(struct penstock_weights *w, const uint64_t *groups, uint64_t n,
			  struct penstock_err *err)
{
	int r = check_groups(w, groups, n, err);

	if (r < 0)
		return r;
	if (!(w->o.flags & PENSTOCK_WEIGHTS_EXPERTS))
		return penstock_fail(err, -EINVAL,
				     "hints are for a window of experts: this one reads ahead");
	pthread_mutex_lock(&w->lock);
	/* a new hint replaces the rest of the last one */
	w->nr_hints = w->hints_at = 0;
	r = ARRAY_RESERVE(w->hints, w->hints_capacity, n);
	if (r < 0) {
		penstock_fail(err, r, "out of memory");
	} else {
		memcpy(w->hints, groups, n * sizeof(*groups));
		w->nr_hints = n;
		weights_submit_reads(w);
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}

int64_t penstock_weights_skip(struct penstock_weights *w, uint64_t n, struct penstock_err *err)
{
	int64_t skipped = 0;
	int r = check_process(w, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&w->lock);
	for (; n && schedule_len(w); n--, skipped++) {
		struct weights_group *g = schedule_at(w, 0);

		schedule_pop(w);
		if (!g->scheduled && !g->held && !(w->o.flags & PENSTOCK_WEIGHTS_EXPERTS))
			placement_drop(w, g);
	}
	weights_submit_reads(w);
	pthread_mutex_unlock(&w->lock);
	return skipped;
}

/* With what is going on at this moment. */
int penstock_weights_get_stats(struct penstock_weights *w, struct penstock_weights_stats *stats)
{
	struct penstock_weights_stats s;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&w->lock);
	s = w->stats;
	s.in_flight = w->bytes_in_flight;
	s.disk_ns += w->reading && now > w->reading_since ? now - w->reading_since : 0;
	s.copy_ns += w->copying && now > w->copying_since ? now - w->copying_since : 0;
	s.stall_caller_ns += w->idle_since && now > w->idle_since ? now - w->idle_since : 0;
	for (const struct weights_group *g = w->lru.newer; g != &w->lru; g = g->newer)
		s.resident += g->state == WEIGHTS_READY ? g->window_bytes : 0;
	pthread_mutex_unlock(&w->lock);
	s.size = stats->size;
	memcpy(stats, &s, min_u64(stats->size, sizeof(s)));
	return 0;
}
