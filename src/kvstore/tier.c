/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object store below the directories.  What must make room is pinned until one thread has read
 * it, and put by another; what a get asks for and only the object store has is fetched by one of
 * several, set like any value, and then got.  What is below has an index of its own, and records in
 * the logs (tier_records.c); names hold the run of the store that put them, and objects that no log
 * knows of are removed by a thread that ends with that.
 *
 * Nobody but these waits for the object store.  Where the queue is full or the object store
 * has failed, what would go there is lost and what would come from there is a miss.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/util.h"
#include "kvstore/tier_internal.h"

bool tier_is_paused(const struct store_tier *t)
{
	return t->failures >= TIER_PAUSE_AFTER && clock_ns() < t->paused_until;
}

char *tier_uri(const struct store_tier *t, struct tier_object o)
{
	size_t size = strlen(t->prefix) + TIER_URI_BYTES;
	char *uri = malloc(size);

	if (uri)
		snprintf(uri, size, "%s%016" PRIx64 "/%016" PRIx64 "%016" PRIx64 "-%" PRIx64,
			 t->prefix, o.run, o.hash.a, o.hash.b, o.gen);
	return uri;
}

struct tier_object tier_object_of(const struct store_tier *t, const struct store_entry *e)
{
	return (struct tier_object){e->hash, e->gen, t->runs[e->recent]};
}

/* With @lock: how a request went. */
void tier_count_result(struct store_tier *t, int code)
{
	t->failures = code ? t->failures + 1 : 0;
	t->store->stats.below_errors += code != 0;
	if (t->failures >= TIER_PAUSE_AFTER)
		t->paused_until = clock_ns() + TIER_PAUSE_NS;
}

/* ------------------------------------------------------------- what is below */

/* With @lock.  One that cannot be remembered is found by the next run. */
void tier_queue_delete(struct store_tier *t, struct tier_object o)
{
	if (ARRAY_RESERVE(t->deletes, t->deletes_capacity, t->nr_deletes + 1) == 0)
		t->deletes[t->nr_deletes++] = o;
	pthread_cond_signal(&t->work_put);
}

void tier_add(struct store_tier *t, struct store_entry *e)
{
	struct store_entry *old;

	e->state = STORE_LIVE;
	store_policy_add(&t->policy, &t->index, e);
	t->bytes += e->len;
	t->store->stats.below_entries++;
	while (t->bytes > t->limit && (old = store_policy_victim(&t->policy, &t->index)))
		tier_drop(t, old);
	t->store->stats.below_bytes = t->bytes;
}

void tier_remove(struct store_tier *t, struct store_entry *e)
{
	store_policy_remove(&t->policy, &t->index, e);
	store_index_remove(&t->index, e);
	if (e->state == STORE_LIVE) {
		t->bytes -= e->len;
		t->store->stats.below_entries--;
		t->store->stats.below_bytes = t->bytes;
	}
	store_index_free(&t->index, e);
}

void tier_drop(struct store_tier *t, struct store_entry *e)
{
	if (e->state == STORE_LIVE) {
		tier_queue_delete(t, tier_object_of(t, e));
		tier_write_drop(t, e);
	}
	tier_remove(t, e);
}

/* With @lock: one that can be had. */
static struct store_entry *tier_find(struct store_tier *t, struct store_hash h)
{
	struct store_entry *e = t ? store_index_find(&t->index, h) : NULL;

	if (!e || e->state != STORE_LIVE || tier_is_paused(t))
		return NULL;
	if (e->expiry && e->expiry <= store_now(t->store)) {
		tier_drop(t, e);
		return NULL;
	}
	return e;
}

int64_t store_tier_len(struct penstock_store *s, struct store_hash h)
{
	const struct store_entry *e = tier_find(s->tier, h);

	return e ? (int64_t)e->len : -ENOENT;
}

bool store_tier_forget(struct penstock_store *s, struct store_hash h)
{
	struct store_entry *e = s->tier ? store_index_find(&s->tier->index, h) : NULL;

	if (e)
		tier_drop(s->tier, e);
	return e;
}

void store_tier_clear(struct penstock_store *s)
{
	struct store_entry *e;
	uint32_t pos = 0;

	/* No record is taken back by itself: the logs are cut. */
	for (unsigned i = 0; i < s->nr_dirs; i++)
		store_tier_drop_records(&s->dirs[i], true);
	while (s->tier && (e = store_index_next(&s->tier->index, &pos)))
		tier_drop(s->tier, e);
}

uint64_t store_tier_index_bytes(const struct penstock_store *s)
{
	const struct store_tier *t = s->tier;

	return t ? store_index_bytes(&t->index) + store_policy_bytes(&t->policy) : 0;
}

const struct store_entry *store_tier_find(const struct penstock_store *s, struct store_hash h)
{
	return s->tier ? store_index_find(&s->tier->index, h) : NULL;
}

bool store_tier_has(struct penstock_store *s, struct store_hash h, uint64_t gen)
{
	const struct store_entry *e = store_tier_find(s, h);

	return e && e->gen == gen;
}

/* ------------------------------------------------------------------------ up */

bool store_tier_queue_fetch(struct penstock_store *s, struct store_op *op)
{
	struct store_tier *t = s->tier;
	const struct store_entry *e = op->promoted ? NULL : tier_find(t, op->hash);

	if (!e || e->len > op->len || t->nr_fetches == TIER_FETCHES)
		return false;
	op->promoted = true; /* once */
	t->nr_fetches++;
	store_op_queue_push(&t->fetches, op);
	pthread_cond_signal(&t->work_fetch);
	return true;
}

/* A value on its way up, and the get that waits for it. */
struct promotion {
	struct penstock_store *store;
	struct store_op *op;
	void *buf;
	struct penstock_iov iov;
};

/* It is set, or not: what the get finds now is what it gets. */
static void promotion_done(void *arg, const struct penstock_store_done *done)
{
	struct promotion *c = arg;

	(void)done;
	penstock_buf_free(c->store->io, c->buf);
	store_queue_op(c->store, c->op);
	free(c);
}

/* The value of @e, a copy, verified.  0 or -errno. */
static int tier_fetch(struct store_tier *t, const struct store_op *op, const struct store_entry *e,
		      char *uri, void *buf)
{
	struct penstock_err err = {0, ""};
	int64_t n = -ENOMEM;
	uint32_t crc;

	if (uri)
		n = penstock_s3_read(t->client, uri, buf, e->len, 0, NULL, &err);
	crc = penstock_crc32c(0, op->key, op->key_len);
	if (n >= 0 && (n != (int64_t)e->len || penstock_crc32c(crc, buf, e->len) != e->crc)) {
		n = -EBADMSG;
		penstock_print_elided(err.msg, sizeof(err.msg), "a value is not what was written");
	}
	if (n < 0)
		store_report_error(t->store, (int)n, uri ? uri : "", e->len, err.msg);
	return n < 0 ? (int)n : 0;
}

/* Set it, unless another one is set meanwhile; then the get goes on. */
static int submit_promotion(struct store_tier *t, struct store_op *op, const struct store_entry *e,
			    void *buf)
{
	struct penstock_store *s = t->store;
	uint64_t now = store_now(s);
	struct penstock_store_item item = {op->key, op->key_len, 1, NULL};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_SET, .nr = 1, .items = &item};
	struct promotion *c = malloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct promotion){s, op, buf, {buf, e->len}};
	item.iov = &c->iov;
	b.memory = PENSTOCK_MEMORY_HOST;
	b.ttl_s = !e->expiry ? 0 : e->expiry > now ? (uint32_t)(e->expiry - now) : 1;
	b.on_done = promotion_done;
	b.arg = c;
	if (store_submit_promotion(s, &b, e->gen) == 0)
		return 0;
	free(c);
	return -ENOMEM;
}

static void promote(struct store_tier *t, struct store_op *op)
{
	struct penstock_store *s = t->store;
	struct store_entry copy = {0}, *e = NULL;
	CLEANUP_FREE char *uri = NULL;
	void *buf = NULL;
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	/* Another may have asked for it, too, and it is there by now. */
	if (!store_op_has_result(op) && !store_index_find(&s->index, op->hash))
		e = tier_find(t, op->hash);
	if (e) {
		copy = *e;
		uri = tier_uri(t, tier_object_of(t, e));
	}
	store_unlock(s);
	if (e)
		r = penstock_buf_alloc(&buf, s->io, align_up(copy.len, STORE_UNIT), 0, NULL, NULL);
	if (e && r == 0)
		r = tier_fetch(t, op, &copy, uri, buf);
	pthread_mutex_lock(&s->lock);
	if (e)
		tier_count_result(t, r == -EBADMSG || r == -ENOENT ? 0 : r);
	s->stats.corrupt += e && r == -EBADMSG;
	if (e && (r == -EBADMSG || r == -ENOENT) && store_tier_has(s, copy.hash, copy.gen))
		store_tier_forget(s, copy.hash);
	store_unlock(s);
	if (r == 0 && submit_promotion(t, op, &copy, buf) == 0)
		return;
	penstock_buf_free(s->io, buf);
	store_queue_op(s, op);
}

static void *tier_fetch_run(void *arg)
{
	struct store_tier *t = arg;
	struct penstock_store *s = t->store;
	struct store_op *op;

	pthread_mutex_lock(&s->lock);
	while (!t->stop) {
		op = store_op_queue_pop(&t->fetches);
		if (!op) {
			pthread_cond_wait(&t->work_fetch, &s->lock);
			continue;
		}
		t->nr_fetches--;
		store_unlock(s);
		promote(t, op);
		pthread_mutex_lock(&s->lock);
	}
	store_unlock(s);
	return NULL;
}

/* ------------------------------------------------------------ opening, closing */

static int make_prefix(struct store_tier *t, const char *uri)
{
	struct penstock_store *s = t->store;
	size_t n = strlen(uri);

	while (n && uri[n - 1] == '/')
		n--;
	if (asprintf(&t->prefix, "%.*s/%016" PRIx64 "/", (int)n, uri,
		     store_hash_key(&s->secret, "below", 5).a) < 0) {
		t->prefix = NULL;
		return -ENOMEM;
	}
	if (ARRAY_RESERVE(t->runs, t->runs_capacity, 1) < 0)
		return -ENOMEM;
	t->runs[t->nr_runs++] = store_next_epoch(0);
	return 0;
}

/* A name that cannot be is refused here; whether the bucket is there nobody waits for. */
static int check_uri(struct store_tier *t, const char *uri, struct penstock_err *err)
{
	struct penstock_s3_list *list = NULL;
	int r = penstock_s3_list_open(&list, t->client, uri, 0, err);

	penstock_s3_list_close(list);
	return r;
}

/* A cache does not wait long: a value that does not come soon is computed again. */
static int open_client(struct store_tier *t, struct penstock_err *err)
{
	struct penstock_s3_opts o = PENSTOCK_S3_OPTS_INIT;

	if (t->store->opts.s3)
		o = *t->store->opts.s3;
	o.attempts = o.attempts ? o.attempts : 2;
	o.timeout_ms = o.timeout_ms ? o.timeout_ms : 10000;
	o.stall_ms = o.stall_ms ? o.stall_ms : 5000;
	return penstock_s3_open(&t->client, &o, err);
}

int store_tier_init(struct penstock_store *s, const char *uri, struct penstock_err *err)
{
	struct store_tier *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return penstock_fail(err, -ENOMEM, "out of memory");
	t->store = s;
	t->limit = s->opts.below_bytes ? s->opts.below_bytes : 10 * s->capacity;
	pthread_cond_init(&t->work_read, NULL);
	pthread_cond_init(&t->work_put, NULL);
	pthread_cond_init(&t->work_fetch, NULL);
	store_op_queue_init(&t->fetches);
	r = store_index_init(&t->index);
	if (r < 0) {
		free(t);
		return penstock_fail(err, r, "out of memory");
	}
	s->tier = t;
	r = store_policy_init(&t->policy, PENSTOCK_STORE_LRU);
	if (r == 0)
		r = make_prefix(t, uri);
	if (r < 0)
		return penstock_fail(err, r, "out of memory");
	r = open_client(t, err);
	return r < 0 ? r : check_uri(t, uri, err);
}

int store_tier_start(struct penstock_store *s, struct penstock_err *err)
{
	static void *(*const run[])(void *arg) = {tier_read_run, tier_put_run, tier_sweep_run};
	struct store_tier *t = s->tier;
	int r = 0;

	if (!t)
		return 0;
	for (unsigned n; r == 0 && (n = t->nr_threads) < ARRAY_SIZE(t->threads);) {
		r = thread_start(&t->threads[n], n < ARRAY_SIZE(run) ? run[n] : tier_fetch_run, t);
		t->nr_threads += r == 0;
	}
	return r < 0 ? penstock_fail(err, r, "no thread: %s", strerror(-r)) : 0;
}

void store_tier_stop(struct penstock_store *s)
{
	struct store_tier *t = s->tier;

	if (!t)
		return;
	pthread_mutex_lock(&s->lock);
	t->stop = true;
	pthread_cond_signal(&t->work_read);
	pthread_cond_signal(&t->work_put);
	pthread_cond_broadcast(&t->work_fetch);
	store_unlock(s);
	while (t->nr_threads)
		pthread_join(t->threads[--t->nr_threads], NULL);
	tier_drop_jobs(t);
	penstock_s3_close(t->client);
	t->client = NULL;
}

void store_tier_fini(struct penstock_store *s)
{
	struct store_tier *t = s->tier;

	if (!t)
		return;
	store_index_fini(&t->index);
	store_policy_fini(&t->policy);
	pthread_cond_destroy(&t->work_read);
	pthread_cond_destroy(&t->work_put);
	pthread_cond_destroy(&t->work_fetch);
	free(t->deletes);
	free(t->runs);
	free(t->prefix);
	free(t);
	s->tier = NULL;
}
