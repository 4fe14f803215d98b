/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of a device: no share of it is above 1, and it is measured on the work's own footprint.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/random.h"
#include "base/util.h"
#include "common/t.h"
#include "load/measure/limit.h"

#define FILES 3
#define LEN   (8u << 20) /* all files: enough for a try */

static char paths[FILES][512];
static const char *names[FILES];

static struct run_series series_of(bool read, double speed)
{
	return (struct run_series){.read = read, .bytes = (uint64_t)speed, .sec = 1};
}

static void no_share_is_above_one(void **state)
{
	struct limit l = {.read = true, .tries = 3, .counted = {100, 300, 200}, .ns = {1, 1, 1}};
	struct run_series s[3] = {series_of(true, 200e9), series_of(true, 400e9),
				  series_of(false, 900e9)};

	(void)state;
	limit_set_measured(&l, s, 3);
	assert_true(s[0].limit == 400e9 && s[1].limit == 400e9 && s[2].limit == 0);
	assert_non_null(
		strstr(s[0].limit_how, "the fastest of these itself; plain pread got 75.0 %"));
	s[1] = series_of(true, 250e9);
	limit_set_measured(&l, s, 3);
	assert_true(s[0].limit == 300e9 && s[1].limit == 300e9);
	assert_non_null(strstr(s[0].limit_how, "measured: plain pread"));
}

static void what_was_not_measured_is_no_limit(void **state)
{
	struct limit l = {.read = false, .why_not = "no reason"};
	struct run_series s = series_of(false, 1e9);

	(void)state;
	limit_set_measured(&l, &s, 1);
	assert_true(s.limit == 0);
	assert_string_equal(s.limit_how, "not measured: no reason");
}

/* Files of a pattern, and as much memory, in buffers that are somewhat apart. */
static struct limit_target target_of(char *buf, unsigned nr_bufs, uint64_t buf_len)
{
	return (struct limit_target){.paths = names,
				     .nr_paths = FILES,
				     .len = LEN,
				     .buf = buf,
				     .nr_bufs = nr_bufs,
				     .buf_len = buf_len,
				     .step = buf_len + 4096,
				     .align = 4096};
}

static char *map(void)
{
	char *p = mmap(NULL, FILES * (LEN + 4096), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void make_files(void)
{
	static char content[LEN];

	for (unsigned i = 0; i < FILES; i++) {
		int fd;

		snprintf(paths[i], sizeof(paths[i]), "%s/limit-%u", t_dir(), i);
		names[i] = paths[i];
		fd = open(paths[i], O_CREAT | O_TRUNC | O_WRONLY, 0600);
		penstock_pattern_fill(content, LEN, i, 0);
		assert_int_equal(write(fd, content, LEN), LEN);
		close(fd);
	}
}

/* Whatever the time: each block once, so that no two threads use the same memory. */
static void try_all_bytes(struct limit *l, const struct limit_target *t)
{
	limit_try(l, t, 1, FILES * LEN, 1e6, NULL);
	if (!l->moved && *l->why_not)
		skip();
	assert_int_equal(l->moved, FILES * LEN);
	assert_true(l->counted[0] <= l->moved);
}

static void all_the_memory_of_the_work_is_used(void **state)
{
	struct limit l = {.read = true};
	char *buf = map();
	struct limit_target t = target_of(buf, FILES, LEN);

	(void)state;
	make_files();
	try_all_bytes(&l, &t);
	for (unsigned i = 0; i < FILES; i++)
		assert_int_equal(penstock_pattern_check(buf + i * t.step, LEN, i, 0), LEN);
	munmap(buf, FILES * (LEN + 4096));
}

static void writes_put_down_what_is_at_the_same_offset(void **state)
{
	struct limit l = {.read = false};
	char *buf = map(), *back = map();
	struct limit_target t = target_of(buf, FILES, LEN);

	(void)state;
	make_files();
	for (unsigned i = 0; i < FILES; i++)
		penstock_pattern_fill(buf + i * t.step, LEN, i + 7, 0);
	try_all_bytes(&l, &t);
	for (unsigned i = 0; i < FILES; i++) {
		int fd = open(names[i], O_RDONLY);

		assert_int_equal(read(fd, back, LEN), LEN);
		assert_int_equal(penstock_pattern_check(back, LEN, i + 7, 0), LEN);
		close(fd);
	}
	munmap(buf, FILES * (LEN + 4096));
	munmap(back, FILES * (LEN + 4096));
}

static void a_buffer_below_a_block_is_not_measured(void **state)
{
	struct limit l = {.read = true};
	char *buf = map();
	struct limit_target t = target_of(buf, 1, 1000);

	(void)state;
	make_files();
	limit_try(&l, &t, 1, 0, 0.1, NULL);
	assert_int_equal(l.moved, 0);
	assert_non_null(strstr(l.why_not, "smaller than one O_DIRECT block"));
	munmap(buf, FILES * (LEN + 4096));
}

/* As much of the tries as of the work, and all of them when it is over. */
static void tries_are_spread_over_the_work(void **state)
{
	static const unsigned due[][4] = {{1, 1, 3, 3},   {1, 2, 1, 3}, {2, 2, 3, 3},
					  {4, 5, 4, 5},   {0, 0, 3, 3}, {49, 100, 2, 6},
					  {50, 100, 3, 6}};
	char *buf = map();
	struct limit_target t = target_of(buf, 1, 1000);

	(void)state;
	make_files();
	for (unsigned i = 0; i < ARRAY_SIZE(due); i++) {
		struct limit_schedule turn = {.done = due[i][0], .all = due[i][1], .sec = 0.01};
		struct limit l = {.read = true};

		limit_run_due(&l, &t, 1, &turn, NULL);
		assert_int_equal(l.tries, due[i][2]);
		turn.done = turn.all;
		limit_run_due(&l, &t, 1, &turn, NULL);
		assert_int_equal(l.tries, due[i][3]);
	}
	munmap(buf, FILES * (LEN + 4096));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_share_is_above_one),
		cmocka_unit_test(what_was_not_measured_is_no_limit),
		cmocka_unit_test(all_the_memory_of_the_work_is_used),
		cmocka_unit_test(writes_put_down_what_is_at_the_same_offset),
		cmocka_unit_test(a_buffer_below_a_block_is_not_measured),
		cmocka_unit_test(tries_are_spread_over_the_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
