/* SPDX-License-Identifier: Apache-2.0 */
/* Any size, offset and address; scatter lists; what stands in the completion. */
#include "fixture.h"

enum { SEED = 11, GUARD = 0x5a };

static const uint64_t sizes[] = {1,     511,        512,    513,           4095,
				 4096,  4097,       12288,  65535,         65536,
				 65537, MIB(1) - 1, MIB(1), MIB(1) + 4097, MIB(5) + 3};
static const uint64_t offsets[] = {0, 1, 512, 4095, 4096, 65536 + 513};
static const unsigned shifts[] = {0, 1, 512, 4093};

enum { SPACE = 8 << 20 };

/* Nothing around [at, at + len) of the memory has changed. */
static void guards_hold(CUdeviceptr dev, uint64_t at, uint64_t len)
{
	const unsigned char *p = fixture_see(dev, SPACE);

	for (uint64_t i = at > 8192 ? at - 8192 : 0; i < at; i++)
		T_EQ(p[i], GUARD);
	for (uint64_t i = at + len; i < at + len + 8192; i++)
		T_EQ(p[i], GUARD);
}

static void read_one(CUdeviceptr dev, uint64_t len, uint64_t off, unsigned shift, unsigned turn)
{
	struct penstock_op op = fixture_op(PENSTOCK_READ, dev + 8192 + shift, len, off);
	struct penstock_done d = FIXTURE_DO(&op, len, turn);
	unsigned char *p = fixture_see(dev, SPACE) + 8192 + shift;

	T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
	T_OK(!(d.flags & (PENSTOCK_DONE_INLINE | PENSTOCK_DONE_BOUNCED)));
	T_EQ(penstock_pattern_check(p, len, SEED, off), len);
	guards_hold(dev, 8192 + shift, len);
	memset(p, GUARD, len);
}

static void reads_of_every_size_and_place_arrive(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	unsigned turn = 0;

	t_file_make(fixture_path, SEED, MIB(6));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	for (unsigned s = 0; s < T_COUNT(sizes); s++)
		for (unsigned o = 0; o < T_COUNT(offsets); o++) {
			read_one(dev, sizes[s], offsets[o], shifts[turn % T_COUNT(shifts)], turn);
			turn++;
		}
}

static void write_one(CUdeviceptr dev, unsigned char *model, uint64_t *end, uint64_t len,
		      uint64_t off, unsigned shift, unsigned turn)
{
	struct penstock_op op = fixture_op(PENSTOCK_WRITE, dev + shift, len, off);
	unsigned char *p = fixture_see(dev, SPACE);
	struct penstock_done d;

	penstock_pattern_fill(p + shift, len, SEED + turn, off);
	memcpy(model + off, p + shift, len);
	d = FIXTURE_DO(&op, len, turn);
	T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
	*end = off + len > *end ? off + len : *end;
	T_FILE(fixture_path, model, *end);
}

static void writes_of_every_size_and_place_arrive(void)
{
	CUdeviceptr dev = fixture_alloc(1, SPACE);
	unsigned char *model = calloc(1, SPACE);
	uint64_t end = 0;
	unsigned turn = 0;

	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	for (unsigned s = 0; s < T_COUNT(sizes); s++)
		for (unsigned o = 0; o < T_COUNT(offsets); o++) {
			write_one(dev, model, &end, sizes[s], offsets[o],
				  shifts[turn % T_COUNT(shifts)], turn);
			turn++;
		}
	free(model);
}

static void without_o_direct_it_works_too(void)
{
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	unsigned char *model = calloc(1, SPACE);
	struct penstock_done d;
	struct penstock_op op;
	uint64_t end = 0;

	o.direct = PENSTOCK_DIRECT_NEVER;
	fixture_open(&o);
	fixture_file_open(O_RDWR | O_CREAT);
	for (unsigned s = 0; s < T_COUNT(sizes); s++)
		write_one(dev, model, &end, sizes[s], offsets[s % T_COUNT(offsets)], s, s);
	memset(fixture_see(dev, SPACE), GUARD, SPACE);
	op = fixture_op(PENSTOCK_READ, dev + 3, end, 0);
	d = FIXTURE_DO(&op, end, 1);
	T_OK(d.flags & PENSTOCK_DONE_BUFFERED);
	T_OK(!(d.flags & PENSTOCK_DONE_DIRECT));
	T_MEM(fixture_see(dev, SPACE) + 3, model, end);
	free(model);
}

static void the_end_of_the_file_ends_a_read(void)
{
	static const uint64_t ends[] = {0, 1, 4096, 70001};
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_done d;
	struct penstock_op op;

	fixture_open(NULL);
	for (unsigned i = 0; i < T_COUNT(ends); i++) {
		t_file_make(fixture_path, SEED, ends[i]);
		memset(fixture_see(dev, SPACE), GUARD, SPACE);
		fixture_file_open(O_RDONLY);
		op = fixture_op(PENSTOCK_READ, dev + 8193, KIB(512), 0);
		d = FIXTURE_DO(&op, ends[i], i);
		T_OK(d.flags & PENSTOCK_DONE_EOF);
		T_EQ(penstock_pattern_check(fixture_see(dev, SPACE) + 8193, ends[i], SEED, 0),
		     ends[i]);
		guards_hold(dev, 8193, ends[i]);
		op.flags = PENSTOCK_OP_EXACT;
		FIXTURE_DO(&op, -ENODATA, i);
		T_EQ(penstock_file_close(fixture_file, NULL), 0);
		unlink(fixture_path);
	}
	fixture_close(0);
}

/* ------------------------------------------------------------------ scatter */

/* Pieces of both devices, of the host and of no length, in every order. */
static void scatter(uint64_t off, const uint64_t *lens, unsigned nr, unsigned first)
{
	enum { MAX = 12 };
	CUdeviceptr dev[2] = {fixture_alloc(0, SPACE), fixture_alloc(1, SPACE)};
	unsigned char *host = calloc(1, SPACE), *all = malloc(SPACE);
	struct penstock_iov iov[MAX];
	unsigned char *see[MAX];
	uint64_t total = 0, at[3] = {1, 513, 4096};
	struct penstock_op op;

	T_OK(nr <= MAX);
	for (unsigned i = 0; i < nr; i++) {
		unsigned where = (first + i) % 3;

		see[i] = where == 2 ? host + at[2] : fixture_see(dev[where], SPACE) + at[where];
		iov[i].addr =
			where == 2 ? host + at[2] : (void *)(uintptr_t)(dev[where] + at[where]);
		iov[i].len = lens[i];
		at[where] += lens[i];
		penstock_pattern_fill(see[i], lens[i], SEED, off + total);
		total += lens[i];
	}
	op = fixture_op(PENSTOCK_WRITE, 0, 0, off);
	op.iov = iov;
	op.nr_iov = nr;
	FIXTURE_DO(&op, total, first);
	penstock_pattern_fill(all, total, SEED, off);
	for (unsigned i = 0; i < nr; i++)
		memset(see[i], 0, lens[i]);
	op.opcode = PENSTOCK_READ;
	FIXTURE_DO(&op, total, first + 1);
	for (unsigned i = 0, done = 0; i < nr; done += (unsigned)lens[i++])
		T_MEM(see[i], all + done, lens[i]);
	/* and the file is right, not only the memory */
	op = fixture_op(PENSTOCK_READ, 0, total, off);
	op.buf = host;
	FIXTURE_DO(&op, total, 0);
	T_MEM(host, all, total);
	free(host);
	free(all);
	fixture_free(dev[0]);
	fixture_free(dev[1]);
}

static void scatter_lists_may_mix_memory_of_all_kinds(void)
{
	static const uint64_t lists[][7] = {
		{1, 1, 1, 1, 1, 1, 1},
		{100, 200, 300, 400, 500, 600, 700},
		{4096, 4096, 4096, 4096, 4096, 4096, 4096},
		{0, 5000, 0, 1, 70000, 0, 4096},
		{65536, 131072, 262144, 131072, 65536, 4096, 512},
		{100000, 1, 100000, 99999, 3, 200000, 7},
		{MIB(1), MIB(1), MIB(1), 1, MIB(1), 2, 3},
	};

	fixture_open(NULL);
	fixture_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < T_COUNT(lists); i++)
		for (unsigned first = 0; first < 3; first++)
			scatter(i % 2 ? 0 : 1000 + i, lists[i], 7, first);
}

/* ----------------------------------------------------------------- the rest */

static void managed_and_registered_memory_work(void)
{
	static unsigned char pinned[1 << 20] __attribute__((aligned(4096)));
	struct penstock_done d;
	struct penstock_op op;
	CUdeviceptr managed;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	T_EQ(cuMemAllocManaged(&managed, MIB(1), 1), 0);
	op = fixture_op(PENSTOCK_READ, managed, MIB(1), 0);
	d = FIXTURE_DO(&op, MIB(1), 1);
	T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
	T_EQ(penstock_pattern_check((void *)(uintptr_t)managed, MIB(1), SEED, 0), MIB(1));
	T_EQ(cuMemFree_v2(managed), 0);

	T_EQ(cuMemHostRegister_v2(pinned, sizeof(pinned), 1), 0);
	op = fixture_op(PENSTOCK_READ, (uintptr_t)pinned, MIB(1), 0);
	d = FIXTURE_DO(&op, MIB(1), 1);
	T_OK(!(d.flags & PENSTOCK_DONE_PINNED_POOL));
	T_EQ(penstock_pattern_check(pinned, MIB(1), SEED, 0), MIB(1));
	T_EQ(cuMemHostUnregister(pinned), 0);
}

static void an_address_that_changes_its_kind_is_asked_again(void)
{
	struct penstock_op op;
	struct penstock_done d;
	CUdeviceptr dev;

	t_file_make(fixture_path, SEED, KIB(64));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	for (unsigned i = 0; i < 8; i++) {
		/* the kernel hands out the same range again */
		if (i % 2)
			T_EQ(cuMemAllocManaged(&dev, MIB(1), 1), 0);
		else
			T_EQ(cuMemAlloc_v2(&dev, MIB(1)), 0);
		op = fixture_op(PENSTOCK_READ, dev, KIB(64), 0);
		d = FIXTURE_DO(&op, KIB(64), i);
		T_OK(d.flags & PENSTOCK_DONE_PINNED_POOL);
		T_EQ(penstock_pattern_check(fixture_see(dev, KIB(64)), KIB(64), SEED, 0), KIB(64));
		T_EQ(cuMemFree_v2(dev), 0);
	}
}

static void memory_called_the_hosts_is_taken_at_that_word(void)
{
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_op op;

	if (fixture_faulty)
		T_SKIP("", "the engine fails for other reasons, too");
	t_file_make(fixture_path, SEED, KIB(64));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	op = fixture_op(PENSTOCK_READ, dev, KIB(64), 0);
	op.memory = PENSTOCK_MEMORY_HOST;
	FIXTURE_DO(&op, -EFAULT, 0);
	FIXTURE_DO(&op, -EFAULT, 1);
	op.memory = PENSTOCK_MEMORY_ANY;
	FIXTURE_DO(&op, KIB(64), 0);
}

static void statistics_and_messages_name_the_pool(void)
{
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_opts o = fixture_opts();
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_done d;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	o.flags = PENSTOCK_DESCRIBE;
	fixture_open(&o);
	fixture_file_open(O_RDONLY);
	T_EQ(penstock_get_stats(fixture_io, &st), 0);
	T_EQ(st.pinned_pool_bytes, 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	d = FIXTURE_DO(&op, MIB(1), 1);
	T_STR_HAS(d.msg, "pinned pool");
	T_EQ(penstock_get_stats(fixture_io, &st), 0);
	T_EQ(st.blocks_pinned_pool, 16);
	T_EQ(st.blocks, 16);
	T_EQ(st.blocks_cufile, 0);
	T_OK(st.pinned_pool_bytes > 0 && st.pinned_pool_bytes <= MIB(256));
}

static void the_callers_context_is_left_alone(void)
{
	CUdeviceptr dev[2] = {fixture_alloc(0, SPACE), fixture_alloc(1, SPACE)};
	CUcontext own, now, stack[] = {NULL, fixture_ctx[0], fixture_ctx[1]};
	CUstream stream;
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDWR);
	T_EQ(cuCtxCreate_v2(&own, 0, 1), 0);
	T_EQ(cuStreamCreate(&stream, 1), 0);
	T_EQ(cuCtxPopCurrent_v2(NULL), 0);
	for (unsigned i = 0; i < 16; i++) {
		T_EQ(cuCtxSetCurrent(stack[i % 3]), 0);
		op = fixture_op(i & 1 ? PENSTOCK_READ : PENSTOCK_WRITE, dev[i / 8], MIB(1), 0);
		op.flags = i & 2 ? PENSTOCK_OP_STREAM : 0;
		op.stream = i & 4 ? stream : NULL;
		FIXTURE_DO(&op, MIB(1), i / 2);
		T_EQ(cuCtxGetCurrent(&now), 0);
		T_OK(now == stack[i % 3]);
		T_EQ(standin_depth(), i % 3 ? 1 : 0);
	}
	fixture_close(0);
	T_EQ(cuCtxGetCurrent(&now), 0);
	T_OK(now == stack[15 % 3]);
	T_EQ(cuCtxPushCurrent_v2(own), 0);
	T_EQ(cuStreamDestroy_v2(stream), 0);
	T_EQ(cuCtxDestroy_v2(own), 0);
	T_EQ(cuCtxSetCurrent(fixture_ctx[0]), 0);
}

static void the_users_streams_are_not_used(void)
{
	struct standin_count before = standin_count(), after;
	CUdeviceptr dev = fixture_alloc(0, SPACE);
	struct penstock_op op;

	t_file_make(fixture_path, SEED, MIB(1));
	fixture_open(NULL);
	fixture_file_open(O_RDONLY);
	/* with everything behind a closed gate in the default stream, it works all the same */
	T_EQ(standin_hold(NULL), 0);
	op = fixture_op(PENSTOCK_READ, dev, MIB(1), 0);
	FIXTURE_DO(&op, MIB(1), 0);
	standin_release();
	T_EQ(cuStreamSynchronize(NULL), 0);
	after = standin_count();
	T_EQ(after.blocking_streams, before.blocking_streams);
}

static struct penstock_op copy_op(struct penstock_iov iov[2], void *to, void *from, uint64_t len)
{
	iov[0] = (struct penstock_iov){to, len};
	iov[1] = (struct penstock_iov){from, len};
	return (struct penstock_op){.opcode = PENSTOCK_COPY, .iov = iov, .nr_iov = 2};
}

static void copies_between_memories_need_no_file(void)
{
	CUdeviceptr a = fixture_alloc(0, MIB(40)), b = fixture_alloc(0, MIB(40));
	unsigned char *host = aligned_alloc(4096, MIB(40));
	void *at = (void *)(uintptr_t)(a + 5), *there = (void *)(uintptr_t)(b + 1);
	struct penstock_iov iov[2];
	struct penstock_op op;

	T_EQ(cuMemHostRegister_v2(host, MIB(40), 0), 0);
	fixture_open(NULL);
	for (unsigned i = 0; i < T_COUNT(sizes) + 1; i++) {
		uint64_t n = i < T_COUNT(sizes) ? sizes[i] : MIB(39); /* several blocks */

		penstock_pattern_fill(host, n, SEED + i, 0);
		op = copy_op(iov, at, host, n);
		FIXTURE_DO(&op, n, i);
		op = copy_op(iov, there, at, n);
		FIXTURE_DO(&op, n, i + 1);
		memset(host, 0, n);
		op = copy_op(iov, host, there, n);
		FIXTURE_DO(&op, n, i);
		T_EQ(penstock_pattern_check(host, n, SEED + i, 0), n);
	}
	op = copy_op(iov, host, there, 0);
	FIXTURE_DO(&op, 0, 0);
	FIXTURE_DO(&op, 0, 1);
	T_EQ(cuMemHostUnregister(host), 0);
	free(host);
}

static void a_copy_that_makes_no_sense_is_refused(void)
{
	void *dev = (void *)(uintptr_t)fixture_alloc(0, MIB(1));
	struct penstock_iov iov[2];
	struct penstock_op op;
	struct penstock_err err;
	char host[64];

	fixture_open(NULL);
	op = copy_op(iov, host, host + 32, 32);
	T_EQ(penstock_submit(fixture_io, &op, 1, NULL, &err), -EINVAL);
	T_STR_HAS(err.msg, "neither is device memory");
	op = copy_op(iov, dev, host, 32);
	iov[1].len = 33;
	T_EQ(penstock_submit(fixture_io, &op, 1, NULL, &err), -EINVAL);
	T_STR_HAS(err.msg, "two of equal length");
	op.nr_iov = 1;
	T_EQ(penstock_submit(fixture_io, &op, 1, NULL, &err), -EINVAL);
}

static void a_copy_that_fails_says_which_call(void)
{
	CUdeviceptr a = fixture_alloc(0, MIB(40)), b = fixture_alloc(0, MIB(40));
	struct penstock_iov iov[2];
	struct penstock_op op;
	struct penstock_done d;

	fixture_open(NULL);
	op = copy_op(iov, (void *)(uintptr_t)a, (void *)(uintptr_t)b, MIB(40));
	for (unsigned turn = 0; turn < 2; turn++) {
		standin_fail("cuMemcpyAsync", 2, 700, false);
		d = FIXTURE_DO(&op, -EIO, turn);
		T_STR_HAS(d.msg, "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS");
		FIXTURE_DO(&op, MIB(40), turn);
	}
	fixture_close(0);
}

static const struct t_case cases[] = {
	T_CASE(reads_of_every_size_and_place_arrive),
	T_CASE(writes_of_every_size_and_place_arrive),
	T_CASE(without_o_direct_it_works_too),
	T_CASE(the_end_of_the_file_ends_a_read),
	T_CASE(scatter_lists_may_mix_memory_of_all_kinds),
	T_CASE(managed_and_registered_memory_work),
	T_CASE(an_address_that_changes_its_kind_is_asked_again),
	T_CASE(memory_called_the_hosts_is_taken_at_that_word),
	T_CASE(copies_between_memories_need_no_file),
	T_CASE(a_copy_that_makes_no_sense_is_refused),
	T_CASE(a_copy_that_fails_says_which_call),
	T_CASE(statistics_and_messages_name_the_pool),
	T_CASE(the_callers_context_is_left_alone),
	T_CASE(the_users_streams_are_not_used),
};

const struct t_group pinned_pool_transfer = {
	"transfer", fixture_setup, fixture_teardown, cases, T_COUNT(cases),
};
