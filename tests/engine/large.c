/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, large: beyond 2^31 and 2^32, in offsets, lengths and products. */
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "conformance.h"

enum { SEED = 5 };

/* A file system that refuses such offsets (tmpfs with little memory does not) cannot run these. */
static bool make_sparse(uint64_t size)
{
	int fd = open(cf_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fd < 0 ? -1 : ftruncate(fd, (off_t)size);

	if (fd >= 0)
		close(fd);
	return r == 0;
}

static void offsets_around_and_beyond_4_gib_work(void)
{
	static const uint64_t around[] = {1ull << 31, 1ull << 32, 5ull << 30, 1ull << 40};
	static unsigned char buf[300001], got[300001], zero[4096];

	if (!make_sparse(0))
		T_SKIP("disk", "cannot make a file here");
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < 2 * T_COUNT(around); i++) {
		uint64_t len = i & 1 ? sizeof(buf) : 3000, off = around[i / 2] - len / 2 - 1;
		struct penstock_op op = cf_op(PENSTOCK_WRITE, buf, len, off);

		penstock_pattern_fill(buf, len, SEED + i, off);
		CF_DO(&op, len, i);
		T_EQ(t_file_size(cf_path), off + len);
		op = cf_op(PENSTOCK_READ, got, len, off);
		CF_DO(&op, len, i / 2);
		T_MEM(got, buf, len);
		op = cf_op(PENSTOCK_READ, got, 4096, off - 5000); /* a hole */
		CF_DO(&op, 4096, i / 2);
		T_MEM(got, zero, 4096);
	}
}

/*
 * One operation of more than 4 GiB: a sparse file into 64 MiB of memory that
 * is mapped many times in a row.
 */
static void one_operation_may_exceed_4_gib(void)
{
	const uint64_t piece = MIB(64), total = GIB(4) + 4096;
	uint64_t span = (total + piece - 1) / piece * piece;
	static unsigned char mark[8192], got[8192];
	struct penstock_opts o = cf_opts();
	struct penstock_done d;
	struct penstock_op op;
	unsigned char *mem;
	int fd;

	if (T_TSAN)
		T_SKIP("memory", "shadow memory of 4 GiB under the thread sanitizer");
	if (!make_sparse(total))
		T_SKIP("disk", "cannot make a sparse file of %llu bytes here",
		       (unsigned long long)total);
	mem = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	T_OK(mem != MAP_FAILED);
	fd = memfd_create("large", MFD_CLOEXEC);
	T_OK(fd >= 0 && ftruncate(fd, (off_t)piece) == 0);
	for (uint64_t at = 0; at < span; at += piece)
		T_OK(mmap(mem + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
		     MAP_FAILED);

	o.block = MIB(4);
	cf_open(&o);
	cf_file_open(O_RDWR);
	/* the last 8 KiB share no memory with other non-zero bytes of the file */
	penstock_pattern_fill(mark, sizeof(mark), SEED, 0);
	op = cf_op(PENSTOCK_WRITE, mark, sizeof(mark), total - sizeof(mark));
	CF_DO(&op, sizeof(mark), 0);
	/* and it meets the end of the file */
	op = cf_op(PENSTOCK_READ, mem, span, 0);
	d = CF_DO(&op, total, 1);
	T_OK(d.flags & PENSTOCK_DONE_EOF);
	/* memory is shared, so ask for the end again, with a long way to it */
	op = cf_op(PENSTOCK_READ, got, sizeof(got), total - sizeof(got));
	CF_DO(&op, sizeof(got), 1);
	T_MEM(got, mark, sizeof(mark));
	cf_close(0);
	munmap(mem, span);
	close(fd);
}

/* DeepNVMe computes this product as an int and writes behind the buffer. */
static void block_times_depth_may_exceed_2_gib(void)
{
	const size_t len = MIB(20);
	static const uint32_t flags[] = {0, PENSTOCK_NO_OVERLAP};
	unsigned char *buf = aligned_alloc(4096, MIB(33));

	T_OK(buf);
	for (unsigned i = 0; i < 2 * T_COUNT(flags); i++) {
		struct penstock_opts o = cf_opts();
		struct penstock_op op;

		o.block = i & 1 ? MIB(16) : GIB(1);
		o.depth = 256;
		o.threads = 1;
		o.flags = flags[i / 2];
		cf_open(&o);
		unlink(cf_path);
		penstock_pattern_fill(buf, len, SEED, 0);
		op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, len, 0);
		CF_DO(&op, len, i);
		T_FILE_PATTERN(cf_path, SEED, len);
		t_file_make(cf_path, SEED, MIB(32) + 1000);
		memset(buf, 0xa5, MIB(33));
		op = cf_path_op(PENSTOCK_READ, cf_path, buf, len, 0);
		CF_DO(&op, len, i);
		T_EQ(penstock_pattern_check(buf, len, SEED, 0), len);
		for (size_t k = len; k < MIB(33); k++)
			if (buf[k] != 0xa5)
				T_FAIL("byte %zu behind the buffer was written", k - len);
		cf_close(0);
	}
	free(buf);
}

static void offsets_beyond_what_a_file_can_have_are_refused(void)
{
	static const struct {
		uint64_t off, len;
	} rows[] = {
		{UINT64_MAX, 1},           {UINT64_MAX - 100, 4096},
		{1ull << 63, 1},           {INT64_MAX, 1},
		{INT64_MAX - 10, 4096},    {0, UINT64_MAX},
		{4096, UINT64_MAX - 4096}, {4096, INT64_MAX},
	};
	static unsigned char buf[4096];

	t_file_make(cf_path, SEED, 4096);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < 2 * T_COUNT(rows); i++) {
		struct penstock_op op =
			cf_op(PENSTOCK_WRITE, buf, rows[i / 2].len, rows[i / 2].off);
		struct penstock_done d;
		uint64_t ticket = 77;
		int r;

		r = i & 1 ? penstock_submit(cf_io, &op, 1, &ticket, NULL)
			  : penstock_run(cf_io, &op, &d, NULL);
		T_OK(r < 0);
		T_EQ(ticket, 77);
		T_EQ(t_file_size(cf_path), 4096);
	}
	T_FILE_PATTERN(cf_path, SEED, 4096);
}

/* Lengths of a list are added up with care. */
static void a_scatter_list_longer_than_a_file_is_refused(void)
{
	unsigned char buf[16];
	struct penstock_iov iov[] = {{buf, UINT64_MAX - 7}, {buf, 16}};
	struct penstock_op op;

	t_file_make(cf_path, SEED, 4096);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	op = cf_op(PENSTOCK_WRITE, NULL, 0, 0);
	op.iov = iov;
	op.nr_iov = 2;
	T_OK(penstock_submit(cf_io, &op, 1, NULL, NULL) < 0);
	T_FILE_PATTERN(cf_path, SEED, 4096);
}

static const struct t_case cases[] = {
	T_CASE(offsets_around_and_beyond_4_gib_work),
	T_CASE(one_operation_may_exceed_4_gib),
	T_CASE(block_times_depth_may_exceed_2_gib),
	T_CASE(offsets_beyond_what_a_file_can_have_are_refused),
	T_CASE(a_scatter_list_longer_than_a_file_is_refused),
};

const struct t_group cf_large = {
	"large", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
