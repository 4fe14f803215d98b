/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cufile engine: a pool of threads that call cuFileRead() and cuFileWrite() for
 * device memory, and pread(2) and pwrite(2) for the host's.  cuFile does one call
 * after the other in each thread, so large operations are parallel because the core
 * splits them.
 *
 * What costs time is done once: a file is registered when the core attaches it, memory
 * when the caller registers it.  Memory that is not registered works too; cuFile then
 * goes through memory of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "dl/cuda.h"
#include "dl/cufile.h"
#include "engine/thread_pool.h"

enum { WORKERS_MAX = 16 };

struct cufile_buf {
	char *addr;    /* NULL: none */
	bool ours;     /* registered here; else somebody else in the process has done it */
	void *context; /* current then */
};

/* What a file is attached as. */
struct cufile_file {
	void *handle; /* cuFile's */
	int fd;       /* opened for it, or -1 */
};

struct cufile_state {
	struct penstock_thread_pool pool; /* first: the pool's functions take it for the state */
	const struct penstock_cuda *cuda;
	const struct penstock_cufile *cufile;
	struct cufile_buf *bufs;
	unsigned nr_bufs;
};

static int cufile_probe(struct penstock_err *err)
{
	const struct penstock_cuda *cuda;
	const char *why;
	int n = 0;

	if (!penstock_cufile(&why))
		return penstock_fail(err, -ENOTSUP, "cufile: %s", why);
	cuda = penstock_cuda(&why);
	if (!cuda)
		return penstock_fail(err, -ENOTSUP, "cufile: %s", why);
	if (cuda->device_count(&n) != CUDA_OK || n < 1)
		return penstock_fail(err, -ENOTSUP, "cufile: there is no CUDA device");
	return 0;
}

static int32_t run_device(const struct cufile_state *s, struct penstock_req *req)
{
	char *base = req->buf_slot >= 0 ? s->bufs[req->buf_slot].addr : req->buf;
	const struct cufile_file *file = req->handle;
	off_t base_off = (char *)req->buf - base;
	ssize_t n;

	req->call = "cuCtxSetCurrent";
	req->detail = s->cuda->ctx_set(req->context);
	if (req->detail != CUDA_OK)
		return penstock_cuda_errno(req->detail);
	errno = 0;
	if (req->code == PENSTOCK_REQ_READ) {
		req->call = "cuFileRead";
		n = s->cufile->read(file->handle, base, req->len, (off_t)req->off, base_off);
	} else {
		req->call = "cuFileWrite";
		n = s->cufile->write(file->handle, base, req->len, (off_t)req->off, base_off);
	}
	if (n >= 0)
		return n <= req->len ? (int32_t)n : -EIO;
	if (n == -1)
		return errno ? -errno : -EIO;
	req->detail = (int32_t)-n;
	return -EIO;
}

static int32_t cufile_run(struct penstock_thread_pool *pool, struct penstock_req *req)
{
	return req->context ? run_device((struct cufile_state *)pool, req) : penstock_req_run(req);
}

static int cufile_open(void *state, const struct penstock_engine_params *p,
		       struct penstock_err *err)
{
	struct cufile_state *s = state;
	int r = cufile_probe(err);

	if (r < 0)
		return r;
	s->cuda = penstock_cuda(NULL);
	s->cufile = penstock_cufile(NULL);
	s->nr_bufs = p->nr_bufs;
	s->bufs = calloc(s->nr_bufs, sizeof(*s->bufs));
	if (!s->bufs)
		return penstock_fail(err, -ENOMEM, "cufile: out of memory");
	s->pool.run = cufile_run;
	r = penstock_thread_pool_open(&s->pool, (unsigned)min_u64(p->depth, WORKERS_MAX), "cufile",
				      err);
	if (r < 0)
		free(s->bufs);
	return r;
}

static void cufile_take_out(struct cufile_state *s, struct cufile_buf *b)
{
	void *context;

	if (b->addr && b->ours) {
		s->cuda->ctx_push(b->context);
		s->cufile->buf_deregister(b->addr);
		s->cuda->ctx_pop(&context);
	}
	*b = (struct cufile_buf){.addr = NULL};
}

static void cufile_close(void *state)
{
	struct cufile_state *s = state;

	penstock_thread_pool_close(&s->pool);
	for (unsigned i = 0; i < s->nr_bufs; i++)
		cufile_take_out(s, &s->bufs[i]);
	free(s->bufs);
}

static void cufile_abandon(void *state)
{
	struct cufile_state *s = state;

	penstock_thread_pool_abandon(&s->pool);
	free(s->bufs);
}

/* cuFile keeps one list for the process: of several queues, the first registers. */
static int cufile_set_buf(void *state, void *shared_bufs, unsigned slot, void *addr, size_t len)
{
	struct cufile_state *s = state;
	struct penstock_cufile_driver driver;
	struct penstock_cufile_error e;
	int r;

	(void)shared_bufs;
	cufile_take_out(s, &s->bufs[slot]);
	if (!addr)
		return 0;
	r = penstock_cufile_open(&driver, NULL);
	if (r < 0)
		return r;
	e = s->cufile->buf_register(addr, len, 0);
	if (e.err && e.err != CUFILE_MEMORY_ALREADY_REGISTERED)
		return penstock_cufile_check(e, "cuFileBufRegister", NULL);
	s->bufs[slot] = (struct cufile_buf){.addr = addr, .ours = !e.err};
	s->cuda->ctx_current(&s->bufs[slot].context);
	return 0;
}

/*
 * cuFile refuses a file that was opened with O_NOFOLLOW (5019, seen with 1.15), which nothing can
 * take from a descriptor: such a file is opened once more by its descriptor.
 */
static int cufile_reopen(int fd, int flags)
{
	char name[40];

	if (flags < 0 || !(flags & O_NOFOLLOW))
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, (flags & (O_ACCMODE | O_DIRECT)) | O_CLOEXEC);
}

static int cufile_register(struct cufile_file *f, int fd, struct penstock_err *err)
{
	struct penstock_cufile_descr descr = {.type = CUFILE_TYPE_FD};

	descr.handle.fd = f->fd >= 0 ? f->fd : fd;
	return penstock_cufile_check(penstock_cufile(NULL)->handle_register(&f->handle, &descr),
				     "cuFileHandleRegister", err);
}

static void cufile_file_free(struct cufile_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

static int cufile_attach(int fd, struct penstock_attached *out, struct penstock_err *err)
{
	struct penstock_cufile_driver driver;
	int flags = fcntl(fd, F_GETFL), r = penstock_cufile_open(&driver, err);
	struct cufile_file *f = r == 0 ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return r < 0 ? r : penstock_fail(err, -ENOMEM, "out of memory");
	f->fd = cufile_reopen(fd, flags);
	r = cufile_register(f, fd, err);
	if (r < 0) {
		cufile_file_free(f);
		return r;
	}
	out->handle = f;
	/* What goes through the page cache does not bypass the host's memory. */
	out->direct = driver.direct && (flags & O_DIRECT);
	return 0;
}

static void cufile_detach(void *handle)
{
	struct cufile_file *f = handle;

	penstock_cufile(NULL)->handle_deregister(f->handle);
	cufile_file_free(f);
}

const struct penstock_engine penstock_engine_cufile = {
	.name = "cufile",
	.descr = "device memory by cuFile (GPUDirect Storage), the host's by pread and pwrite",
	.state_size = sizeof(struct cufile_state),
	.bypass = true,
	.device = true,
	.probe = cufile_probe,
	.open = cufile_open,
	.close = cufile_close,
	.abandon = cufile_abandon,
	.submit = penstock_thread_pool_submit,
	.reap = penstock_thread_pool_reap,
	.wake = penstock_thread_pool_wake,
	.cpu_ns = penstock_thread_pool_cpu_ns,
	.set_buf = cufile_set_buf,
	.attach = cufile_attach,
	.detach = cufile_detach,
};
