/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from how an attempt ended: the end, or another one.  In the transport's thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "dl/curl.h"
#include "object/client.h"

enum { REDIRECTS = 5, LOWER_LIMIT_NS = 100000000, PAUSE_MAX_S = 30 };

/* More is due of what was announced: an answer without a length may end early. */
static bool is_short(const struct object_req *r)
{
	const struct http_response *response = &r->http.response;

	return r->ranged && response->status == 206 && response->has_range &&
	       r->http.got < response->range_len;
}

static struct object_outcome read_outcome(struct object_req *r)
{
	struct http_req *h = &r->http;
	int64_t date = object_parse_http_date(h->response.date);
	struct object_outcome o = {
		.curl = h->curl,
		.abort_code = h->abort_code,
		.status = h->response.status,
		.conditional = r->conditional,
	};

	memset(&r->error, 0, sizeof(r->error));
	if (h->text.len && (h->response.status >= 300 || r->slow))
		object_error_doc_parse(&r->error, h->text.s, h->text.len);
	o.code = r->error.code;
	o.skew_s = date && r->c->source ? date - (time(NULL) + r->skew_s) : 0;
	if (!h->response.region[0])
		snprintf(h->response.region, sizeof(h->response.region), "%.63s", r->error.region);
	o.other_region = h->response.region[0] && strcmp(h->response.region, r->region) != 0;
	if (o.curl == CURLE_OK && is_short(r))
		o.curl = CURLE_PARTIAL_FILE;
	return o;
}

/* Fewer in flight, at once and once for all that say so together; more again one by one. */
static void adjust_limit(struct penstock_s3 *c, enum object_verdict v)
{
	uint64_t now = clock_ns();

	if (v == OBJECT_RETRY_SLOWER && now - c->limit_lowered_ns > LOWER_LIMIT_NS) {
		c->limit_lowered_ns = now;
		c->limit = (uint32_t)max_u64(c->limit * 2 / 3, 1);
		c->limit_successes = 0;
	} else if (v == OBJECT_DONE && c->limit < c->opts.connections &&
		   ++c->limit_successes >= c->limit) {
		c->limit++;
		c->limit_successes = 0;
	} else {
		return;
	}
	http_set_limit(c->http, c->limit);
}

static void add_latency(struct object_req *r, enum object_latency_kind which, uint64_t ns)
{
	penstock_hist_add(&r->c->latencies[which].hist, ns);
	r->c->latencies[which].sum_ns += ns;
}

static void add_latencies(struct object_req *r, enum object_verdict v)
{
	const struct http_req *h = &r->http;

	if (v != OBJECT_DONE || !h->last_ns)
		return;
	if (r->ranged) {
		add_latency(r, OBJECT_LATENCY_FIRST_BYTE, h->first_ns);
		add_latency(r, OBJECT_LATENCY_LAST_BYTE, h->last_ns);
	} else if (h->method == HTTP_PUT && h->body_len) {
		add_latency(r, OBJECT_LATENCY_PUT, h->last_ns);
	}
}

static void count_attempt(struct object_req *r, const struct object_outcome *o,
			  enum object_verdict v)
{
	struct penstock_s3 *c = r->c;
	struct penstock_s3_stats *s = &c->stats;
	struct http_req *h = &r->http;

	s->throttled += v == OBJECT_RETRY_SLOWER;
	s->timeouts += o->curl == CURLE_OPERATION_TIMEDOUT;
	s->broken += o->curl != CURLE_OK && o->curl != CURLE_OPERATION_TIMEDOUT && !o->abort_code;
	s->redirects += v == OBJECT_REDIRECT;
	s->connects += h->connected;
	s->answers += h->response.status && h->first_ns;
	s->first_byte_ns += h->response.status ? h->first_ns : 0;
	s->first_byte_max_ns = max_u64(s->first_byte_max_ns, h->response.status ? h->first_ns : 0);
	add_latencies(r, v);
	s->bytes_read += h->got;
	s->bytes_written += h->sent;
	adjust_limit(c, v);
	if (r->counted) {
		r->counted = false;
		c->endpoints.v[r->endpoint].bytes_read += h->got;
		c->endpoints.v[r->endpoint].bytes_written += h->sent;
		object_endpoint_release(&c->endpoints, (unsigned)r->endpoint,
					object_is_endpoint_fault(o), clock_ns());
	}
}

static void finish_request(struct object_req *r, int code)
{
	r->code = code;
	pthread_mutex_lock(&r->c->lock);
	/* To look for what is not there is no failure. */
	if (code == -ENOENT && r->http.method == HTTP_HEAD)
		r->c->stats.absent++;
	else
		r->c->stats.failed += code < 0;
	pthread_mutex_unlock(&r->c->lock);
	r->done(r);
}

static const char *key_slash(const struct object_req *r)
{
	return r->name.key[0] ? "/" : "";
}

/* "s3://b/k: read: NoSuchKey: ... (404), after 3 attempts" */
static void fail_request(struct object_req *r, const struct object_outcome *o)
{
	struct object_strbuf s = {0};
	const char *place = r->endpoint >= 0 ? r->c->endpoints.v[r->endpoint].text : "";
	int code = object_outcome_errno(o);

	if (o->status == 412 && r->is_new)
		code = -EEXIST;
	object_strbuf_printf(&s, "s3://%s%s%s: %s: ", r->name.bucket, key_slash(r), r->name.key,
			     r->what);
	if (o->abort_code == -ESTALE || (o->status == 412 && !r->is_new))
		object_strbuf_put(&s, r->conditional && r->maybe_applied
					      ? "its ETag is another, perhaps by an attempt whose "
						"answer was lost"
					      : "it was replaced: its ETag is another");
	else if (code == -EEXIST)
		object_strbuf_put(
			&s, r->maybe_applied ? "it is there already, or by an attempt whose answer "
					       "was lost"
					     : "it is there already");
	else if (o->abort_code == -EBADMSG)
		object_strbuf_printf(&s, "%s: the answer contradicts what was asked for (%u)",
				     place, o->status);
	else if (o->abort_code)
		object_strbuf_put(&s, penstock_strerror(o->abort_code));
	else if (o->curl != CURLE_OK)
		object_strbuf_printf(&s, "%s%s%s", place, *place ? ": " : "",
				     r->http.why[0] ? r->http.why
						    : penstock_curl(NULL)->strerror(o->curl));
	else if (r->error.code[0])
		object_strbuf_printf(&s, "%s%s%s (%u)", r->error.code,
				     r->error.message[0] ? ": " : "", r->error.message, o->status);
	else
		object_strbuf_printf(&s, "%s (%u)", penstock_strerror(code), o->status);
	if (r->attempts > 1)
		object_strbuf_printf(&s, ", after %u attempts", r->attempts);
	penstock_fail(&r->err, code, "%s", s.failed ? "out of memory" : s.s);
	object_strbuf_fini(&s);
	finish_request(r, code);
}

/* Keep what came of a range, if it is certain that the rest will be of the same object. */
static bool keep_progress(struct object_req *r)
{
	struct http_req *h = &r->http;

	if (!r->ranged || !h->got || h->abort_code || !h->response.etag[0])
		return false;
	r->have += h->got;
	memcpy(r->etag, h->response.etag, sizeof(r->etag));
	return true;
}

static void retry_request(struct object_req *r, const struct object_outcome *o)
{
	struct penstock_s3 *c = r->c;
	uint64_t delay, spent = clock_ns() - r->start_ns;
	bool blamed = object_is_endpoint_fault(o);

	/* What is left of it is a range. */
	r->attempts_without_progress = keep_progress(r) ? 0 : r->attempts_without_progress + 1;
	r->try_unranged = r->try_unranged && !r->have;
	r->maybe_applied = r->maybe_applied || (r->http.sent && o->status == 0) || o->status >= 500;
	if (r->attempts_without_progress >= c->opts.attempts || (r->ranged && r->have == r->len)) {
		fail_request(r, o);
		return;
	}
	pthread_mutex_lock(&c->lock);
	delay = object_backoff_ns(&c->random, r->attempts_without_progress);
	/* Another one is up: why wait? */
	if (blamed && r->endpoint >= 0 && r->attempts_without_progress < c->endpoints.nr &&
	    object_endpoint_has_alternative(&c->endpoints, (unsigned)r->endpoint))
		delay = 0;
	pthread_mutex_unlock(&c->lock);
	delay = max_u64(delay,
			1000000000ull * min_u64(r->http.response.retry_after_s, PAUSE_MAX_S));
	r->avoid = r->endpoint >= 0;
	if (spent + delay >= c->opts.timeout_ms * 1000000ull)
		fail_request(r, o);
	else
		http_retry(c->http, &r->http, delay);
}

/* The bucket is in another region; false: it was said to be in none. */
static bool set_bucket_region(struct object_req *r)
{
	struct penstock_s3 *c = r->c;
	const char *region = r->http.response.region;
	struct object_region *e = NULL;

	if (!region[0] || strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region))
		return false;
	for (unsigned i = 0; i < c->nr_regions && !e; i++)
		if (!strcmp(c->regions[i].bucket, r->name.bucket))
			e = &c->regions[i];
	if (!e) {
		char *bucket = strdup(r->name.bucket);

		if (!bucket || ARRAY_GROW(c->regions, c->nr_regions) < 0) {
			free(bucket);
			return false;
		}
		e = &c->regions[c->nr_regions++];
		e->bucket = bucket;
	}
	snprintf(e->region, sizeof(e->region), "%s", region);
	return true;
}

/* To what Location says; its query is ours. */
static bool follow_location(struct object_req *r)
{
	struct object_url url;

	r->http.response.location[strcspn(r->http.response.location, "?")] = 0;
	if (!r->http.response.location[0] ||
	    object_url_parse(&url, r->http.response.location, NULL) < 0)
		return false;
	object_url_free(&r->redirect_url);
	r->redirect_url = url;
	return true;
}

static void follow_redirect(struct object_req *r, const struct object_outcome *o)
{
	bool moved;

	pthread_mutex_lock(&r->c->lock);
	moved = (o->other_region && set_bucket_region(r)) || follow_location(r);
	pthread_mutex_unlock(&r->c->lock);
	if (moved && ++r->redirects <= REDIRECTS)
		http_retry(r->c->http, &r->http, 0);
	else
		fail_request(r, o);
}

static void correct_clock_skew(struct object_req *r, const struct object_outcome *o)
{
	if (r->clock_corrected || !o->skew_s) {
		fail_request(r, o);
		return;
	}
	r->clock_corrected = true;
	pthread_mutex_lock(&r->c->lock);
	r->c->skew_s = r->skew_s + o->skew_s;
	r->c->stats.skew_ms = r->c->skew_s * 1000;
	pthread_mutex_unlock(&r->c->lock);
	http_retry(r->c->http, &r->http, 0);
}

/* An answer of the whole object tells its checksum, also for what other attempts have to bring. */
static void note_checksum(struct object_req *r)
{
	const struct http_response *response = &r->http.response;

	if (!r->into || r->at || !response->crc32c[0] || strchr(response->crc32c, '-'))
		return;
	if (response->status == 200 && response->has_length)
		r->total = response->length;
	else if (response->status == 206 && response->range_len == response->range_total)
		r->total = response->range_total;
	else
		return;
	memcpy(r->crc32c, response->crc32c, sizeof(r->crc32c));
}

/* The whole object came, and with it its checksum: is it right? */
static bool verify_content(struct object_req *r)
{
	char checksum[24];

	if (!r->crc32c[0] || r->have != r->total)
		return true;
	object_checksum_base64(checksum, penstock_crc32c(0, r->into, r->have), 4);
	if (strcmp(checksum, r->crc32c) != 0)
		return false;
	pthread_mutex_lock(&r->c->lock);
	r->c->stats.checked += r->total;
	pthread_mutex_unlock(&r->c->lock);
	return true;
}

static void verify_and_finish(struct object_req *r, struct object_outcome *o)
{
	r->have += r->ranged ? r->http.got : 0;
	if (verify_content(r)) {
		finish_request(r, 0);
		return;
	}
	/* From the beginning: nobody knows which byte it is. */
	r->have = r->http.got = 0;
	r->crc32c[0] = 0;
	r->try_unranged = r->at == 0;
	o->abort_code = r->http.abort_code = -EBADMSG;
	retry_request(r, o);
}

void object_attempt_end(struct http_req *h)
{
	struct object_req *r = container_of(h, struct object_req, http);
	struct object_outcome o;
	enum object_verdict v;

	pthread_mutex_lock(&r->c->lock);
	o = read_outcome(r);
	v = object_classify_outcome(&o);
	note_checksum(r);
	count_attempt(r, &o, v);
	pthread_mutex_unlock(&r->c->lock);
	/* There is more of it than is wanted. */
	if (o.abort_code == -EMSGSIZE) {
		r->try_unranged = false;
		http_retry(r->c->http, &r->http, 0);
		return;
	}
	/* Behind the end there is nothing, which is no error. */
	if (v == OBJECT_FAIL && r->ranged && o.status == 416 && o.curl == CURLE_OK)
		finish_request(r, 0);
	else if (v == OBJECT_DONE)
		verify_and_finish(r, &o);
	else if (v == OBJECT_RETRY || v == OBJECT_RETRY_SLOWER)
		retry_request(r, &o);
	else if (v == OBJECT_REDIRECT)
		follow_redirect(r, &o);
	else if (v == OBJECT_CORRECT_CLOCK)
		correct_clock_skew(r, &o);
	else
		fail_request(r, &o);
}
