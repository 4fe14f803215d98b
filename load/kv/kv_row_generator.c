/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of operations that the model of a KV cache makes of recorded requests, on its virtual clock.
 */
#include "load/kv/kv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/kv/kv_simulator.h"

/* What becomes a row when it is asked for. */
struct generated_row {
	struct kv_event event;
	uint64_t time_ns;
};

struct kv_rows {
	struct kv_params params;
	struct kv_simulator model;
	struct generated_row *generated;
	uint32_t nr, capacity, pos;
	bool prepared;
};

static int rows_emit(void *arg, const struct kv_event *ev)
{
	struct kv_rows *s = arg;

	if (ev->type == KV_EV_MISS)
		return 0;
	if (ARRAY_RESERVE(s->generated, s->capacity, s->nr + 1) < 0)
		return -ENOMEM;
	s->generated[s->nr++] = (struct generated_row){*ev, kv_load_row(s->model.load)};
	return 0;
}

/* The rows of the next request.  1, 0 at the end, or -errno. */
static int plan_next(struct kv_rows *s)
{
	struct kv_planned planned;
	struct kv_request q;
	int r;

	s->pos = s->nr = 0;
	if (!s->prepared) {
		s->prepared = true;
		r = kv_simulator_prepare(&s->model, NULL);
		return r < 0 ? r : 1;
	}
	r = kv_load_next(s->model.load, &q);
	if (r <= 0)
		return r;
	kv_simulator_request(&s->model, &q);
	r = kv_plan(s->model.load, s->model.cache, &q, NULL, NULL, &planned);
	return r < 0 ? r : 1;
}

static int rows_next(void *state, struct trace_row *row, struct penstock_err *err)
{
	struct kv_rows *s = state;
	const struct generated_row *m;
	int r;

	while (s->pos == s->nr) {
		r = plan_next(s);
		if (r <= 0)
			return r ? penstock_fail(err, r, "the model: %s", strerror(-r))
				 : kv_load_error(s->model.load, err);
	}
	m = &s->generated[s->pos++];
	r = kv_simulator_row(&s->model, &m->event, m->time_ns, err);
	if (r < 0)
		return r;
	*row = s->model.row;
	return 1;
}

static const struct trace_bad *rows_bad(const void *state)
{
	const struct kv_rows *s = state;

	return kv_load_bad(s->model.load);
}

static void rows_close(void *state)
{
	struct kv_rows *s = state;

	kv_simulator_close(&s->model);
	free(s->generated);
	free(s);
}

static int rows_open(void **state, const void *arg, struct penstock_err *err)
{
	struct kv_rows *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return penstock_fail(err, -ENOMEM, "out of memory");
	s->params = *(const struct kv_params *)arg;
	r = kv_simulator_open(&s->model, &s->params, rows_emit, s, err);
	if (r < 0)
		rows_close(s);
	else
		*state = s;
	return r;
}

struct trace_row_generator kv_row_generator(const struct kv_params *p)
{
	return (struct trace_row_generator){
		.format = p->burst_path ? TRACE_BURSTGPT : TRACE_SHAREGPT,
		.arg = p,
		.open = rows_open,
		.next = rows_next,
		.bad = rows_bad,
		.close = rows_close,
	};
}
