/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libaio engine: Linux native AIO, for kernels and containers that refuse
 * io_uring.  Asynchronous for O_DIRECT only; the kernel does buffered requests
 * inside io_submit(2), which is slow but right.
 */
#include <errno.h>
#include <libaio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "engine/engine.h"

enum {
	REAP_MAX = 64,
	BATCH_MAX = 64,
	/* Where the wake-up cannot be a request (kernels before 4.18), look this often. */
	NAP_NS = 1000000,
};

struct libaio_state {
	io_context_t ctx;
	struct iocb *cbs; /* one per request in flight */
	unsigned *free;
	unsigned nr_free;
	struct penstock_req *refused; /* failed in io_submit(2): finished already */
	struct iocb wake_cb;
	int wake_fd;
	bool wake_armed;
	bool wake_works;
};

static int setup_fail(struct penstock_err *err, int r)
{
	if (r == -EAGAIN)
		return penstock_fail(err, r,
				     "libaio: no room for another queue: fs.aio-max-nr is reached");
	if (r == -ENOSYS)
		return penstock_fail(err, r, "libaio: this kernel does not have native AIO");
	return penstock_fail(err, r, "libaio: io_setup: %s", strerror(-r));
}

static int libaio_probe(struct penstock_err *err)
{
	io_context_t ctx = NULL;
	int r = io_setup(1, &ctx);

	if (r < 0)
		return setup_fail(err, r);
	io_destroy(ctx);
	return 0;
}

static int libaio_open(void *state, const struct penstock_engine_params *p,
		       struct penstock_err *err)
{
	struct libaio_state *s = state;
	CLEANUP_FREE struct iocb *cbs = calloc(p->depth, sizeof(*cbs));
	CLEANUP_FREE unsigned *slots = calloc(p->depth, sizeof(*slots));
	int r;

	if (!cbs || !slots)
		return penstock_fail(err, -ENOMEM, "libaio: out of memory");
	s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->wake_fd < 0)
		return penstock_fail(err, -errno, "libaio: eventfd: %s", strerror(errno));
	r = io_setup((int)p->depth + 1, &s->ctx); /* one more for the wake-up */
	if (r < 0) {
		close(s->wake_fd);
		return setup_fail(err, r);
	}
	for (unsigned i = 0; i < p->depth; i++)
		slots[i] = i;
	s->nr_free = p->depth;
	s->cbs = TAKE_PTR(cbs);
	s->free = TAKE_PTR(slots);
	s->wake_works = true;
	return 0;
}

static void libaio_abandon(void *state)
{
	struct libaio_state *s = state;

	close(s->wake_fd);
	free(s->cbs);
	free(s->free);
}

static void libaio_close(void *state)
{
	struct libaio_state *s = state;

	io_destroy(s->ctx); /* also ends the wake-up request */
	libaio_abandon(s);
}

static void libaio_prep(struct iocb *cb, struct penstock_req *req)
{
	switch (req->code) {
	case PENSTOCK_REQ_READ:
		if (req->nr_iov > 1)
			io_prep_preadv(cb, req->fd, req->iov, (int)req->nr_iov,
				       (long long)req->off);
		else
			io_prep_pread(cb, req->fd, req->buf, req->len, (long long)req->off);
		break;
	case PENSTOCK_REQ_WRITE:
		if (req->nr_iov > 1)
			io_prep_pwritev(cb, req->fd, req->iov, (int)req->nr_iov,
					(long long)req->off);
		else
			io_prep_pwrite(cb, req->fd, req->buf, req->len, (long long)req->off);
		break;
	case PENSTOCK_REQ_FSYNC:
		io_prep_fsync(cb, req->fd);
		break;
	default:
		io_prep_fdsync(cb, req->fd);
	}
	cb->data = req;
}

static void put_cb(struct libaio_state *s, const struct penstock_req *req)
{
	s->free[s->nr_free++] = (unsigned)req->engine_data;
}

/*
 * io_submit(2) stops at the first request it refuses and returns the error
 * only if that is the first of the call.  Such a request is finished, failed;
 * fsync, which few file systems take this way, is done here and now.
 */
static void libaio_refuse(struct libaio_state *s, struct penstock_req *req, int r)
{
	bool is_sync = req->code == PENSTOCK_REQ_FSYNC || req->code == PENSTOCK_REQ_FDATASYNC;

	put_cb(s, req);
	penstock_req_push(&s->refused, req, is_sync && r == -EINVAL ? penstock_req_run(req) : r);
}

static int libaio_submit(void *state, struct penstock_req *const *reqs, unsigned n)
{
	struct libaio_state *s = state;
	struct iocb *ptrs[BATCH_MAX];
	unsigned batch, taken = 0;
	int r;

	if (n > BATCH_MAX)
		n = BATCH_MAX;
	if (n > s->nr_free)
		n = s->nr_free;
	for (batch = 0; batch < n; batch++) {
		reqs[batch]->engine_data = s->free[--s->nr_free];
		ptrs[batch] = &s->cbs[reqs[batch]->engine_data];
		libaio_prep(ptrs[batch], reqs[batch]);
	}
	while (taken < n) {
		r = io_submit(s->ctx, (long)(n - taken), ptrs + taken);
		if (r == -EINTR)
			continue;
		if (r == -EAGAIN || r == 0)
			break;
		if (r < 0)
			libaio_refuse(s, reqs[taken], r);
		taken += r < 0 ? 1u : (unsigned)r;
	}
	for (unsigned i = n; i > taken; i--)
		put_cb(s, reqs[i - 1]);
	return (int)taken;
}

/* A poll request on the event counter: what wake() writes ends a waiting reap(). */
static void libaio_arm_wake(struct libaio_state *s)
{
	struct iocb *cb = &s->wake_cb;
	int r;

	io_prep_poll(cb, s->wake_fd, POLLIN);
	cb->data = NULL;
	r = io_submit(s->ctx, 1, &cb);
	s->wake_armed = r == 1;
	if (r < 0 && r != -EAGAIN && r != -EINTR)
		s->wake_works = false;
}

static int take_events(struct libaio_state *s, const struct io_event *events, int n,
		       struct penstock_req **done)
{
	struct penstock_req *req;
	uint64_t count;
	int reaped = 0;

	for (int i = 0; i < n; i++) {
		req = events[i].data;
		if (req) {
			put_cb(s, req);
			penstock_req_push(done, req, (int32_t)(long)events[i].res);
			reaped++;
			continue;
		}
		s->wake_armed = false;
		if (read(s->wake_fd, &count, sizeof(count)) < 0)
			continue; /* nothing to clear */
	}
	return reaped;
}

static int libaio_reap(void *state, struct penstock_req **done, int64_t timeout_ns)
{
	struct libaio_state *s = state;
	struct io_event events[REAP_MAX];
	struct timespec ts;
	int n = 0, r;

	*done = s->refused;
	s->refused = NULL;
	for (struct penstock_req *req = *done; req; req = req->next)
		n++;
	if (n)
		timeout_ns = 0;
	if (timeout_ns && !s->wake_armed && s->wake_works)
		libaio_arm_wake(s);
	if (!s->wake_armed && (timeout_ns < 0 || timeout_ns > NAP_NS))
		timeout_ns = NAP_NS;
	ts.tv_sec = timeout_ns / 1000000000;
	ts.tv_nsec = timeout_ns % 1000000000;
	r = io_getevents(s->ctx, timeout_ns ? 1 : 0, REAP_MAX, events, timeout_ns < 0 ? NULL : &ts);
	if (r == -EINTR)
		return n;
	if (r < 0)
		return n ? n : r;
	return n + take_events(s, events, r, done);
}

static void libaio_wake(void *state)
{
	struct libaio_state *s = state;
	uint64_t one = 1;

	if (write(s->wake_fd, &one, sizeof(one)) < 0)
		return; /* cannot overflow: each wake-up clears the counter */
}

const struct penstock_engine penstock_engine_libaio = {
	.name = "libaio",
	.descr = "Linux native AIO; asynchronous for O_DIRECT only",
	.state_size = sizeof(struct libaio_state),
	.automatic = true,
	.bypass = true,
	.probe = libaio_probe,
	.open = libaio_open,
	.close = libaio_close,
	.abandon = libaio_abandon,
	.submit = libaio_submit,
	.reap = libaio_reap,
	.wake = libaio_wake,
};
