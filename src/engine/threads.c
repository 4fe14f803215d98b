/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads engine: a pool of threads that call pread(2) and pwrite(2).  It
 * works on every kernel and every file system.
 */
#include "base/util.h"
#include "engine/pool.h"

enum { WORKERS_MAX = 32 };

static int threads_probe(struct sluice_err *err)
{
	(void)err;
	return 0;
}

static int32_t threads_run(struct sluice_pool *pool, struct sluice_req *req)
{
	(void)pool;
	return sluice_req_run(req);
}

static int threads_open(void *state, const struct sluice_engine_params *p, struct sluice_err *err)
{
	struct sluice_pool *pool = state;

	pool->run = threads_run;
	return sluice_pool_open(pool, (unsigned)min_u64(p->depth, WORKERS_MAX), "threads", err);
}

const struct sluice_engine sluice_engine_threads = {
	.name = "threads",
	.descr = "a pool of threads that call pread and pwrite; works everywhere",
	.state_size = sizeof(struct sluice_pool),
	.automatic = true,
	.bypass = true,
	.probe = threads_probe,
	.open = threads_open,
	.close = sluice_pool_close,
	.abandon = sluice_pool_abandon,
	.submit = sluice_pool_submit,
	.reap = sluice_pool_reap,
	.wake = sluice_pool_wake,
	.cpu_ns = sluice_pool_cpu_ns,
};
