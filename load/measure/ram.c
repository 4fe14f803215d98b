/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/ram.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/textfile.h"
#include "base/util.h"

#define QUARTER (256ull << 20)

/* The number behind "@name" at the beginning of a line of @path; 0 where there is none. */
static uint64_t number_of(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	uint64_t v = 0;
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name))) {
			v = strtoull(line + strlen(name), NULL, 10);
			break;
		}
	fclose(f);
	return v;
}

/* A group counts pages of files as used, which it gives up before it runs out. */
static void limit_by(struct ram *r, const char *group)
{
	char stat[PATH_MAX];
	uint64_t max, used = 0, files;

	if (penstock_textfile_read_u64(&max, "%s/memory.max", group) < 0)
		return; /* "max" is no number */
	snprintf(stat, sizeof(stat), "%s/memory.stat", group);
	files = number_of(stat, "inactive_file ");
	penstock_textfile_read_u64(&used, "%s/memory.current", group);
	used -= min_u64(used, files);
	r->total = min_u64(r->total, max);
	r->available = min_u64(r->available, max_u64(1, max - min_u64(max, used)));
}

/* The group the process is in, and all above it. */
static void limit_by_groups(struct ram *r, const char *root)
{
	char group[PATH_MAX], path[PATH_MAX + 64], *slash;
	FILE *f;
	bool found = false;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	if (!f)
		return;
	while (!found && fgets(group, sizeof(group), f))
		found = !strncmp(group, "0::/", 4);
	fclose(f);
	if (!found)
		return;
	group[strcspn(group, "\n")] = 0;
	do {
		snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s", root, group + 3);
		limit_by(r, path);
		slash = strrchr(group + 3, '/');
		if (slash)
			*slash = 0;
	} while (slash);
}

/* Where /proc is missing: free memory only, which is less than what could be had. */
static struct ram ram_by_call(void)
{
	struct sysinfo s;

	if (sysinfo(&s) < 0)
		return (struct ram){0};
	return (struct ram){.total = (uint64_t)s.totalram * s.mem_unit,
			    .available = ((uint64_t)s.freeram + s.bufferram) * s.mem_unit};
}

struct ram ram_read(const char *root)
{
	struct ram r;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	r.total = number_of(path, "MemTotal:") << 10;
	r.available = number_of(path, "MemAvailable:") << 10;
	if (!r.total || !r.available)
		r = ram_by_call();
	limit_by_groups(&r, root);
	return r;
}

uint64_t ram_available(void)
{
	return ram_read("").available;
}

uint64_t ram_share(const struct ram *r, uint64_t most)
{
	uint64_t share = min_u64(most, min_u64(r->total / 2, r->available * 85 / 100));

	return r->total && share < most ? align_down(share, QUARTER) : most;
}
