/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system that fails, comes up short and refuses O_DIRECT:
 *
 *	misbehaving ENGINE BADFS [async]
 *
 * where BADFS is the program of badfs.c, and "async" is for it.  Whatever it
 * does, the data are right or the error is clear.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/full_io.h"
#include "base/random.h"
#include "tests/common/modelrun.h"
#include "tests/common/mounts.h"
#include "tests/common/t.h"

enum { SEED = 81, LEN = 500001 };

static const char *engine = "threads";
static bool async_dio; /* short writes become EIO in the kernel */
static struct penstock_io *io;
static char path[PATH_MAX];
static unsigned char *data, *got;

static void open_with_threads(uint32_t direct, unsigned threads)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};

	o.engine = engine;
	o.block = KIB(64);
	o.depth = 8;
	o.threads = threads;
	o.direct = direct;
	T_ERR(penstock_open(&io, &o, &err), 0, &err);
}

static void open_handle(uint32_t direct)
{
	open_with_threads(direct, 2);
}

static void setup(void)
{
	data = aligned_alloc(4096, (LEN + 4096) / 4096 * 4096);
	got = aligned_alloc(4096, (LEN + 4096) / 4096 * 4096);
	T_OK(data && got);
	penstock_pattern_fill(data, LEN, SEED, 0);
	open_handle(PENSTOCK_DIRECT_AUTO);
}

static void teardown(void)
{
	penstock_close(io, NULL);
	io = NULL;
	free(data);
	free(got);
	data = got = NULL;
	unlink(path);
}

/* Use the file with this name, which says how it behaves. */
static void file_named(const char *name)
{
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s", t_path("bad"), name);
	unlink(path);
}

/* The same, and it has LEN bytes of data. */
static void fill_then_name(const char *name)
{
	unsigned char *p = data;
	int fd;

	file_named(name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	T_OK(fd >= 0);
	while (p < data + LEN) { /* it may be short or say try again here, too */
		ssize_t r = write(fd, p, (size_t)(data + LEN - p));

		if (r < 0 && errno != EAGAIN && errno != EINTR)
			T_FAIL("%s: %s", path, strerror(errno));
		p += r > 0 ? r : 0;
	}
	close(fd);
}

static struct penstock_done move(uint32_t code, void *buf, uint64_t len, uint64_t off,
				 unsigned turn)
{
	struct penstock_op op = {
		.opcode = code, .path = path, .buf = buf, .len = len, .offset = off};
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	uint64_t ticket;

	if (turn & 1) {
		T_ERR(penstock_submit(io, &op, 1, &ticket, &err), 1, &err);
		T_EQ(penstock_wait(io, ticket, T_NO_LIMIT, &d), 0);
	} else {
		T_ERR(penstock_run(io, &op, &d, &err), 0, &err);
	}
	return d;
}

#define MOVED(d, n)                                                                  \
	do {                                                                         \
		if ((d).res != (int64_t)(n))                                         \
			T_FAIL("%s: result %lld, not %lld (%s)", strrchr(path, '/'), \
			       (long long)(d).res, (long long)(n), (d).msg);         \
	} while (0)

static uint32_t all_is_right(void)
{
	static const uint64_t spots[][2] = {{0, LEN},     {0, 1},         {1, 4096},
					    {4096, 4096}, {65535, 65537}, {100, LEN - 200},
					    {0, 262144}};
	uint32_t flags = 0;

	for (unsigned i = 0; i < 2 * T_COUNT(spots); i++) {
		uint64_t off = spots[i / 2][0], len = spots[i / 2][1];
		struct penstock_done d = move(PENSTOCK_WRITE, data + off, len, off, i);

		MOVED(d, len);
		flags |= d.flags;
		memset(got, 0, len);
		d = move(PENSTOCK_READ, got, len, off, i);
		MOVED(d, len);
		flags |= d.flags;
		T_MEM(got, data + off, len);
	}
	T_EQ(t_file_size(path), LEN);
	/* small ones, many at a time */
	for (unsigned i = 0; i < 60; i++) {
		struct penstock_done d = move(PENSTOCK_READ, got, 777, i * 1000, i);

		MOVED(d, 777);
		T_MEM(got, data + i * 1000, 777);
	}
	return flags;
}

/* Not with short transfers where the kernel has its own idea of them. */
static bool name_fits(const char *name)
{
	return !async_dio || !strstr(name, "short=");
}

/* ---------------------------------------------------------------- transfers */

static void a_file_without_faults_works(void)
{
	struct penstock_stats st = {.size = sizeof(st)};

	file_named("plain");
	all_is_right();
	T_EQ(penstock_get_stats(io, &st), 0);
	T_OK(st.fallbacks & PENSTOCK_FALLBACK_NO_PREALLOC);
}

static void a_read_past_the_end_is_short(void)
{
	static const uint64_t sizes[] = {10, 4096, 5000, 65536, 100000};

	for (unsigned i = 0; i < 4 * T_COUNT(sizes); i++) {
		uint64_t size = sizes[i / 4], off = i & 2 ? 3 : 0;
		struct penstock_done d;

		file_named("plain");
		MOVED(move(PENSTOCK_WRITE, data, size, 0, i), size);
		memset(got, 0xa5, LEN);
		d = move(PENSTOCK_READ, got, LEN, off, i);
		MOVED(d, size - off);
		T_OK(d.flags & PENSTOCK_DONE_EOF);
		T_MEM(got, data + off, size - off);
	}
}

static void short_transfers_are_finished(void)
{
	static const char *const names[] = {"f,short=1", "f,short=2", "f,short=3", "f,short=7"};

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		if (!name_fits(names[i]))
			continue;
		file_named(names[i]);
		T_OK(all_is_right() & PENSTOCK_DONE_RETRIED);
	}
}

static void busy_and_interrupted_transfers_are_tried_again(void)
{
	static const char *const names[] = {"f,again=2", "f,again=3,short=2", "f,intr=2",
					    "f,intr=5", "f,again=5,intr=3,short=2"};

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		if (!name_fits(names[i]))
			continue;
		file_named(names[i]);
		T_OK(all_is_right() & PENSTOCK_DONE_RETRIED);
	}
}

/* One that is never let through is an error in the end, not a hang. */
static void forever_busy_is_an_error(void)
{
	static const char *const names[] = {"f,again=1", "f,intr=1,again=1"};

	for (unsigned i = 0; i < 2 * T_COUNT(names); i++) {
		struct penstock_done d;

		file_named(names[i / 2]);
		d = move(PENSTOCK_WRITE, data, 100000, 0, i);
		T_EQ(d.res, -EAGAIN);
		T_EQ(d.bytes, 0);
	}
}

static void a_read_error_is_in_the_completion(void)
{
	static const uint64_t at[] = {0, 1, 4096, 100000, 262144, 400001};

	for (unsigned i = 0; i < 4 * T_COUNT(at); i++) {
		uint64_t bad = at[i / 4], off = i & 2 ? bad / 2 : 0;
		struct penstock_done d;
		char name[64];

		snprintf(name, sizeof(name), "f,reio=%llu", (unsigned long long)bad);
		fill_then_name(name);
		memset(got, 0, LEN);
		d = move(PENSTOCK_READ, got, LEN - off, off, i);
		MOVED(d, -EIO);
		T_STR_HAS(d.msg, path);
		T_OK(d.bytes <= bad - off);
		T_MEM(got, data + off, d.bytes);
		/* around it all is well */
		if (bad) {
			d = move(PENSTOCK_READ, got, bad, 0, i);
			MOVED(d, bad);
			T_MEM(got, data, bad);
		}
		d = move(PENSTOCK_READ, got, LEN - bad - 1, bad + 1, i);
		if (d.res < 0) /* its first sector may have to be read */
			MOVED(d, -EIO);
		else
			T_MEM(got, data + bad + 1, LEN - bad - 1);
	}
}

static void a_write_error_is_in_the_completion(void)
{
	static const uint64_t at[] = {0, 1, 4096, 100000, 262144, 400001};
	struct stat st;

	for (unsigned i = 0; i < 4 * T_COUNT(at); i++) {
		uint64_t bad = at[i / 4], off = i & 2 ? bad / 2 : 0;
		struct penstock_done d;
		char name[64];
		int fd;

		snprintf(name, sizeof(name), "f,weio=%llu", (unsigned long long)bad);
		file_named(name);
		d = move(PENSTOCK_WRITE, data + off, LEN - off, off, i);
		MOVED(d, -EIO);
		T_STR_HAS(d.msg, path);
		T_OK(d.bytes <= bad - off);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		T_OK(fd >= 0);
		T_EQ(pread(fd, got, LEN, (off_t)off) >= (ssize_t)d.bytes, 1);
		T_MEM(got, data + off, d.bytes);
		T_EQ(fstat(fd, &st), 0);
		T_OK(st.st_size <= (off_t)(off + d.bytes)); /* not longer than what it says */
		close(fd);
	}
}

/* One bad block among many operations spoils only the one that met it. */
static void one_bad_block_fails_one_operation_of_many(void)
{
	enum { NR = 50, EACH = 10000 };
	struct penstock_op ops[NR];
	uint64_t tickets[NR];

	fill_then_name("f,reio=123456");
	memset(ops, 0, sizeof(ops));
	memset(got, 0, LEN);
	for (unsigned i = 0; i < NR; i++) {
		ops[i].opcode = PENSTOCK_READ;
		ops[i].path = path;
		ops[i].buf = got + i * EACH;
		ops[i].len = EACH;
		ops[i].offset = i * EACH;
	}
	T_EQ(penstock_submit(io, ops, NR, tickets, NULL), NR);
	for (unsigned i = 0; i < NR; i++) {
		struct penstock_done d;

		T_EQ(penstock_wait(io, tickets[i], T_NO_LIMIT, &d), 0);
		if (i == 123456 / EACH) {
			MOVED(d, -EIO);
			T_OK(d.bytes <= 123456 % EACH);
		} else {
			MOVED(d, EACH);
		}
		T_MEM(got + i * EACH, data + i * EACH, d.bytes);
	}
}

/* Small reads, together or one by one; all have to move what they were asked for. */
static void read_small(const uint64_t *off, unsigned nr, bool together)
{
	enum { MOST = 8, EACH = 777 };
	struct penstock_op ops[MOST] = {0};
	struct penstock_done d[MOST];

	for (unsigned i = 0; i < nr; i++)
		ops[i] = (struct penstock_op){.opcode = PENSTOCK_READ,
					      .path = path,
					      .buf = got + i * EACH,
					      .len = EACH,
					      .offset = off[i],
					      .tag = off[i] < LEN ? EACH : 0};
	for (unsigned i = 0; i < nr; i += together ? nr : 1)
		T_EQ(penstock_submit(io, ops + i, together ? nr : 1, NULL, NULL),
		     together ? nr : 1);
	for (unsigned n = 0; n < nr;) { /* who sleeps for a result would see that all is begun */
		int r = penstock_wait_any(io, d, 0, MOST, 0);

		T_OK(r >= 0);
		for (int i = 0; i < r; i++)
			MOVED(d[i], d[i].tag);
		n += (unsigned)r;
		sched_yield();
	}
	for (unsigned i = 0; i < nr; i++)
		T_MEM(got + i * EACH, data + off[i] % LEN, ops[i].tag);
}

/* One thread submits; a read ends only when there is another under way. */
static void a_slow_small_one_holds_up_no_other(void)
{
	enum { END = 2 * LEN }; /* which does not wait */
	static const uint64_t behind[] = {0, 777}, amid[] = {END, 0, 777, END, END, END, END, END};

	fill_then_name("f,meet=2");
	for (unsigned i = 0; i < 20; i++) {
		read_small(behind, T_COUNT(behind), false);
		read_small(amid, T_COUNT(amid), true);
	}
}

/* They hold up the I/O thread, which is a reason for another one. */
static void slow_small_ones_get_more_threads(void)
{
	static const uint64_t off[8] = {0};
	struct penstock_stats st = {.size = sizeof(st)};
	cpu_set_t cpus;

	if (strcmp(engine, "io_uring")) /* others need not wait where they submit */
		return;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || CPU_COUNT(&cpus) < 2)
		T_SKIP("processors", "one processor, one thread");
	fill_then_name("f,sleep=1");
	T_EQ(penstock_close(io, NULL), 0);
	io = NULL;
	open_with_threads(PENSTOCK_DIRECT_AUTO, 0);
	for (unsigned i = 0; i < 500 && st.threads < 2; i++) {
		read_small(off, T_COUNT(off), true);
		T_EQ(penstock_get_stats(io, &st), 0);
	}
	T_OK(st.threads >= 2);
}

static void a_full_device_fails_with_what_fitted(void)
{
	static const uint64_t fits[] = {0, 1, 5000, 65536, 262144, 300001};

	for (unsigned i = 0; i < 2 * T_COUNT(fits); i++) {
		struct penstock_done d;
		char name[64];

		snprintf(name, sizeof(name), "f,full=%llu", (unsigned long long)fits[i / 2]);
		file_named(name);
		d = move(PENSTOCK_WRITE, data, LEN, 0, i);
		if (!async_dio || d.res != -EIO)
			MOVED(d, -ENOSPC);
		T_OK(d.bytes <= fits[i / 2]);
		T_FILE(path, data, d.bytes);
	}
}

/* ----------------------------------------------------------------- O_DIRECT */

static void direct_refused_at_open_falls_back_and_is_told(void)
{
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_file *f = NULL;
	struct penstock_err err = {0, ""};

	file_named("f,nodirect=1");
	T_OK(!(all_is_right() & PENSTOCK_DONE_DIRECT));
	T_EQ(penstock_get_stats(io, &st), 0);
	T_OK(st.fallbacks & PENSTOCK_FALLBACK_BUFFERED);
	T_OK(st.fallback_why[0]);
	T_ERR(penstock_file_open(&f, io, path, O_RDWR, 0, &err), 0, &err);
	T_EQ(penstock_file_stat(f, &info), 0);
	T_EQ(info.direct, 0);
	T_OK(info.why[0]);
	T_EQ(penstock_close(io, NULL), 0);
	io = NULL;
	open_handle(PENSTOCK_DIRECT_ALWAYS);
	T_ERR(penstock_file_open(&f, io, path, O_RDWR, 0, &err), -EINVAL, &err);
}

static void direct_refused_by_transfers_falls_back_and_is_told(void)
{
	static const char *const names[] = {"f,nodirect=2", "f,nodirect=3"};

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		struct penstock_stats st = {.size = sizeof(st)};
		struct penstock_done d;

		file_named(names[i]);
		T_OK(all_is_right() & PENSTOCK_DONE_BUFFERED);
		T_EQ(penstock_get_stats(io, &st), 0);
		T_OK(st.fallbacks & PENSTOCK_FALLBACK_BUFFERED);
		T_EQ(penstock_close(io, NULL), 0);
		io = NULL;
		open_handle(PENSTOCK_DIRECT_ALWAYS);
		d = move(PENSTOCK_WRITE, data, 262144, 0, 1);
		T_EQ(d.res, -EINVAL);
		T_EQ(penstock_close(io, NULL), 0);
		io = NULL;
		open_handle(PENSTOCK_DIRECT_AUTO);
	}
}

/* It fails half way: the others of the same operation are in flight. */
static void direct_refused_by_odd_alignment_is_survived(void)
{
	static const char *const names[] = {"f,align=512", "f,align=4096", "f,align=65536",
					    "f,align=4096,short=3"};

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		if (!name_fits(names[i]))
			continue;
		file_named(names[i]);
		all_is_right();
	}
}

/* ------------------------------------------------------- the rest of the API */

static void a_failed_fsync_is_an_error(void)
{
	static const uint32_t flags[] = {PENSTOCK_OP_DATASYNC, PENSTOCK_OP_FULLSYNC};
	struct penstock_op op = {.path = path};
	struct penstock_done d;

	for (unsigned i = 0; i < 4; i++) {
		file_named("f,fsync=1");
		op.opcode = PENSTOCK_WRITE;
		op.buf = data;
		op.len = i & 2 ? LEN : 100;
		op.flags = flags[i & 1];
		T_EQ(penstock_run(io, &op, &d, NULL), 0);
		MOVED(d, -EIO);
		T_STR_HAS(d.msg, path);
		op = (struct penstock_op){.opcode = PENSTOCK_SYNC, .path = path};
		T_EQ(penstock_run(io, &op, &d, NULL), 0);
		MOVED(d, -EIO);
	}
}

static void a_failed_close_is_an_error(void)
{
	struct penstock_file *f = NULL;
	struct penstock_err err = {0, ""};

	file_named("f,flush=1");
	T_ERR(penstock_file_open(&f, io, path, O_RDWR | O_CREAT, 0644, &err), 0, &err);
	T_EQ(penstock_pwrite(f, data, 1000, 0, NULL), 1000);
	T_ERR(penstock_file_close(f, &err), -EIO, &err);
}

static void a_failed_reservation_is_an_error_or_harmless(void)
{
	static const char *const names[] = {"f,falloc=28", "f,falloc=5", "f,falloc=22",
					    "f,falloc=38", "f,falloc=4"};
	struct penstock_op op = {.opcode = PENSTOCK_WRITE, .path = path, .buf = data, .len = LEN};
	struct penstock_done d;

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		int r;

		file_named(names[i]);
		memset(&d, 0, sizeof(d));
		r = penstock_run(io, &op, &d, NULL);
		T_OK(r <= 0);
		if (r == 0 && d.res == LEN)
			T_FILE(path, data, LEN);
		else
			T_OK(t_file_size(path) <= (int64_t)d.bytes);
		if (i == 0)
			T_OK(r == -ENOSPC || (r == 0 && (d.res == -ENOSPC || d.res == LEN)));
	}
}

struct dice {
	struct penstock_random rnd;
	unsigned long left;
};

static uint64_t below(void *arg, uint64_t n)
{
	struct dice *d = arg;

	return penstock_random_below(&d->rnd, n);
}

static bool more(void *arg)
{
	struct dice *d = arg;

	return d->left && d->left--;
}

static void random_operations_agree_with_the_model(void)
{
	static const char *const names[] = {
		"d,short=3",
		"d,again=4,intr=7",
		"d,nodirect=2",
		"d,align=4096,short=5",
		"d,nodirect=3,short=2,again=5,intr=11",
	};
	uint64_t seed = t_seed();

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		struct dice d = {.left = t_ops(2000) / T_COUNT(names)};
		struct model_source s = {below, more, &d};
		struct model_config c = {
			.nr_files = 2, .max_size = 200000, .max_len = 70000, .reopen_every = 100};
		struct model_result r;

		if (!name_fits(names[i]))
			continue;
		file_named(names[i]);
		T_EQ(mkdir(path, 0755), 0);
		penstock_random_seed(&d.rnd, seed + i);
		c.engine = engine;
		c.dir = path;
		if (!model_run(&c, &s, &r))
			T_FAIL("%s: %s", names[i], r.why);
		rmdir(path);
	}
}

/* What might be a manifest by its size is read when it is opened: never half, never refused. */
static void what_may_be_a_manifest_is_read_whole(void)
{
	static const char *const names[] = {"f,again=2", "f,intr=2", "f,short=1",
					    "f,again=3,short=2"};
	static char text[4093] = "penstock striped file 1\nand nothing that belongs to one\n";
	struct penstock_err err;

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		if (!name_fits(names[i]))
			continue;
		for (unsigned n = 0; n < 50; n++) {
			struct penstock_op op = {
				.opcode = PENSTOCK_READ, .path = path, .buf = got, .len = 1};
			struct penstock_done d;
			int fd;

			file_named(names[i]);
			d = move(PENSTOCK_WRITE, data, sizeof(text), 0, n);
			MOVED(d, sizeof(text));
			d = move(PENSTOCK_READ, got, sizeof(text), 0, n);
			MOVED(d, sizeof(text));
			T_MEM(got, data, sizeof(text));
			fd = open(path, O_WRONLY | O_CLOEXEC);
			T_EQ(penstock_full_pwrite(fd, text, sizeof(text), 0), 0);
			close(fd);
			T_EQ(penstock_run(io, &op, &d, &err), -EBADMSG);
		}
	}
}

static const struct t_case cases[] = {
	T_CASE(a_file_without_faults_works),
	T_CASE(a_read_past_the_end_is_short),
	T_CASE(short_transfers_are_finished),
	T_CASE(busy_and_interrupted_transfers_are_tried_again),
	T_CASE(forever_busy_is_an_error),
	T_CASE(what_may_be_a_manifest_is_read_whole),
	T_CASE(a_read_error_is_in_the_completion),
	T_CASE(a_write_error_is_in_the_completion),
	T_CASE(one_bad_block_fails_one_operation_of_many),
	T_CASE(a_slow_small_one_holds_up_no_other),
	T_CASE(slow_small_ones_get_more_threads),
	T_CASE(a_full_device_fails_with_what_fitted),
	T_CASE(direct_refused_at_open_falls_back_and_is_told),
	T_CASE(direct_refused_by_transfers_falls_back_and_is_told),
	T_CASE(direct_refused_by_odd_alignment_is_survived),
	T_CASE(a_failed_fsync_is_an_error),
	T_CASE(a_failed_close_is_an_error),
	T_CASE(a_failed_reservation_is_an_error_or_harmless),
	T_CASE(random_operations_agree_with_the_model),
};

int main(int argc, char **argv)
{
	static const struct t_group group = {"misbehaving", setup, teardown, cases, T_COUNT(cases)};
	struct penstock_err err = {0, ""};

	if (argc < 3) {
		fprintf(stderr, "usage: misbehaving ENGINE BADFS [async]\n");
		return 2;
	}
	async_dio = argc > 3 && !strcmp(argv[3], "async");
	engine = t_engine(argv[1]);
	if (penstock_engine_probe(t_engine_need(engine), &err) < 0)
		t_skip_all(t_engine_need(engine), "%s: %s", engine, err.msg);
	mounts_need();
	mounts_badfs("bad", argv[2], async_dio);
	return t_run(&group, 1, NULL);
}
