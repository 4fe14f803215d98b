/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null engine moves nothing and says that all went well.  It measures what
 * the library itself costs, and it is the shortest complete engine: the one to
 * read first when writing another.
 */
#include "engine/engine.h"

struct null_state {
	struct penstock_req *done;
	unsigned nr_done;
};

static int null_probe(struct penstock_err *err)
{
	(void)err;
	return 0;
}

static int null_open(void *state, const struct penstock_engine_params *p, struct penstock_err *err)
{
	(void)state;
	(void)p;
	(void)err;
	return 0;
}

static void null_close(void *state)
{
	(void)state;
}

static int null_submit(void *state, struct penstock_req *const *reqs, unsigned n)
{
	struct null_state *s = state;

	for (unsigned i = 0; i < n; i++)
		penstock_req_push(&s->done, reqs[i], (int32_t)reqs[i]->len);
	s->nr_done += n;
	return (int)n;
}

static int null_reap(void *state, struct penstock_req **done, int64_t timeout_ns)
{
	struct null_state *s = state;
	int n = (int)s->nr_done;

	(void)timeout_ns; /* whatever was submitted is done: there is nothing to wait for */
	*done = s->done;
	s->done = NULL;
	s->nr_done = 0;
	return n;
}

static bool null_ready(const void *state)
{
	return ((const struct null_state *)state)->done;
}

static void null_wake(void *state)
{
	(void)state;
}

const struct penstock_engine penstock_engine_null = {
	.name = "null",
	.descr = "moves nothing; measures the cost of the library itself",
	.state_size = sizeof(struct null_state),
	.quick = UINT32_MAX,
	.probe = null_probe,
	.open = null_open,
	.close = null_close,
	.abandon = null_close,
	.submit = null_submit,
	.reap = null_reap,
	.ready = null_ready,
	.wake = null_wake,
};
