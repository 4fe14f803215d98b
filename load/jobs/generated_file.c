/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/generated_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/util.h"

static int generated_file_report(const struct generated_file *p, uint64_t bytes,
				 struct penstock_err *err)
{
	if (p->progress)
		p->progress(p->arg, bytes);
	return penstock_check_stop(p->stop, err);
}

/* Bytes of the file from @at on that the memory has room for. */
static uint64_t generated_file_piece(const struct generated_file *p, uint64_t at)
{
	return min_u64(p->buf_len, p->len - at);
}

void generated_file_get_info(const struct generated_file *p, struct penstock_stats *stats,
			     struct penstock_file_info *info)
{
	struct penstock_file *file;

	stats->size = sizeof(*stats);
	penstock_get_stats(p->io, stats);
	info->size = sizeof(*info);
	if (!p->path || penstock_file_open(&file, p->io, p->path, O_RDONLY, 0, NULL) < 0)
		return;
	penstock_file_stat(file, info);
	penstock_file_close(file, NULL);
}

void generated_file_fill(struct generated_file *p)
{
	uint64_t begin = clock_ns();

	penstock_gen_fill(p->gen, p->object, p->offset, p->buf, p->len);
	p->total_ns = p->made_ns = clock_ns() - begin;
	p->close_ns = 0;
}

static int write_pieces(struct generated_file *p, struct penstock_writer *w,
			struct penstock_err *err)
{
	uint64_t n, begin;
	int r = 0;

	for (uint64_t at = 0; at < p->len && r == 0; at += n) {
		n = generated_file_piece(p, at);
		begin = clock_ns();
		if (!p->ready)
			penstock_gen_fill(p->gen, p->object, p->offset + at, p->buf, n);
		p->made_ns += clock_ns() - begin;
		r = penstock_writer_write(w, p->buf, n, err);
		if (r == 0)
			r = generated_file_report(p, at + n, err);
	}
	return r;
}

int generated_file_save(struct generated_file *p, struct penstock_err *err)
{
	struct penstock_writer *w;
	uint64_t begin = clock_ns(), closing;
	int r;

	p->made_ns = p->close_ns = 0;
	p->writer.expected = p->len;
	r = penstock_writer_open(&w, p->io, p->path, &p->writer, err);
	if (r < 0)
		return r;
	r = write_pieces(p, w, err);
	if (r < 0) {
		penstock_writer_abort(w);
		return r;
	}
	closing = clock_ns();
	r = penstock_writer_commit(w, err);
	p->close_ns = clock_ns() - closing;
	p->total_ns = clock_ns() - begin;
	return r;
}

/* Fewer bytes than asked for are an end that came too early. */
static int read_piece(struct generated_file *p, struct penstock_reader *rd, uint64_t at, uint64_t n,
		      struct penstock_err *err)
{
	int64_t got = penstock_reader_read(rd, p->buf, n, err);

	if (got < 0)
		return (int)got;
	if ((uint64_t)got < n)
		return penstock_fail(err, -EBADMSG, "%s: ends at %" PRIu64 ", not at %" PRIu64,
				     p->path, at + (uint64_t)got, p->len);
	return 0;
}

static int compare_piece(struct generated_file *p, uint64_t at, uint64_t n,
			 struct penstock_err *err)
{
	uint64_t begin = clock_ns();
	size_t right = penstock_gen_check(p->gen, p->object, p->offset + at, p->buf, n);
	unsigned char want;

	p->made_ns += clock_ns() - begin;
	if (right == n)
		return 0;
	penstock_gen_fill(p->gen, p->object, p->offset + at + right, &want, 1);
	return penstock_fail(err, -EBADMSG, "%s: byte %" PRIu64 " is 0x%02x, not 0x%02x", p->path,
			     at + right, ((unsigned char *)p->buf)[right], want);
}

static int read_pieces(struct generated_file *p, struct penstock_reader *rd, bool compare,
		       struct penstock_err *err)
{
	struct penstock_reader_info info = {.size = sizeof(info)};
	uint64_t n;
	int r = penstock_reader_stat(rd, &info);

	if (r == 0 && info.bytes != p->len)
		return penstock_fail(err, -EBADMSG, "%s: has %" PRIu64 " bytes, not %" PRIu64,
				     p->path, info.bytes, p->len);
	for (uint64_t at = 0; at < p->len && r == 0; at += n) {
		n = generated_file_piece(p, at);
		r = read_piece(p, rd, at, n, err);
		if (r == 0 && compare)
			r = compare_piece(p, at, n, err);
		if (r == 0)
			r = generated_file_report(p, at + n, err);
	}
	return r;
}

static int generated_file_read(struct generated_file *p, bool compare, struct penstock_err *err)
{
	uint64_t begin = clock_ns();
	struct penstock_reader *rd;
	int r = penstock_reader_open(&rd, p->io, p->path, &p->reader, err);

	p->made_ns = p->close_ns = 0;
	if (r < 0)
		return r;
	r = read_pieces(p, rd, compare, err);
	p->total_ns = clock_ns() - begin;
	penstock_reader_close(rd);
	return r;
}

int generated_file_load(struct generated_file *p, struct penstock_err *err)
{
	return generated_file_read(p, false, err);
}

int generated_file_compare(struct generated_file *p, struct penstock_err *err)
{
	return generated_file_read(p, true, err);
}
