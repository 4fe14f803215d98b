/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a window: the ranges of each group, the files, the window; and closing it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/gpu.h>

#include "base/err.h"
#include "base/optscopy.h"
#include "base/size.h"
#include "base/util.h"
#include "weights/weights_internal.h"

enum {
	PAGE = 4096,
	GAP = 64 << 10,   /* bytes between weights that are read along */
	FILES_OPEN = 512, /* more are opened when they are used */
	SLACK = 2,        /* pages that are given on top of a window, for those around a group */
};

static int weights_no_memory(struct penstock_err *err)
{
	return penstock_fail(err, -ENOMEM, "out of memory");
}

/* -------------------------------------------------------------------- files */

static int file_open(struct penstock_weights *w, struct weights_file *f, bool keep, uint64_t *bytes,
		     struct penstock_err *err)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_file *file;
	int r = penstock_file_open(&file, w->io, f->path, O_RDONLY, 0, err);

	if (r < 0)
		return r;
	penstock_file_stat(file, &info);
	*bytes = info.bytes;
	w->page = max_u64(w->page, info.offset_align);
	w->stats.direct &= info.direct;
	if (keep)
		f->file = file;
	else
		penstock_file_close(file, NULL);
	return 0;
}

static int files_open(struct penstock_weights *w, uint64_t *bytes, struct penstock_err *err)
{
	uint64_t n = w->m->nr_paths;
	int r = 0;

	w->files = calloc(n + 1, sizeof(*w->files));
	if (!w->files)
		return weights_no_memory(err);
	w->stats.direct = 1;
	w->page = PAGE;
	for (uint64_t i = 0; i < n && r == 0; i++) {
		w->files[i].path = w->m->paths[i]->text;
		r = file_open(w, &w->files[i], n <= FILES_OPEN, &bytes[i], err);
	}
	return r;
}

static int check_ends(const struct penstock_weights *w, const uint64_t *bytes,
		      struct penstock_err *err)
{
	struct penstock_short_name a, b;

	for (uint64_t i = 0; i < w->m->nr; i++) {
		const struct penstock_weight *t = &w->m->weights[i];
		uint64_t has = bytes[w->m->files[i]];

		if (t->offset + t->len > has)
			return penstock_fail(
				err, -EINVAL,
				"%s: has %" PRIu64 " bytes, and '%s' ends at byte %" PRIu64,
				penstock_shorten_name(&a, t->path), has,
				penstock_shorten_name(&b, t->name), t->offset + t->len);
	}
	return 0;
}

/* --------------------------------------------------------------------- ranges */

static int file_order(const void *a, const void *b, void *arg)
{
	const struct penstock_model *m = arg;
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	if (m->files[x] != m->files[y])
		return m->files[x] < m->files[y] ? -1 : 1;
	if (m->weights[x].offset != m->weights[y].offset)
		return m->weights[x].offset < m->weights[y].offset ? -1 : 1;
	return (x > y) - (x < y);
}

/* Put a weight behind the others of its group: into the last range, or a new one. */
static void range_add(struct penstock_weights *w, struct weights_group *g, uint64_t i)
{
	const struct penstock_weight *t = &w->m->weights[i];
	uint64_t low = align_down(t->offset, w->page), end = t->offset + t->len;
	struct weights_range *r = g->nr_ranges ? &g->ranges[g->nr_ranges - 1] : NULL;

	if (!t->len)
		return;
	if (!r || r->file != w->m->files[i] || low > r->offset + r->len + GAP) {
		r = &g->ranges[g->nr_ranges++];
		*r = (struct weights_range){.file = w->m->files[i],
					    .offset = low,
					    .first = t->offset,
					    .at = g->window_bytes};
	}
	r->end = max_u64(r->end, end);
	r->len = max_u64(r->len, align_up(end, w->page) - r->offset);
	g->window_bytes = r->at + r->len;
	w->at[i] = r->at + t->offset - r->offset;
}

/*
 * Groups of the same bytes take the same space, wherever they begin within a page: one that takes a
 * page more would not fit where another was.
 */
static uint64_t space_of_group(const struct penstock_weights *w, const struct weights_group *g)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < g->nr_ranges; i++)
		bytes += align_up(g->ranges[i].end - g->ranges[i].first - 1, w->page) + w->page;
	return max_u64(bytes, w->page);
}

static int make_ranges(struct penstock_weights *w, struct penstock_err *err)
{
	const struct penstock_model *m = w->m;
	CLEANUP_FREE uint64_t *order = calloc(m->nr + 1, sizeof(*order));

	w->nr_groups = m->nr_groups;
	w->groups = calloc(m->nr_groups + 1, sizeof(*w->groups));
	w->ranges = calloc(m->nr + 1, sizeof(*w->ranges));
	w->at = calloc(m->nr + 1, sizeof(*w->at));
	if (!order || !w->groups || !w->ranges || !w->at)
		return weights_no_memory(err);
	for (uint64_t k = 0; k < m->nr_groups; k++) {
		const struct penstock_group *mg = &m->groups[k];
		struct weights_group *g = &w->groups[k];

		g->ranges = w->ranges + mg->first;
		for (uint64_t i = 0; i < mg->nr; i++)
			order[i] = mg->first + i;
		qsort_r(order, mg->nr, sizeof(*order), file_order, (void *)(uintptr_t)m);
		for (uint64_t i = 0; i < mg->nr; i++)
			range_add(w, g, order[i]);
		g->window_bytes = space_of_group(w, g);
		w->stats.largest = max_u64(w->stats.largest, g->window_bytes);
	}
	return 0;
}

/* ------------------------------------------------------------------- window */

static int window_size(struct penstock_weights *w, struct penstock_err *err)
{
	const uint64_t most = 1ull << 30;
	char have[PENSTOCK_SIZE_TEXT], need[PENSTOCK_SIZE_TEXT];
	uint64_t all = 0, largest = 0;

	for (uint64_t k = 0; k < w->nr_groups; k++) {
		all += w->groups[k].window_bytes;
		if (w->groups[k].window_bytes > w->groups[largest].window_bytes)
			largest = k;
	}
	if (!w->o.window)
		w->o.window = max_u64(min_u64(all, most), min_u64(all, 2 * w->stats.largest)) +
			      2 * w->page;
	if (w->o.window > INT64_MAX / 2)
		return penstock_fail(err, -EINVAL, "window: %" PRIu64 " is beyond 2^62",
				     w->o.window);
	if (w->nr_groups && w->o.window + (w->o.addr ? 0 : SLACK * w->page) < w->stats.largest)
		return penstock_fail(
			err, -EINVAL, "window: %s is smaller than group '%s', which takes %s",
			penstock_size_format(have, w->o.window), w->m->groups[largest].name,
			penstock_size_format(need, w->stats.largest));
	return 0;
}

/* Memory of the caller's begins where it likes, and a page of a device's is for fences. */
static int window_align(struct penstock_weights *w, char *mem, struct penstock_err *err)
{
	uint64_t skip = align_up((uintptr_t)mem, w->page) - (uintptr_t)mem;
	uint64_t take = skip + (w->device ? w->page : 0);
	char need[PENSTOCK_SIZE_TEXT];

	w->window = mem + skip;
	w->window_len = w->o.window > take ? align_down(w->o.window - take, w->page) : 0;
	if (w->device)
		w->fence_buf = w->window + w->window_len;
	if (w->window_len < w->stats.largest)
		return penstock_fail(
			err, -EINVAL,
			"window: what is left of it in whole pages is smaller than the "
			"largest group, which takes %s",
			penstock_size_format(need, w->stats.largest));
	w->stats.window = w->window_len;
	return 0;
}

static int window_alloc(struct penstock_weights *w, struct penstock_err *err)
{
	uint64_t len = align_up(w->o.window, w->page) + (SLACK + 1) * w->page;
	int r;

	if (w->o.memory == PENSTOCK_WEIGHTS_DEVICE) {
		w->device = true;
		r = penstock_gpu_alloc(&w->allocated, w->o.device, len, err);
	} else {
		r = penstock_buf_alloc(&w->allocated, w->io, len, 0, NULL, err);
	}
	if (r < 0)
		return r;
	w->o.window = len;
	if (w->o.memory == PENSTOCK_WEIGHTS_PINNED) {
		r = penstock_gpu_pin(w->allocated, len, err);
		w->pinned = r == 0;
	}
	return r < 0 ? r : window_align(w, w->allocated, err);
}

static int window_make(struct penstock_weights *w, struct penstock_err *err)
{
	struct penstock_buf_info info;

	if (!w->o.addr)
		return window_alloc(w, err);
	w->device = penstock_gpu_device(w->o.addr) >= 0;
	if (!w->device)
		w->registered =
			penstock_buf_register(w->io, w->o.addr, w->o.window, 0, &info, NULL) == 0;
	return window_align(w, w->o.addr, err);
}

/* ------------------------------------------------------------------- bounce buffers */

/* Engine cufile reads into device memory by itself. */
static bool needs_bounce_bufs(struct penstock_weights *w)
{
	struct penstock_stats s = {.size = sizeof(s)};

	return w->device && penstock_get_stats(w->io, &s) == 0 &&
	       strncmp(s.engine, "cufile", 6) != 0;
}

static int alloc_reads(struct penstock_weights *w, struct penstock_err *err)
{
	unsigned n = WEIGHTS_READS;
	void *mem = NULL;
	int r;

	if (needs_bounce_bufs(w)) {
		n = w->nr_bounce_bufs = WEIGHTS_BYTES_IN_FLIGHT / WEIGHTS_READ;
		r = penstock_buf_alloc(&mem, w->io, WEIGHTS_BYTES_IN_FLIGHT, 0, NULL, err);
		if (r < 0)
			return r;
		w->bounce_bufs = mem;
		r = penstock_gpu_pin(mem, WEIGHTS_BYTES_IN_FLIGHT, err);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; i < n; i++) {
		w->reads[i].w = w;
		w->reads[i].next = w->free;
		w->reads[i].bounce = mem ? w->bounce_bufs + (uint64_t)i * WEIGHTS_READ : NULL;
		w->free = &w->reads[i];
	}
	return 0;
}

/* --------------------------------------------------------------- open, close */

static int window_load_opts(struct penstock_weights *w, const struct penstock_weights_opts *user,
			    struct penstock_err *err)
{
	const uint32_t known = PENSTOCK_WEIGHTS_CYCLIC | PENSTOCK_WEIGHTS_EXPERTS;
	int r = penstock_opts_copy(&w->o, sizeof(w->o), user, err);

	if (r < 0)
		return r;
	if (w->o.flags & ~known)
		return penstock_fail(err, -EINVAL, "flags: 0x%x has bits that are not known",
				     w->o.flags);
	if ((w->o.flags & known) == known)
		return penstock_fail(err, -EINVAL,
				     "flags: a window is cyclic or of experts, not both");
	if (w->o.memory > PENSTOCK_WEIGHTS_DEVICE)
		return penstock_fail(err, -EINVAL,
				     "memory: %u is none of enum penstock_weights_memory",
				     w->o.memory);
	if (w->o.addr && !w->o.window)
		return penstock_fail(err, -EINVAL,
				     "window: the size of what is at addr is missing");
	return 0;
}

static int prepare_window(struct penstock_weights *w, const struct penstock_weights_opts *opts,
			  struct penstock_err *err)
{
	CLEANUP_FREE uint64_t *bytes = calloc(w->m->nr_paths + 1, sizeof(*bytes));
	int r = bytes ? window_load_opts(w, opts, err) : weights_no_memory(err);

	if (r == 0)
		r = files_open(w, bytes, err);
	if (r == 0)
		r = check_ends(w, bytes, err);
	if (r == 0)
		r = make_ranges(w, err);
	if (r == 0)
		r = window_size(w, err);
	if (r == 0)
		r = window_make(w, err);
	return r < 0 ? r : alloc_reads(w, err);
}

/* Memory in use by nobody. */
static void weights_free(struct penstock_weights *w, bool forked)
{
	if (!forked) {
		for (uint64_t i = 0; w->files && i < w->m->nr_paths; i++)
			penstock_file_close(w->files[i].file, NULL);
		if (w->registered)
			penstock_buf_unregister(w->io, w->o.addr);
		if (w->pinned)
			penstock_gpu_unpin(w->allocated);
		if (w->bounce_bufs)
			penstock_gpu_unpin(w->bounce_bufs);
		if (w->allocated && w->device)
			penstock_gpu_free(w->allocated);
		else if (w->allocated)
			penstock_buf_free(w->io, w->allocated);
		if (w->bounce_bufs)
			penstock_buf_free(w->io, w->bounce_bufs);
	}
	for (uint64_t k = 0; w->groups && k < w->nr_groups; k++)
		free(w->groups[k].msg);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wakeup);
	free(w->files);
	free(w->groups);
	free(w->ranges);
	free(w->at);
	free(w->requested);
	free(w->hints);
	free(w);
}

int penstock_weights_open(struct penstock_weights **out, struct penstock_io *io,
			  const struct penstock_model *m, const struct penstock_weights_opts *opts,
			  struct penstock_err *err)
{
	struct penstock_weights *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return weights_no_memory(err);
	w->io = io;
	w->m = m;
	w->pid = getpid();
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wakeup, NULL);
	placement_init(w);
	r = prepare_window(w, opts, err);
	if (r < 0) {
		weights_free(w, false);
		return r;
	}
	pthread_mutex_lock(&w->lock);
	weights_submit_reads(w);
	pthread_mutex_unlock(&w->lock);
	*out = w;
	return 0;
}

void penstock_weights_close(struct penstock_weights *w)
{
	bool forked;

	if (!w)
		return;
	forked = w->pid != getpid();
	if (!forked) {
		pthread_mutex_lock(&w->lock);
		w->closing = true;
		while (w->reads_in_flight || w->fences || w->busy)
			pthread_cond_wait(&w->wakeup, &w->lock);
		pthread_mutex_unlock(&w->lock);
	}
	weights_free(w, forked);
}
