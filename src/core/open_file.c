/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: opened by the user and kept, or opened for an operation by path and
 * shared by the operations on that path which are in flight together.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <penstock/probe.h>
#include <penstock/s3.h>

#include "base/err.h"
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "file/blockdev.h"

static unsigned path_bucket(const char *name)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h % PATH_BUCKETS;
}

static void link_file(struct penstock_io *io, struct penstock_file *f)
{
	struct penstock_file **head = &io->files[path_bucket(f->name)];

	f->next = *head;
	*head = f;
	io->nr_by_path += f->by_path;
}

static void unlink_file(struct penstock_io *io, struct penstock_file *f)
{
	struct penstock_file **at = &io->files[path_bucket(f->name)];

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	io->nr_by_path -= f->by_path;
}

static struct penstock_file *new_file(struct penstock_io *io, const char *name,
				      struct penstock_err *err)
{
	struct penstock_file *f = zalloc_lines(sizeof(*f));

	if (f)
		f->name = strdup(name);
	if (!f || !f->name) {
		free(f);
		penstock_fail(err, -ENOMEM, "%s: out of memory", name);
		return NULL;
	}
	f->io = io;
	f->refs = 1;
	return f;
}

static void detach_members(struct penstock_file *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		f->io->engine->detach(f->members[i].attached.handle);
}

/* All members or none. */
static void attach(struct penstock_file *f, struct penstock_err *err)
{
	for (unsigned i = 0; i < f->nr_members; i++) {
		struct file_member *p = &f->members[i];

		if (f->io->engine->attach(p->backing->fd, &p->attached, err) < 0) {
			detach_members(f, i);
			atomic_store(&f->attach, ATTACH_REFUSED);
			return;
		}
		/* On a disk that a hypervisor makes up nothing bypasses the host's memory. */
		p->attached.direct = p->attached.direct && !p->device.virtual;
	}
	atomic_store(&f->attach, ATTACH_DONE);
}

static void note_refused(struct penstock_file *f, const struct penstock_err *err)
{
	char why[700], udev[224] = "", *cure;

	/* That has one cause; the cure, which is long, is told by `penstock info'. */
	if (strstr(err->msg, "(5027)"))
		penstock_blockdev_udev(udev, sizeof(udev), major(f->backing.dev),
				       minor(f->backing.dev), "the file system");
	cure = strstr(udev, ": cuFile");
	if (cure)
		*cure = '\0';
	snprintf(why, sizeof(why), "%s%s%s", err->msg, *udev ? ": " : "", udev);
	report_fallback(f->io, PENSTOCK_FALLBACK_CUFILE, f->name, why);
}

bool file_attach(struct penstock_file *f)
{
	const struct penstock_engine *engine = f->io->engine;
	struct penstock_err err = {0, ""};

	if (!engine->device || f->backing.object)
		return false;
	if (atomic_load(&f->attach) == ATTACH_UNTRIED) {
		pthread_mutex_lock(&f->backing.lock);
		if (atomic_load(&f->attach) == ATTACH_UNTRIED)
			attach(f, &err);
		pthread_mutex_unlock(&f->backing.lock);
	}
	if (err.code < 0)
		note_refused(f, &err);
	return atomic_load(&f->attach) == ATTACH_DONE;
}

/* Before the descriptor is closed.  In a child of fork() the registration is the parent's. */
static void detach(struct penstock_file *f)
{
	if (atomic_load(&f->attach) == ATTACH_DONE && io_check(f->io, NULL) == 0)
		detach_members(f, f->nr_members);
}

static void free_file(struct penstock_file *f)
{
	if (f->members != &f->single)
		free(f->members);
	free(f->member_loads);
	free(f->name);
	free(f);
}

/* Tell what was refused, or is not to be trusted, and is done in another way. */
static void note_ways(struct penstock_io *io, const struct penstock_file *f)
{
	/*
	 * Where a FUSE server does not announce asynchronous direct I/O, the
	 * kernel (6.18) finishes a short io_uring transfer at the wrong position:
	 * a read of a 10-byte file returns 1290 bytes, and says all is well.
	 */
	if (f->backing.fuse && io->engine == penstock_engine_find("io_uring", NULL))
		report_fallback(io, PENSTOCK_FALLBACK_BLOCKING, f->name,
				"FUSE: io_uring is not safe there, pread and pwrite are used");
	if (!f->backing.direct && io->opts.direct == PENSTOCK_DIRECT_AUTO &&
	    f->backing.borrowed < 0 && !f->backing.object)
		report_fallback(io, PENSTOCK_FALLBACK_BUFFERED, f->name, f->backing.why);
}

/* Under io->lock. */
static void take_slot(struct penstock_io *io, struct file_member *p)
{
	for (int i = 0; i < FILE_SLOTS && io->engine->set_file; i++)
		if (!io->slots[i]) {
			io->slots[i] = p;
			p->slot = i;
			return;
		}
}

static bool known_device(struct penstock_io *io, struct file_member *f)
{
	bool known = false;

	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < ARRAY_SIZE(io->devices) && i < io->nr_devices && !known; i++) {
		known = io->devices[i].dev == f->backing->dev;
		if (known)
			f->device = io->devices[i];
	}
	pthread_mutex_unlock(&io->lock);
	return known;
}

static void find_device(struct penstock_io *io, struct file_member *f)
{
	struct penstock_blockdev dev;

	if (known_device(io, f))
		return;
	f->device.dev = f->backing->dev;
	if (penstock_blockdev_load(&dev, major(f->backing->dev), minor(f->backing->dev)) == 0) {
		f->device.max_segments = dev.max_segments;
		f->device.virtual = !strncmp(dev.name, "vd", 2) || !strncmp(dev.name, "xvd", 3);
	}
	pthread_mutex_lock(&io->lock);
	io->devices[io->nr_devices++ % ARRAY_SIZE(io->devices)] = f->device;
	pthread_mutex_unlock(&io->lock);
}

/* The file is open: a striped file has several members, any other is its own only one. */
static int find_members(struct penstock_io *io, struct penstock_file *f)
{
	struct penstock_stripe *t = f->backing.stripe;

	f->members = t ? calloc(t->nr, sizeof(*f->members)) : &f->single;
	f->member_loads =
		t ? calloc((size_t)io->max_queues * t->nr, sizeof(*f->member_loads)) : NULL;
	if (!f->members || (t && !f->member_loads))
		return -ENOMEM;
	f->nr_members = t ? t->nr : 1;
	f->striped = f->nr_members > 1;
	f->remote = f->backing.object;
	for (unsigned i = 0; i < f->nr_members; i++) {
		struct file_member *p = &f->members[i];

		*p = (struct file_member){.backing = t ? &t->members[i] : &f->backing, .slot = -1};
		if (f->backing.object)
			return 0;
		find_device(io, p);
		if (!i)
			f->device = p->device;
		f->device.virtual &= p->device.virtual;
		if (p->device.max_segments &&
		    (!f->device.max_segments || p->device.max_segments < f->device.max_segments))
			f->device.max_segments = p->device.max_segments;
	}
	return 0;
}

/* All members are to be busy: more of it is in flight together. */
static void widen_flight(struct penstock_io *io, const struct penstock_file *f)
{
	uint64_t want = (uint64_t)f->nr_members * MEMBER_BYTES,
		 now = atomic_load(&io->flight_bytes);

	while (f->nr_members > 1 && now < want &&
	       !atomic_compare_exchange_weak(&io->flight_bytes, &now, want))
		;
}

/* The file is open: make the file one of the handle's.  Gives it back on failure. */
static int file_add(struct penstock_io *io, struct penstock_file *f, bool slot,
		    struct penstock_err *err)
{
	struct penstock_backing *s = &f->backing;
	bool writes = s->access != O_RDONLY && !s->device && !s->object;
	bool bad = find_members(io, f) < 0;

	for (unsigned huge = 0; huge < 2 && !s->object; huge++)
		f->split[huge] = plan_split(f, huge);
	widen_flight(io, f);
	pthread_mutex_lock(&io->lock);
	if (writes && !bad)
		s->growth = penstock_growth_get(&io->extends, s->dev, s->ino);
	bad |= writes && !s->growth;
	bad |= s->object && remote_blocks_alloc(io) < 0;
	for (unsigned i = 0; !bad && slot && !s->object && i < f->nr_members; i++)
		take_slot(io, &f->members[i]);
	if (!bad)
		link_file(io, f);
	pthread_mutex_unlock(&io->lock);
	if (bad) {
		penstock_fail(err, -ENOMEM, "%s: out of memory", f->name);
		remote_close(f, false, NULL);
		penstock_backing_close(s);
		free_file(f);
		return -ENOMEM;
	}
	note_ways(io, f);
	return 0;
}

/* Under io->lock. */
static void file_remove(struct penstock_io *io, struct penstock_file *f)
{
	unlink_file(io, f);
	penstock_growth_put(&io->extends, f->backing.growth);
}

/* @r: of opening the file. */
static int file_ready(struct penstock_io *io, struct penstock_file *f, int r,
		      struct penstock_file **out, struct penstock_err *err)
{
	if (r < 0) {
		free_file(f);
		return r;
	}
	r = file_add(io, f, true, err);
	if (r == 0)
		*out = f;
	return r;
}

/* By its name: a path, or an object's. */
static int store_open(struct penstock_io *io, struct penstock_file *f, int oflags, unsigned mode,
		      struct penstock_err *err)
{
	int r = penstock_s3_is_uri(f->name, err);

	if (r < 0)
		return r;
	if (r)
		return remote_open(io, f, oflags, f->by_path, err);
	return penstock_backing_open(&f->backing, f->name, oflags, mode, io->opts.direct, err);
}

int penstock_file_open(struct penstock_file **out, struct penstock_io *io, const char *path,
		       int oflags, unsigned mode, struct penstock_err *err)
{
	NO_CANCEL;
	struct penstock_file *f;
	int r = io_check(io, err);

	if (r < 0)
		return r;
	if (!path)
		return penstock_fail(err, -EINVAL, "path: is NULL");
	f = new_file(io, path, err);
	if (!f)
		return -ENOMEM;
	r = store_open(io, f, oflags, mode, err);
	return file_ready(io, f, r, out, err);
}

int penstock_file_take_fd(struct penstock_file **out, struct penstock_io *io, int fd,
			  const char *name, struct penstock_err *err)
{
	NO_CANCEL;
	struct penstock_file *f = NULL;
	int r = io_check(io, err);

	if (r == 0 && !name)
		r = penstock_fail(err, -EINVAL, "name: is NULL");
	if (r == 0) {
		f = new_file(io, name, err);
		r = f ? 0 : -ENOMEM;
	}
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		return r;
	}
	r = penstock_backing_open_owned_fd(&f->backing, fd, name, io->opts.direct, err);
	return file_ready(io, f, r, out, err);
}

static int file_adopt(struct penstock_io *io, int fd, bool keep, struct penstock_file **out,
		      struct penstock_err *err)
{
	struct penstock_file *f;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "fd %d", fd);
	f = new_file(io, name, err);
	if (!f)
		return -ENOMEM;
	f->by_path = !keep; /* lives as long as the operation */
	r = penstock_backing_open_borrowed_fd(&f->backing, fd, io->opts.direct, err);
	if (r < 0) {
		free_file(f);
		return r;
	}
	r = file_add(io, f, keep, err);
	if (r == 0)
		*out = f;
	return r;
}

int penstock_file_from_fd(struct penstock_file **out, struct penstock_io *io, int fd,
			  struct penstock_err *err)
{
	NO_CANCEL;
	int r = io_check(io, err);

	return r < 0 ? r : file_adopt(io, fd, true, out, err);
}

static int file_forget(struct queue *q, void *arg)
{
	const struct penstock_file *f = arg;

	for (unsigned i = 0; i < f->nr_members; i++) {
		const struct file_member *p = &f->members[i];

		if (p->slot >= 0 && q->files[p->slot] == p) {
			q->io->engine->set_file(q->engine, (unsigned)p->slot, -1);
			q->files[p->slot] = NULL;
		}
	}
	return 0;
}

static int file_close(struct penstock_file *f, bool commit, struct penstock_err *err)
{
	struct penstock_io *io;
	int r, lost;

	if (!f)
		return 0;
	io = f->io;
	r = io_check(io, err);
	if (r < 0)
		return r;
	if (queue_current(io))
		return penstock_fail(err, -EDEADLK,
				     "%s: a completion callback must not close files", f->name);
	pthread_mutex_lock(&io->lock);
	atomic_fetch_add(&io->closers, 1);
	while (atomic_load(&f->refs) > 1)
		pthread_cond_wait(&io->changed, &io->lock);
	atomic_fetch_sub(&io->closers, 1);
	file_remove(io, f);
	pthread_mutex_unlock(&io->lock);
	/* An engine that knows the file holds it open. */
	for (unsigned i = 0; f->members[0].slot >= 0 && i < io->nr_queues; i++)
		queue_call(&io->queues[i], file_forget, f);
	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < f->nr_members; i++)
		if (f->members[i].slot >= 0)
			io->slots[f->members[i].slot] = NULL;
	pthread_mutex_unlock(&io->lock);
	detach(f);
	r = remote_close(f, commit, err);
	lost = penstock_backing_close(&f->backing);
	if (lost < 0)
		r = penstock_fail(err, lost, "%s: close: %s", f->name, strerror(-lost));
	free_file(f);
	return r;
}

int penstock_file_close(struct penstock_file *f, struct penstock_err *err)
{
	NO_CANCEL;

	return file_close(f, true, err);
}

int penstock_file_abort(struct penstock_file *f, struct penstock_err *err)
{
	NO_CANCEL;

	return file_close(f, false, err);
}

int penstock_file_stat(struct penstock_file *f, struct penstock_file_info *info)
{
	NO_CANCEL;
	struct penstock_file_info i = {0};
	int64_t size;
	int r;

	if (!f || !info || info->size < sizeof(info->size))
		return -EINVAL;
	r = io_check(f->io, NULL);
	if (r < 0)
		return r;
	size = penstock_backing_size(&f->backing);
	if (size < 0)
		return (int)size;
	i.size = info->size;
	i.direct = f->backing.direct;
	i.mem_align = i.direct ? f->backing.mem_align : 1;
	i.offset_align = i.direct ? f->backing.off_align : 1;
	i.bytes = (uint64_t)size;
	i.block = plan_split(f, true);
	if (atomic_load(&f->attach) == ATTACH_DONE && !f->io->opts.block)
		i.block = CUFILE_BLOCK;
	pthread_mutex_lock(&f->backing.lock);
	snprintf(i.why, sizeof(i.why), "%s", i.direct ? "" : f->backing.why);
	pthread_mutex_unlock(&f->backing.lock);
	memcpy(info, &i, min_u64(info->size, sizeof(i)));
	return 0;
}

/* For reading, as long as it is known to be what is there. */
static struct penstock_file *find_remote(struct penstock_io *io, const char *uri)
{
	struct penstock_file *f;

	pthread_mutex_lock(&io->lock);
	for (f = io->files[path_bucket(uri)]; f; f = f->next)
		if (f->by_path && f->backing.object && f->backing.access == O_RDONLY &&
		    !strcmp(f->name, uri) && !remote_is_stale(f)) {
			f->refs++;
			break;
		}
	pthread_mutex_unlock(&io->lock);
	return f;
}

/* The same file still?  It may have been replaced under its name. */
static bool still_there(const struct penstock_file *f, const struct stat *st)
{
	dev_t dev = S_ISBLK(st->st_mode) ? st->st_rdev : st->st_dev;

	return st->st_ino == f->backing.ino && dev == f->backing.dev;
}

static struct penstock_file *find_path(struct penstock_io *io, const char *path, int access)
{
	struct penstock_file *f;
	struct stat st;

	if (!atomic_load(&io->nr_by_path))
		return NULL;
	if (penstock_s3_is_uri(path, NULL) > 0)
		return access == O_RDONLY ? find_remote(io, path) : NULL;
	if (stat(path, &st) < 0)
		return NULL;
	pthread_mutex_lock(&io->lock);
	for (f = io->files[path_bucket(path)]; f; f = f->next)
		if (f->by_path && f->backing.access == access && !strcmp(f->name, path) &&
		    still_there(f, &st)) {
			f->refs++;
			break;
		}
	pthread_mutex_unlock(&io->lock);
	return f;
}

static int file_open_path(struct penstock_io *io, const struct penstock_op *u,
			  struct penstock_file **out, struct penstock_err *err)
{
	int access = u->opcode == PENSTOCK_READ ? O_RDONLY : O_WRONLY, flags;
	struct penstock_file *f = find_path(io, u->path, access);
	int r;

	if (f) {
		*out = f;
		return 0;
	}
	f = new_file(io, u->path, err);
	if (!f)
		return -ENOMEM;
	f->by_path = true;
	flags = access | (u->opcode == PENSTOCK_WRITE ? O_CREAT : 0);
	/* An object is written as a whole, or remote_prepare() refuses it. */
	if (penstock_s3_is_uri(u->path, NULL) > 0)
		flags |= O_TRUNC;
	r = store_open(io, f, flags, io->opts.mode, err);
	if (r < 0) {
		free_file(f);
		return r;
	}
	r = file_add(io, f, false, err);
	if (r == 0)
		*out = f;
	return r;
}

/* References are taken for several operations at once: they are on a line that all write to. */
static void file_get(struct penstock_file *f, struct file_refs *refs)
{
	if (refs->file != f || !refs->left) {
		file_put_many(refs->file, refs->left);
		refs->file = f;
		refs->left = refs->ahead;
		atomic_fetch_add(&f->refs, refs->ahead);
	}
	refs->left--;
}

int file_for_op(struct penstock_io *io, const struct penstock_op *u, struct file_refs *refs,
		struct penstock_file **out, struct penstock_err *err)
{
	if (u->file) {
		if (u->file->io != io)
			return penstock_fail(err, -EINVAL, "%s: belongs to another handle",
					     u->file->name);
		file_get(u->file, refs);
		*out = u->file;
		return 0;
	}
	if (u->path)
		return file_open_path(io, u, out, err);
	return file_adopt(io, u->fd, false, out, err);
}

void file_put_many(struct penstock_file *f, unsigned n)
{
	/* Somebody may free the file as soon as the references are gone. */
	struct penstock_io *io = n && f ? f->io : NULL;

	if (io && atomic_fetch_sub(&f->refs, n) == n + 1 && atomic_load(&io->closers)) {
		pthread_mutex_lock(&io->lock);
		pthread_cond_broadcast(&io->changed);
		pthread_mutex_unlock(&io->lock);
	}
}

int file_put(struct penstock_file *f)
{
	struct penstock_io *io = f->io;
	bool last;
	int r;

	if (!f->by_path) {
		file_put_many(f, 1);
		return 0;
	}
	pthread_mutex_lock(&io->lock);
	last = atomic_fetch_sub(&f->refs, 1) == 1;
	if (last)
		file_remove(io, f);
	pthread_mutex_unlock(&io->lock);
	if (!last)
		return 0;
	detach(f);
	remote_close(f, false, NULL); /* what was written well is an object already */
	r = penstock_backing_close(&f->backing);
	free_file(f);
	return r;
}

void files_free(struct penstock_io *io)
{
	struct penstock_file *f, *next;

	for (unsigned i = 0; i < PATH_BUCKETS; i++)
		for (f = io->files[i]; f; f = next) {
			next = f->next;
			penstock_growth_put(&io->extends, f->backing.growth);
			/* In a child of fork() how long it has become is the parent's to say. */
			if (f->backing.stripe && io_check(io, NULL) < 0)
				atomic_store(&f->backing.stripe->size_unrecorded, false);
			detach(f);
			remote_close(f, false, NULL);
			penstock_backing_close(&f->backing);
			free_file(f);
		}
}
