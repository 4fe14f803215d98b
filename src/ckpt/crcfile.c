/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/crcfile.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"
#include "file/stripe.h"

static const char magic[] = "penstock.crc32c 1\n";

enum {
	MAGIC = sizeof(magic) - 1,
	HEADER = MAGIC + 8,
	SET = 32,
	TAIL = 4,
	FILE_MAX = 1 << 30, /* of a file of 128 TiB */
};

/* ------------------------------------------------------------------ the form */

static uint32_t get_u32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

static uint64_t get_u64(const unsigned char *p)
{
	return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

static void put_u32(unsigned char *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, 4);
}

static void put_u64(unsigned char *p, uint64_t v)
{
	put_u32(p, (uint32_t)v);
	put_u32(p + 4, (uint32_t)(v >> 32));
}

/* One set at @p, of which there are @len bytes; NULL, or what is wrong. */
static const char *parse_set(struct crc_set *s, const unsigned char *p, size_t len)
{
	if (len < SET)
		return "it is cut short";
	s->bytes = get_u64(p);
	s->inode = get_u64(p + 8);
	s->mtime_ns = (int64_t)get_u64(p + 16);
	s->flags = get_u32(p + 24);
	if (s->flags & ~CRC_SET_UNKNOWN || get_u32(p + 28))
		return "it has flags that this version does not know";
	s->nr = s->flags & CRC_SET_UNKNOWN ? 0 : crc_chunks(s->bytes);
	return s->nr > (len - SET) / 4 ? "it is cut short" : NULL;
}

static const char *parse_head(const unsigned char *p, size_t len)
{
	if (len < HEADER + TAIL || memcmp(p, magic, MAGIC) != 0)
		return "it is no file of checksums";
	if (get_u32(p + len - TAIL) != penstock_crc32c(0, p, len - TAIL))
		return "its own checksum does not fit";
	if (get_u32(p + MAGIC) > CRC_SETS_MAX)
		return "it has too many sets";
	if (get_u32(p + MAGIC + 4) != PENSTOCK_CHUNK)
		return "its chunks are not of 1 MiB";
	return NULL;
}

static const char *parse_sets(struct crcfile *f, const unsigned char *p, size_t len)
{
	uint32_t *at = f->crcs;

	for (unsigned i = 0; i < f->nr; i++) {
		struct crc_set *s = &f->sets[i];
		const char *why = parse_set(s, p, len);

		if (why)
			return why;
		s->crcs = at;
		p += SET;
		for (uint64_t k = 0; k < s->nr; k++, p += 4)
			*at++ = get_u32(p);
		len -= SET + s->nr * 4;
	}
	return len ? "it is too long" : NULL;
}

int crcfile_parse(struct crcfile *out, const void *data, size_t len, const char **ret_why)
{
	struct crcfile f = {0};
	const unsigned char *p = data;

	*ret_why = parse_head(p, len);
	if (*ret_why)
		return -EBADMSG;
	f.nr = get_u32(p + MAGIC);
	f.crcs = malloc(len); /* more than all checksums */
	if (!f.crcs)
		return -ENOMEM;
	*ret_why = parse_sets(&f, p + HEADER, len - HEADER - TAIL);
	if (*ret_why) {
		free(f.crcs);
		return -EBADMSG;
	}
	*out = f;
	return 0;
}

void *crcfile_format(const struct crc_set *sets, unsigned nr, size_t *ret_len)
{
	size_t len = HEADER + TAIL;
	unsigned char *data, *p;

	for (unsigned i = 0; i < nr; i++)
		len += SET + sets[i].nr * 4;
	data = p = malloc(len);
	if (!data)
		return NULL;
	memcpy(p, magic, MAGIC);
	put_u32(p + MAGIC, nr);
	put_u32(p + MAGIC + 4, PENSTOCK_CHUNK);
	p += HEADER;
	for (unsigned i = 0; i < nr; i++) {
		const struct crc_set *s = &sets[i];

		put_u64(p, s->bytes);
		put_u64(p + 8, s->inode);
		put_u64(p + 16, (uint64_t)s->mtime_ns);
		put_u32(p + 24, s->flags);
		put_u32(p + 28, 0);
		p += SET;
		for (uint64_t k = 0; k < s->nr; k++, p += 4)
			put_u32(p, s->crcs[k]);
	}
	put_u32(p, penstock_crc32c(0, data, len - TAIL));
	*ret_len = len;
	return data;
}

void crcfile_free(struct crcfile *f)
{
	free(f->crcs);
	*f = (struct crcfile){0};
}

/* ---------------------------------------------------------------- which set */

struct crc_set crc_set_for_stat(const struct stat *st, uint64_t bytes)
{
	return (struct crc_set){
		.bytes = bytes,
		.inode = st->st_ino,
		.mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
		.flags = CRC_SET_UNKNOWN,
	};
}

bool crcfile_select_sets(struct crcfile *f, const struct crc_set *is)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < f->nr; i++) {
		const struct crc_set *s = &f->sets[i];

		if (s->bytes == is->bytes && s->inode == is->inode && s->mtime_ns == is->mtime_ns) {
			f->sets[0] = *s;
			f->nr = 1;
			return true;
		}
	}
	for (unsigned i = 0; i < f->nr; i++)
		if (f->sets[i].bytes == is->bytes)
			f->sets[nr++] = f->sets[i];
	f->nr = nr;
	return false;
}

/* ----------------------------------------------------------------- the file */

/* All of it, to be freed, or -errno. */
static int crcfile_read_all(int fd, void **ret, size_t *ret_len)
{
	struct stat st;
	CLEANUP_FREE char *data = NULL;
	size_t len;
	int64_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return -EBADMSG;
	len = (size_t)st.st_size;
	data = malloc(len + 1);
	if (!data)
		return -ENOMEM;
	n = penstock_full_pread(fd, data, len, 0);
	if (n < 0)
		return (int)n;
	*ret = TAKE_PTR(data);
	*ret_len = (size_t)n;
	return 0;
}

int crcfile_load(struct crcfile *out, int dir, const char *name, struct penstock_err *err)
{
	CLEANUP_CLOSE int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	CLEANUP_FREE void *data = NULL;
	const char *why = "it is no file of checksums";
	size_t len = 0;
	int r;

	if (fd < 0)
		return errno == ENOENT
			       ? -ENOENT
			       : penstock_fail(err, -errno, "open %s: %s", name, strerror(errno));
	r = crcfile_read_all(fd, &data, &len);
	if (r == 0)
		r = crcfile_parse(out, data, len, &why);
	if (r < 0)
		return penstock_fail(err, r, "%s: %s", name, r == -EBADMSG ? why : strerror(-r));
	return 0;
}

/* 1, 0: nothing is there, or -errno. */
static int stat_file(const struct penstock_replace *file, struct stat *st)
{
	if (fstatat(file->dir, file->name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

/* What FILE.crc will be, to be freed. */
static void *replacement_content(const struct crc_replace *n, size_t *ret_len)
{
	int64_t bytes = penstock_stripe_bytes_at(n->file->dir, n->file->name, n->file_stat.st_size);
	struct crc_set sets[CRC_SETS_MAX],
		seen = crc_set_for_stat(&n->file_stat,
					(uint64_t)(bytes < 0 ? n->file_stat.st_size : bytes));
	struct crcfile now = {0};
	unsigned nr = 0;
	void *data;

	if (n->had_file) {
		if (crcfile_load(&now, n->file->dir, n->name, NULL) == 0)
			crcfile_select_sets(&now, &seen);
		for (; nr < now.nr && nr < CRC_SETS_MAX - 1; nr++)
			sets[nr] = now.sets[nr];
		if (!nr)
			sets[nr++] = seen;
	}
	sets[nr++] = *n->set;
	data = crcfile_format(sets, nr, ret_len);
	crcfile_free(&now);
	return data;
}

static int replacement_write(const struct crc_replace *n)
{
	CLEANUP_FREE void *data = NULL;
	struct stat st;
	size_t len;
	int e;

	data = replacement_content(n, &len);
	if (!data)
		return -ENOMEM;
	if (fstat(n->file->fd, &st) < 0)
		return -errno;
	e = penstock_full_pwrite(n->rep.fd, data, len, 0);
	if (e == 0) /* for whoever may read the file itself */
		e = penstock_replace_set_mode(n->rep.fd, st.st_mode & 0666);
	if (e == 0 && n->sync && fsync(n->rep.fd) < 0)
		e = -errno;
	return e;
}

int crc_replace_open(struct crc_replace *n, const struct penstock_replace *file, const char *name,
		     const struct crc_set *set, bool sync)
{
	int e;

	*n = (struct crc_replace){
		.rep = PENSTOCK_REPLACE_NONE, .file = file, .name = name, .set = set, .sync = sync};
	e = stat_file(file, &n->file_stat);
	if (e < 0)
		return e;
	n->had_file = e;
	e = penstock_replace_open_at(&n->rep, file->dir, name, 0600);
	if (e < 0)
		return e;
	e = replacement_write(n);
	if (e < 0)
		crc_replace_close(n);
	return e;
}

int crc_replace_publish(struct crc_replace *n)
{
	struct stat now;
	int e = stat_file(n->file, &now);

	if (e < 0)
		return e;
	if (n->had_file != (e > 0) ||
	    (e > 0 && (now.st_ino != n->file_stat.st_ino || now.st_size != n->file_stat.st_size ||
		       now.st_mtim.tv_sec != n->file_stat.st_mtim.tv_sec ||
		       now.st_mtim.tv_nsec != n->file_stat.st_mtim.tv_nsec))) {
		crc_replace_close(n);
		e = crc_replace_open(n, n->file, n->name, n->set, n->sync);
		if (e < 0)
			return e;
	}
	return penstock_replace_publish(&n->rep);
}

void crc_replace_close(struct crc_replace *n)
{
	if (n->file)
		penstock_replace_close(&n->rep, false);
	n->rep = (struct penstock_replace)PENSTOCK_REPLACE_NONE;
}
