/* SPDX-License-Identifier: Apache-2.0 */
/* Where keys come from, which comes first, when they are asked for again; and that none is told. */
#include "object/cred.h"

#include <time.h>

#include "object/cred_internal.h"
#include "tests/common/t.h"

/* In every secret here, so that one that is told can be found. */
#define MARK "S3CR3TMARK"

/* ------------------------------------------------------------- what is around a source */

static const char *vars[16][2];
static unsigned nr_vars;

static void set(const char *name, const char *value)
{
	T_OK(nr_vars < T_COUNT(vars));
	vars[nr_vars][0] = name;
	vars[nr_vars++][1] = value;
}

static char *env(const char *name)
{
	for (unsigned i = 0; i < nr_vars; i++)
		if (!strcmp(vars[i][0], name))
			return (char *)(uintptr_t)vars[i][1];
	return NULL;
}

/* A server: the first line whose method and part of the URL fit is its answer. */
struct answer {
	const char *method, *url, *header, *body_has;
	unsigned status;
	const char *body;
};
static const struct answer *answers;
static unsigned nr_asked;
static char asked[512];

static int fetch(void *ctx, const struct object_fetch *req, struct object_fetched *ret,
		 struct penstock_err *err)
{
	(void)ctx;
	(void)err;
	nr_asked++;
	snprintf(asked + strlen(asked), sizeof(asked) - strlen(asked), "%s %s;", req->method,
		 req->url);
	for (const struct answer *a = answers; a && a->method; a++) {
		bool has = !a->header;

		for (const char *const *h = req->headers; h && *h; h++)
			has = has || !strcmp(*h, a->header);
		if (strcmp(a->method, req->method) != 0 || !strstr(req->url, a->url) || !has)
			continue;
		if (a->body_has)
			T_OK(memmem(req->body, req->body_len, a->body_has, strlen(a->body_has)));
		ret->status = a->status;
		ret->body = strdup(a->body);
		ret->len = strlen(a->body);
		return 0;
	}
	return -ECONNREFUSED;
}

static void begin(void)
{
	nr_vars = nr_asked = 0;
	asked[0] = 0;
	answers = NULL;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(t_path(name), "we");

	T_OK(f);
	fputs(text, f);
	fclose(f);
}

static struct penstock_err err;

static int open_it(struct object_cred_source **s, const char *profile)
{
	struct object_cred_opts o = {.profile = profile, .env = env, .fetch = fetch};
	int r;

	err.msg[0] = 0;
	r = object_cred_open(s, &o, &err);
	T_OK(!strstr(err.msg, MARK));
	T_OK(r ? err.msg[0] : !strstr(object_cred_name(*s), MARK));
	return r;
}

/* What @name gives; NULL: no token. */
static void expect(const char *profile, const char *name, const char *id, const char *token)
{
	struct object_cred_source *s = NULL;
	struct object_cred c;

	T_EQ(open_it(&s, profile), 0);
	T_OK(!strcmp(object_cred_name(s), name));
	T_EQ(object_cred_get(s, &c, &err), 0);
	T_OK(!strcmp(c.key_id, id));
	T_OK(strstr(c.secret, MARK));
	T_OK(token ? c.token && !strcmp(c.token, token) : !c.token);
	object_cred_free(&c);
	T_OK(!c.secret);
	object_cred_close(s);
}

static void refused(const char *profile, int code, const char *says)
{
	struct object_cred_source *s = NULL;

	T_EQ(open_it(&s, profile), code);
	T_OK(!s);
	T_STR_HAS(err.msg, says);
}

#define JSON_KEYS(id, token, when)                                               \
	"{\"Version\": 1, \"Code\": \"Success\", \"AccessKeyId\": \"" id "\", "  \
	"\"SecretAccessKey\": \"" MARK "\\/x\", \"" token "\": \"" MARK "-tok\"" \
	", \"More\": {\"AccessKeyId\": \"no\"}, \"List\": [1, -2.5e3, null]" when "}"
#define LATER ", \"Expiration\": \"2099-01-01T00:00:00Z\""

/* -------------------------------------------------------------------------- the sources */

static void the_environment_comes_first(void)
{
	begin();
	set("AWS_ACCESS_KEY_ID", "AKIDENV");
	set("AWS_SECRET_ACCESS_KEY", MARK "env");
	expect(NULL, "environment", "AKIDENV", NULL);
	set("AWS_SESSION_TOKEN", MARK "tok");
	expect(NULL, "environment", "AKIDENV", MARK "tok");
	T_EQ(nr_asked, 0);
}

static void half_a_pair_is_refused(void)
{
	begin();
	set("AWS_SECRET_ACCESS_KEY", MARK);
	refused(NULL, -EINVAL, "AWS_ACCESS_KEY_ID is not");
}

static void a_key_with_a_line_end_is_refused(void)
{
	begin();
	set("AWS_ACCESS_KEY_ID", "AKID\r\nX-Evil: 1");
	set("AWS_SECRET_ACCESS_KEY", MARK);
	refused(NULL, -EINVAL, "characters that are in no key");
}

static void given_keys_stand_above_all(void)
{
	struct object_cred_opts o = {.key_id = "AKIDGIVEN", .secret = MARK, .env = env};
	struct object_cred_source *s;

	begin();
	set("AWS_ACCESS_KEY_ID", "AKIDENV");
	set("AWS_SECRET_ACCESS_KEY", MARK);
	T_EQ(object_cred_open(&s, &o, &err), 0);
	T_OK(!strcmp(object_cred_name(s), "options"));
	object_cred_close(s);
}

static const char CREDENTIALS[] =
	"# comment\r\n[default]\naws_access_key_id = AKIDDEFAULT\naws_secret_access_key=" MARK
	"=/+\n"
	"[ two ]\n  aws_access_key_id = INDENTED\nAWS_ACCESS_KEY_ID=AKIDTWO\n"
	"aws_secret_access_key = " MARK "\naws_session_token =  tok==  \n[half]\n"
	"aws_secret_access_key = " MARK "\n";
static const char CONFIG[] =
	"[profile three]\ns3 =\n  aws_access_key_id = NESTED\naws_access_key_id = AKIDTHREE\n"
	"aws_secret_access_key = " MARK "\n[profile  proc]\ncredential_process = cat proc.json\n"
	"[profile bad]\ncredential_process = echo " MARK "; exit 3\n"
	"[profile sso]\nsso_session = x\n[profile role]\nrole_arn = arn:x\nsource_profile = two\n"
	"[profile empty]\nregion = eu-north-1\n"
	"[profile web]\nrole_arn = arn:web\nweb_identity_token_file = web.token\n";

static void files(void)
{
	begin();
	put("credentials", CREDENTIALS);
	put("config", CONFIG);
	set("AWS_SHARED_CREDENTIALS_FILE", strdup(t_path("credentials")));
	set("AWS_CONFIG_FILE", strdup(t_path("config")));
}

static void files_end(void)
{
	free((void *)(uintptr_t)vars[0][1]);
	free((void *)(uintptr_t)vars[1][1]);
	unlink(t_path("credentials"));
	unlink(t_path("config"));
}

static void profiles_come_from_the_shared_files(void)
{
	files();
	expect(NULL, "profile default", "AKIDDEFAULT", NULL);
	expect("two", "profile two", "AKIDTWO", "tok==");
	expect("three", "profile three", "AKIDTHREE", NULL);
	set("AWS_PROFILE", "two");
	expect(NULL, "profile two", "AKIDTWO", "tok==");
	set("AWS_ACCESS_KEY_ID", "AKIDENV");
	set("AWS_SECRET_ACCESS_KEY", MARK);
	expect(NULL, "environment", "AKIDENV", NULL);
	expect("three", "profile three", "AKIDTHREE", NULL); /* which the caller named */
	files_end();
}

static void profiles_that_cannot_be_used_say_why(void)
{
	files();
	refused("none", -EINVAL, "no profile none");
	refused("half", -EINVAL, "a key without its secret");
	refused("sso", -EINVAL, "sso_session, which is not supported");
	refused("role", -EINVAL, "role_arn, which is not supported");
	refused("bad", -EINVAL, "exit status 3");
	refused("empty", -EACCES, "none in the environment");
	files_end();
	begin();
	set("AWS_CONFIG_FILE", "no/such/file");
	refused(NULL, -ENOENT, "no/such/file");
}

static void a_program_may_print_them(void)
{
	char config[4200];

	begin();
	put("proc.json", JSON_KEYS("AKIDPROC", "SessionToken", LATER));
	snprintf(config, sizeof(config), "[default]\ncredential_process = cat %s\n",
		 t_path("proc.json"));
	put("config", config);
	set("AWS_CONFIG_FILE", strdup(t_path("config")));
	expect(NULL, "profile default", "AKIDPROC", MARK "-tok");
	put("proc.json", JSON_KEYS("AKIDPROC", "SessionToken", ", \"Expiration\": \"soon\""));
	refused(NULL, -EINVAL, "no date");
	put("proc.json",
	    JSON_KEYS("AKIDPROC", "SessionToken", ", \"Expiration\": \"2001-01-01T00:00:00Z\""));
	refused(NULL, -EINVAL, "expired already");
	put("proc.json", MARK);
	refused(NULL, -EINVAL, "did not answer with JSON");
	free((void *)(uintptr_t)vars[0][1]);
	unlink(t_path("proc.json"));
	unlink(t_path("config"));
}

#define STS                                                                                      \
	"<AssumeRoleWithWebIdentityResponse "                                                    \
	"xmlns=\"x\"><AssumeRoleWithWebIdentityResult><Credentials>"                             \
	"<AccessKeyId>AKIDWEB</AccessKeyId><SecretAccessKey>" MARK "</SecretAccessKey>"          \
	"<SessionToken>" MARK "-tok</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>" \
	"</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"

static void a_web_identity_is_changed_for_keys(void)
{
	static const struct answer good[] = {
		{"POST", "https://sts.eu-west-3.amazonaws.com/", NULL,
		 "RoleArn=arn%3Aaws%3Aiam&RoleSessionName=penstock&WebIdentityToken=" MARK "%2Fjwt",
		 200, STS},
		{0}};
	static const struct answer denied[] = {{"POST", "sts", NULL, NULL, 403, MARK}, {0}};

	begin();
	put("token", MARK "/jwt\n");
	set("AWS_WEB_IDENTITY_TOKEN_FILE", strdup(t_path("token")));
	refused(NULL, -EINVAL, "no role");
	set("AWS_ROLE_ARN", "arn:aws:iam");
	set("AWS_REGION", "eu-west-3");
	answers = good;
	expect(NULL, "web identity", "AKIDWEB", MARK "-tok");
	answers = denied;
	refused(NULL, -EINVAL, "status 403");
	unlink(t_path("token"));
	refused(NULL, -ENOENT, "token: No such file");
	free((void *)(uintptr_t)vars[0][1]);
}

static void a_container_has_an_endpoint(void)
{
	static const struct answer by_path[] = {{"GET", "http://169.254.170.2/v2/x", NULL, NULL,
						 200, JSON_KEYS("AKIDTASK", "Token", LATER)},
						{0}};
	static const struct answer by_url[] = {{"GET", "http://127.0.0.1:99/y",
						"Authorization: " MARK, NULL, 200,
						JSON_KEYS("AKIDPOD", "Token", LATER)},
					       {0}};

	begin();
	set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:99/y");
	set("AWS_CONTAINER_AUTHORIZATION_TOKEN", MARK);
	answers = by_url;
	expect(NULL, "container endpoint", "AKIDPOD", MARK "-tok");
	set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
	answers = by_path;
	expect(NULL, "container endpoint", "AKIDTASK", MARK "-tok");
	begin();
	set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.com/y");
	set("AWS_CONTAINER_AUTHORIZATION_TOKEN", MARK);
	refused(NULL, -EINVAL, "https, or an address of this machine");
	T_EQ(nr_asked, 0);
}

static void an_instance_is_asked_last_with_a_token(void)
{
	static const struct answer instance[] = {
		{"PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL,
		 200, MARK "imds"},
		{"GET", "/security-credentials/my-role", "X-aws-ec2-metadata-token: " MARK "imds",
		 NULL, 200, JSON_KEYS("AKIDEC2", "Token", LATER)},
		{"GET", "/security-credentials/", "X-aws-ec2-metadata-token: " MARK "imds", NULL,
		 200, "my-role\n"},
		{0}};

	begin();
	answers = instance;
	expect(NULL, "instance metadata", "AKIDEC2", MARK "-tok");
	T_EQ(nr_asked, 3);
	answers = NULL; /* nobody there */
	refused(NULL, -EACCES, "none in the environment");
	nr_asked = 0;
	set("AWS_EC2_METADATA_DISABLED", "true");
	answers = instance;
	refused(NULL, -EACCES, "none in the environment");
	T_EQ(nr_asked, 0);
}

/* -------------------------------------------------------------------------------- time */

static char soon_body[2][512];

static void expiring(char *body, size_t size, const char *id, int seconds)
{
	time_t t = time(NULL) + seconds;
	struct tm tm;
	char when[32];

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	snprintf(body, size,
		 "{\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"" MARK
		 "\",\"Token\":\"t\",\"Expiration\":\"%s\"}",
		 id, when);
}

static bool is_now(struct object_cred_source *s, const char *id)
{
	struct object_cred c;
	bool same;

	T_EQ(object_cred_get(s, &c, &err), 0);
	same = !strcmp(c.key_id, id);
	object_cred_free(&c);
	return same;
}

static void keys_are_asked_for_again_before_they_expire(void)
{
	struct answer one[] = {{"GET", "/c", NULL, NULL, 200, soon_body[0]}, {0}};
	struct answer two[] = {{"GET", "/c", NULL, NULL, 200, soon_body[1]}, {0}};
	struct object_cred_source *s;

	begin();
	set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/c");
	expiring(soon_body[0], sizeof(soon_body[0]), "AKIDONE", 3600);
	expiring(soon_body[1], sizeof(soon_body[1]), "AKIDTWO", 3600);
	answers = one;
	T_EQ(open_it(&s, NULL), 0);
	T_OK(is_now(s, "AKIDONE") && is_now(s, "AKIDONE"));
	T_EQ(nr_asked, 1); /* once, and not before they are due */
	T_OK(s->due_ns == s->keys.expires_ns - 300000000000ull);

	s->due_ns = 1; /* five minutes before the end, while nobody answers */
	answers = NULL;
	T_OK(is_now(s, "AKIDONE"));
	T_EQ(nr_asked, 2);
	T_OK(is_now(s, "AKIDONE")); /* not with every request */
	T_EQ(nr_asked, 2);

	s->due_ns = 1;
	answers = two;
	T_OK(is_now(s, "AKIDTWO"));
	s->due_ns = s->keys.expires_ns = 1; /* past the end, and nobody answers */
	answers = NULL;
	struct object_cred c;

	T_EQ(object_cred_get(s, &c, &err), -ECONNREFUSED);
	T_OK(!c.secret);
	object_cred_close(s);
}

/* ----------------------------------------------------------------------------- formats */

static void json_is_json(void)
{
	static const char *const bad[] = {"",
					  "{",
					  "[]",
					  "{\"a\"}",
					  "{\"a\":}",
					  "{\"a\":\"b}",
					  "{} x",
					  "{\"a\":\"\\u12\"}",
					  "{\"a\":\"b\",}",
					  "{\"a\":\"\\",
					  "{\"a\":\"\n\"}"};
	const char *const names[] = {"a", "b"};
	char deep[200] = "{\"a\":", *got[2];

	for (size_t i = 0; i < T_COUNT(bad); i++)
		T_EQ(cred_json(bad[i], names, got, 2), -EINVAL);
	memset(deep + 5, '[', 100);
	T_EQ(cred_json(deep, names, got, 2), -EINVAL);
	T_EQ(cred_json(" { \"b\" : \"\\u0041\\\"\\n\" , \"a\" : 1 , \"c\" : [ { } , [ ] ] } \n",
		       names, got, 2),
	     0);
	T_OK(!got[0] && !strcmp(got[1], "A\"\n"));
	free(got[1]);
}

static void dates_are_dates(void)
{
	T_EQ(cred_date_ns("1970-01-02T00:00:01Z"), 86401000000000ull);
	T_EQ(cred_date_ns("1970-01-02T01:00:01.5+01:00"), 86401000000000ull);
	T_EQ(cred_date_ns("1970-01-01T23:00:01-01:00"), 86401000000000ull);
	T_EQ(cred_date_ns("1970-01-02"), 0);
	T_EQ(cred_date_ns("1970-01-02T00:00:01"), 0);
	T_EQ(cred_date_ns("1960-01-02T00:00:01Z"), 0);
	T_EQ(cred_date_ns("9999-01-02T00:00:01Z"), 0);
}

static const struct t_case cases[] = {
	T_CASE(the_environment_comes_first),
	T_CASE(half_a_pair_is_refused),
	T_CASE(a_key_with_a_line_end_is_refused),
	T_CASE(given_keys_stand_above_all),
	T_CASE(profiles_come_from_the_shared_files),
	T_CASE(profiles_that_cannot_be_used_say_why),
	T_CASE(a_program_may_print_them),
	T_CASE(a_web_identity_is_changed_for_keys),
	T_CASE(a_container_has_an_endpoint),
	T_CASE(an_instance_is_asked_last_with_a_token),
	T_CASE(keys_are_asked_for_again_before_they_expire),
	T_CASE(json_is_json),
	T_CASE(dates_are_dates),
};

int main(void)
{
	static const struct t_group group = {"cred", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
