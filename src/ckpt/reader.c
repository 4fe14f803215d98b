/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream reader.  Transfers are submitted in the order of the file and looked at in the same
 * order: while the caller's thread sums and copies what has come, the next ones are on their way.
 * Buffers are stretches of one piece of memory that is used round and round.
 */
#include <sluice/ckpt.h>
#include <sluice/gpu.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/optscopy.h"
#include "base/replace.h"
#include "base/util.h"
#include "ckpt/ckptopts.h"
#include "ckpt/crcfile.h"
#include "ckpt/upload.h"
#include "ckpt/wants.h"

enum {
	PAGE = 4096,
	BUFFER = 8 << 20,
	TASKS = 512,                /* transfers at a time */
	FLIGHT_MAX = 256 << 20,     /* bytes of them that go straight into place */
	AHEAD_FIRST = SLUICE_CHUNK, /* read ahead at first, then more and more */
	OPEN_TRIES = 16,
};

/* A transfer, from its submission until nobody needs its memory any more. */
struct task {
	struct sluice_reader *r;
	struct span span;
	char *mem;
	uint64_t ring; /* bytes of the pool it holds, those skipped at its end included */
	unsigned busy; /* transfers and copies that are not over: under the lock */
	int code;      /* its first failure: under the lock */
	bool checked;  /* its content was looked at */
};

struct sluice_reader {
	struct sluice_io *io;
	struct sluice_file *file;
	struct sluice_reader_opts o;
	char *path;
	uint64_t bytes;
	struct crcfile crc; /* no set: nothing is verified */
	uint32_t alive;     /* bit i: what was read so far fits set i */
	uint64_t bad_offset, bad_len, read_bytes;

	char *pool;
	uint64_t pool_len, pool_at, pool_used; /* the next free byte, bytes in use before it */
	bool pinned;

	struct task tasks[TASKS];
	unsigned head, mid, tail; /* oldest, first not looked at, next free: they only count up */
	uint64_t flight;          /* bytes of tasks between head and tail that hold no pool */

	uint64_t pos;        /* of the stream */
	uint64_t ahead_next; /* where reading ahead goes on */
	uint64_t ahead;      /* bytes to read ahead */

	pthread_mutex_t lock;
	pthread_cond_t back;
	const struct task *failed; /* the first that did, */
	char msg[508];             /* and its words */
};

/* ------------------------------------------------------------- verification */

static int bad_chunk(struct sluice_reader *r, uint64_t offset, uint64_t len, uint32_t got,
		     struct sluice_err *err)
{
	struct sluice_short room;

	r->bad_offset = offset;
	r->bad_len = len;
	return sluice_fail(err, -EBADMSG,
			   "%s: bytes %" PRIu64 " to %" PRIu64
			   " are not what was saved: their CRC-32C is %08x, that in %s.crc %08x",
			   sluice_shorten(&room, r->path), offset, offset + len - 1, got,
			   strrchr(r->path, '/') ? strrchr(r->path, '/') + 1 : r->path,
			   r->crc.sets[0].crcs[offset / SLUICE_CHUNK]);
}

/* Whole chunks, but for the end of the file. */
static int verify(struct sluice_reader *r, uint64_t offset, const char *data, uint64_t len,
		  struct sluice_err *err)
{
	for (uint64_t n; len; offset += n, data += n, len -= n) {
		uint32_t crc, fits = 0;

		n = min_u64(len, SLUICE_CHUNK);
		crc = sluice_crc32c(0, data, n);
		for (unsigned i = 0; i < r->crc.nr; i++)
			if (r->crc.sets[i].crcs[offset / SLUICE_CHUNK] == crc)
				fits |= 1u << i;
		if (!(r->alive & fits))
			return bad_chunk(r, offset, n, crc, err);
		r->alive &= fits;
	}
	return 0;
}

/* -------------------------------------------------------------------- tasks */

static struct task *task_at(struct sluice_reader *r, unsigned i)
{
	return &r->tasks[i % TASKS];
}

static void task_done(void *arg, const struct sluice_done *done)
{
	struct task *t = arg;
	struct sluice_reader *r = t->r;

	pthread_mutex_lock(&r->lock);
	if (done->res < 0 && !t->code)
		t->code = (int)done->res;
	if (t->code && !r->failed) {
		r->failed = t;
		snprintf(r->msg, sizeof(r->msg), "%s", done->msg);
	}
	t->busy--;
	pthread_cond_signal(&r->back);
	pthread_mutex_unlock(&r->lock);
}

static void task_wait(struct sluice_reader *r, const struct task *t)
{
	pthread_mutex_lock(&r->lock);
	while (t->busy)
		pthread_cond_wait(&r->back, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

static bool task_over(struct sluice_reader *r, const struct task *t)
{
	bool over;

	pthread_mutex_lock(&r->lock);
	over = !t->busy;
	pthread_mutex_unlock(&r->lock);
	return over;
}

/* How it ended, when it is over. */
static int task_result(struct sluice_reader *r, const struct task *t, struct sluice_err *err)
{
	int code;

	pthread_mutex_lock(&r->lock);
	code = t->code;
	if (code && r->failed == t)
		sluice_fail(err, code, "%s", r->msg);
	else if (code)
		sluice_fail(err, code, "read %s: offset %" PRIu64 " length %" PRIu64 ": %s",
			    r->path, t->span.offset, t->span.len, strerror(-code));
	pthread_mutex_unlock(&r->lock);
	return code;
}

/* Give a task one more thing to wait for; undone where the library does not take it. */
static int task_submit(struct task *t, struct sluice_op *op, struct sluice_err *err)
{
	int n;

	op->on_done = task_done;
	op->arg = t;
	pthread_mutex_lock(&t->r->lock);
	t->busy++;
	pthread_mutex_unlock(&t->r->lock);
	n = sluice_submit(t->r->io, op, 1, NULL, err);
	if (n == 1)
		return 0;
	pthread_mutex_lock(&t->r->lock);
	t->busy--;
	pthread_mutex_unlock(&t->r->lock);
	return n;
}

static void retire(struct sluice_reader *r)
{
	struct task *t = task_at(r, r->head++);

	if (r->failed == t)
		r->failed = NULL; /* it is over, and so is whoever would set it */
	r->pool_used -= t->ring;
	if (!t->ring)
		r->flight -= t->span.len;
}

/* Forget all that was begun. */
static void drop(struct sluice_reader *r)
{
	while (r->head != r->tail) {
		task_wait(r, task_at(r, r->head));
		retire(r);
	}
	r->mid = r->head;
	r->pool_at = r->pool_used = 0;
	r->ahead = AHEAD_FIRST;
	r->ahead_next = r->pos;
	r->failed = NULL;
}

/* --------------------------------------------------------------------- pool */

static int pool_make(struct sluice_reader *r, struct sluice_err *err)
{
	uint64_t len = min_u64(r->o.buffers * r->o.buffer_bytes,
			       align_up(max_u64(r->bytes, 1), SLUICE_CHUNK));
	void *pool;
	int e;

	if (r->pool)
		return 0;
	e = sluice_buf_alloc(&pool, r->io, len, 0, NULL, err);
	if (e < 0)
		return e;
	r->pool = pool;
	r->pool_len = len;
	return 0;
}

/* @len bytes in one piece: where, or NULL.  *@ret_ring: what the holder gives back. */
static char *pool_take(struct sluice_reader *r, uint64_t len, uint64_t *ret_ring)
{
	uint64_t at = r->pool_at, skip = 0;

	len = align_up(len, PAGE);
	if (at + len > r->pool_len) {
		skip = r->pool_len - at;
		at = 0;
	}
	if (r->pool_used + skip + len > r->pool_len)
		return NULL;
	r->pool_used += skip + len;
	r->pool_at = at + len;
	*ret_ring = skip + len;
	return r->pool + at;
}

/* ---------------------------------------------------------------- transfers */

/* Read a span into @mem or, where that is NULL, into the pool.  Returns 1, or 0: no room now. */
static int start(struct sluice_reader *r, const struct span *span, char *mem,
		 struct sluice_err *err)
{
	struct task *t = task_at(r, r->tail);
	struct sluice_op op = {
		.opcode = SLUICE_READ,
		.flags = SLUICE_OP_EXACT,
		.file = r->file,
		.len = span->len,
		.offset = span->offset,
		.memory = mem ? SLUICE_MEMORY_ANY : SLUICE_MEMORY_HOST,
	};
	uint64_t ring = 0;
	int e;

	if (r->tail - r->head == TASKS || (mem && r->flight >= FLIGHT_MAX))
		return 0;
	e = mem ? 0 : pool_make(r, err);
	if (e < 0)
		return e;
	op.buf = mem ? mem : pool_take(r, span->len, &ring);
	if (!op.buf)
		return 0;
	*t = (struct task){.r = r, .span = *span, .mem = op.buf, .ring = ring};
	r->tail++;
	if (!ring)
		r->flight += span->len;
	r->read_bytes += span->len;
	e = task_submit(t, &op, err);
	return e < 0 ? e : 1;
}

/* Wait for the oldest task nobody has looked at, and verify it. */
static int look(struct sluice_reader *r, struct task **ret, struct sluice_err *err)
{
	struct task *t = task_at(r, r->mid++);
	int e;

	task_wait(r, t);
	e = task_result(r, t, err);
	if (e == 0 && r->crc.nr)
		e = verify(r, t->span.offset, t->mem, t->span.len, err);
	t->checked = true;
	*ret = t;
	return e;
}

/* ------------------------------------------------------------------- ranges */

static int copy_out(struct task *t, const struct want *w, struct sluice_err *err)
{
	char *from = t->mem + (w->offset - t->span.offset);
	struct sluice_iov iov[2] = {{w->buf, w->len}, {from, w->len}};
	struct sluice_op op = {.opcode = SLUICE_COPY, .nr_iov = 2, .iov = iov};

	if (w->device)
		return task_submit(t, &op, err);
	memcpy(w->buf, from, w->len);
	return 0;
}

static int deliver(struct task *t, const struct wants *w, struct sluice_err *err)
{
	int e = 0;

	if (!t->ring)
		return 0;
	for (uint64_t i = 0; i < t->span.nr && e == 0; i++)
		if (w->v[t->span.first + i].buf)
			e = copy_out(t, &w->v[t->span.first + i], err);
	return e;
}

/* Submit what there is room for, from want *@next on. */
static int submit_some(struct sluice_reader *r, const struct wants *w, uint64_t *next,
		       struct sluice_err *err)
{
	while (*next < w->nr) {
		struct span s = wants_span(w, *next);
		int e = start(r, &s, w->v[*next].direct ? w->v[*next].buf : NULL, err);

		if (e <= 0)
			return e;
		*next += s.nr;
	}
	return 0;
}

/* The oldest is over, with all its copies. */
static int retire_checked(struct sluice_reader *r, struct sluice_err *err)
{
	int e = task_result(r, task_at(r, r->head), err);

	retire(r);
	return e;
}

static int fetch_wants(struct sluice_reader *r, const struct wants *w, struct sluice_err *err)
{
	uint64_t next = 0;
	struct task *t;
	int e = 0;

	while (e == 0 && (next < w->nr || r->mid != r->tail)) {
		e = submit_some(r, w, &next, err);
		if (e == 0 && r->mid != r->tail) {
			e = look(r, &t, err);
			if (e == 0)
				e = deliver(t, w, err);
		} else if (e == 0) {
			/* all looked at, and copies to a device hold the pool */
			task_wait(r, task_at(r, r->head));
		}
		while (e == 0 && r->head != r->mid && task_over(r, task_at(r, r->head)))
			e = retire_checked(r, err);
	}
	while (e == 0 && r->head != r->tail) {
		task_wait(r, task_at(r, r->head));
		e = retire_checked(r, err);
	}
	drop(r);
	return e;
}

static int plan(struct sluice_reader *r, struct wants *w, const struct sluice_piece *pieces,
		uint64_t n, struct sluice_err *err)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct sluice_piece *p = &pieces[i];
		bool device;

		if (p->len > r->bytes || p->offset > r->bytes - p->len)
			return sluice_fail(err, -EINVAL,
					   "%s: offset %" PRIu64 " length %" PRIu64
					   " is not within the file of %" PRIu64 " bytes",
					   r->path, p->offset, p->len, r->bytes);
		device = p->buf && p->len && sluice_gpu_device(p->buf) >= 0;
		if (device && !r->pinned && pool_make(r, err) == 0)
			r->pinned = sluice_gpu_pin(r->pool, r->pool_len, NULL) == 0;
		if (wants_add(w, p, device) < 0)
			return sluice_fail(err, -ENOMEM, "%s: out of memory", r->path);
	}
	wants_sort(w);
	return 0;
}

int sluice_reader_fetch(struct sluice_reader *r, const struct sluice_piece *pieces, uint64_t n,
			struct sluice_err *err)
{
	struct wants w = {
		.bytes = r->bytes,
		.window = r->o.buffer_bytes,
		.verify = r->crc.nr > 0,
	};
	int e;

	drop(r);
	e = plan(r, &w, pieces, n, err);
	if (e == 0)
		e = fetch_wants(r, &w, err);
	wants_free(&w);
	return e;
}

int64_t sluice_reader_pread(struct sluice_reader *r, void *buf, uint64_t len, uint64_t offset,
			    struct sluice_err *err)
{
	struct sluice_piece p = {offset, 0, buf};
	int e;

	p.len = offset < r->bytes ? min_u64(len, r->bytes - offset) : 0;
	if (!p.len)
		return 0;
	if (!buf)
		return sluice_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64, len);
	e = sluice_reader_fetch(r, &p, 1, err);
	return e < 0 ? e : (int64_t)p.len;
}

/* ------------------------------------------------------------------- stream */

/* Keep as much on its way as the stream has earned so far. */
static int read_ahead(struct sluice_reader *r, struct sluice_err *err)
{
	while (r->ahead_next < r->bytes && r->ahead_next < r->pos + r->ahead) {
		struct span s = {.offset = align_down(r->ahead_next, SLUICE_CHUNK)};
		int e;

		s.len = min_u64(r->bytes - s.offset, min_u64(r->ahead, r->o.buffer_bytes));
		e = start(r, &s, NULL, err);
		if (e <= 0)
			return e;
		r->ahead_next = s.offset + s.len;
	}
	return 0;
}

/* The task that has the byte at the position, looked at; there is one, or all have been dropped. */
static int stream_task(struct sluice_reader *r, struct task **ret, struct sluice_err *err)
{
	struct task *t = NULL;
	int e = 0;

	while (r->head != r->tail) {
		t = task_at(r, r->head);
		if (r->pos < t->span.offset + t->span.len)
			break;
		if (!t->checked) /* passed over by a seek */
			r->mid = r->head + 1;
		task_wait(r, t);
		retire(r);
		r->ahead = min_u64(r->ahead * 4, r->o.buffers * r->o.buffer_bytes);
	}
	if (r->head == r->tail || r->pos < t->span.offset)
		drop(r);
	e = read_ahead(r, err);
	if (e < 0)
		return e;
	*ret = task_at(r, r->head);
	return (*ret)->checked ? 0 : look(r, ret, err);
}

/* What of the next @len bytes is in one task; returns how much, or what failed. */
static int64_t stream_some(struct sluice_reader *r, char *to, uint64_t len, bool device,
			   struct sluice_err *err)
{
	struct task *t;
	const char *from;
	int e = stream_task(r, &t, err);

	if (e < 0)
		return e;
	from = t->mem + (r->pos - t->span.offset);
	len = min_u64(len, t->span.offset + t->span.len - r->pos);
	if (device)
		e = sluice_gpu_copy(to, from, len, err);
	else
		memcpy(to, from, len);
	return e < 0 ? e : (int64_t)len;
}

int64_t sluice_reader_read(struct sluice_reader *r, void *buf, uint64_t len, struct sluice_err *err)
{
	uint64_t done = 0;
	bool device;

	len = r->pos < r->bytes ? min_u64(len, r->bytes - r->pos) : 0;
	if (len && !buf)
		return sluice_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64, len);
	device = len && sluice_gpu_device(buf) >= 0;
	while (done < len) {
		int64_t n = stream_some(r, (char *)buf + done, len - done, device, err);

		if (n < 0) {
			drop(r);
			return n;
		}
		r->pos += (uint64_t)n;
		done += (uint64_t)n;
	}
	return (int64_t)done;
}

int sluice_reader_seek(struct sluice_reader *r, uint64_t offset, struct sluice_err *err)
{
	if (offset > INT64_MAX)
		return sluice_fail(err, -EINVAL, "%s: offset %" PRIu64 " is beyond 2^63", r->path,
				   offset);
	r->pos = offset;
	return 0;
}

uint64_t sluice_reader_tell(const struct sluice_reader *r)
{
	return r->pos;
}

int sluice_reader_stat(const struct sluice_reader *r, struct sluice_reader_info *info)
{
	struct sluice_reader_info full = {
		.size = info->size,
		.verify = r->crc.nr > 0,
		.bytes = r->bytes,
		.bad_offset = r->bad_offset,
		.bad_len = r->bad_len,
		.read_bytes = r->read_bytes,
	};

	memcpy(info, &full, min_u64(info->size, sizeof(full)));
	return 0;
}

/* ------------------------------------------------------------------ opening */

/*
 * Of the checksums that were loaded, those of the file @is.  1: there are some, 0: nothing is known
 * of it; -ENOENT: they are of others.
 */
static int pick_sums(struct sluice_reader *r, const struct crc_set *is)
{
	bool none = false;

	crcfile_narrow(&r->crc, is);
	for (unsigned i = 0; i < r->crc.nr; i++)
		none |= r->crc.sets[i].flags & CRC_SET_NONE;
	if (r->crc.nr && !none)
		return 1;
	crcfile_free(&r->crc);
	return none ? 0 : -ENOENT;
}

static int other_size(const struct sluice_reader *r, struct sluice_err *err)
{
	struct sluice_short room;
	const char *base = strrchr(r->path, '/') ? strrchr(r->path, '/') + 1 : r->path;

	return sluice_fail(
		err, -EBADMSG,
		"%s has %" PRIu64 " bytes and %s.crc describes a file of another size: it was "
		"written by another program, or cut; remove %s.crc, or read without verification",
		sluice_shorten(&room, r->path), r->bytes, base, base);
}

/* The checksums of the file that is open as @fd.  -EAGAIN: it has been replaced meanwhile. */
static int load_sums(struct sluice_reader *r, int dir, const char *name, int fd,
		     struct sluice_err *err)
{
	CLEANUP_FREE char *crcname = NULL;
	struct stat st, now;
	struct crc_set is;
	int e;

	if (asprintf(&crcname, "%s.crc", name) < 0) {
		crcname = NULL;
		return sluice_fail(err, -ENOMEM, "%s: out of memory", r->path);
	}
	e = crcfile_load(&r->crc, dir, crcname, err);
	if (e == -ENOENT || e == -ENAMETOOLONG)
		return 0;
	if (e < 0)
		return e;
	if (fstat(fd, &st) < 0)
		return sluice_fail(err, -errno, "stat %s: %s", r->path, strerror(errno));
	is = crc_set_of(&st);
	if (pick_sums(r, &is) >= 0)
		return 0;
	if (fstatat(dir, name, &now, 0) < 0 || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
		return -EAGAIN;
	return other_size(r, err);
}

/*
 * The checksums of an object that was @was before it was opened.  -EAGAIN: it has been replaced
 * meanwhile.
 */
static int load_object_sums(struct sluice_reader *r, struct sluice_object *c,
			    const struct sluice_object_info *was, struct sluice_err *err)
{
	struct sluice_object_info now = {.size = sizeof(now)};
	struct crc_set is = crc_set_of_object(was);
	struct crc_object crc;
	int e = crc_object_load(&crc, c, r->path, err);

	if (e < 0)
		return e;
	r->crc = crc.f;
	e = crc.there ? pick_sums(r, &is) : 0;
	if (e == 0)
		return 0;
	if (sluice_object_stat(c, r->path, &now, NULL) < 0 || strcmp(now.etag, was->etag) != 0) {
		crcfile_free(&r->crc);
		return -EAGAIN;
	}
	return e > 0 ? 0 : other_size(r, err);
}

/* One try. */
static int open_object(struct sluice_reader *r, struct sluice_err *err)
{
	struct sluice_object *c = sluice_get_objects(r->io);
	struct sluice_file_info info = {.size = sizeof(info)};
	struct sluice_object_info was = {.size = sizeof(was)};
	bool sums = c && r->o.verify != SLUICE_VERIFY_NEVER;
	int e = sums ? sluice_object_stat(c, r->path, &was, err) : 0;

	if (e == 0)
		e = sluice_file_open(&r->file, r->io, r->path, O_RDONLY, 0, err);
	if (e < 0)
		return e;
	sluice_file_stat(r->file, &info);
	r->bytes = info.bytes;
	e = sums ? load_object_sums(r, c, &was, err) : 0;
	if (e < 0)
		sluice_file_close(TAKE_PTR(r->file), NULL);
	return e;
}

/* One try. */
static int open_data(struct sluice_reader *r, struct sluice_err *err)
{
	CLEANUP_FREE char *name = NULL;
	CLEANUP_CLOSE int dir = -1;
	CLEANUP_CLOSE int fd = -1;
	struct sluice_file_info info = {.size = sizeof(info)};
	struct stat st;
	int e = sluice_replace_resolve(r->path, &dir, &name), taken;

	if (e < 0)
		return sluice_fail(err, e, "open %s: %s", r->path, strerror(-e));
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return sluice_fail(err, -errno, "open %s: %s", r->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return sluice_fail(err, -EINVAL, "%s: is no regular file", r->path);
	/* It was for what is no file; with it io_uring answers instead of waiting for the disk. */
	if (fcntl(fd, F_SETFL, O_RDONLY) < 0)
		return sluice_fail(err, -errno, "open %s: %s", r->path, strerror(errno));
	r->bytes = (uint64_t)st.st_size;
	if (r->o.verify != SLUICE_VERIFY_NEVER) {
		e = load_sums(r, dir, name, fd, err);
		if (e < 0)
			return e;
	}
	taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (taken < 0)
		return sluice_fail(err, -errno, "open %s: %s", r->path, strerror(errno));
	e = sluice_file_take_fd(&r->file, r->io, taken, r->path, err);
	if (e == 0 && sluice_file_stat(r->file, &info) == 0)
		r->bytes = info.bytes; /* of a striped one: of the whole */
	return e;
}

static int load_opts(struct sluice_reader_opts *o, const struct sluice_reader_opts *user,
		     struct sluice_err *err)
{
	int r = sluice_opts_copy(o, sizeof(*o), user, err);

	if (r < 0)
		return r;
	if (o->flags)
		return sluice_fail(err, -EINVAL, "flags: 0x%x has unknown bits", o->flags);
	if (o->verify > SLUICE_VERIFY_NEVER)
		return sluice_fail(err, -EINVAL,
				   "verify: %u is none of SLUICE_VERIFY_AUTO, _ALWAYS, _NEVER",
				   o->verify);
	return ckpt_opts_buffers(&o->buffers, &o->buffer_bytes, BUFFER, err);
}

int sluice_reader_open(struct sluice_reader **out, struct sluice_io *io, const char *path,
		       const struct sluice_reader_opts *opts, struct sluice_err *err)
{
	struct sluice_reader_opts o;
	struct sluice_reader *r;
	int e, object;

	if (!io || !path)
		return sluice_fail(err, -EINVAL, "%s: is NULL", io ? "path" : "io");
	object = sluice_object_is_uri(path, err);
	e = object < 0 ? object : load_opts(&o, opts, err);
	if (e < 0)
		return e;
	r = calloc(1, sizeof(*r));
	if (r)
		r->path = strdup(path);
	if (!r || !r->path) {
		free(r);
		return sluice_fail(err, -ENOMEM, "%s: out of memory", path);
	}
	r->io = io;
	r->o = o;
	r->ahead = AHEAD_FIRST;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->back, NULL);
	e = -EAGAIN;
	for (unsigned i = 0; i < OPEN_TRIES && e == -EAGAIN; i++)
		e = object ? open_object(r, err) : open_data(r, err);
	if (e == -EAGAIN)
		e = sluice_fail(err, -EBUSY, "%s: is replaced again and again", path);
	if (e == 0 && o.verify == SLUICE_VERIFY_ALWAYS && !r->crc.nr)
		e = sluice_fail(err, -ENODATA, "%s: there are no checksums to verify it with",
				path);
	r->alive = (1u << r->crc.nr) - 1;
	if (e < 0)
		sluice_reader_close(r);
	else
		*out = r;
	return e;
}

void sluice_reader_close(struct sluice_reader *r)
{
	if (!r)
		return;
	drop(r);
	if (r->pinned)
		sluice_gpu_unpin(r->pool);
	if (r->pool)
		sluice_buf_free(r->io, r->pool);
	sluice_file_close(r->file, NULL);
	crcfile_free(&r->crc);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->back);
	free(r->path);
	free(r);
}
