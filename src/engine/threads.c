/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads engine: a pool of threads that call pread(2) and pwrite(2).  It
 * works on every kernel and every file system.
 */
#include "base/util.h"
#include "engine/thread_pool.h"

enum { WORKERS_MAX = 32 };

static int threads_probe(struct penstock_err *err)
{
	(void)err;
	return 0;
}

static int32_t threads_run(struct penstock_thread_pool *pool, struct penstock_req *req)
{
	(void)pool;
	return penstock_req_run(req);
}

static int threads_open(void *state, const struct penstock_engine_params *p,
			struct penstock_err *err)
{
	struct penstock_thread_pool *pool = state;

	pool->run = threads_run;
	return penstock_thread_pool_open(pool, (unsigned)min_u64(p->depth, WORKERS_MAX), "threads",
					 err);
}

const struct penstock_engine penstock_engine_threads = {
	.name = "threads",
	.descr = "a pool of threads that call pread and pwrite; works everywhere",
	.state_size = sizeof(struct penstock_thread_pool),
	.automatic = true,
	.bypass = true,
	.probe = threads_probe,
	.open = threads_open,
	.close = penstock_thread_pool_close,
	.abandon = penstock_thread_pool_abandon,
	.submit = penstock_thread_pool_submit,
	.reap = penstock_thread_pool_reap,
	.wake = penstock_thread_pool_wake,
	.cpu_ns = penstock_thread_pool_cpu_ns,
};
