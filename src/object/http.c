/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread has three places for a request: waiting for its time (a heap), ready (a list), and
 * with libcurl.  Others add to a list under the lock and wake it.
 */
#include "object/http.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/heap.h"
#include "base/util.h"
#include "dl/curl.h"
#include "object/http_transfer.h"

struct queue {
	struct http_req *first, **last;
};

struct http {
	const struct penstock_curl *curl;
	struct http_transfer_opts transfer_opts;
	void *multi;
	pthread_t thread;

	pthread_mutex_t lock; /* of what others touch */
	struct queue submitted;
	bool stop;

	/* The thread's own. */
	struct queue ready;
	struct penstock_heap delayed;
	unsigned active, limit;
	void **idle; /* easy handles that have their options no more */
	unsigned nr_idle;
};

/* ----------------------------------------------------------------------- lists */

static void queue_init(struct queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static void queue_add(struct queue *q, struct http_req *r)
{
	r->next = NULL;
	*q->last = r;
	q->last = &r->next;
}

static struct http_req *queue_take(struct queue *q)
{
	struct http_req *r = q->first;

	if (!r)
		return NULL;
	q->first = r->next;
	if (!q->first)
		q->last = &q->first;
	return r;
}

/* -------------------------------------------------------------------- attempts */

static void attempt_ended(struct http *h, struct http_req *r, void *easy)
{
	if (easy) {
		h->curl->easy_reset(easy);
		h->idle[h->nr_idle++] = easy;
	}
	free(TAKE_PTR(r->url));
	h->curl->slist_free(TAKE_PTR(r->headers));
	r->end(r);
}

/* @code takes the place of what libcurl would have said. */
static void attempt_abort(struct http *h, struct http_req *r, void *easy, int code)
{
	r->abort_code = code;
	r->curl = CURLE_ABORTED_BY_CALLBACK;
	attempt_ended(h, r, easy);
}

static void attempt_start(struct http *h, struct http_req *r)
{
	void *easy;
	int code;

	http_transfer_clear(r);
	code = r->start(r);
	if (code) {
		attempt_abort(h, r, NULL, code);
		return;
	}
	easy = h->nr_idle ? h->idle[--h->nr_idle] : h->curl->easy_init();
	if (!easy) {
		attempt_abort(h, r, NULL, -ENOMEM);
		return;
	}
	http_transfer_set(h->curl, easy, r, &h->transfer_opts);
	if (h->curl->multi_add(h->multi, easy) != 0) {
		attempt_abort(h, r, easy, -ENOMEM);
		return;
	}
	r->begun_ns = clock_ns();
	h->active++;
}

static void collect_ended(struct http *h)
{
	struct penstock_curl_msg *m;
	struct http_req *r;
	long connects = 0;
	int left;

	while ((m = h->curl->multi_info_read(h->multi, &left))) {
		void *easy = m->easy;

		if (m->msg != CURLMSG_DONE)
			continue;
		h->curl->easy_getinfo(easy, CURLINFO_PRIVATE, &r);
		h->curl->easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
		r->last_ns = clock_ns() - r->begun_ns;
		r->curl = m->data.result;
		r->connected = connects > 0;
		h->curl->multi_remove(h->multi, easy);
		h->active--;
		attempt_ended(h, r, easy);
	}
}

static void start_ready(struct http *h)
{
	uint64_t now = clock_ns();
	struct http_req *r;

	while (penstock_heap_first(&h->delayed) <= now)
		queue_add(&h->ready,
			  (struct http_req *)(uintptr_t)penstock_heap_pop(&h->delayed).value);
	while (h->active < h->limit && (r = queue_take(&h->ready)))
		attempt_start(h, r);
}

/* New ones are ready; false where nothing is left and none will come. */
static bool take_submitted(struct http *h)
{
	struct http_req *r;
	bool stop;

	pthread_mutex_lock(&h->lock);
	while ((r = queue_take(&h->submitted)))
		queue_add(&h->ready, r);
	stop = h->stop;
	pthread_mutex_unlock(&h->lock);
	return !stop || h->active || h->ready.first || h->delayed.nr;
}

static int sleep_ms(const struct http *h)
{
	uint64_t first = penstock_heap_first(&h->delayed), now = clock_ns();

	if (first == UINT64_MAX)
		return 10000;
	return first <= now ? 0 : (int)min_u64((first - now) / 1000000 + 1, 10000);
}

static void *http_run(void *arg)
{
	struct http *h = arg;
	int running;

	while (take_submitted(h)) {
		start_ready(h);
		if (h->active) {
			h->curl->multi_perform(h->multi, &running);
			collect_ended(h);
		}
		/* What ended may have made room, and the next ones must not wait for a poll. */
		if (h->active < h->limit && h->ready.first)
			continue;
		h->curl->multi_poll(h->multi, NULL, 0, sleep_ms(h), NULL);
	}
	return NULL;
}

/* ------------------------------------------------------------------------- API */

void http_submit(struct http *h, struct http_req *r)
{
	pthread_mutex_lock(&h->lock);
	queue_add(&h->submitted, r);
	pthread_mutex_unlock(&h->lock);
	h->curl->multi_wakeup(h->multi);
}

void http_retry(struct http *h, struct http_req *r, uint64_t delay_ns)
{
	/* Without memory for the heap it does not wait, which is no harm to it. */
	if (!delay_ns || penstock_heap_push(&h->delayed, clock_ns() + delay_ns, (uintptr_t)r) < 0)
		queue_add(&h->ready, r);
}

void http_set_limit(struct http *h, unsigned in_flight)
{
	h->limit = in_flight;
}

static int http_init(struct http *h, const struct http_opts *opts)
{
	h->idle = calloc(opts->in_flight + 1, sizeof(*h->idle));
	h->multi = h->curl->multi_init();
	h->transfer_opts = (struct http_transfer_opts){
		.ca_file = opts->ca_file ? strdup(opts->ca_file) : NULL,
		.no_proxy = opts->no_proxy,
		.connect_ms = opts->connect_ms,
	};
	if (!h->idle || !h->multi || (opts->ca_file && !h->transfer_opts.ca_file))
		return -ENOMEM;
	h->limit = opts->in_flight;
	h->curl->multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)opts->in_flight + 16);
	return thread_start(&h->thread, http_run, h);
}

static void http_free(struct http *h)
{
	for (unsigned i = 0; i < h->nr_idle; i++)
		h->curl->easy_cleanup(h->idle[i]);
	if (h->multi)
		h->curl->multi_cleanup(h->multi);
	free(h->idle);
	free(h->transfer_opts.ca_file);
	penstock_heap_fini(&h->delayed);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

int http_open(struct http **out, const struct http_opts *opts, struct penstock_err *err)
{
	const char *why;
	const struct penstock_curl *curl = penstock_curl(&why);
	struct http *h;
	int r;

	if (!curl)
		return penstock_fail(err, -ENOTSUP, "s3:// needs libcurl: %s", why);
	h = calloc(1, sizeof(*h));
	if (!h)
		return penstock_fail(err, -ENOMEM, "out of memory");
	h->curl = curl;
	pthread_mutex_init(&h->lock, NULL);
	queue_init(&h->submitted);
	queue_init(&h->ready);
	r = http_init(h, opts);
	if (r < 0) {
		http_free(h);
		return penstock_fail(err, r, "a client of object stores: %s", penstock_strerror(r));
	}
	*out = h;
	return 0;
}

void http_close(struct http *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_mutex_unlock(&h->lock);
	h->curl->multi_wakeup(h->multi);
	pthread_join(h->thread, NULL);
	http_free(h);
}
