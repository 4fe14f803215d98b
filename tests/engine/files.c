/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance, files: by path, by file and by descriptor; what is refused; what is left behind. */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "conformance.h"

enum { SEED = 11 };

static const uint64_t spots[][2] = {
	/* offset, length */
	{0, 4096},   {0, 4097}, {1, 1},         {511, 2},       {4096, 65536},
	{100, 4096}, {7, 0},    {3000, 150001}, {65536, 65536},
};

/* Write and read through @op's way of naming the file, aligned and not. */
static void all_spots_work(struct penstock_op op, unsigned seed)
{
	enum { SIZE = 200000 };
	static unsigned char model[SIZE], buf[SIZE];

	t_file_make(cf_path, seed, SIZE);
	penstock_pattern_fill(model, SIZE, seed, 0);
	for (unsigned i = 0; i < T_COUNT(spots); i++) {
		op.offset = spots[i][0];
		op.len = spots[i][1];
		op.buf = buf + (i & 1);
		op.opcode = PENSTOCK_WRITE;
		penstock_pattern_fill(op.buf, op.len, seed + 1 + i, 0);
		memcpy(model + op.offset, op.buf, op.len);
		CF_DO(&op, op.len, i);
		memset(op.buf, 0, op.len);
		op.opcode = PENSTOCK_READ;
		CF_DO(&op, op.len, i / 2);
		T_MEM(op.buf, model + op.offset, op.len);
	}
	T_FILE(cf_path, model, SIZE);
}

static void path_file_and_descriptor_reach_the_same_bytes(void)
{
	static const int extra[] = {0, O_DIRECT};
	struct penstock_op op = {0};
	struct penstock_err err;
	struct penstock_file *f;

	cf_open(NULL);
	t_file_make(cf_path, SEED, 1);
	cf_file_open(O_RDWR);
	all_spots_work(cf_op(PENSTOCK_READ, NULL, 0, 0), SEED);
	all_spots_work(cf_path_op(PENSTOCK_READ, cf_path, NULL, 0, 0), SEED + 1);
	for (unsigned i = 0; i < 2 * T_COUNT(extra); i++) {
		int fd = open(cf_path, O_RDWR | O_CLOEXEC | extra[i / 2]);

		if (fd < 0 && errno == EINVAL)
			continue; /* no O_DIRECT here */
		T_OK(fd >= 0);
		op = (struct penstock_op){.fd = fd};
		f = NULL;
		if (i & 1) {
			T_ERR(penstock_file_from_fd(&f, cf_io, fd, &err), 0, &err);
			op.file = f;
		}
		all_spots_work(op, SEED + 2 + i);
		T_EQ(penstock_file_close(f, NULL), 0);
		T_OK(fcntl(fd, F_GETFD) >= 0);                     /* still ours, still open */
		T_EQ(lseek(fd, 0, SEEK_CUR), 0);                   /* its position is untouched */
		T_EQ(fcntl(fd, F_GETFL) & O_DIRECT, extra[i / 2]); /* and so are its flags */
		close(fd);
	}
}

static void a_descriptor_that_is_handed_over_is_a_file_like_any_other(void)
{
	struct penstock_file_info opened = {.size = sizeof(opened)},
				  taken = {.size = sizeof(taken)};
	struct penstock_err err = {0, ""};
	struct penstock_file *f = NULL;
	struct penstock_op op;
	int fds, fd;

	cf_open(NULL);
	t_file_make(cf_path, SEED, 1);
	cf_file_open(O_RDWR);
	T_EQ(penstock_file_stat(cf_file, &opened), 0);
	fds = t_nr_fds();
	fd = open(cf_path, O_RDWR | O_CLOEXEC);
	T_ERR(penstock_file_take_fd(&f, cf_io, fd, "a name", &err), 0, &err);
	T_EQ(penstock_file_stat(f, &taken), 0);
	T_EQ(taken.direct, opened.direct);
	T_OK(!strcmp(taken.why, opened.why));
	op = (struct penstock_op){.file = f};
	all_spots_work(op, SEED + 9);
	T_EQ(penstock_file_close(f, NULL), 0);
	T_EQ(t_nr_fds(), fds);
	f = NULL;
	fd = open(t_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	T_EQ(penstock_file_take_fd(&f, cf_io, fd, "a name", &err), -EISDIR);
	T_STR_HAS(err.msg, "a name: ");
	T_EQ(penstock_file_take_fd(&f, cf_io, -1, "a name", &err), -EBADF);
	T_OK(!f);
	T_EQ(t_nr_fds(), fds);
}

/* DeepSpeed opens with these flags and passes the number. */
static void a_write_only_descriptor_takes_unaligned_writes(void)
{
	static const int extra[] = {0, O_DIRECT};
	unsigned char buf[3001], want[9000];

	cf_open(NULL);
	for (unsigned i = 0; i < 2 * T_COUNT(extra); i++) {
		struct penstock_op op = {.opcode = PENSTOCK_WRITE, .buf = buf, .len = sizeof(buf)};
		struct penstock_done d;
		int fd;

		t_file_make(cf_path, SEED, sizeof(want));
		penstock_pattern_fill(want, sizeof(want), SEED, 0);
		fd = open(cf_path, O_WRONLY | O_CLOEXEC | extra[i / 2]);
		if (fd < 0 && errno == EINVAL)
			continue;
		T_OK(fd >= 0);
		penstock_pattern_fill(buf, sizeof(buf), i, 0);
		memcpy(want + 1234, buf, sizeof(buf));
		op.fd = fd;
		op.offset = 1234;
		CF_DO(&op, sizeof(buf), i);
		T_FILE(cf_path, want, sizeof(want));
		/* and reads through it fail */
		op.opcode = PENSTOCK_READ;
		if (penstock_run(cf_io, &op, &d, NULL) == 0)
			T_OK(d.res < 0);
		close(fd);
	}
}

static void a_read_only_file_is_not_written(void)
{
	unsigned char buf[4096] = {0};
	struct penstock_op op;
	struct penstock_done d;

	t_file_make(cf_path, SEED, 8192);
	cf_open(NULL);
	cf_file_open(O_RDONLY);
	for (unsigned i = 0; i < 4; i++) {
		op = cf_op(PENSTOCK_WRITE, buf, i & 2 ? 4096 : 100, 0);
		if (i & 1) {
			int r = penstock_submit(cf_io, &op, 1, NULL, NULL);

			T_OK(r == 1 || r == -EBADF);
			if (r == 1) {
				T_EQ(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT), 1);
				T_EQ(d.res, -EBADF);
			}
		} else {
			int r = penstock_run(cf_io, &op, &d, NULL);

			T_OK(r == -EBADF || (r == 0 && d.res == -EBADF));
		}
	}
	T_FILE_PATTERN(cf_path, SEED, 8192);
}

static void an_unlinked_file_still_works_by_descriptor(void)
{
	static const int extra[] = {0, O_DIRECT};
	unsigned char buf[70001], got[70001];

	cf_open(NULL);
	for (unsigned i = 0; i < T_COUNT(extra); i++) {
		int fd = open(cf_path, O_RDWR | O_CREAT | O_CLOEXEC | extra[i], 0600);
		struct penstock_op op = {.opcode = PENSTOCK_WRITE, .buf = buf, .len = sizeof(buf)};

		if (fd < 0 && errno == EINVAL)
			continue;
		T_OK(fd >= 0);
		T_EQ(unlink(cf_path), 0);
		penstock_pattern_fill(buf, sizeof(buf), i, 0);
		op.fd = fd;
		op.offset = 77;
		CF_DO(&op, sizeof(buf), i);
		op.opcode = PENSTOCK_READ;
		op.buf = got;
		CF_DO(&op, sizeof(buf), i + 1);
		T_MEM(got, buf, sizeof(buf));
		T_EQ(t_file_size(cf_path), -ENOENT);
		close(fd);
	}
}

static void what_has_no_offset_is_refused(void)
{
	char byte = 'x';
	int fds[5], pipes[2], socks[2];
	struct penstock_op op = {.opcode = PENSTOCK_WRITE, .buf = &byte, .len = 1};
	struct penstock_err err = {0, ""};
	struct penstock_file *f = NULL;

	t_file_make(cf_path, SEED, 100);
	T_EQ(pipe2(pipes, O_CLOEXEC), 0);
	T_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks), 0);
	fds[0] = open(cf_path, O_RDWR | O_APPEND | O_CLOEXEC);
	fds[1] = open(t_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds[2] = pipes[1];
	fds[3] = socks[0];
	fds[4] = -1;
	cf_open(NULL);
	for (unsigned i = 0; i < T_COUNT(fds); i++) {
		struct penstock_done d;
		int r;

		T_OK(fds[i] >= 0 || i == 4);
		r = penstock_file_from_fd(&f, cf_io, fds[i], &err);
		T_OK(r < 0 && !f);
		T_EQ(err.code, r);
		T_OK(err.msg[0]);
		if (i == 0)
			T_EQ(r, -EINVAL);
		if (i == 1)
			T_EQ(r, -EISDIR);
		if (i == 4)
			T_EQ(r, -EBADF);
		op.fd = fds[i];
		T_EQ(penstock_submit(cf_io, &op, 1, NULL, &err), r);
		T_EQ(penstock_run(cf_io, &op, &d, &err), r);
	}
	T_FILE_PATTERN(cf_path, SEED, 100);
	close(fds[0]);
	close(fds[1]);
	close(pipes[0]);
	close(pipes[1]);
	close(socks[0]);
	close(socks[1]);
}

static void an_appending_open_is_refused_or_harmless(void)
{
	struct penstock_err err = {0, ""};
	char byte = 'x';

	t_file_make(cf_path, SEED, 100);
	cf_open(NULL);
	if (penstock_file_open(&cf_file, cf_io, cf_path, O_RDWR | O_APPEND, 0, &err) < 0) {
		cf_file = NULL;
		T_EQ(err.code, -EINVAL);
		return;
	}
	T_EQ(penstock_pwrite(cf_file, &byte, 1, 50, NULL), 1);
	T_EQ(t_file_size(cf_path), 100);
}

static void paths_that_cannot_be_opened_say_so(void)
{
	static char long_path[PATH_MAX + 10];
	unsigned char byte = 0;
	struct {
		const char *path;
		enum penstock_opcode code;
		int want;
	} rows[] = {
		{t_path("missing"), PENSTOCK_READ, -ENOENT},
		{t_path("missing/file"), PENSTOCK_WRITE, -ENOENT},
		{t_dir(), PENSTOCK_WRITE, -EISDIR},
		{t_dir(), PENSTOCK_READ, -EISDIR},
		{"", PENSTOCK_READ, -ENOENT},
		{long_path, PENSTOCK_WRITE, -ENAMETOOLONG},
		{t_path("a-file/below"), PENSTOCK_WRITE, -ENOTDIR},
	};

	memset(long_path, 'x', sizeof(long_path) - 1);
	t_file_make(t_path("a-file"), SEED, 1);
	cf_open(NULL);
	for (unsigned i = 0; i < T_COUNT(rows); i++) {
		struct penstock_op op = cf_path_op(rows[i].code, rows[i].path, &byte, 1, 0);
		struct penstock_err err = {0, ""};
		struct penstock_file *f = NULL;
		struct penstock_done d;
		uint64_t ticket = 77;

		T_ERR(penstock_submit(cf_io, &op, 1, &ticket, &err), rows[i].want, &err);
		T_OK(ticket == 77);
		if (i < 4)
			T_STR_HAS(err.msg, rows[i].path);
		T_ERR(penstock_run(cf_io, &op, &d, &err), rows[i].want, &err);
		T_ERR(penstock_file_open(&f, cf_io, rows[i].path,
					 rows[i].code == PENSTOCK_READ ? O_RDONLY : O_RDWR, 0644,
					 &err),
		      rows[i].want, &err);
		T_OK(!f);
	}
	cf_close(0);
	unlink(t_path("a-file"));
}

static void new_files_have_the_asked_mode(void)
{
	mode_t old = umask(022);
	unsigned char byte = 1;
	struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, &byte, 1, 0);
	struct stat st;
	static const uint32_t modes[][2] = {{0, 0644}, {0600, 0600}, {0666, 0644}};

	for (unsigned i = 0; i < T_COUNT(modes); i++) {
		struct penstock_opts o = cf_opts();

		unlink(cf_path);
		o.mode = modes[i][0];
		cf_open(&o);
		CF_DO(&op, 1, i);
		T_EQ(stat(cf_path, &st), 0);
		T_EQ(st.st_mode & 07777, modes[i][1]);
		cf_close(0);
	}
	umask(old);
}

static void open_flags_mean_what_open_says(void)
{
	struct penstock_err err = {0, ""};
	struct penstock_file *f = NULL;
	struct stat st;
	mode_t old = umask(0);

	cf_open(NULL);
	T_ERR(penstock_file_open(&f, cf_io, cf_path, O_RDWR, 0, &err), -ENOENT, &err);
	T_STR_HAS(err.msg, cf_path);
	T_ERR(penstock_file_open(&f, cf_io, cf_path, O_RDWR | O_CREAT | O_EXCL, 0640, &err), 0,
	      &err);
	T_EQ(stat(cf_path, &st), 0);
	T_EQ(st.st_mode & 07777, 0640);
	T_EQ(penstock_pwrite(f, "abc", 3, 0, &err), 3);
	T_EQ(penstock_file_close(f, &err), 0);
	f = NULL;
	T_ERR(penstock_file_open(&f, cf_io, cf_path, O_RDWR | O_CREAT | O_EXCL, 0640, &err),
	      -EEXIST, &err);
	T_ERR(penstock_file_open(&f, cf_io, cf_path, O_RDWR | O_TRUNC, 0, &err), 0, &err);
	T_EQ(t_file_size(cf_path), 0);
	T_EQ(penstock_file_close(f, &err), 0);
	T_EQ(penstock_file_close(NULL, &err), 0);
	umask(old);
}

static void a_replaced_file_is_opened_anew(void)
{
	unsigned char buf[5000];
	struct penstock_op op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);

	cf_open(NULL);
	for (unsigned i = 0; i < 20; i++) {
		t_file_make(t_path("new"), i, sizeof(buf));
		T_EQ(rename(t_path("new"), cf_path), 0);
		CF_DO(&op, sizeof(buf), i);
		T_EQ(penstock_pattern_check(buf, sizeof(buf), i, 0), sizeof(buf));
	}
}

static void reads_and_writes_of_one_path_may_be_in_flight_together(void)
{
	enum { HALF = 1 << 20 };
	static unsigned char got[HALF], put[HALF];
	struct penstock_op ops[2];
	struct penstock_summary sum;

	cf_open(NULL);
	for (unsigned i = 0; i < 8; i++) {
		t_file_make(cf_path, SEED, 2 * HALF);
		penstock_pattern_fill(put, HALF, SEED + 1 + i, 0);
		memset(got, 0, HALF);
		ops[i & 1] = cf_path_op(PENSTOCK_READ, cf_path, got, HALF, 0);
		ops[!(i & 1)] = cf_path_op(PENSTOCK_WRITE, cf_path, put, HALF, HALF);
		T_EQ(penstock_submit(cf_io, ops, 2, NULL, NULL), 2);
		T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
		T_EQ(sum.failed, 0);
		T_EQ(penstock_pattern_check(got, HALF, SEED, 0), HALF);
		ops[0] = cf_path_op(PENSTOCK_READ, cf_path, got, HALF, HALF);
		CF_DO(&ops[0], HALF, i);
		T_MEM(got, put, HALF);
	}
}

static void a_relative_path_survives_a_change_of_directory(void)
{
	char was[PATH_MAX];
	unsigned char buf[5001];
	struct penstock_err err;
	struct penstock_op op;
	uint64_t ticket;
	struct penstock_done d;

	T_OK(getcwd(was, sizeof(was)));
	t_file_make(cf_path, SEED, 20000);
	T_EQ(chdir(t_dir()), 0);
	cf_open(NULL);
	T_ERR(penstock_file_open(&cf_file, cf_io, strrchr(cf_path, '/') + 1, O_RDWR, 0, &err), 0,
	      &err);
	op = cf_path_op(PENSTOCK_READ, strrchr(cf_path, '/') + 1, buf, sizeof(buf), 3);
	ticket = cf_submit(&op);
	T_EQ(chdir("/"), 0);
	T_EQ(penstock_wait(cf_io, ticket, T_NO_LIMIT, &d), 0);
	T_EQ(d.res, sizeof(buf));
	T_EQ(penstock_pattern_check(buf, sizeof(buf), SEED, 3), sizeof(buf));
	T_EQ(penstock_pwrite(cf_file, buf, 1001, 3, &err), 1001);
	T_EQ(penstock_pread(cf_file, buf, sizeof(buf), 1, &err), sizeof(buf));
	T_EQ(penstock_pattern_check(buf, sizeof(buf), SEED, 1), sizeof(buf));
	T_EQ(chdir(was), 0);
}

/* ----------------------------------------------------------- O_DIRECT or not */

static void never_direct_means_the_page_cache(void)
{
	static unsigned char buf[100001];
	struct penstock_opts o = cf_opts();
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_stats st = {.size = sizeof(st)};
	struct penstock_op op;
	struct penstock_done d;

	o.direct = PENSTOCK_DIRECT_NEVER;
	cf_open(&o);
	cf_file_open(O_RDWR | O_CREAT);
	penstock_pattern_fill(buf, sizeof(buf), SEED, 0);
	for (unsigned i = 0; i < 4; i++) {
		op = cf_op(i & 1 ? PENSTOCK_READ : PENSTOCK_WRITE, buf, sizeof(buf), 5);
		d = CF_DO(&op, sizeof(buf), i / 2);
		T_OK(!(d.flags & PENSTOCK_DONE_DIRECT));
		T_OK(d.flags & PENSTOCK_DONE_BUFFERED);
	}
	T_EQ(penstock_pattern_check(buf, sizeof(buf), SEED, 0), sizeof(buf));
	T_EQ(penstock_file_stat(cf_file, &info), 0);
	T_EQ(info.direct, 0);
	T_EQ(info.mem_align, 1);
	T_EQ(info.offset_align, 1);
	T_EQ(info.bytes, sizeof(buf) + 5);
	T_OK(info.why[0]);
	T_EQ(penstock_get_stats(cf_io, &st), 0);
	T_EQ(st.blocks_direct, 0);
	T_OK(st.blocks_buffered > 0);
}

/* What the file says of itself agrees with what its transfers did. */
static void direct_is_used_where_the_file_says_so(void)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_opts o = cf_opts();
	struct penstock_op op;
	struct penstock_done d;
	void *buf = aligned_alloc(65536, MIB(1));

	T_OK(buf);
	cf_open(&o);
	t_file_make(cf_path, SEED, MIB(1));
	cf_file_open(O_RDWR);
	T_EQ(penstock_file_stat(cf_file, &info), 0);
	T_EQ(info.bytes, MIB(1));
	T_OK(info.block >= 512 && info.block <= o.block);
	T_OK(info.mem_align && info.offset_align);
	for (unsigned i = 0; i < 4; i++) {
		op = cf_op(i & 1 ? PENSTOCK_READ : PENSTOCK_WRITE, buf, MIB(1), 0);
		d = CF_DO(&op, MIB(1), i / 2);
		T_EQ(T_BIT(d.flags, PENSTOCK_DONE_DIRECT), info.direct);
		if (cf_fault) /* what is left of a short block may be ragged */
			continue;
		T_EQ(T_BIT(d.flags, PENSTOCK_DONE_BUFFERED), !info.direct);
		T_OK(!(d.flags & PENSTOCK_DONE_BOUNCED));
	}
	if (info.direct) {
		/* what is aligned goes straight, whatever the head and the tail need */
		op = cf_op(PENSTOCK_WRITE, (char *)buf + 1, 300000, 1);
		d = CF_DO(&op, 300000, 1);
		T_OK(d.flags &
		     (PENSTOCK_DONE_DIRECT | PENSTOCK_DONE_BUFFERED | PENSTOCK_DONE_BOUNCED));
		T_EQ(info.why[0], '\0');
	} else {
		T_OK(info.why[0]);
	}
	free(buf);
}

static void always_direct_is_direct_or_an_error(void)
{
	static unsigned char buf[1 << 18];
	struct penstock_opts o = cf_opts();
	struct penstock_err err = {0, ""};
	struct penstock_op op;
	struct penstock_done d;
	int fd, r;

	t_file_make(cf_path, SEED, sizeof(buf));
	fd = open(cf_path, O_RDWR | O_DIRECT | O_CLOEXEC);
	o.direct = PENSTOCK_DIRECT_ALWAYS;
	cf_open(&o);
	r = penstock_file_open(&cf_file, cf_io, cf_path, O_RDWR, 0, &err);
	if (fd < 0) {
		cf_file = NULL;
		T_OK(r < 0 && err.code == r && err.msg[0]);
		return;
	}
	close(fd);
	T_ERR(r, 0, &err);
	op = cf_op(PENSTOCK_READ, buf, sizeof(buf), 0);
	d = CF_DO(&op, sizeof(buf), 0);
	T_OK(d.flags & PENSTOCK_DONE_DIRECT);
	op = cf_op(PENSTOCK_READ, buf + 1, 100001, 3); /* ragged ones work as well */
	CF_DO(&op, 100001, 1);
	T_EQ(penstock_pattern_check(buf + 1, 100001, SEED, 3), 100001);
	op = cf_op(PENSTOCK_WRITE, buf + 1, 100001, 3);
	CF_DO(&op, 100001, 1);
	T_FILE_PATTERN(cf_path, SEED, sizeof(buf));
}

/* -------------------------------------------------------------- descriptors */

static void ten_thousand_operations_by_path_leak_no_descriptor(void)
{
	static unsigned char buf[100][600];
	char name[4][PATH_MAX];
	struct penstock_summary sum;
	uint64_t failed = 0, ops = 0;
	int before;

	for (unsigned i = 0; i < 4; i++) {
		char n[16];

		snprintf(n, sizeof(n), "leak-%u", i);
		snprintf(name[i], sizeof(name[i]), "%s", t_path(n));
		t_file_make(name[i], SEED, 600);
	}
	cf_open(NULL);
	before = t_nr_fds();
	for (unsigned i = 0; i < 10000; i++) {
		struct penstock_op op =
			cf_path_op(PENSTOCK_READ, name[i % 4], buf[i % 100], 1 + i % 600, 0);
		struct penstock_done d;

		if (i % 100 < 20) { /* one by one, and failing ones, too */
			op.path = i % 100 < 15 ? op.path : t_path("missing");
			if (penstock_run(cf_io, &op, &d, NULL) == 0)
				T_EQ(d.res, op.len);
			continue;
		}
		cf_submit(&op);
		if (i % 100 == 99) {
			T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, &sum), 0);
			failed += sum.failed;
			ops += sum.ops;
		}
	}
	T_EQ(failed, 0);
	T_EQ(ops, 8000);
	T_EQ(t_nr_fds(), before);
	cf_close(0);
	for (unsigned i = 0; i < 4; i++)
		unlink(name[i]);
}

/* So that what was written by path can be removed or unmounted right away. */
static void a_completed_operation_by_path_has_closed_its_file(void)
{
	unsigned char buf[600];
	struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);
	int before;

	memset(buf, 1, sizeof(buf));
	cf_open(NULL);
	before = t_nr_fds();
	for (unsigned i = 0; i < 1000; i++) {
		struct penstock_done d;

		CF_DO(&op, sizeof(buf), i);
		T_EQ(t_nr_fds(), before);
		cf_submit(&op);
		if (i & 2)
			T_EQ(penstock_wait_any(cf_io, &d, 1, 1, T_NO_LIMIT), 1);
		else
			T_EQ(penstock_wait_all(cf_io, T_NO_LIMIT, NULL), 0);
		T_EQ(t_nr_fds(), before);
	}
}

static void a_handle_leaves_no_descriptor_behind(void)
{
	unsigned char buf[5000];
	int before = t_nr_fds();

	for (unsigned i = 0; i < 20; i++) {
		struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 1);

		cf_open(NULL);
		cf_file_open(O_RDWR | O_CREAT);
		penstock_pattern_fill(buf, sizeof(buf), i, 0);
		CF_DO(&op, sizeof(buf), i);
		if (i & 1)
			T_EQ(penstock_file_close(cf_file, NULL), 0);
		cf_submit(&op);
		cf_close(0);
		T_EQ(t_nr_fds(), before);
	}
}

static void descriptors_are_closed_on_exec(void)
{
	static unsigned char buf[100000];
	bool old[1024] = {false};
	struct penstock_op op;
	struct dirent *e;
	DIR *d;

	for (int fd = 0; fd < 1024; fd++)
		old[fd] = fcntl(fd, F_GETFD) >= 0;
	cf_open(NULL);
	cf_file_open(O_RDWR | O_CREAT);
	op = cf_op(PENSTOCK_WRITE, buf, sizeof(buf), 3);
	CF_DO(&op, sizeof(buf), 1);
	d = opendir("/proc/self/fd");
	T_OK(d);
	while ((e = readdir(d))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || fd >= 1024 || old[fd])
			continue;
		if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			T_FAIL("descriptor %d stays open across exec", fd);
	}
	closedir(d);
}

static void no_descriptor_left_is_an_error_and_passes(void)
{
	unsigned char buf[100];
	struct rlimit old, low;
	struct penstock_op op = cf_path_op(PENSTOCK_READ, cf_path, buf, sizeof(buf), 0);
	struct penstock_err err = {0, ""};
	struct penstock_done d;
	int r;

	t_file_make(cf_path, SEED, sizeof(buf));
	cf_open(NULL);
	T_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 3;
	T_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
	r = penstock_run(cf_io, &op, &d, &err);
	T_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	T_ERR(r, -EMFILE, &err);
	CF_DO(&op, sizeof(buf), 0);
	T_EQ(penstock_pattern_check(buf, sizeof(buf), SEED, 0), sizeof(buf));
}

/* ----------------------------------------------------------------- messages */

static void a_failure_says_what_where_and_how(void)
{
	unsigned char buf[9000];
	struct penstock_op op;
	struct penstock_done d;
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(cf_engine, ":"), cf_engine);
	t_file_make(cf_path, SEED, 100);
	cf_open(NULL);
	op = cf_path_op(PENSTOCK_READ, cf_path, buf, 8765, 43);
	op.flags = PENSTOCK_OP_EXACT;
	for (unsigned i = 0; i < 2; i++) {
		d = CF_DO(&op, -ENODATA, i);
		T_STR_HAS(d.msg, cf_path);
		T_STR_HAS(d.msg, "read");
		T_STR_HAS(d.msg, "8765");
		T_STR_HAS(d.msg, "43");
		T_STR_HAS(d.msg, name);
		T_OK(!strchr(d.msg, '\n'));
	}
}

static void success_is_described_only_when_asked(void)
{
	static unsigned char buf[100000];

	for (unsigned i = 0; i < 4; i++) {
		struct penstock_opts o = cf_opts();
		struct penstock_op op = cf_path_op(PENSTOCK_WRITE, cf_path, buf, sizeof(buf), 0);
		struct penstock_done d;

		o.flags = i & 2 ? PENSTOCK_DESCRIBE : 0;
		cf_open(&o);
		d = CF_DO(&op, sizeof(buf), i);
		if (i & 2)
			T_STR_HAS(d.msg, cf_path);
		else
			T_EQ(d.msg[0], '\0');
		cf_close(0);
	}
}

static const struct t_case cases[] = {
	T_CASE(path_file_and_descriptor_reach_the_same_bytes),
	T_CASE(a_descriptor_that_is_handed_over_is_a_file_like_any_other),
	T_CASE(a_write_only_descriptor_takes_unaligned_writes),
	T_CASE(a_read_only_file_is_not_written),
	T_CASE(an_unlinked_file_still_works_by_descriptor),
	T_CASE(what_has_no_offset_is_refused),
	T_CASE(an_appending_open_is_refused_or_harmless),
	T_CASE(paths_that_cannot_be_opened_say_so),
	T_CASE(new_files_have_the_asked_mode),
	T_CASE(open_flags_mean_what_open_says),
	T_CASE(a_replaced_file_is_opened_anew),
	T_CASE(reads_and_writes_of_one_path_may_be_in_flight_together),
	T_CASE(a_relative_path_survives_a_change_of_directory),
	T_CASE(never_direct_means_the_page_cache),
	T_CASE(direct_is_used_where_the_file_says_so),
	T_CASE(always_direct_is_direct_or_an_error),
	T_CASE(ten_thousand_operations_by_path_leak_no_descriptor),
	T_CASE(a_completed_operation_by_path_has_closed_its_file),
	T_CASE(a_handle_leaves_no_descriptor_behind),
	T_CASE(descriptors_are_closed_on_exec),
	T_CASE(no_descriptor_left_is_an_error_and_passes),
	T_CASE(a_failure_says_what_where_and_how),
	T_CASE(success_is_described_only_when_asked),
};

const struct t_group cf_files = {
	"files", cf_setup, cf_teardown, cases, T_COUNT(cases),
};
