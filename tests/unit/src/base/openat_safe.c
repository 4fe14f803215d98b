/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a folder, with and without openat2(2). */
#include "base/openat_safe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/common/forbid.h"
#include "tests/common/t.h"

static int dir = -1;

static int open_close(const char *name, int flags)
{
	int fd = penstock_openat_safe(dir, name, flags, 0600);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

/* DIR/in: a (file), sub/b (file), up -> .., out -> other, file -> other/victim; DIR/other: victim
 */
static void setup(void)
{
	T_EQ(mkdir(t_path("in"), 0755), 0);
	T_EQ(mkdir(t_path("in/sub"), 0755), 0);
	T_EQ(mkdir(t_path("other"), 0755), 0);
	t_file_make(t_path("in/a"), 1, 10);
	t_file_make(t_path("in/sub/b"), 2, 10);
	t_file_make(t_path("other/victim"), 3, 10);
	T_EQ(symlink("..", t_path("in/up")), 0);
	T_EQ(symlink("../other", t_path("in/out")), 0);
	T_EQ(symlink("../other/victim", t_path("in/file")), 0);
	dir = open(t_path("in"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	T_OK(dir >= 0);
}

static void teardown(void)
{
	static const char *const names[] = {"in/a",   "in/sub/b", "in/sub/new",   "in/up",
					    "in/out", "in/file",  "other/victim", "in/sub",
					    "in",     "other"};

	close(dir);
	for (size_t i = 0; i < T_COUNT(names); i++)
		remove(t_path(names[i]));
}

static void files_below_are_opened_and_made(void)
{
	T_EQ(open_close("a", O_RDONLY), 0);
	T_EQ(open_close("sub/b", O_RDWR), 0);
	T_EQ(open_close("sub", O_RDONLY | O_DIRECTORY), 0);
	T_EQ(open_close("sub/", O_RDONLY), 0);
	T_EQ(open_close("sub/new", O_WRONLY | O_CREAT | O_EXCL), 0);
	T_EQ(open_close("sub/new", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
	T_EQ(open_close("none", O_RDONLY), -ENOENT);
	T_EQ(open_close("none/x", O_RDONLY), -ENOENT);
	T_EQ(open_close("a/x", O_RDONLY), -ENOTDIR);
}

static void no_link_is_followed(void)
{
	static const char *const names[] = {"file", "out/victim", "up/other/victim", "out/new"};

	for (size_t i = 0; i < T_COUNT(names); i++) {
		int r = open_close(names[i], O_RDWR | O_CREAT);

		T_OK(r == -ELOOP || r == -ENOTDIR);
	}
	T_EQ(access(t_path("other/new"), F_OK), -1);
}

static void nothing_outside_is_reached(void)
{
	T_EQ(open_close("../other/victim", O_RDONLY), -EXDEV);
	T_EQ(open_close("sub/../../other/victim", O_RDONLY), -EXDEV);
	T_EQ(open_close(t_path("other/victim"), O_RDONLY), -EXDEV);
	T_EQ(open_close("/", O_RDONLY), -EXDEV);
}

static void files_below_are_removed_and_no_others(void)
{
	T_OK(penstock_unlinkat_safe(dir, "out/victim", 0) < 0);
	T_OK(penstock_unlinkat_safe(dir, "up/other/victim", 0) < 0);
	T_EQ(penstock_unlinkat_safe(dir, "../other/victim", 0), -EXDEV);
	T_EQ(penstock_unlinkat_safe(dir, t_path("other/victim"), 0), -EXDEV);
	T_EQ(t_file_size(t_path("other/victim")), 10);
	T_EQ(penstock_unlinkat_safe(dir, "a", 0), 0);
	T_EQ(penstock_unlinkat_safe(dir, "sub", AT_REMOVEDIR), -ENOTEMPTY);
	T_EQ(penstock_unlinkat_safe(dir, "sub/b", 0), 0);
	T_EQ(penstock_unlinkat_safe(dir, "sub/b", 0), -ENOENT);
	T_EQ(penstock_unlinkat_safe(dir, "sub", AT_REMOVEDIR), 0);
}

static void nothing_stays_open(void)
{
	const char *last;
	int before = t_nr_fds(), parent;

	for (unsigned i = 0; i < 5; i++) {
		open_close("sub/../../x", O_RDONLY);
		open_close("out/x", O_RDONLY);
		open_close("sub/b", O_RDONLY);
		parent = penstock_openat_parent(dir, "sub/b", &last);
		T_OK(parent >= 0 && parent != dir && !strcmp(last, "b"));
		penstock_openat_parent_close(dir, parent);
		T_EQ(penstock_openat_parent(dir, "b", &last), dir);
		penstock_openat_parent_close(dir, dir);
	}
	T_EQ(t_nr_fds(), before);
}

static const struct t_case cases[] = {
	T_CASE(files_below_are_opened_and_made),
	T_CASE(no_link_is_followed),
	T_CASE(nothing_outside_is_reached),
	T_CASE(nothing_stays_open),
	T_CASE(files_below_are_removed_and_no_others),
};

/* The same again. */
static void setup_without(void)
{
	static bool done;
	int r = done ? 0 : t_forbid(SYS_openat2, ENOSYS);

	if (r < 0)
		T_SKIP("seccomp", "no filter of system calls: %s", strerror(-r));
	done = true;
	setup();
}

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {
		{"openat2", setup, teardown, cases, T_COUNT(cases)},
		{"one by one", setup_without, teardown, cases, T_COUNT(cases)},
	};

	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
