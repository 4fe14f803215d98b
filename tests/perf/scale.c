/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One handle at every core: millions of operations a second, by submitters and I/O threads.
 *
 *	perf-scale [-f FILE] [-e ENGINE] [-w SECONDS] [-m any|ticket|run] [-p] [-T MOST]
 *
 * Each submitter reads 4 KiB at a time, 32 in one call, and waits for them: `any' (the
 * default) by one call of penstock_wait_any(), `ticket' by each ticket, `run' by blocking calls
 * instead of batches.  Rows are I/O threads of one handle: 1, 4, 8, and as many as submitters;
 * the last row has a handle of one I/O thread for each submitter.  -p asks for the time of one
 * hand-over and back as well.  Without -f, engine null and a file of its own; a file on tmpfs, or
 * in the page cache, shows what a handle adds to copying.
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "measure.h"

enum { SMALL = 4096, BATCH = 32, MOST = 64 };

static const char *path, *engine = "null", *mode = "any";
static double seconds = 0.5;
static atomic_bool stop;
static atomic_uint ready;

struct submitter {
	pthread_t thread;
	struct penstock_io *io;
	struct penstock_file *file;
	uint64_t ops;
	uint64_t random;
	void *buf;    /* another may collect what is read into it: it lives as long as the handle */
	char pad[80]; /* neighbours must not share a cache line */
};

static void check(int64_t got, int64_t want, const char *what)
{
	if (got != want)
		die("%s: %" PRId64 " instead of %" PRId64, what, got, want);
}

static void wait_batch(struct submitter *s, const uint64_t *tickets, struct penstock_done *done)
{
	if (*mode == 'a') {
		/* Another submitter may have collected some of ours, and we some of theirs. */
		int n = penstock_wait_any(s->io, done, BATCH, BATCH, -1);

		if (n < 0)
			die("wait_any: %d", n);
		s->ops += (unsigned)n;
		return;
	}
	for (unsigned i = 0; i < BATCH; i++)
		check(penstock_wait(s->io, tickets[i], -1, &done[i]), 0, "wait");
}

static void one_batch(struct submitter *s, char *buf, uint64_t blocks, struct penstock_done *done)
{
	struct penstock_op ops[BATCH];
	uint64_t tickets[BATCH];
	struct penstock_err err;

	for (unsigned i = 0; i < BATCH; i++)
		ops[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
					      .file = s->file,
					      .buf = buf + (size_t)i * SMALL,
					      .len = SMALL,
					      .offset = random_next(&s->random) % blocks * SMALL};
	if (*mode == 'r') {
		for (unsigned i = 0; i < BATCH; i++)
			check(penstock_run(s->io, &ops[i], &done[i], &err), 0, "run");
	} else {
		check(penstock_submit(s->io, ops, BATCH, tickets, &err), BATCH, "submit");
		wait_batch(s, tickets, done);
	}
	if (*mode != 'a')
		s->ops += BATCH;
}

static void *submitter_main(void *arg)
{
	struct submitter *s = arg;
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_done *done = calloc(BATCH, sizeof(*done));

	if (!done || penstock_mem_alloc(&s->buf, (uint64_t)BATCH * SMALL, 0, 0, NULL, NULL) < 0)
		die("no memory");
	fill(s->buf, (uint64_t)BATCH * SMALL);
	penstock_file_stat(s->file, &info);
	atomic_fetch_add(&ready, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		one_batch(s, s->buf, info.bytes / SMALL, done);
	free(done);
	return NULL;
}

static void open_one(struct submitter *s, unsigned threads)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err;

	o.engine = engine;
	o.threads = threads;
	if (penstock_open(&s->io, &o, &err) < 0 ||
	    penstock_file_open(&s->file, s->io, path, O_RDONLY, 0, &err) < 0)
		die("%s", err.msg);
}

/* Million operations a second; @each: a handle for each submitter. */
static double measure(unsigned n, unsigned threads, bool each)
{
	struct submitter *s = calloc(n, sizeof(*s));
	struct timespec nap = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	uint64_t ops = 0;
	double t;

	if (!s)
		die("no memory");
	atomic_store(&stop, false);
	atomic_store(&ready, 0);
	for (unsigned i = 0; i < n; i++) {
		s[i].random = 20011029 + i * 7919;
		if (each || !i)
			open_one(&s[i], threads);
		s[i].io = each ? s[i].io : s[0].io;
		s[i].file = each ? s[i].file : s[0].file;
		if (pthread_create(&s[i].thread, NULL, submitter_main, &s[i]))
			die("no threads");
	}
	while (atomic_load(&ready) < n)
		usleep(100);
	t = wall_now();
	nanosleep(&nap, NULL);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < n; i++)
		pthread_join(s[i].thread, NULL);
	t = wall_now() - t;
	for (unsigned i = 0; i < n; i++) {
		ops += s[i].ops;
		if (each || !i)
			penstock_close(s[i].io, NULL);
	}
	for (unsigned i = 0; i < n; i++)
		penstock_mem_free(s[i].buf, (uint64_t)BATCH * SMALL);
	free(s);
	return 1e-6 * (double)ops / t;
}

/* Microseconds of one operation, submitted and waited for; engine null does nothing itself. */
static void hand_over(void)
{
	enum { TIMES = 200000 };
	struct submitter s = {0};
	static char buf[SMALL] __attribute__((aligned(SMALL)));
	struct penstock_op op = {.opcode = PENSTOCK_READ, .buf = buf, .len = SMALL};
	struct penstock_done done;
	uint64_t ticket;
	double t;

	open_one(&s, 1);
	op.file = s.file;
	t = wall_now();
	for (unsigned i = 0; i < TIMES; i++) {
		check(penstock_submit(s.io, &op, 1, &ticket, NULL), 1, "submit");
		check(penstock_wait(s.io, ticket, -1, &done), 0, "wait");
	}
	printf("hand-over and back: %.2f us\n", 1e6 * (wall_now() - t) / TIMES);
	penstock_close(s.io, NULL);
}

static void row(const char *name, unsigned threads, bool each, unsigned most)
{
	printf("%-28s", name);
	for (unsigned n = 1; n <= most; n *= 2) {
		printf(" %7.2f", measure(n, threads ? threads : n, each));
		fflush(stdout);
	}
	printf("\n");
}

static void make_file(char *name)
{
	int fd = mkstemp(name);

	if (fd < 0 || ftruncate(fd, 1 << 20) < 0)
		die("%s: cannot be made", name);
	close(fd);
}

int main(int argc, char **argv)
{
	char own[] = "perf-scale-XXXXXX";
	unsigned most = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	bool pair = false;
	int c;

	while ((c = getopt(argc, argv, "f:e:w:m:pT:")) != -1) {
		if (c == 'f')
			path = optarg;
		else if (c == 'e')
			engine = optarg;
		else if (c == 'w')
			seconds = atof(optarg);
		else if (c == 'm')
			mode = optarg;
		else if (c == 'p')
			pair = true;
		else if (c == 'T')
			most = (unsigned)atoi(optarg);
		else
			die("see the top of scale.c");
	}
	most = most > MOST ? MOST : most;
	if (!path) {
		make_file(own);
		path = own;
	}
	printf("%-28s", "submitters");
	for (unsigned n = 1; n <= most; n *= 2)
		printf(" %7u", n);
	printf("   (Mops/s, engine %s, %s)\n", engine, mode);
	row("one handle, 1 I/O thread", 1, false, most);
	row("one handle, 4 I/O threads", 4, false, most);
	row("one handle, 8 I/O threads", 8, false, most);
	row("one handle, one for each", 0, false, most);
	row("a handle for each", 1, true, most);
	if (pair)
		hand_over();
	if (path == own)
		unlink(own);
	return 0;
}
