/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_ENGINE_ENGINE_H
#define PENSTOCK_ENGINE_ENGINE_H

/*
 * The engine interface: one way of moving blocks between a file and memory.
 *
 * The core owns everything that is the same for all engines: validation,
 * splitting into blocks, bounce buffers, retries, accounting.  An engine sees
 * only blocks that the kernel can take as they are, and knows nothing of
 * operations, tickets or alignment.
 *
 * Contract, checked by tests/engine/conformance.c for every engine:
 *  - a request that submit() accepted comes out of reap() exactly once;
 *  - a request that submit() did not accept is not touched;
 *  - a failed block is a request with a negative res, never a failed reap();
 *  - all calls on one state come from one thread, the one that opened it,
 *    except wake(), which may come from any; close() with nothing in flight.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct penstock_err;

enum penstock_req_code {
	PENSTOCK_REQ_READ = 1,
	PENSTOCK_REQ_WRITE = 2,
	PENSTOCK_REQ_FSYNC = 3,
	PENSTOCK_REQ_FDATASYNC = 4,
};

/* What the core tells an engine when it opens a queue; ranges are checked. */
struct penstock_engine_params {
	unsigned depth;       /* most requests in flight */
	const char *settings; /* what followed "NAME:", or NULL */
	unsigned nr_files;    /* size of the table of registered files */
	unsigned nr_bufs;     /* size of the table of registered memory */
};

/* One block in flight.  Lives in the core's pool; the engine may link it. */
struct penstock_req {
	struct penstock_req *next;
	void *buf;
	uint64_t off;
	uint32_t len;
	int fd;
	int file_slot;        /* of set_file(), or -1 */
	int buf_slot;         /* of set_buf(), or -1 */
	uint32_t code;        /* enum penstock_req_code */
	bool blocking;        /* use penstock_req_run(): asynchronous is not safe for this file */
	int32_t res;          /* bytes or -errno */
	unsigned nr_iov;      /* more than 1: the memory is @iov, of @len bytes in all */
	uint64_t engine_data; /* the engine's own while in flight */
	const struct iovec *iov;
	/* Where @buf is device memory, which only engines with .device see; else NULL. */
	void *context;    /* the CUDA context it is to be used in */
	void *handle;     /* the file's, from attach() */
	const char *call; /* with res < 0: which one failed, */
	int32_t detail;   /* with a CUresult, or a CUfileOpError (above 5000); 0: see res */
};

/* What a file is to an engine with .device. */
struct penstock_attached {
	void *handle;
	bool direct; /* bypasses the host's memory; else passes through some of the engine's own */
};

struct penstock_engine {
	const char *name;  /* as typed by the user: "io_uring" */
	const char *descr; /* one line for `penstock info` */
	size_t state_size; /* the core allocates and zeroes this per queue */
	bool automatic;    /* may be picked when the user names none */
	bool bypass;       /* one-block blocking transfers may use pread(2) and pwrite(2) instead */
	bool idles;        /* reap() without limit and with nothing in flight waits for wake() */
	bool device;       /* takes device memory, in files that attach() accepts */
	uint32_t quick;    /* submit() of shorter requests, none of them `blocking', never waits */

	/* Usable on this machine now?  0, or -errno with the reason in *err. */
	int (*probe)(struct penstock_err *err);
	int (*open)(void *state, const struct penstock_engine_params *p, struct penstock_err *err);
	void (*close)(void *state);
	/* In a child of fork(): give back descriptors and memory, the queue is the parent's. */
	void (*abandon)(void *state);

	/*
	 * Returns how many of @reqs were accepted, 0..n, or -errno when the
	 * queue cannot take any for another reason than being full.
	 */
	int (*submit)(void *state, struct penstock_req *const *reqs, unsigned n);

	/*
	 * Wait until at least one request is finished, wake() was called, or
	 * @timeout_ns has passed (negative: no limit; 0: do not wait), and push
	 * every finished request on @done.  Returns how many, or -errno if the
	 * queue itself is broken.
	 */
	int (*reap)(void *state, struct penstock_req **done, int64_t timeout_ns);

	/* Optional: would reap() not wait, for a request or a wake()?  It need not know. */
	bool (*ready)(const void *state);

	/* End the current or the next waiting reap() soon.  From any thread. */
	void (*wake)(void *state);

	/* Optional: CPU time of threads of the engine's own.  From any thread. */
	uint64_t (*cpu_ns)(void *state);

	/* Optional: NULL when the engine has no such notion. */
	int (*set_file)(void *state, unsigned slot, int fd); /* fd -1: take it out */
	/*
	 * addr NULL: take it out.  @shared_bufs: of shared_bufs_open(), with this memory in
	 * this slot, or NULL.
	 */
	int (*set_buf)(void *state, void *shared_bufs, unsigned slot, void *addr, size_t len);

	/*
	 * Optional: buffers that all queues of a handle share, so that pinning them takes time
	 * and counts towards limits once.  -ENOTSUP: each queue has to pin for itself.  From any
	 * thread, one at a time; close with abandon() in mind: it is the same in a child of fork().
	 */
	int (*shared_bufs_open)(void **shared_bufs, const struct penstock_engine_params *p);
	int (*shared_bufs_set)(void *shared_bufs, unsigned slot, void *addr, size_t len);
	void (*shared_bufs_close)(void *shared_bufs);

	/* Optional: may buf_slot be said of a list, too?  NULL: no. */
	bool (*fixed_lists)(void *state);

	/*
	 * With .device: make a file known, or say why its transfers of device memory
	 * must take another way.  Any thread; once per file, not per queue.  set_buf() is
	 * then for device memory alone, and is called with its context current.
	 */
	int (*attach)(int fd, struct penstock_attached *out, struct penstock_err *err);
	void (*detach)(void *handle);
};

static inline void penstock_req_push(struct penstock_req **list, struct penstock_req *req,
				     int32_t res)
{
	req->res = res;
	req->next = *list;
	*list = req;
}

/* Do one request in the calling thread with pread(2) and friends; returns bytes or -errno. */
int32_t penstock_req_run(const struct penstock_req *req);

/* Engines built into this library, best first, NULL-terminated. */
extern const struct penstock_engine *const penstock_engines[];

/* By "NAME" or "NAME:SETTINGS"; *ret_settings (may be NULL) points behind the colon or is NULL. */
const struct penstock_engine *penstock_engine_find(const char *name, const char **ret_settings);

extern const struct penstock_engine penstock_engine_uring;
extern const struct penstock_engine penstock_engine_libaio;
extern const struct penstock_engine penstock_engine_threads;
extern const struct penstock_engine penstock_engine_cufile;
extern const struct penstock_engine penstock_engine_null;
extern const struct penstock_engine penstock_engine_fault;

#endif
