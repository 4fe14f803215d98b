/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit to measure against: the smallest io_uring loop that moves one whole
 * buffer, each byte of it once, between a file and memory on huge pages.
 *
 *	perf-bare read|load|overwrite|fresh FILE SIZE [BLOCK [DEPTH [MEMORY [random]]]]
 *
 * With MEMORY, the buffer has so many bytes, and is used again and again.  With random, blocks are
 * anywhere in the file, SIZE bytes of them in all.  load is read into memory
 * that nobody has touched yet, which is what a loader has to give its caller.
 *
 * It does what the best simple loop does and nothing else: one thread, one ring
 * with SINGLE_ISSUER and DEFER_TASKRUN, the buffer, the file and the ring itself
 * registered with the kernel, one system call to submit what there is room for and
 * to wait for at least one completion.  It has no alignment, no error handling
 * beyond giving up, and one file.
 *
 * The clock starts when memory is filled and registered, the file is open, and the
 * same transfer has been done WARM_UP times.  For a fresh write creating the file and fallocate()
 * of its size are inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure.h"

enum { HUGE = 2 << 20, MOST_BUFFERS = 64 };

#define REGISTERED (1ULL << 30) /* bytes of one, at most */

struct job {
	struct io_uring ring;
	const char *path;
	char *buf;
	uint64_t size;
	uint64_t memory;
	unsigned block;
	unsigned depth;
	bool write;
	bool fresh;
	bool load;
	bool random;
	bool fixed;      /* is the buffer registered? */
	uint64_t blocks; /* of the file, and a number that */
	uint64_t state;  /* no two runs of a transfer begin with */
};

static char *huge_alloc(uint64_t size)
{
	char *p =
		mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory for %" PRIu64 " bytes", size);
	p += (HUGE - (uintptr_t)p % HUGE) % HUGE;
	madvise(p, size, MADV_HUGEPAGE);
	fill(p, size);
	return p;
}

static void ring_open(struct job *j)
{
	struct iovec iov[MOST_BUFFERS];
	unsigned nr = 0;
	int r = io_uring_queue_init(j->depth, &j->ring,
				    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);

	if (r == -EINVAL) /* before Linux 6.1 */
		r = io_uring_queue_init(j->depth, &j->ring, 0);
	if (r < 0)
		die("io_uring: %s", strerror(-r));
	io_uring_register_ring_fd(&j->ring);
	for (uint64_t at = 0; at < j->memory && nr < MOST_BUFFERS; at += REGISTERED, nr++)
		iov[nr] = (struct iovec){j->buf + at,
					 j->memory - at < REGISTERED ? j->memory - at : REGISTERED};
	/* Refused by RLIMIT_MEMLOCK; the result says so. */
	j->fixed = !j->load && nr * REGISTERED >= j->memory &&
		   io_uring_register_buffers(&j->ring, iov, nr) == 0;
}

static void file_open(struct job *j)
{
	int flags = j->fresh ? O_RDWR | O_CREAT | O_TRUNC : j->write ? O_RDWR : O_RDONLY;
	int fd = open(j->path, flags | O_DIRECT | O_CLOEXEC, 0644);

	if (fd < 0)
		die("%s: %s", j->path, strerror(errno));
	j->blocks = (uint64_t)lseek(fd, 0, SEEK_END) / j->block;
	if (j->random && !j->blocks)
		die("%s: is smaller than a block", j->path);
	if (j->fresh && fallocate(fd, 0, 0, (off_t)j->size) < 0)
		die("%s: fallocate: %s", j->path, strerror(errno));
	if (io_uring_register_files(&j->ring, &fd, 1) < 0)
		die("%s: cannot be registered", j->path);
	close(fd); /* the ring holds it */
}

static void file_remove(struct job *j)
{
	io_uring_unregister_files(&j->ring);
	unlink(j->path);
}

/* xorshift64 */
static uint64_t anywhere(struct job *j)
{
	j->state ^= j->state << 13;
	j->state ^= j->state >> 7;
	j->state ^= j->state << 17;
	return j->state % j->blocks * j->block;
}

static void queue_block(struct job *j, uint64_t at)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&j->ring);
	uint64_t left = j->size - at;
	uint64_t offset = j->random ? anywhere(j) : at;
	unsigned len = left < j->block ? (unsigned)left : j->block;
	char *buf = j->buf + at % j->memory;
	int piece = (int)(at % j->memory / REGISTERED);

	if (j->write && j->fixed)
		io_uring_prep_write_fixed(sqe, 0, buf, len, offset, piece);
	else if (j->write)
		io_uring_prep_write(sqe, 0, buf, len, offset);
	else if (j->fixed)
		io_uring_prep_read_fixed(sqe, 0, buf, len, offset, piece);
	else
		io_uring_prep_read(sqe, 0, buf, len, offset);
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = len;
}

static unsigned reap(struct job *j)
{
	struct io_uring_cqe *cqe;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&j->ring, head, cqe) {
		if (cqe->res < 0)
			die("%s: %s", j->path, strerror(-cqe->res));
		if ((uint64_t)cqe->res != cqe->user_data)
			die("%s: %d bytes instead of %u", j->path, cqe->res,
			    (unsigned)cqe->user_data);
		n++;
	}
	io_uring_cq_advance(&j->ring, n);
	return n;
}

static void move(struct job *j)
{
	uint64_t next = 0;
	unsigned flying = 0;

	while (next < j->size || flying) {
		for (; next < j->size && flying < j->depth; next += j->block, flying++)
			queue_block(j, next);
		io_uring_submit_and_wait(&j->ring, 1);
		flying -= reap(j);
	}
}

int main(int argc, char **argv)
{
	struct job j = {.block = 1 << 20, .depth = 32, .state = 0x9e3779b97f4a7c15};
	struct span t;

	j.random = argc == 8 && !strcmp(argv[7], "random");
	if (argc < 4 || argc > 7 + j.random)
		die("usage: perf-bare read|load|overwrite|fresh FILE SIZE [BLOCK [DEPTH "
		    "[MEMORY [random]]]]");
	j.fresh = !strcmp(argv[1], "fresh");
	j.write = j.fresh || !strcmp(argv[1], "overwrite");
	j.load = !strcmp(argv[1], "load");
	if (!j.write && !j.load && strcmp(argv[1], "read") != 0)
		die("%s: neither read, load, overwrite nor fresh", argv[1]);
	j.path = argv[2];
	j.size = size_arg(argv[3]);
	if (argc > 4)
		j.block = (unsigned)size_arg(argv[4]);
	if (argc > 5)
		j.depth = (unsigned)size_arg(argv[5]);
	j.memory = argc > 6 ? size_arg(argv[6]) : j.size;
	if (j.random && (j.fresh || j.size % j.block))
		die("random: of a file that is there, and whole blocks");
	if ((j.memory > REGISTERED && REGISTERED % j.block) ||
	    (j.memory < j.size && j.memory % j.block))
		die("%s: 1 GiB and MEMORY are not so many blocks", argv[4]);

	j.buf = huge_alloc(j.memory);
	ring_open(&j);
	file_open(&j);
	for (int i = 0; i < WARM_UP; i++)
		move(&j);
	if (j.fresh)
		file_remove(&j);
	if (j.load)
		madvise(j.buf, j.memory, MADV_DONTNEED);
	t = span_start();
	if (j.fresh)
		file_open(&j);
	move(&j);
	t = span_since(t);
	printf("{\"mode\": \"%s\", \"bytes\": %" PRIu64 ", \"seconds\": %.6f, "
	       "\"cpu_seconds\": %.6f, \"huge_bytes\": %" PRIu64 ", \"registered\": %s}\n",
	       argv[1], j.size, t.wall, t.cpu, huge_bytes(), j.fixed ? "true" : "false");
	return 0;
}
