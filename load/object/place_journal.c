/* SPDX-License-Identifier: Apache-2.0 */
/* The marker of a folder: its lines, read and written; and which file is which. */
#include "load/object/place_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/openat_safe.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/place.h"

#define JOURNAL_TITLE "penstock-objects 3 "
#define JOURNAL_KEPT  "\n!kept\n"
#define JOURNAL_USED  "\n!used\n"
#define JOURNAL_VOID  " !"                   /* behind part of a line */
#define JOURNAL_TEMP  "~new~%016" PRIx64 "~" /* no key gives such a name */

/* ---------------------------------------------------------------- the table */

static struct journal_entry *entry_of(struct penstock_table_node *n)
{
	return n ? container_of(n, struct journal_entry, node) : NULL;
}

struct journal_entry *journal_find(const struct journal *b, const char *name)
{
	struct penstock_table_node *n =
		penstock_table_find(&b->table, content_id(name, strlen(name)));

	while (n && strcmp(entry_of(n)->name, name) != 0)
		n = penstock_table_find_next(n);
	return entry_of(n);
}

static void entry_free(struct journal_entry *e)
{
	free(e->key);
	free(e);
}

struct journal_entry *journal_add(struct journal *b, const char *name)
{
	struct journal_entry *e = calloc(1, sizeof(*e) + strlen(name) + 1);

	if (!e)
		return NULL;
	strcpy(e->name, name);
	if (penstock_table_insert(&b->table, &e->node, content_id(name, strlen(name))) == 0)
		return e;
	entry_free(e);
	return NULL;
}

void journal_drop(struct journal *b, struct journal_entry *e)
{
	penstock_table_remove(&b->table, &e->node);
	entry_free(e);
}

struct journal_entry *journal_next(const struct journal *b, uint64_t *pos, struct journal_entry *e)
{
	return entry_of(penstock_table_next(&b->table, pos, e ? &e->node : NULL));
}

void journal_free(struct journal *b)
{
	struct journal_entry *e, *next;
	uint64_t pos = 0;

	for (e = journal_next(b, &pos, NULL); e; e = next) {
		next = journal_next(b, &pos, e);
		entry_free(e);
	}
	penstock_table_fini(&b->table);
	*b = (struct journal){0};
}

/* ------------------------------------------------------------ which file it is */

bool file_is_private(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink <= 1 &&
	       !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static uint64_t time_ns(struct statx_timestamp t)
{
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

int file_stat_at(struct file_stat *s, int dir, const char *name)
{
	const char *last;
	int parent = penstock_openat_parent(dir, name, &last), r = 0;
	struct statx st;

	if (parent < 0)
		return parent;
	if (statx(parent, last, AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH),
		  STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
		r = -errno;
	penstock_openat_parent_close(dir, parent);
	if (r < 0)
		return r;
	*s = (struct file_stat){
		.file = {.bytes = st.stx_size,
			 .inode = st.stx_ino,
			 .birth_ns = st.stx_mask & STATX_BTIME ? time_ns(st.stx_btime) : 0,
			 .mtime_ns = time_ns(st.stx_mtime)},
		.allocated = st.stx_blocks * 512,
		.links = st.stx_nlink,
		.regular = S_ISREG(st.stx_mode),
		.folder = S_ISDIR(st.stx_mode),
	};
	return 0;
}

int unlink_with_members(int dir, const char *name)
{
	const char *last;
	int parent = penstock_openat_parent(dir, name, &last), r;

	if (parent < 0)
		return parent;
	r = penstock_stripe_unlink(parent, last);
	penstock_openat_parent_close(dir, parent);
	return r;
}

uint64_t striped_file_bytes(const char *folder, const char *name, const struct file_stat *seen)
{
	char path[PLACE_PATH];
	int64_t bytes = -ENAMETOOLONG;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
		bytes = penstock_stripe_bytes(path, (int64_t)seen->file.bytes);
	return bytes < 0 ? 0 : (uint64_t)bytes;
}

/* Numbers are given again to new files, but not with the same birth. */
bool journal_entry_matches(const struct journal_entry *e, const struct file_stat *now)
{
	const struct file_identity *was = &e->file, *is = &now->file;

	if (!now->regular || e->state == JOURNAL_BEGUN)
		return false;
	return (is->inode == was->inode && is->birth_ns == was->birth_ns) ||
	       (e->state == JOURNAL_COMPLETE && is->bytes == was->bytes &&
		is->mtime_ns == was->mtime_ns);
}

void journal_temp_name(char out[], size_t size, const struct journal *b, const char *name,
		       unsigned nr)
{
	const char *slash = strrchr(name, '/');

	snprintf(out, size, "%.*s" JOURNAL_TEMP "%u", slash ? (int)(slash - name) + 1 : 0, name,
		 b->owner, nr);
}

bool journal_is_temp_name(const struct journal *b, const char *name)
{
	const char *slash = strrchr(name, '/');
	char start[32];
	int n = snprintf(start, sizeof(start), JOURNAL_TEMP, b->owner);

	return b->owner && !strncmp(slash ? slash + 1 : name, start, (size_t)n);
}

/* ------------------------------------------------------------------ reading */

/* A name in the folder or in one of its sub-folders, and nowhere else. */
static bool stays_inside(const char *name)
{
	const char *slash = strchr(name, '/');

	if (slash && (slash != name + 3 || strspn(name, "0123456789abcdef") != 3))
		return false;
	name = slash ? slash + 1 : name;
	return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* So many numbers, and nothing else. */
static bool take_numbers(const char *text, uint64_t *to[], unsigned nr)
{
	char *end;

	for (unsigned i = 0; i < nr; i++, text = end) {
		if (i ? *text++ != ' ' : !text)
			return false;
		if (*text < '0' || *text > '9')
			return false;
		errno = 0;
		*to[i] = strtoull(text, &end, 10);
		if (errno)
			return false;
	}
	return !*text;
}

static int take_begun(struct journal *b, const char *name, const char *key)
{
	struct journal_entry *e = journal_find(b, name);
	int64_t n;

	if (e)
		journal_drop(b, e);
	e = journal_add(b, name);
	if (!e)
		return -ENOMEM;
	if (!key)
		return 0;
	e->key = malloc(strlen(key) + 1);
	if (!e->key)
		return -ENOMEM;
	n = place_unescape(e->key, key, strlen(key));
	e->key_len = (uint32_t)n;
	return n < 0 ? -EINVAL : 0;
}

/* What is left of a line that could not be written to its end, see journal_append(). */
static bool is_void(const char *line)
{
	size_t n = strlen(line), m = strlen(JOURNAL_VOID);

	return !n || (n >= m && !strcmp(line + n - m, JOURNAL_VOID));
}

/* One line without its end. */
static int take_line(struct journal *b, char *line)
{
	char *rest = strchr(line, ' '), what = line[0];
	struct journal_entry *e;
	struct file_identity f = {0};
	bool good;

	if (is_void(line) || what == '!')
		return 0;
	if (rest)
		*rest++ = '\0';
	if (!strchr("+@=-", what) || !stays_inside(line + 1))
		return -EINVAL;
	if (what == '+')
		return take_begun(b, line + 1, rest);
	e = journal_find(b, line + 1);
	if (what == '-') {
		if (e)
			journal_drop(b, e);
		return 0;
	}
	good = what == '@'
		       ? take_numbers(rest, (uint64_t *[]){&f.inode, &f.birth_ns}, 2)
		       : take_numbers(rest,
				      (uint64_t *[]){&f.bytes, &f.inode, &f.birth_ns, &f.mtime_ns},
				      4);
	if (!good || !e)
		return 0; /* part of a line: nothing is claimed by it */
	e->state = what == '@' ? JOURNAL_MADE : JOURNAL_COMPLETE;
	e->file = f;
	return 0;
}

static bool take_title(struct journal *b, const char *line)
{
	const char *made = strstr(line, " made="), *owner = strstr(line, " owner=");

	if (strncmp(line, JOURNAL_TITLE, strlen(JOURNAL_TITLE)) != 0)
		return false;
	b->made = made ? (unsigned)strtoul(made + strlen(" made="), NULL, 10) : 0;
	b->owner = owner ? strtoull(owner + strlen(" owner="), NULL, 16) : 0;
	line += strlen(JOURNAL_TITLE);
	b->npy = !strncmp(line, "npy ", 4);
	b->slab = !strncmp(line, "slab ", 5);
	b->hashed = strstr(line, " hashed ") != NULL;
	return true;
}

/* What is behind the last line end was not written to its end, and nothing was made of it. */
static int take_lines(struct journal *b, FILE *f, const char *path, struct penstock_err *err)
{
	CLEANUP_FREE char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	int r = 0;

	for (uint64_t nr = 1; r == 0 && (n = getline(&line, &capacity, f)) > 0; nr++) {
		if (line[n - 1] == '\n') {
			line[n - 1] = '\0';
			b->bytes += (uint64_t)n;
		} else if (nr > 1) {
			break;
		}
		r = nr > 1 ? take_line(b, line) : take_title(b, line) ? 0 : -EEXIST;
		if (r == -EEXIST)
			penstock_fail(err, r,
				      "%s/%s: was not made by this version of penstock; "
				      "remove it",
				      path, JOURNAL_NAME);
		else if (r < 0)
			penstock_fail(err, r, "%s/%s: line %" PRIu64 ": %s", path, JOURNAL_NAME, nr,
				      r == -ENOMEM ? "out of memory" : "makes no sense");
	}
	return r;
}

int journal_load(struct journal *b, int fd, const char *path, struct penstock_err *err)
{
	FILE *f = fdopen(dup(fd), "r");
	int r;

	*b = (struct journal){0};
	if (!f)
		return penstock_fail(err, -errno, "%s/%s: %s", path, JOURNAL_NAME, strerror(errno));
	rewind(f);
	r = take_lines(b, f, path, err);
	fclose(f);
	if (r < 0)
		journal_free(b);
	return r;
}

bool journal_is_kept(const char *folder)
{
	char path[PLACE_PATH], end[sizeof(JOURNAL_KEPT) - 1];
	struct stat st;
	off_t at;

	snprintf(path, sizeof(path), "%s/%s", folder, JOURNAL_NAME);
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !file_is_private(&st))
		return false;
	at = st.st_size - (off_t)sizeof(end);
	return at > 0 && pread(fd, end, sizeof(end), at) == sizeof(end) &&
	       !memcmp(end, JOURNAL_KEPT, sizeof(end));
}

/* ------------------------------------------------------------------ writing */

/* One write(2) each, so that lines of several threads do not mix. */
static int journal_append(int fd, const char *line, size_t len)
{
	ssize_t done = write(fd, line, len);

	if (done == (ssize_t)len)
		return 0;
	if (done < 0)
		return -errno;
	done = write(fd, JOURNAL_VOID "\n", strlen(JOURNAL_VOID) + 1);
	return -ENOSPC;
}

int journal_begin(struct journal *b, int fd, const struct place_opts *o)
{
	char line[128];
	int n;

	if (getrandom(&b->owner, sizeof(b->owner), 0) != sizeof(b->owner))
		return -errno;
	n = snprintf(line, sizeof(line), JOURNAL_TITLE "%s %s owner=%016" PRIx64 " made=%u\n",
		     o->kind == PLACE_SLAB    ? "slab"
		     : o->layout == PLACE_NPY ? "npy"
					      : "raw",
		     o->hashed ? "hashed" : "flat", b->owner, b->made);
	if (ftruncate(fd, 0) < 0)
		return -errno;
	return journal_append(fd, line, (size_t)n);
}

/* Name and number. */
static int write_made(int fd, const struct journal_entry *e)
{
	CLEANUP_FREE char *line = malloc(2 * strlen(e->name) + 3 * (uint64_t)e->key_len + 64);
	int n;

	if (!line)
		return -ENOMEM;
	n = sprintf(line, "+%s", e->name);
	if (e->key) {
		line[n++] = ' ';
		n += (int)place_escape(line + n, e->key, e->key_len);
	}
	n += sprintf(line + n, "\n@%s %" PRIu64 " %" PRIu64 "\n", e->name, e->file.inode,
		     e->file.birth_ns);
	return journal_append(fd, line, (size_t)n);
}

int journal_write(int fd, const struct journal_entry *e)
{
	const struct file_identity *f = &e->file;
	char line[PLACE_NAME + 100];
	int n;

	if (e->state == JOURNAL_MADE)
		return write_made(fd, e);
	n = snprintf(line, sizeof(line), "=%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		     e->name, f->bytes, f->inode, f->birth_ns, f->mtime_ns);
	return journal_append(fd, line, (size_t)n);
}

int journal_write_gone(int fd, const char *name)
{
	char line[PLACE_NAME + 16];

	return journal_append(fd, line, (size_t)snprintf(line, sizeof(line), "-%s\n", name));
}

int journal_write_all(int fd, bool kept)
{
	const char *line = kept ? JOURNAL_KEPT : JOURNAL_USED;

	return journal_append(fd, line, strlen(line));
}
