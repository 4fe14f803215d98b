/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuFile engine, with stand-ins for cuFile and for the CUDA driver:
 *
 *	gpu-cufile compat|direct|driver [GROUP...]
 *
 * cuFile's driver is opened once in a process, so each way it can turn out is a run of its
 * own: in compatibility mode, able to bypass the host, and not opening at all.
 */
#include "tests/gpu/cufile.h"

#include <pthread.h>
#include <sys/wait.h>

struct standin_cufile *cf;

enum { SEED = 23, GUARD = 0x5a, SPACE = 8 << 20 };

/* ----------------------------------------------------------------- fixture */

void cf_setup(void)
{
	fixture_setup();
	T_EQ(cf->handles, 0);
	T_EQ(cf->bufs, 0);
	cf->handle_registers = cf->buf_registers = 0;
	cf->reads = cf->writes = cf->in_registered = cf->ragged = cf->at_once = 0;
}

void cf_teardown(void)
{
	int handles, bufs;

	cf->refuse_handle = cf->refuse_buf = cf->shorten = cf->fail_nth = cf->together = 0;
	penstock_close(fixture_io, NULL);
	fixture_io = NULL;
	handles = cf->handles;
	bufs = cf->bufs;
	fixture_teardown();
	T_EQ(handles, 0);
	T_EQ(bufs, 0);
	T_EQ(cf->ragged, 0);
}

struct penstock_stats cf_stats(void)
{
	struct penstock_stats s = {.size = sizeof(s)};

	T_EQ(penstock_get_stats(fixture_io, &s), 0);
	return s;
}

/* --------------------------------------------------------------- transfers */

static const uint64_t sizes[] = {1,     511,        512,    513,           4095,
				 4096,  4097,       12288,  65535,         65536,
				 65537, MIB(1) - 1, MIB(1), MIB(1) + 4097, MIB(5) + 3};
static const uint64_t offsets[] = {0, 1, 512, 4095, 4096, 65536 + 513};
static const unsigned shifts[] = {0, 1, 512, 4093};

static void around_is_untouched(CUdeviceptr dev, uint64_t at, uint64_t len)
{
	const unsigned char *p = fixture_see(dev, SPACE);

	for (uint64_t i = at - 4096; i < at; i++)
		T_EQ(p[i], GUARD);
	for (uint64_t i = at + len; i < at + len + 4096; i++)
		T_EQ(p[i], GUARD);
}

static void reads_of_every_size_and_place_arrive(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_done d;
	struct penstock_op op;
	unsigned turn = 0;

	t_file_make(fixture_path, SEED, MIB(6));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	for (unsigned s = 0; s < T_COUNT(sizes); s++)
		for (unsigned o = 0; o < T_COUNT(offsets); o++, turn++) {
			uint64_t at = 4096 + shifts[turn % T_COUNT(shifts)];

			op = fixture_op(PENSTOCK_READ, dev + at, sizes[s], offsets[o]);
			d = FIXTURE_DO(&op, sizes[s], turn);
			T_OK(d.flags & PENSTOCK_DONE_CUFILE_COMPAT);
			T_OK(!(d.flags & (PENSTOCK_DONE_PINNED_POOL | PENSTOCK_DONE_CUFILE |
					  PENSTOCK_DONE_INLINE | PENSTOCK_DONE_BOUNCED)));
			T_EQ(penstock_pattern_check(fixture_see(dev, SPACE) + at, sizes[s], SEED,
						    offsets[o]),
			     sizes[s]);
			around_is_untouched(dev, at, sizes[s]);
			memset(fixture_see(dev, SPACE), GUARD, SPACE);
		}
	T_EQ(cf_stats().blocks_pinned_pool, 0);
	T_EQ(cf_stats().blocks_cufile, cf->reads);
	T_EQ(cf->handle_registers, 1);
}

/* Parts of pages take the pinned pool and the page cache, whole ones cuFile. */
static void writes(CUdeviceptr dev)
{
	unsigned char *model = calloc(1, SPACE), *p = fixture_see(dev, SPACE);
	uint64_t end = 0;
	unsigned turn = 0;
	struct penstock_op op;

	fixture_file_open(O_RDWR | O_CREAT);
	for (unsigned s = 0; s < T_COUNT(sizes); s++)
		for (unsigned o = 0; o < T_COUNT(offsets); o++, turn++) {
			uint64_t shift = shifts[turn % T_COUNT(shifts)], off = offsets[o];

			penstock_pattern_fill(p + shift, sizes[s], SEED + turn, off);
			memcpy(model + off, p + shift, sizes[s]);
			op = fixture_op(PENSTOCK_WRITE, dev + shift, sizes[s], off);
			FIXTURE_DO(&op, sizes[s], turn);
			end = off + sizes[s] > end ? off + sizes[s] : end;
			T_FILE(fixture_path, model, end);
		}
	free(model);
}

static void writes_of_every_size_and_place_arrive(void)
{
	fixture_open(NULL);
	writes(fixture_alloc(1, SPACE));
	T_OK(cf->writes > 100);
	T_EQ(cf->ragged, 0);
	T_OK(cf_stats().blocks_pinned_pool > 100);
}

static void without_o_direct_cufile_writes_parts_of_pages_too(void)
{
	struct penstock_opts o = fixture_opts();
	struct penstock_done d;
	struct penstock_op op;
	CUdeviceptr dev;

	o.direct = PENSTOCK_DIRECT_NEVER;
	fixture_open(&o);
	dev = fixture_alloc(0, SPACE);
	writes(dev);
	T_EQ(cf_stats().blocks_pinned_pool, 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(5), 3);
	d = FIXTURE_DO(&op, MIB(5), 1);
	T_OK(d.flags & PENSTOCK_DONE_CUFILE_COMPAT);
	T_OK(d.flags & PENSTOCK_DONE_BUFFERED);
	T_OK(!(d.flags & PENSTOCK_DONE_DIRECT));
}

static void the_end_of_the_file_ends_a_read(void)
{
	static const uint64_t ends[] = {0, 1, 4096, 70001, 131072};
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_done d;
	struct penstock_op op;

	fixture_open(NULL);
	for (unsigned i = 0; i < T_COUNT(ends); i++) {
		t_file_make(fixture_path, SEED, ends[i]);
		fixture_file_open(O_RDONLY);
		memset(fixture_see(dev, SPACE), GUARD, SPACE);
		op = fixture_op(PENSTOCK_READ, dev + 4096, MIB(1), 0);
		d = FIXTURE_DO(&op, ends[i], 1);
		T_OK(d.flags & PENSTOCK_DONE_EOF);
		T_EQ(penstock_pattern_check(fixture_see(dev, SPACE) + 4096, ends[i], SEED, 0),
		     ends[i]);
		around_is_untouched(dev, 4096, ends[i]);
		T_EQ(penstock_file_close(fixture_file, NULL), 0);
	}
}

static void large_operations_are_split_and_run_in_parallel(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	const uint64_t len = MIB(65) + 1;
	CUdeviceptr dev = fixture_alloc(0, len);
	struct penstock_op op;

	t_file_make(fixture_path, SEED, len);
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	cf->together = 4;
	op = fixture_op(PENSTOCK_READ, dev, len, 0);
	FIXTURE_DO(&op, len, 1);
	T_EQ(penstock_pattern_check(fixture_see(dev, len), len, SEED, 0), len);
	T_EQ(cf->reads, 5);
	T_EQ(cf_stats().pinned_pool_bytes, 0);
}

static void host_and_device_memory_mix(void)
{
	CUdeviceptr a = fixture_alloc(0, SPACE), b = fixture_alloc(1, SPACE);
	unsigned char *host = malloc(MIB(1));
	struct penstock_iov iov[] = {
		{(void *)(uintptr_t)(a + 1), 300000},
		{host, 100001},
		{(void *)(uintptr_t)(b + 5), 17},
		{(void *)(uintptr_t)(b + 4096), 500000},
		{NULL, 0},
		{host + 200000, 5},
		{(void *)(uintptr_t)(a + 400000), 65536},
	};
	struct penstock_op op;
	uint64_t len = 0, at = 0;

	for (unsigned i = 0; i < T_COUNT(iov); i++)
		len += iov[i].len;
	t_file_make(fixture_path, SEED, len);
	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	op = fixture_op(PENSTOCK_READ, 0, 0, 0);
	op.iov = iov;
	op.nr_iov = T_COUNT(iov);
	FIXTURE_DO(&op, len, 1);
	T_OK(cf->reads > 0);
	for (unsigned i = 0; i < T_COUNT(iov); at += iov[i].len, i++) {
		bool dev = standin_ordinal((uintptr_t)iov[i].addr) >= 0;
		unsigned char *p =
			dev ? fixture_see((uintptr_t)iov[i].addr, iov[i].len) : iov[i].addr;

		T_EQ(penstock_pattern_check(p, iov[i].len, SEED, at), iov[i].len);
		/* and something else to write */
		penstock_pattern_fill(p, iov[i].len, SEED + 1, at + 7);
	}
	op.opcode = PENSTOCK_WRITE;
	op.offset = 7;
	FIXTURE_DO(&op, len, 0);
	T_EQ(truncate(fixture_path, 7), 0);
	fixture_close(0);
	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	op.file = fixture_file;
	FIXTURE_DO(&op, len, 1);
	T_EQ(truncate(fixture_path, (off_t)(len + 7)), 0);
	free(host);
}

static void host_memory_takes_no_part(void)
{
	unsigned char *host = malloc(MIB(1));
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, 0, MIB(1), 0);
	op.buf = host;
	FIXTURE_DO(&op, MIB(1), 1);
	T_EQ(penstock_pattern_check(host, MIB(1), SEED, 0), MIB(1));
	T_EQ(cf->handle_registers, 0);
	T_EQ(cf->reads, 0);
	free(host);
}

static void managed_memory_takes_the_pool(void)
{
	CUdeviceptr ptr;
	struct penstock_done d;
	struct penstock_op op;

	T_EQ(cuMemAllocManaged(&ptr, MIB(1), 1), 0);
	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, ptr, MIB(1), 0);
	d = FIXTURE_DO(&op, MIB(1), 1);
	T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
	T_EQ(cf->reads, 0);
	T_EQ(penstock_pattern_check((void *)(uintptr_t)ptr, MIB(1), SEED, 0), MIB(1));
	fixture_close(0);
	T_EQ(cuMemFree_v2(ptr), 0);
}

/* ------------------------------------------------------------ registration */

static void a_file_is_registered_once(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	T_EQ(cf->handles, 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	for (unsigned i = 0; i < 20; i++)
		FIXTURE_DO(&op, MIB(1), i);
	T_EQ(cf->handle_registers, 1);
	T_EQ(cf->handles, 1);
	T_EQ(penstock_file_close(fixture_file, NULL), 0);
	T_EQ(cf->handles, 0);
	/* By path it is open as long as somebody uses it. */
	op.file = NULL;
	op.path = fixture_path;
	FIXTURE_DO(&op, MIB(1), 0);
	T_EQ(cf->handle_registers, 2);
	T_EQ(cf->handles, 0);
}

static void closing_the_handle_ends_registrations(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_buf_info info;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	T_EQ(penstock_buf_register(fixture_io, (void *)(uintptr_t)dev, SPACE, 0, &info, NULL), 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	FIXTURE_DO(&op, MIB(1), 0);
	T_EQ(cf->handles, 1);
	T_EQ(cf->bufs, 1);
	fixture_close(0);
	T_EQ(cf->handles, 0);
	T_EQ(cf->bufs, 0);
}

static void registered_memory_is_used_as_such(void)
{
	CUdeviceptr dev = fixture_alloc(1, SPACE);
	void *addr = (void *)(uintptr_t)(dev + 4096);
	struct penstock_buf_info info;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(4));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	T_EQ(penstock_buf_register(fixture_io, addr, MIB(4), PENSTOCK_BUF_LOCKED, &info, NULL), 0);
	T_EQ(info.got, PENSTOCK_BUF_REGISTERED);
	T_STR_HAS(info.note, "neither locked");
	T_EQ(cf->bufs, 1);
	for (unsigned i = 0; i < 10; i++) {
		op = fixture_op(PENSTOCK_READ, dev + 4096 + i * 1001, MIB(2), i * 999);
		FIXTURE_DO(&op, MIB(2), i);
		T_EQ(penstock_pattern_check(fixture_see(dev, SPACE) + 4096 + i * 1001, MIB(2), SEED,
					    i * 999),
		     MIB(2));
	}
	T_EQ(cf->in_registered, cf->reads);
	T_EQ(cf_stats().blocks_fixed, cf->reads);
	T_EQ(cf->bufs, 1);
	T_EQ(penstock_buf_unregister(fixture_io, addr), 0);
	T_EQ(cf->bufs, 0);
	FIXTURE_DO(&op, MIB(2), 0);
}

static void memory_that_cannot_be_registered_works_all_the_same(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_buf_info info;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	cf->refuse_buf = 5036;
	T_EQ(penstock_buf_register(fixture_io, (void *)(uintptr_t)dev, SPACE, 0, &info, NULL), 0);
	T_EQ(info.got, 0);
	T_STR_HAS(info.note, "not registered");
	T_OK(cf_stats().fallbacks & PENSTOCK_FALLBACK_UNREGISTERED);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	FIXTURE_DO(&op, MIB(1), 0);
	T_EQ(cf->in_registered, 0);
}

static void host_memory_is_not_registered_with_cufile(void)
{
	struct penstock_buf_info info;
	void *mem;

	fixture_open(NULL);
	T_EQ(penstock_buf_alloc(&mem, fixture_io, MIB(1), 0, &info, NULL), 0);
	T_OK(!(info.got & PENSTOCK_BUF_REGISTERED));
	T_EQ(cf->buf_registers, 0);
}

/* ------------------------------------------------------------------- order */

static void operations_wait_for_their_stream(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE), other = fixture_alloc(0, SPACE);
	struct penstock_op op, free_op;
	unsigned char *model = malloc(MIB(1));
	CUstream stream;
	uint64_t ticket;

	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	T_EQ(cuStreamCreate(&stream, 1), 0);
	T_EQ(standin_hold(stream), 0);
	T_EQ(standin_fill(dev, 0x77, MIB(1), stream), 0);
	op = fixture_op(PENSTOCK_WRITE, dev, MIB(1), 0);
	op.flags = PENSTOCK_OP_STREAM;
	op.stream = stream;
	ticket = fixture_submit(&op);
	/* Others do not wait with it. */
	free_op = fixture_op(PENSTOCK_WRITE, other, MIB(1), MIB(1));
	FIXTURE_DO(&free_op, MIB(1), 1);
	T_EQ(cf->writes, 16);
	standin_release();
	T_EQ(fixture_wait(ticket).res, MIB(1));
	T_EQ(cf->writes, 32);
	memset(model, 0x77, MIB(1));
	T_EQ(truncate(fixture_path, (off_t)MIB(1)), 0);
	T_FILE(fixture_path, model, MIB(1));
	op.opcode = PENSTOCK_READ;
	T_EQ(standin_hold(stream), 0);
	T_EQ(standin_fill(dev, 0x11, MIB(1), stream), 0);
	ticket = fixture_submit(&op);
	standin_release();
	T_EQ(fixture_wait(ticket).res, MIB(1));
	T_MEM(fixture_see(dev, MIB(1)), model, MIB(1));
	T_EQ(cuStreamDestroy_v2(stream), 0);
	free(model);
}

/* ------------------------------------------------------------------ others */

struct reader {
	struct penstock_io *io;
	CUdeviceptr dev;
	unsigned nr;
};

static void *read_often(void *arg)
{
	const struct reader *r = arg;
	struct penstock_op op = {
		.opcode = PENSTOCK_READ, .path = fixture_path, .buf = (void *)(uintptr_t)r->dev};
	struct penstock_done d;

	for (unsigned i = 0; i < 40; i++) {
		op.offset = (uint64_t)i * 977 * (r->nr + 1);
		op.len = 100000 + i;
		T_CHECK(penstock_run(r->io, &op, &d, NULL) == 0);
		T_CHECK(d.res == (int64_t)op.len);
		T_CHECK(penstock_pattern_check(standin_hidden(r->dev, op.len), op.len, SEED,
					       op.offset) == op.len);
	}
	return NULL;
}

static void threads_and_handles_do_not_disturb_each_other(void)
{
	struct penstock_opts o = fixture_opts();
	struct penstock_io *second;
	struct reader readers[4];
	pthread_t threads[4];
	void *msg;

	t_file_make(fixture_path, SEED, MIB(2));
	fixture_open(NULL);
	T_EQ(penstock_open(&second, &o, NULL), 0);
	for (unsigned i = 0; i < 4; i++) {
		readers[i] = (struct reader){i & 2 ? second : fixture_io,
					     fixture_alloc(i & 1, MIB(1)), i};
		T_EQ(pthread_create(&threads[i], NULL, read_often, &readers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], &msg);
		T_JOINED(msg);
	}
	T_EQ(penstock_close(second, NULL), 0);
}

static void a_child_leaves_registrations_to_its_parent(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_buf_info info;
	struct penstock_op op;
	int status;
	pid_t pid;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	T_EQ(penstock_buf_register(fixture_io, (void *)(uintptr_t)dev, SPACE, 0, &info, NULL), 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	FIXTURE_DO(&op, MIB(1), 0);
	pid = fork();
	T_OK(pid >= 0);
	if (pid == 0) {
		struct penstock_done d;
		int r = penstock_run(fixture_io, &op, &d, NULL);

		penstock_close(fixture_io, NULL);
		_exit(r == -ECHILD && cf->handles == 1 && cf->bufs == 1 ? 0 : 1);
	}
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
	FIXTURE_DO(&op, MIB(1), 1);
}

static void nothing_is_written_to_the_current_directory(void)
{
	T_OK(cf->driver_opens <= 1);
	T_OK(!strcmp(cf->log, "/dev/null"));
	T_OK(!getenv("CUFILE_LOGFILE_PATH"));
}

static const struct t_case transfer_cases[] = {
	T_CASE(host_memory_takes_no_part), /* first: before the driver is open */
	T_CASE(reads_of_every_size_and_place_arrive),
	T_CASE(writes_of_every_size_and_place_arrive),
	T_CASE(without_o_direct_cufile_writes_parts_of_pages_too),
	T_CASE(the_end_of_the_file_ends_a_read),
	T_CASE(large_operations_are_split_and_run_in_parallel),
	T_CASE(host_and_device_memory_mix),
	T_CASE(managed_memory_takes_the_pool),
	T_CASE(a_file_is_registered_once),
	T_CASE(closing_the_handle_ends_registrations),
	T_CASE(registered_memory_is_used_as_such),
	T_CASE(memory_that_cannot_be_registered_works_all_the_same),
	T_CASE(host_memory_is_not_registered_with_cufile),
	T_CASE(operations_wait_for_their_stream),
	T_CASE(threads_and_handles_do_not_disturb_each_other),
	T_CASE(a_child_leaves_registrations_to_its_parent),
	T_CASE(nothing_is_written_to_the_current_directory),
};
const struct t_group cf_transfer = {"transfer", cf_setup, cf_teardown, transfer_cases,
				    T_COUNT(transfer_cases)};

/* ------------------------------------------------------------------- table */

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "compat";
	struct t_group groups[2];
	size_t n = 1;

	fixture_engine = "cufile";
	cf = standin_cufile();
	T_EQ(cuInit(0), 0);
	if (!strcmp(mode, "compat")) {
		groups[0] = cf_transfer;
		groups[1] = cf_fault;
		n = 2;
	} else if (!strcmp(mode, "direct")) {
		cf->nvfs = 2;
		groups[0] = cf_direct;
	} else {
		cf->refuse_driver = 5004;
		groups[0] = cf_driver;
	}
	return t_run(groups, n, argc > 2 ? argv + 2 : NULL);
}
