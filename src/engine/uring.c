/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring engine: one queue pair per I/O thread, created and used by that thread
 * alone, so that the kernel may defer completion work until the thread asks for
 * it (DEFER_TASKRUN, 6.1).  That is worth a factor of two for small blocks where
 * the device interrupts the core that submits: completions arrive in batches.
 *
 * Small requests are only placed in the queue by submit(); the system call that
 * waits carries them into the kernel.  Large ones go in at once, so that the
 * device works while the core prepares the next.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "engine/engine.h"
#include "engine/kernel.h"

/*
 * Small requests are worth handling in groups, but not all at once: 4 KiB random
 * reads at depth 32 on a virtio disk ran at 125,000 a second when every completion
 * there was got looked at before the next submission, at 160,000 with at most 16 of
 * them, and at 185,000 when also a quarter of what is in flight was waited for, no
 * longer than 20 us (fio: 169,000; perf-mover randread).
 */
enum {
	SMALL = 64 * 1024,
	TAKE_MAX = 16,
	GROUP = 4,
	GROUP_US = 20,
};

struct uring_state {
	struct io_uring uring;
	int wake_fd;
	bool wake_armed;
	bool files; /* the table of registered files exists */
	bool bufs;
	bool lists;                    /* of registered memory */
	unsigned small;                /* requests in flight below SMALL */
	struct penstock_req *finished; /* done already, see uring_submit() */
};

/* Newest first; a kernel that does not know a flag answers EINVAL. */
static const unsigned setup_flags[] = {
	IORING_SETUP_CLAMP | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN,
	IORING_SETUP_CLAMP,
};

static int uring_setup(struct io_uring *uring, unsigned entries)
{
	int r = -EINVAL;

	for (unsigned i = 0; i < ARRAY_SIZE(setup_flags) && r == -EINVAL; i++) {
		struct io_uring_params p = {.flags = setup_flags[i]};

		r = io_uring_queue_init_params(entries, uring, &p);
	}
	if (r < 0)
		return r;
	/* A filter of system calls may let a queue be made and nothing be done with it. */
	if (syscall(SYS_io_uring_enter, uring->ring_fd, 0, 0, 0, NULL, 0) == 0 || errno == EINTR)
		return 0;
	r = -errno;
	io_uring_queue_exit(uring);
	return r;
}

static int uring_fail(struct penstock_err *err, int r)
{
	switch (r) {
	case -EPERM:
		return penstock_fail(err, r,
				     "io_uring: not permitted here (kernel.io_uring_disabled, or a "
				     "container's seccomp profile)");
	case -ENOSYS:
		return penstock_fail(err, r,
				     "io_uring: this kernel does not have it, or a seccomp "
				     "profile hides it");
	case -ENOMEM:
		return penstock_fail(err, r,
				     "io_uring: no memory for the queue, or RLIMIT_MEMLOCK is "
				     "too low");
	default:
		return penstock_fail(err, r, "io_uring: cannot set up a queue: %s", strerror(-r));
	}
}

static int uring_probe(struct penstock_err *err)
{
	struct io_uring uring;
	unsigned features;
	int r = uring_setup(&uring, 2);

	if (r < 0)
		return uring_fail(err, r);
	features = uring.features;
	io_uring_queue_exit(&uring);
	if (!(features & IORING_FEAT_EXT_ARG))
		return penstock_fail(err, -ENOTSUP, "io_uring: kernel 5.11 or later is needed");
	return 0;
}

/* Ask for a completion when somebody writes to the event counter: see uring_wake(). */
static void uring_arm_wake(struct uring_state *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->uring);

	if (!sqe)
		return; /* tried again by the next reap */
	io_uring_prep_poll_add(sqe, s->wake_fd, POLLIN);
	io_uring_sqe_set_data(sqe, NULL);
	s->wake_armed = true;
}

static void uring_close(void *state)
{
	struct uring_state *s = state;

	io_uring_queue_exit(&s->uring);
	close(s->wake_fd);
}

static bool uring_has(struct io_uring *uring, int op)
{
	struct io_uring_probe *p = io_uring_get_probe_ring(uring);
	bool has = p && io_uring_opcode_supported(p, op);

	if (p)
		io_uring_free_probe(p);
	return has;
}

static bool uring_fixed_lists(void *state)
{
	return ((struct uring_state *)state)->lists;
}

static int uring_open(void *state, const struct penstock_engine_params *p, struct penstock_err *err)
{
	struct uring_state *s = state;
	int r;

	s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->wake_fd < 0)
		return penstock_fail(err, -errno, "io_uring: eventfd: %s", strerror(errno));
	r = uring_setup(&s->uring, p->depth + 1); /* one more for the wake-up */
	if (r < 0) {
		close(s->wake_fd);
		return uring_fail(err, r);
	}
	if (!(s->uring.features & IORING_FEAT_EXT_ARG)) {
		uring_close(s);
		return penstock_fail(err, -ENOTSUP, "io_uring: kernel 5.11 or later is needed");
	}
	/* Both tables are 5.19; without them the kernel looks things up for each request. */
	s->files = io_uring_register_files_sparse(&s->uring, p->nr_files) == 0;
	s->bufs = io_uring_register_buffers_sparse(&s->uring, p->nr_bufs) == 0;
	s->lists = s->bufs && uring_has(&s->uring, KERNEL_OP_WRITEV_FIXED);
	return 0;
}

/* The kernel has read the list when it has taken the request. */
static void uring_prep_list(struct uring_state *s, struct io_uring_sqe *sqe,
			    const struct penstock_req *req, int fd)
{
	bool read = req->code == PENSTOCK_REQ_READ, fixed = s->lists && req->buf_slot >= 0;
	int op = fixed  ? read ? KERNEL_OP_READV_FIXED : KERNEL_OP_WRITEV_FIXED
		 : read ? IORING_OP_READV
			: IORING_OP_WRITEV;

	io_uring_prep_rw(op, sqe, fd, req->iov, req->nr_iov, req->off);
	if (fixed)
		sqe->buf_index = (uint16_t)req->buf_slot;
}

static void uring_prep(struct uring_state *s, struct io_uring_sqe *sqe, struct penstock_req *req)
{
	bool fixed_file = s->files && req->file_slot >= 0;
	int fd = fixed_file ? req->file_slot : req->fd;

	if (req->nr_iov > 1) {
		uring_prep_list(s, sqe, req, fd);
		goto ready;
	}
	switch (req->code) {
	case PENSTOCK_REQ_READ:
		if (s->bufs && req->buf_slot >= 0)
			io_uring_prep_read_fixed(sqe, fd, req->buf, req->len, req->off,
						 req->buf_slot);
		else
			io_uring_prep_read(sqe, fd, req->buf, req->len, req->off);
		break;
	case PENSTOCK_REQ_WRITE:
		if (s->bufs && req->buf_slot >= 0)
			io_uring_prep_write_fixed(sqe, fd, req->buf, req->len, req->off,
						  req->buf_slot);
		else
			io_uring_prep_write(sqe, fd, req->buf, req->len, req->off);
		break;
	default:
		io_uring_prep_fsync(
			sqe, fd, req->code == PENSTOCK_REQ_FDATASYNC ? IORING_FSYNC_DATASYNC : 0);
	}
ready:
	if (fixed_file)
		sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, req);
}

/*
 * What is in the queue is ours: a request the kernel did not take now (EAGAIN,
 * EBUSY, EINTR) goes in with the next system call.
 */
static int uring_submit(void *state, struct penstock_req *const *reqs, unsigned n)
{
	struct uring_state *s = state;
	struct io_uring_sqe *sqe;
	bool large = false;
	unsigned i;

	for (i = 0; i < n; i++) {
		if (reqs[i]->blocking) {
			penstock_req_push(&s->finished, reqs[i], penstock_req_run(reqs[i]));
			continue;
		}
		sqe = io_uring_get_sqe(&s->uring);
		if (!sqe)
			break;
		large |= reqs[i]->len >= SMALL;
		s->small += reqs[i]->len < SMALL;
		uring_prep(s, sqe, reqs[i]);
	}
	if (large)
		io_uring_submit(&s->uring);
	return (int)i;
}

static int uring_collect(struct uring_state *s, struct penstock_req **done)
{
	struct io_uring_cqe *cqe;
	struct penstock_req *req;
	unsigned head, seen = 0;
	uint64_t count;
	int n = 0;

	*done = s->finished;
	s->finished = NULL;
	for (req = *done; req; req = req->next)
		n++;

	io_uring_for_each_cqe(&s->uring, head, cqe) {
		if (seen == TAKE_MAX)
			break;
		req = io_uring_cqe_get_data(cqe);
		seen++;
		if (req) {
			s->small -= req->len < SMALL;
			penstock_req_push(done, req, cqe->res);
			n++;
			continue;
		}
		s->wake_armed = false;
		if (read(s->wake_fd, &count, sizeof(count)) < 0)
			continue; /* nothing to clear */
	}
	io_uring_cq_advance(&s->uring, seen);
	return n;
}

/*
 * Submit and wait for a few completions, or for one when that takes longer than GROUP_US.  Without
 * a longest time of its own the kernel would take GROUP_US for it, and return with nothing.
 */
static int wait_group(struct uring_state *s, unsigned n)
{
	struct __kernel_timespec longest = {.tv_sec = 3600};
	struct io_uring_getevents_arg arg = {.pad = GROUP_US, /* min_wait_usec */
					     .ts = (uint64_t)(uintptr_t)&longest};
	int r = io_uring_sq_ready(&s->uring) ? io_uring_submit(&s->uring) : 0;

	if (r < 0)
		return r;
	return io_uring_enter2((unsigned)s->uring.ring_fd, 0, n,
			       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
			       (sigset_t *)(void *)&arg, sizeof(arg));
}

static bool uring_ready(const void *state)
{
	const struct uring_state *s = state;

	return s->finished || io_uring_cq_ready(&s->uring);
}

static int wait_some(struct uring_state *s, int64_t timeout_ns)
{
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;

	if (uring_ready(s))
		return io_uring_sq_ready(&s->uring) ? io_uring_submit(&s->uring) : 0;
	if (timeout_ns >= 0) {
		ts.tv_sec = timeout_ns / 1000000000;
		ts.tv_nsec = timeout_ns % 1000000000;
		return io_uring_submit_and_wait_timeout(&s->uring, &cqe, 1, &ts, NULL);
	}
	if (s->small >= 2 * GROUP && (s->uring.features & KERNEL_FEAT_MIN_TIMEOUT))
		return wait_group(s, s->small / GROUP);
	return io_uring_submit_and_wait(&s->uring, 1);
}

static int uring_reap(void *state, struct penstock_req **done, int64_t timeout_ns)
{
	struct uring_state *s = state;
	int r, n;

	if (!s->wake_armed)
		uring_arm_wake(s);
	r = wait_some(s, timeout_ns);
	/* Interrupted, timed out, or told to collect before submitting more: not if there is
	 * nothing. */
	if (r < 0 && r != -EINTR && r != -ETIME && r != -EAGAIN && r != -EBUSY)
		return r;
	n = uring_collect(s, done);
	return n || (r != -EAGAIN && r != -EBUSY) ? n : r;
}

static void uring_wake(void *state)
{
	struct uring_state *s = state;
	uint64_t one = 1;

	/* The counter cannot overflow: each wake-up clears it. */
	if (write(s->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static int uring_set_file(void *state, unsigned slot, int fd)
{
	struct uring_state *s = state;
	int r;

	if (!s->files)
		return -ENOTSUP;
	r = io_uring_register_files_update(&s->uring, slot, &fd, 1);
	return r < 0 ? r : 0;
}

static int table_set(struct io_uring *uring, unsigned slot, void *addr, size_t len)
{
	struct iovec iov = {addr, len};
	__u64 tag = 0;
	int r = io_uring_register_buffers_update_tag(uring, slot, &iov, &tag, 1);

	return r < 0 ? r : 0;
}

/* The pages of a slot are shared with another queue, which then has them as if it had pinned them.
 */
static int table_clone(struct io_uring *uring, const struct io_uring *from, unsigned slot)
{
	struct kernel_clone c = {
		.src_fd = (uint32_t)from->ring_fd,
		.flags = KERNEL_CLONE_DST_REPLACE,
		.src_off = slot,
		.dst_off = slot,
		.nr = 1,
	};

	return syscall(SYS_io_uring_register, uring->ring_fd, KERNEL_REGISTER_CLONE_BUFFERS, &c,
		       1) < 0
		       ? -errno
		       : 0;
}

static int uring_set_buf(void *state, void *shared_bufs, unsigned slot, void *addr, size_t len)
{
	struct uring_state *s = state;

	if (!s->bufs)
		return -ENOTSUP;
	return shared_bufs ? table_clone(&s->uring, shared_bufs, slot)
			   : table_set(&s->uring, slot, addr, len);
}

/*
 * The shared buffers are those of a queue that is never used: one of an I/O thread's own would not
 * do, since the kernel lets nobody else share from a queue with a single issuer.
 */
static int shared_bufs_make(struct io_uring *uring, unsigned nr_bufs)
{
	struct io_uring_params p = {.flags = 0};
	int r = io_uring_queue_init_params(1, uring, &p);

	if (r < 0)
		return r;
	r = io_uring_register_buffers_sparse(uring, nr_bufs);
	if (r < 0)
		io_uring_queue_exit(uring);
	return r;
}

static void uring_shared_bufs_close(void *shared_bufs)
{
	io_uring_queue_exit(shared_bufs);
	free(shared_bufs);
}

static int uring_shared_bufs_open(void **shared_bufs, const struct penstock_engine_params *p)
{
	struct io_uring *uring = malloc(sizeof(*uring)), trial;
	int r = uring ? shared_bufs_make(uring, p->nr_bufs) : -ENOMEM;

	if (r < 0) {
		free(uring);
		return r;
	}
	r = shared_bufs_make(&trial, 1);
	if (!r) {
		r = table_clone(&trial, uring, 0) < 0 ? -ENOTSUP : 0;
		io_uring_queue_exit(&trial);
	}
	if (r < 0)
		uring_shared_bufs_close(uring);
	else
		*shared_bufs = uring;
	return r;
}

static int uring_shared_bufs_set(void *shared_bufs, unsigned slot, void *addr, size_t len)
{
	return table_set(shared_bufs, slot, addr, len);
}

const struct penstock_engine penstock_engine_uring = {
	.name = "io_uring",
	.descr = "io_uring: one queue per I/O thread, registered files and memory",
	.state_size = sizeof(struct uring_state),
	.automatic = true,
	.bypass = true,
	.idles = true,
	.quick = SMALL, /* they go with the next reap() */
	.probe = uring_probe,
	.open = uring_open,
	.close = uring_close,
	.abandon = uring_close, /* unmaps and closes, nothing else */
	.submit = uring_submit,
	.reap = uring_reap,
	.ready = uring_ready,
	.wake = uring_wake,
	.set_file = uring_set_file,
	.set_buf = uring_set_buf,
	.shared_bufs_open = uring_shared_bufs_open,
	.shared_bufs_set = uring_shared_bufs_set,
	.shared_bufs_close = uring_shared_bufs_close,
	.fixed_lists = uring_fixed_lists,
};
