/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: the choice of an engine, opening, closing, statistics. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/submitter.h"

static atomic_uint_fast64_t handles_opened; /* ever */

unsigned penstock_version(void)
{
	return PENSTOCK_VERSION_NUMBER;
}

int io_check(const struct penstock_io *io, struct penstock_err *err)
{
	if (!io)
		return penstock_fail(err, -EINVAL, "io: is NULL");
	if (!__atomic_load_n(io->fork_guard, __ATOMIC_RELAXED))
		return penstock_fail(err, -ECHILD,
				     "the handle was opened by another process and "
				     "does not survive fork()");
	return 0;
}

void io_trace(const struct penstock_io *io, enum penstock_trace what, int code, const char *file,
	      uint64_t offset, uint64_t len, const char *text)
{
	struct penstock_event e = {what, code, file, text, offset, len};

	if (io->opts.trace)
		io->opts.trace(io->opts.trace_arg, &e);
}

void report_fallback(struct penstock_io *io, uint32_t bit, const char *file, const char *why)
{
	size_t used;

	if (!(atomic_fetch_or(&io->fallbacks, bit) & bit)) {
		pthread_mutex_lock(&io->lock);
		used = strlen(io->fallback_why);
		snprintf(io->fallback_why + used, sizeof(io->fallback_why) - used, "%s%s%s%s",
			 used ? "; " : "", file ? file : "", file ? ": " : "", why);
		pthread_mutex_unlock(&io->lock);
	}
	io_trace(io, PENSTOCK_TRACE_FALLBACK, 0, file, 0, 0, why);
}

/* ---------------------------------------------------------------- opening */

static void stop_queues(struct penstock_io *io)
{
	queues_stop(io);
	for (unsigned i = 0; i < io->nr_queues; i++)
		queue_free(&io->queues[i]);
	free(io->queues);
	io->queues = NULL;
	io->nr_queues = 0;
	atomic_store(&io->stop, false);
}

/* How many it may become where the caller does not say. */
static unsigned threads_auto(const struct penstock_io *io)
{
	cpu_set_t cpus;

	/* Where the queue is to run empty there is one; device memory is not copied by threads. */
	if ((io->opts.flags & PENSTOCK_NO_OVERLAP) || io->engine->device ||
	    sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return 1;
	return (unsigned)max_u64(min_u64((uint64_t)CPU_COUNT(&cpus), THREAD_COUNT_MAX), 1);
}

static int start_queues(struct penstock_io *io, const struct penstock_engine *engine,
			struct penstock_err *err)
{
	int r = 0;

	io->engine = engine;
	io->max_queues = io->opts.threads ? io->opts.threads : threads_auto(io);
	io->queues = zalloc_lines(io->max_queues * sizeof(*io->queues));
	if (!io->queues)
		return penstock_fail(err, -ENOMEM, "out of memory");
	io->nr_queues = io->opts.threads ? io->opts.threads : 1;
	io->nr_active = io->nr_queues;
	for (unsigned i = 0; i < io->nr_queues && !r; i++) {
		io->queues[i].io = io;
		io->queues[i].index = i;
		r = queue_start(&io->queues[i], err);
	}
	if (r < 0)
		stop_queues(io);
	return r;
}

/* The first engine that works; why the better ones do not is kept for the statistics. */
static int start_first_usable(struct penstock_io *io, struct penstock_err *err)
{
	struct penstock_err why = {-ENOTSUP, "no engine is built in"};
	const struct penstock_engine *e;
	int r = -ENOTSUP;

	for (unsigned i = 0; (e = penstock_engines[i]); i++) {
		if (!e->automatic)
			continue;
		r = start_queues(io, e, &why);
		if (r == 0)
			return 0;
		io->engine = e;
		report_fallback(io, PENSTOCK_FALLBACK_ENGINE, NULL, why.msg);
	}
	return penstock_fail(err, r, "%s", why.msg);
}

static int start_named(struct penstock_io *io, struct penstock_err *err)
{
	const char *settings;
	const struct penstock_engine *e = penstock_engine_find(io->opts.engine, &settings);
	struct penstock_err why;
	int r;

	if (!e)
		return penstock_fail(err, -ENOTSUP, "engine: no engine \"%s\" is built in",
				     io->opts.engine);
	if (settings && e != &penstock_engine_fault)
		return penstock_fail(err, -EINVAL, "engine: %s takes no settings, got \"%s\"",
				     e->name, settings);
	if (settings) {
		io->settings = strdup(settings);
		if (!io->settings)
			return penstock_fail(err, -ENOMEM, "out of memory");
	}
	/* Asking first takes longer than trying: libaio's probe waits for the kernel. */
	r = start_queues(io, e, err);
	if (r < 0 && r != -ENOMEM && r != -EAGAIN && e->probe(&why) < 0)
		return penstock_fail(err, -ENOTSUP, "engine: %s", why.msg);
	return r;
}

/* A page that the kernel empties in a child: that is how a forked copy is known. */
static uint32_t *make_fork_guard(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t *guard =
		mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (guard == MAP_FAILED)
		return NULL;
	if (madvise(guard, page, MADV_WIPEONFORK) < 0) {
		munmap(guard, page);
		return NULL;
	}
	*guard = 1;
	return guard;
}

static void free_io(struct penstock_io *io)
{
	submitters_free(io);
	free(io->settings);
	if (io->fork_guard)
		munmap(io->fork_guard, (size_t)sysconf(_SC_PAGESIZE));
	pthread_cond_destroy(&io->changed);
	pthread_mutex_destroy(&io->region_lock);
	shared_bufs_free(io);
	pinned_pool_free(io);
	penstock_gpus_fini(&io->gpus);
	pthread_mutex_destroy(&io->lock);
	free(io);
}

int penstock_open(struct penstock_io **out, const struct penstock_opts *opts,
		  struct penstock_err *err)
{
	NO_CANCEL;
	struct penstock_opts o;
	struct penstock_io *io;
	int r;

	if (!out)
		return penstock_fail(err, -EINVAL, "out: is NULL");
	r = opts_load(&o, opts, err);
	if (r < 0)
		return r;
	io = zalloc_lines(sizeof(*io));
	if (!io)
		return penstock_fail(err, -ENOMEM, "out of memory");
	io->opts = o;
	io->auto_depth = !opts || !opts->depth;
	io->s3 = o.s3;
	io->flight_bytes = BYTES_AUTO;
	pthread_mutex_init(&io->lock, NULL);
	pthread_mutex_init(&io->region_lock, NULL);
	pthread_mutex_init(&io->shared_bufs_lock, NULL);
	penstock_gpus_init(&io->gpus);
	pinned_pool_setup(&io->pinned_pool);
	pthread_cond_init(&io->changed, NULL);
	op_list_init(&io->pending);
	io->serial = atomic_fetch_add(&handles_opened, 1);
	io->huge_by_default = penstock_area_huge_by_default();
	io->fork_guard = make_fork_guard();
	if (!io->fork_guard)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	else if (o.engine)
		r = start_named(io, err);
	else
		r = start_first_usable(io, err);
	io->opts.engine = NULL; /* the caller's string need not live on */
	if (r < 0) {
		free_io(io);
		return r;
	}
	*out = io;
	return 0;
}

int penstock_set_s3(struct penstock_io *io, struct penstock_s3 *s3)
{
	struct penstock_s3 *none = NULL;
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	return atomic_compare_exchange_strong(&io->s3, &none, s3) ? 0 : -EBUSY;
}

struct penstock_s3 *penstock_get_s3(struct penstock_io *io)
{
	return atomic_load(&io->s3);
}

/* ---------------------------------------------------------------- closing */

/* In a child of fork(): the threads and the I/O are the parent's, the memory and files ours. */
static int close_copy(struct penstock_io *io)
{
	for (unsigned i = 0; i < io->nr_queues; i++) {
		struct queue *q = &io->queues[i];

		io->engine->abandon(q->engine);
		penstock_area_unmap(&q->bounce_area);
		free(q->bounce_free);
		device_free(q);
		free(q->remote_blocks);
		free(q->blocks);
		free(q->engine);
	}
	free(io->queues);
	files_free(io);
	regions_free(io);
	pinned_pool_abandon(io);
	shared_bufs_free(io);
	munmap(io->fork_guard, (size_t)sysconf(_SC_PAGESIZE));
	submitters_free(io);
	free(io->settings);
	free(io);
	return 0;
}

int penstock_close(struct penstock_io *io, struct penstock_err *err)
{
	NO_CANCEL;
	struct penstock_summary sum;
	int r;

	if (!io)
		return 0;
	if (io_check(io, NULL) < 0)
		return close_copy(io);
	r = penstock_wait_all(io, -1, &sum);
	if (r < 0)
		return penstock_fail(err, r, "a completion callback must not close its handle");
	stop_queues(io);
	files_free(io);
	regions_free(io);
	free_io(io);
	if (sum.failed)
		return penstock_fail(err, (int)sum.first, "%s", sum.msg);
	return 0;
}

/* ------------------------------------------------------------- statistics */

static void add_counters(struct penstock_stats *s, struct counters *c)
{
	s->ops += c->ops;
	s->ops_failed += c->ops_failed;
	s->bytes_read += c->bytes_read;
	s->bytes_written += c->bytes_written;
	s->blocks += c->direct + c->buffered + c->objects;
	s->blocks_direct += c->direct;
	s->blocks_buffered += c->buffered;
	s->blocks_bounced += c->bounced;
	s->blocks_inline += c->inlined;
	s->blocks_fixed += c->fixed;
	s->blocks_pinned_pool += c->pinned;
	s->blocks_cufile += c->cufile;
	s->blocks_object += c->objects;
	s->resubmissions += c->resubmissions;
	s->preallocations += c->preallocations;
	s->submit_calls += c->submit_calls;
	s->wakeups += c->wakeups;
}

int penstock_get_stats(struct penstock_io *io, struct penstock_stats *stats)
{
	NO_CANCEL;
	struct penstock_stats s = {0};
	int r = io_check(io, NULL);

	if (r < 0)
		return r;
	if (!stats || stats->size < sizeof(stats->size))
		return -EINVAL;
	s.size = stats->size;
	s.threads = io->nr_active;
	s.depth = io->opts.depth;
	s.fallbacks = io->fallbacks;
	snprintf(s.engine, sizeof(s.engine), "%s", io->engine->name);
	pthread_mutex_lock(&io->lock);
	snprintf(s.fallback_why, sizeof(s.fallback_why), "%s", io->fallback_why);
	pthread_mutex_unlock(&io->lock);
	for (unsigned i = 0; i < atomic_load(&io->nr_submitters); i++)
		add_counters(&s, &io->submitters[i]->count);
	for (unsigned i = 0; i < io->nr_queues; i++)
		add_counters(&s, &io->queues[i].count);
	s.cpu_ns = queues_cpu_ns(io);
	s.pinned_pool_bytes = atomic_load(&io->pinned_pool.bytes);
	s.inline_bytes = io_inline_bytes(io);
	s.flight_bytes = io->auto_depth ? io_flight_bytes(io) : 0;
	memcpy(stats, &s, min_u64(stats->size, sizeof(s)));
	return 0;
}
