/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine owes the core, by its vtable:
 *
 *	contract ENGINE
 */
#include <fcntl.h>
#include <pthread.h>

#include "base/random.h"
#include "engine/engine.h"
#include "tests/common/t.h"

enum { SEED = 61, DEPTH = 16, LEN = 4096, SLOTS = 8 };

static const char *name = "threads";
static const struct penstock_engine *engine;
static const char *settings;
static bool moves; /* not the null engine */
static void *state;
static int fd = -1;
static unsigned char *mem; /* DEPTH * 4 blocks, aligned */
static struct penstock_req reqs[DEPTH * 4];

static void setup(void)
{
	struct penstock_engine_params p = {
		.depth = DEPTH, .settings = settings, .nr_files = SLOTS, .nr_bufs = SLOTS};
	struct penstock_err err = {0, ""};

	t_file_make(t_path("file"), SEED, T_COUNT(reqs) * LEN);
	fd = open(t_path("file"), O_RDWR | O_CLOEXEC);
	mem = aligned_alloc(4096, T_COUNT(reqs) * LEN);
	T_OK(fd >= 0 && mem);
	memset(mem, 0, T_COUNT(reqs) * LEN);
	state = calloc(1, engine->state_size ? engine->state_size : 1);
	T_OK(state);
	T_ERR(engine->open(state, &p, &err), 0, &err);
}

static void teardown(void)
{
	if (state)
		engine->close(state);
	free(state);
	free(mem);
	state = NULL;
	mem = NULL;
	if (fd >= 0)
		close(fd);
	fd = -1;
	unlink(t_path("file"));
}

static struct penstock_req *req(unsigned i, uint32_t code)
{
	reqs[i] = (struct penstock_req){
		.buf = mem + (size_t)i * LEN,
		.off = (uint64_t)i * LEN,
		.len = LEN,
		.fd = fd,
		.file_slot = -1,
		.buf_slot = -1,
		.code = code,
		.res = 12345,
	};
	return &reqs[i];
}

/* The fault engine says "again" now and then. */
static bool spoiled(int32_t res)
{
	return engine == &penstock_engine_fault && res == -EAGAIN;
}

static bool woken; /* wake() is called, for which an engine may be ready as well */

/* Submit all of @list, reaping when the queue is full, until all are back. */
static unsigned run_all(struct penstock_req **list, unsigned n, unsigned *seen)
{
	unsigned sent = 0, back = 0;

	while (back < n) {
		struct penstock_req *done = NULL;
		unsigned pushed = 0;
		bool ready;
		int r = 0;

		if (sent < n && sent - back < DEPTH) {
			unsigned room = DEPTH - (sent - back);

			r = engine->submit(state, list + sent, n - sent < room ? n - sent : room);
			if (r < 0)
				T_FAIL("submit: %d", r);
			sent += (unsigned)r;
		}
		ready = engine->ready && engine->ready(state);
		r = engine->reap(state, &done, ready ? 0 : -1);
		if (r < 0)
			T_FAIL("reap: %d", r);
		T_OK(r || !ready || woken);
		for (; done; done = done->next, pushed++)
			seen[done - reqs]++;
		T_EQ(pushed, r);
		back += pushed;
		T_OK(back <= sent);
	}
	T_OK(!engine->ready || !engine->ready(state) || woken);
	return back;
}

static void what_is_accepted_comes_back_once(void)
{
	struct penstock_req *list[DEPTH * 4];
	unsigned seen[DEPTH * 4] = {0};

	for (unsigned i = 0; i < T_COUNT(list); i++)
		list[i] = req(i, PENSTOCK_REQ_READ);
	T_EQ(run_all(list, T_COUNT(list), seen), T_COUNT(list));
	for (unsigned i = 0; i < T_COUNT(list); i++) {
		T_EQ(seen[i], 1);
		if (spoiled(reqs[i].res))
			continue;
		T_OK(reqs[i].res > 0 && reqs[i].res <= LEN);
		if (moves)
			T_EQ(penstock_pattern_check(reqs[i].buf, (size_t)reqs[i].res, SEED,
						    reqs[i].off),
			     (size_t)reqs[i].res);
	}
}

static void what_is_not_accepted_is_not_touched(void)
{
	struct penstock_req *list[DEPTH * 4], before[DEPTH * 4];
	unsigned back = 0;
	int n;

	for (unsigned i = 0; i < T_COUNT(list); i++)
		list[i] = req(i, PENSTOCK_REQ_READ);
	memcpy(before, reqs, sizeof(reqs));
	n = engine->submit(state, list, T_COUNT(list));
	T_OK(n > 0 && n <= (int)T_COUNT(list));
	for (unsigned i = (unsigned)n; i < T_COUNT(list); i++)
		T_MEM(&reqs[i], &before[i], sizeof(reqs[i]));
	while (back < (unsigned)n) {
		struct penstock_req *done = NULL;
		int r = engine->reap(state, &done, -1);

		T_OK(r >= 0);
		back += (unsigned)r;
	}
	T_EQ(back, n);
}

static void writes_and_syncs_are_requests_too(void)
{
	struct penstock_req *list[DEPTH];
	unsigned seen[DEPTH * 4] = {0};
	unsigned char got[LEN];

	for (unsigned i = 0; i < DEPTH; i++) {
		list[i] = req(i, i == 3   ? PENSTOCK_REQ_FSYNC
				 : i == 5 ? PENSTOCK_REQ_FDATASYNC
					  : PENSTOCK_REQ_WRITE);
		penstock_pattern_fill(reqs[i].buf, LEN, SEED + 1, reqs[i].off);
		if (i == 3 || i == 5) {
			reqs[i].buf = NULL;
			reqs[i].len = 0;
		}
	}
	run_all(list, DEPTH, seen);
	for (unsigned i = 0; i < DEPTH; i++) {
		if (i == 3 || i == 5) {
			T_OK(reqs[i].res == 0 || spoiled(reqs[i].res));
			continue;
		}
		if (!moves || spoiled(reqs[i].res))
			continue;
		T_OK(reqs[i].res > 0 && reqs[i].res <= LEN);
		T_EQ(pread(fd, got, (size_t)reqs[i].res, (off_t)reqs[i].off), reqs[i].res);
		T_MEM(got, reqs[i].buf, (size_t)reqs[i].res);
	}
}

static void a_failed_block_is_a_negative_result(void)
{
	struct penstock_req *list[4];
	unsigned seen[DEPTH * 4] = {0};
	int none = open(t_path("file"), O_WRONLY | O_CLOEXEC);

	if (!moves) {
		close(none);
		T_SKIP("data", "the null engine never fails");
	}
	for (unsigned i = 0; i < 4; i++)
		list[i] = req(i, PENSTOCK_REQ_READ);
	reqs[0].fd = 99999;                /* no such descriptor */
	reqs[1].fd = none;                 /* not for reading */
	reqs[2].off = T_COUNT(reqs) * LEN; /* nothing there: 0, not an error */
	run_all(list, 4, seen);
	T_OK(reqs[0].res == -EBADF || spoiled(reqs[0].res));
	T_OK(reqs[1].res == -EBADF || spoiled(reqs[1].res));
	T_OK(reqs[2].res == 0 || spoiled(reqs[2].res));
	T_OK(reqs[3].res > 0 || spoiled(reqs[3].res));
	close(none);
}

static void an_empty_queue_waits_no_longer_than_told(void)
{
	struct penstock_req *done = NULL;

	T_EQ(engine->reap(state, &done, 0), 0);
	T_EQ(engine->reap(state, &done, 1000000), 0);
	T_OK(!done);
}

static void wake_before_reap_ends_it(void)
{
	struct penstock_req *done = NULL;

	for (unsigned i = 0; i < 50; i++) {
		engine->wake(state);
		if (i % 3 == 0)
			engine->wake(state); /* several are as one */
		T_EQ(engine->reap(state, &done, -1), 0);
		T_OK(!done);
		if (i % 3 == 0) /* what may be left of the second */
			T_EQ(engine->reap(state, &done, 0), 0);
	}
}

static void *wake_it(void *arg)
{
	(void)arg;
	engine->wake(state);
	return NULL;
}

static void wake_from_another_thread_ends_a_reap(void)
{
	struct penstock_req *done = NULL;

	for (unsigned i = 0; i < 50; i++) {
		pthread_t t;

		T_EQ(pthread_create(&t, NULL, wake_it, NULL), 0);
		T_EQ(engine->reap(state, &done, -1), 0);
		pthread_join(t, NULL);
	}
}

static void *fill_pipe(void *arg)
{
	struct timespec soon = {0, 20000000};

	nanosleep(&soon, NULL);
	for (unsigned i = 0; i < DEPTH; i++)
		T_EQ(write(*(const int *)arg, mem + (size_t)(DEPTH + i) * LEN, LEN), LEN);
	return NULL;
}

/*
 * However many small ones there are, of which none is finished for a while.  Only the fault engine
 * may keep back what it got, if the rest comes later.
 */
static void a_reap_without_limit_brings_something(void)
{
	bool brings = true, may_keep = engine == &penstock_engine_fault;
	struct penstock_req *list[DEPTH];
	int ends[2], r, back = 0;
	pthread_t t;

	T_EQ(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		list[i] = req(i, PENSTOCK_REQ_READ);
		list[i]->fd = ends[0];
	}
	T_EQ(pthread_create(&t, NULL, fill_pipe, &ends[1]), 0);
	T_EQ(engine->submit(state, list, DEPTH), DEPTH); /* libaio waits here */
	while (back < DEPTH) {
		struct penstock_req *done = NULL;

		r = engine->reap(state, &done, -1);
		if (r < 0)
			T_FAIL("reap: %d", r);
		brings = brings && (r || may_keep);
		back += r;
	}
	pthread_join(t, NULL);
	close(ends[0]);
	close(ends[1]);
	T_OK(brings);
}

/* Wakes among completions lose none of them. */
static void *wake_often(void *arg)
{
	_Atomic bool *stop = arg;

	while (!*stop)
		engine->wake(state);
	return NULL;
}

static void wakes_lose_no_completion(void)
{
	_Atomic bool stop = false;
	pthread_t t;

	woken = true;
	T_EQ(pthread_create(&t, NULL, wake_often, &stop), 0);
	for (unsigned round = 0; round < 20; round++) {
		struct penstock_req *list[DEPTH * 4];
		unsigned seen[DEPTH * 4] = {0};

		for (unsigned i = 0; i < T_COUNT(list); i++)
			list[i] = req(i, PENSTOCK_REQ_READ);
		run_all(list, T_COUNT(list), seen);
		for (unsigned i = 0; i < T_COUNT(list); i++)
			if (seen[i] != 1)
				T_FAIL("request %u came back %u times", i, seen[i]);
	}
	stop = true;
	pthread_join(t, NULL);
	while (engine->ready && engine->ready(state)) {
		struct penstock_req *done = NULL;

		T_EQ(engine->reap(state, &done, 0), 0);
	}
	woken = false;
}

static void registered_files_and_memory_work_and_can_be_taken_out(void)
{
	struct penstock_req *list[DEPTH];
	unsigned seen[DEPTH * 4] = {0};
	int r;

	if (!engine->set_file && !engine->set_buf)
		T_SKIP("registration", "%s registers nothing", name);
	for (unsigned round = 0; round < 3; round++) {
		bool file_ok = false, buf_ok = false;

		if (engine->set_file) {
			r = engine->set_file(state, SLOTS - 1, fd);
			T_OK(r <= 0);
			file_ok = r == 0;
		}
		if (engine->set_buf) {
			r = engine->set_buf(state, NULL, 1, mem, T_COUNT(reqs) * LEN);
			T_OK(r <= 0);
			buf_ok = r == 0;
		}
		memset(mem, 0, DEPTH * LEN);
		memset(seen, 0, sizeof(seen));
		for (unsigned i = 0; i < DEPTH; i++) {
			list[i] = req(i, PENSTOCK_REQ_READ);
			if (file_ok && i % 2)
				reqs[i].file_slot = SLOTS - 1;
			if (buf_ok && i % 4 < 2)
				reqs[i].buf_slot = 1;
		}
		run_all(list, DEPTH, seen);
		for (unsigned i = 0; i < DEPTH; i++) {
			if (spoiled(reqs[i].res))
				continue;
			T_OK(reqs[i].res > 0);
			if (moves)
				T_EQ(penstock_pattern_check(reqs[i].buf, (size_t)reqs[i].res, SEED,
							    reqs[i].off),
				     (size_t)reqs[i].res);
		}
		if (file_ok)
			T_EQ(engine->set_file(state, SLOTS - 1, -1), 0);
		if (buf_ok)
			T_EQ(engine->set_buf(state, NULL, 1, NULL, 0), 0);
	}
}

static void a_name_finds_its_engine_and_its_settings(void)
{
	const char *s = "x";

	T_OK(penstock_engine_find("threads", &s) == &penstock_engine_threads && !s);
	T_OK(penstock_engine_find("null:a=1", &s) == &penstock_engine_null);
	T_OK(s && !strcmp(s, "a=1"));
	T_OK(penstock_engine_find("threads:", NULL) == &penstock_engine_threads);
	T_OK(!penstock_engine_find("thread", NULL));
	T_OK(!penstock_engine_find("threadss", NULL));
	T_OK(!penstock_engine_find("", NULL));
}

static const struct t_case cases[] = {
	T_CASE(what_is_accepted_comes_back_once),
	T_CASE(what_is_not_accepted_is_not_touched),
	T_CASE(writes_and_syncs_are_requests_too),
	T_CASE(a_failed_block_is_a_negative_result),
	T_CASE(an_empty_queue_waits_no_longer_than_told),
	T_CASE(wake_before_reap_ends_it),
	T_CASE(wake_from_another_thread_ends_a_reap),
	T_CASE(a_reap_without_limit_brings_something),
	T_CASE(wakes_lose_no_completion),
	T_CASE(registered_files_and_memory_work_and_can_be_taken_out),
	T_CASE(a_name_finds_its_engine_and_its_settings),
};

int main(int argc, char **argv)
{
	static const struct t_group group = {"contract", setup, teardown, cases, T_COUNT(cases)};
	struct penstock_err err = {0, ""};

	if (argc > 1)
		name = t_engine(argv[1]);
	engine = penstock_engine_find(name, &settings);
	if (!engine)
		t_skip_all(name, "%s: not built in", name);
	if (engine->probe(&err) < 0)
		t_skip_all(t_engine_need(name), "%s: %s", name, err.msg);
	moves = engine != &penstock_engine_null;
	return t_run(&group, 1, NULL);
}
