/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KV_KV_RESULT_H
#define PENSTOCK_KV_KV_RESULT_H

/* Filling a struct kv_result: what real runs and traces do alike. */
#include "load/kv/kv.h"
#include "load/model/kv_load.h"
#include "load/model/kv_scale.h"

/* A request is complete. */
struct kv_request_done {
	uint64_t end_ns; /* since the beginning */
	uint32_t tokens;
	uint8_t qos;
	double end_to_end, storage, generation; /* seconds */
};
int kv_result_request(struct kv_result *r, const struct kv_params *p,
		      const struct kv_request_done *d);

/* What kv_plan() said of a request. */
void kv_result_planned(struct kv_result *r, const struct kv_params *p, const struct kv_planned *d);

/*
 * The autoscaler was fed a sample at @at_sec and said @action: into the timeline, the list of
 * actions and the numbers of users.
 */
int kv_result_scaled(struct kv_result *r, const struct kv_scale *s, enum kv_scale_action action,
		     double at_sec, const struct kv_scale_sample *sample);

/* The run did not come to its end: @why. */
void kv_result_partial(struct kv_result *r, const char *why);

/* What is wrong with a recorded input. */
void kv_result_input(struct kv_result *r, const struct kv_load *l);

/* What is in the tiers now. */
void kv_result_tiers(struct kv_result *r, const struct kv_cache *c);

#endif
