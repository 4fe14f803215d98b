/* SPDX-License-Identifier: Apache-2.0 */
/* What cuFile refuses or leaves unfinished, and what CUDA does. */
#include "tests/gpu/cufile.h"

enum { SEED = 31 };

static void short_returns_are_finished(void)
{
	static const int most[] = {1000, 4096, 70001};
	const uint64_t len = MIB(1) + 77;
	CUdeviceptr dev = fixture_alloc(0, MIB(2));
	struct penstock_done d;
	struct penstock_op op;

	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < T_COUNT(most); i++) {
		cf->shorten = most[i];
		penstock_pattern_fill(fixture_see(dev, MIB(2)) + 5, len, SEED + i, 0);
		op = fixture_op(PENSTOCK_WRITE, dev + 5, len, 0);
		d = FIXTURE_DO(&op, len, i);
		T_OK(T_BIT(d.flags, PENSTOCK_DONE_RETRIED) == (most[i] < 65536));
		T_FILE_PATTERN(fixture_path, SEED + i, len);
		memset(fixture_see(dev, MIB(2)), 0, MIB(2));
		op.opcode = PENSTOCK_READ;
		FIXTURE_DO(&op, len, i);
		T_EQ(penstock_pattern_check(fixture_see(dev, MIB(2)) + 5, len, SEED + i, 0), len);
	}
	cf->ragged = 0; /* what is left of a page is written as part of one */
}

static void errors_have_their_names(void)
{
	static const struct {
		int with, code, want;
		const char *name;
	} errors[] = {
		{-5030, 0, -EIO, "cuFileRead: CU_FILE_INTERNAL_ERROR (5030)"},
		{-5008, 0, -EIO, "CU_FILE_IO_NOT_SUPPORTED"},
		{-5999, 0, -EIO, "unknown cuFile error (5999)"},
		{-1, EIO, -EIO, "Input/output error"},
		{-1, ENOSPC, -ENOSPC, "No space left"},
		{-1, EINVAL, -EINVAL, "Invalid argument"},
		{-1, 0, -EIO, "Input/output error"},
	};
	CUdeviceptr dev = fixture_alloc(0, MIB(1));
	struct penstock_done d;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	for (unsigned i = 0; i < T_COUNT(errors); i++) {
		cf->fail_with = errors[i].with;
		cf->fail_errno = errors[i].code;
		cf->fail_nth = 4;
		op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
		d = fixture_wait(fixture_submit(&op));
		T_EQ(d.res, errors[i].want);
		T_STR_HAS(d.msg, errors[i].name);
		T_STR_HAS(d.msg, "cufile");
		cf->fail_nth = 0;
	}
	FIXTURE_DO(&op, MIB(1), 1);
}

static void interruptions_are_tried_again(void)
{
	static const int codes[] = {EINTR, EAGAIN};
	CUdeviceptr dev = fixture_alloc(0, MIB(1));
	struct penstock_done d;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	for (unsigned i = 0; i < T_COUNT(codes); i++) {
		cf->fail_with = -1;
		cf->fail_errno = codes[i];
		cf->fail_nth = 3;
		op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
		d = FIXTURE_DO(&op, MIB(1), 1);
		T_OK(d.flags & PENSTOCK_DONE_RETRIED);
	}
}

static void a_refused_file_takes_the_pool(void)
{
	CUdeviceptr dev = fixture_alloc(0, MIB(1));
	struct penstock_stats s;
	struct penstock_done d;
	struct penstock_op op;

	cf->refuse_handle = 5027;
	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	penstock_pattern_fill(fixture_see(dev, MIB(1)), MIB(1), SEED, 0);
	op = fixture_op(PENSTOCK_WRITE, dev, MIB(1), 0);
	for (unsigned i = 0; i < 3; i++) {
		d = FIXTURE_DO(&op, MIB(1), i);
		T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
		T_OK(!(d.flags & (PENSTOCK_DONE_CUFILE | PENSTOCK_DONE_CUFILE_COMPAT)));
	}
	T_FILE_PATTERN(fixture_path, SEED, MIB(1));
	s = cf_stats();
	T_EQ(cf->handle_registers, 1);
	T_EQ(s.fallbacks & PENSTOCK_FALLBACK_CUFILE, PENSTOCK_FALLBACK_CUFILE);
	T_STR_HAS(s.fallback_why, "CU_FILE_HANDLE_NOT_REGISTERED (5027)");
	T_STR_HAS(s.fallback_why, fixture_path);
	T_EQ(s.blocks_cufile, 0);
	T_OK(s.blocks_pinned_pool && s.pinned_pool_bytes);
	/* Another file may be taken. */
	T_EQ(penstock_file_close(fixture_file, NULL), 0);
	cf->refuse_handle = 0;
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	T_OK(FIXTURE_DO(&op, MIB(1), 1).flags & PENSTOCK_DONE_CUFILE_COMPAT);
}

/* One run in which the @n-th call of @function fails; false: there are no more of them. */
static bool one_fails(const char *function, unsigned long n, CUdeviceptr dev, CUstream stream)
{
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	struct penstock_op op;
	const char *failed;

	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	memset(fixture_see(dev, MIB(1)), 0, MIB(1));
	op = fixture_op(PENSTOCK_READ, dev, MIB(1) - 1, 1);
	op.flags = stream ? PENSTOCK_OP_STREAM : 0;
	op.stream = stream;
	standin_fail(function, n, 700, false);
	if (penstock_run(fixture_io, &op, &d, &err) < 0)
		T_STR_HAS(err.msg, "CUDA_ERROR_ILLEGAL_ADDRESS");
	else if (d.res < 0)
		T_STR_HAS(d.msg, "CUDA_ERROR_ILLEGAL_ADDRESS");
	else
		T_EQ(penstock_pattern_check(fixture_see(dev, MIB(1)), MIB(1) - 1, SEED, 1),
		     MIB(1) - 1);
	failed = standin_failed();
	standin_fail(NULL, 0, 0, false);
	/* The handle is none the worse. */
	FIXTURE_DO(&op, MIB(1) - 1, 1);
	fixture_close(0);
	return failed;
}

static void any_cuda_call_may_fail(void)
{
	static const char *const functions[] = {
		"cuPointerGetAttributes", "cuDevicePrimaryCtxRetain",
		"cuCtxSetCurrent",        "cuCtxPushCurrent_v2",
		"cuStreamGetCtx",         "cuStreamCreate",
		"cuStreamWaitEvent",      "cuEventCreate",
		"cuEventRecord",          "cuEventQuery"};
	CUdeviceptr dev = fixture_alloc(1, MIB(1));
	unsigned total = 0;
	CUstream stream;

	t_file_make(fixture_path, SEED, MIB(1));
	T_EQ(cuCtxPushCurrent_v2(fixture_ctx[1]), 0);
	T_EQ(cuStreamCreate(&stream, 1), 0);
	T_EQ(cuCtxPopCurrent_v2(NULL), 0);
	for (unsigned i = 0; i < T_COUNT(functions); i++)
		for (unsigned k = 0; k < 2; k++)
			for (unsigned long n = 1; n < 30; n++, total++)
				if (!one_fails(functions[i], n, dev, k ? stream : NULL))
					break;
	T_EQ(cuCtxPushCurrent_v2(fixture_ctx[1]), 0);
	T_EQ(cuStreamDestroy_v2(stream), 0);
	T_EQ(cuCtxPopCurrent_v2(NULL), 0);
	T_OK(total > 20);
}

static void cancelling_gives_up_what_has_not_begun(void)
{
	CUdeviceptr dev = fixture_alloc(0, MIB(64));
	struct penstock_done d;
	struct penstock_op op;
	uint64_t ticket;
	int r;

	t_file_make(fixture_path, SEED, MIB(64));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, MIB(64), 0);
	ticket = fixture_submit(&op);
	r = penstock_cancel(fixture_io, ticket);
	d = fixture_wait(ticket);
	T_OK(r == 0 ? d.res == -ECANCELED : d.res == (int64_t)MIB(64));
	T_EQ(penstock_pattern_check(fixture_see(dev, MIB(64)), d.bytes, SEED, 0), d.bytes);
}

static const struct t_case fault_cases[] = {
	T_CASE(short_returns_are_finished),    T_CASE(errors_have_their_names),
	T_CASE(interruptions_are_tried_again), T_CASE(a_refused_file_takes_the_pool),
	T_CASE(any_cuda_call_may_fail),        T_CASE(cancelling_gives_up_what_has_not_begun),
};
const struct t_group cf_fault = {"fault", cf_setup, cf_teardown, fault_cases, T_COUNT(fault_cases)};

/* --------------------------------------------------- other kinds of driver */

/* Not on a virtual disk; in memory, where the kernel lets O_DIRECT have its way. */
static void what_bypasses_the_host_is_told_apart(void)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	CUdeviceptr dev = fixture_alloc(0, MIB(1));
	struct penstock_opts o = fixture_opts();
	char path[64];
	struct penstock_op op;
	uint32_t flags;

	snprintf(path, sizeof(path), "/dev/shm/penstock-test-%d", (int)getpid());
	fixture_open(NULL);
	if (penstock_file_open(&fixture_file, fixture_io, path, O_RDWR | O_CREAT, 0600, NULL) < 0)
		T_SKIP("shm", "no files in /dev/shm");
	unlink(path);
	T_EQ(penstock_file_stat(fixture_file, &info), 0);
	if (!info.direct)
		T_SKIP("shm", "no O_DIRECT in /dev/shm");
	op = fixture_op(PENSTOCK_WRITE, dev, MIB(1), 0);
	flags = FIXTURE_DO(&op, MIB(1), 1).flags;
	T_OK(flags & PENSTOCK_DONE_CUFILE);
	T_OK(!(flags & (PENSTOCK_DONE_CUFILE_COMPAT | PENSTOCK_DONE_PINNED_POOL)));
	fixture_close(0);

	o.direct = PENSTOCK_DIRECT_NEVER;
	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	flags = FIXTURE_DO(&op, MIB(1), 1).flags;
	T_OK(flags & PENSTOCK_DONE_CUFILE_COMPAT);
	T_OK(!(flags & PENSTOCK_DONE_CUFILE));
}

static const struct t_case direct_cases[] = {
	T_CASE(what_bypasses_the_host_is_told_apart),
};
const struct t_group cf_direct = {"direct", cf_setup, cf_teardown, direct_cases,
				  T_COUNT(direct_cases)};

static void without_its_driver_the_pool_does_it(void)
{
	CUdeviceptr dev = fixture_alloc(0, MIB(1));
	struct penstock_buf_info info;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	T_EQ(penstock_buf_register(fixture_io, (void *)(uintptr_t)dev, MIB(1), 0, &info, NULL), 0);
	T_EQ(info.got, 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	T_OK(FIXTURE_DO(&op, MIB(1), 1).flags & PENSTOCK_DONE_PINNED_POOL);
	T_EQ(penstock_pattern_check(fixture_see(dev, MIB(1)), MIB(1), SEED, 0), MIB(1));
	T_STR_HAS(cf_stats().fallback_why, "CU_FILE_DRIVER_VERSION_MISMATCH (5004)");
	T_EQ(cf->driver_opens, 1);
	T_EQ(cf->handle_registers, 0);
}

static const struct t_case driver_cases[] = {
	T_CASE(without_its_driver_the_pool_does_it),
};
const struct t_group cf_driver = {"driver", cf_setup, cf_teardown, driver_cases,
				  T_COUNT(driver_cases)};
