/* SPDX-License-Identifier: Apache-2.0 */
/* One open, one read: what the kernel says in a small file is consistent only within one read. */
#include "base/textfile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

static int read_line(char *out, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
static int read_line(char *out, size_t size, const char *fmt, va_list ap)
{
	CLEANUP_CLOSE int fd = -1;
	char path[PATH_MAX], text[1024];
	char *s = text;
	ssize_t n;
	size_t len;

	out[0] = 0;
	if (vsnprintf(path, sizeof(path), fmt, ap) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	while (isspace((unsigned char)*s))
		s++;
	len = strcspn(s, "\n");
	while (len && isspace((unsigned char)s[len - 1]))
		len--;
	len = min_u64(len, size - 1);
	memcpy(out, s, len);
	out[len] = 0;
	return (int)len;
}

int penstock_textfile_read_line(char *out, size_t size, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = read_line(out, size, fmt, ap);
	va_end(ap);
	return r;
}

int penstock_textfile_read_u64(uint64_t *out, const char *fmt, ...)
{
	char line[32], *end;
	va_list ap;
	uint64_t v;
	int r;

	va_start(ap, fmt);
	r = read_line(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (r < 0)
		return r;
	errno = 0;
	v = strtoull(line, &end, 10);
	if (!isdigit((unsigned char)line[0]) || *end || errno)
		return -EINVAL;
	*out = v;
	return 0;
}

int penstock_textfile_read_selected(char *out, size_t size, const char *fmt, ...)
{
	char line[256];
	const char *s = line, *open;
	va_list ap;
	int r;

	out[0] = 0;
	va_start(ap, fmt);
	r = read_line(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (r < 0)
		return r;
	open = strchr(line, '[');
	if (open) {
		s = open + 1;
		line[strcspn(line, "]")] = 0;
	}
	snprintf(out, size, "%s", s);
	return 0;
}
