/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a store, seen from outside: what is in it, whether it is whole, and away with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

enum { READ_BYTES = 4 << 20 };

struct inspection {
	struct penstock_store *s;
	struct store_dir *d;
	unsigned flags;
	int (*each)(void *arg, const struct penstock_store_entry *entry);
	void *arg;
	struct penstock_store_summary sum;
	void *buf;
};

/* Returns bytes, or -errno. */
static int verify_value(struct inspection *l, const struct store_record *r)
{
	uint32_t crc = penstock_crc32c(0, r->key, r->key_len);
	uint64_t left = r->len;

	for (uint32_t i = 0; i < r->nr && left; i++) {
		struct extent x = store_record_piece(r, i);
		uint64_t at = (uint64_t)x.start * STORE_UNIT;
		uint64_t in = min_u64(left, (uint64_t)x.count * STORE_UNIT);

		left -= in;
		while (in) {
			uint64_t want = min_u64(in, READ_BYTES);
			int64_t n = penstock_pread(l->d->data, l->buf, want, at, NULL);

			if (n < (int64_t)want)
				return n < 0 ? (int)n : -ENODATA;
			crc = penstock_crc32c(crc, l->buf, want);
			at += want;
			in -= want;
		}
	}
	return crc == r->crc ? 0 : -EBADMSG;
}

static int inspect_record(void *arg, const struct store_record *r, const void *raw, size_t size)
{
	struct inspection *l = arg;
	struct penstock_store_entry out;
	const struct store_entry *e;

	(void)raw;
	(void)size;
	if (!r || r->type != STORE_RECORD_SET)
		return 0;
	e = store_index_find(&l->s->index, store_hash_key(&l->s->secret, r->key, r->key_len));
	if (!e || e->gen != r->gen)
		return 0;
	out = (struct penstock_store_entry){
		.key = r->key, .key_len = r->key_len, .len = r->len, .expires = r->expiry};
	if (l->flags & PENSTOCK_STORE_VERIFY) {
		out.code = verify_value(l, r);
		l->sum.bad += out.code < 0;
	}
	return l->each ? l->each(l->arg, &out) : 0;
}

static void summarize(struct inspection *l)
{
	struct stat st;

	l->sum.version = 1;
	l->sum.entries = l->s->stats.entries;
	l->sum.value_bytes = l->s->stats.value_bytes;
	l->sum.lost = l->s->stats.lost;
	l->sum.log_bytes = l->d->log.end;
	l->sum.log_live = l->d->log_live;
	l->sum.data_bytes = fstat(l->d->data_fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

static int inspect_dir(struct inspection *l, const char *dir, struct penstock_err *err)
{
	struct store_walk w = {.from = STORE_LOG_HEAD, .each = inspect_record, .arg = l};
	int r = store_dir_open_readonly(l->d, l->s, dir, err);

	if (r == 0)
		r = store_journal_load(l->d, err);
	if (r < 0)
		return r;
	store_journal_drop_spaceless(l->s);
	summarize(l);
	if (!l->each && !(l->flags & PENSTOCK_STORE_VERIFY))
		return 0;
	w.file = l->d->log.file;
	w.seed = l->d->log.head.seed;
	w.to = l->d->log.end;
	return store_journal_walk(&w, err);
}

static struct penstock_store *store_for_inspection(struct penstock_err *err)
{
	struct penstock_store *s = calloc(1, sizeof(*s));

	if (s)
		s->dirs = calloc(1, sizeof(*s->dirs));
	if (!s || !s->dirs) {
		free(s);
		penstock_fail(err, -ENOMEM, "out of memory");
		return NULL;
	}
	s->nr_dirs = 1;
	s->dirs[0].dir_fd = s->dirs[0].head_fd = s->dirs[0].data_fd = -1;
	if (store_init(s) < 0) {
		penstock_fail(err, -ENOMEM, "out of memory");
	} else if (penstock_open(&s->io, NULL, err) == 0) {
		return s;
	}
	store_fini(s);
	return NULL;
}

int penstock_store_inspect(const char *dir, unsigned flags,
			   int (*each)(void *arg, const struct penstock_store_entry *entry),
			   void *arg, struct penstock_store_summary *sum, struct penstock_err *err)
{
	struct penstock_err local = {0, ""};
	struct inspection l = {.flags = flags, .each = each, .arg = arg};
	CLEANUP_FREE void *buf = NULL;
	int r;

	err = err ? err : &local;
	if (flags & ~PENSTOCK_STORE_VERIFY)
		return penstock_fail(err, -EINVAL, "flags: 0x%x is not known", flags);
	buf = aligned_alloc(STORE_UNIT, READ_BYTES);
	l.s = buf ? store_for_inspection(err) : NULL;
	if (!l.s)
		return err->code ? err->code : penstock_fail(err, -ENOMEM, "out of memory");
	l.d = l.s->dirs;
	l.buf = buf;
	r = inspect_dir(&l, dir, err);
	if (r >= 0 && sum) {
		uint32_t size = sum->size;

		l.sum.size = size;
		memset(sum, 0, size);
		memcpy(sum, &l.sum, min_u64(size, sizeof(l.sum)));
	}
	store_fini(l.s);
	return r;
}

int penstock_store_drop(const char *dir, struct penstock_err *err)
{
	static const char *const names[] = {STORE_NEW_NAME, STORE_LOG_NAME, STORE_DATA_NAME,
					    STORE_HEAD_NAME};
	CLEANUP_CLOSE int fd = -1;
	CLEANUP_CLOSE int head = -1;
	struct store_head h;
	int r = store_head_open(&fd, &head, &h, dir, err);

	for (unsigned i = 0; i < ARRAY_SIZE(names) && r == 0; i++)
		if (unlinkat(fd, names[i], 0) < 0 && errno != ENOENT)
			r = penstock_fail(err, -errno, "%s/%s: %s", dir, names[i], strerror(errno));
	if (r == 0 && rmdir(dir) < 0 && errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY)
		r = penstock_fail(err, -errno, "%s: %s", dir, strerror(errno));
	return r;
}
