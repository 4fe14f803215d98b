/* SPDX-License-Identifier: Apache-2.0 */
/* Two ways to find the right number of users: keep saturation near a target, or climb to the
 * highest throughput.  Upstream's numbers are the defaults of the configuration. */
#include "load/model/kv_scale.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/util.h"

#define COOLDOWN 3    /* samples after a reduction */
#define IMPROVED 1.01 /* a new peak is so much above the old one */
#define STEP_MIN 5
#define STEP_MAX 100

const char *const kv_scale_names[KV_SCALE_ACTIONS] = {"hold", "scale_up", "scale_down", "stop"};

static unsigned samples_needed(const struct kv_params *p)
{
	return (unsigned)max_u64(1, (uint64_t)p->config.consecutive_samples);
}

static uint32_t min_users(const struct kv_params *p)
{
	return (uint32_t)max_u64(1, (uint64_t)p->config.min_users);
}

uint32_t kv_scale_max(const struct kv_params *p)
{
	uint64_t max = min_u64((uint64_t)p->config.max_users, UINT32_MAX);

	return (uint32_t)max_u64(min_users(p), max);
}

int kv_scale_init(struct kv_scale *s, const struct kv_params *p)
{
	uint64_t window = max_u64(1, (uint64_t)p->config.history_window);

	*s = (struct kv_scale){.p = p, .users = p->users, .peak_users = p->users};
	s->window = (unsigned)min_u64(window, KV_SCALE_HISTORY);
	s->throughput = calloc(s->window, sizeof(double));
	s->read_p95 = calloc(s->window, sizeof(double));
	if (s->throughput && s->read_p95)
		return 0;
	kv_scale_fini(s);
	return -ENOMEM;
}

void kv_scale_fini(struct kv_scale *s)
{
	free(s->throughput);
	free(s->read_p95);
	s->throughput = s->read_p95 = NULL;
}

/* ------------------------------------------------------------------ saturation */

/* Of the last window, oldest first. */
static double history_at(const struct kv_scale *s, const double *kept, unsigned i)
{
	return kept[(s->nr + i) % s->window];
}

static bool is_flat(const struct kv_scale *s)
{
	double sum = 0, square = 0, mean;

	for (unsigned i = 0; i < s->window; i++)
		sum += s->throughput[i];
	mean = sum / s->window;
	for (unsigned i = 0; i < s->window; i++)
		square += (s->throughput[i] - mean) * (s->throughput[i] - mean);
	return sqrt(square / s->window) / (mean + 0.01) < 0.1;
}

/* Does the line through the P95 go up? */
static bool is_rising(const struct kv_scale *s)
{
	double middle = (s->window - 1) / 2.0, slope = 0;

	for (unsigned i = 0; i < s->window; i++)
		slope += (i - middle) * history_at(s, s->read_p95, i);
	return slope > 0;
}

/* 0 .. 1; not known before the window is full. */
static double saturation(const struct kv_scale *s)
{
	double worst = 0, level;

	if (s->nr < s->window)
		return 0;
	for (unsigned i = 0; i < s->window; i++)
		worst = fmax(worst, s->read_p95[i]);
	level = fmin(1, worst / s->p->config.read_p95_threshold_ms);
	return level * (is_flat(s) && is_rising(s) ? 1.0 : 0.5);
}

static bool is_saturated(const struct kv_config *c, const struct kv_scale_sample *v)
{
	return v->read_p95_ms > c->read_p95_threshold_ms ||
	       v->write_p95_ms > c->write_p95_threshold_ms ||
	       v->queued > (uint64_t)c->queue_depth_threshold;
}

/* ------------------------------------------------------------------- decisions */

static enum kv_scale_action scale_set_users(struct kv_scale *s, double users)
{
	uint32_t old = s->users;

	users = fmin(fmax(users, min_users(s->p)), kv_scale_max(s->p));
	s->users = (uint32_t)users;
	return s->users > old ? KV_SCALE_UP : s->users < old ? KV_SCALE_DOWN : KV_SCALE_HOLD;
}

static enum kv_scale_action by_saturation(struct kv_scale *s)
{
	double target = s->p->target_saturation;

	s->over = s->saturation > 1.1 * target ? s->over + 1 : 0;
	if (s->cooldown) {
		s->cooldown--;
		return KV_SCALE_HOLD;
	}
	if (s->over >= samples_needed(s->p)) {
		s->over = 0;
		s->cooldown = COOLDOWN;
		return scale_set_users(s, s->users * s->p->config.scale_down_factor);
	}
	if (s->saturation >= 0.9 * target)
		return KV_SCALE_HOLD;
	/* a few users times 1.2 are as many: go on nevertheless */
	return scale_set_users(s, fmax(s->users * s->p->config.scale_up_factor,
				       s->p->policy.scales_number_only ? 0 : s->users + 1.0));
}

/* Twice the usual step the first time. */
static enum kv_scale_action step_up(struct kv_scale *s, double times)
{
	double step = s->users * (s->p->config.scale_up_factor - 1) * times;

	return scale_set_users(s, s->users + fmin(fmax(step, STEP_MIN), STEP_MAX));
}

static enum kv_scale_action by_capacity(struct kv_scale *s, bool improved)
{
	if (s->nr == 1)
		return step_up(s, 2);
	if (improved) {
		s->stale = 0;
		return step_up(s, 1);
	}
	return ++s->stale >= samples_needed(s->p) ? KV_SCALE_STOP : KV_SCALE_HOLD;
}

enum kv_scale_action kv_scale_feed(struct kv_scale *s, const struct kv_scale_sample *v)
{
	bool improved = v->tokens_per_sec > IMPROVED * s->peak_tokens_per_sec;

	s->throughput[s->nr % s->window] = v->tokens_per_sec;
	s->read_p95[s->nr % s->window] = v->read_p95_ms;
	s->nr++;
	s->saturation = saturation(s);
	s->saturated = is_saturated(&s->p->config, v);
	if (improved) {
		s->peak_tokens_per_sec = v->tokens_per_sec;
		s->peak_users = s->users;
	}
	return s->p->autoscale_mode == KV_SCALE_CAPACITY ? by_capacity(s, improved)
							 : by_saturation(s);
}
