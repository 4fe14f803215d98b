/* SPDX-License-Identifier: Apache-2.0 */
/* The stream writer: every byte in its place, nothing before the commit, everything after it. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <penstock/ckpt.h>
#include <penstock/stripe.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/util.h"
#include "ckpt/ckptopts.h"
#include "ckpt/crcfile.h"
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

/* Files in the folder of the test, hidden ones included. */
static unsigned nr_files(void)
{
	DIR *d = opendir(t_dir());
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void empty_folder(void)
{
	DIR *d = opendir(t_dir());
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlink(t_path(e->d_name));
	closedir(d);
}

/* A small pool, so that short files meet its limits. */
static struct penstock_writer *begin(const char *name, uint32_t flags, uint64_t expected)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_writer *w;

	o.buffers = 2;
	o.buffer_bytes = MIB(1);
	o.flags = flags;
	o.expected = expected;
	T_ERR(penstock_writer_open(&w, io, t_path(name), &o, &err), 0, &err);
	return w;
}

/* Bytes of the pattern from the position on, in pieces of @step. */
static void put(struct penstock_writer *w, uint64_t seed, uint64_t len, uint64_t step)
{
	unsigned char *buf = malloc(step);
	uint32_t crc = 0, want = 0;

	T_OK(buf);
	while (len) {
		uint64_t n = min_u64(len, step), at = penstock_writer_tell(w);

		penstock_pattern_fill(buf, n, seed, at);
		want = penstock_crc32(want, buf, n);
		T_ERR(penstock_writer_write_crc32(w, buf, n, &crc, &err), 0, &err);
		T_EQ(crc, want);
		T_EQ(penstock_writer_tell(w), at + n);
		memset(buf, 0, n); /* it is the caller's again */
		len -= n;
	}
	free(buf);
}

static void save(const char *name, uint64_t seed, uint64_t len, uint32_t flags)
{
	struct penstock_writer *w = begin(name, flags, 0);

	put(w, seed, len, 70001);
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
}

/* FILE.crc is what the file says, as a plain program sees it. */
static void check_crc_file(const char *name)
{
	CLEANUP_FREE unsigned char *buf = malloc(PENSTOCK_CHUNK);
	char crcname[NAME_MAX + 1];
	struct crc_set is;
	struct crcfile f;
	struct stat st;
	int dir = open(t_dir(), O_RDONLY | O_DIRECTORY), fd = open(t_path(name), O_RDONLY);

	snprintf(crcname, sizeof(crcname), "%s.crc", name);
	T_OK(buf && dir >= 0 && fd >= 0 && fstat(fd, &st) == 0);
	T_ERR(crcfile_load(&f, dir, crcname, &err), 0, &err);
	is = crc_set_for_stat(&st, (uint64_t)st.st_size);
	crcfile_select_sets(&f, &is);
	T_EQ(f.nr, 1);
	T_EQ(f.sets[0].nr, crc_chunks((uint64_t)st.st_size));
	for (uint64_t i = 0; i < f.sets[0].nr; i++) {
		ssize_t n = pread(fd, buf, PENSTOCK_CHUNK, (off_t)(i * PENSTOCK_CHUNK));

		T_OK(n > 0);
		T_EQ(penstock_crc32c(0, buf, (size_t)n), f.sets[0].crcs[i]);
	}
	crcfile_free(&f);
	close(fd);
	close(dir);
}

/* ------------------------------------------------------------------- lengths */

static const uint64_t lengths[] = {
	0,          1,          511,        512,         4095,       4096,   4097,
	65536,      1000003,    MIB(1) - 1, MIB(1),      MIB(1) + 1, MIB(2), MIB(2) + 4096,
	MIB(3) - 1, MIB(3) + 1, MIB(5),     MIB(5) + 77, 5555555,
};

static void any_length_comes_out_exactly(void)
{
	for (size_t i = 0; i < T_COUNT(lengths); i++) {
		save("f", i, lengths[i], 0);
		T_FILE_PATTERN(t_path("f"), i, lengths[i]);
		check_crc_file("f");
	}
	T_EQ(nr_files(), 2); /* f and f.crc */
}

static void any_piece_size_gives_the_same_file(void)
{
	static const uint64_t steps[] = {1, 7, 59, 4095, 4096, 65537, MIB(1), MIB(3) + 5};

	for (size_t i = 0; i < T_COUNT(steps); i++) {
		uint64_t len = steps[i] < 59 ? 30011 : MIB(4) + 123;
		struct penstock_writer *w = begin("f", 0, i % 2 ? len : 0);

		put(w, i, len, steps[i]);
		T_ERR(penstock_writer_commit(w, &err), 0, &err);
		T_FILE_PATTERN(t_path("f"), i, len);
		check_crc_file("f");
	}
}

static void an_expected_size_is_only_expected(void)
{
	static const uint64_t expected[] = {1, MIB(1), MIB(8), MIB(64)};

	for (size_t i = 0; i < T_COUNT(expected); i++) {
		struct penstock_writer *w = begin("f", 0, expected[i]);

		put(w, i, MIB(2) + 3, 300000);
		T_ERR(penstock_writer_commit(w, &err), 0, &err);
		T_FILE_PATTERN(t_path("f"), i, MIB(2) + 3);
		check_crc_file("f");
	}
}

/* -------------------------------------------------------------------- seeking */

/* The same in memory, to compare with. */
static unsigned char *model;
static uint64_t model_len;

static void model_write(struct penstock_writer *w, uint64_t seed, uint64_t len)
{
	uint64_t at = penstock_writer_tell(w);

	penstock_pattern_fill(model + at, len, seed, at);
	T_ERR(penstock_writer_write(w, model + at, len, &err), 0, &err);
	model_len = max_u64(model_len, at + len);
}

/* As in memory, and its checksums say so. */
static void check_plain(const char *name)
{
	T_FILE(t_path(name), model, model_len);
	check_crc_file(name);
}

static void check_striped(const char *name)
{
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	unsigned char *got = malloc(MIB(16));
	struct penstock_reader *r;

	T_OK(got);
	o.verify = PENSTOCK_VERIFY_ALWAYS;
	T_ERR(penstock_reader_open(&r, io, t_path(name), &o, &err), 0, &err);
	T_EQ(penstock_reader_read(r, got, MIB(16), &err), model_len);
	T_MEM(got, model, model_len);
	penstock_reader_close(r);
	free(got);
}

static void seek_and_write(const char *name, void (*check)(const char *name))
{
	struct penstock_random rnd;
	uint64_t seed = t_seed();

	penstock_random_seed(&rnd, seed);
	model = malloc(MIB(16));
	T_OK(model);
	for (unsigned round = 0; round < 20; round += T_STEP) {
		struct penstock_writer *w = begin(name, 0, 0);

		memset(model, 0, MIB(16));
		model_len = 0;
		for (unsigned i = 0; i < 40; i++) {
			bool near = penstock_random_below(&rnd, 2);
			uint64_t to =
				near ? penstock_writer_tell(w) + penstock_random_below(&rnd, 9000)
				     : penstock_random_below(&rnd, MIB(8));

			if (penstock_random_below(&rnd, 3))
				T_ERR(penstock_writer_seek(w, to, &err), 0, &err);
			model_write(w, i, penstock_random_below(&rnd, near ? 9000 : 200000));
		}
		/* makes it no longer, be it in the buffer or far away */
		if (round % 4)
			T_ERR(penstock_writer_seek(w, round % 4 == 1 ? MIB(20) : model_len + 100,
						   &err),
			      0, &err);
		T_ERR(penstock_writer_commit(w, &err), 0, &err);
		check(name);
	}
	free(model);
}

static void seeks_leave_zeros_and_write_over(void)
{
	seek_and_write("f", check_plain);
}

static void so_they_do_in_a_striped_file(void)
{
	const char *in[2];

	empty_folder();
	for (unsigned i = 0; i < 2; i++) {
		in[i] = strdup(t_path(i ? "b" : "a"));
		T_OK(in[i] && mkdir(in[i], 0755) == 0);
	}
	T_ERR(penstock_stripe_create(t_path("s"), 4096, in, 2, 0, &err), 0, &err);
	seek_and_write("s", check_striped);
	T_ERR(penstock_stripe_remove(t_path("s"), &err), 0, &err);
	for (unsigned i = 0; i < 2; i++) {
		T_OK(rmdir(in[i]) == 0);
		free((void *)(uintptr_t)in[i]);
	}
}

/* What torch does with skip_data: headers first, then what was skipped. */
static void holes_can_be_filled_later(void)
{
	struct penstock_writer *w = begin("f", 0, 0);

	for (unsigned i = 0; i < 10; i++) {
		T_ERR(penstock_writer_seek(w, i * 700000, &err), 0, &err);
		put(w, 3, 500, 59);
	}
	for (unsigned i = 0; i < 10; i++) {
		T_ERR(penstock_writer_seek(w, i * 700000 + 500, &err), 0, &err);
		put(w, 3, 700000 - 500, 100000);
	}
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
	T_FILE_PATTERN(t_path("f"), 3, 7000000);
	check_crc_file("f");
}

/* ----------------------------------------------------------------- visibility */

static void nothing_is_visible_before_the_commit(void)
{
	struct penstock_writer *w;

	empty_folder();
	w = begin("f", 0, MIB(4));
	put(w, 1, MIB(4), 100000);
	T_EQ(nr_files(), 0);
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
	T_EQ(nr_files(), 2);
	w = begin("f", 0, 0);
	put(w, 2, MIB(3), 100000);
	T_FILE_PATTERN(t_path("f"), 1, MIB(4));
	penstock_writer_abort(w);
	T_FILE_PATTERN(t_path("f"), 1, MIB(4));
	check_crc_file("f");
	T_EQ(nr_files(), 2);
	penstock_writer_abort(NULL);
}

static void a_file_without_checksums_takes_those_of_the_old_one_away(void)
{
	empty_folder();
	save("f", 1, 100000, 0);
	T_EQ(nr_files(), 2);
	save("f", 2, 100001, PENSTOCK_WRITER_NO_CRC);
	T_EQ(nr_files(), 1);
	T_FILE_PATTERN(t_path("f"), 2, 100001);
	save("f", 3, 100002, PENSTOCK_WRITER_NO_CRC | PENSTOCK_WRITER_NO_SYNC);
	T_FILE_PATTERN(t_path("f"), 3, 100002);
	T_EQ(nr_files(), 1);
}

/* As another library would: by calls of its own, here past the end and back, the end last. */
static void write_by_fd(struct penstock_writer *w, uint64_t seed, uint64_t len)
{
	CLEANUP_FREE unsigned char *buf = malloc(len);
	int fd = penstock_writer_fd(w, &err);
	uint64_t half = len / 2;

	T_OK(buf && fd >= 0);
	penstock_pattern_fill(buf, len, seed, 0);
	T_EQ(pwrite(fd, buf + half, len - half, (off_t)half), (ssize_t)(len - half));
	T_ERR(penstock_writer_add_checksum(w, buf + half, len - half, half, &err), 0, &err);
	T_EQ(pwrite(fd, buf, half, 0), (ssize_t)half);
	T_ERR(penstock_writer_add_checksum(w, buf, half, 0, &err), 0, &err);
}

static void bytes_that_others_write_are_committed_with_their_checksums(void)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_writer *w;

	empty_folder();
	for (uint64_t len = MIB(3) + 5; len > 1000; len /= 7) { /* shorter than the one before */
		w = begin("f", PENSTOCK_WRITER_CALLER_WRITES, 0);
		write_by_fd(w, len, len);
		T_OK(penstock_writer_write(w, "x", 1, &err) == -EINVAL);
		T_OK(penstock_writer_seek(w, 5, &err) == -EINVAL);
		T_ERR(penstock_writer_commit(w, &err), 0, &err);
		T_FILE_PATTERN(t_path("f"), len, len);
		check_crc_file("f");
		T_EQ(nr_files(), 2);
	}
	w = begin("f", PENSTOCK_WRITER_CALLER_WRITES | PENSTOCK_WRITER_NO_CRC, 0);
	write_by_fd(w, 1, 5000);
	penstock_writer_abort(w);
	T_EQ(nr_files(), 2);
	w = begin("f", PENSTOCK_WRITER_CALLER_WRITES | PENSTOCK_WRITER_NO_CRC, 0);
	write_by_fd(w, 1, 5000);
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
	T_FILE_PATTERN(t_path("f"), 1, 5000);
	T_EQ(nr_files(), 1);
	w = begin("f", 0, 0);
	T_EQ(penstock_writer_fd(w, &err), -EINVAL);
	T_EQ(penstock_writer_add_checksum(w, "x", 1, 0, &err), -EINVAL);
	penstock_writer_abort(w);
	o.flags = PENSTOCK_WRITER_CALLER_WRITES;
	T_EQ(penstock_writer_open(&w, io, "s3://bucket/key", &o, &err), -EOPNOTSUPP);
	o.expected = 1;
	T_EQ(penstock_writer_open(&w, io, t_path("f"), &o, &err), -EINVAL);
}

static void of_two_writers_the_later_commit_wins_whole(void)
{
	struct penstock_writer *a = begin("f", 0, 0), *b = begin("f", 0, 0);

	put(a, 1, MIB(2), 100000);
	put(b, 2, MIB(3), 100000);
	T_ERR(penstock_writer_commit(b, &err), 0, &err);
	T_FILE_PATTERN(t_path("f"), 2, MIB(3));
	check_crc_file("f");
	T_ERR(penstock_writer_commit(a, &err), 0, &err);
	T_FILE_PATTERN(t_path("f"), 1, MIB(2));
	check_crc_file("f");
}

static void permissions_of_the_old_file_stay(void)
{
	struct stat st;

	empty_folder();
	umask(022);
	save("f", 1, 10, 0);
	T_OK(stat(t_path("f"), &st) == 0);
	T_EQ(st.st_mode & 07777, 0644);
	T_OK(chmod(t_path("f"), 0640) == 0);
	save("f", 2, 10, 0);
	T_OK(stat(t_path("f"), &st) == 0);
	T_EQ(st.st_mode & 07777, 0640);
	T_OK(stat(t_path("f.crc"), &st) == 0);
	T_EQ(st.st_mode & 07777, 0640);
}

static void a_link_stays_and_what_it_leads_to_is_replaced(void)
{
	struct stat st;

	empty_folder();
	mkdir(t_path("d"), 0755);
	T_OK(symlink("d/g", t_path("l")) == 0);
	save("l", 1, 5000, 0); /* the file is not there yet */
	T_FILE_PATTERN(t_path("d/g"), 1, 5000);
	save("l", 2, 6000, 0);
	T_FILE_PATTERN(t_path("d/g"), 2, 6000);
	T_OK(lstat(t_path("l"), &st) == 0 && S_ISLNK(st.st_mode));
	T_OK(access(t_path("d/g.crc"), F_OK) == 0);
	T_OK(access(t_path("l.crc"), F_OK) < 0);
	unlink(t_path("d/g"));
	unlink(t_path("d/g.crc"));
	rmdir(t_path("d"));
	T_OK(unlink(t_path("l")) == 0 && symlink("l", t_path("l")) == 0);
	{
		struct penstock_writer *w;

		T_ERR(penstock_writer_open(&w, io, t_path("l"), NULL, &err), -ELOOP, &err);
	}
	unlink(t_path("l"));
}

static void a_foreign_link_in_a_folder_for_all_is_not_followed(void)
{
	struct penstock_writer *w;

	if (!t_is_root())
		T_SKIP("root", "only root can make links of others");
	mkdir(t_path("tmp"), 0755);
	T_OK(chmod(t_path("tmp"), 01777) == 0);
	T_OK(symlink("../f", t_path("tmp/l")) == 0);
	T_OK(lchown(t_path("tmp/l"), 12345, 12345) == 0);
	T_ERR(penstock_writer_open(&w, io, t_path("tmp/l"), NULL, &err), -EACCES, &err);
	T_OK(lchown(t_path("tmp/l"), 0, 0) == 0);
	T_ERR(penstock_writer_open(&w, io, t_path("tmp/l"), NULL, &err), 0, &err);
	penstock_writer_abort(w);
	unlink(t_path("tmp/l"));
	rmdir(t_path("tmp"));
}

static void what_cannot_be_replaced_is_refused(void)
{
	struct penstock_writer *w;

	empty_folder();
	T_ERR(penstock_writer_open(&w, io, t_dir(), NULL, &err), -EISDIR, &err);
	T_ERR(penstock_writer_open(&w, io, "", NULL, &err), -ENOENT, &err);
	T_ERR(penstock_writer_open(&w, io, "/dev/null", NULL, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "/dev/null: only a regular file");
	T_ERR(penstock_writer_open(&w, io, t_path("no/where"), NULL, &err), -ENOENT, &err);
	t_file_make(t_path("f.crc"), 1, 100);
	T_ERR(penstock_writer_open(&w, io, t_path("f"), NULL, &err), -EEXIST, &err);
	T_STR_HAS(err.msg, "f.crc is there and is no file of checksums");
	T_FILE_PATTERN(t_path("f.crc"), 1, 100);
	unlink(t_path("f.crc"));
	T_EQ(symlink("nowhere", t_path("f.crc")), 0);
	T_ERR(penstock_writer_open(&w, io, t_path("f"), NULL, &err), -EEXIST, &err);
	T_STR_HAS(err.msg, "f.crc is there and is no file of checksums");
	empty_folder();
}

/* Which is told at once, and not when all is written. */
static void a_name_with_no_room_for_crc_is_refused_unless_there_is_none(void)
{
	struct penstock_writer *w;
	char name[257];

	empty_folder();
	memset(name, 'n', sizeof(name));
	name[251] = '\0';
	save(name, 1, 1000, 0);
	check_crc_file(name);
	for (size_t n = 252; n <= 255; n++) {
		name[n - 1] = 'n';
		name[n] = '\0';
		T_ERR(penstock_writer_open(&w, io, t_path(name), NULL, &err), -ENAMETOOLONG, &err);
		T_STR_HAS(err.msg, "is too long a name to have a .crc beside it");
		for (uint64_t len = 1000; len < 1002; len++) { /* the second time over the first */
			save(name, n, len, PENSTOCK_WRITER_NO_CRC);
			T_FILE_PATTERN(t_path(name), n, len);
		}
	}
	name[255] = 'n';
	name[256] = '\0';
	T_ERR(penstock_writer_open(&w, io, t_path(name), NULL, &err), -ENAMETOOLONG, &err);
	T_EQ(nr_files(), 6);
	empty_folder();
}

static void bad_options_are_named(void)
{
	static const struct {
		struct penstock_writer_opts o;
		int want;
		const char *has;
	} bad[] = {
		{{sizeof(struct penstock_writer_opts), 0x80, 0, 0, 0, 0}, -EINVAL, "flags: 0x80"},
		{{sizeof(struct penstock_writer_opts), 0, 1, 0, 0, 0}, -EINVAL, "buffers: 1"},
		{{sizeof(struct penstock_writer_opts), 0, 65, 0, 0, 0}, -EINVAL, "buffers: 65"},
		{{sizeof(struct penstock_writer_opts), 0, 0, 0, 5000, 0},
		 -EINVAL,
		 "buffer_bytes: 5"},
		{{sizeof(struct penstock_writer_opts), 0, 0, 010000, 0, 0},
		 -EINVAL,
		 "mode: 010000"},
		{{sizeof(struct penstock_writer_opts), 0, 0, 0, 0, UINT64_MAX},
		 -EINVAL,
		 "expected: "},
		{{4, 0, 0, 0, 0, 0}, -EINVAL, "size: 4 is too small"},
	};
	struct {
		struct penstock_writer_opts o;
		uint64_t more;
	} newer = {PENSTOCK_WRITER_OPTS_INIT, 1};
	struct penstock_writer *w;

	for (size_t i = 0; i < T_COUNT(bad); i++) {
		T_ERR(penstock_writer_open(&w, io, t_path("f"), &bad[i].o, &err), bad[i].want,
		      &err);
		T_STR_HAS(err.msg, bad[i].has);
	}
	newer.o.size = sizeof(newer);
	T_ERR(penstock_writer_open(&w, io, t_path("f"), &newer.o, &err), -E2BIG, &err);
}

/* --------------------------------------------------------------------- others */

/* A process that dies leaves at most one name, and that is gone after the next save. */
static void what_the_dead_leave_is_removed(void)
{
	struct penstock_writer *w;
	int fd;

	empty_folder();
	t_file_make(t_path(".f.penstock-0"), 1, 1000); /* nobody holds these */
	t_file_make(t_path(".f.penstock-3"), 1, 1000);
	t_file_make(t_path(".f.crc.penstock-1"), 1, 1000);
	t_file_make(t_path(".g.penstock-0"), 1, 1000); /* another's */
	fd = open(t_path(".f.penstock-2"), O_RDWR | O_CREAT, 0600);
	T_OK(fd >= 0 && flock(fd, LOCK_EX) == 0); /* somebody is at it */
	w = begin("f", 0, 0);
	put(w, 1, 1000, 100);
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
	T_OK(access(t_path(".f.penstock-2"), F_OK) == 0);
	T_OK(access(t_path(".g.penstock-0"), F_OK) == 0);
	T_EQ(nr_files(), 4);
	close(fd);
	save("f", 2, 10, 0);
	T_EQ(nr_files(), 3);
	empty_folder();
}

static void a_lock_that_is_never_given_back_ends_a_commit(void)
{
	unsigned usual = penstock_writer_lock_ms;
	struct penstock_writer *w;
	int fd;

	empty_folder();
	save("f", 1, 1000, 0);
	fd = open(t_dir(), O_RDONLY | O_DIRECTORY);
	T_OK(fd >= 0 && flock(fd, LOCK_EX) == 0);
	penstock_writer_lock_ms = 20;
	w = begin("f", 0, 0);
	put(w, 2, 1000, 100);
	T_ERR(penstock_writer_commit(w, &err), -ETIMEDOUT, &err);
	penstock_writer_lock_ms = usual;
	T_STR_HAS(err.msg, "another program holds the lock");
	T_STR_HAS(err.msg, "/f: ");
	T_FILE_PATTERN(t_path("f"), 1, 1000);
	T_EQ(nr_files(), 2);
	close(fd);
	save("f", 2, 1000, 0);
	T_FILE_PATTERN(t_path("f"), 2, 1000);
	empty_folder();
}

static void a_child_touches_nothing(void)
{
	struct penstock_writer *w = begin("f", 0, 0);
	int status = -1;
	pid_t pid;

	put(w, 1, MIB(2), 100000);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int r = penstock_writer_write(w, "x", 1, NULL);

		penstock_writer_abort(w);
		_exit(r == -ECHILD ? 0 : 1);
	}
	T_OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	T_EQ(status, 0);
	put(w, 1, MIB(1), 100000);
	T_ERR(penstock_writer_commit(w, &err), 0, &err);
	T_FILE_PATTERN(t_path("f"), 1, MIB(3));
	check_crc_file("f");
}

static void no_descriptor_is_left(void)
{
	struct penstock_writer *w;
	int before;

	save("f", 1, MIB(3), 0);
	before = t_nr_fds();
	save("f", 1, MIB(3), 0);
	w = begin("f", 0, 0);
	put(w, 1, MIB(2), 100000);
	penstock_writer_abort(w);
	T_OK(penstock_writer_open(&w, io, t_path("no/where"), NULL, NULL) < 0);
	T_EQ(t_nr_fds(), before);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(any_length_comes_out_exactly),
		T_CASE(any_piece_size_gives_the_same_file),
		T_CASE(an_expected_size_is_only_expected),
		T_CASE(seeks_leave_zeros_and_write_over),
		T_CASE(so_they_do_in_a_striped_file),
		T_CASE(holes_can_be_filled_later),
		T_CASE(nothing_is_visible_before_the_commit),
		T_CASE(a_file_without_checksums_takes_those_of_the_old_one_away),
		T_CASE(bytes_that_others_write_are_committed_with_their_checksums),
		T_CASE(of_two_writers_the_later_commit_wins_whole),
		T_CASE(permissions_of_the_old_file_stay),
		T_CASE(a_link_stays_and_what_it_leads_to_is_replaced),
		T_CASE(a_foreign_link_in_a_folder_for_all_is_not_followed),
		T_CASE(what_cannot_be_replaced_is_refused),
		T_CASE(a_name_with_no_room_for_crc_is_refused_unless_there_is_none),
		T_CASE(bad_options_are_named),
		T_CASE(what_the_dead_leave_is_removed),
		T_CASE(a_lock_that_is_never_given_back_ends_a_commit),
		T_CASE(a_child_touches_nothing),
		T_CASE(no_descriptor_is_left),
	};
	static const struct t_group groups[] = {
		{"ckpt_writer", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
