/* SPDX-License-Identifier: Apache-2.0 */
/* More than the pinned pool holds, many at a time, several handles, threads and devices. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "fixture.h"

enum { SEED = 21 };

static struct penstock_stats stats(void)
{
	struct penstock_stats st = {.size = sizeof(st)};

	T_EQ(penstock_get_stats(fixture_io, &st), 0);
	return st;
}

/* One operation that needs every piece several times over. */
static void a_transfer_may_be_larger_than_the_pool(void)
{
	const uint64_t len = MIB(80) + 4097;
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(0, len);
	struct penstock_op op;

	standin_delay_us(20);
	o.threads = 1;
	o.depth = 64;
	o.block = GIB(1); /* as large as it may be */
	fixture_open(&o);
	fixture_file_open(O_RDWR | O_CREAT);
	penstock_pattern_fill(fixture_see(dev, len), len, SEED, 0);
	op = fixture_op(PENSTOCK_WRITE, dev, len, 3);
	FIXTURE_DO(&op, len, 1);
	memset(fixture_see(dev, len), 0, len);
	op.opcode = PENSTOCK_READ;
	FIXTURE_DO(&op, len, 1);
	T_EQ(penstock_pattern_check(fixture_see(dev, len), len, SEED, 0), len);
	T_OK(stats().pinned_pool_bytes < len);
	T_OK(stats().blocks_pinned_pool >= 2 * (len / MIB(4)));
}

/* Pieces of all sizes at once, until there is none left. */
static void many_sizes_share_the_pool(void)
{
	enum { NR = 96 };
	const uint64_t each = MIB(3);
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(1, each * NR / 4);
	struct penstock_op ops[NR];
	uint64_t tickets[NR];

	t_file_make(fixture_path, SEED, MIB(4));
	o.depth = 128;
	o.block = MIB(4);
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < NR; i++)
			ops[i] = fixture_op(PENSTOCK_READ, dev + i * (each / 4),
					    i % 3 ? 4096 + i : each / 4 - 8192, i * 17);
		T_EQ(penstock_submit(fixture_io, ops, NR, tickets, NULL), NR);
		for (unsigned i = 0; i < NR; i++) {
			struct penstock_done d = fixture_wait(tickets[i]);
			const unsigned char *p = fixture_see((uintptr_t)ops[i].buf, ops[i].len);

			T_EQ(d.res, ops[i].len);
			T_EQ(penstock_pattern_check(p, ops[i].len, SEED, ops[i].offset),
			     ops[i].len);
		}
	}
}

static void many_small_ones_share_events(void)
{
	enum { NR = 3000, EACH = 4096 };
	static struct penstock_op ops[NR];
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(0, (size_t)NR * EACH);
	struct standin_count before, after;
	struct penstock_summary sum;

	t_file_make(fixture_path, SEED, (uint64_t)NR * EACH + 512);
	standin_delay_us(0);
	o.depth = 128;
	o.threads = 1;
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	for (unsigned i = 0; i < NR; i++)
		ops[i] = fixture_op(PENSTOCK_READ, dev + i * EACH, EACH,
				    i * EACH + (i % 2 ? 77 : 0));
	before = standin_count();
	T_EQ(penstock_submit(fixture_io, ops, NR, NULL, NULL), NR);
	T_EQ(penstock_wait_all(fixture_io, T_NO_LIMIT, &sum), 0);
	after = standin_count();
	T_EQ(sum.failed, 0);
	for (unsigned i = 0; i < NR; i++)
		T_EQ(penstock_pattern_check(fixture_see(dev + i * EACH, EACH), EACH, SEED,
					    ops[i].offset),
		     EACH);
	T_OK(after.copies - before.copies >= NR);
	t_note("%lu copies, %lu events", after.copies - before.copies,
	       after.records - before.records);
	if (!fixture_faulty)
		T_OK(after.records - before.records < NR);
}

/* ----------------------------------------------------------- beside others */

struct user {
	struct penstock_io *io;
	int device;
	unsigned nr;
	CUdeviceptr dev;
	char path[PATH_MAX];
};

/* In its own thread, with or without a context of its own. */
static void *use(void *arg)
{
	struct user *u = arg;
	struct penstock_op op = {.path = u->path, .buf = (void *)(uintptr_t)u->dev, .len = 300001};
	struct penstock_done d;
	unsigned char *p = standin_hidden(u->dev, op.len);

	for (unsigned i = 0; i < 8; i++) {
		op.offset = i * 1001;
		op.opcode = PENSTOCK_WRITE;
		penstock_pattern_fill(p, op.len, u->nr * 100 + i, 0);
		T_CHECK(penstock_run(u->io, &op, &d, NULL) == 0);
		T_CHECK(d.res == (int64_t)op.len);
		memset(p, 0, op.len);
		op.opcode = PENSTOCK_READ;
		T_CHECK(penstock_run(u->io, &op, &d, NULL) == 0);
		T_CHECK(d.res == (int64_t)op.len);
		T_CHECK(penstock_pattern_check(p, op.len, u->nr * 100 + i, 0) == op.len);
	}
	T_CHECK(standin_depth() == 0);
	return NULL;
}

static void two_handles_and_four_threads_do_not_disturb_each_other(void)
{
	struct user users[4];
	pthread_t threads[4];
	struct penstock_io *second;
	struct penstock_opts o = fixture_opts();
	void *msg;

	fixture_open(NULL);
	T_EQ(penstock_open(&second, &o, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		users[i].io = i / 2 ? second : fixture_io;
		users[i].nr = i;
		users[i].dev = fixture_alloc((int)i % 2, 300001);
		snprintf(users[i].path, sizeof(users[i].path), "%s-%u", fixture_path, i);
		T_EQ(pthread_create(&threads[i], NULL, use, &users[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], &msg);
		T_JOINED(msg);
		unlink(users[i].path);
	}
	T_EQ(penstock_close(second, NULL), 0);
}

/* Copies of the one are stuck behind a stream of the user's; the other must not care. */
static void host_memory_goes_on_while_copies_wait(void)
{
	const uint64_t len = MIB(100);
	static unsigned char host[1 << 20] __attribute__((aligned(4096)));
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(0, len);
	struct penstock_done d;
	struct penstock_op op;
	uint64_t t;

	t_file_make(fixture_path, SEED, len);
	standin_delay_us(0);
	o.threads = 1;
	o.depth = 128;
	o.block = MIB(1);
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	T_EQ(standin_hold(NULL), 0);
	op = fixture_op(PENSTOCK_READ, dev, len, 0);
	op.flags = PENSTOCK_OP_STREAM;
	t = fixture_submit(&op);
	for (unsigned i = 0; i < 200; i++) {
		struct penstock_op other =
			fixture_op(PENSTOCK_READ, (uintptr_t)host, sizeof(host), 0);

		d = fixture_wait(fixture_submit(&other));
		T_EQ(d.res, sizeof(host));
		T_OK(!(d.flags & PENSTOCK_DONE_PINNED_POOL));
	}
	T_EQ(penstock_wait(fixture_io, t, 0, &d), -ETIMEDOUT);
	standin_release();
	T_EQ(fixture_wait(t).res, len);
	T_EQ(penstock_pattern_check(fixture_see(dev, len), len, SEED, 0), len);
}

struct chain {
	sem_t over;
	CUdeviceptr dev;
	unsigned left, failed;
};

static void next_link(void *arg, const struct penstock_done *done)
{
	struct chain *c = arg;
	struct penstock_op op;

	c->failed += done->res != 4096;
	/* what a callback of the user's may do */
	cuCtxSetCurrent(c->left % 2 ? fixture_ctx[1] : NULL);
	if (!c->left--) {
		sem_post(&c->over);
		return;
	}
	op = fixture_op(PENSTOCK_READ, c->dev + c->left * 4096, 4096, c->left * 4096);
	op.on_done = next_link;
	op.arg = c;
	if (penstock_submit(fixture_io, &op, 1, NULL, NULL) != 1) {
		c->failed++;
		sem_post(&c->over);
	}
}

static void a_callback_may_submit_device_memory(void)
{
	struct chain c = {.left = 100, .dev = fixture_alloc(0, KIB(512))};
	struct penstock_op op;

	t_file_make(fixture_path, SEED, KIB(512));
	sem_init(&c.over, 0, 0);
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, c.dev + KIB(400), 4096, KIB(400));
	op.on_done = next_link;
	op.arg = &c;
	T_EQ(penstock_submit(fixture_io, &op, 1, NULL, NULL), 1);
	while (sem_wait(&c.over) < 0)
		;
	T_EQ(penstock_wait_all(fixture_io, T_NO_LIMIT, NULL), 0);
	T_EQ(c.failed, 0);
	T_EQ(penstock_pattern_check(fixture_see(c.dev, KIB(404)), KIB(404), SEED, 0), KIB(404));
}

/* ------------------------------------------------------------ ends and limits */

static void a_cancelled_read_tells_how_far_it_came(void)
{
	const uint64_t len = MIB(64);
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(0, len);
	struct penstock_done d;
	struct penstock_op op;
	uint64_t t;

	t_file_make(fixture_path, SEED, len);
	o.threads = 1;
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, len, 0);
	for (unsigned i = 0; i < 4; i++) {
		t = fixture_submit(&op);
		T_EQ(penstock_cancel(fixture_io, t), 0);
		d = fixture_wait(t);
		T_EQ(d.res, -ECANCELED);
		T_OK(d.bytes < len);
		T_EQ(penstock_pattern_check(fixture_see(dev, len), d.bytes, SEED, 0), d.bytes);
	}
}

static void in_a_child_the_handle_is_the_parents(void)
{
	CUdeviceptr dev = fixture_alloc(0, MIB(1));
	struct penstock_op op;
	struct penstock_done d;
	int status;
	pid_t pid;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	FIXTURE_DO(&op, MIB(1), 0);
	pid = fork();
	T_OK(pid >= 0);
	if (!pid) {
		int r = penstock_run(fixture_io, &op, &d, NULL) == -ECHILD ? 0 : 1;

		r |= penstock_close(fixture_io, NULL) ? 2 : 0;
		_exit(r);
	}
	memset(fixture_see(dev, MIB(1)), 0, MIB(1));
	FIXTURE_DO(&op, MIB(1), 1);
	T_EQ(penstock_pattern_check(fixture_see(dev, MIB(1)), MIB(1), SEED, 0), MIB(1));
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
}

static void closing_waits_for_copies(void)
{
	CUdeviceptr dev = fixture_alloc(0, MIB(8));
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(8));
	standin_delay_us(2000);
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, MIB(8), 0);
	fixture_submit(&op);
	fixture_close(0);
	standin_delay_us(100);
	T_EQ(penstock_pattern_check(fixture_see(dev, MIB(8)), MIB(8), SEED, 0), MIB(8));
}

static void every_depth_and_number_of_threads_works(void)
{
	static const unsigned depths[] = {1, 2, 3, 300}, threads[] = {1, 5};
	CUdeviceptr dev = fixture_alloc(0, MIB(3));
	struct penstock_op op;

	for (unsigned i = 0; i < 8; i++) {
		struct penstock_opts o = fixture_opts();

		o.depth = depths[i % 4];
		o.threads = threads[i / 4];
		o.flags = i % 3 == 1 ? PENSTOCK_NO_OVERLAP : i % 3 ? PENSTOCK_SINGLE_SUBMIT : 0;
		o.block = 512;
		o.huge = i % 3;
		fixture_open(&o);
		fixture_file_open(O_RDWR | O_CREAT | O_TRUNC);
		penstock_pattern_fill(fixture_see(dev, MIB(3)), MIB(3), SEED + i, 0);
		op = fixture_op(PENSTOCK_WRITE, dev + 1, 500000, 0);
		FIXTURE_DO(&op, 500000, 1);
		memset(fixture_see(dev, MIB(3)) + 1, 0, 500000);
		op.opcode = PENSTOCK_READ;
		FIXTURE_DO(&op, 500000, 0);
		T_EQ(penstock_pattern_check(fixture_see(dev, MIB(3)), MIB(3), SEED + i, 0), MIB(3));
		fixture_close(0);
	}
}

static const struct t_case cases[] = {
	T_CASE(a_transfer_may_be_larger_than_the_pool),
	T_CASE(many_sizes_share_the_pool),
	T_CASE(many_small_ones_share_events),
	T_CASE(two_handles_and_four_threads_do_not_disturb_each_other),
	T_CASE(host_memory_goes_on_while_copies_wait),
	T_CASE(a_callback_may_submit_device_memory),
	T_CASE(a_cancelled_read_tells_how_far_it_came),
	T_CASE(in_a_child_the_handle_is_the_parents),
	T_CASE(closing_waits_for_copies),
	T_CASE(every_depth_and_number_of_threads_works),
};

static void setup(void)
{
	fixture_setup();
	standin_delay_us(100);
}

const struct t_group pinned_pool_load = {
	"load", setup, fixture_teardown, cases, T_COUNT(cases),
};
