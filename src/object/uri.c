/* SPDX-License-Identifier: Apache-2.0 */
#include "object/uri.h"

#include <ctype.h>
#include <errno.h>
#include <penstock/s3.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

enum { KEY_MAX = 1024, BUCKET_MIN = 3, BUCKET_MAX = 255 };

static const char scheme[] = "s3://";

/* Schemes and hosts mean the same in capitals (RFC 3986, 3.1 and 3.2.2). */
static bool starts_with(const char *text, const char *start)
{
	return strncasecmp(text, start, strlen(start)) == 0;
}

int penstock_s3_is_uri(const char *name, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	if (starts_with(name, scheme))
		return 1;
	if (starts_with(name, "az://") || starts_with(name, "gs://"))
		return penstock_fail(err, -ENOTSUP,
				     "%s: only s3:// is built; az:// and gs:// are not",
				     penstock_shorten_name(&short_name, name));
	return 0;
}

/* It becomes part of a host or of a path, in which nothing else may mean something. */
static bool is_bucket(const char *s, size_t len)
{
	if (len < BUCKET_MIN || len > BUCKET_MAX || !isalnum((unsigned char)s[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("-_.", s[i]))
			return false;
	return true;
}

int object_name_parse(struct object_name *n, const char *uri, bool need_key,
		      struct penstock_err *err)
{
	const char *bucket = uri + strlen(scheme), *slash;
	struct penstock_short_name short_name;
	int r = penstock_s3_is_uri(uri, err);

	memset(n, 0, sizeof(*n));
	if (r < 0)
		return r;
	if (r == 0)
		return penstock_fail(err, -EINVAL, "%s: is no s3://BUCKET/KEY",
				     penstock_shorten_name(&short_name, uri));
	slash = strchrnul(bucket, '/');
	if (!is_bucket(bucket, (size_t)(slash - bucket)))
		return penstock_fail(err, -EINVAL,
				     "%s: '%.*s' is no bucket; a bucket has 3 to 255 of "
				     "a-z, 0-9, '-' and '.'",
				     penstock_shorten_name(&short_name, uri), (int)(slash - bucket),
				     bucket);
	if (need_key && (!*slash || !slash[1]))
		return penstock_fail(err, -EINVAL, "%s: has no key; give s3://BUCKET/KEY", uri);
	if (*slash && strlen(slash + 1) > KEY_MAX)
		return penstock_fail(err, -EINVAL, "%s: a key has at most %d bytes",
				     penstock_shorten_name(&short_name, uri), KEY_MAX);
	n->bucket = strndup(bucket, (size_t)(slash - bucket));
	n->key = strdup(*slash ? slash + 1 : "");
	if (n->bucket && n->key)
		return 0;
	object_name_free(n);
	return penstock_fail(err, -ENOMEM, "out of memory");
}

void object_name_free(struct object_name *n)
{
	free(n->bucket);
	free(n->key);
	memset(n, 0, sizeof(*n));
}

/* ---------------------------------------------------------------- endpoints */

/* "name", "1.2.3.4", "[::1]", each with ":port" or without; the port that is the scheme's is cut.
 */
static bool is_host(char *host, bool tls)
{
	char *end = host, *port;

	if (*host == '[') {
		end = strchr(host, ']');
		if (!end ||
		    strspn(host + 1, "0123456789abcdefABCDEF:.") != (size_t)(end - host - 1))
			return false;
		end++;
	} else {
		while (isalnum((unsigned char)*end) || *end == '-' || *end == '.' || *end == '_')
			end++;
	}
	if (end == host || (*end && *end != ':'))
		return false;
	if (!*end)
		return true;
	port = end + 1;
	if (!*port || strlen(port) > 5 || strspn(port, "0123456789") != strlen(port) ||
	    atoi(port) < 1 || atoi(port) > 65535)
		return false;
	if (atoi(port) == (tls ? 443 : 80))
		*end = 0;
	return true;
}

static bool is_base(const char *base)
{
	for (; *base; base++)
		if (!isalnum((unsigned char)*base) && !strchr("-_.~/%", *base))
			return false;
	return true;
}

int object_url_parse(struct object_url *u, const char *text, struct penstock_err *err)
{
	const char *rest, *slash;
	struct penstock_short_name short_name;

	memset(u, 0, sizeof(*u));
	if (strchr(text, '@'))
		return penstock_fail(err, -EINVAL,
				     "endpoint: has a user's name in it; keys are given otherwise");
	if (text[strcspn(text, " \t\r\n")])
		return penstock_fail(err, -EINVAL, "endpoint: has a blank in it");
	u->tls = starts_with(text, "https://");
	if (!u->tls && !starts_with(text, "http://"))
		return penstock_fail(err, -EINVAL,
				     "endpoint: '%s' does not begin with http:// or https://",
				     penstock_shorten_name(&short_name, text));
	rest = strstr(text, "://") + 3;
	slash = strchrnul(rest, '/');
	u->host = strndup(rest, (size_t)(slash - rest));
	u->base = strdup(slash);
	if (!u->host || !u->base) {
		object_url_free(u);
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	while (*u->base && u->base[strlen(u->base) - 1] == '/')
		u->base[strlen(u->base) - 1] = 0;
	if (is_host(u->host, u->tls) && is_base(u->base))
		return 0;
	object_url_free(u);
	return penstock_fail(err, -EINVAL, "endpoint: '%s' is no http://HOST:PORT",
			     penstock_shorten_name(&short_name, text));
}

void object_url_free(struct object_url *u)
{
	free(u->host);
	free(u->base);
	memset(u, 0, sizeof(*u));
}

bool object_url_takes_buckets(const struct object_url *u)
{
	size_t len = strcspn(u->host, ":");

	return u->host[0] != '[' && strspn(u->host, "0123456789.") < len &&
	       !(len == 9 && starts_with(u->host, "localhost"));
}

void object_url_host(struct object_strbuf *t, const struct object_url *u, const char *bucket,
		     bool virtual_host)
{
	if (virtual_host && *bucket)
		object_strbuf_printf(t, "%s.", bucket);
	object_strbuf_put(t, u->host);
}

void object_url_path(struct object_strbuf *t, const struct object_url *u, const char *bucket,
		     const char *key, bool virtual_host)
{
	object_strbuf_put(t, u->base);
	if (!virtual_host && *bucket)
		object_strbuf_printf(t, "/%s", bucket);
	object_strbuf_put(t, "/");
	object_strbuf_add_encoded(t, key, true);
}
