/* SPDX-License-Identifier: Apache-2.0 */
#include "object/cred.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/util.h"
#include "object/cred_internal.h"

#define SECOND_NS 1000000000ull
#define EARLY_NS  (300 * SECOND_NS) /* keys are asked for again so long before they expire */
#define RETRY_NS  (10 * SECOND_NS)  /* and so long after that has failed, while the old are good */

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

void cred_wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void object_cred_free(struct object_cred *c)
{
	if (!c)
		return;
	cred_wipe(c->key_id);
	cred_wipe(c->secret);
	cred_wipe(c->token);
	*c = (struct object_cred){0};
}

const char *cred_env(const struct object_cred_opts *o, const char *name)
{
	const char *value = o->env ? o->env(name) : NULL;

	return value && *value ? value : NULL;
}

/* Keys become part of a header: a line's end in one would begin another. */
static bool cred_is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

int cred_set(struct object_cred *out, const char *where, const char *key_id, const char *secret,
	     const char *token, struct penstock_err *err)
{
	struct object_cred c = {0};

	if (!key_id || !*key_id || !secret || !*secret)
		return penstock_fail(err, -EINVAL, "credentials: %s has a key without its secret",
				     where);
	if (!cred_is_plain(key_id) || !cred_is_plain(secret) || (token && !cred_is_plain(token)))
		return penstock_fail(err, -EINVAL,
				     "credentials: %s has characters that are in no key", where);
	c.key_id = strdup(key_id);
	c.secret = strdup(secret);
	c.token = token && *token ? strdup(token) : NULL;
	if (!c.key_id || !c.secret || (token && *token && !c.token)) {
		object_cred_free(&c);
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	}
	*out = c;
	return 0;
}

int cred_read_file(char **out, const char *path, struct penstock_err *err)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct penstock_short_name short_name;
	size_t len = 0;
	ssize_t n = 0;
	char *text;

	if (fd < 0)
		return penstock_fail(err, -errno, "credentials: %s: %s",
				     penstock_shorten_name(&short_name, path), strerror(errno));
	text = malloc(CRED_TEXT_MAX + 1);
	if (!text)
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	while (len < CRED_TEXT_MAX && (n = read(fd, text + len, CRED_TEXT_MAX - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	if (n < 0 || len == CRED_TEXT_MAX || strlen(text) != len) {
		int code = n < 0 ? -errno : -EINVAL;

		explicit_bzero(text, len);
		free(text);
		return penstock_fail(err, code, "credentials: %s: %s",
				     penstock_shorten_name(&short_name, path),
				     n < 0 ? strerror(-code) : "not a text of at most 1 MiB");
	}
	*out = text;
	return 0;
}

/* ------------------------------------------------------------------------------ sources */

static int find_given(struct object_cred_source *s, const struct object_cred_opts *o,
		      struct penstock_err *err)
{
	if (!o->key_id && !o->secret)
		return 0;
	snprintf(s->name, sizeof(s->name), "options");
	return cred_set(&s->keys, "what the options say", o->key_id, o->secret, o->token, err) ?: 1;
}

/* A profile that the caller names is meant, whatever the environment has. */
static int find_environment(struct object_cred_source *s, const struct object_cred_opts *o,
			    struct penstock_err *err)
{
	const char *id = cred_env(o, "AWS_ACCESS_KEY_ID");
	const char *secret = cred_env(o, "AWS_SECRET_ACCESS_KEY");

	if (o->profile || (!id && !secret))
		return 0;
	if (!id || !secret)
		return penstock_fail(err, -EINVAL, "credentials: AWS_%s is set and AWS_%s is not",
				     id ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY",
				     id ? "SECRET_ACCESS_KEY" : "ACCESS_KEY_ID");
	snprintf(s->name, sizeof(s->name), "environment");
	return cred_set(&s->keys, "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN",
			id, secret, cred_env(o, "AWS_SESSION_TOKEN"), err)
		       ?: 1;
}

static cred_find_fn *const sources[] = {find_given,    find_environment,    cred_find_profile,
					cred_find_web, cred_find_container, cred_find_instance};

/*
 * When to ask again: five minutes before the end, or at half time of what does not live as long
 * as ten.
 */
static uint64_t due_ns(uint64_t expires_ns, uint64_t now_ns)
{
	if (!expires_ns)
		return 0;
	if (expires_ns <= now_ns)
		return now_ns;
	return expires_ns - min_u64(EARLY_NS, (expires_ns - now_ns) / 2);
}

static int refresh_keys(struct object_cred_source *s, struct penstock_err *err)
{
	struct object_cred got = {0};
	uint64_t now = wall_ns();
	int r = s->ask(s, &got, err);

	if (!r && got.expires_ns && got.expires_ns <= now) {
		object_cred_free(&got);
		r = penstock_fail(err, -EINVAL, "credentials: those of %s have expired already",
				  s->name);
	}
	if (r)
		return r;
	object_cred_free(&s->keys);
	s->keys = got;
	s->due_ns = due_ns(got.expires_ns, now);
	return 0;
}

static int cred_find(struct object_cred_source *s, const struct object_cred_opts *o,
		     struct penstock_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		int r = sources[i](s, o, err);

		if (r > 0 && s->ask)
			r = refresh_keys(s, err);
		/* Instance metadata are looked for where nothing says that there are any. */
		if (r < 0 && sources[i] == cred_find_instance)
			break;
		if (r)
			return r < 0 ? r : 0;
		if (s->keys.key_id)
			return 0;
	}
	return penstock_fail(err, -EACCES,
			     "credentials: none in the environment, the shared files%s%s, web "
			     "identity, container endpoint or instance metadata",
			     o->profile ? " for profile " : "", o->profile ? o->profile : "");
}

int object_cred_open(struct object_cred_source **out, const struct object_cred_opts *opts,
		     struct penstock_err *err)
{
	struct object_cred_source *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return penstock_fail(err, -ENOMEM, "credentials: no memory");
	pthread_mutex_init(&s->lock, NULL);
	s->fetch = opts->fetch;
	s->fetch_ctx = opts->fetch_ctx;
	r = cred_find(s, opts, err);
	if (r) {
		object_cred_close(s);
		return r;
	}
	*out = s;
	return 0;
}

static int copy_keys(const struct object_cred_source *s, struct object_cred *out,
		     struct penstock_err *err)
{
	int r = cred_set(out, s->name, s->keys.key_id, s->keys.secret, s->keys.token, err);

	if (!r)
		out->expires_ns = s->keys.expires_ns;
	return r;
}

int object_cred_get(struct object_cred_source *s, struct object_cred *out, struct penstock_err *err)
{
	uint64_t now = wall_ns();
	int r = 0;

	*out = (struct object_cred){0};
	pthread_mutex_lock(&s->lock);
	if (s->due_ns && now >= s->due_ns) {
		r = refresh_keys(s, err);
		/* The old ones are good for some minutes more; a source may be back by then. */
		if (r && now < s->keys.expires_ns) {
			s->due_ns = min_u64(now + RETRY_NS, s->keys.expires_ns);
			r = 0;
		}
	}
	if (!r)
		r = copy_keys(s, out, err);
	pthread_mutex_unlock(&s->lock);
	return r;
}

const char *object_cred_name(const struct object_cred_source *s)
{
	return s->name;
}

void object_cred_close(struct object_cred_source *s)
{
	if (!s)
		return;
	object_cred_free(&s->keys);
	free(s->command);
	free(s->role);
	free(s->session);
	free(s->token_file);
	free(s->url);
	cred_wipe(s->auth);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
