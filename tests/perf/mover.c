/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program gets from the library: one measurement per run, through the public
 * API only, printed as one line of JSON.
 *
 *	perf-mover MODE -f FILE [OPTION...]
 *
 *	read, overwrite, fresh	one blocking transfer of -s bytes from or into -m memory
 *	randread		4 KiB random reads for -w seconds; each completion submits the next
 *	null-large, null-single	-c blocks of 4 KiB through engine null: one operation, or one each,
 *				which completions submit
 *	null-batch, null-ticket	the same 32 in a call, and a call to wait for them, or one for each
 *	sync, sync-cached	penstock_pread() of 4 KiB against pread(2) on the same descriptor
 *	many-read, many-write	512 operations of 128 KiB against one of 64 MiB
 *	lists			-s bytes read in operations of 1 MiB, each into pieces of -b bytes
 *
 *	-s SIZE  -b BLOCK  -d DEPTH  -t THREADS  -e ENGINE	(the library's defaults)
 *	-m own|plain|odd	penstock_buf_alloc(); the caller's memory on 4 KiB pages; the
 *				same, one byte further (own)
 *	-w SECONDS  -c COUNT  -C: copy nothing that can go straight
 *
 * For transfers the clock starts when memory is allocated and filled, the file is open
 * and the transfer has been done WARM_UP times, as in bare.c; for a fresh write opening (which
 * creates the file) is inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "measure.h"

enum {
	SMALL = 4096,
	PIECES = 512,
	PIECE = 128 << 10,
	BATCH = 32,      /* calls of one kind in a row in mode sync */
	SEED = 20011029, /* of random offsets, so that runs repeat */
};

struct args {
	const char *mode;
	const char *path;
	const char *memory;
	struct penstock_opts opts;
	uint64_t size;
	uint64_t count;
	double seconds;
};

static struct penstock_io *io;
static struct penstock_file *file;
static struct penstock_err err;

static void handle_open(const struct args *a)
{
	if (penstock_open(&io, &a->opts, &err) < 0)
		die("%s", err.msg);
}

static void data_open(const char *path, int oflags)
{
	if (penstock_file_open(&file, io, path, oflags, 0644, &err) < 0)
		die("%s", err.msg);
}

/* Size of the open file in blocks of @block bytes, at least one. */
static uint64_t file_blocks(uint64_t block)
{
	struct penstock_file_info info = {.size = sizeof(info)};

	penstock_file_stat(file, &info);
	if (info.bytes < block)
		die("the file is too small: %" PRIu64 " bytes are needed", block);
	return info.bytes / block;
}

static void *own_memory(uint64_t len)
{
	void *p = NULL;

	if (penstock_buf_alloc(&p, io, len, 0, NULL, &err) < 0)
		die("%s", err.msg);
	fill(p, len);
	return p;
}

static void *map(uint64_t len, int flags)
{
	void *p =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		die("no memory for %" PRIu64 " bytes", len);
	return p;
}

static void *memory(const struct args *a)
{
	bool odd = !strcmp(a->memory, "odd");
	char *p;

	if (!strcmp(a->memory, "own"))
		return own_memory(a->size);
	if (!odd && strcmp(a->memory, "plain") != 0)
		die("%s: neither own, plain nor odd", a->memory);
	p = map(a->size + 1, 0);
	madvise(p, a->size + 1, MADV_NOHUGEPAGE);
	fill(p, a->size + 1);
	return p + odd;
}

/* Everything about one run but the line's last fields, which are the mode's. */
static void report(const char *mode, struct span t, uint64_t ops, uint64_t bytes)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_stats st = {.size = sizeof(st)};

	penstock_file_stat(file, &info);
	penstock_get_stats(io, &st);
	printf("{\"mode\": \"%s\", \"engine\": \"%s\", \"direct\": %s, \"block\": %" PRIu64
	       ", \"depth\": %u, "
	       "\"threads\": %u, \"fallbacks\": %u, \"blocks\": %" PRIu64 ", \"blocks_fixed\": "
	       "%" PRIu64 ", \"submit_calls\": %" PRIu64 ", \"wakeups\": %" PRIu64
	       ", \"ops\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f, "
	       "\"cpu_seconds\": %.6f, \"iops\": %.1f",
	       mode, st.engine, info.direct ? "true" : "false", info.block, st.depth, st.threads,
	       st.fallbacks, st.blocks, st.blocks_fixed, st.submit_calls, st.wakeups, ops, bytes,
	       t.wall, t.cpu, (double)ops / t.wall);
}

static void report_end(void)
{
	printf("}\n");
	if (penstock_close(io, &err) < 0)
		die("%s", err.msg);
}

/* ------------------------------------------------------- one large transfer */

static void move(bool write, void *buf, uint64_t size)
{
	int64_t r = write ? penstock_pwrite(file, buf, size, 0, &err)
			  : penstock_pread(file, buf, size, 0, &err);

	if (r < 0)
		die("%s", err.msg);
	if ((uint64_t)r != size)
		die("%" PRId64 " bytes instead of %" PRIu64, r, size);
}

static void run_bulk(const struct args *a)
{
	bool fresh = !strcmp(a->mode, "fresh"), write = fresh || !strcmp(a->mode, "overwrite");
	int oflags = fresh ? O_RDWR | O_CREAT | O_TRUNC : write ? O_RDWR : O_RDONLY;
	struct span t;
	void *buf;

	handle_open(a);
	buf = memory(a);
	data_open(a->path, oflags);
	for (int i = 0; i < WARM_UP; i++)
		move(write, buf, a->size);
	if (fresh) {
		penstock_file_close(file, NULL);
		unlink(a->path);
	}
	t = span_start();
	if (fresh)
		data_open(a->path, oflags);
	move(write, buf, a->size);
	t = span_since(t);
	report(a->mode, t, 1, a->size);
	printf(", \"memory\": \"%s\", \"huge_bytes\": %" PRIu64, a->memory, huge_bytes());
	report_end();
}

/* ------------------------------------------------- operations in a circle */

/*
 * One operation that, when finished, submits the next; a circle of these never
 * leaves the I/O threads.  It ends when @left is used up or @stop is set.
 */
struct slot {
	uint64_t random;
	uint64_t done;
	uint64_t left;
	char *buf;
	uint64_t blocks; /* of the file */
	char pad[88];    /* two cache lines each: slots of different threads must not share */
};

static atomic_bool stop;

static void slot_done(void *arg, const struct penstock_done *done);

static void slot_submit(struct slot *s)
{
	struct penstock_op op = {
		.opcode = PENSTOCK_READ,
		.file = file,
		.buf = s->buf,
		.len = SMALL,
		.offset = random_next(&s->random) % s->blocks * SMALL,
		.on_done = slot_done,
		.arg = s,
	};
	struct penstock_err e;

	if (penstock_submit(io, &op, 1, NULL, &e) != 1)
		die("%s", e.msg);
}

static void slot_done(void *arg, const struct penstock_done *done)
{
	struct slot *s = arg;

	if (done->res != SMALL)
		die("%s", done->res < 0 ? done->msg : "a short read");
	s->done++;
	if (--s->left && !atomic_load_explicit(&stop, memory_order_relaxed))
		slot_submit(s);
}

/* Run @n slots of @each operations, at most @seconds (0: without limit), and report. */
static void circle(const char *mode, unsigned n, uint64_t each, double seconds)
{
	struct slot *slots = calloc(n, sizeof(*slots));
	struct timespec nap = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	char *buf = own_memory((uint64_t)n * SMALL);
	uint64_t blocks = file_blocks(SMALL), ops = 0;
	struct span t;

	if (!slots)
		die("no memory");
	for (unsigned i = 0; i < n; i++)
		slots[i] = (struct slot){.random = SEED + i * 7919,
					 .left = each,
					 .buf = buf + (uint64_t)i * SMALL,
					 .blocks = blocks};
	t = span_start();
	for (unsigned i = 0; i < n; i++)
		slot_submit(&slots[i]);
	if (seconds > 0) {
		nanosleep(&nap, NULL);
		atomic_store(&stop, true);
	}
	penstock_wait_all(io, -1, NULL);
	t = span_since(t);
	for (unsigned i = 0; i < n; i++)
		ops += slots[i].done;
	report(mode, t, ops, ops * SMALL);
	report_end();
	free(slots);
}

static void run_randread(const struct args *a)
{
	struct penstock_stats st = {.size = sizeof(st)};

	handle_open(a);
	data_open(a->path, O_RDONLY);
	penstock_get_stats(io, &st);
	circle(a->mode, st.depth * st.threads, UINT64_MAX, a->seconds);
}

/* --------------------------------------------------- cost of the library */

/* Submitting, the hand-over, the way back and waiting, which operations of callbacks have not. */
static void batches(const char *mode, uint64_t count)
{
	struct penstock_op ops[BATCH];
	struct penstock_done done[BATCH];
	uint64_t tickets[BATCH];
	char *buf = own_memory((uint64_t)BATCH * SMALL);
	bool by_ticket = !strcmp(mode, "null-ticket");
	struct span t;

	for (unsigned i = 0; i < BATCH; i++)
		ops[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
					      .file = file,
					      .buf = buf + (size_t)i * SMALL,
					      .len = SMALL,
					      .offset = (uint64_t)i * SMALL};
	t = span_start();
	for (uint64_t n = 0; n < count; n += BATCH) {
		if (penstock_submit(io, ops, BATCH, tickets, &err) != BATCH)
			die("%s", err.msg);
		for (unsigned i = 0; by_ticket && i < BATCH; i++)
			if (penstock_wait(io, tickets[i], -1, &done[i]) < 0)
				die("a ticket was lost");
		if (!by_ticket && penstock_wait_any(io, done, BATCH, BATCH, -1) != BATCH)
			die("a batch was lost");
	}
	t = span_since(t);
	report(mode, t, count, count * SMALL);
	report_end();
}

static void run_null(const struct args *a)
{
	struct args null = *a;
	uint64_t len = a->count * SMALL;
	struct span t;
	void *buf;

	null.opts.engine = "null";
	null.opts.block = SMALL;
	handle_open(&null);
	data_open(a->path, O_RDONLY);
	if (!strcmp(a->mode, "null-single")) {
		struct penstock_stats st = {.size = sizeof(st)};

		penstock_get_stats(io, &st);
		circle(a->mode, st.depth, (a->count + st.depth - 1) / st.depth, 0);
		return;
	}
	if (strcmp(a->mode, "null-large") != 0) {
		batches(a->mode, a->count);
		return;
	}
	buf = map(len, MAP_NORESERVE); /* never touched */
	t = span_start();
	if (penstock_pread(file, buf, len, 0, &err) != (int64_t)len)
		die("%s", err.msg);
	t = span_since(t);
	report(a->mode, t, a->count, len);
	report_end();
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts. */
static double quantile(double *values, unsigned n, double q)
{
	qsort(values, n, sizeof(*values), by_value);
	return values[(unsigned)(q * (double)(n - 1) + 0.5)];
}

static double time_penstock(void *buf, uint64_t offset)
{
	double t = wall_now();

	if (penstock_pread(file, buf, SMALL, offset, &err) != SMALL)
		die("%s", err.msg);
	return wall_now() - t;
}

static double time_bare(int fd, void *buf, uint64_t offset)
{
	double t = wall_now();

	if (pread(fd, buf, SMALL, (off_t)offset) != SMALL)
		die("pread: %s", strerror(errno));
	return wall_now() - t;
}

/*
 * The same random offsets both ways, in batches that take turns in going first.  A
 * difference is that of two calls with the same offset.  Cached: without O_DIRECT and
 * after reading it once, where no device hides what the library adds.
 */
static void run_sync(const struct args *a)
{
	bool cached = !strcmp(a->mode, "sync-cached");
	int fd = open(a->path, (cached ? 0 : O_DIRECT) | O_RDONLY | O_CLOEXEC);
	unsigned n = (unsigned)(a->count / BATCH ? a->count / BATCH * BATCH : BATCH);
	double *ours = calloc(n, sizeof(*ours)), *bare = calloc(n, sizeof(*bare));
	double *more = calloc(n, sizeof(*more));
	uint64_t random = SEED, blocks, offsets[BATCH];
	struct span t;
	char *buf;

	if (fd < 0 || !ours || !bare || !more)
		die("%s: %s", a->path, strerror(errno));
	handle_open(a);
	if (penstock_file_from_fd(&file, io, fd, &err) < 0)
		die("%s", err.msg);
	buf = own_memory(SMALL);
	blocks = file_blocks(SMALL);
	if (cached && blocks > 4096)
		blocks = 4096;
	for (uint64_t i = 0; i < (cached ? blocks : 64); i++)
		time_bare(fd, buf, i % blocks * SMALL);

	t = span_start();
	for (unsigned i = 0; i < n; i += BATCH) {
		for (unsigned k = 0; k < BATCH; k++)
			offsets[k] = random_next(&random) % blocks * SMALL;
		for (unsigned turn = 0; turn < 2; turn++) {
			bool first = turn == (i / BATCH & 1);

			for (unsigned k = 0; k < BATCH; k++)
				*(first ? &ours[i + k] : &bare[i + k]) =
					first ? time_penstock(buf, offsets[k])
					      : time_bare(fd, buf, offsets[k]);
		}
	}
	t = span_since(t);
	for (unsigned i = 0; i < n; i++)
		more[i] = ours[i] - bare[i];
	report(a->mode, t, 2 * (uint64_t)n, 2 * (uint64_t)n * SMALL);
	printf(", \"penstock_us\": %.3f, \"bare_us\": %.3f, \"more_us\": %.3f, "
	       "\"more_us_q1\": %.3f, \"more_us_q3\": %.3f",
	       1e6 * quantile(ours, n, 0.5), 1e6 * quantile(bare, n, 0.5),
	       1e6 * quantile(more, n, 0.5), 1e6 * quantile(more, n, 0.25),
	       1e6 * quantile(more, n, 0.75));
	report_end();
	close(fd);
	free(ours);
	free(bare);
	free(more);
}

/* ------------------------------------------------ many small, one large */

/* Submit @n equal parts of 64 MiB at @offset, wait for all of them; returns seconds. */
static double time_parts(uint32_t opcode, char *buf, uint64_t offset, unsigned n)
{
	static struct penstock_op ops[PIECES];
	uint64_t total = (uint64_t)PIECES * PIECE, len = total / n;
	struct penstock_summary sum;
	double t;

	for (unsigned i = 0; i < n; i++)
		ops[i] = (struct penstock_op){.opcode = opcode,
					      .file = file,
					      .buf = buf + i * len,
					      .len = len,
					      .offset = offset + i * len};
	t = wall_now();
	if (penstock_submit(io, ops, n, NULL, &err) != (int)n)
		die("%s", err.msg);
	penstock_wait_all(io, -1, &sum);
	t = wall_now() - t;
	if (sum.failed || sum.bytes != total)
		die("%s", sum.failed ? sum.msg : "a short transfer");
	return t;
}

static void run_many(const struct args *a)
{
	uint32_t opcode = !strcmp(a->mode, "many-write") ? PENSTOCK_WRITE : PENSTOCK_READ;
	uint64_t total = (uint64_t)PIECES * PIECE, ranges, next = 0;
	unsigned n = (unsigned)a->count;
	double *small = calloc(n, sizeof(*small)), *large = calloc(n, sizeof(*large));
	struct span t;
	char *buf;

	if (!small || !large)
		die("no memory");
	handle_open(a);
	data_open(a->path, opcode == PENSTOCK_WRITE ? O_RDWR : O_RDONLY);
	buf = own_memory(total);
	ranges = file_blocks(total);
	time_parts(opcode, buf, 0, 1); /* first contact */
	time_parts(opcode, buf, 0, PIECES);
	t = span_start();
	for (unsigned i = 0; i < n; i++) {
		for (unsigned turn = 0; turn < 2; turn++) {
			bool many = turn == (i & 1);
			double s =
				time_parts(opcode, buf, next++ % ranges * total, many ? PIECES : 1);

			*(many ? &small[i] : &large[i]) = s;
		}
	}
	t = span_since(t);
	report(a->mode, t, (uint64_t)n * (PIECES + 1), 2 * n * total);
	printf(", \"many_seconds\": %.6f, \"one_seconds\": %.6f", quantile(small, n, 0.5),
	       quantile(large, n, 0.5));
	report_end();
	free(small);
	free(large);
}

/* ------------------------------------------------------- scattered memory */

enum { LISTS = 32, LIST = 1 << 20 };

/* Neighbours of a list lie apart: between them are pieces of the others. */
static void run_lists(const struct args *a)
{
	uint64_t piece = a->opts.block ? a->opts.block : 64 << 10, rounds = a->size / LIST / LISTS;
	unsigned n = (unsigned)(LIST / piece);
	struct penstock_iov *iov = calloc((size_t)LISTS * n, sizeof(*iov));
	struct penstock_op ops[LISTS];
	struct penstock_summary sum;
	struct args plain = *a;
	struct span t;
	char *buf;

	if (!iov || !n || LIST % piece)
		die("-b %" PRIu64 " does not divide %d", piece, LIST);
	plain.opts.block = 0;
	handle_open(&plain);
	data_open(a->path, O_RDONLY);
	if (file_blocks(LIST) < rounds * LISTS)
		die("the file is too small");
	buf = own_memory((uint64_t)LISTS * LIST);
	for (unsigned k = 0; k < LISTS; k++) {
		ops[k] = (struct penstock_op){
			.opcode = PENSTOCK_READ, .file = file, .iov = iov + k * n, .nr_iov = n};
		for (unsigned i = 0; i < n; i++)
			iov[k * n + i] =
				(struct penstock_iov){buf + (i * LISTS + k) * piece, piece};
	}
	t = span_start();
	for (uint64_t r = 0; r < rounds; r++) {
		for (unsigned k = 0; k < LISTS; k++)
			ops[k].offset = (r * LISTS + k) * LIST;
		if (penstock_submit(io, ops, LISTS, NULL, &err) != LISTS)
			die("%s", err.msg);
		penstock_wait_all(io, -1, &sum);
		if (sum.failed || sum.bytes != (uint64_t)LISTS * LIST)
			die("%s", sum.failed ? sum.msg : "a short transfer");
	}
	t = span_since(t);
	report(a->mode, t, rounds * LISTS, rounds * LISTS * LIST);
	report_end();
	free(iov);
}

/* ------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(const struct args *a);
	uint64_t count; /* unless -c says otherwise */
} modes[] = {
	{"read", run_bulk, 0},
	{"overwrite", run_bulk, 0},
	{"fresh", run_bulk, 0},
	{"randread", run_randread, 0},
	{"null-large", run_null, 1 << 22},
	{"null-single", run_null, 1 << 22},
	{"null-batch", run_null, 1 << 22},
	{"null-ticket", run_null, 1 << 22},
	{"sync", run_sync, 4096},
	{"sync-cached", run_sync, 65536},
	{"many-read", run_many, 16},
	{"many-write", run_many, 16},
	{"lists", run_lists, 0},
};

int main(int argc, char **argv)
{
	struct args a = {
		.memory = "own", .opts = PENSTOCK_OPTS_INIT, .size = 1 << 30, .seconds = 2};
	int c;

	while ((c = getopt(argc, argv, "Cb:c:d:e:f:m:s:t:w:")) != -1) {
		if (c == 'C')
			a.opts.flags |= PENSTOCK_SPARE_CPU;
		else if (c == 'b')
			a.opts.block = size_arg(optarg);
		else if (c == 'c')
			a.count = size_arg(optarg);
		else if (c == 'd')
			a.opts.depth = (uint32_t)size_arg(optarg);
		else if (c == 'e')
			a.opts.engine = optarg;
		else if (c == 'f')
			a.path = optarg;
		else if (c == 'm')
			a.memory = optarg;
		else if (c == 's')
			a.size = size_arg(optarg);
		else if (c == 't')
			a.opts.threads = (uint32_t)size_arg(optarg);
		else if (c == 'w')
			a.seconds = strtod(optarg, NULL);
		else
			return 2;
	}
	if (optind + 1 != argc || !a.path)
		die("usage: perf-mover MODE -f FILE [OPTION...]");
	a.mode = argv[optind];
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(a.mode, modes[i].name) != 0)
			continue;
		if (!a.count)
			a.count = modes[i].count;
		modes[i].run(&a);
		return 0;
	}
	die("%s: no such mode", a.mode);
}
