/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power fails while checkpoints are saved.
 *
 *	ckpt_power BADFS
 *
 * badfs writes down what it is asked to do.  Afterwards, for every flush (fsync of a file or of
 * the folder), what may be on the drive if the power fails just before or just after it is built
 * in a folder of its own: of names, those that were flushed and any of the later changes; of
 * contents, what was flushed, or that and all the rest, or the new length with zeros.
 * In each the checkpoint must be the last that was said to be saved or the one that was about to
 * be, whole, and with checksums that agree; and the next save leaves nothing else behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/util.h"
#include "tests/common/mounts.h"
#include "tests/common/t.h"
#include "tests/fault/badlog.h"
#include "tests/fault/ckpt_kit.h"

enum { FILES = 256, CHANGES = 64, SAVES = 7 };

struct content {
	char *data;
	uint64_t len, capacity;
};

struct name {
	char name[64];
	uint64_t id; /* 0: free */
};

/* What the drive has. */
static struct content written[FILES], flushed[FILES]; /* by id */
static struct name names[FILES];                      /* as of the last flush */
static struct badlog changes[CHANGES];                /* of names since */
static unsigned nr_changes;
static int64_t saved; /* the last that was said to be */

static struct penstock_io *io;
static struct penstock_err err;
static unsigned long nr_states;

/* ------------------------------------------------------------------------ contents */

static void content_resize(struct content *c, uint64_t len)
{
	if (len > c->capacity) {
		c->data = realloc(c->data, len);
		T_OK(c->data);
		c->capacity = len;
	}
	if (len > c->len)
		memset(c->data + c->len, 0, len - c->len);
	c->len = len;
}

static void content_write(struct content *c, uint64_t off, const char *data, uint64_t len)
{
	if (off + len > c->len)
		content_resize(c, off + len);
	memcpy(c->data + off, data, len);
}

static void content_copy(struct content *to, const struct content *from)
{
	content_resize(to, from->len);
	if (from->len)
		memcpy(to->data, from->data, from->len);
}

/* --------------------------------------------------------------------------- names */

static struct name *name_find(struct name *v, const char *name)
{
	for (unsigned i = 0; i < FILES; i++)
		if (v[i].id && !strcmp(v[i].name, name))
			return &v[i];
	return NULL;
}

static void name_set(struct name *v, const char *name, uint64_t id)
{
	struct name *at = name_find(v, name);

	for (unsigned i = 0; !at && i < FILES; i++)
		if (!v[i].id)
			at = &v[i];
	T_OK(at);
	snprintf(at->name, sizeof(at->name), "%s", name);
	at->id = id;
}

/* A change of which those before it may be missing. */
static void name_change(struct name *v, const struct badlog *rec)
{
	struct name *old = name_find(v, rec->name);

	if (rec->op == BADLOG_CREATE)
		name_set(v, rec->name, rec->id);
	else if (rec->op == BADLOG_RENAME)
		name_set(v, rec->to, rec->id);
	if (rec->op != BADLOG_CREATE && old && old->id == rec->id)
		old->id = 0;
}

/* -------------------------------------------------------------------------- states */

enum kept { KEPT_FLUSHED, KEPT_ALL, KEPT_LENGTH, KEPT_WAYS };

static void build_file(const struct name *n, enum kept kept)
{
	const struct content *f = &flushed[n->id], *w = &written[n->id];
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s%s", t_path("state"), n->name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	T_OK(fd >= 0);
	if (kept == KEPT_ALL)
		f = w;
	T_EQ(pwrite(fd, f->data ? f->data : "", f->len, 0), f->len);
	if (kept == KEPT_LENGTH)
		T_OK(ftruncate(fd, (off_t)w->len) == 0);
	close(fd);
}

static void clear_state(void)
{
	DIR *d = opendir(t_path("state"));
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(t_path("state"));
}

static void check_state(const struct name *v, enum kept kept, unsigned long at)
{
	int64_t there;

	clear_state();
	T_OK(mkdir(t_path("state"), 0755) == 0);
	for (unsigned i = 0; i < FILES; i++)
		if (v[i].id && strncmp(v[i].name, "/mark", 5) != 0)
			build_file(&v[i], kept);
	there = ckpt_load(io, t_path("state/f"));
	if (there != saved && there != saved + 1 && (saved || there != -ENOENT))
		T_FAIL("record %lu: %lld is there, %lld was saved", at, (long long)there,
		       (long long)saved);
	if (nr_states++ % 4 == 0) {
		T_ERR(ckpt_save(io, t_path("state/f"), 99, PENSTOCK_WRITER_NO_SYNC, &err), 0, &err);
		T_EQ(ckpt_load(io, t_path("state/f")), 99);
		ckpt_check_left(t_path("state"), "f,f.crc");
	}
}

/* Any of the changes of names that were not flushed, with any of the contents. */
static void check_all_states(unsigned long at)
{
	T_OK(nr_changes < 12);
	for (unsigned mask = 0; mask < 1u << nr_changes; mask++) {
		struct name v[FILES];

		memcpy(v, names, sizeof(v));
		for (unsigned i = 0; i < nr_changes; i++)
			if (mask >> i & 1)
				name_change(v, &changes[i]);
		for (enum kept kept = 0; kept < KEPT_WAYS; kept++)
			check_state(v, kept, at);
	}
}

/* ---------------------------------------------------------------------------- log */

static void flush(const struct badlog *rec)
{
	if (rec->op == BADLOG_FSYNC) {
		content_copy(&flushed[rec->id], &written[rec->id]);
		return;
	}
	for (unsigned i = 0; i < nr_changes; i++)
		name_change(names, &changes[i]);
	nr_changes = 0;
}

static void play(const struct badlog *rec, const char *data, unsigned long at)
{
	T_OK(rec->id < FILES);
	switch (rec->op) {
	case BADLOG_WRITE:
		content_write(&written[rec->id], rec->offset, data, rec->len);
		break;
	case BADLOG_TRUNCATE:
		content_resize(&written[rec->id], rec->len);
		break;
	case BADLOG_FSYNC:
	case BADLOG_FSYNCDIR:
		check_all_states(at);
		flush(rec);
		check_all_states(at);
		break;
	default:
		if (!strncmp(rec->name, "/mark", 5)) {
			saved = atoll(rec->name + 5);
			check_all_states(at); /* said to be saved: it is */
			break;
		}
		T_OK(nr_changes < CHANGES);
		changes[nr_changes++] = *rec;
	}
}

static void play_log(const char *path)
{
	FILE *f = fopen(path, "re");
	struct badlog rec;
	unsigned long at = 0;

	T_OK(f);
	for (; fread(&rec, sizeof(rec), 1, f) == 1; at++) {
		bool has = rec.op == BADLOG_WRITE;
		CLEANUP_FREE char *data = has ? malloc(rec.len) : NULL;

		T_OK(!has || (data && fread(data, rec.len, 1, f) == 1));
		play(&rec, data, at);
	}
	fclose(f);
	t_note("%lu records, %lu states", at, nr_states);
}

static void setup(void)
{
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
}

static void teardown(void)
{
	T_EQ(penstock_close(io, NULL), 0);
}

static void power_that_fails_leaves_the_old_file_or_the_new_one(void)
{
	for (uint64_t nr = 1; nr <= SAVES; nr++) {
		char mark[32];
		int fd;

		/* once without checksums: those of the file before must not stay for it */
		T_ERR(ckpt_save(io, t_path("bad/f"), nr, nr == 5 ? PENSTOCK_WRITER_NO_CRC : 0,
				&err),
		      0, &err);
		snprintf(mark, sizeof(mark), "bad/mark%d", (int)nr);
		fd = open(t_path(mark), O_WRONLY | O_CREAT, 0600);
		T_OK(fd >= 0 && close(fd) == 0);
	}
	play_log(t_path("log"));
	T_EQ(saved, SAVES);
	T_OK(nr_states > 100);
	clear_state();
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(power_that_fails_leaves_the_old_file_or_the_new_one),
	};
	static const struct t_group groups[] = {
		{"ckpt_power", setup, teardown, cases, T_COUNT(cases)}};

	if (argc < 2) {
		fprintf(stderr, "usage: ckpt_power BADFS\n");
		return 2;
	}
	mounts_need();
	setenv("BADFS_LOG", t_path("log"), 1);
	mounts_badfs("bad", argv[1], true);
	return t_run(groups, 1, NULL);
}
