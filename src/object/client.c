/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a client; what it counted. */
#include "object/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dl/crypto.h"

enum { CONNECT_MS = 5000 };

static int open_cred_source(struct penstock_s3 *c, const struct object_settings *s,
			    struct penstock_err *err)
{
	const struct object_cred_opts opts = {
		.profile = s->o.profile,
		.env = s->o.env,
		.fetch = http_fetch,
		.fetch_ctx = &c->http_opts,
		.key_id = s->o.key_id,
		.secret = s->o.secret,
		.token = s->o.token,
	};
	int r;

	if (s->o.flags & PENSTOCK_S3_ANONYMOUS)
		return 0;
	r = object_cred_open(&c->source, &opts, err);
	return r < 0 ? r : object_cred_get(c->source, &c->cred, err);
}

/* Virtual hosts where there is no endpoint, or where it was asked for and can be. */
static int choose_style(struct penstock_s3 *c, struct penstock_err *err)
{
	c->virtual_host = c->opts.style == PENSTOCK_S3_STYLE_VIRTUAL ||
			  (c->opts.style == PENSTOCK_S3_STYLE_AUTO && c->aws);
	for (unsigned i = 0; c->virtual_host && i < c->endpoints.nr; i++)
		if (!object_url_takes_buckets(&c->endpoints.v[i].url))
			return penstock_fail(
				err, -EINVAL,
				"endpoint: %s: an address cannot have buckets in front "
				"of it; use style path",
				c->endpoints.v[i].text);
	return 0;
}

static void seed_random(struct penstock_s3 *c)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	penstock_random_seed(&c->random, (uint64_t)ts.tv_nsec ^ (uint64_t)(uintptr_t)c ^
						 (uint64_t)getpid() << 32);
	penstock_random_seed(&c->endpoints.random, penstock_random_next(&c->random));
	/* Many clients that start together do not all begin with the first. */
	c->endpoints.next = (unsigned)penstock_random_below(&c->random, OBJECT_ENDPOINTS);
}

static int client_init(struct penstock_s3 *c, struct object_settings *s, struct penstock_err *err)
{
	int r = 0;

	c->opts = s->o;
	c->limit = s->o.connections;
	c->aws = !s->endpoint;
	memcpy(c->region, s->region, sizeof(c->region));
	c->ca_file = TAKE_PTR(s->ca_file);
	c->http_opts = (struct http_opts){
		.ca_file = c->ca_file,
		.no_proxy = !s->o.env,
		.in_flight = s->o.connections,
		.connect_ms = CONNECT_MS,
	};
	seed_random(c);
	c->endpoints.balance = s->o.balance;
	c->endpoints.rank = s->o.rank;
	if (s->endpoint)
		r = object_endpoints_parse(&c->endpoints, s->endpoint, err);
	if (r == 0)
		r = choose_style(c, err);
	if (r == 0)
		r = http_open(&c->http, &c->http_opts, err);
	if (r == 0)
		r = open_cred_source(c, s, err);
	return r;
}

int penstock_s3_open(struct penstock_s3 **out, const struct penstock_s3_opts *opts,
		     struct penstock_err *err)
{
	struct object_settings s;
	struct penstock_s3 *c;
	const char *why;
	int r = object_settings_load(&s, opts, err);

	if (r == 0 && !penstock_crypto(&why))
		r = penstock_fail(err, -ENOTSUP, "s3:// needs libcrypto: %s", why);
	if (r < 0) {
		object_settings_free(&s);
		return r;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		object_settings_free(&s);
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_init(&c->lock, NULL);
	r = client_init(c, &s, err);
	object_settings_free(&s);
	/* Strings were the caller's. */
	c->opts.endpoint = c->opts.region = c->opts.profile = c->opts.ca_file = NULL;
	c->opts.key_id = c->opts.secret = c->opts.token = NULL;
	c->opts.env = NULL;
	if (r < 0)
		penstock_s3_close(c);
	else
		*out = c;
	return r;
}

void penstock_s3_close(struct penstock_s3 *c)
{
	if (!c)
		return;
	http_close(c->http);
	if (c->refresher_started)
		pthread_join(c->refresher, NULL);
	object_cred_free(&c->cred);
	object_cred_close(c->source);
	object_endpoints_free(&c->endpoints);
	for (unsigned i = 0; i < c->nr_regions; i++)
		free(c->regions[i].bucket);
	free(c->regions);
	free(c->ca_file);
	explicit_bzero(&c->sign_key, sizeof(c->sign_key));
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* --------------------------------------------------------------------- keys */

/* Under the lock. */
static bool keys_are_due(const struct penstock_s3 *c)
{
	const uint64_t early = 300ull * 1000000000u;
	struct timespec ts;

	if (!c->source || !c->cred.expires_ns)
		return false;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + early >= c->cred.expires_ns;
}

int object_client_refresh_keys(struct penstock_s3 *c, struct penstock_err *err)
{
	struct object_cred fresh = {0}, old;
	bool due;
	int r;

	pthread_mutex_lock(&c->lock);
	due = keys_are_due(c);
	pthread_mutex_unlock(&c->lock);
	if (!due)
		return 0;
	r = object_cred_get(c->source, &fresh, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&c->lock);
	old = c->cred;
	c->cred = fresh;
	pthread_mutex_unlock(&c->lock);
	object_cred_free(&old);
	return 0;
}

static void *refresher_run(void *arg)
{
	struct penstock_s3 *c = arg;

	object_client_refresh_keys(c, NULL); /* who may wait is told of an error */
	pthread_mutex_lock(&c->lock);
	c->refreshing = false;
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void object_client_refresh_keys_async(struct penstock_s3 *c)
{
	pthread_mutex_lock(&c->lock);
	if (!c->refreshing && keys_are_due(c)) {
		if (c->refresher_started) /* it has nothing left to do */
			pthread_join(c->refresher, NULL);
		c->refresher_started = c->refreshing =
			thread_start(&c->refresher, refresher_run, c) == 0;
	}
	pthread_mutex_unlock(&c->lock);
}

const char *object_client_region(const struct penstock_s3 *c, const char *bucket)
{
	for (unsigned i = 0; i < c->nr_regions; i++)
		if (!strcmp(c->regions[i].bucket, bucket))
			return c->regions[i].region;
	return c->region;
}

/* ---------------------------------------------------------------- statistics */

int penstock_s3_get_stats(struct penstock_s3 *c, struct penstock_s3_stats *stats)
{
	struct penstock_s3_stats s;

	pthread_mutex_lock(&c->lock);
	s = c->stats;
	s.limit = c->limit;
	pthread_mutex_unlock(&c->lock);
	s.nr_endpoints = c->endpoints.nr;
	s.region = c->region;
	s.style = c->virtual_host ? "virtual" : "path";
	s.checksum = object_checksum_name(c);
	s.payload = c->opts.flags & PENSTOCK_S3_SIGN_BODY ? "signed" : "unsigned";
	s.credentials = c->source ? object_cred_name(c->source) : "none";
	return object_struct_copy_out(stats, &s, sizeof(s));
}

void object_latency_get(struct penstock_s3 *c, enum object_latency_kind which,
			struct object_latency *ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = c->latencies[which];
	pthread_mutex_unlock(&c->lock);
}

int penstock_s3_get_endpoint(struct penstock_s3 *c, uint32_t i, struct penstock_s3_endpoint *e)
{
	struct penstock_s3_endpoint copy = {0};
	const struct object_endpoint *from;

	if (i >= c->endpoints.nr)
		return -ENOENT;
	from = &c->endpoints.v[i];
	pthread_mutex_lock(&c->lock);
	copy.up = !from->down;
	copy.url = from->text;
	copy.attempts = from->attempts;
	copy.failed = from->failed;
	copy.bytes_read = from->bytes_read;
	copy.bytes_written = from->bytes_written;
	copy.downs = from->downs;
	copy.in_flight = from->in_flight;
	pthread_mutex_unlock(&c->lock);
	return object_struct_copy_out(e, &copy, sizeof(copy));
}
