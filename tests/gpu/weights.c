/* SPDX-License-Identifier: Apache-2.0 */
/* Weights read into device memory: content, order behind the user's streams, what is left. */
#include <penstock/weights.h>

#include "tests/gpu/fixture.h"

enum { GROUPS = 9, EACH = 700001, SEED = 12 };

static struct penstock_model *model;
static struct penstock_weights *w;
static struct penstock_err err;
static CUstream stream;

static void setup(void)
{
	fixture_setup();
	fixture_open(NULL);
	t_file_make(fixture_path, SEED, GROUPS * EACH);
	T_EQ(cuStreamCreate(&stream, 1), 0);
	T_ERR(penstock_model_new(&model, &err), 0, &err);
	for (uint64_t i = 0; i < GROUPS; i++) {
		struct penstock_weight t = {
			.name = "w", .path = fixture_path, .offset = i * EACH, .len = EACH};

		T_ERR(penstock_model_group(model, "g", &err), 0, &err);
		T_ERR(penstock_model_add(model, &t, &err), 0, &err);
	}
}

static void teardown(void)
{
	standin_release();
	penstock_weights_close(w);
	w = NULL;
	penstock_model_close(model);
	cuStreamDestroy_v2(stream);
	fixture_teardown();
}

static void open_it(uint32_t memory, void *addr, uint32_t flags)
{
	struct penstock_weights_opts o = PENSTOCK_WEIGHTS_OPTS_INIT;

	o.memory = memory;
	o.addr = addr;
	o.flags = flags;
	o.window = MIB(2);
	T_ERR(penstock_weights_open(&w, fixture_io, model, &o, &err), 0, &err);
}

/* The next group, which is number @want, and right. */
static struct penstock_view next_is(uint64_t want, bool device)
{
	struct penstock_view v;
	const void *seen;

	T_ERR(penstock_weights_next(w, &v, &err), 1, &err);
	T_EQ(v.group, want);
	seen = device ? fixture_see((CUdeviceptr)(uintptr_t)(v.base + v.at[0]), EACH)
		      : (const void *)(v.base + v.at[0]);
	T_EQ(penstock_pattern_check(seen, EACH, SEED, want * EACH), EACH);
	return v;
}

static struct penstock_weights_stats stats(void)
{
	struct penstock_weights_stats s = {.size = sizeof(s)};

	T_EQ(penstock_weights_get_stats(w, &s), 0);
	return s;
}

static void groups_come_into_device_memory(void)
{
	struct penstock_weights_stats s;

	open_it(PENSTOCK_WEIGHTS_DEVICE, NULL, 0);
	for (uint64_t i = 0; i < GROUPS; i++) {
		next_is(i, true);
		T_ERR(penstock_weights_release(w, i, &err), 0, &err);
	}
	s = stats();
	T_OK(s.bytes_copied >= GROUPS * (uint64_t)EACH && s.copy_ns > 0);
}

/* What the user has queued is done before the room is used again. */
static void a_release_waits_for_the_users_stream(void)
{
	CUdeviceptr dev = fixture_alloc(0, MIB(2));
	struct penstock_view v, u;

	open_it(0, (void *)(uintptr_t)dev, 0);
	v = next_is(0, true);
	u = next_is(1, true);
	T_EQ(standin_hold(stream), 0);
	T_EQ(standin_fill((CUdeviceptr)(uintptr_t)v.base, 0x55, EACH, stream), 0);
	T_ERR(penstock_weights_release_after(w, v.group, stream, &err), 0, &err);
	usleep(20000);
	/* the window has room for two: nothing can have been read */
	T_EQ(stats().reads, 2);
	standin_release();
	next_is(2, true); /* in the room of 0, and not filled */
	T_ERR(penstock_weights_release_after(w, u.group, stream, &err), 0, &err);
	next_is(3, true);
	T_ERR(penstock_weights_release(w, 2, &err), 0, &err);
	next_is(4, true);
	/* closed while a fence and reads are on their way */
	T_ERR(penstock_weights_release_after(w, 3, stream, &err), 0, &err);
}

static void pinned_memory_is_the_hosts(void)
{
	open_it(PENSTOCK_WEIGHTS_PINNED, NULL, 0);
	for (uint64_t i = 0; i < GROUPS; i++) {
		next_is(i, false);
		T_ERR(penstock_weights_release(w, i, &err), 0, &err);
	}
	T_EQ(stats().bytes_copied, 0);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(groups_come_into_device_memory),
		T_CASE(a_release_waits_for_the_users_stream),
		T_CASE(pinned_memory_is_the_hosts),
	};
	static const struct t_group groups[] = {
		{"weights", setup, teardown, cases, T_COUNT(cases)}};

	fixture_engine = argc > 1 ? t_engine(argv[1]) : fixture_engine;
	T_EQ(cuInit(0), 0);
	return t_run(groups, T_COUNT(groups), NULL);
}
