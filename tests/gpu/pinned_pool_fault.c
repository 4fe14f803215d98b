/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the driver fails once, with and without coming back: each operation then
 * fails and names the error, or its data are right; nothing is left over, nothing hangs,
 * and the handle goes on working.
 */
#include <signal.h>
#include <sys/resource.h>

#include "fixture.h"
#include "tests/common/mounts.h"

enum { SEED = 41, ILLEGAL_ADDRESS = 700, OUT_OF_MEMORY = 2 };

static uint64_t len, block; /* of the operations: small blocks share events, large ones do not */
static CUdeviceptr dev[2];
static CUstream stream;
static unsigned long failures; /* operations that did */
static int code;               /* what the driver says */

static void setup(void)
{
	fixture_setup();
	standin_delay_us(10);
	dev[0] = fixture_alloc(0, MIB(1));
	dev[1] = fixture_alloc(1, MIB(1));
	T_EQ(cuStreamCreate(&stream, 1), 0);
	len = 200001;
	block = KIB(64);
}

static void teardown(void)
{
	struct penstock_io *io = fixture_io;

	standin_fail(NULL, 0, 0, false);
	standin_release();
	if (standin_failed())
		t_note("the last to fail was %s", standin_failed());
	fixture_io = NULL;
	penstock_close(io, NULL);
	cuStreamDestroy_v2(stream);
	standin_delay_us(100);
	fixture_teardown();
}

/* True: it went well.  Otherwise the message must say why. */
static bool went_well(int64_t res, uint64_t want, const char *msg)
{
	if (res == (int64_t)want)
		return true;
	failures++;
	T_EQ(res, code == OUT_OF_MEMORY ? -ENOMEM : -EIO);
	T_STR_HAS(msg, code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
					     : "CUDA_ERROR_ILLEGAL_ADDRESS");
	return false;
}

static bool run(const struct penstock_op *op, uint64_t want)
{
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	int r = penstock_run(fixture_io, op, &d, &err);

	if (r < 0)
		return went_well(r, want, err.msg);
	if (d.res < 0 && op->opcode == PENSTOCK_READ)
		T_EQ(penstock_pattern_check(fixture_see((uintptr_t)op->buf, d.bytes), d.bytes, SEED,
					    op->offset),
		     d.bytes);
	return went_well(d.res, want, d.msg);
}

static void read_back(int device)
{
	struct penstock_op op = fixture_op(PENSTOCK_READ, dev[device] + 1, len, 77);

	memset(fixture_see(dev[device], MIB(1)), 0, MIB(1));
	if (run(&op, len))
		T_EQ(penstock_pattern_check(fixture_see(dev[device] + 1, len), len, SEED, 77), len);
}

/* What is in the file is right whatever happened to others that wrote the same there. */
static void write_some(int device, bool in_order)
{
	struct penstock_op op = fixture_op(PENSTOCK_WRITE, dev[device] + 1, len, 77);
	unsigned char *want = malloc(len + 77);

	penstock_pattern_fill(want, len + 77, SEED, 0);
	memcpy(fixture_see(dev[device] + 1, len), want + 77, len);
	op.flags = in_order ? PENSTOCK_OP_STREAM : 0;
	op.stream = stream;
	if (run(&op, len)) {
		int fd = open(fixture_path, O_RDONLY | O_CLOEXEC);
		unsigned char *got = malloc(len);

		T_OK(fd >= 0);
		T_EQ(pread(fd, got, len, 77), len);
		T_MEM(got, want + 77, len);
		close(fd);
		free(got);
	}
	free(want);
}

static void several_at_once(void)
{
	enum { NR = 12 };
	struct penstock_op ops[NR];
	uint64_t tickets[NR];
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	int n;

	for (unsigned i = 0; i < NR; i++) {
		ops[i] = fixture_op(PENSTOCK_READ, dev[i % 2] + i * 16384, 16384, 77 + i * 1000);
		memset(fixture_see(dev[i % 2] + i * 16384, 16384), 0, 16384);
	}
	n = penstock_submit(fixture_io, ops, NR, tickets, &err);
	if (n < 0)
		went_well(n, NR, err.msg);
	else if (n < NR)
		failures++;
	for (int i = 0; i < n; i++) {
		const unsigned char *p = fixture_see((uintptr_t)ops[i].buf, 16384);

		d = fixture_wait(tickets[i]);
		if (went_well(d.res, 16384, d.msg))
			T_EQ(penstock_pattern_check(p, 16384, SEED, ops[i].offset), 16384);
	}
}

static void scatter(void)
{
	struct penstock_iov iov[] = {{(void *)(uintptr_t)(dev[0] + 1), 100},
				     {(void *)(uintptr_t)(dev[1] + 1), 70000},
				     {(void *)(uintptr_t)(dev[0] + 4096), 5000},
				     {(void *)(uintptr_t)(dev[0] + 65536), 30000}};
	struct penstock_op op = fixture_op(PENSTOCK_READ, 0, 0, 77);
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	uint64_t at = 77;
	int r;

	op.iov = iov;
	op.nr_iov = T_COUNT(iov);
	r = penstock_run(fixture_io, &op, &d, &err);
	if (!went_well(r < 0 ? r : d.res, 105100, r < 0 ? err.msg : d.msg))
		return;
	for (unsigned i = 0; i < T_COUNT(iov); at += iov[i++].len)
		T_EQ(penstock_pattern_check(fixture_see((uintptr_t)iov[i].addr, iov[i].len),
					    iov[i].len, SEED, at),
		     iov[i].len);
}

static void scenario(void)
{
	struct penstock_opts o = fixture_opts();

	o.block = block;
	o.threads = 1; /* so that the Nth call is the same each time */
	fixture_open(&o);
	fixture_file_open(O_RDWR);
	write_some(0, false);
	read_back(0);
	write_some(1, true);
	read_back(1);
	several_at_once();
	scatter();
	fixture_close(0);
}

/* One run; false: there are no more calls than that. */
static bool run_once(const char *function, unsigned long n, bool for_good)
{
	struct standin_count before = standin_count(), after;
	const char *failed;
	unsigned depth = standin_depth();

	failures = 0;
	standin_fail(function, n, code, for_good);
	scenario();
	failed = standin_failed();
	standin_fail(NULL, 0, 0, false);
	after = standin_count();
	T_EQ(standin_depth(), depth);
	T_EQ(after.streams, before.streams);
	T_EQ(after.events, before.events);
	T_EQ(after.contexts, before.contexts);
	T_EQ(after.registrations, before.registrations);
	if (!failed)
		T_EQ(failures, 0);
	return failed != NULL;
}

/* What the library calls; of those it calls all the time the first few will do. */
static const struct {
	const char *name;
	unsigned long most;
} functions[] = {
	{"cuPointerGetAttributes", 40}, {"cuDevicePrimaryCtxRetain", 40},
	{"cuCtxSetCurrent", 40},        {"cuStreamCreate", 40},
	{"cuMemHostRegister_v2", 40},   {"cuMemcpyHtoDAsync_v2", 40},
	{"cuMemcpyDtoHAsync_v2", 40},   {"cuEventCreate", 40},
	{"cuEventRecord", 40},          {"cuEventQuery", 20},
	{"cuStreamQuery", 40},          {"cuStreamWaitEvent", 40},
	{"cuStreamSynchronize", 40},    {"cuStreamGetCtx", 40},
	{"cuCtxPushCurrent_v2", 40},    {"cuCtxPopCurrent_v2", 40},
	{"cuEventDestroy_v2", 40},      {"cuStreamDestroy_v2", 40},
	{"cuMemHostUnregister", 40},    {"cuDevicePrimaryCtxRelease_v2", 40},
};

static void each_call_in_turn(void)
{
	unsigned long runs = 0, bad = 0;

	t_file_make(fixture_path, SEED, MIB(1));
	for (unsigned i = 0; i < T_COUNT(functions); i++)
		for (unsigned long n = 1; n <= functions[i].most; n += T_STEP) {
			if (!run_once(functions[i].name, n, false))
				break;
			runs++;
			bad += failures > 0;
		}
	t_note("%lu calls, %lu of them failed something", runs, bad);
	T_OK(runs > 60 / T_STEP);
	T_OK(bad > 30 / T_STEP);
}

/* Is there one that the list above does not know?  All of these fail at once. */
static void no_function_is_forgotten(void)
{
	t_file_make(fixture_path, SEED, MIB(1));
	code = ILLEGAL_ADDRESS;
	for (unsigned long n = 1; n < 60; n++) {
		bool known = false;

		standin_fail(NULL, n, code, false);
		scenario();
		for (unsigned i = 0; standin_failed() && i < T_COUNT(functions); i++)
			known |= !strcmp(standin_failed(), functions[i].name);
		if (!known)
			t_note("%s", standin_failed() ? standin_failed() : "nothing");
		T_OK(known);
	}
}

static void any_call_may_fail_once(void)
{
	code = ILLEGAL_ADDRESS;
	each_call_in_turn();
}

static void any_call_may_lack_memory_once(void)
{
	code = OUT_OF_MEMORY;
	len = 900001;
	block = KIB(512);
	each_call_in_turn();
}

/* A driver that says no to one function for ever. */
static void any_function_may_fail_for_good(void)
{
	t_file_make(fixture_path, SEED, MIB(1));
	code = ILLEGAL_ADDRESS;
	for (unsigned i = 0; i < T_COUNT(functions); i++)
		for (unsigned n = 1; n < 4; n++)
			run_once(functions[i].name, n, true);
}

static void after_a_failure_the_handle_works(void)
{
	t_file_make(fixture_path, SEED, MIB(1));
	code = ILLEGAL_ADDRESS;
	failures = 0;
	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	/* the first attempt to make a pinned pool, then the second */
	standin_fail("cuMemHostRegister_v2", 1, code, false);
	read_back(0);
	T_EQ(failures, 1);
	standin_fail("cuEventQuery", 1, code, false);
	read_back(0);
	T_OK(failures <= 2);
	standin_fail(NULL, 0, 0, false);
	failures = 0;
	read_back(0);
	write_some(1, true);
	T_EQ(failures, 0);
}

static void a_smaller_pool_is_made_where_memory_is_short(void)
{
	struct penstock_stats st = {.size = sizeof(st)};

	t_file_make(fixture_path, SEED, MIB(1));
	code = OUT_OF_MEMORY;
	failures = 0;
	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	standin_fail("cuMemHostRegister_v2", 1, code, false);
	read_back(0);
	T_EQ(failures, 0);
	T_EQ(penstock_get_stats(fixture_io, &st), 0);
	T_EQ(st.pinned_pool_bytes, MIB(64));
}

/* As after a fault in a kernel: what is in host memory can be saved. */
static void host_memory_outlives_the_driver(void)
{
	static unsigned char host[100000];
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	struct penstock_op op;

	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	penstock_pattern_fill(host, sizeof(host), SEED, 0);
	standin_fail("cuPointerGetAttributes", 1, ILLEGAL_ADDRESS, true);
	op = fixture_op(PENSTOCK_WRITE, (uintptr_t)host, sizeof(host), 0);
	FIXTURE_DO(&op, sizeof(host), 0);
	FIXTURE_DO(&op, sizeof(host), 1);
	op = fixture_op(PENSTOCK_WRITE, dev[0], sizeof(host), 0);
	T_ERR(penstock_run(fixture_io, &op, &d, &err), -EIO, &err);
	T_STR_HAS(err.msg, "buf: cuPointerGetAttributes: CUDA_ERROR_ILLEGAL_ADDRESS");
	T_FILE(fixture_path, host, sizeof(host));
}

/* -------------------------------------------------- the other side fails */

static void memory_past_the_allocation_is_an_error_of_the_driver(void)
{
	struct standin_count before = standin_count();
	struct penstock_op op;
	struct penstock_done d;

	t_file_make(fixture_path, SEED, MIB(2));
	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	op = fixture_op(PENSTOCK_READ, dev[0], MIB(1) + 1, 0);
	d = fixture_wait(fixture_submit(&op));
	T_EQ(d.res, -EIO);
	T_STR_HAS(d.msg, "cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE");
	T_EQ(d.bytes, MIB(1) - MIB(1) % KIB(64));
	T_EQ(penstock_pattern_check(fixture_see(dev[0], d.bytes), d.bytes, SEED, 0), d.bytes);
	op.opcode = PENSTOCK_WRITE;
	d = fixture_wait(fixture_submit(&op));
	T_EQ(d.res, -EIO);
	T_STR_HAS(d.msg, "cuMemcpyDtoHAsync: CUDA_ERROR_INVALID_VALUE");
	fixture_errors = standin_count().errors - before.errors;
	T_OK(fixture_errors > 0);
}

static void a_limit_on_the_files_size_ends_a_write(void)
{
	struct rlimit old, small;
	struct penstock_op op;
	struct penstock_done d;
	struct penstock_err err = {0, ""};
	int r;

	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	T_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = KIB(256);
	signal(SIGXFSZ, SIG_IGN);
	T_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	penstock_pattern_fill(fixture_see(dev[0], MIB(1)), MIB(1), SEED, 0);
	op = fixture_op(PENSTOCK_WRITE, dev[0], MIB(1), 0);
	r = penstock_run(fixture_io, &op, &d, &err);
	T_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
	T_OK(r == -EFBIG || (r == 0 && d.res == -EFBIG));
}

/* A name that sorts last: the file system is gone with the program. */
static void a_full_file_system_ends_a_write(void)
{
	char path[PATH_MAX];
	struct penstock_op op;
	struct penstock_done d = {0};
	struct penstock_err err = {0, ""};
	int r;

	if (geteuid())
		T_SKIP("root", "needs root");
	mounts_need();
	T_EQ(mounts_tmpfs("small", "size=256k"), 0);
	snprintf(path, sizeof(path), "%s/file", t_path("small"));
	fixture_open(NULL);
	penstock_pattern_fill(fixture_see(dev[1], MIB(1)), MIB(1), SEED, 0);
	op = fixture_op(PENSTOCK_WRITE, dev[1], MIB(1), 0);
	op.path = path;
	r = penstock_run(fixture_io, &op, &d, &err);
	T_OK(r == -ENOSPC || (r == 0 && d.res == -ENOSPC));
	fixture_close(0);
	mounts_end("small");
}

static const struct t_case cases[] = {
	T_CASE(no_function_is_forgotten),
	T_CASE(any_call_may_fail_once),
	T_CASE(any_call_may_lack_memory_once),
	T_CASE(any_function_may_fail_for_good),
	T_CASE(after_a_failure_the_handle_works),
	T_CASE(a_smaller_pool_is_made_where_memory_is_short),
	T_CASE(host_memory_outlives_the_driver),
	T_CASE(memory_past_the_allocation_is_an_error_of_the_driver),
	T_CASE(a_limit_on_the_files_size_ends_a_write),
	T_CASE(a_full_file_system_ends_a_write),
};

const struct t_group pinned_pool_fault = {
	"fault", setup, teardown, cases, T_COUNT(cases),
};
