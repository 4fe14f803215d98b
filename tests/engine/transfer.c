/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, transfers: what arrives, where, and that nothing else changes. */
#include <sys/mman.h>

#include "conformance.h"

enum { BEFORE = 1, AFTER = 2 }; /* seeds of patterns */

static const uint64_t offsets[] = {0,    1,    100,   511,   512,   513,   4095,
				   4096, 4097, 65535, 65536, 65537, 100003};
static const uint64_t lengths[] = {0,    1,    2,     511,   512,   513,   1000,  4095,
				   4096, 4097, 12000, 65535, 65536, 65537, 200001};
static const long shifts[] = {-1, 0, 1, 512};

/* Write over a known file and look at every byte around; then read it back. */
static void any_offset_length_and_address_is_exact(void)
{
	enum { SIZE = 310000 };
	unsigned char *model = malloc(SIZE);
	unsigned turn = 0;

	T_OK(model);
	t_file_make(cf_path, BEFORE, SIZE);
	penstock_pattern_fill(model, SIZE, BEFORE, 0);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (size_t o = 0; o < T_COUNT(offsets); o++)
		for (size_t l = 0; l < T_COUNT(lengths); l++, turn++) {
			uint64_t off = offsets[o], len = lengths[l];
			struct t_mem m = t_mem_new(len, shifts[(o + l) % T_COUNT(shifts)]);
			struct penstock_op op = cf_op(PENSTOCK_WRITE, m.buf, len, off);

			penstock_pattern_fill(m.buf, len, AFTER + turn, off);
			memcpy(model + off, m.buf, len);
			CF_DO(&op, len, turn);
			T_EQ(t_file_size(cf_path), SIZE);
			T_MEM(m.buf, model + off, len); /* the source is as it was */
			memset(m.buf, 0, len);
			op.opcode = PENSTOCK_READ;
			CF_DO(&op, len, turn / 2);
			T_MEM(m.buf, model + off, len);
			T_MEM_CHECK(&m);
			t_mem_free(&m);
			if (l % 4 == 0)
				T_FILE(cf_path, model, SIZE);
		}
	T_FILE(cf_path, model, SIZE);
	free(model);
}

static void the_file_ends_where_the_write_ends(void)
{
	/* the rows of DeepNVMe's alignment table, and some more */
	static const struct {
		uint64_t off, len;
		uint32_t threads;
		long shift;
	} rows[] = {
		{0, 1048577, 1, 0},   {0, 1000, 1, 0},         {0, 12000, 3, 0},
		{0, 4096, 1, 1},      {0, 4096, 1, 512},       {100, 4096, 1, 0},
		{0, 0, 1, 0},         {0, 1, 8, -1},           {4095, 2, 2, -1},
		{65536, 65535, 3, 7}, {131073, 300001, 7, -1},
	};

	for (size_t i = 0; i < T_COUNT(rows); i++) {
		struct penstock_opts o = cf_opts();
		struct t_mem m = t_mem_new(rows[i].len, rows[i].shift);
		uint64_t end = rows[i].off + rows[i].len;
		unsigned char *want = calloc(1, end + 1);
		struct penstock_op op;

		T_OK(want);
		penstock_pattern_fill(want + rows[i].off, rows[i].len, i, 0);
		memcpy(m.buf, want + rows[i].off, rows[i].len);
		o.threads = rows[i].threads;
		o.block = 0;
		cf_open(&o);
		op = cf_path_op(PENSTOCK_WRITE, cf_path, m.buf, rows[i].len, rows[i].off);
		CF_DO(&op, rows[i].len, (unsigned)i);
		T_FILE(cf_path, want, rows[i].len ? end : 0);
		op.opcode = PENSTOCK_READ;
		memset(m.buf, 0, m.len);
		CF_DO(&op, rows[i].len, (unsigned)i + 1);
		T_MEM(m.buf, want + rows[i].off, rows[i].len);
		T_MEM_CHECK(&m);
		cf_close(0);
		unlink(cf_path);
		t_mem_free(&m);
		free(want);
	}
}

static void a_shorter_write_keeps_the_old_tail(void)
{
	unsigned char want[20000], buf[777];
	struct penstock_op op;

	t_file_make(cf_path, BEFORE, sizeof(want));
	penstock_pattern_fill(want, sizeof(want), BEFORE, 0);
	penstock_pattern_fill(buf, sizeof(buf), AFTER, 0);
	memcpy(want, buf, sizeof(buf));
	cf_open(NULL);
	op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);
	CF_DO(&op, sizeof(buf), 0);
	T_FILE(cf_path, want, sizeof(want));
}

static void a_write_behind_the_end_leaves_zeros_between(void)
{
	unsigned char want[70000], buf[333];
	struct penstock_op op;

	for (unsigned turn = 0; turn < 2; turn++) {
		t_file_make(cf_path, BEFORE, 1001);
		memset(want, 0, sizeof(want));
		penstock_pattern_fill(want, 1001, BEFORE, 0);
		penstock_pattern_fill(buf, sizeof(buf), AFTER, 0);
		memcpy(want + 69667, buf, sizeof(buf));
		if (!cf_io)
			cf_open(NULL);
		op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 69667);
		CF_DO(&op, sizeof(buf), turn);
		T_FILE(cf_path, want, sizeof(want));
	}
}

static void a_read_past_the_end_is_short_and_says_so(void)
{
	static const struct {
		uint64_t size, off, len, want;
	} rows[] = {
		{100, 40, 4096, 60},
		{100, 0, 4096, 100},
		{100, 100, 1, 0},
		{100, 5000, 4096, 0},
		{0, 0, 1, 0},
		{0, 4096, 4096, 0},
		{4096, 0, 8192, 4096},
		{4096, 4096, 4096, 0},
		{1000, 0, 4096, 1000},
		{1000, 0, 1001, 1000},
		{300000, 1, 1000000, 299999},
		{65536, 0, 65537, 65536},
		{65537, 0, 131072, 65537},
		{262144, 131072, 1 << 20, 131072},
	};

	cf_open(NULL);
	for (size_t i = 0; i < T_COUNT(rows) * 2; i++) {
		uint64_t size = rows[i / 2].size, off = rows[i / 2].off, want = rows[i / 2].want;
		struct t_mem m = t_mem_new(rows[i / 2].len, i % 4 == 3 ? 0 : i % 4 == 1 ? 3 : -1);
		unsigned char *made = malloc(size + 1);
		struct penstock_op op =
			cf_path_op(PENSTOCK_READ, cf_path, m.buf, rows[i / 2].len, off);
		struct penstock_done d;

		T_OK(made);
		t_file_make(cf_path, BEFORE, size);
		penstock_pattern_fill(made, size, BEFORE, 0);
		d = CF_DO(&op, want, (unsigned)i);
		T_OK(d.flags & PENSTOCK_DONE_EOF);
		if (want)
			T_MEM(m.buf, made + off, want);
		T_MEM_CHECK(&m);
		op.flags = PENSTOCK_OP_EXACT;
		d = CF_DO(&op, -ENODATA, (unsigned)i);
		T_EQ(d.bytes, want);
		T_STR_HAS(d.msg, cf_path);
		T_EQ(t_file_size(cf_path), size);
		t_mem_free(&m);
		free(made);
	}
}

static void a_read_inside_the_file_has_all_its_bytes(void)
{
	unsigned char buf[1000], want[4096];
	struct penstock_op op;
	struct penstock_done d;

	t_file_make(cf_path, BEFORE, sizeof(want));
	penstock_pattern_fill(want, sizeof(want), BEFORE, 0);
	cf_open(NULL);
	op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 96);
	op.flags = PENSTOCK_OP_EXACT;
	for (unsigned turn = 0; turn < 2; turn++) {
		d = CF_DO(&op, sizeof(buf), turn);
		T_OK(!(d.flags & PENSTOCK_DONE_EOF));
		T_MEM(buf, want + 96, sizeof(buf));
	}
}

static void nothing_is_moved_by_a_transfer_of_nothing(void)
{
	static const uint64_t at[] = {0, 1, 511, 4096, 100000};
	struct penstock_op op;

	t_file_make(cf_path, BEFORE, 5000);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < 4 * T_COUNT(at); i++) {
		op = cf_op(i & 1 ? PENSTOCK_READ : PENSTOCK_WRITE, NULL, 0, at[i / 4]);
		CF_DO(&op, 0, i / 2);
		T_FILE_PATTERN(cf_path, BEFORE, 5000);
	}
}

/* --------------------------------------------------------------- neighbours */

/* Every sector has several owners, all of them in flight together. */
static void neighbours_in_one_sector_do_not_disturb_each_other(void)
{
	enum { NR = 300, SIZE = 150000 };
	static unsigned char data[SIZE], zero[SIZE];
	static uint64_t tickets[NR];
	struct penstock_random rnd;
	struct penstock_opts o = cf_opts();
	uint64_t cut[NR + 1];

	penstock_random_seed(&rnd, 42);
	o.threads = 4;
	o.block = 4096;
	cf_open(&o);
	for (unsigned round = 0; round < 4; round++) {
		bool fresh = round & 1;
		unsigned order[NR];

		cut[0] = 0;
		for (unsigned i = 1; i < NR; i++) {
			cut[i] = cut[i - 1] + 1 + penstock_random_below(&rnd, 2 * SIZE / NR - 2);
			if (cut[i] > SIZE)
				cut[i] = SIZE;
		}
		cut[NR] = SIZE;
		unlink(cf_path);
		if (!fresh)
			t_file_make(cf_path, BEFORE, SIZE);
		penstock_pattern_fill(data, SIZE, 100 + round, 0);
		for (unsigned i = 0; i < NR; i++)
			order[i] = i;
		for (unsigned i = NR - 1; i && round >= 2; i--) {
			unsigned k = (unsigned)penstock_random_below(&rnd, i + 1), t = order[i];

			order[i] = order[k];
			order[k] = t;
		}
		cf_file_open(O_RDWR | O_CREAT);
		for (unsigned i = 0; i < NR; i++) {
			uint64_t a = cut[order[i]], b = cut[order[i] + 1];
			struct penstock_op op = cf_op(PENSTOCK_WRITE, data + a, b - a, a);

			tickets[i] = cf_submit(&op);
		}
		for (unsigned i = 0; i < NR; i++) {
			struct penstock_done d;

			T_EQ(penstock_wait(cf_io, tickets[i], T_NO_LIMIT, &d), 0);
			T_EQ(d.res, cut[order[i] + 1] - cut[order[i]]);
		}
		T_FILE(cf_path, data, SIZE);
		T_EQ(penstock_pread(cf_file, zero, SIZE, 0, NULL), SIZE);
		T_MEM(zero, data, SIZE);
		T_EQ(penstock_file_close(cf_file, NULL), 0);
		cf_file = NULL;
	}
}

/* A bounce that read a sector before and writes it back later would undo these. */
static void bytes_written_by_others_beside_a_transfer_stay(void)
{
	enum { ROUNDS = 200 };
	unsigned char mine[1000], theirs[24], want[1024];
	int fd;

	t_file_make(cf_path, BEFORE, 1024);
	penstock_pattern_fill(want, 1024, BEFORE, 0);
	fd = open(cf_path, O_RDWR | O_CLOEXEC);
	T_OK(fd >= 0);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct penstock_op op = cf_op(PENSTOCK_WRITE, mine, sizeof(mine), 0);
		struct penstock_done d;
		uint64_t ticket;

		penstock_pattern_fill(mine, sizeof(mine), 2 * i, 0);
		penstock_pattern_fill(theirs, sizeof(theirs), 2 * i + 1, 0);
		memcpy(want, mine, sizeof(mine));
		memcpy(want + 1000, theirs, sizeof(theirs));
		ticket = cf_submit(&op);
		T_EQ(pwrite(fd, theirs, sizeof(theirs), 1000), sizeof(theirs));
		T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
		T_EQ(d.res, sizeof(mine));
		T_FILE(cf_path, want, 1024);
	}
	close(fd);
}

/* ------------------------------------------------------------------ scatter */

static uint64_t cut_in_pieces(struct penstock_iov *iov, unsigned nr, unsigned char *mem,
			      unsigned kind, struct penstock_random *rnd)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < nr; i++) {
		uint64_t len = kind == 0   ? 1
			       : kind == 1 ? penstock_random_below(rnd, 3)
			       : kind == 2 ? penstock_random_below(rnd, 2000)
			       : kind == 3 ? 4096
					   : 512 * penstock_random_below(rnd, 5);

		/* with a gap before each, so that an overrun shows */
		mem += kind == 3 ? 4096 : 1 + penstock_random_below(rnd, 7);
		iov[i] = (struct penstock_iov){mem, len};
		mem += len;
		total += len;
	}
	return total;
}

static void scatter_lists_of_any_pieces_are_exact(void)
{
	static const unsigned counts[] = {1, 2, 3, 17, 1000};
	static struct penstock_iov iov[1000];
	static unsigned char flat[5 << 20], before[5 << 20];
	size_t room = 10 << 20;
	unsigned char *mem = aligned_alloc(4096, room);
	struct penstock_random rnd;
	unsigned turn = 0;

	T_OK(mem);
	penstock_random_seed(&rnd, 7);
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned kind = 0; kind < 5; kind++)
		for (unsigned c = 0; c < T_COUNT(counts); c++, turn++) {
			uint64_t off = turn % 3 == 0 ? 0 : penstock_random_below(&rnd, 10000);
			uint64_t total, at = 0;
			struct penstock_op op;

			memset(mem, 0xa5, room);
			total = cut_in_pieces(iov, counts[c], mem, kind, &rnd);
			T_OK(total <= sizeof(flat));
			penstock_pattern_fill(flat, total, turn, 0);
			for (unsigned i = 0; i < counts[c]; i++) {
				memcpy(iov[i].addr, flat + at, iov[i].len);
				at += iov[i].len;
			}
			op = cf_op(PENSTOCK_WRITE, NULL, 0, off);
			op.iov = iov;
			op.nr_iov = counts[c];
			CF_DO(&op, total, turn);
			T_EQ(penstock_pread(cf_file, before, total, off, NULL), total);
			T_MEM(before, flat, total);

			for (unsigned i = 0; i < counts[c]; i++)
				if (iov[i].len)
					memset(iov[i].addr, 0, iov[i].len);
			op.opcode = PENSTOCK_READ;
			CF_DO(&op, total, turn / 2);
			at = 0;
			for (unsigned i = 0; i < counts[c]; i++) {
				unsigned char *p = iov[i].addr;

				T_MEM(p, flat + at, iov[i].len);
				T_EQ(p[-1], 0xa5);
				T_EQ(p[iov[i].len], 0xa5);
				at += iov[i].len;
			}
		}
	free(mem);
}

/* And at the end of the file, within one of them. */
static void aligned_pieces_of_a_list_are_one_block(void)
{
	enum { PIECES = 8, PIECE = 4096, LEN = PIECES * PIECE, END = 5 * PIECE + 512 };
	struct penstock_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_iov iov[PIECES];
	unsigned char want[LEN];
	struct penstock_op op;
	char *mem;

	t_file_make(cf_path, BEFORE, LEN);
	cf_open(NULL);
	cf_file_open(O_RDWR);
	penstock_file_stat(cf_file, &info);
	T_EQ(penstock_buf_alloc((void **)&mem, cf_io, 2 * LEN, 0, NULL, NULL), 0);
	for (unsigned i = 0; i < PIECES; i++)
		iov[i] = (struct penstock_iov){mem + 2 * i * PIECE, PIECE};
	op = cf_op(PENSTOCK_READ, NULL, 0, 0);
	op.iov = iov;
	op.nr_iov = PIECES;
	penstock_pattern_fill(want, LEN, BEFORE, 0);
	for (unsigned turn = 0; turn < 4; turn++) {
		op.opcode = turn & 1 ? PENSTOCK_WRITE : PENSTOCK_READ;
		penstock_get_stats(cf_io, &before);
		CF_DO(&op, LEN, turn / 2);
		penstock_get_stats(cf_io, &after);
		for (unsigned i = 0; i < PIECES; i++)
			T_MEM(iov[i].addr, want + i * PIECE, PIECE);
		if (info.direct)
			T_EQ(after.blocks - before.blocks, 1);
	}
	T_EQ(truncate(cf_path, END), 0);
	op.opcode = PENSTOCK_READ;
	for (unsigned turn = 0; turn < 2; turn++) {
		memset(mem, 0xa5, 2 * LEN);
		T_OK(CF_DO(&op, END, turn).flags & PENSTOCK_DONE_EOF);
		for (unsigned i = 0; i < 5; i++)
			T_MEM(iov[i].addr, want + i * PIECE, PIECE);
		T_MEM(iov[5].addr, want + 5 * PIECE, 512);
		T_EQ(((unsigned char *)iov[0].addr)[PIECE], 0xa5);
	}
}

static void a_scatter_list_across_the_end_is_short(void)
{
	unsigned char buf[9000], want[5000];
	struct penstock_iov iov[] = {{buf, 100}, {buf + 100, 4000}, {NULL, 0}, {buf + 4100, 4900}};
	struct penstock_op op;
	struct penstock_done d;

	t_file_make(cf_path, BEFORE, sizeof(want));
	penstock_pattern_fill(want, sizeof(want), BEFORE, 0);
	cf_open(NULL);
	cf_file_open(O_RDONLY);
	op = cf_op(PENSTOCK_READ, NULL, 0, 17);
	op.iov = iov;
	op.nr_iov = T_COUNT(iov);
	for (unsigned turn = 0; turn < 2; turn++) {
		memset(buf, 0, sizeof(buf));
		d = CF_DO(&op, 4983, turn);
		T_OK(d.flags & PENSTOCK_DONE_EOF);
		T_MEM(buf, want + 17, 4983);
	}
}

/* The list is read when it is submitted and may be gone right after. */
static void the_scatter_list_need_not_outlive_submission(void)
{
	static unsigned char buf[200000];
	struct penstock_iov *iov = malloc(20 * sizeof(*iov));
	struct penstock_op op;
	struct penstock_done d;
	uint64_t ticket;

	T_OK(iov);
	t_file_make(cf_path, BEFORE, sizeof(buf));
	cf_open(NULL);
	cf_file_open(O_RDONLY);
	for (unsigned i = 0; i < 20; i++)
		iov[i] = (struct penstock_iov){buf + 10000 * i, 10000};
	op = cf_op(PENSTOCK_READ, NULL, 0, 0);
	op.iov = iov;
	op.nr_iov = 20;
	ticket = cf_submit(&op);
	memset(iov, 0xff, 20 * sizeof(*iov));
	free(iov);
	T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
	T_EQ(d.res, sizeof(buf));
	T_EQ(penstock_pattern_check(buf, sizeof(buf), BEFORE, 0), sizeof(buf));
}

/* -------------------------------------------------------- flags of transfers */

static void truncate_ends_the_file_behind_the_write(void)
{
	static const struct {
		uint64_t size, off, len;
	} rows[] = {
		{10000, 50, 100},      {10000, 0, 4096},  {10000, 0, 0},       {10000, 20, 0},
		{0, 0, 70001},         {100, 4096, 4096}, {300000, 1, 200000}, {100, 100, 1},
		{1 << 20, 0, 1 << 19}, {1 << 20, 513, 5},
	};

	cf_open(NULL);
	for (unsigned i = 0; i < 2 * T_COUNT(rows); i++) {
		uint64_t off = rows[i / 2].off, len = rows[i / 2].len, end = off + len;
		unsigned char *want = calloc(1, (1 << 20) + 1), *buf = malloc(len + 1);
		struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, len, off);

		T_OK(want && buf);
		t_file_make(cf_path, BEFORE, rows[i / 2].size);
		penstock_pattern_fill(want, rows[i / 2].size, BEFORE, 0);
		penstock_pattern_fill(buf, len, AFTER, 0);
		memcpy(want + off, buf, len);
		op.flags = PENSTOCK_OP_TRUNCATE;
		CF_DO(&op, len, i);
		T_FILE(cf_path, want, end);
		free(want);
		free(buf);
	}
}

static void durable_writes_are_as_right_as_others(void)
{
	static const uint32_t flags[] = {0, PENSTOCK_OP_DATASYNC, PENSTOCK_OP_FULLSYNC,
					 PENSTOCK_OP_DATASYNC | PENSTOCK_OP_TRUNCATE};
	static unsigned char buf[150001];

	for (unsigned durable = PENSTOCK_DURABLE_NONE; durable <= PENSTOCK_DURABLE_FULL;
	     durable++) {
		struct penstock_opts o = cf_opts();

		o.durability = durable;
		cf_open(&o);
		for (unsigned i = 0; i < 2 * T_COUNT(flags); i++) {
			struct penstock_op op =
				cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);

			unlink(cf_path);
			penstock_pattern_fill(buf, sizeof(buf), i, 0);
			op.flags = flags[i / 2];
			CF_DO(&op, sizeof(buf), i);
			T_FILE_PATTERN(cf_path, i, sizeof(buf));
			op.len = 1;
			CF_DO(&op, 1, i);
		}
		cf_close(0);
	}
}

static void sync_is_an_operation(void)
{
	unsigned char buf[5000];
	struct penstock_op op;

	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	penstock_pattern_fill(buf, sizeof(buf), AFTER, 0);
	for (unsigned turn = 0; turn < 4; turn++) {
		op = cf_op(PENSTOCK_WRITE, buf, sizeof(buf), 0);
		CF_DO(&op, sizeof(buf), turn);
		op = turn & 2 ? cf_path_op(PENSTOCK_SYNC, cf_path, NULL, 0, 0)
			      : cf_op(PENSTOCK_SYNC, NULL, 0, 0);
		CF_DO(&op, 0, turn);
	}
	T_FILE_PATTERN(cf_path, AFTER, sizeof(buf));
}

static void submission_modes_change_speed_not_data(void)
{
	static const uint32_t flags[] = {PENSTOCK_SINGLE_SUBMIT, PENSTOCK_NO_OVERLAP,
					 PENSTOCK_SINGLE_SUBMIT | PENSTOCK_NO_OVERLAP};
	static unsigned char buf[3000001];

	for (unsigned i = 0; i < 2 * T_COUNT(flags); i++) {
		struct penstock_opts o = cf_opts();
		struct penstock_op op;

		o.flags = flags[i / 2];
		o.depth = i & 1 ? 1 : 7;
		o.threads = i & 1 ? 3 : 1;
		cf_open(&o);
		unlink(cf_path);
		op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);
		penstock_pattern_fill(buf, sizeof(buf), i, 0);
		CF_DO(&op, sizeof(buf), i);
		T_FILE_PATTERN(cf_path, i, sizeof(buf));
		memset(buf, 0, sizeof(buf));
		op.opcode = PENSTOCK_READ;
		CF_DO(&op, sizeof(buf), i);
		T_EQ(penstock_pattern_check(buf, sizeof(buf), i, 0), sizeof(buf));
		cf_close(0);
	}
}

/* ----------------------------------------------------------------- memory */

static void a_write_only_reads_the_callers_memory(void)
{
	static const uint64_t lens[] = {4096, 4097, 65536, 150001};

	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	for (unsigned i = 0; i < 2 * T_COUNT(lens); i++) {
		struct t_mem m = t_mem_new(lens[i / 2], i & 1 ? -1 : 0);
		struct penstock_op op = cf_op(PENSTOCK_WRITE, m.buf, m.len, i);

		penstock_pattern_fill(m.buf, m.len, AFTER, 0);
		T_EQ(mprotect(m.map, m.map_len, PROT_READ), 0);
		CF_DO(&op, m.len, i / 2);
		t_mem_free(&m);
	}
}

static void a_bad_address_is_an_error_not_a_crash(void)
{
	unsigned char *none =
		mmap(NULL, MIB(1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct penstock_op op;
	struct penstock_done d;

	T_OK(none != MAP_FAILED);
	t_file_make(cf_path, BEFORE, MIB(1));
	cf_open(NULL);
	cf_file_open(O_RDWR);
	for (unsigned i = 0; i < 8; i++) {
		op = cf_op(i & 1 ? PENSTOCK_READ : PENSTOCK_WRITE, none, i & 2 ? 4096 : MIB(1), 0);
		d = CF_DO(&op, -EFAULT, i / 4);
		T_EQ(d.bytes, 0);
		T_STR_HAS(d.msg, cf_path);
	}
	T_FILE_PATTERN(cf_path, BEFORE, MIB(1));
	munmap(none, MIB(1));
}

/* ------------------------------------------------------------ preallocation */

static void a_file_that_grows_is_preallocated_first(void)
{
	static unsigned char buf[1000001];
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_op op;

	cf_open(NULL);
	penstock_pattern_fill(buf, sizeof(buf), AFTER, 0);
	op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);
	CF_DO(&op, sizeof(buf), 1);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_OK(st.preallocations > 0 || T_BIT(st.fallbacks, PENSTOCK_FALLBACK_NO_PREALLOC));
	T_FILE_PATTERN(cf_path, AFTER, sizeof(buf));
	st.preallocations = 0;
	cf_close(0);

	cf_open(NULL); /* nothing grows now */
	CF_DO(&op, sizeof(buf), 1);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_EQ(st.preallocations, 0);
}

static void many_writers_may_grow_one_file(void)
{
	enum { NR = 64, LEN = 30011 };
	static unsigned char buf[NR * LEN];
	struct penstock_summary sum;

	for (unsigned round = 0; round < 4; round++) {
		struct penstock_opts o = cf_opts();

		o.threads = 4;
		cf_open(&o);
		unlink(cf_path);
		penstock_pattern_fill(buf, sizeof(buf), round, 0);
		for (unsigned i = 0; i < NR; i++) {
			unsigned k = round & 1 ? NR - 1 - i : i;
			struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf + k * LEN,
							   LEN, (uint64_t)k * LEN);

			cf_submit(&op);
		}
		T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
		T_EQ(sum.failed, 0);
		T_EQ(sum.ops, NR);
		T_EQ(sum.bytes, sizeof(buf));
		T_FILE_PATTERN(cf_path, round, sizeof(buf));
		cf_close(0);
	}
}

static const struct t_case cases[] = {
	T_CASE(any_offset_length_and_address_is_exact),
	T_CASE(the_file_ends_where_the_write_ends),
	T_CASE(a_shorter_write_keeps_the_old_tail),
	T_CASE(a_write_behind_the_end_leaves_zeros_between),
	T_CASE(a_read_past_the_end_is_short_and_says_so),
	T_CASE(a_read_inside_the_file_has_all_its_bytes),
	T_CASE(nothing_is_moved_by_a_transfer_of_nothing),
	T_CASE(neighbours_in_one_sector_do_not_disturb_each_other),
	T_CASE(bytes_written_by_others_beside_a_transfer_stay),
	T_CASE(scatter_lists_of_any_pieces_are_exact),
	T_CASE(aligned_pieces_of_a_list_are_one_block),
	T_CASE(a_scatter_list_across_the_end_is_short),
	T_CASE(the_scatter_list_need_not_outlive_submission),
	T_CASE(truncate_ends_the_file_behind_the_write),
	T_CASE(durable_writes_are_as_right_as_others),
	T_CASE(sync_is_an_operation),
	T_CASE(submission_modes_change_speed_not_data),
	T_CASE(a_write_only_reads_the_callers_memory),
	T_CASE(a_bad_address_is_an_error_not_a_crash),
	T_CASE(a_file_that_grows_is_preallocated_first),
	T_CASE(many_writers_may_grow_one_file),
};

const struct t_group cf_transfer = {
	"transfer", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
