/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KV_KV_SIMULATOR_H
#define PENSTOCK_KV_KV_SIMULATOR_H

/*
 * The model without storage: a load on its virtual clock, a cache, and what the cache decides as
 * rows of a trace.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "load/model/kv_load.h"
#include "load/trace/trace.h"

struct kv_simulator {
	const struct kv_params *params;
	struct kv_cache_opts opts;
	struct kv_texts *texts;
	struct kv_load *load;
	struct kv_cache *cache;
	struct trace_row row; /* the last one; its name is in @name */
	struct kv_key key;    /* whose name that is */
	char *name;
};

/* @p is used until the end.  After a failure, too, there is something to close. */
int kv_simulator_open(struct kv_simulator *v, const struct kv_params *p, kv_emit *emit, void *arg,
		      struct penstock_err *err);
void kv_simulator_close(struct kv_simulator *v);

/* What is in the cache before; until *@stop, which may be NULL. */
int kv_simulator_prepare(struct kv_simulator *v, const atomic_int *stop);

/* Rows are of @q from here on.  A document is nobody's. */
void kv_simulator_request(struct kv_simulator *v, const struct kv_request *q);

/* v->row is what @ev, no miss, does at @time_ns. */
int kv_simulator_row(struct kv_simulator *v, const struct kv_event *ev, uint64_t time_ns,
		     struct penstock_err *err);

#endif
