/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the machine and of the control groups around us. */
#include <sys/stat.h>

#include "base/util.h"
#include "load/measure/ram.h"
#include "tests/common/t.h"

static char root[4096];

static void put(const char *name, const char *text)
{
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *c = path + strlen(root) + 1; *c; c++)
		if (*c == '/') {
			*c = 0;
			mkdir(path, 0755);
			*c = '/';
		}
	f = fopen(path, "w");
	T_OK(f);
	fputs(text, f);
	fclose(f);
}

static void machine(const char *name)
{
	snprintf(root, sizeof(root), "%s/%s", t_dir(), name);
	mkdir(root, 0755);
	put("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:         1048576 kB\n"
			    "MemAvailable:   50331648 kB\nBuffers:          261348 kB\n");
}

static void without_groups_it_is_the_machines(void)
{
	struct ram r;

	machine("plain");
	r = ram_read(root);
	T_EQ(r.total, GIB(64));
	T_EQ(r.available, GIB(48));
	put("proc/self/cgroup", "0::/user.slice/a\n");
	put("sys/fs/cgroup/user.slice/a/memory.max", "max\n");
	r = ram_read(root);
	T_EQ(r.total, GIB(64));
	T_EQ(r.available, GIB(48));
}

static void a_limit_of_any_group_above_counts(void)
{
	struct ram r;

	machine("limited");
	put("proc/self/cgroup", "4:cpu:/old\n0::/job/step\n");
	put("sys/fs/cgroup/job/step/memory.max", "max\n");
	put("sys/fs/cgroup/job/memory.max", "8589934592\n");
	put("sys/fs/cgroup/job/memory.current", "3221225472\n");
	put("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1073741824\nslab 7\n");
	r = ram_read(root);
	T_EQ(r.total, GIB(8));
	T_EQ(r.available, GIB(6));                       /* what is cached of files can go */
	put("sys/fs/cgroup/memory.max", "4294967296\n"); /* that of a container */
	put("sys/fs/cgroup/memory.current", "4294967296\n");
	r = ram_read(root);
	T_EQ(r.total, GIB(4));
	T_EQ(r.available, 1); /* nothing, which is not the same as not knowing */
}

static void a_share_leaves_room(void)
{
	struct ram r = {.total = GIB(128), .available = GIB(100)};

	T_EQ(ram_share(&r, GIB(32)), GIB(32));
	r = (struct ram){.total = GIB(24) - 12345, .available = GIB(22)};
	T_EQ(ram_share(&r, GIB(32)), GIB(11) + GIB(3) / 4);
	r.available = GIB(10);
	T_EQ(ram_share(&r, GIB(32)), GIB(8) + GIB(1) / 2);
	r = (struct ram){0, 0};
	T_EQ(ram_share(&r, GIB(32)), GIB(32));
}

static void without_proc_the_kernel_is_asked(void)
{
	struct ram r = ram_read("/nowhere");

	T_OK(r.total > 0 && r.available > 0 && r.available <= r.total);
}

static void this_machine_has_memory(void)
{
	struct ram r = ram_read("");

	T_OK(r.total > 0 && r.available > 0 && r.available <= r.total);
	T_OK(ram_available() > 0);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(without_groups_it_is_the_machines),
		T_CASE(a_limit_of_any_group_above_counts),
		T_CASE(a_share_leaves_room),
		T_CASE(without_proc_the_kernel_is_asked),
		T_CASE(this_machine_has_memory),
	};
	static const struct t_group group = {"ram", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
