/* SPDX-License-Identifier: Apache-2.0 */
/* Files that take the place of others: a name stands for one of two, and nothing is left behind. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>

#include "base/full_io.h"
#include "base/replace.h"
#include "tests/common/t.h"

enum { LARGE = 65 << 20 }; /* given back behind the caller */

static void make(const char *path, const char *text, off_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	T_OK(fd >= 0);
	T_EQ(penstock_full_pwrite(fd, text, strlen(text), 0), 0);
	T_EQ(ftruncate(fd, size), 0);
	close(fd);
}

static bool begins_with(const char *path, const char *text)
{
	char got[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	T_OK(fd >= 0);
	T_EQ(penstock_full_pread(fd, got, strlen(text), 0), strlen(text));
	close(fd);
	return !strcmp(got, text);
}

static unsigned entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	T_OK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void replace(const char *path, const char *text, bool show)
{
	struct penstock_replace r = PENSTOCK_REPLACE_NONE;

	T_EQ(penstock_replace_open(&r, path, 0644), 0);
	T_OK(r.had_old);
	T_EQ(penstock_full_pwrite(r.fd, text, strlen(text), 0), 0);
	T_OK(begins_with(path, "old"));
	T_EQ(penstock_replace_copy_permissions(&r), 0);
	if (show)
		T_EQ(penstock_replace_publish(&r), 0);
	penstock_replace_close(&r, false);
}

static void the_name_stands_for_the_old_or_the_new(void)
{
	unsigned files, fds;
	struct stat st;

	make(t_path("f"), "old", 3);
	files = entries(t_path("."));
	fds = entries("/proc/self/fd");
	replace(t_path("f"), "lost", false);
	T_OK(begins_with(t_path("f"), "old"));
	replace(t_path("f"), "new", true);
	T_OK(begins_with(t_path("f"), "new"));
	T_EQ(stat(t_path("f"), &st), 0);
	T_EQ(st.st_mode & 0777, 0600); /* as the old one */
	T_EQ(entries(t_path(".")), files);
	T_EQ(entries("/proc/self/fd"), fds);
}

/* By the kernel and not by us, but it goes. */
static void a_large_old_file_goes_in_the_end(void)
{
	char event[512];
	int watch = inotify_init1(IN_CLOEXEC);
	unsigned fds;

	T_OK(watch >= 0);
	make(t_path("large"), "old", LARGE);
	T_OK(inotify_add_watch(watch, t_path("large"), IN_DELETE_SELF) >= 0);
	fds = entries("/proc/self/fd");
	replace(t_path("large"), "new", true);
	T_OK(begins_with(t_path("large"), "new"));
	T_EQ(entries("/proc/self/fd"), fds);
	T_OK(read(watch, event, sizeof(event)) > 0);
	close(watch);
}

static const struct t_case cases[] = {
	T_CASE(the_name_stands_for_the_old_or_the_new),
	T_CASE(a_large_old_file_goes_in_the_end),
};

int main(void)
{
	static const struct t_group group = {"replace", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
