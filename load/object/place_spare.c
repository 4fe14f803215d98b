/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of deleted objects, kept under another name so that new objects are written over them:
 * the file system then neither frees nor finds nor zeroes space, and the storage is what is
 * measured.  Spare files are in the journal of their folder like all others, never complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "load/object/place.h"

enum {
	SPARES = 256,
	MISFIT = 2, /* a file so many times too large is left for others */
	SPARE_NAME = 32,
};

struct spares {
	pthread_mutex_t lock;
	pthread_cond_t trimmed;
	bool off; /* they cannot be had here */
	uint32_t next;
	uint64_t bytes;
	uint64_t leaving; /* of files that some thread is about to remove or to make shorter */
	unsigned nr;
	struct spare {
		uint64_t bytes;
		uint32_t number;
		uint16_t dir;
	} v[SPARES]; /* the oldest first */
};

/* No key gives such a name. */
static void spare_name(char out[SPARE_NAME], const struct spare *s)
{
	snprintf(out, SPARE_NAME, "~spare~%u", s->number);
}

int spares_open(struct place *p)
{
	if (!p->o.recycle)
		return 0;
	p->spares = calloc(1, sizeof(*p->spares));
	if (!p->spares)
		return -ENOMEM;
	pthread_mutex_init(&p->spares->lock, NULL);
	pthread_cond_init(&p->spares->trimmed, NULL);
	return 0;
}

void spares_close(struct place *p)
{
	if (!p->spares)
		return;
	spares_trim(p, 0);
	pthread_cond_destroy(&p->spares->trimmed);
	pthread_mutex_destroy(&p->spares->lock);
	free(TAKE_PTR(p->spares));
}

/* Take number @i out, of which @leaving bytes will go; the lock is held. */
static struct spare spare_take_out(struct spares *s, unsigned i, uint64_t leaving)
{
	struct spare taken = s->v[i];

	s->bytes -= taken.bytes;
	s->leaving += leaving;
	s->nr--;
	for (; i < s->nr; i++)
		s->v[i] = s->v[i + 1];
	return taken;
}

/* They have gone. */
static void spares_end_trim(struct spares *s, uint64_t leaving)
{
	if (!leaving)
		return;
	pthread_mutex_lock(&s->lock);
	s->leaving -= leaving;
	pthread_cond_broadcast(&s->trimmed);
	pthread_mutex_unlock(&s->lock);
}

static void spare_discard(struct place *p, const struct spare *s)
{
	char name[SPARE_NAME];

	spare_name(name, s);
	dir_file_remove(&p->dirs[s->dir], name);
}

/* As the newest of them. */
static void spare_put(struct place *p, const struct spare *new)
{
	struct spares *s = p->spares;
	bool has_slot;

	pthread_mutex_lock(&s->lock);
	has_slot = !s->off && s->nr < SPARES;
	if (has_slot) {
		s->v[s->nr++] = *new;
		s->bytes += new->bytes;
	}
	pthread_mutex_unlock(&s->lock);
	if (!has_slot)
		spare_discard(p, new);
}

/* The oldest one as long as there is too much; then wait for those that others remove. */
static bool next_to_go(struct spares *s, uint64_t bytes, struct spare *ret)
{
	bool found;

	pthread_mutex_lock(&s->lock);
	while (!s->nr && s->leaving > bytes)
		pthread_cond_wait(&s->trimmed, &s->lock);
	found = s->nr && s->bytes + s->leaving > bytes;
	if (found)
		*ret = spare_take_out(s, 0, s->v[0].bytes);
	pthread_mutex_unlock(&s->lock);
	return found;
}

void spares_trim(struct place *p, uint64_t bytes)
{
	struct spare old;

	while (p->spares && next_to_go(p->spares, bytes, &old)) {
		spare_discard(p, &old);
		spares_end_trim(p->spares, old.bytes);
	}
}

/* From now on files are removed and made. */
static void spares_give_up(struct place *p)
{
	pthread_mutex_lock(&p->spares->lock);
	p->spares->off = true;
	pthread_mutex_unlock(&p->spares->lock);
	spares_trim(p, 0);
}

/* Written over is only what has no other name, too. */
bool spare_keep(struct place *p, unsigned dir, const char *name)
{
	struct spares *s = p->spares;
	struct spare new = {.dir = (uint16_t)dir};
	struct place_dir *d = &p->dirs[dir];
	int64_t bytes = s ? dir_file_size(d, name) : 0;
	char to[SPARE_NAME];
	bool has_slot;

	if (bytes <= 0)
		return false;
	new.bytes = (uint64_t)bytes;
	pthread_mutex_lock(&s->lock);
	has_slot = !s->off && s->nr < SPARES;
	new.number = s->next++;
	pthread_mutex_unlock(&s->lock);
	spare_name(to, &new);
	if (!has_slot || dir_file_claim(d, to, NULL, 0) < 0)
		return false;
	if (dir_file_rename(d, name, to) < 0) {
		dir_file_forget(d, to);
		spares_give_up(p);
		return false;
	}
	spare_put(p, &new);
	return true;
}

/* Is @a a better file for @bytes than @b?  The more can be written over the better, then the
 * smaller. */
static bool spare_better(const struct spare *a, const struct spare *b, uint64_t bytes)
{
	uint64_t ours = min_u64(a->bytes, bytes), others = min_u64(b->bytes, bytes);

	return ours != others ? ours > others : a->bytes < b->bytes;
}

/* What is cut off for @bytes. */
static uint64_t spare_excess(const struct spare *s, uint64_t bytes)
{
	return s->bytes - min_u64(s->bytes, bytes);
}

/* @grows: a striped file, which is not made shorter here. */
static bool spare_find(struct spares *s, unsigned dir, uint64_t bytes, bool grows,
		       struct spare *ret)
{
	unsigned best = SPARES;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->nr; i++)
		if (s->v[i].dir == dir && s->v[i].bytes / (grows ? 1 : MISFIT) <= bytes &&
		    (best == SPARES || spare_better(&s->v[i], &s->v[best], bytes)))
			best = i;
	if (best < SPARES)
		*ret = spare_take_out(s, best, spare_excess(&s->v[best], bytes));
	pthread_mutex_unlock(&s->lock);
	return best < SPARES;
}

/* @s as @name, open and no longer than @bytes.  -EEXIST: it stays a spare file; else it is gone. */
static int rename_to(struct place *p, const struct spare *s, const char *name, uint64_t bytes)
{
	struct place_dir *d = &p->dirs[s->dir];
	char from[SPARE_NAME];
	int fd, r;

	spare_name(from, s);
	r = dir_file_rename(d, from, name);
	if (r == -EEXIST)
		spare_put(p, s);
	else if (r < 0)
		spare_discard(p, s);
	if (r < 0)
		return r;
	fd = dir_file_open(d, name, O_RDWR);
	r = fd < 0 ? fd : 0;
	if (r == 0 && s->bytes > bytes && ftruncate(fd, (off_t)bytes) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	dir_file_unlink(d, name);
	return r;
}

int spare_take(struct place *p, unsigned dir, const char *name, uint64_t bytes)
{
	struct spare s;
	int fd;

	if (!p->spares || !spare_find(p->spares, dir, bytes, p->dirs[dir].striped, &s))
		return -ENOENT;
	fd = rename_to(p, &s, name, bytes);
	spares_end_trim(p->spares, spare_excess(&s, bytes));
	if (fd >= 0 || fd == -EEXIST)
		return fd;
	spares_give_up(p);
	return -ENOENT;
}
