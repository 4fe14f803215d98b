/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that have keys: STS by web identity, a container's endpoint, an instance's metadata. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "object/cred_internal.h"
#include "object/strbuf.h"
#include "object/xml.h"

#define INSTANCE "http://169.254.169.254"
#define TASK     "http://169.254.170.2"

/* One request; an answer that is not 200 is an error that names @what, never what was answered. */
static int cred_server_fetch(struct object_cred_source *s, char **out,
			     const struct object_fetch *req, const char *what,
			     struct penstock_err *err)
{
	struct object_fetched got = {0};
	int r = s->fetch(s->fetch_ctx, req, &got, err);

	if (!r && (got.status != 200 || got.len > CRED_TEXT_MAX || strlen(got.body) != got.len))
		r = penstock_fail(err, -EINVAL, "credentials: %s answered with status %u", what,
				  got.status);
	if (r) {
		if (got.body)
			explicit_bzero(got.body, got.len);
		free(got.body);
		return r;
	}
	*out = got.body;
	return 0;
}

static bool copy_text_to(char **out, const char *text)
{
	*out = strdup(text);
	return *out;
}

/* ------------------------------------------------------------------------- web identity */

struct sts {
	char *values[4];
};

static const char *const sts_names[] = {"AccessKeyId", "SecretAccessKey", "SessionToken",
					"Expiration"};

static int sts_element(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
		       const char *text)
{
	struct sts *t = ctx;

	(void)depth;
	for (int i = 0; event == OBJECT_XML_CLOSE && i < 4; i++)
		if (!strcmp(name, sts_names[i]) && !t->values[i] &&
		    !copy_text_to(&t->values[i], text))
			return -ENOMEM;
	return 0;
}

static int from_sts(struct object_cred *out, char *text, const char *where,
		    struct penstock_err *err)
{
	struct sts t = {0};
	int r = object_xml_walk(text, strlen(text), sts_element, &t);

	if (r)
		r = penstock_fail(err, -EINVAL, "credentials: %s did not answer with keys", where);
	else
		r = cred_set(out, where, t.values[0], t.values[1], t.values[2], err);
	if (!r)
		out->expires_ns = t.values[3] ? cred_date_ns(t.values[3]) : 0;
	for (int i = 0; i < 4; i++)
		cred_wipe(t.values[i]);
	return r;
}

static void add_form_field(struct object_strbuf *body, const char *name, const char *value)
{
	object_strbuf_printf(body, "&%s=", name);
	object_strbuf_add_encoded(body, value, false);
}

int cred_ask_web(struct object_cred_source *s, struct object_cred *out, struct penstock_err *err)
{
	static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded",
					      NULL};
	struct object_strbuf body = {0};
	struct object_fetch req = {"POST", s->url, headers, NULL, 0, 10000};
	char *token, *text = NULL;
	int r = cred_read_file(&token, s->token_file, err);

	if (r)
		return r;
	token[strcspn(token, "\r\n")] = 0; /* it is read anew each time: it changes */
	object_strbuf_put(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
	add_form_field(&body, "RoleArn", s->role);
	add_form_field(&body, "RoleSessionName", s->session ? s->session : "penstock");
	add_form_field(&body, "WebIdentityToken", token);
	cred_wipe(token);
	req.body = body.s;
	req.body_len = body.len;
	r = body.failed ? penstock_fail(err, -ENOMEM, "credentials: no memory")
			: cred_server_fetch(s, &text, &req, "STS (web identity)", err);
	if (body.s)
		explicit_bzero(body.s, body.len);
	object_strbuf_fini(&body);
	if (!r)
		r = from_sts(out, text, "STS (web identity)", err);
	cred_wipe(text);
	return r;
}

static int sts_url(struct object_cred_source *s, const struct object_cred_opts *o)
{
	const char *given = cred_env(o, "AWS_ENDPOINT_URL_STS");
	const char *region = cred_env(o, "AWS_REGION");
	int n;

	if (!region)
		region = cred_env(o, "AWS_DEFAULT_REGION");
	if (!region)
		region = "us-east-1";
	if (given)
		n = asprintf(&s->url, "%s", given);
	else
		n = asprintf(&s->url, "https://sts.%s.amazonaws.com%s/", region,
			     strncmp(region, "cn-", 3) ? "" : ".cn");
	if (n < 0)
		s->url = NULL;
	return n < 0 ? -ENOMEM : 0;
}

/* A profile has set file and role already; otherwise the environment does. */
int cred_find_web(struct object_cred_source *s, const struct object_cred_opts *o,
		  struct penstock_err *err)
{
	const char *file = cred_env(o, "AWS_WEB_IDENTITY_TOKEN_FILE");
	const char *role = cred_env(o, "AWS_ROLE_ARN");
	const char *session = cred_env(o, "AWS_ROLE_SESSION_NAME");

	if (!s->token_file) {
		if (!file || !o->fetch)
			return 0;
		if ((role && !copy_text_to(&s->role, role)) ||
		    !copy_text_to(&s->token_file, file) ||
		    (session && !copy_text_to(&s->session, session)))
			return penstock_fail(err, -ENOMEM, "credentials: no memory");
		snprintf(s->name, sizeof(s->name), "web identity");
	}
	if (!s->role)
		return penstock_fail(err, -EINVAL, "credentials: %s has a token file and no role",
				     s->name);
	if (sts_url(s, o))
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	s->ask = cred_ask_web;
	return 1;
}

/* ---------------------------------------------------------------------------- container */

static int ask_container(struct object_cred_source *s, struct object_cred *out,
			 struct penstock_err *err)
{
	const char *headers[2] = {NULL, NULL};
	struct object_fetch req = {"GET", s->url, headers, NULL, 0, 5000};
	char *token = NULL, *line = NULL, *text = NULL;
	int r = 0;

	if (s->token_file)
		r = cred_read_file(&token, s->token_file, err);
	if (r)
		return r;
	if (token)
		token[strcspn(token, "\r\n")] = 0;
	if ((token || s->auth) &&
	    asprintf(&line, "Authorization: %s", token ? token : s->auth) < 0) {
		line = NULL;
		r = penstock_fail(err, -ENOMEM, "credentials: no memory");
	}
	headers[0] = line;
	if (!r)
		r = cred_server_fetch(s, &text, &req, "the container endpoint", err);
	if (!r)
		r = cred_from_json(out, text, "Token", "the container endpoint", err);
	cred_wipe(text);
	cred_wipe(line);
	cred_wipe(token);
	return r;
}

/* A token is sent there: over the open network only with TLS. */
static bool is_tls_or_local(const char *url)
{
	static const char *const hosts[] = {"http://127.0.0.1",      "http://localhost",
					    "http://[::1]",          TASK,
					    "http://169.254.170.23", "http://[fd00:ec2::23]"};

	if (!strncmp(url, "https://", 8))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		size_t len = strlen(hosts[i]);

		if (!strncmp(url, hosts[i], len) && strchr(":/", url[len]))
			return true;
	}
	return false;
}

int cred_find_container(struct object_cred_source *s, const struct object_cred_opts *o,
			struct penstock_err *err)
{
	const char *relative = cred_env(o, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = cred_env(o, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
	const char *file = cred_env(o, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *auth = cred_env(o, "AWS_CONTAINER_AUTHORIZATION_TOKEN");

	if ((!relative && !full) || !o->fetch)
		return 0;
	if (relative && relative[0] != '/')
		return penstock_fail(
			err, -EINVAL,
			"credentials: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI %s: a path "
			"that begins with a slash is needed",
			relative);
	if (!relative && !is_tls_or_local(full))
		return penstock_fail(
			err, -EINVAL,
			"credentials: AWS_CONTAINER_CREDENTIALS_FULL_URI %s: https, or "
			"an address of this machine, is needed",
			full);
	if (auth && strpbrk(auth, "\r\n"))
		return penstock_fail(
			err, -EINVAL,
			"credentials: AWS_CONTAINER_AUTHORIZATION_TOKEN is not one line");
	if (asprintf(&s->url, "%s%s", relative ? TASK : "", relative ? relative : full) < 0)
		s->url = NULL;
	if (!s->url || (file && !copy_text_to(&s->token_file, file)) ||
	    (auth && !copy_text_to(&s->auth, auth)))
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	snprintf(s->name, sizeof(s->name), "container endpoint");
	s->ask = ask_container;
	return 1;
}

/* ----------------------------------------------------------------------------- instance */

/* GET of @path below the metadata with the session's token. */
static int fetch_metadata(struct object_cred_source *s, char **out, const char *path,
			  const char *token, struct penstock_err *err)
{
	const char *headers[2] = {NULL, NULL};
	CLEANUP_FREE char *url = NULL, *line = NULL;
	struct object_fetch req = {"GET", NULL, headers, NULL, 0, 1000};

	if (asprintf(&url, "%s/latest/meta-data/iam/security-credentials/%s", s->url, path) < 0)
		url = NULL;
	if (asprintf(&line, "X-aws-ec2-metadata-token: %s", token) < 0)
		line = NULL;
	if (!url || !line)
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	req.url = url;
	headers[0] = line;
	return cred_server_fetch(s, out, &req, "instance metadata", err);
}

static int ask_role(struct object_cred_source *s, struct object_cred *out, char *token,
		    struct penstock_err *err)
{
	char *role = NULL, *text = NULL;
	int r;

	token[strcspn(token, "\r\n")] = 0;
	r = fetch_metadata(s, &role, "", token, err);
	if (r)
		return r;
	role[strcspn(role, "\r\n")] = 0;
	if (!*role || strpbrk(role, "/?# \t%"))
		r = penstock_fail(err, -EINVAL, "credentials: instance metadata name no role");
	if (!r)
		r = fetch_metadata(s, &text, role, token, err);
	if (!r)
		r = cred_from_json(out, text, "Token", "instance metadata", err);
	cred_wipe(text);
	free(role);
	return r;
}

static int ask_instance(struct object_cred_source *s, struct object_cred *out,
			struct penstock_err *err)
{
	static const char *const headers[] = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL};
	CLEANUP_FREE char *url = NULL;
	struct object_fetch req = {"PUT", NULL, headers, "", 0, 1000};
	char *token = NULL;
	int r;

	if (asprintf(&url, "%s/latest/api/token", s->url) < 0) {
		url = NULL;
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	}
	req.url = url;
	r = cred_server_fetch(s, &token, &req, "instance metadata", err);
	if (!r)
		r = ask_role(s, out, token, err);
	cred_wipe(token);
	return r;
}

int cred_find_instance(struct object_cred_source *s, const struct object_cred_opts *o,
		       struct penstock_err *err)
{
	const char *off = cred_env(o, "AWS_EC2_METADATA_DISABLED");
	const char *given = cred_env(o, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
	size_t len;

	if ((off && !strcasecmp(off, "true")) || !o->fetch)
		return 0;
	if (!copy_text_to(&s->url, given ? given : INSTANCE))
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	len = strlen(s->url);
	if (len && s->url[len - 1] == '/')
		s->url[len - 1] = 0;
	snprintf(s->name, sizeof(s->name), "instance metadata");
	s->ask = ask_instance;
	return 1;
}
