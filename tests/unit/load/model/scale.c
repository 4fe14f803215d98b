/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler, sample by sample. */
#include <math.h>

#include "common/kvparams.h"
#include "common/t.h"
#include "load/model/kv_scale.h"

static struct kv_params params;
static struct kv_scale scaler;

static void setup(void)
{
	t_kv_params(&params, 100, 60);
	params.autoscale = true;
}

static void teardown(void)
{
	kv_scale_fini(&scaler);
	kv_config_fini(&params.config);
}

static void begin(uint32_t users, int mode)
{
	params.users = users;
	params.autoscale_mode = mode;
	T_EQ(kv_scale_init(&scaler, &params), 0);
}

/* Feed a sample and expect an action and a number of users. */
static void feed(double tokens_per_sec, double read_p95_ms, enum kv_scale_action action,
		 uint32_t users)
{
	struct kv_scale_sample v = {.tokens_per_sec = tokens_per_sec, .read_p95_ms = read_p95_ms};

	T_EQ(kv_scale_feed(&scaler, &v), action);
	T_EQ(scaler.users, users);
}

/* So many samples, whatever they do. */
static void warm_up(unsigned n, double first_ms, double step_ms)
{
	for (unsigned i = 0; i < n; i++) {
		struct kv_scale_sample v = {.tokens_per_sec = 1000,
					    .read_p95_ms = first_ms + step_ms * i};

		kv_scale_feed(&scaler, &v);
	}
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

/* ------------------------------------------------------------------- saturation */

static void saturation_is_not_known_before_ten_samples(void)
{
	begin(100, KV_SCALE_QOS);
	warm_up(9, 100, 1);
	T_OK(near(scaler.saturation, 0));
	warm_up(1, 109, 0);
	T_OK(near(scaler.saturation, 1));
}

static void rising_latency_at_steady_throughput_counts_double(void)
{
	begin(100, KV_SCALE_QOS);
	warm_up(10, 41, 1); /* up to 50 of 100 ms, rising */
	T_OK(near(scaler.saturation, 0.5));
	kv_scale_fini(&scaler);
	begin(100, KV_SCALE_QOS);
	warm_up(10, 50, -1);
	T_OK(near(scaler.saturation, 0.25));
}

static void latency_that_rises_with_throughput_counts_half(void)
{
	begin(100, KV_SCALE_QOS);
	for (unsigned i = 0; i < 10; i++) {
		struct kv_scale_sample v = {1000 * (i + 1), 41 + i, 0, 0};

		kv_scale_feed(&scaler, &v);
	}
	T_OK(near(scaler.saturation, 0.25));
}

static void only_the_last_samples_count(void)
{
	begin(100, KV_SCALE_QOS);
	warm_up(5, 1000, 0);
	warm_up(10, 10, 0);
	T_OK(near(scaler.saturation, 0.05));
}

static void the_window_and_the_threshold_come_from_the_configuration(void)
{
	params.config.history_window = 3;
	params.config.read_p95_threshold_ms = 200;
	begin(100, KV_SCALE_QOS);
	warm_up(3, 98, 1);
	T_OK(near(scaler.saturation, 0.5));
}

static void any_threshold_says_saturated(void)
{
	struct kv_scale_sample calm = {0, 100, 50, 100}, slow_read = {0, 100.1, 0, 0};
	struct kv_scale_sample slow_write = {0, 0, 50.1, 0}, long_queue = {0, 0, 0, 101};

	begin(100, KV_SCALE_QOS);
	kv_scale_feed(&scaler, &calm);
	T_OK(!scaler.saturated);
	kv_scale_feed(&scaler, &slow_read);
	T_OK(scaler.saturated);
	kv_scale_feed(&scaler, &slow_write);
	T_OK(scaler.saturated);
	kv_scale_feed(&scaler, &long_queue);
	T_OK(scaler.saturated);
}

/* -------------------------------------------------------------------------- qos */

static void below_the_target_there_are_more_users(void)
{
	begin(100, KV_SCALE_QOS);
	feed(1000, 0, KV_SCALE_UP, 120);
	feed(1000, 0, KV_SCALE_UP, 144);
}

static void few_users_become_more_too(void)
{
	begin(1, KV_SCALE_QOS);
	feed(1000, 0, KV_SCALE_UP, 2);
	feed(1000, 0, KV_SCALE_UP, 3);
}

/* Samples 11 and 12 are the first two above: saturation is 0 before the tenth. */
static void twice_above_the_target_there_are_fewer_and_then_a_rest(void)
{
	params.config.max_users = 100;
	begin(100, KV_SCALE_QOS);
	warm_up(9, 101, 1);
	T_EQ(scaler.users, 100);
	feed(1000, 110, KV_SCALE_HOLD, 100);
	feed(1000, 111, KV_SCALE_DOWN, 80);
	feed(1000, 112, KV_SCALE_HOLD, 80);
	feed(1000, 113, KV_SCALE_HOLD, 80);
	feed(1000, 114, KV_SCALE_HOLD, 80);
	feed(1000, 115, KV_SCALE_DOWN, 64);
}

static void near_the_target_nothing_changes(void)
{
	params.target_saturation = 0.5;
	params.config.max_users = 100;
	begin(100, KV_SCALE_QOS);
	warm_up(10, 41, 1);
	feed(1000, 51, KV_SCALE_HOLD, 100);
	feed(1000, 52, KV_SCALE_HOLD, 100);
}

static void users_stay_within_the_configured_limits(void)
{
	params.config.max_users = 110;
	params.config.min_users = 90;
	begin(100, KV_SCALE_QOS);
	feed(1000, 0, KV_SCALE_UP, 110);
	feed(1000, 0, KV_SCALE_HOLD, 110);
	warm_up(9, 101, 1);
	T_EQ(scaler.users, 90);
}

static void factors_and_patience_come_from_the_configuration(void)
{
	params.config.scale_up_factor = 2;
	params.config.scale_down_factor = 0.5;
	params.config.consecutive_samples = 1;
	params.config.history_window = 2;
	begin(100, KV_SCALE_QOS);
	feed(1000, 101, KV_SCALE_UP, 200);
	feed(1000, 102, KV_SCALE_DOWN, 100);
}

static void upstream_ignores_the_configuration_and_stops_at_500(void)
{
	params.config.scale_up_factor = 2;
	kv_params_as_upstream(&params);
	begin(400, KV_SCALE_QOS);
	feed(1000, 0, KV_SCALE_UP, 480);
	feed(1000, 0, KV_SCALE_UP, 500);
	T_EQ(kv_scale_max(&params), 500);
}

/* --------------------------------------------------------------------- capacity */

static void capacity_climbs_while_throughput_does(void)
{
	begin(100, KV_SCALE_CAPACITY);
	feed(1000, 0, KV_SCALE_UP, 140);
	feed(1200, 0, KV_SCALE_UP, 168);
	feed(1211, 0, KV_SCALE_HOLD, 168); /* less than 1 % more */
	feed(1230, 0, KV_SCALE_UP, 201);
	feed(1240, 0, KV_SCALE_HOLD, 201);
	feed(1000, 0, KV_SCALE_STOP, 201);
	T_OK(near(scaler.peak_tokens_per_sec, 1230));
	T_EQ(scaler.peak_users, 168);
}

static void steps_are_between_5_and_100_users(void)
{
	begin(4, KV_SCALE_CAPACITY);
	feed(1000, 0, KV_SCALE_UP, 9);
	kv_scale_fini(&scaler);
	begin(2000, KV_SCALE_CAPACITY);
	feed(1000, 0, KV_SCALE_UP, 2100);
}

static const struct t_case saturation[] = {
	T_CASE(saturation_is_not_known_before_ten_samples),
	T_CASE(rising_latency_at_steady_throughput_counts_double),
	T_CASE(latency_that_rises_with_throughput_counts_half),
	T_CASE(only_the_last_samples_count),
	T_CASE(the_window_and_the_threshold_come_from_the_configuration),
	T_CASE(any_threshold_says_saturated),
};

static const struct t_case qos[] = {
	T_CASE(below_the_target_there_are_more_users),
	T_CASE(few_users_become_more_too),
	T_CASE(twice_above_the_target_there_are_fewer_and_then_a_rest),
	T_CASE(near_the_target_nothing_changes),
	T_CASE(users_stay_within_the_configured_limits),
	T_CASE(factors_and_patience_come_from_the_configuration),
	T_CASE(upstream_ignores_the_configuration_and_stops_at_500),
};

static const struct t_case capacity[] = {
	T_CASE(capacity_climbs_while_throughput_does),
	T_CASE(steps_are_between_5_and_100_users),
};

static const struct t_group groups[] = {
	{"saturation", setup, teardown, saturation, T_COUNT(saturation)},
	{"qos", setup, teardown, qos, T_COUNT(qos)},
	{"capacity", setup, teardown, capacity, T_COUNT(capacity)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
