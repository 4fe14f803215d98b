/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints against what the device can do.
 *
 *	perf-ckpt MODE FILE SIZE
 *
 *	limit-save   the smallest io_uring loop that writes SIZE bytes to a new file with O_DIRECT,
 *	             fallocate() before and fsync() behind it
 *	save         the same bytes through a checkpoint writer, out of ordinary memory, committed
 *	save-plain   ... without checksums
 *	limit-load   that loop, reading
 *	load         all of FILE by a checkpoint reader into ordinary memory, verified
 *	load-plain   ... without verification
 *	load-small   as 10,000 ranges of different length, in no order
 *	save-large   SIZE bytes out of 64 MiB, again and again: own_kib is all the memory there is
 *	load-large   such a file through the same 64 MiB, verified
 *
 * Of a large one every page has one word in it, over and over, so that a device of memory that
 * compresses (zram) holds more than there is memory.  It is written and read once.
 *
 * Memory is filled before the clock starts, and, of what is not large, the same was done once
 * before.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/ckpt.h>

#include "measure.h"

enum { BLOCK = 4 << 20, DEPTH = 8, PIECES = 10000, LARGE = 64 << 20 };

static const char *mode, *path;
static uint64_t size;
static uint64_t room; /* of @memory: SIZE, or what a large one goes through */
static char *memory;

static void check(int64_t r, const struct penstock_err *err)
{
	if (r < 0)
		die("%s", err->msg);
}

/* ------------------------------------------------------------------------ the limit */

static void loop(int fd, bool write)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	uint64_t next = 0, done = 0;
	unsigned flight = 0;

	if (io_uring_queue_init(DEPTH, &ring, 0) < 0)
		die("no io_uring");
	while (done < size) {
		for (; flight < DEPTH && next < size; flight++, next += BLOCK) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
			unsigned n = size - next < BLOCK ? (unsigned)(size - next) : BLOCK;

			if (write)
				io_uring_prep_write(sqe, fd, memory + next, n, next);
			else
				io_uring_prep_read(sqe, fd, memory + next, n, next);
		}
		io_uring_submit_and_wait(&ring, 1);
		while (io_uring_peek_cqe(&ring, &cqe) == 0) {
			if (cqe->res <= 0)
				die("%s: %s", path, strerror(-cqe->res));
			done += (unsigned)cqe->res;
			flight--;
			io_uring_cqe_seen(&ring, cqe);
		}
	}
	io_uring_queue_exit(&ring);
}

static void limit_save(void)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);

	if (fd < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)
		die("%s: %s", path, strerror(errno));
	loop(fd, true);
	if (fsync(fd) < 0)
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static void limit_load(void)
{
	int fd = open(path, O_RDONLY | O_DIRECT);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	loop(fd, false);
	close(fd);
}

/* --------------------------------------------------------------------------- penstock */

static void save(struct penstock_io *io, uint32_t flags)
{
	struct penstock_writer_opts o = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_writer *w;
	struct penstock_err err;

	o.flags = flags;
	o.expected = size;
	check(penstock_writer_open(&w, io, path, &o, &err), &err);
	for (uint64_t at = 0, n; at < size; at += n) {
		n = size - at < 50000001 ? size - at : 50000001; /* tensors */
		check(penstock_writer_write(w, memory + (room < size ? 0 : at), n, &err), &err);
	}
	check(penstock_writer_commit(w, &err), &err);
}

/* Neighbours in a file, in an order of their own. */
static void cut(struct penstock_piece *p)
{
	uint64_t x = 88172645463325252u, at = 0, each = size / PIECES;

	for (unsigned i = 0; i < PIECES; i++) {
		uint64_t len = i == PIECES - 1 ? size - at : each / 2 + random_next(&x) % each;

		len = at + len > size ? size - at : len;
		p[i] = (struct penstock_piece){at, len, memory + at};
		at += len;
	}
	for (unsigned i = PIECES - 1; i > 0; i--) {
		unsigned k = (unsigned)(random_next(&x) % (i + 1));
		struct penstock_piece t = p[i];

		p[i] = p[k];
		p[k] = t;
	}
}

static void load(struct penstock_io *io, bool verify, bool small)
{
	static struct penstock_piece pieces[PIECES];
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	struct penstock_reader *r;
	struct penstock_err err;

	o.verify = verify ? PENSTOCK_VERIFY_ALWAYS : PENSTOCK_VERIFY_NEVER;
	check(penstock_reader_open(&r, io, path, &o, &err), &err);
	pieces[0] = (struct penstock_piece){0, size, memory};
	if (small)
		cut(pieces);
	check(penstock_reader_fetch(r, pieces, small ? PIECES : 1, &err), &err);
	penstock_reader_close(r);
}

static void load_large(struct penstock_io *io)
{
	struct penstock_reader_opts o = PENSTOCK_READER_OPTS_INIT;
	struct penstock_reader *r;
	struct penstock_err err;
	int64_t n = 1;

	o.verify = PENSTOCK_VERIFY_ALWAYS;
	check(penstock_reader_open(&r, io, path, &o, &err), &err);
	while (n > 0) {
		n = penstock_reader_read(r, memory, room, &err);
		check(n, &err);
	}
	penstock_reader_close(r);
}

static void once(struct penstock_io *io)
{
	if (!strcmp(mode, "limit-save"))
		limit_save();
	else if (!strcmp(mode, "limit-load"))
		limit_load();
	else if (!strcmp(mode, "load-large"))
		load_large(io);
	else if (!strcmp(mode, "save") || !strcmp(mode, "save-large"))
		save(io, 0);
	else if (!strcmp(mode, "save-plain"))
		save(io, PENSTOCK_WRITER_NO_CRC);
	else if (!strcmp(mode, "load"))
		load(io, true, false);
	else if (!strcmp(mode, "load-plain"))
		load(io, false, false);
	else if (!strcmp(mode, "load-small"))
		load(io, true, true);
	else
		die("%s: see the top of ckpt.c", mode);
}

static void fill_words(void)
{
	uint64_t *p = (uint64_t *)memory;

	for (uint64_t i = 0; i < room / sizeof(*p); i++)
		p[i] = (i / 512 + 1) * 0x9e3779b97f4a7c15u;
}

int main(int argc, char **argv)
{
	struct penstock_io *io;
	struct penstock_err err;
	struct rusage u;
	struct span t;

	if (argc != 4)
		die("see the top of ckpt.c");
	mode = argv[1];
	path = argv[2];
	size = size_arg(argv[3]);
	room = strstr(mode, "-large") && size > LARGE ? LARGE : size;
	memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("no memory");
	if (!strncmp(mode, "limit", 5))
		madvise(memory, room, MADV_HUGEPAGE);
	if (room < size)
		fill_words();
	else
		fill(memory, room);
	check(penstock_open(&io, NULL, &err), &err);
	if (room == size)
		once(io);
	t = span_start();
	once(io);
	t = span_since(t);
	getrusage(RUSAGE_SELF, &u);
	printf("{\"bytes\": %" PRIu64
	       ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"huge_bytes\": %" PRIu64
	       ", \"own_kib\": %ld}\n",
	       size, t.wall, t.cpu, size,
	       room < size ? u.ru_maxrss : u.ru_maxrss - (long)(size >> 10));
	penstock_close(io, NULL);
	return 0;
}
