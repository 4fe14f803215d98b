/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/limit_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dl/curl.h"
#include "object/signed_request.h"

enum {
	UPLOAD_PARTS = 4, /* that an upload has in flight */
	FAILURES = 32,    /* after which it is given up */
	RECEIVE = 512 << 10,
	SEND = 2 << 20,
};

struct request_slot {
	void *easy;
	struct object_signed_request b;
	char *at; /* in the buffers of the work */
	uint64_t done;
};

struct request_loop {
	const struct limit_target *targets;
	unsigned nr;
	bool read;
	uint64_t max_bytes, end_ns;
	const atomic_int *stop;
	const struct penstock_curl *curl;
	struct object_send_options how;
	void *multi;
	struct request_slot *slots;
	unsigned active, failures;
	uint64_t next, begun;
	unsigned warm; /* so many endpoints to go: connections are made, nothing counts */
	struct limit_object_result *ret;
};

static size_t receive_body(char *data, size_t one, size_t len, void *arg)
{
	struct request_slot *s = arg;

	(void)one;
	if (s->b.put || s->done + len > s->b.len)
		return len; /* what the server has to say */
	memcpy(s->at + s->done, data, len);
	s->done += len;
	return len;
}

static size_t send_body(char *buf, size_t one, size_t size, void *arg)
{
	struct request_slot *s = arg;
	size_t len = (size_t)min_u64(one * size, s->b.len - s->done);

	memcpy(buf, s->at + s->done, len);
	s->done += len;
	return len;
}

static int rewind_body(void *arg, int64_t offset, int origin)
{
	struct request_slot *s = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > s->b.len)
		return 1;
	s->done = (uint64_t)offset;
	return 0;
}

/* ------------------------------------------------------------------- requests */

static uint64_t request_size(const struct request_loop *l, const struct limit_target *t)
{
	uint64_t whole = min_u64(t->len, t->buf_len);

	return l->read ? min_u64(whole, t->block ? t->block : l->how.part) : t->len;
}

/* Of an operation of the work, that are in flight together. */
static unsigned requests_each(const struct request_loop *l, const struct limit_target *t)
{
	uint64_t part = l->read ? request_size(l, t) : l->how.part;
	uint64_t n = max_u64((min_u64(t->len, t->buf_len) + part - 1) / part, 1);

	return (unsigned)min_u64(l->read ? n : min_u64(n, UPLOAD_PARTS), l->how.connections);
}

/* As many as the work has; of writes no more than objects, each once. */
static unsigned in_flight(const struct request_loop *l)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < l->nr; i++) {
		const struct limit_target *t = &l->targets[i];
		uint64_t n = (uint64_t)max_u64(t->in_flight, 1) * requests_each(l, t);

		sum += l->read ? n : min_u64(n, t->nr_paths);
	}
	return (unsigned)min_u64(sum, l->how.connections);
}

/* Through the objects one after the other, and through the buffers. */
static void choose_request(struct request_loop *l, struct request_slot *s)
{
	const struct limit_target *t = &l->targets[l->next % l->nr];
	uint64_t i = l->next++ / l->nr, size = request_size(l, t);
	uint64_t per = (t->len + size - 1) / size, object = i / per, at = i % per * size;
	uint64_t in_buf = l->read ? at % t->buf_len : 0;

	s->b = (struct object_signed_request){.put = !l->read && !l->warm,
					      .uri = t->paths[object % t->nr_paths],
					      .at = l->warm ? 0 : at,
					      .len = l->warm ? 1 : min_u64(size, t->len - at),
					      .endpoint = l->warm ? l->warm : (unsigned)l->next};
	if (in_buf + s->b.len > t->buf_len)
		in_buf = 0;
	s->at = t->buf + object % t->nr_bufs * t->step + in_buf;
	s->b.body = s->at;
	s->done = 0;
	l->ret->request = max_u64(l->ret->request, s->b.len);
}

static void set_options(struct request_loop *l, struct request_slot *s)
{
	int (*set)(void *, int, ...) = l->curl->easy_setopt;

	l->curl->easy_reset(s->easy);
	set(s->easy, CURLOPT_URL, s->b.url);
	set(s->easy, CURLOPT_HTTPHEADER, s->b.headers);
	set(s->easy, CURLOPT_PRIVATE, s);
	set(s->easy, CURLOPT_NOSIGNAL, 1l);
	set(s->easy, CURLOPT_PATH_AS_IS, 1l);
	set(s->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	set(s->easy, CURLOPT_CONNECTTIMEOUT_MS, 5000l);
	set(s->easy, CURLOPT_LOW_SPEED_LIMIT, 1l);
	set(s->easy, CURLOPT_LOW_SPEED_TIME, 15l);
	set(s->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	set(s->easy, CURLOPT_WRITEFUNCTION, receive_body);
	set(s->easy, CURLOPT_WRITEDATA, s);
	if (l->how.ca_file)
		set(s->easy, CURLOPT_CAINFO, l->how.ca_file);
	if (l->how.no_proxy)
		set(s->easy, CURLOPT_PROXY, "");
	if (!s->b.put)
		return;
	set(s->easy, CURLOPT_UPLOAD, 1l);
	set(s->easy, CURLOPT_INFILESIZE_LARGE, (int64_t)s->b.len);
	set(s->easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND);
	set(s->easy, CURLOPT_READFUNCTION, send_body);
	set(s->easy, CURLOPT_READDATA, s);
	set(s->easy, CURLOPT_SEEKFUNCTION, rewind_body);
	set(s->easy, CURLOPT_SEEKDATA, s);
}

static void count_failure(struct request_loop *l, const char *why)
{
	l->failures++;
	snprintf(l->ret->why_not, sizeof(l->ret->why_not), "a bare libcurl loop: %.90s", why);
}

static bool may_start(const struct request_loop *l)
{
	return l->failures < FAILURES && clock_ns() < l->end_ns && l->begun < l->max_bytes &&
	       !asked_to_stop(l->stop);
}

/* The next one, unless it is time to end. */
static void start_request(struct request_loop *l, struct request_slot *s)
{
	struct penstock_err err = {0, ""};

	if (!may_start(l))
		return;
	choose_request(l, s);
	if (object_signed_request_init(&s->b, l->targets->s3, &err) < 0) {
		count_failure(l, err.msg[0] ? err.msg : "cannot sign");
		object_signed_request_fini(&s->b);
		return;
	}
	set_options(l, s);
	if (l->curl->multi_add(l->multi, s->easy) == 0) {
		l->active++;
		l->begun += l->warm ? 0 : s->b.len;
	}
}

static void end_request(struct request_loop *l, struct request_slot *s, int code)
{
	char why[32];
	long status = 0;

	l->curl->easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	l->curl->multi_remove(l->multi, s->easy);
	l->active--;
	snprintf(why, sizeof(why), "status %ld", status);
	if (code != CURLE_OK)
		count_failure(l, l->curl->strerror(code));
	else if (status < 200 || status >= 300)
		count_failure(l, why);
	else if (s->done != s->b.len)
		count_failure(l, "not what was asked for came");
	else if (!l->warm)
		l->ret->bytes += s->b.len;
	object_signed_request_fini(&s->b);
}

/* ----------------------------------------------------------------------- loop */

static void reap_requests(struct request_loop *l)
{
	struct penstock_curl_msg *m;
	int left;

	while ((m = l->curl->multi_info_read(l->multi, &left))) {
		struct request_slot *s = NULL;
		int code = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		l->curl->easy_getinfo(m->easy, CURLINFO_PRIVATE, &s);
		end_request(l, s, code);
		if (!l->warm)
			start_request(l, s);
	}
}

/* All slots, until there is nothing more to begin and all has ended. */
static void run_requests(struct request_loop *l)
{
	int running;

	for (unsigned i = 0; i < l->ret->in_flight; i++)
		start_request(l, &l->slots[i]);
	while (l->active && !asked_to_stop(l->stop)) {
		l->curl->multi_perform(l->multi, &running);
		reap_requests(l);
		if (l->active)
			l->curl->multi_poll(l->multi, NULL, 0, 100, NULL);
	}
}

/* Where it was told to stop some are under way. */
static void loop_close(struct request_loop *l)
{
	for (unsigned i = 0; l->slots && i < l->ret->in_flight; i++) {
		if (!l->slots[i].easy)
			continue;
		if (l->slots[i].b.url)
			l->curl->multi_remove(l->multi, l->slots[i].easy);
		object_signed_request_fini(&l->slots[i].b);
		l->curl->easy_cleanup(l->slots[i].easy);
	}
	if (l->multi)
		l->curl->multi_cleanup(l->multi);
	free(l->slots);
}

static bool loop_open(struct request_loop *l)
{
	l->ret->in_flight = in_flight(l);
	l->slots = calloc(l->ret->in_flight, sizeof(*l->slots));
	l->multi = l->curl->multi_init();
	if (!l->slots || !l->multi)
		return false;
	l->curl->multi_setopt(l->multi, CURLMOPT_MAXCONNECTS,
			      (long)l->ret->in_flight * l->how.endpoints);
	for (unsigned i = 0; i < l->ret->in_flight; i++) {
		l->slots[i].easy = l->curl->easy_init();
		if (!l->slots[i].easy)
			return false;
	}
	return true;
}

void limit_object_run(struct limit_object_result *ret, const struct limit_target *targets,
		      unsigned nr, bool read, uint64_t max_bytes, uint64_t ns,
		      const atomic_int *stop)
{
	struct request_loop l = {.targets = targets,
				 .nr = nr,
				 .read = read,
				 .max_bytes = max_bytes,
				 .end_ns = UINT64_MAX,
				 .stop = stop,
				 .curl = penstock_curl(NULL),
				 .ret = ret};
	uint64_t start;

	*ret = (struct limit_object_result){.bytes = 0};
	object_send_options_get(&l.how, targets->s3);
	ret->is_signed = l.how.signs;
	for (unsigned i = 0; i < nr && !read; i++)
		if (targets[i].len > targets[i].buf_len) {
			count_failure(&l, "objects are larger than buffers");
			return;
		}
	if (loop_open(&l)) {
		/* Those of the work are made, too. */
		for (l.warm = l.how.endpoints; l.warm; l.warm--)
			run_requests(&l);
		start = clock_ns();
		l.end_ns = start + ns;
		run_requests(&l);
		ret->ns = clock_ns() - start;
	} else {
		count_failure(&l, "out of memory");
	}
	loop_close(&l);
}
