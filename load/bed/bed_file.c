/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a bed.  Filling and verifying moves pieces of a few files at a time, so that
 * several devices work at once, by a handle of its own with the default settings.
 */
#include "load/bed/bed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/s3.h>
#include <penstock/stripe.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/random.h"
#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/measure/page_cache.h"
#include "load/measure/rank_barrier.h"

#define END_BYTES 4096 /* so much of each end tells whose a file is */
#define PIECE     (4u << 20)
#define SLOTS     8 /* pieces in flight, and files open */

/* --------------------------------------------------------------- one by one */

int bed_file_init(struct bed_file *f, const struct bed_folder *folder, uint64_t len,
		  struct penstock_err *err, const char *name, ...)
{
	CLEANUP_FREE char *text = NULL;
	va_list ap;
	int r;

	*f = (struct bed_file){.folder = folder, .len = len};
	va_start(ap, name);
	r = vasprintf(&text, name, ap);
	va_end(ap);
	if (r < 0)
		text = NULL;
	if (r < 0 || asprintf(&f->path, "%s/%s", folder->path, text) < 0)
		f->path = NULL;
	if (!f->path || asprintf(&f->open_path, "%s/%s", folder->open_path, text) < 0)
		f->open_path = NULL;
	if (!f->path || !f->open_path)
		return penstock_fail(err, -ENOMEM, "out of memory");
	f->name = f->path + strlen(folder->path) + 1;
	return 0;
}

static bool holds_pattern(int fd, uint64_t seed, uint64_t offset, size_t len)
{
	unsigned char buf[END_BYTES];

	return penstock_full_pread(fd, buf, len, offset) == (int64_t)len &&
	       penstock_pattern_check(buf, len, seed, offset) == len;
}

static bool both_ends_hold(const struct bed_file *f)
{
	CLEANUP_CLOSE int fd =
		openat(f->folder->fd, f->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	size_t n = (size_t)min_u64(f->len, END_BYTES);

	return fd >= 0 && holds_pattern(fd, f->seed, 0, n) &&
	       holds_pattern(fd, f->seed, f->len - n, n);
}

/* Of an object: what is there, and is it ours? */
static int inspect_object(struct bed_file *f, struct penstock_err *err)
{
	struct penstock_s3 *c = f->folder->s3;
	struct penstock_s3_info info = {.size = sizeof(info)};
	unsigned char buf[END_BYTES];
	uint64_t n = min_u64(f->len, END_BYTES);
	int r = penstock_s3_stat(c, f->open_path, &info, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	f->found = true;
	f->old_bytes = min_u64(info.bytes, f->len);
	f->full = info.bytes == f->len;
	for (unsigned end = 0; end < 2 && f->full; end++) {
		uint64_t at = end ? f->len - n : 0;

		f->full = penstock_s3_read(c, f->open_path, buf, n, at, info.etag, NULL) ==
				  (int64_t)n &&
			  penstock_pattern_check(buf, n, f->seed, at) == n;
	}
	return 0;
}

int bed_file_inspect(struct bed_file *f, bool *ret_plain, struct penstock_err *err)
{
	struct stat st;
	int64_t bytes;

	*ret_plain = true;
	if (bed_file_remote(f))
		return inspect_object(f, err);
	if (fstatat(f->folder->fd, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0;
		return penstock_fail(err, -errno, "%s: %s", f->path, penstock_strerror(errno));
	}
	*ret_plain = S_ISREG(st.st_mode);
	f->found = true;
	f->striped = *ret_plain && penstock_stripe_get_kind(f->open_path) == 1;
	bytes = penstock_stripe_bytes(f->open_path, st.st_size);
	f->old_bytes = bytes < 0 ? 0 : min_u64((uint64_t)bytes, f->len);
	if (bed_id_read(&f->id, f->folder->fd, f->name) < 0)
		return penstock_fail(err, -ESTALE, "%s: is another file now, or gone", f->path);
	f->full = *ret_plain && (uint64_t)st.st_size == f->len && both_ends_hold(f);
	return 0;
}

/* One that was found. */
static int bed_file_empty(const struct bed_file *f, struct penstock_err *err)
{
	CLEANUP_CLOSE int fd =
		openat(f->folder->fd, f->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0 && !bed_id_matches(&f->id, fd, ""))
		return penstock_fail(err, -ESTALE, "%s: is another file now", f->path);
	/* What is written over the manifest of a striped file goes to its members. */
	if (fd < 0 || (!f->striped && ftruncate(fd, 0) < 0))
		return penstock_fail(err, -errno, "%s: cannot empty: %s", f->path,
				     penstock_strerror(errno));
	return 0;
}

int bed_file_make(struct bed_file *f, struct penstock_err *err)
{
	int fd;

	if (bed_file_remote(f)) { /* it comes to be when it is written */
		f->made = !f->found;
		return 0;
	}
	if (f->found)
		return bed_file_empty(f, err);
	fd = bed_folder_add(f->folder, f->name, &f->id);
	if (fd < 0)
		return penstock_fail(err, fd, "%s: cannot create: %s", f->path,
				     penstock_strerror(fd));
	close(fd);
	f->made = true;
	return 0;
}

/* So long that nobody else has to make it longer, of a striped folder as a striped one. */
static int set_size(const struct bed_file *f, uint64_t bytes, struct penstock_err *err)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct penstock_file *file;
	struct penstock_io *io;
	char zero = 0;
	int64_t n;
	int r = penstock_open(&io, &opts, err);

	if (r < 0)
		return r;
	r = penstock_file_open(&file, io, f->open_path, bed_file_flags(f, false), 0, err);
	if (r == 0) {
		n = penstock_pwrite(file, &zero, 1, bytes - 1, err);
		r = n < 0 ? (int)n : penstock_file_close(file, err);
	}
	penstock_close(io, NULL);
	return r;
}

int bed_files_share(struct bed_file *files, unsigned nr, uint64_t len,
		    const struct bed_folder *folder, const struct bed_share *share,
		    const char *name, struct penstock_err *err)
{
	uint64_t step = align_up(len, 4096);
	int r = 0;

	for (unsigned i = 0; i < nr && r == 0; i++) {
		r = bed_file_init(&files[i], folder, len, err, "%s", name);
		files[i].from = ((uint64_t)share->rank * nr + i) * step;
	}
	if (r == 0 && !share->rank)
		r = bed_file_make(&files[0], err);
	if (r == 0 && !share->rank)
		r = set_size(&files[0], share->size * nr * step, err);
	if (r == 0)
		rank_barrier_wait();
	for (unsigned i = 0; i < nr && r == 0; i++)
		if (bed_id_read(&files[i].id, folder->fd, name) < 0)
			r = penstock_fail(err, -ESTALE, "%s: is not there, which rank 0 has made",
					  files[i].path);
	return r;
}

int bed_file_same(const struct bed_file *f, struct penstock_err *err)
{
	if (bed_file_remote(f) || bed_id_matches(&f->id, AT_FDCWD, f->open_path))
		return 0;
	return penstock_fail(err, -ESTALE, "%s: is another file now, or gone", f->path);
}

int bed_file_flags(const struct bed_file *f, bool read)
{
	if (bed_file_remote(f))
		return read ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
	return (read ? O_RDONLY : O_RDWR) | O_NOFOLLOW;
}

void bed_file_describe(const struct bed_file *f, const char *msg, char *out, size_t size)
{
	const char *found = strstr(msg, f->open_path);
	size_t before = found ? (size_t)(found - msg) : 0;

	if (found)
		snprintf(out, size, "%.*s%s%s", (int)before, msg, f->path,
			 found + strlen(f->open_path));
	else
		snprintf(out, size, "%s", msg);
}

void bed_file_fini(struct bed_file *f, bool keep)
{
	if (f->made && !keep && bed_file_remote(f))
		penstock_s3_delete(f->folder->s3, (const char *const *)&f->open_path, 1, NULL);
	else if (f->made && !keep && bed_id_matches(&f->id, f->folder->fd, f->name))
		penstock_stripe_unlink(f->folder->fd, f->name);
	free(f->path);
	free(f->open_path);
	*f = (struct bed_file){.folder = NULL};
}

/* --------------------------------------------------------- fill and verify */

struct slot {
	struct bed_file *file;
	uint64_t offset, len;
	bool busy;
};

struct mover {
	struct penstock_io *io;
	char *buf; /* a piece for each slot */
	uint64_t piece;
	bool read;
	struct bed_file_work *work;
	struct bed_file *files[SLOTS];
	struct penstock_file *open[SLOTS];
	unsigned nr;
	uint64_t next; /* piece: one of each file, then the next of each */
	struct slot slots[SLOTS];
};

/* Put the next piece into @slot: false when there is none. */
static bool next_piece(struct mover *m, struct slot *slot, unsigned *ret_file)
{
	for (unsigned past = 0; past < m->nr; m->next++) {
		struct bed_file *f = m->files[m->next % m->nr];
		uint64_t offset = m->next / m->nr * m->piece;

		if (offset >= f->len) {
			past++;
			continue;
		}
		*ret_file = (unsigned)(m->next++ % m->nr);
		*slot = (struct slot){f, offset, min_u64(m->piece, f->len - offset), true};
		return true;
	}
	return false;
}

static int start_piece(struct mover *m, unsigned i, unsigned file, struct penstock_err *err)
{
	struct slot *slot = &m->slots[i];
	struct penstock_op op = {
		.opcode = m->read ? PENSTOCK_READ : PENSTOCK_WRITE,
		.flags = m->read ? PENSTOCK_OP_EXACT : 0,
		.file = m->open[file],
		.buf = m->buf + i * m->piece,
		.len = slot->len,
		.offset = slot->file->from + slot->offset,
		.tag = i,
	};
	int r;

	if (m->read)
		bed_buf_poison(NULL, op.buf, op.len, NULL);
	else
		penstock_pattern_fill(op.buf, op.len, slot->file->seed, op.offset);
	r = penstock_submit(m->io, &op, 1, NULL, err);
	slot->busy = r > 0;
	return r < 0 ? r : 0;
}

static int end_piece(struct mover *m, const struct penstock_done *done, struct penstock_err *err)
{
	struct slot *slot = &m->slots[done->tag];
	int r = 0;

	slot->busy = false;
	if (done->res < 0) {
		err->code = (int)done->res;
		bed_file_describe(slot->file, done->msg, err->msg, sizeof(err->msg));
		return err->code;
	}
	if (m->read)
		r = bed_buf_check(NULL, m->buf + done->tag * m->piece, slot->len, slot->file->seed,
				  slot->file->from + slot->offset, slot->file->path, err);
	if (r < 0)
		return r;
	m->work->bytes += slot->len;
	rank_progress_report(m->work->bytes);
	if (m->work->progress)
		m->work->progress(m->work->arg, m->work->bytes);
	return penstock_check_stop(m->work->stop, err);
}

/* All pieces of the files that are open. */
static int move_pieces(struct mover *m, struct penstock_err *err)
{
	unsigned busy = 0, file;
	struct penstock_done done;
	int r = 0, got;

	for (m->next = 0;;) {
		for (unsigned i = 0; i < SLOTS && r == 0; i++)
			if (!m->slots[i].busy && next_piece(m, &m->slots[i], &file)) {
				r = start_piece(m, i, file, err);
				busy += r == 0;
			}
		if (!busy)
			return r;
		got = penstock_wait_any(m->io, &done, 1, 1, -1);
		if (got != 1)
			return penstock_fail(err, got < 0 ? got : -EIO,
					     "cannot wait for what is being moved");
		busy--;
		r = r < 0 ? r : end_piece(m, &done, err);
	}
}

static int move_group(struct mover *m, struct penstock_err *err)
{
	unsigned opened = 0;
	int r = 0, closed;

	for (; opened < m->nr && r == 0; opened += r == 0) {
		const struct bed_file *f = m->files[opened];

		if (m->read)
			page_cache_drop(f->open_path, f->from, f->len);
		r = bed_file_same(f, err);
		if (r == 0)
			r = penstock_file_open(&m->open[opened], m->io, f->open_path,
					       bed_file_flags(f, m->read), 0, err);
	}
	rank_progress_report(m->work->bytes);
	if (r == 0)
		r = move_pieces(m, err);
	rank_progress_end();
	for (unsigned i = 0; i < opened; i++) {
		closed = r < 0 ? penstock_file_abort(m->open[i], NULL)
			       : penstock_file_close(m->open[i], err);
		r = r < 0 ? r : closed;
		m->files[i]->full |= r == 0;
	}
	m->nr = 0;
	return r;
}

static int move_all(struct bed_file *files, unsigned nr, bool read, struct bed_file_work *work,
		    struct penstock_err *err)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct mover m = {.read = read, .work = work};
	void *buf;
	int r;

	for (unsigned i = 0; i < nr; i++)
		if (files[i].full == read)
			m.piece = max_u64(m.piece, align_up(min_u64(files[i].len, PIECE), 4096));
	if (!m.piece)
		return 0;
	opts.s3 = files[0].folder->s3;
	r = penstock_open(&m.io, &opts, err);
	if (r < 0)
		return r;
	r = penstock_buf_alloc(&buf, m.io, SLOTS * m.piece, 0, NULL, err);
	m.buf = buf;
	for (unsigned i = 0; i < nr && r == 0; i++) {
		if (files[i].full == read)
			m.files[m.nr++] = &files[i];
		if (m.nr == SLOTS)
			r = move_group(&m, err);
	}
	if (r == 0)
		r = move_group(&m, err);
	penstock_close(m.io, NULL);
	return r;
}

int bed_files_fill(struct bed_file *files, unsigned nr, struct bed_file_work *work,
		   struct penstock_err *err)
{
	return move_all(files, nr, false, work, err);
}

int bed_files_verify(struct bed_file *files, unsigned nr, struct bed_file_work *work,
		     struct penstock_err *err)
{
	return move_all(files, nr, true, work, err);
}
