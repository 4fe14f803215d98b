/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one end of a file to the other.  The reader checks what FILE.crc covers while it reads on;
 * of a zip without it the CRC-32 of each record is computed on the way.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/ckpt/model_file.h"

#define PIECE (8u << 20)

struct pass {
	struct model_pass *p;
	struct model_file file;
	struct penstock_writer *writer;
	void *buf;
	uint64_t record; /* whose content is being checked, and its CRC-32 so far */
	uint32_t crc;
};

/* ---------------------------------------------------------------- damage, told */

/*
 * What of @file lies in [offset, offset + len): entries, and what lists them, which is before the
 * first of a safetensors file and behind the last of a zip.
 */
static void describe_offset(const struct model_file *file, uint64_t offset, uint64_t len, char *out,
			    size_t size)
{
	bool zip = file->format == MODEL_TORCH;
	const char *list = "";
	uint64_t begin = file->bytes, end = 0;
	unsigned hits = 0;
	struct model_entry e;
	char first[80] = "", more[32] = "";

	for (uint64_t i = 0; model_file_entry(file, i, &e); i++) {
		begin = min_u64(begin, e.offset);
		end = max_u64(end, e.offset + e.bytes);
		if (!e.bytes || e.offset >= offset + len || e.offset + e.bytes <= offset)
			continue;
		if (!hits++)
			penstock_print_elided(first, sizeof(first), "'%s'", e.name);
	}
	if (file->format == MODEL_SAFETENSORS && offset < begin)
		list = "the header";
	else if (zip && !end && offset + len < file->bytes)
		list = "the directory or the header of a record";
	else if (zip && offset + len > end)
		list = "the directory";
	if (!*list && !hits)
		return;
	if (hits > 1)
		penstock_print_elided(more, sizeof(more), " and %u other%s", hits - 1,
				      hits == 2 ? "" : "s");
	penstock_print_elided(out, size, "; there is %s%s%s%s", list, *list && hits ? ", " : "",
			      first, more);
}

/*
 * The same of a file that could not be opened, because what lists its entries has its checksum
 * together with what is wrong: as the list says, which is not believed in anything else.
 */
static void name_unverified(const struct model_pass *p, uint64_t offset, uint64_t len, char *out,
			    size_t size)
{
	struct penstock_reader_opts opts = PENSTOCK_READER_OPTS_INIT;
	const char *dot = strrchr(p->path, '.');
	struct model_file file;

	opts.verify = PENSTOCK_VERIFY_NEVER;
	if (model_file_open(&file, p->io, p->path, &opts, NULL) == 0 && !offset &&
	    file.format == MODEL_OTHER) { /* what tells the format is wrong */
		if (penstock_archive_open(&file.zip, file.reader, NULL) == 0)
			file.format = MODEL_TORCH;
		else if (dot && !strcmp(dot, ".safetensors"))
			file.format = MODEL_SAFETENSORS;
	}
	describe_offset(&file, offset, len, out, size);
	model_file_close(&file);
}

static int report_damage(const struct pass *s, const struct penstock_err *why,
			 struct penstock_err *err)
{
	const struct model_file *file = &s->file;
	struct penstock_reader *reader =
		file->tensors ? penstock_safetensors_reader(file->tensors) : file->reader;
	struct penstock_reader_info info = {.size = sizeof(info)};
	char place[180] = "";

	if (reader)
		penstock_reader_stat(reader, &info);
	if (info.bad_len && (file->tensors || file->zip))
		describe_offset(file, info.bad_offset, info.bad_len, place, sizeof(place));
	else if (info.bad_len)
		name_unverified(s->p, info.bad_offset, info.bad_len, place, sizeof(place));
	return penstock_fail(err, why->code, "%s%s", why->msg, place);
}

/* -------------------------------------------------------------- records of a zip */

static int end_record(struct pass *s, const struct penstock_record *rec, struct penstock_err *err)
{
	if (s->crc != rec->crc)
		return penstock_fail(err, -EBADMSG,
				     "%s: record '%s' at %" PRIu64 " has CRC-32 %08x, not %08x",
				     s->p->path, rec->name, rec->offset, s->crc, rec->crc);
	s->p->checked += rec->len;
	s->record++;
	s->crc = 0;
	return 0;
}

/* @len bytes of the file at @at. */
static int check_records(struct pass *s, const unsigned char *buf, uint64_t at, uint64_t len,
			 struct penstock_err *err)
{
	const struct penstock_record *rec;
	uint64_t end = at + len;
	int r = 0;

	while (r == 0 && (rec = penstock_archive_get(s->file.zip, s->record))) {
		uint64_t from = max_u64(at, rec->offset), to;

		if (from > end || (from == end && rec->len))
			break;
		to = min_u64(end, rec->offset + rec->len);
		s->crc = penstock_crc32(s->crc, buf + (from - at), to - from);
		if (to < rec->offset + rec->len)
			break;
		r = end_record(s, rec, err);
	}
	return r;
}

/* ----------------------------------------------------------------------- the pass */

static int move_pieces(struct pass *s, struct penstock_reader *reader, struct penstock_err *err)
{
	struct model_pass *p = s->p;
	int64_t n = 1;
	int r = 0;

	for (uint64_t at = 0; at < p->bytes && r == 0; at += (uint64_t)n) {
		n = penstock_reader_read(reader, s->buf, PIECE, err);
		if (n <= 0)
			return n < 0 ? (int)n
				     : penstock_fail(err, -ENODATA,
						     "%s: ends at %" PRIu64 " of %" PRIu64 " bytes",
						     p->path, at, p->bytes);
		if (s->file.zip && !s->file.has_crc)
			r = check_records(s, s->buf, at, (uint64_t)n, err);
		if (r == 0 && s->writer)
			r = penstock_writer_write(s->writer, s->buf, (uint64_t)n, err);
		if (p->progress)
			p->progress(p->arg, at + (uint64_t)n, p->bytes);
		if (r == 0 && asked_to_stop(p->stop))
			r = penstock_fail(err, -ECANCELED, "interrupted");
	}
	if (r == 0)
		p->checked = s->file.has_crc ? p->bytes : p->checked;
	return r;
}

/* What can be checked, and how. */
static void pass_prepare(struct pass *s)
{
	struct model_pass *p = s->p;

	p->format = s->file.format;
	p->bytes = s->file.bytes;
	if (s->file.has_crc)
		p->how = "FILE.crc";
	else if (s->file.zip && penstock_archive_get(s->file.zip, 0))
		p->how = "CRC-32 of the records";
}

static int open_writer(struct pass *s, struct penstock_err *err)
{
	struct penstock_writer_opts opts = PENSTOCK_WRITER_OPTS_INIT;

	if (!s->p->to)
		return 0;
	opts.flags = s->p->no_crc ? PENSTOCK_WRITER_NO_CRC : 0;
	opts.expected = s->p->bytes;
	return penstock_writer_open(&s->writer, s->p->io, s->p->to, &opts, err);
}

static int run_pass(struct pass *s, struct penstock_err *err)
{
	struct penstock_reader *reader =
		s->file.tensors ? penstock_safetensors_reader(s->file.tensors) : s->file.reader;
	int r;

	pass_prepare(s);
	r = penstock_buf_alloc(&s->buf, s->p->io, PIECE, 0, NULL, err);
	if (r == 0)
		r = penstock_reader_seek(reader, 0, err);
	if (r == 0)
		r = open_writer(s, err);
	if (r == 0)
		r = move_pieces(s, reader, err);
	if (!s->writer)
		return r;
	if (r == 0)
		return penstock_writer_commit(s->writer, err);
	penstock_writer_abort(s->writer);
	return r;
}

int model_pass_run(struct model_pass *p, struct penstock_err *err)
{
	CLEANUP_FREE struct pass *s = calloc(1, sizeof(*s));
	struct penstock_err why = {0, ""};
	uint64_t begin = clock_ns();
	int r;

	if (!s)
		return penstock_fail(err, -ENOMEM, "out of memory");
	p->checked = 0;
	p->how = NULL;
	s->p = p;
	r = model_file_open(&s->file, p->io, p->path, NULL, &why);
	if (r == 0)
		r = run_pass(s, &why);
	p->sec = (double)(clock_ns() - begin) / 1e9;
	if (r < 0)
		report_damage(s, &why, err);
	if (s->buf)
		penstock_buf_free(p->io, s->buf);
	model_file_close(&s->file);
	return r;
}
