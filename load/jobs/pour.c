/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/pour.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/util.h"

static int pour_moved(const struct pour *p, uint64_t bytes, struct sluice_err *err)
{
	if (p->progress)
		p->progress(p->arg, bytes);
	return sluice_stopped(p->stop, err);
}

/* Bytes of the file from @at on that the memory has room for. */
static uint64_t pour_piece(const struct pour *p, uint64_t at)
{
	return min_u64(p->buf_len, p->len - at);
}

void pour_look(const struct pour *p, struct sluice_stats *stats, struct sluice_file_info *info)
{
	struct sluice_file *file;

	stats->size = sizeof(*stats);
	sluice_get_stats(p->io, stats);
	info->size = sizeof(*info);
	if (!p->path || sluice_file_open(&file, p->io, p->path, O_RDONLY, 0, NULL) < 0)
		return;
	sluice_file_stat(file, info);
	sluice_file_close(file, NULL);
}

void pour_make(struct pour *p)
{
	uint64_t begin = clock_ns();

	sluice_gen_fill(p->gen, p->object, p->offset, p->buf, p->len);
	p->total_ns = p->made_ns = clock_ns() - begin;
	p->close_ns = 0;
}

static int write_pieces(struct pour *p, struct sluice_writer *w, struct sluice_err *err)
{
	uint64_t n, begin;
	int r = 0;

	for (uint64_t at = 0; at < p->len && r == 0; at += n) {
		n = pour_piece(p, at);
		begin = clock_ns();
		if (!p->ready)
			sluice_gen_fill(p->gen, p->object, p->offset + at, p->buf, n);
		p->made_ns += clock_ns() - begin;
		r = sluice_writer_write(w, p->buf, n, err);
		if (r == 0)
			r = pour_moved(p, at + n, err);
	}
	return r;
}

int pour_save(struct pour *p, struct sluice_err *err)
{
	struct sluice_writer *w;
	uint64_t begin = clock_ns(), closing;
	int r;

	p->made_ns = p->close_ns = 0;
	p->writer.expected = p->len;
	r = sluice_writer_open(&w, p->io, p->path, &p->writer, err);
	if (r < 0)
		return r;
	r = write_pieces(p, w, err);
	if (r < 0) {
		sluice_writer_abort(w);
		return r;
	}
	closing = clock_ns();
	r = sluice_writer_commit(w, err);
	p->close_ns = clock_ns() - closing;
	p->total_ns = clock_ns() - begin;
	return r;
}

/* Fewer bytes than asked for are an end that came too early. */
static int read_piece(struct pour *p, struct sluice_reader *rd, uint64_t at, uint64_t n,
		      struct sluice_err *err)
{
	int64_t got = sluice_reader_read(rd, p->buf, n, err);

	if (got < 0)
		return (int)got;
	if ((uint64_t)got < n)
		return sluice_fail(err, -EBADMSG, "%s: ends at %" PRIu64 ", not at %" PRIu64,
				   p->path, at + (uint64_t)got, p->len);
	return 0;
}

static int compare_piece(struct pour *p, uint64_t at, uint64_t n, struct sluice_err *err)
{
	uint64_t begin = clock_ns();
	size_t right = sluice_gen_check(p->gen, p->object, p->offset + at, p->buf, n);
	unsigned char want;

	p->made_ns += clock_ns() - begin;
	if (right == n)
		return 0;
	sluice_gen_fill(p->gen, p->object, p->offset + at + right, &want, 1);
	return sluice_fail(err, -EBADMSG, "%s: byte %" PRIu64 " is 0x%02x, not 0x%02x", p->path,
			   at + right, ((unsigned char *)p->buf)[right], want);
}

static int read_pieces(struct pour *p, struct sluice_reader *rd, bool compare,
		       struct sluice_err *err)
{
	struct sluice_reader_info info = {.size = sizeof(info)};
	uint64_t n;
	int r = sluice_reader_stat(rd, &info);

	if (r == 0 && info.bytes != p->len)
		return sluice_fail(err, -EBADMSG, "%s: has %" PRIu64 " bytes, not %" PRIu64,
				   p->path, info.bytes, p->len);
	for (uint64_t at = 0; at < p->len && r == 0; at += n) {
		n = pour_piece(p, at);
		r = read_piece(p, rd, at, n, err);
		if (r == 0 && compare)
			r = compare_piece(p, at, n, err);
		if (r == 0)
			r = pour_moved(p, at + n, err);
	}
	return r;
}

static int pour_read(struct pour *p, bool compare, struct sluice_err *err)
{
	uint64_t begin = clock_ns();
	struct sluice_reader *rd;
	int r = sluice_reader_open(&rd, p->io, p->path, &p->reader, err);

	p->made_ns = p->close_ns = 0;
	if (r < 0)
		return r;
	r = read_pieces(p, rd, compare, err);
	p->total_ns = clock_ns() - begin;
	sluice_reader_close(rd);
	return r;
}

int pour_load(struct pour *p, struct sluice_err *err)
{
	return pour_read(p, false, err);
}

int pour_compare(struct pour *p, struct sluice_err *err)
{
	return pour_read(p, true, err);
}
