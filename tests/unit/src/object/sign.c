/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures: what AWS has published, and every shape of a key; names of objects and endpoints. */
#include <penstock/s3.h>

#include "dl/crypto.h"
#include "object/cred.h"
#include "object/sign.h"
#include "object/uri.h"
#include "tests/common/t.h"

/* ---------------------------------------------------------------- published vectors */

static char key_s3[] = "AKIAIOSFODNN7EXAMPLE", key_suite[] = "AKIDEXAMPLE";
static char secret_s3[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static char secret_suite[] = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

static const struct object_cred cred_s3 = {key_s3, secret_s3, NULL, 0};
static const struct object_cred cred_suite = {key_suite, secret_suite, NULL, 0};

static void expect_signature(const struct object_sign *s, const char *headers,
			     const char *signature)
{
	struct object_sign_key kept = {0};
	struct object_strbuf out = {0};

	/* Twice: with the key of the day made and with the one that was kept. */
	for (int i = 0; i < 2; i++) {
		object_strbuf_clear(&out);
		T_EQ(object_sign(&out, s, &kept), 0);
		T_STR_HAS(out.s, signature);
		T_STR_HAS(out.s, headers);
	}
	object_strbuf_fini(&out);
}

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define DAY   "20130524T000000Z"

static struct object_sign s3_example(const char *method, const char *path, const char *query,
				     const struct object_header *headers, unsigned nr)
{
	return (struct object_sign){.method = method,
				    .host = "examplebucket.s3.amazonaws.com",
				    .path = path,
				    .query = query,
				    .headers = headers,
				    .nr_headers = nr,
				    .payload = EMPTY,
				    .region = "us-east-1",
				    .service = "s3",
				    .cred = &cred_s3,
				    .date = DAY};
}

static void the_examples_of_s3_come_out(void)
{
	static const struct object_header get[] = {
		{"range", "bytes=0-9"}, {"x-amz-content-sha256", EMPTY}, {"x-amz-date", DAY}};
	static const struct object_header put[] = {
		{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
		{"x-amz-date", DAY},
		{"date", "Fri, 24 May 2013 00:00:00 GMT"},
		{"x-amz-content-sha256",
		 "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}};
	struct object_sign s = s3_example("GET", "/test.txt", "", get, 3);

	expect_signature(&s, "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,",
			 "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	s = s3_example("PUT", "/test%24file.text", "", put, 4);
	s.payload = put[3].value;
	expect_signature(&s, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,",
			 "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
	/* A parameter without a value, and two that are not in order. */
	s = s3_example("GET", "/", "lifecycle", get + 1, 2);
	expect_signature(&s, "host;x-amz-content-sha256;x-amz-date,",
			 "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	s = s3_example("GET", "/", "prefix=J&max-keys=2", get + 1, 2);
	expect_signature(&s, "host;",
			 "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void the_suite_comes_out(void)
{
	static const struct object_header date[] = {{"x-amz-date", "20150830T123600Z"}};
	struct object_sign s = {.method = "GET",
				.host = "example.amazonaws.com",
				.path = "/",
				.query = "",
				.headers = date,
				.nr_headers = 1,
				.payload = EMPTY,
				.region = "us-east-1",
				.service = "service",
				.cred = &cred_suite,
				.date = "20150830T123600Z"};

	expect_signature(&s, "host;x-amz-date,",
			 "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
	s.query = "Param2=value2&Param1=value1";
	expect_signature(&s, "host;x-amz-date,",
			 "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
	s.query = "";
	s.method = "POST";
	expect_signature(&s, "host;x-amz-date,",
			 "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
}

static void names_that_begin_alike_are_sorted(void)
{
	static const struct object_header h[] = {
		{"x-amz-meta-a-b", "2"}, {"x-amz-meta-a", "  1   and  one "}, {"x-amz-date", DAY}};
	struct object_sign s = s3_example("GET", "/k", "uploads&a-b=1&a=2", h, 3);
	struct object_strbuf out = {0};

	object_sign_canonical(&out, &s);
	T_STR_HAS(out.s, "GET\n/k\na=2&a-b=1&uploads=\nhost:");
	T_STR_HAS(out.s, "x-amz-date:" DAY "\nx-amz-meta-a:1 and one\nx-amz-meta-a-b:2\n\n"
			 "host;x-amz-date;x-amz-meta-a;x-amz-meta-a-b\n" EMPTY);
	object_strbuf_fini(&out);
}

/* ------------------------------------------------------------------------- names */

static void expect_path(const char *key, const char *path)
{
	char none[] = "", host[] = "h";
	struct object_url u = {.host = host, .base = none};
	struct object_strbuf out = {0};

	object_url_path(&out, &u, "bucket", key, false);
	T_STR_HAS(out.s, path);
	T_EQ(strlen(out.s), strlen(path));
	object_strbuf_fini(&out);
}

static void keys_are_encoded_once(void)
{
	expect_path("a b", "/bucket/a%20b");
	expect_path("a+b=c:d", "/bucket/a%2Bb%3Dc%3Ad");
	expect_path("a//b/", "/bucket/a//b/");
	expect_path("*()'!", "/bucket/%2A%28%29%27%21");
	expect_path("@,$&;", "/bucket/%40%2C%24%26%3B");
	expect_path("per%41cent", "/bucket/per%2541cent");
	expect_path("\xc3\xa4-_.~", "/bucket/%C3%A4-_.~");
	expect_path("a/../b?c#d", "/bucket/a/../b%3Fc%23d");
	expect_path("\x7f\x01", "/bucket/%7F%01");
}

static void names_are_told_from_paths(void)
{
	struct penstock_err err;

	T_EQ(penstock_s3_is_uri("s3://b/k", &err), 1);
	T_EQ(penstock_s3_is_uri("/a/b", &err), 0);
	T_EQ(penstock_s3_is_uri("s3:/b", &err), 0);
	T_ERR(penstock_s3_is_uri("az://b/k", &err), -ENOTSUP, &err);
	T_STR_HAS(err.msg, "az://b/k: only s3:// is built");
	T_ERR(penstock_s3_is_uri("gs://b", &err), -ENOTSUP, &err);
	T_EQ(penstock_s3_is_uri("S3://b/k", &err), 1);
	T_ERR(penstock_s3_is_uri("Gs://b", &err), -ENOTSUP, &err);
}

static void names_are_taken_apart(void)
{
	static const char *const bad[] = {"s3://",          "s3:///k",        "s3://b/k",
					  "s3://bu cket/k", "s3://bu@cket/k", "s3://.bu/k",
					  "s3://bucket",    "s3://bucket/"};
	struct object_name n;
	struct penstock_err err;

	T_EQ(object_name_parse(&n, "s3://my.bucket-1//a/b c", true, &err), 0);
	T_OK(!strcmp(n.bucket, "my.bucket-1") && !strcmp(n.key, "/a/b c"));
	object_name_free(&n);
	T_EQ(object_name_parse(&n, "S3://bucket/Key", true, &err), 0);
	T_OK(!strcmp(n.bucket, "bucket") && !strcmp(n.key, "Key"));
	object_name_free(&n);
	T_EQ(object_name_parse(&n, "s3://bucket", false, &err), 0);
	T_OK(!*n.key);
	object_name_free(&n);
	for (unsigned i = 0; i < T_COUNT(bad); i++)
		T_ERR(object_name_parse(&n, bad[i], true, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "has no key");
}

static void endpoints_are_taken_apart(void)
{
	static const char *const bad[] = {
		"host",       "ftp://h",          "http://",         "http://h:0",
		"http://h:x", "http://h:65536",   "http://[::1",     "http://h/a b",
		"http://a b", "http://user:pw@h", "http://h\r\nX: y"};
	struct object_url u;
	struct penstock_err err;

	T_EQ(object_url_parse(&u, "http://h:80/", &err), 0);
	T_OK(!u.tls && !strcmp(u.host, "h") && !*u.base);
	object_url_free(&u);
	T_EQ(object_url_parse(&u, "https://[::1]:8443/a/b//", &err), 0);
	T_OK(u.tls && !strcmp(u.host, "[::1]:8443") && !strcmp(u.base, "/a/b"));
	T_OK(!object_url_takes_buckets(&u));
	object_url_free(&u);
	T_EQ(object_url_parse(&u, "http://s3.example.com:9000", &err), 0);
	T_OK(object_url_takes_buckets(&u));
	object_url_free(&u);
	for (unsigned i = 0; i < T_COUNT(bad); i++)
		T_ERR(object_url_parse(&u, bad[i], &err), -EINVAL, &err);
	T_ERR(object_url_parse(&u, "http://user:pw@h", &err), -EINVAL, &err);
	T_OK(!strstr(err.msg, "pw"));
}

int main(void)
{
	static const struct t_case signing[] = {
		T_CASE(the_examples_of_s3_come_out),
		T_CASE(the_suite_comes_out),
		T_CASE(names_that_begin_alike_are_sorted),
	};
	static const struct t_case names[] = {
		T_CASE(keys_are_encoded_once),
		T_CASE(names_are_told_from_paths),
		T_CASE(names_are_taken_apart),
		T_CASE(endpoints_are_taken_apart),
	};
	static const struct t_group groups[] = {
		{.name = "names", .cases = names, .nr_cases = T_COUNT(names)},
		{.name = "signatures", .cases = signing, .nr_cases = T_COUNT(signing)},
	};
	const char *why;

	if (!penstock_crypto(&why))
		t_note("signatures are not looked at: %s", why);
	return t_run(groups, penstock_crypto(NULL) ? 2 : 1, NULL);
}
