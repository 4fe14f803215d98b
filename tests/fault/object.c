/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a store that fails in every way the server of tests/s3 knows: what ends well is right,
 * what does not is a named error, nothing takes longer than its deadline, and nothing leaks.
 *
 *	object PYTHON SERVER.PY
 */
#include <pthread.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/s3kit.h"

enum { WORKERS = 8, OPS = 1200, PART = S3_PART };

/* -------------------------------------------------------------------------- single */

static void what_came_before_a_break_is_kept(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 3, 60000);
	struct penstock_s3_stats s = {.size = sizeof(s)};
	struct penstock_err err = {0, ""};
	size_t len = 3 * PART + 12345;
	char *buf = malloc(len + 1);

	s3_set_fault_rules("");
	s3_put_pattern(c, "s3://bucket/kept", 7, len);
	penstock_s3_get_stats(c, &s);
	/* Each of the four ranges breaks twice; more often than there are attempts together. */
	s3_set_fault_rules("method=GET times=8 short:1000000");
	T_ERR(penstock_s3_read(c, "s3://bucket/kept", buf, len + 1, 0, NULL, &err), (int64_t)len,
	      &err);
	T_EQ(penstock_pattern_check(buf, len, 7, 0), len);
	penstock_s3_get_stats(c, &s);
	T_OK(s.retries >= 7 && s.bytes_read < len + 100000);
	free(buf);
	penstock_s3_close(c);
}

static void a_replaced_object_is_no_mixture(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 3, 60000);
	struct penstock_err err = {0, ""};
	size_t len = 2 * PART;
	char *buf = malloc(len);

	s3_set_fault_rules("");
	s3_put_pattern(c, "s3://bucket/r", 1, len);
	s3_set_fault_rules("method=GET skip=1 times=1 etag");
	T_ERR(penstock_s3_read(c, "s3://bucket/r", buf, len, 0, NULL, &err), -ESTALE, &err);
	T_STR_HAS(err.msg, "s3://bucket/r");
	s3_set_fault_rules("");
	T_ERR(penstock_s3_read(c, "s3://bucket/r", buf, len, 0, "\"other\"", &err), -ESTALE, &err);
	free(buf);
	penstock_s3_close(c);
}

static void answers_that_lie_are_not_believed(void)
{
	static const char *const lies[] = {"range",          "length:-1000", "whole",
					   "headers:100000", "garbage",      "etag"};
	struct penstock_s3 *c = s3_client(s3_urls[0], 2, 60000);
	char *buf = malloc(10000);

	s3_set_fault_rules("");
	s3_put_pattern(c, "s3://bucket/lie", 3, 100000);
	for (unsigned i = 0; i < T_COUNT(lies) - 1; i++) {
		struct penstock_err err = {0, ""};
		char rule[64];
		int64_t r;

		snprintf(rule, sizeof(rule), "method=GET %s", lies[i]);
		s3_set_fault_rules(rule);
		r = penstock_s3_read(c, "s3://bucket/lie", buf, 10000, 5000, NULL, &err);
		if (r >= 0)
			T_FAIL("%s: %d bytes were believed", lies[i], (int)r);
		T_OK(err.msg[0]);
	}
	s3_set_fault_rules("");
	free(buf);
	penstock_s3_close(c);
}

static void a_wrong_checksum_is_noticed(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 3, 60000);
	struct penstock_s3_stats s = {.size = sizeof(s)};
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	char buf[5000];

	s3_set_fault_rules("");
	s3_put_pattern(c, "s3://bucket/sum", 4, sizeof(buf));
	T_ERR(penstock_s3_stat(c, "s3://bucket/sum", &info, &err), 0, &err);
	T_ERR(penstock_s3_read(c, "s3://bucket/sum", buf, sizeof(buf), 0, info.etag, &err),
	      sizeof(buf), &err);
	penstock_s3_get_stats(c, &s);
	T_EQ(s.checked, 2 * sizeof(buf)); /* the put, too */
	/* Less than all of it is a range. */
	T_ERR(penstock_s3_read(c, "s3://bucket/sum", buf, 100, 0, info.etag, &err), 100, &err);
	T_EQ(penstock_pattern_check(buf, 100, 4, 0), 100);
	s3_set_fault_rules("method=GET times=1 corrupt:77");
	T_ERR(penstock_s3_read(c, "s3://bucket/sum", buf, sizeof(buf), 0, info.etag, &err),
	      sizeof(buf), &err);
	T_EQ(penstock_pattern_check(buf, sizeof(buf), 4, 0), sizeof(buf));
	s3_set_fault_rules("method=GET corrupt:77");
	T_ERR(penstock_s3_read(c, "s3://bucket/sum", buf, sizeof(buf), 0, info.etag, &err),
	      -EBADMSG, &err);
	penstock_s3_close(c);
}

static void the_clock_and_the_place_are_put_right(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 3, 60000);
	struct penstock_s3_stats s = {.size = sizeof(s)};
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	char rule[128];

	s3_set_fault_rules("skew:-7200");
	s3_put_pattern(c, "s3://bucket/clock", 5, 100);
	T_ERR(penstock_s3_stat(c, "s3://bucket/clock", &info, &err), 0, &err);
	penstock_s3_get_stats(c, &s);
	T_OK(s.skew_ms <= -7190000 && s.skew_ms >= -7210000);
	penstock_s3_close(c);
	c = s3_client(s3_urls[0], 3, 60000);
	snprintf(rule, sizeof(rule), "times=2 redirect:307:%s", s3_urls[1]);
	s3_set_fault_rules(rule);
	T_ERR(penstock_s3_stat(c, "s3://bucket/clock", &info, &err), 0, &err);
	T_EQ(info.bytes, 100);
	s3_set_fault_rules("region:eu-west-9");
	T_ERR(penstock_s3_stat(c, "s3://bucket/clock", &info, &err), 0, &err);
	penstock_s3_get_stats(c, &s);
	T_EQ(s.redirects, 3);
	snprintf(rule, sizeof(rule), "redirect:307:%s", s3_urls[1]);
	s3_set_fault_rules(rule);
	T_ERR(penstock_s3_stat(c, "s3://bucket/clock", &info, &err), -EINVAL, &err);
	s3_set_fault_rules("");
	penstock_s3_close(c);
}

/* Answers that come when another has put the client right already do not say it once more. */
static void requests_in_flight_are_put_right_together(void)
{
	static const char *const rules[] = {"skew:-7200", "region:eu-west-9"};
	size_t len = 4 * PART;
	char *buf = malloc(len);

	for (unsigned i = 0; i < T_COUNT(rules); i++) {
		struct penstock_s3 *c = s3_client(s3_urls[0], 3, 60000);
		struct penstock_err err = {0, ""};

		s3_set_fault_rules("");
		s3_put_pattern(c, "s3://bucket/together", 6, len);
		penstock_s3_close(c);
		c = s3_client(s3_urls[0], 3, 60000);
		s3_set_fault_rules(rules[i]);
		T_ERR(penstock_s3_read(c, "s3://bucket/together", buf, len, 0, NULL, &err),
		      (int64_t)len, &err);
		T_EQ(penstock_pattern_check(buf, len, 6, 0), len);
		s3_set_fault_rules("");
		penstock_s3_close(c);
	}
	free(buf);
}

static void a_stall_ends_at_the_deadline(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 100, 1500);
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	uint64_t start = clock_ns();

	s3_set_fault_rules("stall:30");
	T_ERR(penstock_s3_stat(c, "s3://bucket/x", &info, &err), -ETIMEDOUT, &err);
	T_OK(clock_ns() - start > 1000000000);
	s3_set_fault_rules("");
	penstock_s3_close(c);
}

/* Of a request with a body, too, whose own first byte is sent at once. */
static void the_first_byte_is_that_of_the_answer(void)
{
	static const char *const slow[] = {"method=PUT stall:0.3", "method=GET stall:0.3"};

	for (unsigned i = 0; i < T_COUNT(slow); i++) {
		struct penstock_s3 *c = s3_client(s3_urls[0], 3, 60000);
		struct penstock_s3_stats s = {.size = sizeof(s)};
		char buf[1000];

		s3_set_fault_rules(slow[i]);
		s3_put_pattern(c, "s3://bucket/first", 7, sizeof(buf));
		T_EQ(penstock_s3_read(c, "s3://bucket/first", buf, sizeof(buf), 0, NULL, NULL),
		     sizeof(buf));
		s3_set_fault_rules("");
		penstock_s3_get_stats(c, &s);
		T_OK(s.answers == 2 && s.first_byte_max_ns >= 300000000);
		T_OK(s.first_byte_ns >= s.first_byte_max_ns);
		penstock_s3_close(c);
	}
}

static void lists_of_bombs_are_refused(void)
{
	static const char *const bad[] = {"bomb", "deep:100", "error200:AccessDenied"};
	struct penstock_s3 *c = s3_client(s3_urls[0], 2, 60000);
	struct penstock_s3_entry e = {.size = sizeof(e)};

	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		struct penstock_err err = {0, ""};
		struct penstock_s3_list *l;

		s3_set_fault_rules(bad[i]);
		T_ERR(penstock_s3_list_open(&l, c, "s3://bucket", 0, &err), 0, &err);
		T_OK(penstock_s3_list_next(l, &e, &err) < 0 && err.msg[0]);
		penstock_s3_list_close(l);
	}
	s3_set_fault_rules("");
	penstock_s3_close(c);
}

static void a_lost_answer_to_a_commit_is_looked_up(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 5, 60000);
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};
	struct penstock_s3_upload *u;
	size_t len = PART + 1000;
	char *buf = calloc(1, len);

	s3_set_fault_rules("method=POST query=uploadId times=1 status:500 late");
	T_ERR(penstock_s3_upload_open(&u, c, "s3://bucket/lost", NULL, &err), 0, &err);
	T_ERR(penstock_s3_upload_write(u, buf, len, &err), 0, &err);
	T_ERR(penstock_s3_upload_commit(u, &info, &err), 0, &err);
	T_EQ(info.bytes, len);
	s3_set_fault_rules("");
	free(buf);
	penstock_s3_close(c);
}

/* Nobody else has replaced it: who reads the message must not look for another writer only. */
static void a_lost_answer_to_a_put_in_place_of_one_is_told(void)
{
	struct penstock_s3 *c = s3_client(s3_urls[0], 5, 60000);
	struct penstock_s3_info info = {.size = sizeof(info)};
	struct penstock_err err = {0, ""};

	s3_set_fault_rules("");
	s3_put_pattern(c, "s3://bucket/mine", 8, 1000);
	T_ERR(penstock_s3_stat(c, "s3://bucket/mine", &info, &err), 0, &err);
	s3_set_fault_rules("method=PUT times=1 status:500 late");
	T_ERR(penstock_s3_put(c, "s3://bucket/mine", "new", 3, 0, info.etag, NULL, &err), -ESTALE,
	      &err);
	T_STR_HAS(err.msg, "its ETag is another, perhaps by an attempt whose answer was lost");
	s3_set_fault_rules("");
	T_ERR(penstock_s3_put(c, "s3://bucket/mine", "new", 3, 0, info.etag, NULL, &err), -ESTALE,
	      &err);
	T_STR_HAS(err.msg, "it was replaced: its ETag is another");
	T_OK(!strstr(err.msg, "lost"));
	penstock_s3_close(c);
}

/* ------------------------------------------------------------------------ many */

struct worker {
	struct penstock_s3 *c;
	unsigned nr;
	unsigned long ops;
	unsigned failed;
};

/* One of the operations: what ends well must be right.  NULL, or what was wrong. */
static const char *one_op(struct worker *w, struct penstock_random *random, unsigned char *buf)
{
	struct penstock_err err = {0, ""};
	struct penstock_s3_info info = {.size = sizeof(info)};
	uint64_t what = penstock_random_below(random, 10),
		 size = 1 + penstock_random_below(random, 60000);
	char uri[64];
	int64_t r;

	snprintf(uri, sizeof(uri), "s3://bucket/w%u/%u", w->nr,
		 (unsigned)penstock_random_below(random, 4));
	if (what < 3) {
		/* Length and content are one function of the other. */
		penstock_pattern_fill(buf, size, size, 0);
		r = penstock_s3_put(w->c, uri, buf, size, 0, NULL, &info, &err);
		T_CHECK(r < 0 || info.bytes == size);
	} else if (what < 9) {
		/* With its ETag, so that the checksum is compared. */
		r = penstock_s3_stat(w->c, uri, &info, &err);
		if (r == 0)
			r = penstock_s3_read(w->c, uri, buf, 70000, 0, info.etag, &err);
		T_CHECK(r <= 0 ||
			penstock_pattern_check(buf, (size_t)r, (uint64_t)r, 0) == (size_t)r);
	} else {
		r = penstock_s3_stat(w->c, uri, &info, &err);
	}
	T_CHECK(r >= 0 || (err.code == r && strstr(err.msg, uri)));
	w->failed += r < 0 && r != -ENOENT;
	return NULL;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned char *buf = malloc(70000);
	struct penstock_random random;
	const char *wrong = NULL;

	penstock_random_seed(&random, w->nr + 1);
	for (unsigned long i = 0; i < w->ops && !wrong; i++)
		wrong = one_op(w, &random, buf);
	free(buf);
	return (void *)(uintptr_t)wrong;
}

static unsigned run_workers(struct penstock_s3 *c, unsigned long ops)
{
	struct worker w[WORKERS];
	pthread_t threads[WORKERS];
	unsigned failed = 0;
	void *wrong;

	for (unsigned i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){.c = c, .nr = i, .ops = ops / WORKERS};
		T_OK(pthread_create(&threads[i], NULL, work, &w[i]) == 0);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], &wrong);
		T_JOINED(wrong);
		failed += w[i].failed;
	}
	return failed;
}

static void all_faults_together_end_right_or_in_a_named_error(void)
{
	int fds = t_nr_fds();
	struct penstock_s3 *c = s3_client(s3_all_urls, 10, 60000);
	struct penstock_s3_stats s = {.size = sizeof(s)};
	unsigned failed;

	s3_set_fault_rules(
		"p=0.03 status:503\np=0.03 status:500:empty\np=0.02 status:429\np=0.03 reset\n"
		"method=GET p=0.03 reset:5000\nmethod=GET p=0.03 short:3000\np=0.02 drop\np=0.02 "
		"bye\n"
		"method=GET p=0.03 range\nmethod=GET p=0.02 whole\nmethod=GET p=0.03 corrupt\n"
		"method=GET p=0.02 length:-10\np=0.01 garbage\nmethod=PUT p=0.03 status:500 late\n"
		"method=PUT p=0.02 error200:InternalError\np=0.02 headers:200000");
	failed = run_workers(c, t_ops(OPS));
	s3_set_fault_rules("");
	penstock_s3_get_stats(c, &s);
	t_note("%u failed, %d attempts, %d of them again", failed, (int)s.attempts, (int)s.retries);
	/* Ten attempts at a third of faults: one in 60,000. */
	T_OK(s.retries > s.requests / 10 && failed * 100 <= s.requests);
	penstock_s3_close(c);
	T_EQ(t_nr_fds(), fds);
}

static void one_of_four_endpoints_gone_fails_nothing(void)
{
	struct penstock_s3 *c = s3_client(s3_all_urls, 10, 60000);
	struct penstock_s3_endpoint e = {.size = sizeof(e)};

	s3_set_fault_rules("");
	T_EQ(run_workers(c, OPS / 4), 0);
	s3_set_port(1, false);
	T_EQ(run_workers(c, OPS / 2), 0);
	T_OK(penstock_s3_get_endpoint(c, 1, &e) == 0 && !e.up && e.downs >= 1 && e.failed < 40);
	s3_set_port(1, true);
	for (unsigned i = 0; i < 1000 && !e.up; i++) {
		run_workers(c, 8);
		usleep(5000);
		penstock_s3_get_endpoint(c, 1, &e);
	}
	T_OK(e.up);
	penstock_s3_close(c);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(what_came_before_a_break_is_kept),
		T_CASE(a_replaced_object_is_no_mixture),
		T_CASE(answers_that_lie_are_not_believed),
		T_CASE(a_wrong_checksum_is_noticed),
		T_CASE(the_clock_and_the_place_are_put_right),
		T_CASE(requests_in_flight_are_put_right_together),
		T_CASE(a_stall_ends_at_the_deadline),
		T_CASE(the_first_byte_is_that_of_the_answer),
		T_CASE(lists_of_bombs_are_refused),
		T_CASE(a_lost_answer_to_a_commit_is_looked_up),
		T_CASE(a_lost_answer_to_a_put_in_place_of_one_is_told),
		T_CASE(all_faults_together_end_right_or_in_a_named_error),
		T_CASE(one_of_four_endpoints_gone_fails_nothing),
	};
	static const struct t_group groups[] = {
		{.name = "objects", .cases = cases, .nr_cases = T_COUNT(cases)},
	};
	int r;

	if (argc < 3)
		return 2;
	s3_start(argv[1], argv[2]);
	r = t_run(groups, T_COUNT(groups), argv + 3);
	s3_stop();
	return r;
}
