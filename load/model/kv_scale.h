/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_SCALE_H
#define PENSTOCK_MODEL_KV_SCALE_H

/*
 * The autoscaler: samples in, an action out.  Knows nothing of clocks and threads; upstream takes
 * a sample every KV_SCALE_SEC seconds.
 */
#include <stdbool.h>
#include <stdint.h>

#include "load/model/kv_params.h"

#define KV_SCALE_SEC     10.0
#define KV_SCALE_HISTORY 1024 /* largest window */

enum kv_scale_action {
	KV_SCALE_HOLD,
	KV_SCALE_UP,
	KV_SCALE_DOWN,
	KV_SCALE_STOP, /* capacity mode: the peak has been found */
	KV_SCALE_ACTIONS
};
extern const char *const kv_scale_names[KV_SCALE_ACTIONS]; /* "hold", "scale_up", ... */

struct kv_scale_sample {
	double tokens_per_sec; /* since the sample before */
	double read_p95_ms, write_p95_ms;
	uint64_t queued;
};

struct kv_scale {
	const struct kv_params *p;
	uint32_t users, peak_users;
	double peak_tokens_per_sec;
	double saturation; /* as of the last sample */
	bool saturated;    /* a threshold of saturation_detection is exceeded */
	/* inside */
	unsigned window, nr;
	unsigned over, cooldown, stale;
	double *throughput, *read_p95; /* the last @window of each, in turn */
};

int kv_scale_init(struct kv_scale *s, const struct kv_params *p); /* 0 or -ENOMEM */
void kv_scale_fini(struct kv_scale *s);

/* What to do; s->users is how many there are to be. */
enum kv_scale_action kv_scale_feed(struct kv_scale *s, const struct kv_scale_sample *sample);

/* The most users the scaler will ever ask for. */
uint32_t kv_scale_max(const struct kv_params *p);

#endif
