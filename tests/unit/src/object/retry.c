/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from a failure, who is asked next, checksums: all that needs no server. */
#include <penstock/s3.h>

#include "dl/curl.h"
#include "object/client.h"
#include "object/endpoint.h"
#include "object/retry.h"
#include "tests/common/t.h"

/* ------------------------------------------------------------------------ verdicts */

static void the_matrix_holds(void)
{
	static const struct {
		int curl;
		unsigned status;
		const char *code;
		enum object_verdict verdict;
		int err;
	} rows[] = {
		{0, 200, "", OBJECT_DONE, 0},
		{0, 204, "", OBJECT_DONE, 0},
		{0, 206, "", OBJECT_DONE, 0},
		{0, 200, "InternalError", OBJECT_RETRY, -EIO},
		{0, 200, "SlowDown", OBJECT_RETRY_SLOWER, -EIO},
		{0, 200, "AccessDenied", OBJECT_FAIL, -EIO},
		{0, 301, "", OBJECT_REDIRECT, -EINVAL},
		{0, 307, "TemporaryRedirect", OBJECT_REDIRECT, -EINVAL},
		{0, 400, "", OBJECT_FAIL, -EINVAL},
		{0, 400, "RequestTimeout", OBJECT_RETRY, -ETIMEDOUT},
		{0, 400, "BadDigest", OBJECT_RETRY, -EBADMSG},
		{0, 400, "EntityTooSmall", OBJECT_FAIL, -EINVAL},
		{0, 401, "", OBJECT_FAIL, -EACCES},
		{0, 403, "AccessDenied", OBJECT_FAIL, -EACCES},
		{0, 403, "SignatureDoesNotMatch", OBJECT_FAIL, -EACCES},
		{0, 403, "RequestTimeTooSkewed", OBJECT_CORRECT_CLOCK, -EACCES},
		{0, 404, "NoSuchKey", OBJECT_FAIL, -ENOENT},
		{0, 404, "", OBJECT_FAIL, -ENOENT},
		{0, 408, "", OBJECT_RETRY, -EINVAL},
		{0, 409, "BucketNotEmpty", OBJECT_FAIL, -EBUSY},
		{0, 409, "OperationAborted", OBJECT_RETRY, -EBUSY},
		{0, 409, "ConditionalRequestConflict", OBJECT_RETRY, -EBUSY},
		{0, 412, "PreconditionFailed", OBJECT_FAIL, -ESTALE},
		{0, 416, "InvalidRange", OBJECT_FAIL, -EINVAL},
		{0, 429, "", OBJECT_RETRY_SLOWER, -EINVAL},
		{0, 500, "", OBJECT_RETRY, -EIO},
		{0, 500, "InternalError", OBJECT_RETRY, -EIO},
		{0, 501, "NotImplemented", OBJECT_FAIL, -ENOTSUP},
		{0, 502, "", OBJECT_RETRY, -EIO},
		{0, 503, "", OBJECT_RETRY_SLOWER, -EIO},
		{0, 503, "SlowDown", OBJECT_RETRY_SLOWER, -EIO},
		{0, 504, "", OBJECT_RETRY, -EIO},
		{CURLE_UNSUPPORTED_PROTOCOL, 0, "", OBJECT_RETRY, -ECONNRESET},
		{CURLE_COULDNT_CONNECT, 0, "", OBJECT_RETRY, -ECONNREFUSED},
		{CURLE_COULDNT_RESOLVE_HOST, 0, "", OBJECT_RETRY, -EHOSTUNREACH},
		{CURLE_RECV_ERROR, 200, "", OBJECT_RETRY, -ECONNRESET},
		{CURLE_PARTIAL_FILE, 206, "", OBJECT_RETRY, -ECONNRESET},
		{CURLE_GOT_NOTHING, 0, "", OBJECT_RETRY, -ECONNRESET},
		{CURLE_OPERATION_TIMEDOUT, 0, "", OBJECT_RETRY, -ETIMEDOUT},
		{CURLE_PEER_FAILED_VERIFICATION, 0, "", OBJECT_FAIL, -EPROTO},
		{CURLE_OUT_OF_MEMORY, 0, "", OBJECT_FAIL, -ENOMEM},
	};

	for (unsigned i = 0; i < T_COUNT(rows); i++) {
		struct object_outcome o = {
			.curl = rows[i].curl, .status = rows[i].status, .code = rows[i].code};

		if (object_classify_outcome(&o) != rows[i].verdict ||
		    (rows[i].err && object_outcome_errno(&o) != rows[i].err))
			T_FAIL("row %u: status %u %s: verdict %d, errno %d", i, o.status, o.code,
			       (int)object_classify_outcome(&o), object_outcome_errno(&o));
	}
}

static void what_else_is_known_decides(void)
{
	struct object_outcome o = {.status = 409, .code = "", .conditional = true};

	T_EQ(object_classify_outcome(&o), OBJECT_RETRY);
	/* HEAD has no document: the date tells. */
	o = (struct object_outcome){.status = 403, .code = "", .skew_s = -3600};
	T_EQ(object_classify_outcome(&o), OBJECT_CORRECT_CLOCK);
	o.skew_s = 200;
	T_EQ(object_classify_outcome(&o), OBJECT_FAIL);
	o = (struct object_outcome){.status = 400, .code = "AuthorizationHeaderMalformed"};
	T_EQ(object_classify_outcome(&o), OBJECT_FAIL);
	o.other_region = true;
	T_EQ(object_classify_outcome(&o), OBJECT_REDIRECT);
	o = (struct object_outcome){.curl = CURLE_WRITE_ERROR, .abort_code = -EBADMSG, .code = ""};
	T_EQ(object_classify_outcome(&o), OBJECT_RETRY);
	T_EQ(object_outcome_errno(&o), -EBADMSG);
	o.abort_code = -ESTALE;
	T_EQ(object_classify_outcome(&o), OBJECT_FAIL);
}

static void pauses_are_drawn_from_a_window_that_doubles(void)
{
	struct penstock_random random;
	uint64_t most[20] = {0};

	penstock_random_seed(&random, t_seed());
	for (unsigned n = 0; n < 2000; n++)
		for (unsigned i = 0; i < 20; i++)
			most[i] = max_u64(most[i], object_backoff_ns(&random, i + 1));
	T_OK(most[0] <= 100000000 && most[0] > 90000000);
	T_OK(most[3] <= 800000000 && most[3] > 700000000);
	for (unsigned i = 0; i < 20; i++)
		T_OK(most[i] <= 10000000000ull);
	T_OK(most[19] > 9000000000ull);
	/* After one that gained something. */
	for (unsigned n = 0; n < 100; n++)
		T_OK(object_backoff_ns(&random, 0) <= 100000000);
}

/* ----------------------------------------------------------------------- endpoints */

static struct object_endpoints set;

static void use(const char *text, uint32_t balance)
{
	struct penstock_err err = {0, ""};

	object_endpoints_free(&set);
	memset(&set, 0, sizeof(set));
	set.balance = balance;
	penstock_random_seed(&set.random, 1);
	T_ERR(object_endpoints_parse(&set, text, &err), 0, &err);
}

static void done_with_endpoints(void)
{
	object_endpoints_free(&set);
}

static void lists_and_templates_are_read(void)
{
	static const char *const bad[] = {"",
					  ",",
					  "http://a{1..3}",
					  "http://a{3...1}",
					  "http://a{1...9999}",
					  "http://a{1...2}{1...2}",
					  "a,b",
					  "http://a,ftp://b",
					  "@/does/not/exist"};
	struct penstock_err err;
	FILE *f;
	char at[512];

	use("http://a:1, http://b{1...3}:9000 https://c", 0);
	T_EQ(set.nr, 5);
	T_OK(!strcmp(set.v[3].url.host, "b3:9000") && set.v[4].url.tls);
	use("http://n{08...11}", 0);
	T_EQ(set.nr, 4);
	T_OK(!strcmp(set.v[0].url.host, "n08") && !strcmp(set.v[3].url.host, "n11"));
	f = fopen(t_path("endpoints"), "w");
	fputs("# all\nhttp://x # one\n\nhttp://y{1...2}\n", f);
	fclose(f);
	snprintf(at, sizeof(at), "@%s", t_path("endpoints"));
	use(at, 0);
	T_EQ(set.nr, 3);
	object_endpoints_free(&set);
	for (unsigned i = 0; i < T_COUNT(bad); i++)
		T_OK(object_endpoints_parse(&set, bad[i], &err) < 0 && set.nr == 0);
}

static void each_rule_chooses(void)
{
	unsigned seen[4] = {0}, first;

	use("http://h{0...3}", PENSTOCK_S3_ROUND_ROBIN);
	for (unsigned i = 0; i < 8; i++)
		seen[object_endpoint_pick(&set, -1, 0)]++;
	for (unsigned i = 0; i < 4; i++)
		T_EQ(seen[i], 2);
	use("http://h{0...3}", PENSTOCK_S3_LEAST);
	for (unsigned i = 0; i < 8; i++)
		object_endpoint_pick(&set, -1, 0);
	for (unsigned i = 0; i < 4; i++)
		T_EQ(set.v[i].in_flight, 2);
	object_endpoint_release(&set, 2, false, 0);
	T_EQ(object_endpoint_pick(&set, -1, 0), 2);
	use("http://h{0...3}", PENSTOCK_S3_RANK);
	set.rank = 6;
	for (unsigned i = 0; i < 4; i++)
		T_EQ(object_endpoint_pick(&set, -1, 0), 2);
	use("http://h{0...3}", PENSTOCK_S3_RANDOM);
	first = object_endpoint_pick(&set, -1, 0);
	for (unsigned i = 0; i < 100 && object_endpoint_pick(&set, -1, 0) == first; i++)
		T_OK(i < 99);
}

static void fail_at(unsigned i, uint64_t now)
{
	set.v[i].in_flight++;
	object_endpoint_release(&set, i, true, now);
}

static void one_that_fails_is_left_out_and_tried_again(void)
{
	const uint64_t ms = 1000000;
	unsigned tries = 0;

	use("http://h{0...2}", PENSTOCK_S3_ROUND_ROBIN);
	fail_at(1, 0);
	T_OK(!set.v[1].down);
	/* All that was in flight fails with it, which makes the pause no longer. */
	for (unsigned i = 0; i < 20; i++)
		fail_at(1, 0);
	T_OK(set.v[1].down && set.v[1].downs == 1);
	for (unsigned i = 0; i < 30; i++)
		T_OK(object_endpoint_pick(&set, -1, 499 * ms) != 1);
	/* Its time has come: one request tries. */
	for (unsigned i = 0; i < 30; i++)
		tries += object_endpoint_pick(&set, -1, 500 * ms) == 1;
	T_EQ(tries, 1);
	object_endpoint_release(&set, 1, true, 501 * ms);
	for (unsigned i = 0; i < 30; i++)
		T_OK(object_endpoint_pick(&set, -1, 1500 * ms) != 1);
	while (object_endpoint_pick(&set, -1, 1502 * ms) != 1)
		T_OK(tries++ < 10);
	object_endpoint_release(&set, 1, false, 1503 * ms);
	T_OK(!set.v[1].down);
	tries = 0;
	for (unsigned i = 0; i < 30; i++)
		tries += object_endpoint_pick(&set, -1, 1504 * ms) == 1;
	T_EQ(tries, 10);
}

/* Not the next one all of it, which would then have twice the work of the others. */
static void those_that_are_up_share_what_one_that_is_down_would_get(void)
{
	static const uint32_t rules[] = {PENSTOCK_S3_ROUND_ROBIN, PENSTOCK_S3_LEAST,
					 PENSTOCK_S3_RANDOM, PENSTOCK_S3_RANK};

	for (unsigned k = 0; k < T_COUNT(rules); k++) {
		unsigned seen[4] = {0};

		use("http://h{0...3}", rules[k]);
		fail_at(1, 0);
		fail_at(1, 0);
		for (unsigned i = 0; i < 12000; i++) {
			set.rank = 4 * i + 1;
			seen[object_endpoint_pick(&set, -1, 1)]++;
		}
		T_EQ(seen[1], 0);
		for (unsigned i = 0; i < 4; i++)
			T_OK(i == 1 || (seen[i] > 3500 && seen[i] < 4500));
	}
}

static void somebody_is_asked_even_when_all_are_down(void)
{
	use("http://h{0...1}", PENSTOCK_S3_ROUND_ROBIN);
	fail_at(0, 0);
	fail_at(0, 0);
	T_OK(object_endpoint_has_alternative(&set, 0) && !object_endpoint_has_alternative(&set, 1));
	fail_at(1, 10);
	fail_at(1, 10);
	T_EQ(object_endpoint_pick(&set, -1, 20), 0);
	T_EQ(object_endpoint_pick(&set, 0, 20), 1);
	use("http://one", PENSTOCK_S3_ROUND_ROBIN);
	fail_at(0, 0);
	fail_at(0, 0);
	T_EQ(object_endpoint_pick(&set, 0, 1), 0);
}

/* ----------------------------------------------------------------------- checksums */

static void checksums_are_those_of_others(void)
{
	struct penstock_s3 c = {.opts = {.checksum = PENSTOCK_S3_CHECKSUM_AUTO}};
	struct object_checksum sum;
	char many[100];

	T_OK(object_checksum_compute(&sum, &c, "123456789", 9));
	T_OK(!strcmp(sum.value, "4waSgw==") && !strcmp(sum.header, "x-amz-checksum-crc32c"));
	c.opts.checksum = PENSTOCK_S3_CHECKSUM_CRC64NVME;
	T_OK(object_checksum_compute(&sum, &c, "123456789", 9));
	T_OK(!strcmp(sum.value, "rosUhgp5mIg="));
	c.opts.checksum = PENSTOCK_S3_CHECKSUM_NONE;
	T_OK(!object_checksum_compute(&sum, &c, "123456789", 9));
	for (unsigned i = 0; i < sizeof(many); i++)
		many[i] = (char)(i * 7);
	for (unsigned cut = 0; cut <= sizeof(many); cut++)
		T_OK(object_crc64nvme(object_crc64nvme(0, many, cut), many + cut,
				      sizeof(many) - cut) ==
		     object_crc64nvme(0, many, sizeof(many)));
}

int main(void)
{
	static const struct t_case verdicts[] = {
		T_CASE(the_matrix_holds),
		T_CASE(what_else_is_known_decides),
		T_CASE(pauses_are_drawn_from_a_window_that_doubles),
		T_CASE(checksums_are_those_of_others),
	};
	static const struct t_case endpoints[] = {
		T_CASE(lists_and_templates_are_read),
		T_CASE(each_rule_chooses),
		T_CASE(one_that_fails_is_left_out_and_tried_again),
		T_CASE(those_that_are_up_share_what_one_that_is_down_would_get),
		T_CASE(somebody_is_asked_even_when_all_are_down),
	};
	static const struct t_group groups[] = {
		{.name = "verdicts", .cases = verdicts, .nr_cases = T_COUNT(verdicts)},
		{.name = "endpoints",
		 .teardown = done_with_endpoints,
		 .cases = endpoints,
		 .nr_cases = T_COUNT(endpoints)},
	};

	return t_run(groups, T_COUNT(groups), NULL);
}
