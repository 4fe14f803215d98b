/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sluice/sluice.h>

#include "base/size.h"
#include "base/util.h"

#define HUGE_PAGE (2u << 20)
#define LEAST     (48ull << 20) /* less tells nothing: threads would hardly have begun */

/* One way to ask: @threads per file, each with one block in flight. */
struct shape {
	uint64_t block;
	unsigned threads;
};

static const struct shape shapes[] = {
	{1u << 20, 8},
	{4u << 20, 4},
	{1u << 20, 32},
};

/* One shape on all files at once. */
struct round {
	bool read;
	const atomic_int *stop;
	uint64_t most;             /* bytes that may be begun */
	uint64_t ns;               /* time for it */
	_Atomic uint64_t begun;    /* bytes of all blocks handed out */
	_Atomic uint64_t start_ns; /* of the first block; 0: there was none yet */
	_Atomic uint64_t end_ns;   /* a block that ends later is not counted */
	_Atomic uint64_t counted;  /* bytes */
	_Atomic uint64_t moved;    /* bytes, whenever they ended */
	_Atomic int error;
};

/* What the threads of one file share. */
struct trial {
	struct round *round;
	const struct limit_target *target;
	uint64_t block;
	_Atomic uint64_t next; /* block to do */
};

struct crew {
	struct trial *trial;
	pthread_t thread;
};

/* The clock starts with the first block, not with the first thread. */
static void start_clock(struct round *r)
{
	uint64_t none = 0, now = clock_ns();

	if (atomic_compare_exchange_strong(&r->start_ns, &none, now))
		atomic_store(&r->end_ns, now + r->ns);
}

/*
 * May another block begin?  Where all that may be moved was handed out the time ends as
 * well: what is in flight then would be waited for by fewer and fewer threads.
 */
static bool may_begin(struct round *r, uint64_t block)
{
	uint64_t now = clock_ns(), end = atomic_load(&r->end_ns);

	if (now >= end || (r->stop && atomic_load(r->stop)))
		return false;
	if (atomic_fetch_add(&r->begun, block) + block <= r->most)
		return true;
	atomic_compare_exchange_strong(&r->end_ns, &end, now);
	return false;
}

static void trial_loop(struct trial *t, int fd, char *scratch)
{
	struct round *r = t->round;
	uint64_t nr = t->target->len / t->block;

	start_clock(r);
	while (may_begin(r, t->block)) {
		uint64_t off = atomic_fetch_add(&t->next, 1) % nr * t->block;
		ssize_t n = r->read ? pread(fd, scratch, t->block, (off_t)off)
				    : pwrite(fd, t->target->content + off, t->block, (off_t)off);

		if (n < 0) {
			atomic_store(&r->error, errno);
			return;
		}
		atomic_fetch_add(&r->moved, (uint64_t)n);
		if (clock_ns() <= atomic_load(&r->end_ns))
			atomic_fetch_add(&r->counted, (uint64_t)n);
	}
}

static void *crew_main(void *arg)
{
	struct trial *t = ((struct crew *)arg)->trial;
	int fd = open(t->target->path,
		      (t->round->read ? O_RDONLY : O_WRONLY) | O_DIRECT | O_CLOEXEC);
	char *scratch = aligned_alloc(HUGE_PAGE, align_up(t->block, HUGE_PAGE));

	if (fd < 0 || !scratch) {
		atomic_store(&t->round->error, fd < 0 ? errno : ENOMEM);
	} else {
		/* all of it: less than a huge page would stay on small ones, which cost more */
		madvise(scratch, align_up(t->block, HUGE_PAGE), MADV_HUGEPAGE);
		trial_loop(t, fd, scratch);
	}
	free(scratch);
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* Bytes per second of a round that is over, or -errno. */
static double round_speed(struct round *r)
{
	uint64_t start = atomic_load(&r->start_ns), end = atomic_load(&r->end_ns);
	int error = atomic_load(&r->error);

	if (error)
		return -error;
	return start && end > start ? (double)atomic_load(&r->counted) / (double)(end - start) * 1e9
				    : 0;
}

/* All targets at once, one shape.  Returns bytes per second or -errno. */
static double shape_run(const struct shape *shape, struct round *r, struct trial *trials,
			unsigned nr)
{
	unsigned all = nr * shape->threads, started = 0;
	struct crew *crew = calloc(all, sizeof(*crew));
	int error = crew ? 0 : ENOMEM;

	atomic_store(&r->end_ns, UINT64_MAX);
	for (unsigned i = 0; i < nr; i++) {
		struct trial *t = &trials[i];

		t->round = r;
		t->block = min_u64(shape->block, align_down(t->target->len, t->target->align));
		atomic_store(&t->next, 0);
	}
	for (; !error && started < all; started++) {
		crew[started].trial = &trials[started % nr];
		error = pthread_create(&crew[started].thread, NULL, crew_main, &crew[started]);
		if (error)
			break;
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(crew[i].thread, NULL);
	free(crew);
	return error ? -error : round_speed(r);
}

static void limit_say(struct limit_result *ret, double speed, uint64_t bytes, unsigned threads,
		      const struct round *r)
{
	bool read = r->read;
	char block[SLUICE_SIZE_TEXT];

	if (speed < 0 && !ret->bytes_per_sec)
		snprintf(ret->how, sizeof(ret->how), "not measured: %s with O_DIRECT: %s",
			 read ? "pread" : "pwrite", sluice_strerror((int)speed));
	if (speed <= ret->bytes_per_sec)
		return;
	ret->bytes_per_sec = speed;
	snprintf(ret->how, sizeof(ret->how),
		 "measured: plain %s, O_DIRECT, %u threads a file, blocks of %s, best of %zu tries "
		 "of up to %.1f s",
		 read ? "pread" : "pwrite over existing data", threads,
		 sluice_size_format(block, bytes), ARRAY_SIZE(shapes), (double)r->ns / 1e9);
}

uint64_t limit_most_written(uint64_t job_bytes)
{
	return max_u64(min_u64(job_bytes, 2ull << 30), 512ull << 20);
}

static const char *why_not(const struct limit_target *targets, unsigned nr, uint64_t most)
{
	if (most && most < LEAST)
		return "too few bytes may be written";
	for (unsigned i = 0; i < nr; i++)
		if (targets[i].len < targets[i].align)
			return "files are smaller than one O_DIRECT block";
	return NULL;
}

void limit_measure(struct limit_result *ret, const struct limit_target *targets, unsigned nr,
		   bool read, uint64_t most, double sec, const atomic_int *stop)
{
	CLEANUP_FREE struct trial *trials = calloc(nr, sizeof(*trials));
	const char *why = trials ? why_not(targets, nr, most) : "out of memory";

	memset(ret, 0, sizeof(*ret));
	if (why) {
		snprintf(ret->how, sizeof(ret->how), "not measured: %s", why);
		return;
	}
	for (unsigned i = 0; i < nr; i++)
		trials[i].target = &targets[i];
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct round r = {.read = read,
				  .stop = stop,
				  .most = most ? most / ARRAY_SIZE(shapes) : UINT64_MAX / 2,
				  .ns = (uint64_t)(sec * 1e9) / ARRAY_SIZE(shapes)};
		double speed = shape_run(&shapes[i], &r, trials, nr);

		ret->bytes += atomic_load(&r.moved);
		if (stop && atomic_load(stop))
			break; /* a round that was cut short tells nothing */
		limit_say(ret, speed, trials[0].block, shapes[i].threads, &r);
	}
}
