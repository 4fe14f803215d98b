/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At the end of the file is a record that says where the directory is (EOCD); where that does not
 * fit into 32 bits, one before it does (zip64).  An entry of the directory leads to a local header,
 * behind which the content lies.  (PKWARE APPNOTE 6.3, sections 4.3 and 4.5.)
 */
#include "ckpt/zip.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define LOCAL_MAGIC   0x04034b50u
#define ENTRY_MAGIC   0x02014b50u
#define END_MAGIC     0x06054b50u
#define END64_MAGIC   0x06064b50u
#define LOCATOR_MAGIC 0x07064b50u
#define DIRECTORY_MAX (1ull << 30) /* five million records */

enum {
	LOCAL_BYTES = 30,
	ENTRY_BYTES = 46,
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR_BYTES = 20,
	COMMENT_MAX = 65535,
	EXTRA_ZIP64 = 1,
	ALIGNMENT = 64,         /* of contents, torch's default */
	ALIGNMENT_MAX = 0x8000, /* what pads up to it fits into an extra field */
};

static uint16_t le16(const unsigned char *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static uint32_t le32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t le64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* Is [offset, offset + len) within @bytes? */
static bool within(uint64_t offset, uint64_t len, uint64_t bytes)
{
	return len <= bytes && offset <= bytes - len;
}

/* -------------------------------------------------------------- the directory */

struct directory {
	uint64_t offset, bytes, nr;
};

/* The end record in the last @n bytes of the file, which are at @tail: its offset there, or -1. */
static int64_t find_end(const unsigned char *tail, uint64_t n)
{
	for (int64_t at = (int64_t)n - END_BYTES; at >= 0; at--)
		if (le32(tail + at) == END_MAGIC &&
		    (uint64_t)at + END_BYTES + le16(tail + at + 20) == n)
			return at;
	return -1;
}

/* Of a file that is too large for the end record at @end, its larger brother's. */
static int read_end64(struct directory *d, const struct zip_source *src, uint64_t end,
		      struct penstock_err *err)
{
	unsigned char b[END64_BYTES];
	uint64_t at;
	int r;

	if (end < LOCATOR_BYTES + END64_BYTES)
		return penstock_fail(err, -EINVAL, "zip: the zip64 locator is missing");
	r = src->read(src->arg, b, LOCATOR_BYTES, end - LOCATOR_BYTES, err);
	if (r < 0)
		return r;
	at = le64(b + 8);
	if (le32(b) != LOCATOR_MAGIC || !within(at, END64_BYTES, end - LOCATOR_BYTES))
		return penstock_fail(err, -EINVAL, "zip: the zip64 locator is missing or wrong");
	r = src->read(src->arg, b, END64_BYTES, at, err);
	if (r < 0)
		return r;
	if (le32(b) != END64_MAGIC)
		return penstock_fail(err, -EINVAL, "zip: no zip64 end record at %" PRIu64, at);
	*d = (struct directory){le64(b + 48), le64(b + 40), le64(b + 32)};
	return 0;
}

static int find_directory(struct directory *d, const struct zip_source *src,
			  struct penstock_err *err)
{
	uint64_t n = min_u64(src->bytes, END_BYTES + COMMENT_MAX), end;
	CLEANUP_FREE unsigned char *tail = malloc(n ? n : 1);
	const unsigned char *e;
	int64_t at;
	int r;

	if (!tail)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = src->read(src->arg, tail, n, src->bytes - n, err);
	if (r < 0)
		return r;
	at = find_end(tail, n);
	if (at < 0)
		return penstock_fail(err, -EINVAL, "zip: no directory at its end; is it complete?");
	e = tail + at;
	end = src->bytes - n + (uint64_t)at;
	*d = (struct directory){le32(e + 16), le32(e + 12), le16(e + 10)};
	if (d->offset == UINT32_MAX || d->bytes == UINT32_MAX || d->nr == UINT16_MAX)
		r = read_end64(d, src, end, err);
	if (r == 0 && (!within(d->offset, d->bytes, end) || d->bytes > DIRECTORY_MAX ||
		       d->nr > d->bytes / ENTRY_BYTES))
		return penstock_fail(err, -EINVAL,
				     "zip: a directory of %" PRIu64 " records in %" PRIu64
				     " bytes at %" PRIu64 " cannot be",
				     d->nr, d->bytes, d->offset);
	return r;
}

/* ------------------------------------------------------------------- an entry */

/* Values that did not fit into 32 bits are in an extra field, in this order. */
static int read_extra(struct penstock_record *rec, const unsigned char *extra, unsigned len,
		      uint64_t *packed)
{
	uint64_t *values[] = {&rec->len, packed, &rec->header};
	const unsigned char *end = extra + len;

	while (end - extra >= 4) {
		unsigned tag = le16(extra), n = le16(extra + 2);

		extra += 4;
		if (end - extra < (ptrdiff_t)n)
			return -EINVAL;
		for (unsigned i = 0; tag == EXTRA_ZIP64 && i < ARRAY_SIZE(values); i++) {
			if (*values[i] != UINT32_MAX)
				continue;
			if (n < 8)
				return -EINVAL;
			*values[i] = le64(extra);
			extra += 8;
			n -= 8;
		}
		extra += n;
	}
	return 0;
}

static bool has_wide(const struct penstock_record *rec, uint64_t packed)
{
	return rec->len == UINT32_MAX || packed == UINT32_MAX || rec->header == UINT32_MAX;
}

/* The entry at @p, of @left bytes: how many it has, or -errno. */
static int64_t read_entry(struct penstock_record *rec, const unsigned char *p, uint64_t left,
			  uint64_t bytes, struct penstock_err *err)
{
	unsigned name, extra, comment;
	uint64_t packed;

	if (left < ENTRY_BYTES || le32(p) != ENTRY_MAGIC)
		return penstock_fail(err, -EINVAL, "zip: the directory is damaged");
	name = le16(p + 28);
	extra = le16(p + 30);
	comment = le16(p + 32);
	if (left - ENTRY_BYTES < (uint64_t)name + extra + comment)
		return penstock_fail(err, -EINVAL, "zip: the directory is damaged");
	rec->crc = le32(p + 16);
	packed = le32(p + 20);
	rec->len = le32(p + 24);
	rec->header = le32(p + 42);
	rec->name = strndup((const char *)p + ENTRY_BYTES, name);
	if (!rec->name)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (strlen(rec->name) != name)
		return penstock_fail(err, -EINVAL, "zip: a name with a zero byte in it");
	if (has_wide(rec, packed) && read_extra(rec, p + ENTRY_BYTES + name, extra, &packed) < 0)
		return penstock_fail(err, -EINVAL, "zip: %s: damaged zip64 field", rec->name);
	if (le16(p + 10) != 0 || packed != rec->len || le16(p + 8) & 1)
		return penstock_fail(err, -EINVAL,
				     "zip: %s: is compressed or encrypted; torch stores records as "
				     "they are",
				     rec->name);
	if (!within(rec->header, LOCAL_BYTES, bytes) ||
	    !within(rec->header + LOCAL_BYTES, rec->len, bytes))
		return penstock_fail(err, -EINVAL, "zip: %s: lies beyond the end of the file",
				     rec->name);
	return (int64_t)ENTRY_BYTES + name + extra + comment;
}

static int read_entries(struct zip *z, const struct directory *d, const unsigned char *p,
			struct penstock_err *err)
{
	uint64_t left = d->bytes;
	int64_t n = 0;

	while (z->nr < d->nr && n >= 0) {
		struct penstock_record *rec = &z->records[z->nr++];

		n = read_entry(rec, p, left, d->offset, err);
		p += n > 0 ? n : 0;
		left -= n > 0 ? (uint64_t)n : 0;
	}
	if (n >= 0 && left)
		return penstock_fail(err, -EINVAL,
				     "zip: %" PRIu64 " bytes too many in the directory", left);
	return n < 0 ? (int)n : 0;
}

/* ----------------------------------------------------------------- the content */

/* From its header. */
static int read_place(struct penstock_record *rec, const struct zip_source *src,
		      struct penstock_err *err)
{
	unsigned char b[LOCAL_BYTES];
	int r = src->read(src->arg, b, sizeof(b), rec->header, err);

	if (r < 0)
		return r;
	rec->offset = rec->header + LOCAL_BYTES + le16(b + 26) + le16(b + 28);
	if (le32(b) != LOCAL_MAGIC || !within(rec->offset, rec->len, src->bytes))
		return penstock_fail(err, -EINVAL, "zip: %s: no local header at %" PRIu64,
				     rec->name, rec->header);
	return 0;
}

/* As torch lays it out; returns where the next one then begins. */
static uint64_t guess_place(struct penstock_record *rec, uint64_t alignment)
{
	bool large = rec->len >= UINT32_MAX, offset64 = rec->header >= UINT32_MAX;
	unsigned extra = large || offset64 ? 4 + 16 * large + 8 * offset64 : 0;

	rec->offset = rec->header + LOCAL_BYTES + strlen(rec->name) + extra + 4;
	rec->offset += (alignment - rec->offset % alignment) % alignment;
	return rec->offset + rec->len + (rec->len ? (large || offset64 ? 24 : 16) : 0);
}

/* What the archive says of the alignment of contents; the default where that is no such number. */
static int read_alignment(const struct zip *z, const struct zip_source *src, uint64_t *ret,
			  struct penstock_err *err)
{
	static const char end[] = "/.storage_alignment";
	char text[10] = "";
	unsigned long said;
	int r = 0;

	for (uint64_t i = 0; i < z->nr && r == 0; i++) {
		struct penstock_record rec = z->records[i];
		size_t n = strlen(rec.name);

		if (n < sizeof(end) - 1 || strcmp(rec.name + n - (sizeof(end) - 1), end) != 0 ||
		    rec.len >= sizeof(text))
			continue;
		r = read_place(&rec, src, err);
		if (r == 0)
			r = src->read(src->arg, text, rec.len, rec.offset, err);
		break;
	}
	said = text[strspn(text, "0123456789")] ? 0 : strtoul(text, NULL, 10);
	*ret = said && said <= ALIGNMENT_MAX ? said : ALIGNMENT;
	return r;
}

static int by_header(const void *a, const void *b)
{
	const struct penstock_record *x = a, *y = b;

	if (x->header != y->header)
		return x->header < y->header ? -1 : 1;
	return (x->len > y->len) - (x->len < y->len);
}

/*
 * Find the content of every record, and that none overlaps another.  Where torch's own layout leads
 * from each header to the next, none of them has to be read.  @end: where the directory begins.
 */
static int locate(struct zip *z, const struct zip_source *src, uint64_t end,
		  struct penstock_err *err)
{
	uint64_t alignment;
	int r = read_alignment(z, src, &alignment, err);

	qsort(z->records, z->nr, sizeof(*z->records), by_header);
	for (uint64_t i = 0; i < z->nr && r == 0; i++) {
		struct penstock_record *rec = &z->records[i];
		uint64_t next = i + 1 < z->nr ? rec[1].header : end;

		if (guess_place(rec, alignment) != next)
			r = read_place(rec, src, err);
		if (r == 0 && rec->offset + rec->len > next)
			r = penstock_fail(err, -EINVAL, "zip: %s and %s overlap", rec->name,
					  i + 1 < z->nr ? rec[1].name : "the directory");
	}
	return r;
}

int zip_open(struct zip *z, const struct zip_source *src, struct penstock_err *err)
{
	CLEANUP_FREE unsigned char *dir = NULL;
	struct directory d = {0};
	int r;

	*z = (struct zip){.nr = 0};
	r = find_directory(&d, src, err);
	if (r < 0)
		return r;
	dir = malloc(d.bytes ? d.bytes : 1);
	z->records = calloc(d.nr ? d.nr : 1, sizeof(*z->records));
	if (!dir || !z->records)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = src->read(src->arg, dir, d.bytes, d.offset, err);
	if (r == 0)
		r = read_entries(z, &d, dir, err);
	return r < 0 ? r : locate(z, src, d.offset, err);
}

void zip_fini(struct zip *z)
{
	for (uint64_t i = 0; i < z->nr; i++)
		free((char *)(uintptr_t)z->records[i].name);
	free(z->records);
	*z = (struct zip){.nr = 0};
}

/* ------------------------------------------------------------- for everybody */

struct penstock_archive {
	struct zip zip;
};

static int read_file(void *arg, void *buf, uint64_t len, uint64_t offset, struct penstock_err *err)
{
	int64_t n = penstock_reader_pread(arg, buf, len, offset, err);

	if (n < 0)
		return (int)n;
	return (uint64_t)n == len ? 0 : penstock_fail(err, -ENODATA, "the file has become shorter");
}

int penstock_archive_open(struct penstock_archive **out, struct penstock_reader *r,
			  struct penstock_err *err)
{
	struct penstock_reader_info info = {.size = sizeof(info)};
	struct penstock_archive *a = calloc(1, sizeof(*a));
	struct zip_source src;
	int e;

	if (!a)
		return penstock_fail(err, -ENOMEM, "out of memory");
	penstock_reader_stat(r, &info);
	src = (struct zip_source){read_file, r, info.bytes};
	e = zip_open(&a->zip, &src, err);
	if (e < 0)
		penstock_archive_close(a);
	else
		*out = a;
	return e;
}

void penstock_archive_close(struct penstock_archive *a)
{
	if (a)
		zip_fini(&a->zip);
	free(a);
}

const struct penstock_record *penstock_archive_get(const struct penstock_archive *a, uint64_t i)
{
	return i < a->zip.nr ? &a->zip.records[i] : NULL;
}
