/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One buffer of fixed size.  What is left of it moves to the front before more is read, so that a
 * row is always in one piece; compressed data is decompressed straight into it.
 */
#include "load/trace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/err.h"
#include "base/util.h"

struct source_private {
	char *path;
	int fd;
	bool eof;         /* of the file */
	ZSTD_DCtx *dctx;  /* NULL: plain */
	ZSTD_inBuffer in; /* compressed bytes that were read */
	bool in_frame;
	char *packed;
	size_t packed_size;
	char buf[SOURCE_BYTES + SOURCE_PAD];
};

const char *source_path(const struct source *s)
{
	return s->p->path;
}

static ssize_t read_some(struct source *s, char *to, size_t len, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	ssize_t n;

	do
		n = read(s->p->fd, to, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return penstock_fail(err, -errno, "%s: cannot be read: %s",
				     penstock_shorten_name(&short_name, s->p->path),
				     penstock_strerror(errno));
	if (n == 0)
		s->p->eof = true;
	return n;
}

/* --------------------------------------------------------------- compressed */

static bool is_packed(const unsigned char *m, size_t len)
{
	if (len < 4)
		return false;
	if (!memcmp(m, "\x28\xb5\x2f\xfd", 4))
		return true;
	return (m[0] & 0xf0) == 0x50 && !memcmp(m + 1, "\x2a\x4d\x18", 3); /* to be skipped */
}

static int unreadable(const struct source *s, size_t code, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	return penstock_fail(err, -EIO, "%s: cannot be decompressed behind line %" PRIu64 ": %s",
			     penstock_shorten_name(&short_name, s->p->path), s->line,
			     ZSTD_getErrorName(code));
}

/* Up to @len bytes to @to; 0 at the end. */
static ssize_t unpack(struct source *s, char *to, size_t len, struct penstock_err *err)
{
	struct source_private *p = s->p;
	ZSTD_outBuffer out = {to, len, 0};

	for (;;) {
		size_t r, before = p->in.pos;
		ssize_t n;

		if (p->in.pos == p->in.size && !p->eof) {
			n = read_some(s, p->packed, p->packed_size, err);
			if (n < 0)
				return n;
			p->in = (ZSTD_inBuffer){p->packed, (size_t)n, 0};
			before = 0;
		}
		if (p->in.pos == p->in.size && !p->in_frame)
			return 0;
		r = ZSTD_decompressStream(p->dctx, &out, &p->in);
		if (ZSTD_isError(r))
			return unreadable(s, r, err);
		p->in_frame = r != 0;
		if (out.pos)
			return (ssize_t)out.pos;
		if (p->eof && p->in.pos == before) {
			s->torn = p->in_frame;
			return 0;
		}
	}
}

static int setup_zstd(struct source_private *p, size_t have)
{
	p->packed_size = ZSTD_DStreamInSize();
	p->packed = malloc(max_u64(p->packed_size, have));
	p->dctx = ZSTD_createDCtx();
	if (!p->packed || !p->dctx)
		return -ENOMEM;
	memcpy(p->packed, p->buf, have);
	p->in = (ZSTD_inBuffer){p->packed, have, 0};
	return 0;
}

/* ------------------------------------------------------------------ opening */

static void limits(struct source *s, size_t len)
{
	s->end = s->at + len;
	memset(s->end, 0, SOURCE_PAD);
}

/* The first bytes tell what it is. */
static int source_begin(struct source *s, struct penstock_err *err)
{
	struct source_private *p = s->p;
	size_t have = 0;
	int r = 0;

	while (have < 4 && !p->eof) {
		ssize_t n = read_some(s, p->buf + have, ZSTD_DStreamInSize(), err);

		if (n < 0)
			return (int)n;
		have += (size_t)n;
	}
	s->at = p->buf;
	if (is_packed((unsigned char *)p->buf, have)) {
		if (setup_zstd(p, have) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		have = 0;
	}
	limits(s, have);
	while (s->end - s->at < 3 && (r = source_more(s, err)) == 1)
		;
	if (r < 0)
		return r;
	if (s->end - s->at >= 3 && !memcmp(s->at, "\xef\xbb\xbf", 3))
		s->at += 3;
	return 0;
}

static int source_open_file(struct source_private *p, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	p->fd = STDIN_FILENO;
	if (strcmp(p->path, "-") != 0)
		p->fd = open(p->path, O_RDONLY | O_CLOEXEC);
	if (p->fd < 0)
		return penstock_fail(err, -errno, "%s: %s",
				     penstock_shorten_name(&short_name, p->path),
				     penstock_strerror(errno));
	posix_fadvise(p->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

int source_open(struct source *s, const char *path, struct penstock_err *err)
{
	int r;

	*s = (struct source){.p = calloc(1, sizeof(*s->p))};
	if (!s->p)
		return penstock_fail(err, -ENOMEM, "out of memory");
	s->p->fd = -1;
	s->p->path = strdup(path);
	r = s->p->path ? source_open_file(s->p, err) : penstock_fail(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = source_begin(s, err);
	if (r < 0)
		source_close(s);
	return r;
}

void source_close(struct source *s)
{
	struct source_private *p = s->p;

	s->p = NULL;
	if (!p)
		return;
	if (p->fd > STDIN_FILENO)
		close(p->fd);
	ZSTD_freeDCtx(p->dctx);
	free(p->packed);
	free(p->path);
	free(p);
}

/* ------------------------------------------------------------------- moving */

int source_more(struct source *s, struct penstock_err *err)
{
	struct source_private *p = s->p;
	size_t left = (size_t)(s->end - s->at);
	ssize_t n;

	if (left == SOURCE_BYTES)
		return -E2BIG;
	memmove(p->buf, s->at, left);
	s->at = p->buf;
	if (p->dctx)
		n = unpack(s, p->buf + left, SOURCE_BYTES - left, err);
	else
		n = p->eof ? 0 : read_some(s, p->buf + left, SOURCE_BYTES - left, err);
	limits(s, left + (size_t)(n > 0 ? n : 0));
	return n < 0 ? (int)n : n > 0;
}

int source_find(struct source *s, size_t from, size_t *ret, struct penstock_err *err)
{
	for (;;) {
		size_t have = (size_t)(s->end - s->at);
		const char *nl = from < have ? memchr(s->at + from, '\n', have - from) : NULL;
		int r;

		if (nl) {
			*ret = (size_t)(nl - s->at);
			return 1;
		}
		from = max_u64(from, have);
		r = source_more(s, err);
		if (r == 1)
			continue;
		if (r == 0 && s->torn)
			s->at = s->end; /* half a line */
		if (r != 0 || from != have || s->at == s->end)
			return r;
		*ret = have;
		return 1;
	}
}

void source_take(struct source *s, size_t len, uint64_t lines)
{
	s->at += len;
	s->unended = s->at == s->end;
	s->at += !s->unended;
	s->line += lines;
}

/* Go to the beginning of the next line.  As source_line(). */
static int source_skip_line(struct source *s, struct penstock_err *err)
{
	size_t len;
	int r;

	while ((r = source_find(s, 0, &len, err)) == -E2BIG)
		s->at = s->end;
	if (r == 1)
		source_take(s, len, 1);
	return r;
}

int source_line(struct source *s, char **ret_line, size_t *ret_len, struct penstock_err *err)
{
	size_t len;
	int r = source_find(s, 0, &len, err);

	if (r == -E2BIG) {
		r = source_skip_line(s, err);
		return r < 0 ? r : -E2BIG;
	}
	if (r != 1)
		return r;
	*ret_line = s->at;
	source_take(s, len, 1);
	*ret_len = len && (*ret_line)[len - 1] == '\r' ? len - 1 : len;
	return 1;
}
