/* SPDX-License-Identifier: Apache-2.0 */
/* Weights streamed from storage: order, room, errors, and every byte of every one. */
#include <pthread.h>
#include <stdatomic.h>

#include <penstock/weights.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

static struct penstock_io *io;
static struct penstock_model *model;
static struct penstock_weights *w;
static struct penstock_err err;

static void io_with(const char *engine)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;

	T_EQ(penstock_close(io, NULL), 0);
	io = NULL;
	o.engine = engine;
	T_ERR(penstock_open(&io, &o, &err), 0, &err);
}

static void setup(void)
{
	io = NULL;
	model = NULL;
	w = NULL;
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	T_ERR(penstock_model_new(&model, &err), 0, &err);
}

static void teardown(void)
{
	penstock_weights_close(w);
	penstock_model_close(model);
	T_EQ(penstock_close(io, NULL), 0);
}

/* ------------------------------------------------------------- small words */

static void group(const char *name)
{
	T_ERR(penstock_model_group(model, name, &err), 0, &err);
}

/* Files hold the pattern of seed 5. */
static void add(const char *file, uint64_t offset, uint64_t len)
{
	char name[64];
	struct penstock_weight t = {
		.name = name, .path = t_path(file), .offset = offset, .len = len};

	snprintf(name, sizeof(name), "t%llu", (unsigned long long)offset);
	T_ERR(penstock_model_add(model, &t, &err), 0, &err);
}

/* @n groups of @each bytes, one after the other, of a file with @odd bytes before them. */
static void make_model(uint64_t n, uint64_t each, uint64_t odd)
{
	t_file_make(t_path("f"), 5, odd + n * each);
	for (uint64_t i = 0; i < n; i++) {
		char name[32];

		snprintf(name, sizeof(name), "g%llu", (unsigned long long)i);
		group(name);
		add("f", odd + i * each, each);
	}
}

static int open_window(uint64_t window, uint32_t flags)
{
	struct penstock_weights_opts o = PENSTOCK_WEIGHTS_OPTS_INIT;

	o.window = window;
	o.flags = flags;
	return penstock_weights_open(&w, io, model, &o, &err);
}

static void view_check(const struct penstock_view *v)
{
	for (uint64_t i = 0; i < v->nr; i++) {
		const struct penstock_weight *t = penstock_model_get_weight(model, v->first + i);

		T_EQ(penstock_pattern_check(v->base + v->at[i], t->len, 5, t->offset), t->len);
		if (t->len)
			T_EQ(((uintptr_t)(v->base + v->at[i]) - t->offset) % 4096, 0);
	}
}

/* The next group is @want, and right; it stays held. */
static struct penstock_view expect_next(uint64_t want)
{
	struct penstock_view v;

	T_ERR(penstock_weights_next(w, &v, &err), 1, &err);
	T_EQ(v.group, want);
	view_check(&v);
	return v;
}

static void get_and_release(uint64_t want)
{
	expect_next(want);
	T_ERR(penstock_weights_release(w, want, &err), 0, &err);
}

static void expect_end(void)
{
	struct penstock_view v;

	T_ERR(penstock_weights_next(w, &v, &err), 0, &err);
}

static struct penstock_weights_stats stats(void)
{
	struct penstock_weights_stats s = {.size = sizeof(s)};

	T_EQ(penstock_weights_get_stats(w, &s), 0);
	return s;
}

/* -------------------------------------------------------------------- order */

static void groups_come_in_order_through_any_window(void)
{
	static const uint64_t windows[] = {MIB(3) + KIB(4), MIB(5), MIB(9), MIB(64), 0};

	make_model(9, MIB(3) - 1000, 12345);
	for (size_t i = 0; i < T_COUNT(windows); i++) {
		struct penstock_weights_stats s;

		T_ERR(open_window(windows[i], 0), 0, &err);
		for (uint64_t k = 0; k < 9; k++)
			get_and_release(k);
		expect_end();
		s = stats();
		T_EQ(s.groups, 9);
		T_EQ(s.bytes, 9 * (MIB(3) - 1000));
		T_OK(s.bytes_read >= s.bytes && s.bytes_read <= s.bytes + 9 * KIB(8));
		T_EQ(s.hits + s.misses, 9);
		T_EQ(s.wasted, 0);
		T_OK(s.reads >= 9 && s.largest <= s.window);
		penstock_weights_close(w);
		w = NULL;
	}
}

static void a_cycle_goes_on_and_several_can_be_held(void)
{
	make_model(5, MIB(1), 100);
	T_ERR(open_window(MIB(4), PENSTOCK_WEIGHTS_CYCLIC), 0, &err);
	for (uint64_t k = 0; k < 23; k++) {
		struct penstock_view v = expect_next(k % 5);

		if (k)
			T_ERR(penstock_weights_release(w, (k - 1) % 5, &err), 0, &err);
		view_check(&v); /* it stays as it is while the one before goes */
	}
	T_OK(stats().bytes_read >= 20 * MIB(1));
}

/* A group takes a page more where it begins late in one; two of them fit all the same. */
static void groups_of_one_size_fit_where_one_was(void)
{
	make_model(9, 700001, 0);
	T_ERR(open_window(2 * KIB(692), PENSTOCK_WEIGHTS_CYCLIC), 0, &err);
	expect_next(0);
	for (uint64_t k = 1; k < 30; k++) {
		expect_next(k % 9);
		T_ERR(penstock_weights_release(w, (k - 1) % 9, &err), 0, &err);
	}
}

static void what_fits_as_a_whole_is_read_once(void)
{
	make_model(4, MIB(1), 0);
	T_ERR(open_window(MIB(5), PENSTOCK_WEIGHTS_CYCLIC), 0, &err);
	for (uint64_t k = 0; k < 40; k++)
		get_and_release(k % 4);
	T_EQ(stats().bytes_read, MIB(4));
	T_OK(stats().resident >= MIB(4) && stats().resident <= MIB(4) + KIB(16));
}

static void wanted_groups_come_first_and_then_the_order_goes_on(void)
{
	static const uint64_t set[] = {7, 3, 9}, more[] = {8, 8};

	make_model(10, MIB(1), 777);
	T_ERR(open_window(MIB(3), 0), 0, &err);
	get_and_release(0);
	T_ERR(penstock_weights_request(w, set, 3, &err), 0, &err);
	get_and_release(7);
	T_ERR(penstock_weights_request(w, more, 2, &err), 0, &err);
	get_and_release(3);
	get_and_release(9);
	expect_next(8);
	get_and_release(8); /* once more, while it is held */
	T_ERR(penstock_weights_release(w, 8, &err), 0, &err);
	T_ERR(penstock_weights_release(w, 8, &err), -EINVAL, &err);
	for (uint64_t k = 1; k < 10; k++)
		get_and_release(k);
	expect_end();
	T_ERR(penstock_weights_request(w, (const uint64_t[]){10}, 1, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "10 is not within the 10");
}

static void skipped_groups_do_not_come(void)
{
	make_model(12, MIB(1), 1);
	T_ERR(open_window(MIB(3) + KIB(64), 0), 0, &err);
	get_and_release(0);
	T_EQ(penstock_weights_skip(w, 3, &err), 3);
	get_and_release(4);
	get_and_release(5);
	T_EQ(penstock_weights_skip(w, 0, &err), 0);
	T_EQ(penstock_weights_skip(w, 5, &err), 5);
	get_and_release(11);
	T_EQ(penstock_weights_skip(w, 5, &err), 0);
	expect_end();
}

static void random_calls_give_what_was_asked_for(void)
{
	struct penstock_random rnd;
	uint64_t expect[4096], nr = 0, seq = 0, held = UINT64_MAX;

	penstock_random_seed(&rnd, t_seed());
	t_file_make(t_path("f"), 5, MIB(12));
	for (uint64_t i = 0; i < 20; i++) {
		group("g");
		for (uint64_t k = penstock_random_below(&rnd, 4); k-- > 0;)
			add("f", penstock_random_below(&rnd, MIB(11)),
			    penstock_random_below(&rnd, KIB(300)));
	}
	T_ERR(open_window(MIB(5), PENSTOCK_WEIGHTS_CYCLIC), 0, &err);
	for (unsigned i = 0; i < 400; i++) {
		uint64_t what = penstock_random_below(&rnd, 10),
			 g = penstock_random_below(&rnd, 20);

		if (what == 0) {
			T_ERR(penstock_weights_request(w, &g, 1, &err), 0, &err);
			expect[nr++] = g;
		} else if (what == 1) {
			T_EQ(penstock_weights_skip(w, 1, &err), 1);
			if (nr)
				memmove(expect, expect + 1, --nr * sizeof(*expect));
			else
				seq++;
		} else {
			g = nr ? expect[0] : seq % 20;
			expect_next(g);
			if (held != UINT64_MAX)
				T_ERR(penstock_weights_release(w, held, &err), 0, &err);
			held = g;
			if (nr)
				memmove(expect, expect + 1, --nr * sizeof(*expect));
			else
				seq++;
		}
	}
}

/* ------------------------------------------------------------------ waiting */

/* Whoever waits for what is held back shall not wait forever. */
static void *unlink_later(void *arg)
{
	atomic_int *over = arg;

	for (unsigned i = 0; i < 300 && !*over; i++)
		usleep(100000);
	unlink(t_path("held"));
	return NULL;
}

/* Request 3 is held back; groups 0 and 1 are whole without it, and 2 is not. */
static void waiting_for_a_group_waits_for_no_later_one(void)
{
	atomic_int over = 0;
	pthread_t thread;
	char engine[512];

	make_model(4, KIB(64), 0);
	t_file_make(t_path("held"), 1, 1);
	snprintf(engine, sizeof(engine), "fault:nth=3,while=%s", t_path("held"));
	io_with(engine);
	T_EQ(pthread_create(&thread, NULL, unlink_later, &over), 0);
	T_ERR(open_window(MIB(1), 0), 0, &err);
	get_and_release(0);
	get_and_release(1);
	/* it is still on its way */
	T_EQ(t_file_size(t_path("held")), 1);
	T_OK(stats().in_flight >= KIB(64));
	over = 1;
	pthread_join(thread, NULL);
	get_and_release(2);
	get_and_release(3);
	T_OK(stats().stall_disk_ns > 0);
}

static void it_can_be_closed_at_any_moment(void)
{
	make_model(16, MIB(1), 4096);
	for (unsigned i = 0; i < 60; i++) {
		struct penstock_view v;

		T_ERR(open_window(MIB(4), i % 2 ? PENSTOCK_WEIGHTS_CYCLIC : 0), 0, &err);
		for (uint64_t k = 0; k < i % 7; k++)
			get_and_release(k);
		if (i % 3 == 0)
			penstock_weights_request(w, (const uint64_t[]){9, 2}, 2, &err);
		if (i % 5 == 0)
			penstock_weights_skip(w, 3, &err);
		if (i % 4 == 0)
			T_ERR(penstock_weights_next(w, &v, &err), 1, &err);
		penstock_weights_close(w);
		w = NULL;
	}
}

static void holding_everything_is_told_and_not_waited_for(void)
{
	struct penstock_view v;

	make_model(4, MIB(2), 0);
	T_ERR(open_window(MIB(5), 0), 0, &err);
	expect_next(0);
	expect_next(1);
	T_ERR(penstock_weights_next(w, &v, &err), -ENOBUFS, &err);
	T_STR_HAS(err.msg, "no room for 'g2' of 2 MiB");
	T_ERR(penstock_weights_release(w, 0, &err), 0, &err);
	expect_next(2); /* it is as it was */
}

static void the_caller_is_told_where_time_went(void)
{
	struct penstock_weights_stats s;

	make_model(4, MIB(1), 0);
	T_ERR(open_window(MIB(2), 0), 0, &err);
	expect_next(0);
	while (stats().in_flight)
		usleep(1000);
	usleep(20000);
	s = stats();
	T_OK(s.stall_caller_ns >= 20000000);
	T_OK(s.disk_ns > 0 && s.stall_copy_ns == 0 && s.bytes_copied == 0);
	T_ERR(penstock_weights_release(w, 0, &err), 0, &err);
	get_and_release(1);
	get_and_release(2);
	get_and_release(3);
	expect_end();
}

/* ------------------------------------------------------------------ experts */

static void experts_stay_until_their_room_is_needed(void)
{
	static const uint64_t first[] = {5, 1, 8}, again[] = {2, 8, 1};
	struct penstock_weights_stats s;
	struct penstock_view v;

	make_model(10, MIB(1), 500);
	T_ERR(open_window(4 * (MIB(1) + KIB(4)), PENSTOCK_WEIGHTS_EXPERTS), 0, &err);
	expect_end();
	T_ERR(penstock_weights_request(w, first, 3, &err), 0, &err);
	get_and_release(5);
	get_and_release(1);
	get_and_release(8);
	expect_end();
	T_EQ(stats().misses, 3);
	/* those that are there come first */
	T_ERR(penstock_weights_request(w, again, 3, &err), 0, &err);
	get_and_release(8);
	get_and_release(1);
	get_and_release(2);
	s = stats();
	T_EQ(s.hits, 2);
	T_EQ(s.misses, 4);
	T_EQ(s.evicted, 0);
	/* 5 is the least recently used */
	T_ERR(penstock_weights_request(w, (const uint64_t[]){9}, 1, &err), 0, &err);
	get_and_release(9);
	T_EQ(stats().evicted, 1);
	T_ERR(penstock_weights_request(w, (const uint64_t[]){8, 1, 2}, 3, &err), 0, &err);
	for (unsigned i = 0; i < 3; i++) {
		T_ERR(penstock_weights_next(w, &v, &err), 1, &err);
		T_ERR(penstock_weights_release(w, v.group, &err), 0, &err);
	}
	T_EQ(stats().hits, 5);
	T_ERR(penstock_weights_request(w, (const uint64_t[]){5}, 1, &err), 0, &err);
	get_and_release(5);
	T_EQ(stats().misses, 6);
}

static void hints_are_read_before_they_are_wanted(void)
{
	struct penstock_weights_stats s;

	make_model(10, MIB(1), 0);
	T_ERR(open_window(MIB(4), PENSTOCK_WEIGHTS_EXPERTS), 0, &err);
	T_ERR(penstock_weights_hint(w, (const uint64_t[]){3, 4, 3}, 3, &err), 0, &err);
	while (stats().resident < MIB(2))
		usleep(1000);
	T_ERR(penstock_weights_request(w, (const uint64_t[]){4, 6}, 2, &err), 0, &err);
	get_and_release(4);
	get_and_release(6);
	s = stats();
	T_EQ(s.hits, 1);
	T_EQ(s.misses, 1);
	/* more hints than there is room for do no harm, and wants come before them */
	T_ERR(penstock_weights_hint(w, (const uint64_t[]){0, 1, 2, 5, 7, 8, 9}, 7, &err), 0, &err);
	T_ERR(penstock_weights_request(w, (const uint64_t[]){9, 8, 7, 6, 5}, 5, &err), 0, &err);
	for (unsigned i = 0; i < 5; i++) {
		struct penstock_view v;

		T_ERR(penstock_weights_next(w, &v, &err), 1, &err);
		view_check(&v);
		T_ERR(penstock_weights_release(w, v.group, &err), 0, &err);
	}
	expect_end();
	penstock_weights_close(w);
	w = NULL;
	T_ERR(open_window(MIB(4), 0), 0, &err);
	T_ERR(penstock_weights_hint(w, (const uint64_t[]){0}, 1, &err), -EINVAL, &err);
}

/* ------------------------------------------------------------------- errors */

static void a_group_that_fails_is_told_and_the_next_one_comes(void)
{
	struct penstock_view v;

	make_model(6, MIB(1), 0);
	T_ERR(open_window(MIB(2), PENSTOCK_WEIGHTS_CYCLIC), 0, &err);
	get_and_release(0);
	T_EQ(truncate(t_path("f"), (off_t)(MIB(3) + 5)), 0);
	for (uint64_t k = 1; k < 13; k++) {
		int r = penstock_weights_next(w, &v, &err);

		if (k > 6) /* read when it was short already */
			T_EQ(r == 1, k % 6 < 3);
		if (r == 1) {
			T_EQ(v.group, k % 6);
			T_ERR(penstock_weights_release(w, v.group, &err), 0, &err);
			continue;
		}
		T_EQ(r, -ENODATA);
		T_OK(k % 6 >= 3);
		T_STR_HAS(err.msg, "/f: ends at byte ");
		T_STR_HAS(err.msg, "of group 'g");
	}
}

static void a_failed_read_is_told_by_its_own_group(void)
{
	struct penstock_view v;
	unsigned failed = 0;

	make_model(6, MIB(1), 0);
	io_with("fault:nth=4");
	T_ERR(open_window(MIB(6), 0), 0, &err);
	for (unsigned k = 0; k < 6; k++) {
		int r = penstock_weights_next(w, &v, &err);

		if (r == -EIO) {
			T_STR_HAS(err.msg, "/f: offset");
			failed++;
		} else {
			T_EQ(r, 1);
			T_EQ(v.group, k);
			view_check(&v);
		}
	}
	T_EQ(failed, 1);
	expect_end();
}

static void what_cannot_be_streamed_is_told_in_a_line(void)
{
	struct penstock_weight none = {.name = "x", .path = "y"};

	T_ERR(penstock_model_add(model, &none, &err), -EINVAL, &err);
	make_model(3, MIB(3), 0);
	T_ERR(open_window(MIB(2), 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "window: 2 MiB is smaller than group 'g0', which takes 3 MiB");
	T_ERR(open_window(MIB(3), 0x80), -EINVAL, &err);
	T_STR_HAS(err.msg, "flags: 0x80");
	T_ERR(open_window(MIB(3), 3), -EINVAL, &err);
	group("long");
	add("f", MIB(8), MIB(1) + 1);
	T_ERR(open_window(MIB(8), 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "/f: has 9437184 bytes, and 't8388608' ends at byte 9437185");
	group("gone");
	add("nowhere", 0, 1);
	T_ERR(open_window(MIB(8), 0), -ENOENT, &err);
	T_STR_HAS(err.msg, "nowhere");
}

/* -------------------------------------------------------------------- sizes */

/* 100,000 tensors of 220 bytes: what counts is how few reads there are. */
static void small_tensors_are_read_together(void)
{
	enum { N = 100000, EACH = 220, GROUPS = 10 };
	struct penstock_weights_stats s;

	t_file_make(t_path("f"), 5, N * EACH);
	for (uint64_t i = 0; i < N; i++) {
		if (i % (N / GROUPS) == 0)
			group("g");
		add("f", i * EACH, EACH);
	}
	T_ERR(open_window(MIB(16), 0), 0, &err);
	for (uint64_t k = 0; k < GROUPS; k++)
		get_and_release(k);
	s = stats();
	T_OK(s.reads <= GROUPS * 2);
	T_OK(s.bytes_read < s.bytes * 101 / 100);
}

static void order_and_holes_within_a_group_do_not_matter(void)
{
	t_file_make(t_path("f"), 5, MIB(4) + 1);
	t_file_make(t_path("h"), 5, MIB(1));
	group("g");
	add("f", MIB(4), 1);
	add("h", 17, 0);
	add("f", 3, 5000);
	add("h", KIB(900), 1000);
	add("f", 3, 100);          /* twice the same */
	add("f", 4000, MIB(1));    /* overlaps */
	add("f", MIB(3), KIB(10)); /* far from the others */
	add("f", MIB(1) + KIB(50), KIB(7));
	T_ERR(open_window(0, 0), 0, &err);
	get_and_release(0);
	T_EQ(stats().reads, 4);
	expect_end();
}

/* As many files as there are descriptors for, and some more. */
static void many_files_are_opened_when_they_are_used(void)
{
	enum { N = 700 };
	int fds;

	for (unsigned i = 0; i < N; i++) {
		char name[32];

		snprintf(name, sizeof(name), "n%u", i);
		t_file_make(t_path(name), 5, 5000);
		group(name);
		add(name, 0, 5000);
	}
	fds = t_nr_fds();
	T_ERR(open_window(KIB(64), 0), 0, &err);
	T_OK(t_nr_fds() < fds + 100);
	for (unsigned i = 0; i < N; i++)
		get_and_release(i);
	expect_end();
}

/* The caller's memory, wherever it begins. */
static void the_window_can_be_the_callers(void)
{
	struct penstock_weights_opts o = PENSTOCK_WEIGHTS_OPTS_INIT;
	struct t_mem m = t_mem_new(MIB(4), 24);

	make_model(6, MIB(1), 60);
	o.addr = m.buf;
	T_ERR(penstock_weights_open(&w, io, model, &o, &err), -EINVAL, &err);
	o.window = m.len;
	T_ERR(penstock_weights_open(&w, io, model, &o, &err), 0, &err);
	for (uint64_t k = 0; k < 6; k++) {
		struct penstock_view v = expect_next(k);

		T_OK((unsigned char *)v.base >= m.buf);
		T_ERR(penstock_weights_release(w, k, &err), 0, &err);
	}
	penstock_weights_close(w);
	w = NULL;
	T_MEM_CHECK(&m);
	t_mem_free(&m);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(groups_come_in_order_through_any_window),
		T_CASE(a_cycle_goes_on_and_several_can_be_held),
		T_CASE(groups_of_one_size_fit_where_one_was),
		T_CASE(what_fits_as_a_whole_is_read_once),
		T_CASE(wanted_groups_come_first_and_then_the_order_goes_on),
		T_CASE(skipped_groups_do_not_come),
		T_CASE(random_calls_give_what_was_asked_for),
		T_CASE(waiting_for_a_group_waits_for_no_later_one),
		T_CASE(it_can_be_closed_at_any_moment),
		T_CASE(holding_everything_is_told_and_not_waited_for),
		T_CASE(the_caller_is_told_where_time_went),
		T_CASE(experts_stay_until_their_room_is_needed),
		T_CASE(hints_are_read_before_they_are_wanted),
		T_CASE(a_group_that_fails_is_told_and_the_next_one_comes),
		T_CASE(a_failed_read_is_told_by_its_own_group),
		T_CASE(what_cannot_be_streamed_is_told_in_a_line),
		T_CASE(small_tensors_are_read_together),
		T_CASE(order_and_holes_within_a_group_do_not_matter),
		T_CASE(many_files_are_opened_when_they_are_used),
		T_CASE(the_window_can_be_the_callers),
	};
	static const struct t_group groups[] = {
		{"weights", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
