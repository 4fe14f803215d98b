/* SPDX-License-Identifier: Apache-2.0 */
/* Shared files: ~/.aws/credentials and ~/.aws/config, and what a profile in them can say. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "object/cred_internal.h"

/* A profile as the two files have it. */
struct profile {
	const char *name;
	char *credentials, *config; /* the files; NULL: not there */
	char section[2][96];        /* its name in either */
	bool found;
};

/* The text of a shared file; one that is not there is no error unless a variable names it. */
static int shared_file(char **out, const struct object_cred_opts *o, const char *variable,
		       const char *below_home, struct penstock_err *err)
{
	const char *given = cred_env(o, variable), *home = cred_env(o, "HOME");
	CLEANUP_FREE char *path = NULL;
	int r;

	if (!given && !home)
		return 0;
	if (!given && asprintf(&path, "%s/%s", home, below_home) < 0) {
		path = NULL;
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	}
	r = cred_read_file(out, given ? given : path, err);
	return (r == -ENOENT || r == -ENOTDIR || r == -EACCES) && !given ? 0 : r;
}

/* The value of @key, of ~/.aws/credentials before that of ~/.aws/config. */
static char *profile_value(struct profile *p, const char *key)
{
	char *value = NULL;

	if (p->credentials)
		value = cred_ini(p->credentials, p->section[0], key, &p->found);
	if (!value && p->config)
		value = cred_ini(p->config, p->section[1], key, &p->found);
	return value;
}

static int read_profile_keys(struct object_cred_source *s, struct profile *p,
			     struct penstock_err *err)
{
	char *id = profile_value(p, "aws_access_key_id");
	char *secret = profile_value(p, "aws_secret_access_key");
	char *token = profile_value(p, "aws_session_token");
	int r = 0;

	if (id || secret)
		r = cred_set(&s->keys, s->name, id, secret, token, err) ?: 1;
	cred_wipe(id);
	cred_wipe(secret);
	cred_wipe(token);
	return r;
}

/* What there is no code for is told, so that nobody wonders why other keys are used. */
static int refuse_unsupported(struct profile *p, struct penstock_err *err)
{
	static const char *const keys[] = {"role_arn", "sso_session", "sso_start_url",
					   "credential_source"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char *value = profile_value(p, keys[i]);

		if (!value)
			continue;
		free(value);
		return penstock_fail(err, -EINVAL,
				     "credentials: profile %s has %s, which is not supported: use "
				     "credential_process (aws configure export-credentials)",
				     p->name, keys[i]);
	}
	return 0;
}

static int find_profile_source(struct object_cred_source *s, struct profile *p,
			       const struct object_cred_opts *o, struct penstock_err *err)
{
	s->command = profile_value(p, "credential_process");
	if (s->command) {
		s->ask = cred_ask_process;
		return 1;
	}
	s->token_file = profile_value(p, "web_identity_token_file");
	if (!s->token_file || !o->fetch)
		return refuse_unsupported(p, err);
	s->role = profile_value(p, "role_arn");
	s->session = profile_value(p, "role_session_name");
	return cred_find_web(s, o, err);
}

static int read_profile(struct object_cred_source *s, struct profile *p,
			const struct object_cred_opts *o, struct penstock_err *err)
{
	bool named = strcmp(p->name, "default") != 0;
	int r;

	r = shared_file(&p->credentials, o, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", err);
	if (!r)
		r = shared_file(&p->config, o, "AWS_CONFIG_FILE", ".aws/config", err);
	if (r)
		return r;
	snprintf(p->section[0], sizeof(p->section[0]), "%s", p->name);
	snprintf(p->section[1], sizeof(p->section[1]), "%s%s", named ? "profile " : "", p->name);
	snprintf(s->name, sizeof(s->name), "profile %s", p->name);
	r = read_profile_keys(s, p, err);
	if (!r)
		r = find_profile_source(s, p, o, err);
	if (!r && named && !p->found)
		r = penstock_fail(err, -EINVAL, "credentials: no profile %s in the shared files",
				  p->name);
	return r;
}

int cred_find_profile(struct object_cred_source *s, const struct object_cred_opts *o,
		      struct penstock_err *err)
{
	struct profile p = {.name = o->profile};
	int r;

	if (!p.name)
		p.name = cred_env(o, "AWS_PROFILE");
	if (!p.name)
		p.name = "default";
	if (strlen(p.name) > 64)
		return penstock_fail(err, -EINVAL, "credentials: profile %s: at most 64 characters",
				     p.name);
	r = read_profile(s, &p, o, err);
	cred_wipe(p.credentials);
	cred_wipe(p.config);
	return r;
}
