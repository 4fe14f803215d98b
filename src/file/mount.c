/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted where, from /proc/self/mountinfo (see proc_pid_mountinfo(5)). */
#include "file/mount.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* The next field of *@s into @out, with \040 and the like undone; false at the end. */
static bool mount_field(char *out, size_t size, const char **s)
{
	const char *p = *s + strspn(*s, " ");
	size_t used = 0;

	if (!*p || *p == '\n')
		return false;
	for (; *p && *p != ' ' && *p != '\n'; p++) {
		unsigned char c = (unsigned char)*p;
		unsigned octal;

		if (c == '\\' && sscanf(p + 1, "%3o", &octal) == 1 &&
		    strspn(p + 1, "01234567") >= 3) {
			c = (unsigned char)octal;
			p += 3;
		}
		if (used + 1 < size)
			out[used++] = (char)c;
	}
	out[used] = 0;
	*s = p;
	return true;
}

int penstock_mount_parse(struct penstock_mount *out, uint64_t *ret_id, const char *line)
{
	/* id parent major:minor root point options [optional...] - fs source options */
	const char *rest = strstr(line, " - ");
	char skip[64], *end;
	unsigned i;

	*ret_id = strtoull(line, &end, 10);
	if (end == line || !rest)
		return -EINVAL;
	for (i = 0; i < 4; i++)
		if (!mount_field(skip, sizeof(skip), &line))
			return -EINVAL;
	rest += 3;
	if (!mount_field(out->point, sizeof(out->point), &line) ||
	    !mount_field(out->fs, sizeof(out->fs), &rest) ||
	    !mount_field(out->source, sizeof(out->source), &rest))
		return -EINVAL;
	return 0;
}

int penstock_mount_find(struct penstock_mount *out, uint64_t id)
{
	CLEANUP_FREE char *line = NULL;
	struct penstock_mount m;
	size_t line_size = 0;
	uint64_t found;
	int r = -ENOENT;
	FILE *f = fopen("/proc/self/mountinfo", "re");

	if (!f)
		return -errno;
	while (r < 0 && getline(&line, &line_size, f) > 0)
		if (penstock_mount_parse(&m, &found, line) == 0 && found == id) {
			*out = m;
			r = 0;
		}
	fclose(f);
	return r;
}
