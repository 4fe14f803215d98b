/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At the end of the file is a record that says where the directory is (EOCD); where that does not
 * fit into 32 bits, one before it does (zip64).  An entry of the directory leads to a local header,
 * behind which the content lies.  (PKWARE APPNOTE 6.3, sections 4.3 and 4.5.)
 */
#include "load/ckpt/zip.h"

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

int zip_is(const void *head, uint64_t len)
{
	return len >= 4 && (le32(head) == LOCAL_MAGIC || le32(head) == END_MAGIC);
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
		      struct sluice_err *err)
{
	unsigned char b[END64_BYTES];
	uint64_t at;
	int r;

	if (end < LOCATOR_BYTES + END64_BYTES)
		return sluice_fail(err, -EINVAL, "zip: the zip64 locator is missing");
	r = src->read(src->arg, b, LOCATOR_BYTES, end - LOCATOR_BYTES, err);
	if (r < 0)
		return r;
	at = le64(b + 8);
	if (le32(b) != LOCATOR_MAGIC || !within(at, END64_BYTES, end - LOCATOR_BYTES))
		return sluice_fail(err, -EINVAL, "zip: the zip64 locator is missing or wrong");
	r = src->read(src->arg, b, END64_BYTES, at, err);
	if (r < 0)
		return r;
	if (le32(b) != END64_MAGIC)
		return sluice_fail(err, -EINVAL, "zip: no zip64 end record at %" PRIu64, at);
	*d = (struct directory){le64(b + 48), le64(b + 40), le64(b + 32)};
	return 0;
}

static int find_directory(struct directory *d, const struct zip_source *src, struct sluice_err *err)
{
	uint64_t n = min_u64(src->bytes, END_BYTES + COMMENT_MAX), end;
	CLEANUP_FREE unsigned char *tail = malloc(n ? n : 1);
	const unsigned char *e;
	int64_t at;
	int r;

	if (!tail)
		return sluice_fail(err, -ENOMEM, "out of memory");
	r = src->read(src->arg, tail, n, src->bytes - n, err);
	if (r < 0)
		return r;
	at = find_end(tail, n);
	if (at < 0)
		return sluice_fail(err, -EINVAL, "zip: no directory at its end; is it complete?");
	e = tail + at;
	end = src->bytes - n + (uint64_t)at;
	*d = (struct directory){le32(e + 16), le32(e + 12), le16(e + 10)};
	if (d->offset == UINT32_MAX || d->bytes == UINT32_MAX || d->nr == UINT16_MAX)
		r = read_end64(d, src, end, err);
	if (r == 0 && (!within(d->offset, d->bytes, end) || d->bytes > DIRECTORY_MAX ||
		       d->nr > d->bytes / ENTRY_BYTES))
		return sluice_fail(err, -EINVAL,
				   "zip: a directory of %" PRIu64 " records in %" PRIu64
				   " bytes at %" PRIu64 " cannot be",
				   d->nr, d->bytes, d->offset);
	return r;
}

/* ------------------------------------------------------------------- an entry */

/* Values that did not fit into 32 bits are in an extra field, in this order. */
static int read_extra(struct zip_record *rec, const unsigned char *extra, unsigned len,
		      uint64_t *packed)
{
	uint64_t *values[] = {&rec->bytes, packed, &rec->header};
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

static bool has_wide(const struct zip_record *rec, uint64_t packed)
{
	return rec->bytes == UINT32_MAX || packed == UINT32_MAX || rec->header == UINT32_MAX;
}

/* The entry at @p, of @left bytes: how many it has, or -errno. */
static int64_t read_entry(struct zip_record *rec, const unsigned char *p, uint64_t left,
			  uint64_t bytes, struct sluice_err *err)
{
	unsigned name, extra, comment;
	uint64_t packed;

	if (left < ENTRY_BYTES || le32(p) != ENTRY_MAGIC)
		return sluice_fail(err, -EINVAL, "zip: the directory is damaged");
	name = le16(p + 28);
	extra = le16(p + 30);
	comment = le16(p + 32);
	if (left - ENTRY_BYTES < (uint64_t)name + extra + comment)
		return sluice_fail(err, -EINVAL, "zip: the directory is damaged");
	rec->crc = le32(p + 16);
	packed = le32(p + 20);
	rec->bytes = le32(p + 24);
	rec->header = le32(p + 42);
	rec->name = strndup((const char *)p + ENTRY_BYTES, name);
	if (!rec->name)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if (strlen(rec->name) != name)
		return sluice_fail(err, -EINVAL, "zip: a name with a zero byte in it");
	if (has_wide(rec, packed) && read_extra(rec, p + ENTRY_BYTES + name, extra, &packed) < 0)
		return sluice_fail(err, -EINVAL, "zip: %s: damaged zip64 field", rec->name);
	if (le16(p + 10) != 0 || packed != rec->bytes || le16(p + 8) & 1)
		return sluice_fail(err, -EINVAL,
				   "zip: %s: is compressed or encrypted; torch stores records as "
				   "they are",
				   rec->name);
	if (!within(rec->header, LOCAL_BYTES, bytes) ||
	    !within(rec->header + LOCAL_BYTES, rec->bytes, bytes))
		return sluice_fail(err, -EINVAL, "zip: %s: lies beyond the end of the file",
				   rec->name);
	return (int64_t)ENTRY_BYTES + name + extra + comment;
}

static int read_entries(struct zip *z, const struct directory *d, const unsigned char *p,
			struct sluice_err *err)
{
	uint64_t left = d->bytes;
	int64_t n = 0;

	while (z->nr < d->nr && n >= 0) {
		struct zip_record *rec = &z->records[z->nr++];

		n = read_entry(rec, p, left, d->offset, err);
		p += n > 0 ? n : 0;
		left -= n > 0 ? (uint64_t)n : 0;
	}
	if (n >= 0 && left)
		return sluice_fail(err, -EINVAL, "zip: %" PRIu64 " bytes too many in the directory",
				   left);
	return n < 0 ? (int)n : 0;
}

int zip_open(struct zip *z, const struct zip_source *src, struct sluice_err *err)
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
		return sluice_fail(err, -ENOMEM, "out of memory");
	r = src->read(src->arg, dir, d.bytes, d.offset, err);
	return r < 0 ? r : read_entries(z, &d, dir, err);
}

/* ----------------------------------------------------------------- the content */

static int locate_one(struct zip_record *rec, const struct zip_source *src, struct sluice_err *err)
{
	unsigned char b[LOCAL_BYTES];
	int r = src->read(src->arg, b, sizeof(b), rec->header, err);

	if (r < 0)
		return r;
	rec->offset = rec->header + LOCAL_BYTES + le16(b + 26) + le16(b + 28);
	if (le32(b) != LOCAL_MAGIC || !within(rec->offset, rec->bytes, src->bytes))
		return sluice_fail(err, -EINVAL, "zip: %s: no local header at %" PRIu64, rec->name,
				   rec->header);
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct zip_record *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int zip_locate(struct zip *z, const struct zip_source *src, struct sluice_err *err)
{
	int r = 0;

	for (uint64_t i = 0; i < z->nr && r == 0; i++)
		r = locate_one(&z->records[i], src, err);
	if (r < 0)
		return r;
	qsort(z->records, z->nr, sizeof(*z->records), by_offset);
	for (uint64_t i = 1; i < z->nr; i++)
		if (z->records[i - 1].offset + z->records[i - 1].bytes > z->records[i].header)
			return sluice_fail(err, -EINVAL, "zip: %s and %s overlap",
					   z->records[i - 1].name, z->records[i].name);
	return 0;
}

void zip_fini(struct zip *z)
{
	for (uint64_t i = 0; i < z->nr; i++)
		free(z->records[i].name);
	free(z->records);
	*z = (struct zip){.nr = 0};
}
