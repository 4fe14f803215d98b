/* SPDX-License-Identifier: Apache-2.0 */
/* What the test programs of device memory share: see fixture.h. */
#include "tests/gpu/fixture.h"

const char *fixture_engine = "threads";
bool fixture_faulty;
struct penstock_io *fixture_io;
struct penstock_file *fixture_file;
const char *fixture_path;
CUcontext fixture_ctx[STANDIN_DEVICES];
unsigned long fixture_errors;

static char path_mem[PATH_MAX];
static unsigned path_nr;
static CUdeviceptr allocated[64];
static unsigned nr_allocated;
static struct standin_count before;

/* ----------------------------------------------------------------- fixture */

void fixture_setup(void)
{
	char name[32];

	snprintf(name, sizeof(name), "file-%u", path_nr++);
	snprintf(path_mem, sizeof(path_mem), "%s", t_path(name));
	fixture_path = path_mem;
	before = standin_count();
	fixture_errors = 0;
	T_EQ(standin_depth(), 0);
	for (int i = 0; i < STANDIN_DEVICES; i++)
		T_EQ(cuDevicePrimaryCtxRetain(&fixture_ctx[i], i), 0);
	T_EQ(cuCtxSetCurrent(fixture_ctx[0]), 0);
}

static void check_left(void)
{
	struct standin_count now = standin_count();

	T_EQ(now.streams, before.streams);
	T_EQ(now.events, before.events);
	T_EQ(now.registrations, before.registrations);
	T_EQ(now.contexts, before.contexts);
	T_EQ(now.allocations, before.allocations);
	T_EQ(now.errors, before.errors + fixture_errors);
	T_EQ(now.unpinned, before.unpinned);
}

void fixture_teardown(void)
{
	struct penstock_io *io = fixture_io;
	CUcontext now = NULL;

	standin_fail(NULL, 0, 0, false);
	standin_release();
	fixture_io = NULL;
	fixture_file = NULL;
	penstock_close(io, NULL);
	unlink(fixture_path);
	while (nr_allocated)
		cuMemFree_v2(allocated[--nr_allocated]);
	cuCtxGetCurrent(&now);
	cuCtxSetCurrent(NULL);
	for (int i = 0; i < STANDIN_DEVICES; i++)
		cuDevicePrimaryCtxRelease_v2(i);
	T_OK(now == fixture_ctx[0]);
	T_EQ(standin_depth(), 0);
	check_left();
}

struct penstock_opts fixture_opts(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	o.engine = fixture_engine;
	o.block = KIB(64);
	o.depth = 8;
	o.threads = 2;
	return o;
}

void fixture_open(const struct penstock_opts *opts)
{
	struct penstock_opts o = opts ? *opts : fixture_opts();
	struct penstock_err err = {0, ""};

	T_OK(!fixture_io);
	o.engine = fixture_engine;
	T_ERR(penstock_open(&fixture_io, &o, &err), 0, &err);
}

void fixture_close(int want)
{
	struct penstock_err err = {0, ""};
	struct penstock_io *io = fixture_io;

	fixture_io = NULL;
	fixture_file = NULL;
	T_ERR(penstock_close(io, &err), want, &err);
}

void fixture_file_open(int oflags)
{
	struct penstock_err err = {0, ""};

	T_ERR(penstock_file_open(&fixture_file, fixture_io, fixture_path, oflags, 0644, &err), 0,
	      &err);
}

/* ------------------------------------------------------------------ memory */

CUdeviceptr fixture_alloc(int device, size_t len)
{
	CUdeviceptr ptr;

	T_EQ(cuCtxPushCurrent_v2(fixture_ctx[device]), 0);
	T_EQ(cuMemAlloc_v2(&ptr, len), 0);
	T_EQ(cuCtxPopCurrent_v2(NULL), 0);
	T_OK(nr_allocated < T_COUNT(allocated));
	allocated[nr_allocated++] = ptr;
	memset(fixture_see(ptr, len), 0x5a, len);
	return ptr;
}

void fixture_free(CUdeviceptr ptr)
{
	for (unsigned i = 0; i < nr_allocated; i++)
		if (allocated[i] == ptr) {
			allocated[i] = allocated[--nr_allocated];
			T_EQ(cuMemFree_v2(ptr), 0);
			return;
		}
	T_FAIL("not allocated");
}

unsigned char *fixture_see(CUdeviceptr ptr, size_t len)
{
	unsigned char *p = standin_hidden(ptr, len);

	T_OK(p);
	return p;
}

/* -------------------------------------------------------------- operations */

struct penstock_op fixture_op(enum penstock_opcode code, CUdeviceptr buf, uint64_t len,
			      uint64_t offset)
{
	return (struct penstock_op){.opcode = code,
				    .file = fixture_file,
				    .buf = (void *)(uintptr_t)buf,
				    .len = len,
				    .offset = offset};
}

uint64_t fixture_submit(const struct penstock_op *op)
{
	struct penstock_err err = {0, ""};
	uint64_t ticket = 0;

	T_ERR(penstock_submit(fixture_io, op, 1, &ticket, &err), 1, &err);
	return ticket;
}

struct penstock_done fixture_wait(uint64_t ticket)
{
	struct penstock_done done;

	T_EQ(penstock_wait(fixture_io, ticket, T_NO_LIMIT, &done), 0);
	return done;
}

struct penstock_done fixture_do(const struct penstock_op *op, int64_t want, unsigned turn,
				const char *file, int line)
{
	struct penstock_err err = {0, ""};
	struct penstock_done done;

	if (turn & 1)
		done = fixture_wait(fixture_submit(op));
	else
		T_ERR(penstock_run(fixture_io, op, &done, &err), 0, &err);
	if (done.res != want || (want >= 0 && done.bytes != (uint64_t)want))
		t_fail(file, line,
		       "%s of %llu bytes at %llu: res %lld, not %lld; bytes %llu; \"%s\"",
		       op->opcode == PENSTOCK_READ ? "read" : "write", (unsigned long long)op->len,
		       (unsigned long long)op->offset, (long long)done.res, (long long)want,
		       (unsigned long long)done.bytes, done.msg);
	return done;
}
