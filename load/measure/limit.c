/* SPDX-License-Identifier: Apache-2.0 */
/* The plain threads of limit.h, and what becomes of their figures. */
#include "load/measure/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include <penstock/stripe.h>

#include "base/size.h"
#include "base/util.h"
#include "load/measure/limit_object.h"

#define MIN_BYTES (16ull << 20) /* bytes of a try; in less the threads would hardly have begun */
#define MAX_FILES 256           /* open at a time */

/* A configuration: @threads per target, each with one block in flight. */
struct limit_config {
	uint64_t block;
	unsigned threads;
};

static const struct limit_config configs[LIMIT_CONFIGS] = {
	{1u << 20, 8},
	{4u << 20, 4},
	{1u << 20, 32},
};

/* One try: a configuration on all targets at once. */
struct limit_attempt {
	bool read;
	const atomic_int *stop;
	uint64_t max_bytes;        /* bytes that may be begun */
	uint64_t ns;               /* time for it */
	_Atomic uint64_t begun;    /* bytes of all blocks handed out */
	_Atomic uint64_t start_ns; /* of the first block; 0: there was none yet */
	_Atomic uint64_t end_ns;   /* a block that ends later is not counted */
	_Atomic uint64_t counted;  /* bytes */
	_Atomic uint64_t moved;    /* bytes, whenever they ended */
	_Atomic int error;
};

/* What the threads of one target share. */
struct limit_threads {
	struct limit_attempt *round;
	const struct limit_target *target;
	uint64_t block;
	unsigned nr_files;
	int *fds;
	_Atomic uint64_t next; /* block to do */
};

/* The clock starts with the first block, not with the first thread. */
static void start_clock(struct limit_attempt *r)
{
	uint64_t none = 0, now = clock_ns();

	if (atomic_compare_exchange_strong(&r->start_ns, &none, now))
		atomic_store(&r->end_ns, now + r->ns);
}

/*
 * May another block begin?  Where all that may be moved was handed out the time ends as
 * well: what is in flight then would be waited for by fewer and fewer threads.
 */
static bool may_begin(struct limit_attempt *r, uint64_t block)
{
	uint64_t now = clock_ns(), end = atomic_load(&r->end_ns);

	if (now >= end || asked_to_stop(r->stop))
		return false;
	if (atomic_fetch_add(&r->begun, block) + block <= r->max_bytes)
		return true;
	atomic_compare_exchange_strong(&r->end_ns, &end, now);
	return false;
}

/* Through the files one after the other, and through the buffers. */
static void *thread_main(void *arg)
{
	struct limit_threads *c = arg;
	const struct limit_target *t = c->target;
	struct limit_attempt *r = c->round;
	uint64_t per_file = t->len / c->block, per_buf = t->buf_len / c->block;

	start_clock(r);
	while (may_begin(r, c->block)) {
		uint64_t i = atomic_fetch_add(&c->next, 1), file = i / per_file, at = i % per_file;
		char *buf = t->buf + (file + at / per_buf) % t->nr_bufs * t->step +
			    at % per_buf * c->block;
		int fd = c->fds[file % c->nr_files];
		off_t off = (off_t)(at * c->block);
		ssize_t n =
			r->read ? pread(fd, buf, c->block, off) : pwrite(fd, buf, c->block, off);

		if (n < 0) {
			atomic_store(&r->error, errno);
			break;
		}
		atomic_fetch_add(&r->moved, (uint64_t)n);
		if (clock_ns() <= atomic_load(&r->end_ns))
			atomic_fetch_add(&r->counted, (uint64_t)n);
	}
	return NULL;
}

static int threads_open(struct limit_threads *c, const struct limit_target *t,
			struct limit_attempt *r, uint64_t block, unsigned max_files)
{
	*c = (struct limit_threads){.round = r, .target = t};
	c->block = align_down(min_u64(block, min_u64(t->len, t->buf_len)), t->align);
	if (!c->block)
		return -EINVAL;
	c->fds = calloc(t->nr_paths, sizeof(*c->fds));
	for (; c->fds && c->nr_files < t->nr_paths && c->nr_files < max_files; c->nr_files++) {
		int fd = open(t->paths[c->nr_files],
			      (r->read ? O_RDONLY : O_WRONLY) | O_DIRECT | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return -errno;
		c->fds[c->nr_files] = fd;
		/* Its bytes are elsewhere, and what is here must not be written over. */
		if (penstock_stripe_get_kind(t->paths[c->nr_files])) {
			c->nr_files++;
			return -EMEDIUMTYPE;
		}
	}
	return c->fds ? 0 : -ENOMEM;
}

static void threads_close(struct limit_threads *c)
{
	for (unsigned i = 0; i < c->nr_files; i++)
		close(c->fds[i]);
	free(c->fds);
}

/* All targets at once.  0 or -errno. */
static int threads_run(struct limit_threads *threads_of, unsigned nr, unsigned threads,
		       struct limit_attempt *r)
{
	unsigned all = nr * threads, started = 0;
	CLEANUP_FREE pthread_t *ids = calloc(all, sizeof(*ids));
	int error = ids ? 0 : ENOMEM;

	atomic_store(&r->end_ns, UINT64_MAX);
	for (; !error && started < all; started++) {
		error = pthread_create(&ids[started], NULL, thread_main, &threads_of[started % nr]);
		if (error)
			break;
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
	return error ? -error : -atomic_load(&r->error);
}

/* A try that was cut short tells nothing; what it moved it moved. */
static void count_try(struct limit *l, struct limit_attempt *r, unsigned config, int error)
{
	uint64_t start = atomic_load(&r->start_ns), end = atomic_load(&r->end_ns);

	l->moved += atomic_load(&r->moved);
	if (error < 0)
		snprintf(l->why_not, sizeof(l->why_not), "%s with O_DIRECT: %s",
			 l->read ? "pread" : "pwrite", penstock_strerror(error));
	if (error < 0 || !start || end <= start || asked_to_stop(r->stop))
		return;
	l->counted[config] += atomic_load(&r->counted);
	l->ns[config] += end - start;
}

/* Of objects: a bare loop, whose tries count in the places of the configurations. */
static void try_objects(struct limit *l, const struct limit_target *targets, unsigned nr,
			unsigned turn, uint64_t max_bytes, double sec, const atomic_int *stop)
{
	struct limit_object_result b;

	limit_object_run(&b, targets, nr, l->read, max_bytes, (uint64_t)(sec * 1e9), stop);
	l->requests = b.in_flight;
	l->is_signed = b.is_signed;
	l->block[turn] = b.request;
	l->moved += b.bytes;
	if (b.why_not[0])
		memcpy(l->why_not, b.why_not, sizeof(l->why_not));
	if (asked_to_stop(stop))
		return;
	l->counted[turn] += b.bytes;
	l->ns[turn] += b.ns;
}

/* Plain threads, with the configuration whose turn it is. */
static void try_files(struct limit *l, const struct limit_target *targets, unsigned nr,
		      unsigned config, uint64_t max_bytes, double sec, const atomic_int *stop)
{
	CLEANUP_FREE struct limit_threads *threads_of = calloc(nr, sizeof(*threads_of));
	struct limit_attempt r = {
		.read = l->read, .stop = stop, .max_bytes = max_bytes, .ns = (uint64_t)(sec * 1e9)};
	int error = threads_of ? 0 : -ENOMEM;

	for (unsigned i = 0; i < nr && error == 0; i++) {
		error = threads_open(&threads_of[i], &targets[i], &r, configs[config].block,
				     (MAX_FILES + nr - 1) / nr);
		l->block[config] = threads_of[i].block;
	}
	if (error == 0)
		error = threads_run(threads_of, nr, configs[config].threads, &r);
	for (unsigned i = 0; threads_of && i < nr; i++)
		threads_close(&threads_of[i]);
	count_try(l, &r, config, error);
	if (error == -EMEDIUMTYPE)
		snprintf(l->why_not, sizeof(l->why_not), "the files are striped");
	if (error == -EINVAL && !l->block[config])
		snprintf(l->why_not, sizeof(l->why_not),
			 "files or buffers are smaller than one O_DIRECT block");
}

void limit_try(struct limit *l, const struct limit_target *targets, unsigned nr, uint64_t max_bytes,
	       double sec, const atomic_int *stop)
{
	unsigned config = l->tries++ % LIMIT_CONFIGS, objects = 0;

	for (unsigned i = 0; i < nr; i++)
		objects += targets[i].s3 != NULL;
	l->sec = fmax(l->sec, sec);
	if (objects && objects < nr)
		snprintf(l->why_not, sizeof(l->why_not), "files and objects together");
	else if (max_bytes && max_bytes < MIN_BYTES)
		snprintf(l->why_not, sizeof(l->why_not), "too few bytes may be written");
	else
		(objects ? try_objects : try_files)(
			l, targets, nr, config, max_bytes ? max_bytes : UINT64_MAX / 2, sec, stop);
}

void limit_run_due(struct limit *l, const struct limit_target *targets, unsigned nr,
		   const struct limit_schedule *schedule, const atomic_int *stop)
{
	uint64_t tries = max_u64(min_u64(schedule->all, LIMIT_TRIES), LIMIT_CONFIGS);
	uint64_t due =
		schedule->done < schedule->all ? schedule->done * tries / schedule->all : tries;

	while (l->tries < due && !asked_to_stop(stop))
		limit_try(l, targets, nr, schedule->max_bytes / tries,
			  schedule->sec / (double)tries, stop);
}

/* ------------------------------------------------------------------ results */

static double config_speed(const struct limit *l, unsigned i)
{
	return l->ns[i] ? (double)l->counted[i] / (double)l->ns[i] * 1e9 : 0;
}

static unsigned best_config(const struct limit *l)
{
	unsigned best = 0;

	for (unsigned i = 1; i < LIMIT_CONFIGS; i++)
		if (config_speed(l, i) > config_speed(l, best))
			best = i;
	return best;
}

double limit_result(const struct limit *l, double fastest, char how[LIMIT_HOW])
{
	const char *what = l->requests ? l->read ? "GET" : "PUT"
			   : l->read   ? "pread"
				       : "pwrite over existing data";
	unsigned best = best_config(l);
	double plain = config_speed(l, best);
	char block[PENSTOCK_SIZE_TEXT];

	if (plain <= 0)
		snprintf(how, LIMIT_HOW, "not measured%s%s", *l->why_not ? ": " : "", l->why_not);
	else if (fastest > plain)
		snprintf(how, LIMIT_HOW,
			 "the fastest of these itself; plain %s got %.1f %% of it on the same %s",
			 what, 100 * plain / fastest, l->requests ? "objects" : "files");
	else if (l->requests)
		snprintf(how, LIMIT_HOW,
			 "measured: a bare libcurl loop, %s, same objects and buffers, %u %ss of "
			 "%s in flight, best of %u tries of %.2g s",
			 l->is_signed ? "signed" : "unsigned", l->requests, what,
			 penstock_size_format(block, l->block[best]), l->tries, l->sec);
	else
		snprintf(how, LIMIT_HOW,
			 "measured: plain %s, O_DIRECT, same files and buffers, %u threads, blocks "
			 "of %s, best of %d shapes, %u tries of %.2g s",
			 what, configs[best].threads, penstock_size_format(block, l->block[best]),
			 LIMIT_CONFIGS, l->tries, l->sec);
	return plain > 0 ? fmax(plain, fastest) : 0;
}

void limit_set(struct run_series *series, unsigned nr, bool read, double limit, const char *how)
{
	for (unsigned i = 0; i < nr; i++) {
		if (series[i].read != read || (limit > 0 && series[i].no_storage))
			continue;
		series[i].limit = limit;
		snprintf(series[i].limit_how, sizeof(series[i].limit_how), "%s", how);
	}
}

void limit_set_measured(const struct limit *l, struct run_series *series, unsigned nr)
{
	double fastest = 0;
	char how[LIMIT_HOW];

	for (unsigned i = 0; i < nr; i++)
		if (series[i].read == l->read && !series[i].no_storage)
			fastest = fmax(fastest, series_speed(&series[i]));
	limit_set(series, nr, l->read, limit_result(l, fastest, how), how);
}

uint64_t limit_max_write(uint64_t job_bytes)
{
	return max_u64(min_u64(job_bytes, 2ull << 30), 512ull << 20);
}
