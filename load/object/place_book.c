/* SPDX-License-Identifier: Apache-2.0 */
#include "load/object/place_book.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/place.h"

#define BOOK_TITLE "sluice-objects 1 "
#define BOOK_KEPT  "\n!kept\n"
#define BOOK_USED  "\n!used\n" /* the last line may have no end */

static struct book_entry **bucket_of(const struct book *b, const char *name)
{
	return &b->buckets[content_id(name, strlen(name)) & (b->nr_buckets - 1)];
}

static int grow(struct book *b)
{
	struct book old = *b;
	struct book_entry *e, *next;

	b->nr_buckets = old.nr_buckets ? 2 * old.nr_buckets : 1024;
	b->buckets = calloc(b->nr_buckets, sizeof(struct book_entry *));
	if (!b->buckets) {
		*b = old;
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < old.nr_buckets; i++)
		for (e = old.buckets[i]; e; e = next) {
			next = e->next;
			e->next = *bucket_of(b, e->name);
			*bucket_of(b, e->name) = e;
		}
	free(old.buckets);
	return 0;
}

static struct book_entry *look_up(const struct book *b, const char *name)
{
	struct book_entry *e;

	for (e = b->nr_buckets ? *bucket_of(b, name) : NULL; e; e = e->next)
		if (!strcmp(e->name, name))
			break;
	return e;
}

static struct book_entry *add(struct book *b, const char *name)
{
	struct book_entry *e;

	if (b->nr >= b->nr_buckets && grow(b) < 0)
		return NULL;
	e = calloc(1, sizeof(*e) + strlen(name) + 1);
	if (!e)
		return NULL;
	strcpy(e->name, name);
	e->next = *bucket_of(b, name);
	*bucket_of(b, name) = e;
	b->nr++;
	return e;
}

static int set_key(struct book_entry *e, const char *text)
{
	int64_t n;

	free(e->key);
	e->key = malloc(strlen(text) + 1);
	if (!e->key)
		return -ENOMEM;
	n = place_unescape(e->key, text, strlen(text));
	if (n < 0)
		return -EINVAL;
	e->key_len = (uint32_t)n;
	return 0;
}

static void set_complete(struct book_entry *e, const char *text)
{
	struct book_file f = {0};

	e->complete = !text || sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
				      &f.bytes, &f.inode, &f.birth_ns, &f.mtime_ns) == 4;
	e->file = e->complete ? f : (struct book_file){0};
}

static uint64_t time_ns(struct statx_timestamp t)
{
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

int book_look(struct book_file *f, int dir, const char *name)
{
	struct statx st;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
		return -errno;
	*f = (struct book_file){
		.bytes = st.stx_size,
		.inode = st.stx_ino,
		.birth_ns = st.stx_mask & STATX_BTIME ? time_ns(st.stx_btime) : 0,
		.mtime_ns = time_ns(st.stx_mtime),
		.allocated = st.stx_blocks * 512,
		.regular = S_ISREG(st.stx_mode),
		.folder = S_ISDIR(st.stx_mode),
	};
	return 0;
}

/* Numbers are given again to new files, but not with the same birth. */
bool book_same_file(const struct book_entry *e, const struct book_file *now)
{
	const struct book_file *was = &e->file;

	return !e->complete || !was->inode ||
	       (now->inode == was->inode && now->birth_ns == was->birth_ns) ||
	       (now->bytes == was->bytes && now->mtime_ns == was->mtime_ns);
}

/* A name in the folder or in one of its sub-folders, and nowhere else. */
static bool stays_inside(const char *name)
{
	const char *slash = strchr(name, '/');

	if (slash && (slash != name + 3 || strspn(name, "0123456789abcdef") != 3))
		return false;
	name = slash ? slash + 1 : name;
	return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* One line without its end.  One that could not be written to its end is as good as none. */
static int take_line(struct book *b, char *line)
{
	char *rest = strchr(line, ' '), what = line[0];
	struct book_entry *e;

	if (rest)
		*rest++ = '\0';
	if (!line[0] || !line[1] || what == '!')
		return 0;
	if (!strchr("+=-", what) || !stays_inside(line + 1))
		return -EINVAL;
	e = look_up(b, line + 1);
	if (!e)
		e = add(b, line + 1);
	if (!e)
		return -ENOMEM;
	if (what == '=') {
		set_complete(e, rest);
		return 0;
	}
	e->count += what == '+' ? 1 : -1;
	if (e->count <= 0)
		e->complete = false;
	return rest ? set_key(e, rest) : 0;
}

static bool take_title(struct book *b, const char *line)
{
	const char *made = strstr(line, " made=");

	if (strncmp(line, BOOK_TITLE, strlen(BOOK_TITLE)) != 0)
		return false;
	b->made = made ? (unsigned)strtoul(made + strlen(" made="), NULL, 10) : 0;
	line += strlen(BOOK_TITLE);
	b->npy = !strncmp(line, "npy ", 4);
	b->slab = !strncmp(line, "slab ", 5);
	b->hashed = strstr(line, " hashed ") != NULL;
	return true;
}

int book_load(struct book *b, int fd, const char *path, struct sluice_err *err)
{
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;
	FILE *f = fdopen(dup(fd), "r");
	int r = 0;

	*b = (struct book){0};
	if (!f)
		return sluice_fail(err, -errno, "%s/%s: %s", path, BOOK_NAME, strerror(errno));
	rewind(f);
	n = getline(&line, &room, f);
	if (n <= 0 || !take_title(b, line))
		r = sluice_fail(err, -EEXIST, "%s/%s: was not made by sluice; remove it", path,
				BOOK_NAME);
	for (uint64_t nr = 2; r == 0 && (n = getline(&line, &room, f)) > 0; nr++) {
		if (line[n - 1] != '\n')
			break; /* the program was killed while writing it: nothing was made */
		line[n - 1] = '\0';
		r = take_line(b, line);
		if (r < 0)
			sluice_fail(err, r, "%s/%s: line %" PRIu64 ": %s", path, BOOK_NAME, nr,
				    r == -ENOMEM ? "out of memory" : "makes no sense");
	}
	fclose(f);
	if (r < 0)
		book_free(b);
	return r;
}

void book_free(struct book *b)
{
	struct book_entry *e, *next;

	for (uint64_t i = 0; i < b->nr_buckets; i++)
		for (e = b->buckets[i]; e; e = next) {
			next = e->next;
			free(e->key);
			free(e);
		}
	free(b->buckets);
	*b = (struct book){0};
}

struct book_entry *book_find(const struct book *b, const char *name)
{
	struct book_entry *e = look_up(b, name);

	return e && e->count > 0 ? e : NULL;
}

struct book_entry *book_next(const struct book *b, uint64_t *pos, struct book_entry *e)
{
	e = e ? e->next : NULL;
	for (;;) {
		for (; e; e = e->next)
			if (e->count > 0)
				return e;
		if (*pos >= b->nr_buckets)
			return NULL;
		e = b->buckets[(*pos)++];
	}
}

bool book_is_kept(const char *folder)
{
	char path[PLACE_PATH], end[sizeof(BOOK_KEPT) - 1];
	off_t at;

	snprintf(path, sizeof(path), "%s/%s", folder, BOOK_NAME);
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	at = fd < 0 ? -1 : lseek(fd, -(off_t)sizeof(end), SEEK_END);
	return at > 0 && pread(fd, end, sizeof(end), at) == sizeof(end) &&
	       !memcmp(end, BOOK_KEPT, sizeof(end));
}

int book_begin(int fd, const struct place_opts *o, unsigned made)
{
	char line[128];
	int n = snprintf(line, sizeof(line), BOOK_TITLE "%s %s owner=%016" PRIx64 " made=%u\n",
			 o->kind == PLACE_SLAB    ? "slab"
			 : o->layout == PLACE_NPY ? "npy"
						  : "raw",
			 o->hashed ? "hashed" : "flat", o->owner, made);

	if (ftruncate(fd, 0) < 0)
		return -errno;
	return write(fd, line, (size_t)n) == n ? 0 : errno ? -errno : -EIO;
}

/* ------------------------------------------------------------------ writing */

/* One write(2) each, so that lines of several threads do not mix. */
static int append(int fd, const char *line, size_t len)
{
	ssize_t done = write(fd, line, len);

	if (done == (ssize_t)len)
		return 0;
	if (done < 0)
		return -errno;
	done = write(fd, "\n", 1); /* part of a line: the next one needs one of its own */
	return -ENOSPC;
}

int dir_note(struct place_dir *d, char what, const char *name, const char *key, uint32_t len)
{
	bool cut = key && place_name_cut(key, len);
	CLEANUP_FREE char *big = cut ? malloc(PLACE_NAME + 16 + 3 * (uint64_t)len) : NULL;
	char small[PLACE_NAME + 16], *line = cut ? big : small;
	int n;

	if (!line)
		return -ENOMEM;
	n = sprintf(line, "%c%s", what, name);
	if (cut) {
		line[n++] = ' ';
		n += (int)place_escape(line + n, key, len);
	}
	line[n++] = '\n';
	return append(d->journal, line, (size_t)n);
}

int dir_note_complete(struct place_dir *d, const char *name)
{
	char line[PLACE_NAME + 100];
	struct book_file f;
	int n, r = book_look(&f, d->fd, name);

	if (r < 0)
		return r;
	n = snprintf(line, sizeof(line), "=%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		     name, f.bytes, f.inode, f.birth_ns, f.mtime_ns);
	return append(d->journal, line, (size_t)n);
}

int book_note_gone(int fd, const struct book_entry *e)
{
	char line[PLACE_NAME + 16];
	int r = 0, n = snprintf(line, sizeof(line), "\n-%s\n", e->name);

	for (int32_t i = 0; r == 0 && i < e->count; i++)
		r = append(fd, line, (size_t)n);
	return r;
}

int book_note_all(int fd, bool kept)
{
	const char *line = kept ? BOOK_KEPT : BOOK_USED;

	return append(fd, line, strlen(line));
}
