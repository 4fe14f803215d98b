/* SPDX-License-Identifier: Apache-2.0 */
/* See modelrun.h.  A failed check is kept in result->why and ends the run. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/penstock.h>
#include <penstock/stripe.h>

#include "base/random.h"
#include "tests/common/modelrun.h"

enum {
	NR_SLOTS = 16,
	NR_PIECES = 8,
	GAP = 64,
	CANARY = 0xa5,
};

struct mfile {
	char path[PATH_MAX];
	unsigned char *data; /* zero behind @size */
	uint64_t size;
	struct penstock_file *file;
	int fd; /* of the test, with or without O_DIRECT */
};

/* An operation in flight, and the memory it uses. */
struct slot {
	bool busy;
	bool cancelled;
	bool by_callback;
	bool truncates;
	bool extends;
	bool alone;      /* no other one changed the size meanwhile */
	bool unresolved; /* failed, and what it left in the file is not known yet */
	struct mfile *f;
	uint32_t opcode;
	uint64_t off, len;
	uint64_t ticket;
	sem_t finished;
	struct penstock_done done;
	unsigned char *arena; /* room for max_len and gaps */
	unsigned char *used_from, *used_to;
	struct penstock_iov iov[NR_PIECES];
	unsigned nr_iov;
};

struct model {
	const struct model_config *c;
	const struct model_source *s;
	struct model_result *r;
	struct penstock_io *io;
	struct mfile files[4];
	struct slot slots[NR_SLOTS];
	unsigned char *arenas, *scratch;
	size_t arena_size;
	uint64_t stamp;
	bool bad;
};

static uint64_t pick(struct model *m, uint64_t n)
{
	return m->s->below(m->s->arg, n);
}

__attribute__((format(printf, 2, 3))) static void wrong(struct model *m, const char *fmt, ...)
{
	va_list ap;

	if (m->bad)
		return;
	m->bad = true;
	va_start(ap, fmt);
	vsnprintf(m->r->why, sizeof(m->r->why), fmt, ap);
	va_end(ap);
}

/* ----------------------------------------------------------- whole files */

/* Unit by unit, as the layout is described. */
static int64_t read_striped(struct model *m, struct mfile *f)
{
	struct penstock_stripe_info *info = NULL;
	struct penstock_err err;
	int fd[PENSTOCK_STRIPE_MEMBERS];
	uint64_t at = 0, step;
	int64_t size;

	if (penstock_stripe_load(&info, f->path, &err) < 0) {
		wrong(m, "%s", err.msg);
		return -1;
	}
	size = (int64_t)info->bytes;
	for (unsigned i = 0; i < info->nr; i++)
		fd[i] = open(info->members[i].path, O_RDONLY | O_CLOEXEC);
	for (; at < info->bytes && at <= m->c->max_size; at += step) {
		uint64_t unit = at / info->unit, within = at % info->unit;
		off_t where = (off_t)((1 << 20) + unit / info->nr * info->unit + within);

		step = info->unit - within < info->bytes - at ? info->unit - within
							      : info->bytes - at;
		if (step > m->c->max_size + 1 - at)
			step = m->c->max_size + 1 - at;
		if (pread(fd[unit % info->nr], m->scratch + at, step, where) != (ssize_t)step)
			wrong(m, "%s: a member ends before byte %llu", f->path,
			      (unsigned long long)(at + step));
	}
	for (unsigned i = 0; i < info->nr; i++)
		close(fd[i]);
	penstock_stripe_free(info);
	return size;
}

static int64_t read_plain(struct model *m, struct mfile *f)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	int64_t at = 0;
	ssize_t r;

	if (m->c->striped) {
		close(fd);
		return read_striped(m, f);
	}
	if (fd < 0) {
		wrong(m, "%s: %s", f->path, strerror(errno));
		return -1;
	}
	while (at <= (int64_t)m->c->max_size) {
		r = pread(fd, m->scratch + at, m->c->max_size + 1 - (uint64_t)at, at);
		if (r == 0 || (r < 0 && errno != EINTR && errno != EAGAIN))
			break;
		at += r > 0 ? r : 0;
	}
	close(fd);
	if (m->c->device && at > (int64_t)f->size)
		at = (int64_t)f->size; /* the device may be longer */
	return at;
}

static void verify_file(struct model *m, struct mfile *f)
{
	int64_t size = read_plain(m, f);

	if (size != (int64_t)f->size) {
		wrong(m, "%s is %lld bytes long, not %llu", f->path, (long long)size,
		      (unsigned long long)f->size);
		return;
	}
	if (!memcmp(m->scratch, f->data, f->size))
		return;
	for (uint64_t i = 0; i < f->size; i++)
		if (m->scratch[i] != f->data[i]) {
			wrong(m, "%s: byte %llu of %llu is 0x%02x, not 0x%02x", f->path,
			      (unsigned long long)i, (unsigned long long)f->size, m->scratch[i],
			      f->data[i]);
			return;
		}
}

/* ------------------------------------------------------------- finishing */

static void describe(const struct slot *s, char *buf, size_t len)
{
	snprintf(buf, len, "%s%s of %llu bytes at %llu in %u pieces%s%s",
		 s->truncates ? "truncating " : "",
		 s->opcode == PENSTOCK_READ    ? "read"
		 : s->opcode == PENSTOCK_WRITE ? "write"
					       : "sync",
		 (unsigned long long)s->len, (unsigned long long)s->off, s->nr_iov,
		 s->by_callback ? ", by callback" : "", s->cancelled ? ", cancelled" : "");
}

static bool outside_is_untouched(const struct slot *s)
{
	const unsigned char *p = s->used_from;

	for (unsigned i = 0; i <= s->nr_iov; i++) {
		const unsigned char *end = i < s->nr_iov ? s->iov[i].addr : s->used_to;

		for (; p < end; p++)
			if (*p != CANARY)
				return false;
		if (i < s->nr_iov)
			p += s->iov[i].len;
	}
	return true;
}

/* Does the memory of @s hold @want, as far as @len bytes? */
static bool memory_is(const struct slot *s, const unsigned char *want, uint64_t len)
{
	for (unsigned i = 0; i < s->nr_iov && len; i++) {
		uint64_t n = s->iov[i].len < len ? s->iov[i].len : len;

		if (n && memcmp(s->iov[i].addr, want, n))
			return false;
		want += n;
		len -= n;
	}
	return true;
}

static void apply(struct slot *s, uint64_t bytes)
{
	unsigned char *to = s->f->data + s->off;
	uint64_t left = bytes;

	for (unsigned i = 0; i < s->nr_iov && left; i++) {
		uint64_t n = s->iov[i].len < left ? s->iov[i].len : left;

		if (n)
			memcpy(to, s->iov[i].addr, n);
		to += n;
		left -= n;
	}
	if (bytes && s->off + bytes > s->f->size)
		s->f->size = s->off + bytes;
}

static void settle_file(struct model *m, struct mfile *f, const struct slot *but);

static bool in_unresolved(const struct model *m, const struct mfile *f, uint64_t at)
{
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		const struct slot *s = &m->slots[i];

		if (s->unresolved && s->f == f && at >= s->off && at < s->off + s->len)
			return true;
	}
	return false;
}

/*
 * A write that failed after @done.bytes: what follows in its range may be old
 * or new, and nothing else.  See what it is, and go on from there.
 */
static void adopt(struct model *m, struct slot *s)
{
	struct mfile *f = s->f;
	uint64_t old_size = f->size, max = old_size, min = old_size;
	unsigned char *fresh = calloc(1, m->c->max_size + 1);
	uint64_t at = s->off;
	int64_t size;
	char what[200];

	if (!fresh) {
		wrong(m, "no memory for the test");
		return;
	}
	s->unresolved = true;
	settle_file(m, f, s); /* the others, which may have made the file longer */
	if (m->bad)
		goto out;
	if (f->size > old_size)
		max = min = old_size = f->size;
	for (unsigned i = 0; i < s->nr_iov; i++) {
		memcpy(fresh + at, s->iov[i].addr, s->iov[i].len);
		at += s->iov[i].len;
	}
	describe(s, what, sizeof(what));
	size = read_plain(m, f);
	if (s->done.bytes && s->off + s->done.bytes > min)
		max = min = s->off + s->done.bytes;
	if (!s->alone && s->off + s->len > max)
		max = s->off + s->len;
	if (s->truncates) {
		min = s->off + s->done.bytes < min ? s->off + s->done.bytes : min;
		max = s->off + s->len > max ? s->off + s->len : max;
	}
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		const struct slot *o = &m->slots[i];

		if (o != s && o->unresolved && o->f == f && o->off + o->len > max)
			max = o->off + o->len;
	}
	if (size < (int64_t)min || size > (int64_t)max) {
		wrong(m,
		      "%s: after a failed %s (%lld, %llu bytes) it is %lld bytes long, not "
		      "%llu..%llu",
		      f->path, what, (long long)s->done.res, (unsigned long long)s->done.bytes,
		      (long long)size, (unsigned long long)min, (unsigned long long)max);
		goto out;
	}
	for (uint64_t i = 0; i < (uint64_t)size; i++) {
		bool inside = i >= s->off && i < s->off + s->len;
		bool moved = inside && i < s->off + s->done.bytes;
		unsigned char got = m->scratch[i];

		if (moved ? got == fresh[i] : got == f->data[i] || (inside && got == fresh[i]))
			continue;
		if (!inside && in_unresolved(m, f, i))
			continue;
		wrong(m, "%s: after a failed %s (%lld, %llu bytes) byte %llu is 0x%02x", f->path,
		      what, (long long)s->done.res, (unsigned long long)s->done.bytes,
		      (unsigned long long)i, got);
		goto out;
	}
	memcpy(f->data, m->scratch, (size_t)size);
	memset(f->data + size, 0, m->c->max_size - (uint64_t)size);
	f->size = (uint64_t)size;
out:
	s->unresolved = false;
	free(fresh);
}

/* Look at a finished operation and carry it out on the model. */
static void finish(struct model *m, struct slot *s)
{
	const struct penstock_done *d = &s->done;
	struct mfile *f = s->f;
	char what[200];
	uint64_t want = s->opcode == PENSTOCK_SYNC ? 0 : s->len;

	describe(s, what, sizeof(what));
	m->r->ops++;
	m->r->bytes += d->bytes;
	m->r->direct += (d->flags & PENSTOCK_DONE_DIRECT) != 0;
	if (d->bytes > s->len)
		wrong(m, "%s: %llu bytes", what, (unsigned long long)d->bytes);
	if (!outside_is_untouched(s))
		wrong(m, "%s: bytes outside its memory were written", what);
	if (d->res < 0) {
		if (d->res == -ECANCELED && s->cancelled)
			m->r->cancelled++;
		else if (m->c->may_fail && d->res == -m->c->may_fail)
			m->r->failed++;
		else
			wrong(m, "%s failed: %lld (%s)", what, (long long)d->res, d->msg);
		if (!d->msg[0])
			wrong(m, "%s failed without a message", what);
		if (m->bad)
			goto out;
		if (s->opcode == PENSTOCK_WRITE)
			adopt(m, s);
		else if (s->opcode == PENSTOCK_READ && !memory_is(s, f->data + s->off, d->bytes))
			wrong(m, "%s: wrong data before the failure", what);
		goto out;
	}
	if (s->opcode == PENSTOCK_READ) {
		want = s->off >= f->size ? 0 : f->size - s->off;
		want = want < s->len ? want : s->len;
		if (want < s->len && !(d->flags & PENSTOCK_DONE_EOF))
			wrong(m, "%s is short and does not say so", what);
	}
	if (d->res != (int64_t)want || d->bytes != want)
		wrong(m, "%s of a file of %llu: %lld, %llu bytes (%s)", what,
		      (unsigned long long)f->size, (long long)d->res, (unsigned long long)d->bytes,
		      d->msg);
	if (m->bad)
		goto out;
	if (s->opcode == PENSTOCK_READ && !memory_is(s, f->data + s->off, want))
		wrong(m, "%s: wrong data", what);
	if (s->opcode == PENSTOCK_WRITE) {
		apply(s, s->len);
		if (s->truncates) {
			f->size = s->off + s->len;
			memset(f->data + f->size, 0, m->c->max_size - f->size);
		}
	}
out:
	s->busy = false;
}

static void settle(struct model *m, struct slot *s)
{
	int r;

	if (!s->busy)
		return;
	if (s->by_callback) {
		while (sem_wait(&s->finished) < 0)
			;
	} else {
		r = penstock_wait(m->io, s->ticket, -1, &s->done);
		if (r < 0) {
			wrong(m, "wait: %d", r);
			s->busy = false;
			return;
		}
	}
	s->busy = false;
	finish(m, s);
}

static void settle_file(struct model *m, struct mfile *f, const struct slot *but)
{
	for (unsigned i = 0; i < NR_SLOTS; i++)
		if (&m->slots[i] != but && m->slots[i].busy && m->slots[i].f == f)
			settle(m, &m->slots[i]);
}

static void settle_all(struct model *m)
{
	for (unsigned i = 0; i < NR_SLOTS; i++)
		settle(m, &m->slots[i]);
}

/* Collect whichever are finished. */
static void settle_any(struct model *m)
{
	struct penstock_done d[4];
	struct slot *hit[4];
	unsigned min = (unsigned)pick(m, 3);
	int n = penstock_wait_any(m->io, d, min, 4, min ? -1 : 0);

	if (n < 0 || n > 4) {
		wrong(m, "wait_any: %d", n);
		return;
	}
	for (int i = 0; i < n; i++) {
		hit[i] = d[i].tag < NR_SLOTS ? &m->slots[d[i].tag] : NULL;
		if (!hit[i] || !hit[i]->busy || hit[i]->ticket != d[i].ticket) {
			wrong(m, "wait_any: tag %llu", (unsigned long long)d[i].tag);
			return;
		}
		hit[i]->done = d[i];
		hit[i]->busy = false;
		hit[i]->unresolved = d[i].res < 0 && hit[i]->opcode == PENSTOCK_WRITE;
	}
	/* to see what a failed one left, the others must be known */
	for (int i = 0; i < n && !m->bad; i++)
		if (d[i].res >= 0)
			finish(m, hit[i]);
	for (int i = 0; i < n && !m->bad; i++)
		if (d[i].res < 0)
			finish(m, hit[i]);
}

/* ------------------------------------------------------------ submitting */

static void called_back(void *arg, const struct penstock_done *done)
{
	struct slot *s = arg;

	s->done = *done;
	sem_post(&s->finished);
}

static uint64_t pick_len(struct model *m)
{
	uint64_t max = m->c->max_len;

	switch (pick(m, 8)) {
	case 0:
		return pick(m, 17);
	case 1:
	case 2:
		return pick(m, max < 700 ? max : 700);
	case 3:
		return pick(m, max < 5000 ? max : 5000);
	case 4:
		return pick(m, (max < 65536 ? max : 65536) / 512 + 1) * 512;
	case 5:
	case 6:
		return pick(m, (max < 65536 ? max : 65536) / 4096 + 1) * 4096;
	default:
		return pick(m, max + 1);
	}
}

static uint64_t pick_off(struct model *m, const struct mfile *f, uint64_t len)
{
	uint64_t room = m->c->max_size - len + 1;

	switch (pick(m, 6)) {
	case 0: /* near the end */
		return f->size < room ? f->size : room - 1;
	case 1:
		return pick(m, (room + 511) / 512) * 512;
	case 2:
		return pick(m, (room + 4095) / 4096) * 4096;
	default:
		return pick(m, room);
	}
}

/* Cut the memory of a slot in pieces at odd places, with canaries around each. */
static void lay_out(struct model *m, struct slot *s)
{
	static const unsigned shifts[] = {0, 0, 0, 1, 3, 512, 4095, 8};
	unsigned char *p = s->arena + 4096 + shifts[pick(m, 8)];
	uint64_t left = s->len;

	s->nr_iov = pick(m, 3) ? 1 : 1 + (unsigned)pick(m, NR_PIECES);
	s->used_from = p - GAP;
	for (unsigned i = 0; i < s->nr_iov; i++) {
		uint64_t n = i + 1 == s->nr_iov ? left : pick(m, left + 1);

		memset(p - GAP, CANARY, GAP);
		s->iov[i] = (struct penstock_iov){p, n};
		left -= n;
		p += n;
		memset(p, CANARY, GAP);
		s->used_to = p + GAP;
		p += GAP;
	}
}

static void fill(struct model *m, struct slot *s)
{
	m->stamp++;
	for (unsigned i = 0; i < s->nr_iov; i++) {
		if (s->opcode == PENSTOCK_WRITE)
			penstock_pattern_fill(s->iov[i].addr, s->iov[i].len, m->stamp, i * 77);
		else if (s->iov[i].len)
			memset(s->iov[i].addr, 0x11, s->iov[i].len);
	}
}

static bool overlap(const struct slot *a, const struct slot *b)
{
	return a->off < b->off + b->len && b->off < a->off + a->len;
}

/* May @s be in flight together with @other? */
static bool in_the_way(const struct slot *s, const struct slot *other)
{
	bool writes = s->opcode == PENSTOCK_WRITE || other->opcode == PENSTOCK_WRITE;
	bool past_end = (s->opcode == PENSTOCK_READ && s->off + s->len > s->f->size) ||
			(other->opcode == PENSTOCK_READ && other->off + other->len > s->f->size);

	if (s->f != other->f)
		return false;
	if (s->truncates || other->truncates)
		return true;
	if (past_end && (s->extends || other->extends))
		return true;
	return writes && overlap(s, other);
}

static void make_way(struct model *m, struct slot *s)
{
	s->alone = true;
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		struct slot *other = &m->slots[i];

		if (other == s || !other->busy)
			continue;
		if (in_the_way(s, other))
			settle_file(m, s->f, s);
	}
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		struct slot *other = &m->slots[i];

		if (other == s || !other->busy || other->f != s->f)
			continue;
		if (s->extends)
			other->alone = false;
		if (other->extends)
			s->alone = false;
	}
}

static void set_memory_kind(const struct model *m, const struct slot *s, struct penstock_op *op,
			    struct penstock_iov *iov)
{
	for (unsigned i = 0; i < s->nr_iov; i++) {
		iov[i] = s->iov[i];
		if (m->c->address)
			iov[i].addr = m->c->address(iov[i].addr);
	}
	if (s->nr_iov == 1) {
		op->buf = iov[0].addr;
		op->len = s->len;
	} else {
		op->iov = iov;
		op->nr_iov = s->nr_iov;
	}
}

static void submit(struct model *m, struct slot *s)
{
	struct penstock_op op = {.opcode = s->opcode, .offset = s->off};
	struct penstock_err err = {0, ""};
	struct penstock_iov iov[NR_PIECES];
	unsigned how = (unsigned)pick(m, 4);
	char what[200];
	int r;

	op.tag = (uint64_t)(s - m->slots);
	if (s->truncates)
		op.flags |= PENSTOCK_OP_TRUNCATE;
	if (s->opcode == PENSTOCK_WRITE && pick(m, 50) == 0)
		op.flags |= PENSTOCK_OP_DATASYNC;
	switch (pick(m, 4)) {
	case 0:
		op.path = s->f->path;
		break;
	case 1:
		op.fd = s->f->fd;
		break;
	default:
		op.file = s->f->file;
	}
	set_memory_kind(m, s, &op, iov);
	describe(s, what, sizeof(what));
	if (how == 0) {
		r = penstock_run(m->io, &op, &s->done, &err);
		if (r < 0)
			wrong(m, "%s was refused: %d (%s)", what, r, err.msg);
		else
			finish(m, s);
		return;
	}
	if (how == 1) {
		s->by_callback = true;
		op.on_done = called_back;
		op.arg = s;
	}
	r = penstock_submit(m->io, &op, 1, &s->ticket, &err);
	if (r != 1) {
		wrong(m, "%s was refused: %d (%s)", what, r, err.msg);
		return;
	}
	s->busy = true;
}

static void new_operation(struct model *m)
{
	struct slot *s = NULL;
	unsigned from = (unsigned)pick(m, NR_SLOTS);
	uint64_t size;

	for (unsigned i = 0; i < NR_SLOTS && !s; i++)
		if (!m->slots[(from + i) % NR_SLOTS].busy)
			s = &m->slots[(from + i) % NR_SLOTS];
	if (!s) {
		s = &m->slots[from];
		settle(m, s);
	}
	s->cancelled = s->by_callback = s->truncates = s->unresolved = false;
	s->f = &m->files[pick(m, m->c->nr_files)];
	s->opcode = pick(m, 60) == 0 ? PENSTOCK_SYNC : pick(m, 2) ? PENSTOCK_READ : PENSTOCK_WRITE;
	s->len = s->opcode == PENSTOCK_SYNC ? 0 : pick_len(m);
	s->off = pick_off(m, s->f, s->len);
	if (s->opcode == PENSTOCK_WRITE && !m->c->device)
		s->truncates = pick(m, 30) == 0;
	do { /* making way may change the size of the file */
		size = s->f->size;
		s->extends = s->opcode == PENSTOCK_WRITE && s->off + s->len > size;
		make_way(m, s);
	} while (s->f->size != size);
	lay_out(m, s);
	fill(m, s);
	if (s->opcode == PENSTOCK_SYNC)
		s->nr_iov = 1;
	if (!m->bad)
		submit(m, s);
}

static void cancel_one(struct model *m)
{
	struct slot *s = &m->slots[pick(m, NR_SLOTS)];
	int r;

	if (!s->busy || s->by_callback)
		return;
	r = penstock_cancel(m->io, s->ticket);
	if (r != 0 && r != -EALREADY)
		wrong(m, "cancel: %d", r);
	if (r == 0)
		s->cancelled = true;
}

/* ------------------------------------------------------------ the handle */

static void close_handle(struct model *m)
{
	struct penstock_err err = {0, ""};
	int r;

	if (!m->io)
		return;
	settle_all(m);
	r = penstock_close(m->io, &err);
	m->io = NULL;
	if (r < 0)
		wrong(m, "close: %d (%s)", r, err.msg);
	for (unsigned i = 0; i < m->c->nr_files; i++) {
		if (m->files[i].fd >= 0)
			close(m->files[i].fd);
		m->files[i].fd = -1;
		m->files[i].file = NULL;
		if (!m->bad)
			verify_file(m, &m->files[i]);
	}
}

static void open_handle(struct model *m)
{
	static const uint64_t blocks[] = {0, 512, 4096, 16384, 65536, 3584};
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};
	int r;

	o.engine = m->c->engine;
	o.block = blocks[pick(m, 6)];
	o.depth = 1 + (uint32_t)pick(m, 16);
	o.threads = 1 + (uint32_t)pick(m, 3);
	o.flags = (uint32_t)pick(m, 4); /* SINGLE_SUBMIT, NO_OVERLAP */
	o.direct = pick(m, 4) ? PENSTOCK_DIRECT_AUTO : PENSTOCK_DIRECT_NEVER;
	r = penstock_open(&m->io, &o, &err);
	if (r < 0) {
		m->io = NULL;
		wrong(m, "open: %d (%s)", r, err.msg);
		return;
	}
	for (unsigned i = 0; i < m->c->nr_files && !m->bad; i++) {
		struct mfile *f = &m->files[i];
		int direct = pick(m, 2) ? O_DIRECT : 0;

		f->fd = open(f->path, O_RDWR | O_CLOEXEC | direct);
		if (f->fd < 0)
			f->fd = open(f->path, O_RDWR | O_CLOEXEC);
		r = penstock_file_open(&f->file, m->io, f->path, O_RDWR, 0, &err);
		if (f->fd < 0 || r < 0)
			wrong(m, "%s: %d (%s)", f->path, r, err.msg);
	}
	if (pick(m, 2) && m->io && !m->bad)
		penstock_buf_register(m->io, m->arenas, m->arena_size * NR_SLOTS / 2, 0, NULL,
				      NULL);
}

/* ----------------------------------------------------------------- whole */

static bool make_striped(struct model *m, struct mfile *f)
{
	static const uint64_t units[] = {4096, 12288, 69632, 1 << 20};
	const char *in[5] = {m->c->dir, m->c->dir, m->c->dir, m->c->dir, m->c->dir};
	struct penstock_err err = {0, ""};
	int r = penstock_stripe_create(f->path, units[pick(m, 4)], in, 2 + (unsigned)pick(m, 4), 0,
				       &err);

	if (r < 0)
		wrong(m, "%s", err.msg);
	return r == 0;
}

static bool prepare(struct model *m)
{
	/* a page before, and the shift of lay_out() */
	m->arena_size = (m->c->max_len + 3 * 4096 + (NR_PIECES + 2) * GAP + 4095) / 4096 * 4096;
	m->arenas = m->c->memory ? m->c->memory(m->arena_size * NR_SLOTS)
				 : aligned_alloc(4096, m->arena_size * NR_SLOTS);
	m->scratch = malloc(m->c->max_size + 4096);
	if (!m->arenas || !m->scratch)
		return false;
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		m->slots[i].arena = m->arenas + i * m->arena_size;
		sem_init(&m->slots[i].finished, 0, 0);
	}
	for (unsigned i = 0; i < m->c->nr_files; i++) {
		struct mfile *f = &m->files[i];
		int fd;

		f->fd = -1;
		f->data = calloc(1, m->c->max_size + 1);
		if (!f->data)
			return false;
		if (m->c->device)
			snprintf(f->path, sizeof(f->path), "%s", m->c->device);
		else
			snprintf(f->path, sizeof(f->path), "%s/model-%u", m->c->dir, i);
		if (m->c->striped) {
			if (!make_striped(m, f))
				return false;
			continue;
		}
		fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | (m->c->device ? 0 : O_TRUNC),
			  0644);
		if (fd < 0)
			return false;
		if (m->c->device) {
			f->size = m->c->max_size;
			if (pwrite(fd, f->data, f->size, 0) != (ssize_t)f->size)
				return false;
		}
		close(fd);
	}
	return true;
}

bool model_run(const struct model_config *config, const struct model_source *source,
	       struct model_result *result)
{
	struct model *m = calloc(1, sizeof(*m));
	bool ok;

	memset(result, 0, sizeof(*result));
	if (!m)
		return false;
	m->c = config;
	m->s = source;
	m->r = result;
	if (!prepare(m))
		wrong(m, "cannot make the files of the test: %s", strerror(errno));
	if (!m->bad)
		open_handle(m);
	while (!m->bad && source->more(source->arg)) {
		uint64_t what = pick(m, 16);

		if (what == 0)
			settle_any(m);
		else if (what == 1)
			settle(m, &m->slots[pick(m, NR_SLOTS)]);
		else if (what == 2)
			cancel_one(m);
		else
			new_operation(m);
		if (!m->bad && pick(m, config->reopen_every) == 0) {
			close_handle(m);
			if (!m->bad)
				open_handle(m);
		}
	}
	if (m->bad) /* what is in flight uses our memory */
		penstock_close(m->io, NULL);
	else
		close_handle(m);
	for (unsigned i = 0; i < config->nr_files; i++) {
		free(m->files[i].data);
		if (config->striped)
			penstock_stripe_remove(m->files[i].path, NULL);
		else if (!config->device)
			unlink(m->files[i].path);
		if (m->files[i].fd >= 0)
			close(m->files[i].fd);
	}
	for (unsigned i = 0; i < NR_SLOTS; i++)
		sem_destroy(&m->slots[i].finished);
	if (!config->memory)
		free(m->arenas);
	free(m->scratch);
	ok = !m->bad;
	free(m);
	return ok;
}
