/* SPDX-License-Identifier: Apache-2.0 */
/* Opened files: O_DIRECT or not, the second descriptor, alignment. */
#include <fcntl.h>
#include <sys/stat.h>

#include "file/backing.h"
#include "file/direct_align.h"
#include "tests/common/t.h"

static int fds;

static void setup(void)
{
	t_file_make(t_path("file"), 1, 10000);
	fds = t_nr_fds();
}

static void teardown(void)
{
	unlink(t_path("file"));
}

static bool is_pow2(uint32_t v)
{
	return v && !(v & (v - 1));
}

static void alignment_is_a_power_of_two_from_a_known_source(void)
{
	uint32_t mem = 0, off = 0;
	const char *from = NULL;
	int fd = open(t_path("file"), O_RDONLY | O_CLOEXEC), r;

	T_OK(fd >= 0);
	r = penstock_direct_align_find(fd, &mem, &off, &from);
	close(fd);
	if (r == -EOPNOTSUPP)
		T_SKIP("direct", "no O_DIRECT on the file system of the tests");
	T_EQ(r, 0);
	T_OK(is_pow2(mem) && is_pow2(off));
	T_OK(!strcmp(from, "statx") || !strcmp(from, "block device") || !strcmp(from, "page size"));
	T_OK(penstock_direct_align_find(-1, &mem, &off, NULL) < 0);
}

/* What it says is what the kernel takes. */
static void alignment_is_enough_for_the_kernel(void)
{
	struct penstock_backing s;
	unsigned char *p = aligned_alloc(65536, 65536);

	T_OK(p);
	T_EQ(penstock_backing_open(&s, t_path("file"), O_RDWR, 0, PENSTOCK_DIRECT_AUTO, NULL), 0);
	if (s.direct)
		T_EQ(pread(s.fd, p + s.mem_align, s.off_align, s.off_align), s.off_align);
	T_EQ(penstock_backing_close(&s), 0);
	free(p);
	T_EQ(t_nr_fds(), fds);
}

static void never_direct_opens_one_descriptor(void)
{
	struct penstock_backing s;

	T_EQ(penstock_backing_open(&s, t_path("file"), O_RDWR, 0, PENSTOCK_DIRECT_NEVER, NULL), 0);
	T_OK(!s.direct);
	T_OK(s.why[0]);
	T_EQ(fcntl(s.fd, F_GETFL) & O_DIRECT, 0);
	T_EQ(penstock_backing_buffered_fd(&s), s.fd);
	T_EQ(t_nr_fds(), fds + 1);
	T_EQ(penstock_backing_size(&s), 10000);
	T_EQ(penstock_backing_close(&s), 0);
	T_EQ(t_nr_fds(), fds);
}

static void the_second_descriptor_is_the_same_file_without_direct(void)
{
	struct penstock_backing s;
	struct stat a, b;
	int plain;

	T_EQ(penstock_backing_open(&s, t_path("file"), O_RDWR, 0, PENSTOCK_DIRECT_AUTO, NULL), 0);
	T_EQ(unlink(t_path("file")), 0); /* it needs no name */
	plain = penstock_backing_buffered_fd(&s);
	T_OK(plain >= 0);
	T_EQ(penstock_backing_buffered_fd(&s), plain);
	T_EQ(fcntl(plain, F_GETFL) & O_DIRECT, 0);
	T_OK(fcntl(plain, F_GETFD) & FD_CLOEXEC);
	T_OK(fcntl(s.fd, F_GETFD) & FD_CLOEXEC);
	T_EQ(fstat(plain, &a) | fstat(s.fd, &b), 0);
	T_OK(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	T_EQ(penstock_backing_close(&s), 0);
	T_EQ(t_nr_fds(), fds);
}

static void direct_can_be_given_up(void)
{
	struct penstock_backing s;

	T_EQ(penstock_backing_open(&s, t_path("file"), O_RDWR, 0, PENSTOCK_DIRECT_AUTO, NULL), 0);
	T_EQ(penstock_backing_give_up_direct(&s, "the test wants it"), 0);
	T_OK(!s.direct);
	T_OK(s.why[0]);
	T_EQ(fcntl(penstock_backing_buffered_fd(&s), F_GETFL) & O_DIRECT, 0);
	T_EQ(penstock_backing_give_up_direct(&s, "again"), 0);
	T_EQ(penstock_backing_close(&s), 0);
	T_EQ(t_nr_fds(), fds);
}

static void an_adopted_descriptor_stays_open(void)
{
	struct penstock_backing s;
	struct penstock_err err = {0, ""};
	int fd = open(t_path("file"), O_RDWR | O_CLOEXEC);

	T_ERR(penstock_backing_open_borrowed_fd(&s, fd, PENSTOCK_DIRECT_AUTO, &err), 0, &err);
	T_EQ(penstock_backing_size(&s), 10000);
	T_OK(penstock_backing_buffered_fd(&s) >= 0);
	T_EQ(penstock_backing_close(&s), 0);
	T_OK(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	T_EQ(t_nr_fds(), fds);
}

static void what_is_no_file_is_refused(void)
{
	struct penstock_backing s;
	struct penstock_err err = {0, ""};
	int pipes[2];

	T_EQ(pipe2(pipes, O_CLOEXEC), 0);
	T_OK(penstock_backing_open_borrowed_fd(&s, pipes[0], PENSTOCK_DIRECT_AUTO, &err) < 0 &&
	     err.msg[0]);
	T_OK(penstock_backing_open_borrowed_fd(&s, -1, PENSTOCK_DIRECT_AUTO, &err) < 0);
	close(pipes[0]);
	close(pipes[1]);
	T_OK(penstock_backing_open(&s, t_dir(), O_RDONLY, 0, PENSTOCK_DIRECT_AUTO, &err) < 0);
	T_ERR(penstock_backing_open(&s, t_path("none"), O_RDONLY, 0, PENSTOCK_DIRECT_AUTO, &err),
	      -ENOENT, &err);
	T_OK(penstock_backing_open(&s, "/dev/null", O_RDWR, 0, PENSTOCK_DIRECT_AUTO, &err) < 0);
	T_EQ(t_nr_fds(), fds);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(alignment_is_a_power_of_two_from_a_known_source),
		T_CASE(alignment_is_enough_for_the_kernel),
		T_CASE(never_direct_opens_one_descriptor),
		T_CASE(the_second_descriptor_is_the_same_file_without_direct),
		T_CASE(direct_can_be_given_up),
		T_CASE(an_adopted_descriptor_stays_open),
		T_CASE(what_is_no_file_is_refused),
	};
	static const struct t_group group = {"store", setup, teardown, cases, T_COUNT(cases)};

	t_dir();
	return t_run(&group, 1, NULL);
}
