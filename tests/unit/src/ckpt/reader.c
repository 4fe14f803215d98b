/* SPDX-License-Identifier: Apache-2.0 */
/* The stream reader: any range in any order, and no byte that is not what was saved. */
#include <fcntl.h>
#include <sys/stat.h>

#include <penstock/ckpt.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

static struct penstock_io *io;
static struct penstock_err err;

static void setup(void)
{
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
}

static void teardown(void)
{
	T_EQ(penstock_close(io, NULL), 0);
}

static void save(const char *name, uint64_t seed, uint64_t len)
{
	CLEANUP_FREE unsigned char *buf = malloc(len + 1);
	struct penstock_writer *w;

	T_OK(buf);
	penstock_pattern_fill(buf, len, seed, 0);
	T_ERR(penstock_writer_open(&w, io, t_path(name), NULL, &err), 0, &err);
	T_ERR(penstock_writer_write(w, buf, len, &err), 0, &err);
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
}

static struct penstock_reader *open_with(const char *name, uint32_t verify, int want)
{
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	struct penstock_reader *r = NULL;

	o.verify = verify;
	o.buffers = 2;
	o.buffer_bytes = MIB(1);
	T_ERR(penstock_reader_open(&r, io, t_path(name), &o, &err), want, &err);
	return r;
}

static bool verifies(const struct penstock_reader *r)
{
	struct penstock_reader_info info = {.size = sizeof(info)};

	T_EQ(penstock_reader_stat(r, &info), 0);
	return info.verify;
}

static void flip(const char *name, uint64_t byte, unsigned bit)
{
	int fd = open(t_path(name), O_RDWR);
	unsigned char c = 0;

	T_OK(fd >= 0 && pread(fd, &c, 1, (off_t)byte) == 1);
	c ^= (unsigned char)(1u << bit);
	T_OK(pwrite(fd, &c, 1, (off_t)byte) == 1 && close(fd) == 0);
}

/* cp(1), which keeps neither inode nor time */
static void copy(const char *from, const char *to)
{
	char cmd[2 * PATH_MAX];

	snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", t_path(from), t_path(to));
	T_EQ(system(cmd), 0);
}

/* -------------------------------------------------------------------- stream */

static void a_stream_gives_the_file_in_any_steps(void)
{
	static const uint64_t lens[] = {0, 1, 4096, MIB(1), MIB(1) + 1, MIB(7) + 333};
	static const uint64_t steps[] = {1000, 4096, 70001, MIB(2) + 1, MIB(9)};
	unsigned char *buf = malloc(MIB(9));

	T_OK(buf);
	for (size_t i = 0; i < T_COUNT(lens); i++) {
		save("f", i, lens[i]);
		for (size_t k = 0; k < T_COUNT(steps); k++) {
			struct penstock_reader *r = open_with("f", k % 3, 0);
			uint64_t at = 0;

			T_EQ(verifies(r), k % 3 != PENSTOCK_VERIFY_NEVER);
			for (int64_t n; at < lens[i]; at += (uint64_t)n) {
				n = penstock_reader_read(r, buf, steps[k], &err);
				T_EQ(n, min_u64(steps[k], lens[i] - at));
				T_EQ(penstock_pattern_check(buf, (size_t)n, i, at), n);
			}
			T_EQ(penstock_reader_read(r, buf, 10, &err), 0);
			T_EQ(penstock_reader_tell(r), lens[i]);
			penstock_reader_close(r);
		}
	}
	free(buf);
}

static void a_stream_can_be_anywhere_next(void)
{
	struct penstock_random rnd;
	unsigned char *buf = malloc(MIB(3));
	struct penstock_reader *r;

	T_OK(buf);
	penstock_random_seed(&rnd, t_seed());
	save("f", 9, MIB(9) + 17);
	r = open_with("f", 0, 0);
	for (unsigned i = 0; i < 300; i++) {
		uint64_t at = penstock_reader_tell(r), len = penstock_random_below(&rnd, 300000);
		int64_t n, want;

		if (penstock_random_below(&rnd, 2))
			at = penstock_random_below(&rnd, MIB(10));
		else if (penstock_random_below(&rnd, 2))
			at += penstock_random_below(&rnd, 100000);
		T_EQ(penstock_reader_seek(r, at, &err), 0);
		want = at < MIB(9) + 17 ? (int64_t)min_u64(len, MIB(9) + 17 - at) : 0;
		n = i % 5 ? penstock_reader_read(r, buf, len, &err)
			  : penstock_reader_pread(r, buf, len, at, &err);
		T_EQ(n, want);
		T_EQ(penstock_pattern_check(buf, (size_t)n, 9, at), n);
	}
	penstock_reader_close(r);
	free(buf);
}

/* -------------------------------------------------------------------- ranges */

static void ranges_in_any_order_go_where_they_belong(void)
{
	enum { N = 60 };
	struct penstock_random rnd;
	struct penstock_piece p[N];
	uint64_t bytes = MIB(21) + 4321;

	penstock_random_seed(&rnd, t_seed());
	save("f", 4, bytes);
	for (unsigned round = 0; round < 12; round++) {
		struct penstock_reader *r = open_with("f", round % 3, 0);

		for (unsigned i = 0; i < N; i++) {
			uint64_t most = i % 10 ? 9000 : MIB(8);

			p[i].len = penstock_random_below(&rnd, most);
			p[i].offset = penstock_random_below(&rnd, bytes - p[i].len);
			if (i % 10 == 1) /* neighbours, and the end of the file */
				p[i].offset =
					min_u64(p[i - 1].offset + p[i - 1].len, bytes - p[i].len);
			if (i == 7)
				p[i].offset = bytes - p[i].len;
			p[i].buf = i % 9 == 8 ? NULL : malloc(p[i].len + 1);
			if (p[i].buf)
				((char *)p[i].buf)[p[i].len] = 0x5a;
		}
		T_ERR(penstock_reader_fetch(r, p, N, &err), 0, &err);
		for (unsigned i = 0; i < N; i++) {
			if (!p[i].buf)
				continue;
			T_EQ(penstock_pattern_check(p[i].buf, p[i].len, 4, p[i].offset), p[i].len);
			T_EQ(((char *)p[i].buf)[p[i].len], 0x5a);
			free(p[i].buf);
		}
		penstock_reader_close(r);
	}
}

/* Files as small as the pool, and ranges of which some go past it: each has room in the end. */
static void ranges_may_overlap(void)
{
	enum { N = 6 };
	static const struct penstock_piece first[] = {
		{KIB(512), MIB(2), NULL}, {MIB(1), MIB(4), NULL}, {KIB(1229), KIB(3993), NULL}};
	unsigned char *buf = malloc(N * MIB(8));
	struct penstock_random rnd;

	T_OK(buf);
	penstock_random_seed(&rnd, t_seed());
	for (unsigned round = 0; round < 40 / T_STEP; round++) {
		uint64_t bytes = round ? MIB(4) + penstock_random_below(&rnd, MIB(4)) : MIB(6);
		unsigned n = round ? 2 + (unsigned)penstock_random_below(&rnd, N - 1) : 3;
		struct penstock_piece p[N];
		struct penstock_reader *r;

		save("f", round, bytes);
		T_ERR(penstock_reader_open(&r, io, t_path("f"), NULL, &err), 0, &err);
		for (unsigned i = 0; i < n; i++) {
			if (round) {
				p[i].len = 1 + penstock_random_below(&rnd, bytes);
				p[i].offset = penstock_random_below(&rnd, bytes - p[i].len + 1);
			} else {
				p[i] = first[i];
			}
			p[i].buf = buf + i * MIB(8);
		}
		memset(buf, 0, n * MIB(8));
		T_ERR(penstock_reader_fetch(r, p, n, &err), 0, &err);
		for (unsigned i = 0; i < n; i++)
			T_EQ(penstock_pattern_check(p[i].buf, p[i].len, round, p[i].offset),
			     p[i].len);
		penstock_reader_close(r);
	}
	free(buf);
}

static void ranges_outside_the_file_are_refused(void)
{
	static const struct penstock_piece bad[] = {
		{1000, 1, NULL}, {999, 2, NULL}, {UINT64_MAX, 1, NULL}, {1, UINT64_MAX, NULL}};
	struct penstock_reader *r;

	save("f", 4, 1000);
	r = open_with("f", 0, 0);
	for (size_t i = 0; i < T_COUNT(bad); i++) {
		T_ERR(penstock_reader_fetch(r, &bad[i], 1, &err), -EINVAL, &err);
		T_STR_HAS(err.msg, "is not within the file of 1000 bytes");
	}
	T_EQ(penstock_reader_fetch(r, NULL, 0, &err), 0);
	penstock_reader_close(r);
}

/* Many small pieces cost few transfers. */
static void neighbours_are_read_together(void)
{
	enum { N = 4096 };
	struct penstock_piece *p = calloc(N, sizeof(*p));
	char *buf = malloc(N * 512);
	struct penstock_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};

	T_OK(p && buf);
	save("f", 6, N * 700);
	for (unsigned verify = 0; verify <= PENSTOCK_VERIFY_NEVER; verify += 2) {
		struct penstock_reader *r = open_with("f", verify, 0);
		struct penstock_reader_info info = {.size = sizeof(info)};

		for (unsigned i = 0; i < N; i++)
			p[i] = (struct penstock_piece){(N - 1 - i) * 700, 512, buf + i * 512};
		penstock_get_stats(io, &before);
		T_ERR(penstock_reader_fetch(r, p, N, &err), 0, &err);
		penstock_get_stats(io, &after);
		for (unsigned i = 0; i < N; i++)
			T_EQ(penstock_pattern_check(p[i].buf, 512, 6, p[i].offset), 512);
		T_OK(after.ops - before.ops <= N * 700 / MIB(1) + 2);
		penstock_reader_stat(r, &info);
		T_OK(info.read_bytes <= N * 700);
		penstock_reader_close(r);
	}
	free(buf);
	free(p);
}

/* -------------------------------------------------------------- verification */

static void every_flipped_bit_of_a_file_is_found_and_named(void)
{
	uint64_t len = 601;
	char buf[601];
	struct penstock_reader_info info = {.size = sizeof(info)};

	save("f", 1, len);
	for (uint64_t byte = 0; byte < len; byte += T_TSAN ? 10 : 1)
		for (unsigned bit = 0; bit < 8; bit += byte % 16 ? 7 : 1) {
			struct penstock_reader *r;

			flip("f", byte, bit);
			r = open_with("f", 0, 0);
			T_ERR(penstock_reader_pread(r, buf, 10, byte / 2, &err), -EBADMSG, &err);
			T_STR_HAS(err.msg, "f: bytes 0 to 600 are not what was saved");
			penstock_reader_stat(r, &info);
			T_EQ(info.bad_offset, 0);
			T_EQ(info.bad_len, len);
			penstock_reader_close(r);
			flip("f", byte, bit);
		}
}

static void a_flipped_bit_is_found_by_every_way_of_reading(void)
{
	struct penstock_random rnd;
	uint64_t len = MIB(11) + 99;
	unsigned char *buf = malloc(len);

	T_OK(buf);
	penstock_random_seed(&rnd, t_seed());
	save("f", 1, len);
	for (unsigned i = 0; i < 60; i += T_STEP) {
		uint64_t byte = i < 2 ? i * (len - 1) : penstock_random_below(&rnd, len);
		unsigned bit = (unsigned)penstock_random_below(&rnd, 8);
		struct penstock_reader_info info = {.size = sizeof(info)};
		struct penstock_piece all = {0, len, i % 3 ? buf : NULL};
		struct penstock_reader *r;
		int64_t e = 1;

		flip("f", byte, bit);
		r = open_with("f", 0, 0);
		if (i % 4 == 3)
			while (e > 0)
				e = penstock_reader_read(r, buf, 123456, &err);
		else
			e = penstock_reader_fetch(r, &all, 1, &err);
		T_ERR(e, -EBADMSG, &err);
		penstock_reader_stat(r, &info);
		T_EQ(info.bad_offset, byte - byte % MIB(1));
		/* what is not touched is not looked at */
		if (byte >= MIB(2))
			T_EQ(penstock_reader_pread(r, buf, 1000, 0, &err), 1000);
		penstock_reader_close(r);
		r = open_with("f", PENSTOCK_VERIFY_NEVER, 0);
		T_EQ(penstock_reader_pread(r, buf, len, 0, &err), len);
		penstock_reader_close(r);
		flip("f", byte, bit);
	}
	free(buf);
}

static void a_copy_with_its_checksums_is_verified(void)
{
	struct penstock_reader *r;
	char buf[100];

	save("f", 1, MIB(1));
	save("f", 2, MIB(1)); /* FILE.crc describes both of these */
	copy("f", "g");
	copy("f.crc", "g.crc");
	r = open_with("g", PENSTOCK_VERIFY_ALWAYS, 0);
	T_EQ(penstock_reader_pread(r, buf, 100, 5000, &err), 100);
	penstock_reader_close(r);
	flip("g", 5, 5);
	r = open_with("g", PENSTOCK_VERIFY_ALWAYS, 0);
	T_ERR(penstock_reader_pread(r, buf, 100, 5000, &err), -EBADMSG, &err);
	penstock_reader_close(r);
}

/* Half of one and half of the other is neither. */
static void a_mixture_of_old_and_new_is_found(void)
{
	unsigned char *buf = malloc(MIB(2));
	struct penstock_piece all = {0, MIB(2), buf};
	struct penstock_reader *r;
	int fd;

	T_OK(buf);
	save("f", 1, MIB(2));
	save("f", 2, MIB(2));
	penstock_pattern_fill(buf, MIB(2), 1, 0);
	fd = open(t_path("f"), O_RDWR);
	T_OK(fd >= 0 && pwrite(fd, buf, MIB(1), 0) == (ssize_t)MIB(1) && close(fd) == 0);
	r = open_with("f", 0, 0);
	T_ERR(penstock_reader_fetch(r, &all, 1, &err), -EBADMSG, &err);
	penstock_reader_close(r);
	free(buf);
}

static void a_file_of_another_program_is_told_from_a_damaged_one(void)
{
	struct penstock_reader *r;
	char buf[10];

	save("f", 1, MIB(1));
	t_file_make(t_path("f"), 7, 12345); /* same inode, other size */
	T_EQ(open_with("f", 0, -EBADMSG), NULL);
	T_STR_HAS(err.msg, "written by another program");
	T_STR_HAS(err.msg, "remove f.crc");
	r = open_with("f", PENSTOCK_VERIFY_NEVER, 0);
	T_EQ(penstock_reader_read(r, buf, 10, &err), 10);
	penstock_reader_close(r);
	/* replaced by us, it is in order again */
	save("f", 2, MIB(1));
	r = open_with("f", PENSTOCK_VERIFY_ALWAYS, 0);
	T_EQ(penstock_reader_read(r, buf, 10, &err), 10);
	penstock_reader_close(r);
}

static void without_checksums_it_is_read_as_it_is_unless_they_are_asked_for(void)
{
	struct penstock_reader *r;

	t_file_make(t_path("plain"), 7, 12345);
	r = open_with("plain", PENSTOCK_VERIFY_AUTO, 0);
	T_OK(!verifies(r));
	penstock_reader_close(r);
	T_EQ(open_with("plain", PENSTOCK_VERIFY_ALWAYS, -ENODATA), NULL);
	T_STR_HAS(err.msg, "plain: there are no checksums");
}

static void damaged_checksums_are_not_ignored(void)
{
	int64_t len;

	save("f", 1, 5000);
	len = t_file_size(t_path("f.crc"));
	T_OK(len > 0);
	for (int64_t i = 0; i < len; i++) {
		flip("f.crc", (uint64_t)i, (unsigned)i % 8);
		T_EQ(open_with("f", 0, -EBADMSG), NULL);
		T_STR_HAS(err.msg, "f.crc: ");
		flip("f.crc", (uint64_t)i, (unsigned)i % 8);
	}
	for (int64_t i = len - 1; i >= 0; i -= 3) {
		T_OK(truncate(t_path("f.crc"), i) == 0);
		T_EQ(open_with("f", 0, -EBADMSG), NULL);
	}
	unlink(t_path("f.crc"));
	penstock_reader_close(open_with("f", 0, 0));
}

static void what_is_no_file_is_refused(void)
{
	T_EQ(open_with("no", 0, -ENOENT), NULL);
	mkdir(t_path("d"), 0755);
	T_EQ(open_with("d", 0, -EINVAL), NULL);
	T_OK(mkfifo(t_path("p"), 0600) == 0);
	T_EQ(open_with("p", 0, -EINVAL), NULL); /* and nobody waits for a writer */
}

static void a_file_cut_short_under_a_reader_is_an_error(void)
{
	char *buf = malloc(MIB(3));
	struct penstock_reader *r;

	T_OK(buf);
	save("f", 1, MIB(3));
	r = open_with("f", PENSTOCK_VERIFY_NEVER, 0);
	T_OK(truncate(t_path("f"), 5000) == 0);
	T_ERR(penstock_reader_pread(r, buf, MIB(3), 0, &err), -ENODATA, &err);
	T_EQ(penstock_reader_pread(r, buf, 1000, 0, &err), 1000);
	penstock_reader_close(r);
	free(buf);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(a_stream_gives_the_file_in_any_steps),
		T_CASE(a_stream_can_be_anywhere_next),
		T_CASE(ranges_in_any_order_go_where_they_belong),
		T_CASE(ranges_may_overlap),
		T_CASE(ranges_outside_the_file_are_refused),
		T_CASE(neighbours_are_read_together),
		T_CASE(every_flipped_bit_of_a_file_is_found_and_named),
		T_CASE(a_flipped_bit_is_found_by_every_way_of_reading),
		T_CASE(a_copy_with_its_checksums_is_verified),
		T_CASE(a_mixture_of_old_and_new_is_found),
		T_CASE(a_file_of_another_program_is_told_from_a_damaged_one),
		T_CASE(without_checksums_it_is_read_as_it_is_unless_they_are_asked_for),
		T_CASE(damaged_checksums_are_not_ignored),
		T_CASE(what_is_no_file_is_refused),
		T_CASE(a_file_cut_short_under_a_reader_is_an_error),
	};
	static const struct t_group groups[] = {
		{"ckpt_reader", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
