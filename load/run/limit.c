/* SPDX-License-Identifier: Apache-2.0 */
#include "load/run/limit.h"

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

#define SHAPE_NS  500000000u
#define HUGE_PAGE (2u << 20)

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

struct trial {
	const struct limit_target *target;
	struct shape shape;
	const atomic_int *stop;
	bool read;
	uint64_t deadline_ns;
	_Atomic uint64_t next; /* block to do */
	_Atomic uint64_t bytes;
	_Atomic int error;
};

struct crew {
	struct trial *trial;
	pthread_t thread;
};

/* One block after the other until time is up; a block that ends later is not counted. */
static void trial_loop(struct trial *t, int fd, char *scratch)
{
	uint64_t block = t->shape.block, nr = t->target->len / block;

	while (clock_ns() < t->deadline_ns && !(t->stop && atomic_load(t->stop))) {
		uint64_t off = atomic_fetch_add(&t->next, 1) % nr * block;
		ssize_t n = t->read ? pread(fd, scratch, block, (off_t)off)
				    : pwrite(fd, t->target->content + off, block, (off_t)off);

		if (n < 0) {
			atomic_store(&t->error, errno);
			return;
		}
		if (clock_ns() <= t->deadline_ns)
			atomic_fetch_add(&t->bytes, (uint64_t)n);
	}
}

static void *crew_main(void *arg)
{
	struct trial *t = ((struct crew *)arg)->trial;
	int fd = open(t->target->path, (t->read ? O_RDONLY : O_WRONLY) | O_DIRECT | O_CLOEXEC);
	char *scratch = aligned_alloc(HUGE_PAGE, align_up(t->shape.block, HUGE_PAGE));

	if (fd < 0 || !scratch) {
		atomic_store(&t->error, fd < 0 ? errno : ENOMEM);
	} else {
		/* all of it: less than a huge page would stay on small ones, which cost more */
		madvise(scratch, align_up(t->shape.block, HUGE_PAGE), MADV_HUGEPAGE);
		trial_loop(t, fd, scratch);
	}
	free(scratch);
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* All targets at once, one shape.  Returns bytes per second or -errno. */
static double shape_run(const struct shape *shape, struct trial *trials, unsigned nr,
			uint64_t *moved)
{
	unsigned all = nr * shape->threads, started = 0;
	struct crew *crew = calloc(all, sizeof(*crew));
	uint64_t bytes = 0, deadline = clock_ns() + SHAPE_NS;
	int error = crew ? 0 : ENOMEM;

	for (unsigned i = 0; i < nr; i++) {
		struct trial *t = &trials[i];

		t->deadline_ns = deadline;
		t->shape = *shape;
		t->shape.block =
			min_u64(t->shape.block, align_down(t->target->len, t->target->align));
		atomic_store(&t->next, 0);
		atomic_store(&t->bytes, 0);
	}
	for (; !error && started < all; started++) {
		crew[started].trial = &trials[started % nr];
		error = pthread_create(&crew[started].thread, NULL, crew_main, &crew[started]);
		if (error)
			break;
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(crew[i].thread, NULL);
	for (unsigned i = 0; i < nr; i++) {
		bytes += atomic_load(&trials[i].bytes);
		error = error ? error : atomic_load(&trials[i].error);
	}
	free(crew);
	*moved += bytes;
	return error ? -error : (double)bytes / (SHAPE_NS / 1e9);
}

static void limit_say(struct limit_result *ret, double speed, const struct shape *shape, bool read)
{
	char block[SLUICE_SIZE_TEXT];

	if (speed < 0 && !ret->bytes_per_sec)
		snprintf(ret->how, sizeof(ret->how), "not measured: %s with O_DIRECT: %s",
			 read ? "pread" : "pwrite", sluice_strerror((int)speed));
	if (speed <= ret->bytes_per_sec)
		return;
	ret->bytes_per_sec = speed;
	snprintf(ret->how, sizeof(ret->how),
		 "measured: plain %s, O_DIRECT, %u threads a file, blocks of %s, best of %zu tries "
		 "of "
		 "%.1f s",
		 read ? "pread" : "pwrite", shape->threads, sluice_size_format(block, shape->block),
		 ARRAY_SIZE(shapes), SHAPE_NS / 1e9);
}

void limit_measure(struct limit_result *ret, const struct limit_target *targets, unsigned nr,
		   bool read, const atomic_int *stop)
{
	CLEANUP_FREE struct trial *trials = calloc(nr, sizeof(*trials));

	memset(ret, 0, sizeof(*ret));
	if (!trials) {
		snprintf(ret->how, sizeof(ret->how), "not measured: out of memory");
		return;
	}
	for (unsigned i = 0; i < nr; i++) {
		trials[i].target = &targets[i];
		trials[i].read = read;
		trials[i].stop = stop;
		if (targets[i].len < targets[i].align) {
			snprintf(ret->how, sizeof(ret->how),
				 "not measured: files are smaller than one O_DIRECT block");
			return;
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++)
		limit_say(ret, shape_run(&shapes[i], trials, nr, &ret->bytes), &trials[0].shape,
			  read);
}
