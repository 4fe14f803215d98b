/* SPDX-License-Identifier: Apache-2.0 */
/* Order against streams of the user's. */
#include "fixture.h"

enum { SEED = 31 };

static const uint64_t len = 300001;
static CUdeviceptr dev;
static CUstream stream;

static void setup(void)
{
	fixture_setup();
	standin_delay_us(100);
	dev = fixture_alloc(0, MIB(1));
	T_EQ(cuStreamCreate(&stream, 1), 0);
	fixture_open(NULL);
}

static void teardown(void)
{
	struct penstock_io *io = fixture_io;

	standin_fail(NULL, 0, 0, false);
	standin_release();
	fixture_io = NULL;
	penstock_close(io, NULL);
	cuStreamDestroy_v2(stream);
	fixture_teardown();
}

static struct penstock_op ordered(enum penstock_opcode code, CUstream s)
{
	struct penstock_op op = fixture_op(code, dev + 1, len, 0);

	op.flags = PENSTOCK_OP_STREAM;
	op.stream = s;
	return op;
}

/* Work that is queued, does not run yet, and is overtaken unless somebody waits for it. */
static void queue_fill(int byte, CUstream s)
{
	T_EQ(standin_hold(s), 0);
	T_EQ(standin_fill(dev, byte, MIB(1), s), 0);
}

static bool is_filled(const unsigned char *p, int byte)
{
	for (uint64_t i = 0; i < len; i++)
		if (p[i] != byte)
			return false;
	return true;
}

static void write_after_fill(CUstream s, int byte)
{
	struct penstock_op op = ordered(PENSTOCK_WRITE, s);
	unsigned char *got = malloc(len);
	struct penstock_done d;
	uint64_t t;

	queue_fill(byte, s);
	t = fixture_submit(&op);
	T_EQ(penstock_wait(fixture_io, t, 20000000, &d), -ETIMEDOUT);
	standin_release();
	T_EQ(fixture_wait(t).res, len);
	memset(got, byte, len);
	T_FILE(fixture_path, got, len);
	free(got);
}

static void a_write_sees_what_was_queued_before_it(void)
{
	fixture_file_open(O_RDWR | O_CREAT);
	write_after_fill(stream, 0x11);
	write_after_fill(NULL, 0x22);
	write_after_fill(stream, 0x33);
}

static void a_read_does_not_overtake_what_was_queued_before_it(void)
{
	struct penstock_op op;
	struct penstock_done d;
	uint64_t t;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDONLY);
	for (unsigned i = 0; i < 2; i++) {
		CUstream s = i ? NULL : stream;

		op = ordered(PENSTOCK_READ, s);
		queue_fill(0x44, s);
		t = fixture_submit(&op);
		T_EQ(penstock_wait(fixture_io, t, 20000000, &d), -ETIMEDOUT);
		standin_release();
		T_EQ(fixture_wait(t).res, len);
		T_EQ(penstock_pattern_check(fixture_see(dev + 1, len), len, SEED, 0), len);
	}
}

static void without_the_flag_nothing_is_waited_for(void)
{
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDONLY);
	queue_fill(0x55, stream);
	op = ordered(PENSTOCK_READ, stream);
	op.flags = 0;
	FIXTURE_DO(&op, len, 0);
	standin_release();
	T_EQ(cuStreamSynchronize(stream), 0);
	T_OK(is_filled(fixture_see(dev + 1, len), 0x55));
}

static void unordered_transfers_pass_ordered_ones(void)
{
	CUdeviceptr other = fixture_alloc(0, MIB(1));
	struct penstock_op op, free_op;
	struct penstock_done d;
	uint64_t t;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDONLY);
	queue_fill(0x66, stream);
	op = ordered(PENSTOCK_READ, stream);
	t = fixture_submit(&op);
	for (unsigned i = 0; i < 20; i++) {
		free_op = fixture_op(PENSTOCK_READ, other, MIB(1), 0);
		FIXTURE_DO(&free_op, MIB(1), i);
	}
	T_EQ(penstock_wait(fixture_io, t, 0, &d), -ETIMEDOUT);
	standin_release();
	T_EQ(fixture_wait(t).res, len);
	T_EQ(penstock_pattern_check(fixture_see(dev + 1, len), len, SEED, 0), len);
}

/* Also where the other waits already, and whether it reads or writes. */
static void transfers_behind_one_stream_pass_those_behind_another(void)
{
	CUdeviceptr other = fixture_alloc(0, MIB(1));
	struct penstock_op op, passing;
	struct penstock_done d;
	CUstream second;
	uint64_t t;

	T_EQ(cuStreamCreate(&second, 1), 0);
	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDWR);
	for (unsigned i = 0; i < 2; i++) {
		enum penstock_opcode code = i ? PENSTOCK_WRITE : PENSTOCK_READ;

		queue_fill(0x77, stream);
		op = ordered(code, stream);
		op.offset = code == PENSTOCK_WRITE ? MIB(1) : 0;
		t = fixture_submit(&op);
		T_EQ(penstock_wait(fixture_io, t, 20000000, &d), -ETIMEDOUT);
		for (unsigned k = 0; k < 20; k++) {
			passing = fixture_op(code, other, MIB(1), 0);
			passing.flags = PENSTOCK_OP_STREAM;
			passing.stream = second;
			FIXTURE_DO(&passing, MIB(1), k);
		}
		T_EQ(penstock_wait(fixture_io, t, 0, &d), -ETIMEDOUT);
		standin_release();
		T_EQ(fixture_wait(t).res, len);
	}
	T_EQ(cuStreamDestroy_v2(second), 0);
}

/* One mark in the stream is enough for all that is submitted at once. */
static void operations_submitted_together_share_a_mark(void)
{
	enum { NR = 40 };
	struct standin_count before, after;
	struct penstock_op ops[NR];
	struct penstock_summary sum;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDONLY);
	for (unsigned i = 0; i < NR; i++) {
		ops[i] = fixture_op(PENSTOCK_READ, dev + i * 4096, 4096, i * 4096);
		ops[i].flags = PENSTOCK_OP_STREAM;
		ops[i].stream = i < NR / 2 ? stream : NULL;
	}
	T_EQ(standin_hold(stream), 0);
	before = standin_count();
	T_EQ(penstock_submit(fixture_io, ops, NR, NULL, NULL), NR);
	after = standin_count();
	/* while the gate is shut the copies of the second half may have had events of their own */
	T_OK(after.records - before.records < NR / 2);
	T_OK(after.events - before.events < NR / 2);
	standin_release();
	T_EQ(penstock_wait_all(fixture_io, T_NO_LIMIT, &sum), 0);
	T_EQ(sum.failed, 0);
	T_EQ(penstock_pattern_check(fixture_see(dev, NR * 4096), NR * 4096, SEED, 0), NR * 4096);
}

static void a_stream_of_host_memory_is_not_looked_at(void)
{
	static unsigned char host[4096];
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, (uintptr_t)host, sizeof(host), 0);
	op.flags = PENSTOCK_OP_STREAM;
	op.stream = (void *)8;
	FIXTURE_DO(&op, sizeof(host), 0);
	FIXTURE_DO(&op, sizeof(host), 1);
}

static void a_mark_that_fails_refuses_the_operation(void)
{
	static const char *const calls[] = {"cuStreamGetCtx", "cuCtxPushCurrent_v2",
					    "cuEventCreate", "cuEventRecord"};
	struct penstock_err err = {0, ""};
	struct penstock_op op;
	uint64_t t;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_file_open(O_RDONLY);
	op = ordered(PENSTOCK_READ, stream);
	T_EQ(standin_hold(stream), 0);
	for (unsigned i = 0; i < T_COUNT(calls); i++) {
		standin_fail(calls[i], 1, 700, false);
		T_ERR(penstock_submit(fixture_io, &op, 1, &t, &err), -EIO, &err);
		T_STR_HAS(err.msg, "CUDA_ERROR_ILLEGAL_ADDRESS");
		T_OK(!strcmp(standin_failed(), calls[i]));
		standin_fail(NULL, 0, 0, false);
		T_EQ(standin_depth(), 1);
	}
	standin_release();
	FIXTURE_DO(&op, len, 1);
}

static void a_cancelled_operation_forgets_its_mark(void)
{
	struct penstock_opts o = fixture_opts();
	struct penstock_op op;
	struct penstock_done d;
	uint64_t tickets[8];

	t_file_make(fixture_path, SEED, MIB(8));
	fixture_close(0);
	o.threads = 1;
	o.depth = 1;
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	queue_fill(0x77, stream);
	for (unsigned i = 0; i < 8; i++) {
		op = ordered(PENSTOCK_READ, stream);
		tickets[i] = fixture_submit(&op);
	}
	for (unsigned i = 8; i-- > 0;) {
		int r = penstock_cancel(fixture_io, tickets[i]);

		T_OK(r == 0 || r == -EALREADY);
	}
	standin_release();
	for (unsigned i = 0; i < 8; i++) {
		d = fixture_wait(tickets[i]);
		T_OK(d.res == -ECANCELED || d.res == (int64_t)len);
	}
}

static const struct t_case cases[] = {
	T_CASE(a_write_sees_what_was_queued_before_it),
	T_CASE(a_read_does_not_overtake_what_was_queued_before_it),
	T_CASE(without_the_flag_nothing_is_waited_for),
	T_CASE(unordered_transfers_pass_ordered_ones),
	T_CASE(transfers_behind_one_stream_pass_those_behind_another),
	T_CASE(operations_submitted_together_share_a_mark),
	T_CASE(a_stream_of_host_memory_is_not_looked_at),
	T_CASE(a_mark_that_fails_refuses_the_operation),
	T_CASE(a_cancelled_operation_forgets_its_mark),
};

const struct t_group pinned_pool_order = {
	"order", setup, teardown, cases, T_COUNT(cases),
};
