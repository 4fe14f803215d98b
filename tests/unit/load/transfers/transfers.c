/* SPDX-License-Identifier: Apache-2.0 */
/* The runner: every operation is carried out and counted once, and only when it should be. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/util.h"
#include "load/measure/handle.h"
#include "load/transfers/transfers.h"

#define LEN      65536u
#define NR_FILES 3

/* Operations one after the other over a few files: writes of a pattern, or reads of it. */
struct source {
	struct bed_buffers buffers;
	uint64_t left, nr, gap_ns;
	uint64_t warmup; /* the first so many */
	uint64_t per_file;
	bool read, verify;
	uint64_t burn_ns; /* CPU time that prepare() and finish() take */
	int fail_at;      /* operation that reads past the end, or -1 */
	_Atomic uint64_t prepared, finished;
	atomic_int *stop;
	uint64_t stop_at;
};

static char paths[NR_FILES][512];
static struct bed_file files[NR_FILES];

static int next(void *arg, unsigned worker, struct load_op *op, struct penstock_err *err)
{
	struct source *s = arg;
	uint64_t i = s->nr;

	(void)worker;
	(void)err;
	if (i == s->left)
		return 0;
	s->nr++;
	*op = (struct load_op){
		.read = s->read,
		.warmup = i < s->warmup,
		.series = s->read,
		.file = (uint32_t)(i % NR_FILES),
		.offset = (int)i == s->fail_at ? 1ull << 40 : i / NR_FILES % s->per_file * LEN,
		.len = LEN,
		.not_before = i < s->warmup ? 0 : (i - s->warmup + 1) * s->gap_ns,
		.tag = i,
	};
	if (s->stop && i == s->stop_at)
		atomic_store(s->stop, 1);
	return 1;
}

static void burn(uint64_t ns)
{
	uint64_t until = thread_cpu_ns(pthread_self()) + ns;

	while (thread_cpu_ns(pthread_self()) < until)
		for (volatile unsigned i = 0; i < 10000; i++)
			;
}

static int prepare(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct source *s = arg;

	atomic_fetch_add(&s->prepared, 1);
	if (s->burn_ns)
		burn(s->burn_ns);
	if (op->read)
		return bed_buf_poison(&s->buffers, buf, op->len, err);
	return bed_buf_fill(&s->buffers, buf, op->len, op->file, op->offset, err);
}

static int finish(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct source *s = arg;

	atomic_fetch_add(&s->finished, 1);
	if (!op->read)
		return 0;
	return bed_buf_check(&s->buffers, buf, op->len, op->file, op->offset, files[op->file].path,
			     err);
}

/* Files of the pattern that operations write. */
static int files_make(void **state)
{
	const char *dir = getenv("PENSTOCK_TEST_DIR");
	static char content[8 * LEN];

	(void)state;
	for (unsigned i = 0; i < NR_FILES; i++) {
		int fd;

		snprintf(paths[i], sizeof(paths[i]), "%s/transfers-%d-%u", dir ? dir : ".",
			 getpid(), i);
		files[i].path = files[i].open_path = paths[i];
		fd = open(paths[i], O_CREAT | O_EXCL | O_WRONLY, 0600);
		penstock_pattern_fill(content, sizeof(content), i, 0);
		if (fd < 0 || write(fd, content, sizeof(content)) != sizeof(content))
			return -1;
		close(fd);
	}
	return 0;
}

static int files_remove(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_FILES; i++)
		unlink(paths[i]);
	return 0;
}

static struct transfers_job job_of(struct source *s, unsigned workers, unsigned depth)
{
	struct transfers_job job = {
		.source = {next, s->verify ? prepare : NULL, s->verify ? finish : NULL, s},
		.files = files,
		.nr_files = NR_FILES,
		.workers = workers,
		.depth = depth,
		.opts = PENSTOCK_OPTS_INIT,
		.buffers = &s->buffers,
		.nr_series = 2,
	};
	struct bed_buffers_opts want = {.len = LEN, .nr = workers * depth};
	struct penstock_err err;

	s->per_file = s->per_file ? s->per_file : 8;
	s->fail_at = s->fail_at ? s->fail_at : -1;
	job.opts.engine = "threads";
	assert_int_equal(bed_buffers_open(&s->buffers, &want, &err), 0);
	return job;
}

static void series_free(struct run_series series[2])
{
	series_fini(&series[0]);
	series_fini(&series[1]);
}

static void written_is_read_back(void **state)
{
	static const unsigned shapes[][2] = {{1, 1}, {1, 4}, {3, 1}, {2, 5}};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (int each = 0; each < 2; each++) {
			for (int read = 0; read < 2; read++) {
				struct source s = {
					.left = 50, .read = read, .verify = true, .warmup = 5};
				struct transfers_job job = job_of(&s, shapes[i][0], shapes[i][1]);
				struct run_series series[2] = {0};
				struct penstock_err err = {0, ""};

				job.open_each = each;
				if (run_transfers(&job, series, &err) != 0)
					fail_msg("%s", err.msg);
				assert_int_equal(series[read].ops, 45);
				assert_int_equal(series[read].bytes, 45 * LEN);
				assert_int_equal(series[read].warmup_bytes, 5 * LEN);
				assert_int_equal(series[!read].ops, 0);
				assert_int_equal(series_kept(&series[read]), 45);
				assert_int_equal(series[read].hist->count, 45);
				assert_int_equal(s.prepared, 50);
				assert_int_equal(s.finished, 50);
				assert_false(series[read].partial);
				assert_string_equal(series[read].stats.engine, "threads");
				series_free(series);
				bed_buffers_close(&s.buffers);
			}
		}
	}
}

/* Runs of the same work add up: time goes on behind what there is, and draws stay draws. */
static void a_run_is_counted_behind_an_earlier_one(void **state)
{
	struct run_series series[2] = {0};
	uint64_t sec_ns = 0;

	(void)state;
	for (unsigned run = 1; run <= 3; run++) {
		struct source s = {.left = 4000, .warmup = 1};
		struct transfers_job job = job_of(&s, 1, 2);
		uint64_t before = sec_ns;

		job.opts.engine = "null";
		assert_int_equal(run_transfers(&job, series, NULL), 0);
		series_end_repeat(&series[0]);
		sec_ns = (uint64_t)(series[0].sec * 1e9);
		assert_true(sec_ns > before);
		assert_int_equal(series[0].ops, run * 3999);
		assert_int_equal(series[0].stats.ops, run * 4000);
		assert_int_equal(series[0].warmup_bytes, run * LEN);
		assert_int_equal(series_kept(&series[0]), min_u64(run * 3999, SERIES_SAMPLES));
		assert_true(series_sample(&series[0], series_kept(&series[0]) - 1)->end_ns >=
			    before);
		assert_true(series[0].seconds.nr == sec_ns / 1000000000 + 1);
		assert_int_equal(series[0].nr_repeats, run);
		bed_buffers_close(&s.buffers);
	}
	series_free(series);
}

static void alone_the_time_is_the_sum_of_latencies(void **state)
{
	struct source s = {.left = 100, .verify = true};
	struct transfers_job job = job_of(&s, 1, 1);
	struct run_series series[2] = {0};
	uint64_t seconds = 0;

	(void)state;
	assert_int_equal(run_transfers(&job, series, NULL), 0);
	/* filling the buffers is not in it, but for a few instructions around each operation */
	assert_true(series[0].sec >= series[0].latency.mean * 100 * 0.999);
	for (unsigned i = 0; i < series[0].seconds.nr; i++)
		seconds +=
			((const struct series_second *)per_second_row(&series[0].seconds, i))->ops;
	assert_int_equal(seconds, 100);
	assert_int_equal(series[0].seconds.nr, (unsigned)series[0].sec + 1);
	for (unsigned i = 1; i < series_kept(&series[0]); i++)
		assert_true(series_sample(&series[0], i - 1)->end_ns <=
			    series_sample(&series[0], i)->end_ns);
	assert_true(series[0].run_bytes == series[0].bytes);
	series_free(series);
	bed_buffers_close(&s.buffers);
}

/* The CPU time of a thousand operations whose source burns this much before each. */
static double cpu_beside(uint64_t burn_ns, unsigned workers)
{
	struct source s = {.left = 1000, .verify = true, .warmup = 2, .burn_ns = burn_ns};
	struct transfers_job job = job_of(&s, workers, 1);
	struct run_series series[2] = {0};
	double sec;

	assert_int_equal(run_transfers(&job, series, NULL), 0);
	sec = series[0].user_sec + series[0].system_sec;
	series_free(series);
	bed_buffers_close(&s.buffers);
	return sec;
}

static void what_a_source_does_is_not_in_the_CPU_time(void **state)
{
	(void)state;
	for (unsigned workers = 1; workers < 3; workers++) {
		double without = cpu_beside(0, workers);

		/* half a second is burnt; the rest is as it was, which sanitizers make slow */
		assert_true(cpu_beside(500000, workers) < without + 0.25);
	}
}

static void many_operations_leave_a_draw_of_samples(void **state)
{
	struct source s = {.left = 25000};
	struct transfers_job job = job_of(&s, 2, 4);
	struct run_series series[2] = {0};
	struct stat_summary all;
	double *v = calloc(SERIES_SAMPLES, sizeof(*v));
	bool exact = true;

	(void)state;
	assert_non_null(v);
	job.opts.engine = "null";
	assert_int_equal(run_transfers(&job, series, NULL), 0);
	assert_int_equal(series[0].ops, 25000);
	assert_int_equal(series_kept(&series[0]), SERIES_SAMPLES);
	assert_int_equal(series_latency(&series[0], &all, &exact), 0);
	assert_false(exact);
	for (unsigned i = 0; i < SERIES_SAMPLES; i++)
		v[i] = (double)series_sample(&series[0], i)->latency_ns / 1e9;
	/* the draw and the whole agree about the middle */
	assert_true(fabs(stat_median(v, SERIES_SAMPLES) / all.median - 1) < 0.1);
	assert_int_equal(series_bandwidth(&series[0], &all, &exact), 0);
	series_free(series);
	bed_buffers_close(&s.buffers);
	free(v);
}

static void nothing_after_the_deadline_counts(void **state)
{
	struct source s = {.left = UINT64_MAX};
	struct transfers_job job = job_of(&s, 2, 2);
	struct run_series series[2] = {0};

	(void)state;
	job.opts.engine = "null";
	job.runtime_ns = 500000000; /* long enough for a busy machine to do one */
	assert_int_equal(run_transfers(&job, series, NULL), 0);
	assert_true(series[0].ops > 0 && series[0].sec <= 0.5 + 1e-9);
	assert_true(series[0].ops <= s.nr);
	assert_false(series[0].partial);
	series_free(series);
	bed_buffers_close(&s.buffers);
}

static void a_stop_leaves_what_was_measured(void **state)
{
	for (unsigned depth = 1; depth < 4; depth += 2) {
		atomic_int stop = 0;
		struct source s = {.left = 1000, .stop = &stop, .stop_at = 20};
		struct transfers_job job = job_of(&s, 1, depth);
		struct run_series series[2] = {0};

		(void)state;
		job.stop = &stop;
		assert_int_equal(run_transfers(&job, series, NULL), 0);
		assert_true(series[0].partial);
		assert_string_equal(series[0].partial_why, "interrupted");
		assert_in_range(series[0].ops, 15, 25);
		assert_int_equal(series[0].errors, 0);
		series_free(series);
		bed_buffers_close(&s.buffers);
	}
}

static void an_operation_that_fails_ends_the_run_with_its_message(void **state)
{
	for (unsigned depth = 1; depth < 4; depth += 2) {
		struct source s = {.left = 1000, .read = true, .fail_at = 12};
		struct transfers_job job = job_of(&s, 1, depth);
		struct run_series series[2] = {0};
		struct penstock_err err;

		(void)state;
		assert_int_equal(run_transfers(&job, series, &err), -ENODATA);
		assert_non_null(strstr(err.msg, strrchr(paths[0], '/')));
		assert_int_equal(series[1].errors, 1);
		assert_string_equal(series[1].first_error, err.msg);
		assert_true(series[1].partial && series[1].ops < 1000 && series[1].ops >= 9);
		series_free(series);
		bed_buffers_close(&s.buffers);
	}
}

static void a_source_can_refuse_what_was_read(void **state)
{
	struct source s = {.left = 12, .read = true, .verify = true};
	struct transfers_job job = job_of(&s, 1, 1);
	struct run_series series[2] = {0};
	struct penstock_err err;
	int fd = open(paths[1], O_WRONLY);

	(void)state;
	assert_true(fd >= 0 && pwrite(fd, "wrong", 5, 100) == 5);
	close(fd);
	assert_int_equal(run_transfers(&job, series, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, strrchr(paths[1], '/')));
	assert_non_null(strstr(err.msg, "offset 100 holds 0x77"));
	series_free(series);
	bed_buffers_close(&s.buffers);
}

static void operations_wait_for_their_turn(void **state)
{
	struct source s = {.left = 25, .warmup = 5, .gap_ns = 2000000};
	struct transfers_job job = job_of(&s, 1, 2);
	struct run_series series[2] = {0};

	(void)state;
	job.opts.engine = "null";
	assert_int_equal(run_transfers(&job, series, NULL), 0);
	assert_int_equal(series[0].ops, 20);
	/* 20 waits, the one before the first operation too: they are counted time */
	assert_true(series[0].sec >= 20 * 0.002);
	assert_int_equal(series[0].late.n, 20);
	assert_true(series[0].late.min >= 0);
	series_free(series);
	bed_buffers_close(&s.buffers);
}

/* However the run ends: no more operations than their waits fit into the counted time. */
static void a_run_that_ends_while_waiting_is_not_faster(void **state)
{
	for (int by_stop = 0; by_stop < 2; by_stop++) {
		atomic_int stop = 0;
		struct source s = {.left = 1000, .gap_ns = 20000000};
		struct transfers_job job = job_of(&s, 1, 1);
		struct run_series series[2] = {0};

		(void)state;
		job.opts.engine = "null";
		job.stop = &stop;
		if (by_stop) { /* while the second waits */
			s.stop = &stop;
			s.stop_at = 1;
		} else {
			job.runtime_ns = 30000000;
		}
		assert_int_equal(run_transfers(&job, series, NULL), 0);
		assert_true(series[0].ops <= 1);
		assert_true(series[0].sec >= (double)series[0].ops * 0.02);
		assert_true(!by_stop || series[0].ops == 1);
		series_free(series);
		bed_buffers_close(&s.buffers);
	}
}

static void every_kind_of_buffer_moves_the_same_bytes(void **state)
{
	static const uint32_t kinds[] = {BED_OWN, BED_PLAIN, BED_ODD};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (int read = 0; read < 2; read++) {
			struct source s = {.left = 12, .read = read, .verify = true};
			struct transfers_job job = job_of(&s, 1, 2);
			struct bed_buffers_opts want = {.memory = kinds[i], .len = LEN, .nr = 2};
			struct run_series series[2] = {0};
			struct penstock_err err;

			bed_buffers_close(&s.buffers);
			assert_int_equal(bed_buffers_open(&s.buffers, &want, &err), 0);
			if (run_transfers(&job, series, &err) != 0)
				fail_msg("%s", err.msg);
			assert_int_equal(series[read].memory, kinds[i]);
			series_free(series);
			bed_buffers_close(&s.buffers);
		}
	}
}

/* Workers in step: what each was told of its rounds. */
#define WORKERS 3
struct rounds {
	struct bed_buffers buffers;
	unsigned issued[WORKERS], rounds;
	unsigned fail_at;           /* round in which the last worker reads past the end */
	_Atomic unsigned preparing; /* workers between prepare() and finish() */
	_Atomic unsigned early;     /* finish() came while another had not begun */
	uint64_t took[WORKERS], whole[WORKERS];
	_Atomic unsigned finished;
};

static int rounds_next(void *arg, unsigned worker, struct load_op *op, struct penstock_err *err)
{
	struct rounds *r = arg;
	unsigned i = r->issued[worker]++;

	(void)err;
	*op = (struct load_op){.read = true,
			       .warmup = i == 0,
			       .file = worker,
			       .offset = i == r->fail_at && worker == 2 ? 1ull << 40 : 0,
			       .len = LEN,
			       .tag = worker};
	return i < r->rounds;
}

static int rounds_prepare(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct rounds *r = arg;

	(void)op;
	(void)buf;
	(void)err;
	atomic_fetch_add(&r->preparing, 1);
	return 0;
}

static int rounds_finish(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct rounds *r = arg;

	(void)buf;
	(void)err;
	/* All have prepared as often as this one has been finished, or once more. */
	if (atomic_load(&r->preparing) < WORKERS * (atomic_load(&r->finished) / WORKERS + 1))
		atomic_fetch_add(&r->early, 1);
	atomic_fetch_add(&r->finished, 1);
	r->took[op->tag] += op->warmup ? 0 : op->took_ns;
	r->whole[op->tag] += op->warmup ? 0 : op->round_ns;
	return 0;
}

static int run_rounds(struct rounds *r, struct run_series *series,
		      struct transfers_handle_info *handles)
{
	struct transfers_job job = {
		.source = {rounds_next, rounds_prepare, rounds_finish, r},
		.files = files,
		.nr_files = NR_FILES,
		.open_each = true,
		.rounds = true,
		.workers = WORKERS,
		.depth = 1,
		.opts = PENSTOCK_OPTS_INIT,
		.buffers = &r->buffers,
		.nr_series = 1,
		.handles = handles,
	};
	struct bed_buffers_opts want = {.len = LEN, .nr = WORKERS};
	struct penstock_err err;
	int ret;

	job.opts.engine = "threads";
	assert_int_equal(bed_buffers_open(&r->buffers, &want, &err), 0);
	ret = run_transfers(&job, series, &err);
	bed_buffers_close(&r->buffers);
	return ret;
}

static void a_round_takes_as_long_as_its_slowest_worker(void **state)
{
	struct rounds r = {.rounds = 50, .fail_at = UINT32_MAX};
	struct run_series series = {0};
	struct transfers_handle_info handles[WORKERS] = {0};

	(void)state;
	assert_int_equal(run_rounds(&r, &series, handles), 0);
	assert_int_equal(series.ops, 49 * WORKERS);
	assert_int_equal(series.warmup_bytes, WORKERS * LEN);
	assert_int_equal(r.finished, 50 * WORKERS);
	assert_int_equal(r.early, 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_true(r.took[i] <= r.whole[i] && r.whole[i] == r.whole[0]);
		assert_int_equal(handles[i].stats.ops, 50);
		assert_true(handles[i].file.size > 0);
	}
	assert_true(fabs(series.sec - (double)r.whole[0] / 1e9) < 1e-6);
	assert_int_equal(series.stats.ops, 50 * WORKERS);
	series_fini(&series);
}

static void a_round_that_one_worker_did_not_complete_does_not_count(void **state)
{
	struct rounds r = {.rounds = 50, .fail_at = 7};
	struct run_series series = {0};

	(void)state;
	assert_int_equal(run_rounds(&r, &series, NULL), -ENODATA);
	assert_int_equal(series.ops, 6 * WORKERS);
	assert_int_equal(r.finished, 7 * WORKERS);
	assert_true(series.partial);
	series_fini(&series);
}

/* Every counter is added, the limits of a handle are not. */
static void counters_of_handles_are_added(void **state)
{
	struct penstock_stats one = {.size = sizeof(one)}, sum = {.size = 0};
	uint64_t *counters = &one.ops;
	size_t nr = (size_t)(&one.inline_bytes - &one.ops);

	(void)state;
	for (size_t i = 0; i < nr; i++)
		counters[i] = i + 1;
	one.inline_bytes = 7;
	one.fallbacks = PENSTOCK_FALLBACK_BUFFERED;
	handle_stats_add(&sum, &one);
	one.fallbacks = PENSTOCK_FALLBACK_ENGINE;
	strcpy(one.fallback_why, "reason");
	handle_stats_add(&sum, &one);
	for (size_t i = 0; i < nr; i++)
		assert_int_equal((&sum.ops)[i], 2 * (i + 1));
	assert_int_equal(sum.pinned_pool_bytes, 2 * one.pinned_pool_bytes);
	assert_int_equal(sum.inline_bytes, 7);
	assert_int_equal(sum.fallbacks, PENSTOCK_FALLBACK_BUFFERED | PENSTOCK_FALLBACK_ENGINE);
	assert_string_equal(sum.fallback_why, "reason");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(written_is_read_back, files_make, files_remove),
		cmocka_unit_test_setup_teardown(a_round_takes_as_long_as_its_slowest_worker,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(
			a_round_that_one_worker_did_not_complete_does_not_count, files_make,
			files_remove),
		cmocka_unit_test(counters_of_handles_are_added),
		cmocka_unit_test_setup_teardown(a_run_is_counted_behind_an_earlier_one, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(alone_the_time_is_the_sum_of_latencies, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(what_a_source_does_is_not_in_the_CPU_time,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(many_operations_leave_a_draw_of_samples, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(nothing_after_the_deadline_counts, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(a_stop_leaves_what_was_measured, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(every_kind_of_buffer_moves_the_same_bytes,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(
			an_operation_that_fails_ends_the_run_with_its_message, files_make,
			files_remove),
		cmocka_unit_test_setup_teardown(operations_wait_for_their_turn, files_make,
						files_remove),
		cmocka_unit_test_setup_teardown(a_run_that_ends_while_waiting_is_not_faster,
						files_make, files_remove),
		cmocka_unit_test_setup_teardown(a_source_can_refuse_what_was_read, files_make,
						files_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
