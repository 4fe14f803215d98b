/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread works through the buffers in turn; "done" is how much of the current one it has
 * taken.  A buffer is handed over ("full") when its owner goes on with the other one; until then
 * the thread looks at it once a second.  The owner says how far it may look by an atomic store
 * per record, so that a row costs no lock.
 */
#include "load/trace/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"

enum {
	PLAIN_BYTES = 512 << 10, /* of a buffer */
	ZSTD_BYTES = 4096 << 10, /* of one that is compressed, then flushed */
};
static const uint64_t flush_ns = 1000000000;

struct sink_private {
	char *buf[2];
	size_t size;
	bool reproducible;
	bool terminal; /* that is what it is written to */
	int fd;
	char *path;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	bool full;     /* the thread's buffer is complete: */
	size_t handed; /* so many bytes of it */
	bool ending;   /* no other comes behind it */
	int error;     /* -errno of the first failure */
	/* the owner's */
	int filling; /* which buffer */
	/* the thread's */
	int taking;
	size_t done;
	ZSTD_CCtx *cctx; /* NULL: plain */
	char *packed;
	size_t packed_size;
};

/* ------------------------------------------------------------------ thread */

static int sink_write_all(int fd, const char *from, size_t len)
{
	while (len) {
		ssize_t n = write(fd, from, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

/* A terminal would obey what is in a name: all but plain text is written out there. */
static int write_plain(int fd, const char *from, size_t len)
{
	char out[4096];
	size_t used = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++) {
		char c = from[i];
		bool ends = c == '\r' && i + 1 < len && from[i + 1] == '\n';

		if (ends || c == '\n' || c == '\t' || (c >= ' ' && c < 0x7f))
			out[used++] = c;
		else
			used += (size_t)snprintf(out + used, 5, "\\x%02x", (unsigned char)c);
		if (used + 5 > sizeof(out) || i + 1 == len) {
			r = sink_write_all(fd, out, used);
			used = 0;
		}
	}
	return r;
}

/* All is one frame; what was flushed can be read whatever becomes of us. */
static int compress(struct sink_private *p, const char *from, size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {from, len, 0};
	size_t left;
	int r = 0;

	do {
		ZSTD_outBuffer out = {p->packed, p->packed_size, 0};

		left = ZSTD_compressStream2(p->cctx, &out, &in, end);
		if (ZSTD_isError(left))
			return -ENOMEM; /* the only thing that can go wrong */
		r = sink_write_all(p->fd, p->packed, out.pos);
	} while (r == 0 && left);
	return r;
}

static int emit(struct sink_private *p, const char *from, size_t len)
{
	if (!len)
		return 0;
	if (p->cctx)
		return compress(p, from, len, ZSTD_e_flush);
	return p->terminal ? write_plain(p->fd, from, len) : sink_write_all(p->fd, from, len);
}

/* Sleep until a buffer is full, or the next flush is due if there is one; called with the lock. */
static void wait_for_work(struct sink_private *p)
{
	struct timespec until;
	uint64_t at = clock_ns() + flush_ns;

	until.tv_sec = (time_t)(at / 1000000000);
	until.tv_nsec = (long)(at % 1000000000);
	while (!p->full) {
		if (p->reproducible)
			pthread_cond_wait(&p->changed, &p->lock);
		else if (pthread_cond_timedwait(&p->changed, &p->lock, &until) == ETIMEDOUT)
			break;
	}
}

/* What there is to take: all of a full buffer, or what is committed in the one being filled. */
static size_t available(const struct sink *s)
{
	const struct sink_private *p = s->p;

	if (p->full)
		return p->handed;
	return (size_t)(atomic_load_explicit(&s->filled, memory_order_acquire) - p->buf[p->taking]);
}

/* The lock is held here, but not while bytes are on their way. */
static void sink_take(struct sink *s)
{
	struct sink_private *p = s->p;
	bool whole = p->full, failed = p->error < 0;
	size_t upto = available(s);
	int r = 0;

	pthread_mutex_unlock(&p->lock);
	if (!failed)
		r = emit(p, p->buf[p->taking] + p->done, upto - p->done);
	pthread_mutex_lock(&p->lock);
	if (r < 0)
		p->error = r;
	p->done = upto;
	if (whole) {
		p->full = false;
		p->done = 0;
		p->taking ^= 1;
		pthread_cond_broadcast(&p->changed);
	}
}

static void *sink_run(void *arg)
{
	struct sink *s = arg;
	struct sink_private *p = s->p;

	pthread_mutex_lock(&p->lock);
	while (p->full || !p->ending) {
		wait_for_work(p);
		sink_take(s);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ------------------------------------------------------------------- owner */

static int sink_failed(const struct sink_private *p, int r, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	return penstock_fail(err, r, "%s: cannot be written: %s",
			     penstock_shorten_name(&short_name, p->path), penstock_strerror(r));
}

/* Hand over what is filled; called with the lock. */
static void hand_over(struct sink *s)
{
	struct sink_private *p = s->p;

	while (p->full)
		pthread_cond_wait(&p->changed, &p->lock);
	p->handed = (size_t)(s->at - p->buf[p->filling]);
	p->full = true;
	p->filling ^= 1;
	s->at = p->buf[p->filling];
	s->end = s->at + p->size;
	atomic_store_explicit(&s->filled, s->at, memory_order_relaxed);
	pthread_cond_broadcast(&p->changed);
}

int sink_error(struct sink *s)
{
	int r;

	pthread_mutex_lock(&s->p->lock);
	r = s->p->error;
	pthread_mutex_unlock(&s->p->lock);
	return r;
}

int sink_swap(struct sink *s, struct penstock_err *err)
{
	int r;

	pthread_mutex_lock(&s->p->lock);
	hand_over(s);
	pthread_mutex_unlock(&s->p->lock);
	r = sink_error(s);
	return r < 0 ? sink_failed(s->p, r, err) : 0;
}

static void sink_free(struct sink *s)
{
	struct sink_private *p = s->p;

	s->p = NULL;
	ZSTD_freeCCtx(p->cctx);
	free(p->packed);
	free(p->buf[0]);
	free(p->buf[1]);
	free(p->path);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p);
}

int sink_close(struct sink *s, struct penstock_err *err)
{
	struct sink_private *p = s->p;
	int r;

	pthread_mutex_lock(&p->lock);
	hand_over(s);
	p->ending = true;
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	r = p->error;
	if (r == 0 && p->cctx)
		r = compress(p, NULL, 0, ZSTD_e_end);
	if (p->fd != STDOUT_FILENO && close(p->fd) < 0 && r == 0)
		r = -errno;
	if (r < 0)
		sink_failed(p, r, err);
	sink_free(s);
	return r;
}

/* ------------------------------------------------------------------ opening */

/* The folders in which @path will be. */
static int make_folders(const char *path, struct penstock_err *err)
{
	CLEANUP_FREE char *name = strdup(path);
	struct penstock_short_name short_name;

	if (!name)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(name, 0777) < 0 && errno != EEXIST)
			return penstock_fail(err, -errno, "%s: cannot be created: %s",
					     penstock_shorten_name(&short_name, name),
					     penstock_strerror(-errno));
		*slash = '/';
	}
	return 0;
}

static int sink_open_file(struct sink_private *p, int fd, struct penstock_err *err)
{
	int r;

	p->fd = STDOUT_FILENO;
	p->terminal = !strcmp(p->path, "-") && isatty(p->fd);
	if (!strcmp(p->path, "-"))
		return 0;
	if (fd) {
		p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		return p->fd < 0 ? sink_failed(p, -errno, err) : 0;
	}
	r = make_folders(p->path, err);
	if (r < 0)
		return r;
	if (penstock_stripe_get_kind(p->path) == 1) /* its members would be left behind */
		return penstock_fail(err, -EEXIST,
				     "%s: is a striped file, which cannot be replaced", p->path);
	p->fd = open(p->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return p->fd < 0 ? sink_failed(p, -errno, err) : 0;
}

static int setup_zstd(struct sink_private *p, int level)
{
	p->packed_size = ZSTD_CStreamOutSize();
	p->packed = malloc(p->packed_size);
	p->cctx = ZSTD_createCCtx();
	if (!p->packed || !p->cctx)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(p->cctx, ZSTD_c_checksumFlag, 1);
	if (ZSTD_isError(
		    ZSTD_CCtx_setParameter(p->cctx, ZSTD_c_compressionLevel, level ? level : 3)))
		return -EINVAL;
	return 0;
}

static int setup_memory(struct sink_private *p, const struct sink_opts *o)
{
	p->size = o->zstd ? ZSTD_BYTES : PLAIN_BYTES;
	p->buf[0] = malloc(p->size);
	p->buf[1] = malloc(p->size);
	if (!p->path || !p->buf[0] || !p->buf[1])
		return -ENOMEM;
	return o->zstd ? setup_zstd(p, o->level) : 0;
}

static struct sink_private *private_new(const char *path)
{
	struct sink_private *p = calloc(1, sizeof(*p));
	pthread_condattr_t attr;

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	p->path = strdup(path);
	return p;
}

int sink_open(struct sink *s, const char *path, const struct sink_opts *o, struct penstock_err *err)
{
	struct sink_private *p = private_new(path);
	int r;

	if (!p)
		return penstock_fail(err, -ENOMEM, "out of memory");
	s->p = p;
	p->reproducible = o->reproducible;
	r = setup_memory(p, o);
	if (r < 0) {
		penstock_fail(err, r, "%s", penstock_strerror(r));
		goto fail;
	}
	s->at = p->buf[0];
	s->end = s->at + p->size;
	atomic_init(&s->filled, s->at);
	r = sink_open_file(p, o->fd, err);
	if (r < 0)
		goto fail;
	r = thread_start(&p->thread, sink_run, s);
	if (r == 0)
		return 0;
	penstock_fail(err, r, "no thread can be started: %s", penstock_strerror(r));
	if (p->fd != STDOUT_FILENO)
		close(p->fd);
fail:
	sink_free(s);
	return r;
}
