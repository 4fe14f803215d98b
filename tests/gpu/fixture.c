/* SPDX-License-Identifier: Apache-2.0 */
/* What the test programs of device memory share: see ring.h. */
#include "tests/gpu/fixture.h"

const char *rg_engine = "threads";
bool rg_faulty;
struct penstock_io *rg_io;
struct penstock_file *rg_file;
const char *rg_path;
CUcontext rg_ctx[STANDIN_DEVICES];
unsigned long rg_errors;

static char path_mem[PATH_MAX];
static unsigned path_nr;
static CUdeviceptr allocated[64];
static unsigned nr_allocated;
static struct standin_count before;

/* ----------------------------------------------------------------- fixture */

void rg_setup(void)
{
	char name[32];

	snprintf(name, sizeof(name), "file-%u", path_nr++);
	snprintf(path_mem, sizeof(path_mem), "%s", t_path(name));
	rg_path = path_mem;
	before = standin_count();
	rg_errors = 0;
	T_EQ(standin_depth(), 0);
	for (int i = 0; i < STANDIN_DEVICES; i++)
		T_EQ(cuDevicePrimaryCtxRetain(&rg_ctx[i], i), 0);
	T_EQ(cuCtxSetCurrent(rg_ctx[0]), 0);
}

static void check_left(void)
{
	struct standin_count now = standin_count();

	T_EQ(now.streams, before.streams);
	T_EQ(now.events, before.events);
	T_EQ(now.registrations, before.registrations);
	T_EQ(now.contexts, before.contexts);
	T_EQ(now.allocations, before.allocations);
	T_EQ(now.errors, before.errors + rg_errors);
	T_EQ(now.unpinned, before.unpinned);
}

void rg_teardown(void)
{
	struct penstock_io *io = rg_io;
	CUcontext now = NULL;

	standin_fail(NULL, 0, 0, false);
	standin_release();
	rg_io = NULL;
	rg_file = NULL;
	penstock_close(io, NULL);
	unlink(rg_path);
	while (nr_allocated)
		cuMemFree_v2(allocated[--nr_allocated]);
	cuCtxGetCurrent(&now);
	cuCtxSetCurrent(NULL);
	for (int i = 0; i < STANDIN_DEVICES; i++)
		cuDevicePrimaryCtxRelease_v2(i);
	T_OK(now == rg_ctx[0]);
	T_EQ(standin_depth(), 0);
	check_left();
}

struct penstock_opts rg_opts(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	o.engine = rg_engine;
	o.block = KIB(64);
	o.depth = 8;
	o.threads = 2;
	return o;
}

void rg_open(const struct penstock_opts *opts)
{
	struct penstock_opts o = opts ? *opts : rg_opts();
	struct penstock_err err = {0, ""};

	T_OK(!rg_io);
	o.engine = rg_engine;
	T_ERR(penstock_open(&rg_io, &o, &err), 0, &err);
}

void rg_close(int want)
{
	struct penstock_err err = {0, ""};
	struct penstock_io *io = rg_io;

	rg_io = NULL;
	rg_file = NULL;
	T_ERR(penstock_close(io, &err), want, &err);
}

void rg_file_open(int oflags)
{
	struct penstock_err err = {0, ""};

	T_ERR(penstock_file_open(&rg_file, rg_io, rg_path, oflags, 0644, &err), 0, &err);
}

/* ------------------------------------------------------------------ memory */

CUdeviceptr rg_alloc(int device, size_t len)
{
	CUdeviceptr ptr;

	T_EQ(cuCtxPushCurrent_v2(rg_ctx[device]), 0);
	T_EQ(cuMemAlloc_v2(&ptr, len), 0);
	T_EQ(cuCtxPopCurrent_v2(NULL), 0);
	T_OK(nr_allocated < T_COUNT(allocated));
	allocated[nr_allocated++] = ptr;
	memset(rg_see(ptr, len), 0x5a, len);
	return ptr;
}

void rg_free(CUdeviceptr ptr)
{
	for (unsigned i = 0; i < nr_allocated; i++)
		if (allocated[i] == ptr) {
			allocated[i] = allocated[--nr_allocated];
			T_EQ(cuMemFree_v2(ptr), 0);
			return;
		}
	T_FAIL("not allocated");
}

unsigned char *rg_see(CUdeviceptr ptr, size_t len)
{
	unsigned char *p = standin_hidden(ptr, len);

	T_OK(p);
	return p;
}

/* -------------------------------------------------------------- operations */

struct penstock_op rg_op(enum penstock_opcode code, CUdeviceptr buf, uint64_t len, uint64_t offset)
{
	return (struct penstock_op){.opcode = code,
				    .file = rg_file,
				    .buf = (void *)(uintptr_t)buf,
				    .len = len,
				    .offset = offset};
}

uint64_t rg_submit(const struct penstock_op *op)
{
	struct penstock_err err = {0, ""};
	uint64_t ticket = 0;

	T_ERR(penstock_submit(rg_io, op, 1, &ticket, &err), 1, &err);
	return ticket;
}

struct penstock_done rg_wait(uint64_t ticket)
{
	struct penstock_done done;

	T_EQ(penstock_wait(rg_io, ticket, T_NO_LIMIT, &done), 0);
	return done;
}

struct penstock_done rg_do(const struct penstock_op *op, int64_t want, unsigned turn,
			   const char *file, int line)
{
	struct penstock_err err = {0, ""};
	struct penstock_done done;

	if (turn & 1)
		done = rg_wait(rg_submit(op));
	else
		T_ERR(penstock_run(rg_io, op, &done, &err), 0, &err);
	if (done.res != want || (want >= 0 && done.bytes != (uint64_t)want))
		t_fail(file, line,
		       "%s of %llu bytes at %llu: res %lld, not %lld; bytes %llu; \"%s\"",
		       op->opcode == PENSTOCK_READ ? "read" : "write", (unsigned long long)op->len,
		       (unsigned long long)op->offset, (long long)done.res, (long long)want,
		       (unsigned long long)done.bytes, done.msg);
	return done;
}
