/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object store below the directories.  What must make room is pinned until one thread has read
 * it, and put by another; what a get asks for and only the object store has is fetched by a third,
 * set like any value, and then got.  The index of what is below is in memory alone: names hold the
 * run of the store, and what an earlier run has left is removed.
 *
 * Nobody but the last two waits for the object store.  Where the queue is full or the object store
 * has failed, what would go there is lost and what would come from there is a miss.
 */
#include "kvstore/tier.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/object.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

enum {
	JOBS = 64,      /* values on their way down */
	WANTED = 1024,  /* gets that wait */
	OUT_AFTER = 4,  /* failures in a row */
	SWEEP = 256,    /* objects deleted in one call */
	URI_BYTES = 64, /* behind the prefix */
};

#define OUT_NS    10000000000ull
#define JOB_BYTES (256ull << 20)

struct job {
	struct store_entry *from; /* pinned, until it is read */
	struct store_hash hash;
	uint64_t gen, len;
	void *buf; /* what was read */
	int code;
};

struct gone {
	struct store_hash hash;
	uint64_t gen;
};

struct store_tier {
	struct sluice_store *store;
	struct sluice_object *client;
	char *place, *prefix; /* URI of all runs, and of this one; both end with a slash */
	pthread_t threads[3];
	unsigned nr_threads;
	/* With the store's lock: */
	pthread_cond_t work_read, work_down, work_up;
	bool stop;
	struct store_index index;
	struct store_policy policy;
	uint64_t limit, bytes;
	struct job jobs[JOBS];
	unsigned first_job, nr_jobs; /* in a ring */
	unsigned nr_read;            /* of these, the first: only to be put */
	uint64_t job_bytes, unread;
	struct store_line wanted;
	unsigned nr_wanted;
	struct gone *gone; /* objects to delete */
	uint64_t nr_gone, gone_room;
	unsigned failures;
	uint64_t out_until;
};

static bool is_out(const struct store_tier *t)
{
	return t->failures >= OUT_AFTER && clock_ns() < t->out_until;
}

static char *uri_of(const struct store_tier *t, struct store_hash h, uint64_t gen)
{
	size_t size = strlen(t->prefix) + URI_BYTES;
	char *uri = malloc(size);

	if (uri)
		snprintf(uri, size, "%s%016" PRIx64 "%016" PRIx64 "-%" PRIx64, t->prefix, h.a, h.b,
			 gen);
	return uri;
}

/* With @lock: how a request went. */
static void tell_end(struct store_tier *t, int code)
{
	t->failures = code ? t->failures + 1 : 0;
	t->store->stats.below_errors += code != 0;
	if (t->failures >= OUT_AFTER)
		t->out_until = clock_ns() + OUT_NS;
}

/* ------------------------------------------------------------- what is below */

/* With @lock.  One that cannot be remembered is found by the next run. */
static void add_gone(struct store_tier *t, struct store_hash hash, uint64_t gen)
{
	if (ARRAY_ROOM(t->gone, t->gone_room, t->nr_gone + 1) == 0)
		t->gone[t->nr_gone++] = (struct gone){hash, gen};
	pthread_cond_signal(&t->work_down);
}

static void drop(struct store_tier *t, struct store_entry *e)
{
	store_policy_remove(&t->policy, &t->index, e);
	store_index_remove(&t->index, e);
	if (e->state == STORE_LIVE) {
		t->bytes -= e->len;
		t->store->stats.below_entries--;
		t->store->stats.below_bytes = t->bytes;
		add_gone(t, e->hash, e->gen);
	}
	store_index_free(&t->index, e);
}

/* With @lock: one that can be had. */
static struct store_entry *find(struct store_tier *t, struct store_hash h)
{
	struct store_entry *e = t ? store_index_find(&t->index, h) : NULL;

	if (!e || e->state != STORE_LIVE || is_out(t))
		return NULL;
	if (e->expiry && e->expiry <= store_now(t->store)) {
		drop(t, e);
		return NULL;
	}
	return e;
}

int64_t store_tier_len(struct sluice_store *s, struct store_hash h)
{
	const struct store_entry *e = find(s->tier, h);

	return e ? (int64_t)e->len : -ENOENT;
}

bool store_tier_forget(struct sluice_store *s, struct store_hash h)
{
	struct store_entry *e = s->tier ? store_index_find(&s->tier->index, h) : NULL;

	if (e)
		drop(s->tier, e);
	return e;
}

bool store_tier_has(struct sluice_store *s, struct store_hash h, uint64_t gen)
{
	const struct store_entry *e = s->tier ? store_index_find(&s->tier->index, h) : NULL;

	return e && e->gen == gen;
}

/* ---------------------------------------------------------------------- down */

void store_tier_demote(struct sluice_store *s, struct store_entry *e)
{
	struct store_tier *t = s->tier;
	struct store_entry *b;

	if (!t || !e->len || (e->expiry && e->expiry <= store_now(s)))
		return;
	/* What waits takes space that sets want: not more than an eighth of it. */
	if (t->nr_jobs == JOBS || is_out(t) ||
	    t->job_bytes + e->len > min_u64(JOB_BYTES, s->capacity / 8)) {
		s->stats.demotions_lost++;
		return;
	}
	store_tier_forget(s, e->hash);
	b = store_index_new(&t->index);
	if (!b)
		return;
	b->hash = e->hash;
	b->gen = e->gen;
	b->len = e->len;
	b->crc = e->crc;
	b->expiry = e->expiry;
	b->state = STORE_WRITING;
	if (store_index_add(&t->index, b) < 0) {
		store_index_free(&t->index, b);
		return;
	}
	store_entry_pin(s, e);
	t->jobs[(t->first_job + t->nr_jobs++) % JOBS] =
		(struct job){.from = e, .hash = e->hash, .gen = e->gen, .len = e->len};
	t->job_bytes += e->len;
	t->unread += e->len;
	pthread_cond_signal(&t->work_read);
}

uint64_t store_tier_unread(const struct sluice_store *s)
{
	return s->tier ? s->tier->unread : 0;
}

/* The value of an entry that is pinned. */
static int read_value(struct sluice_store *s, const struct store_entry *e, unsigned char *to)
{
	struct sluice_file *file = s->shelves[e->shelf].data;
	uint64_t at = 0;

	for (uint32_t i = 0; i < e->space.nr && at < e->len; i++) {
		const struct extent *p = extents_at(&e->space, i);
		uint64_t n = min_u64(e->len - at, (uint64_t)p->count * STORE_UNIT);
		int64_t r = sluice_pread(file, to + at, n, (uint64_t)p->start * STORE_UNIT, NULL);

		if (r != (int64_t)n)
			return r < 0 ? (int)r : -EIO;
		at += n;
	}
	return 0;
}

/* With @lock: it is there now, unless it is out of date already. */
static void put_end(struct store_tier *t, const struct job *job, int code)
{
	struct sluice_store *s = t->store;
	struct store_entry *e = store_index_find(&t->index, job->hash), *old;

	tell_end(t, code);
	if (!e || e->gen != job->gen) {
		if (code == 0)
			add_gone(t, job->hash, job->gen);
		return;
	}
	if (code < 0) {
		s->stats.demotions_lost++;
		drop(t, e);
		return;
	}
	e->state = STORE_LIVE;
	store_policy_add(&t->policy, &t->index, e);
	t->bytes += e->len;
	s->stats.demoted++;
	s->stats.below_entries++;
	s->stats.below_bytes = t->bytes;
	while (t->bytes > t->limit && (old = store_policy_victim(&t->policy, &t->index)))
		drop(t, old);
}

static void put_one(struct store_tier *t, const struct job *job)
{
	struct sluice_store *s = t->store;
	char *uri = uri_of(t, job->hash, job->gen);
	struct sluice_err err = {0, ""};
	int r = uri ? job->code : -ENOMEM;

	if (r == 0)
		r = sluice_object_put(t->client, uri, job->buf, job->len, 0, NULL, NULL, &err);
	if (r < 0)
		store_tell(s, r, uri ? uri : "", job->len, err.msg);
	sluice_buf_free(s->io, job->buf);
	free(uri);
	pthread_mutex_lock(&s->lock);
	t->job_bytes -= job->len;
	put_end(t, job, r);
	pthread_mutex_unlock(&s->lock);
}

static void read_one(struct store_tier *t, struct job *job)
{
	struct sluice_store *s = t->store;

	job->code =
		sluice_buf_alloc(&job->buf, s->io, align_up(job->len, STORE_UNIT), 0, NULL, NULL);
	if (job->code == 0)
		job->code = read_value(s, job->from, job->buf);
}

/* Before the object store is asked: the space of the value is wanted. */
static void *run_read(void *arg)
{
	struct store_tier *t = arg;
	struct sluice_store *s = t->store;
	struct job *job;

	pthread_mutex_lock(&s->lock);
	while (!t->stop) {
		if (t->nr_read == t->nr_jobs) {
			pthread_cond_wait(&t->work_read, &s->lock);
			continue;
		}
		job = &t->jobs[(t->first_job + t->nr_read) %
			       JOBS]; /* stays there: it is not read */
		pthread_mutex_unlock(&s->lock);
		read_one(t, job);
		pthread_mutex_lock(&s->lock);
		t->unread -= job->len;
		t->nr_read++;
		store_entry_unpin(s, job->from);
		pthread_cond_signal(&t->work_down);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void delete_some(struct store_tier *t, char **uris, unsigned n)
{
	struct sluice_err err = {0, ""};
	int r = n ? sluice_object_delete(t->client, (const char *const *)uris, n, &err) : 0;

	if (r < 0)
		store_tell(t->store, r, t->prefix, n, err.msg);
	while (n)
		free(uris[--n]);
}

/* With @lock, which is let go meanwhile. */
static void delete_gone(struct store_tier *t)
{
	char *uris[SWEEP];
	unsigned n = 0;

	while (t->nr_gone && n < SWEEP) {
		const struct gone *g = &t->gone[--t->nr_gone];

		uris[n] = uri_of(t, g->hash, g->gen);
		n += uris[n] != NULL;
	}
	pthread_mutex_unlock(&t->store->lock);
	delete_some(t, uris, n);
	pthread_mutex_lock(&t->store->lock);
}

static bool stopped(struct store_tier *t)
{
	bool stop;

	pthread_mutex_lock(&t->store->lock);
	stop = t->stop;
	pthread_mutex_unlock(&t->store->lock);
	return stop;
}

/* What earlier runs of this store have left. */
static void sweep(struct store_tier *t)
{
	struct sluice_object_entry e = {.size = sizeof(e)};
	const char *bucket = t->place + strlen("s3://");
	size_t head = (size_t)(strchr(bucket, '/') - t->place) + 1, own = strlen(t->prefix) - head;
	struct sluice_object_list *list;
	struct sluice_err err = {0, ""};
	char *uris[SWEEP];
	unsigned n = 0;
	int r = sluice_object_list_open(&list, t->client, t->place, SLUICE_OBJECT_LIST_FLAT, &err);

	if (r < 0) {
		store_tell(t->store, r, t->place, 0, err.msg);
		return;
	}
	while (!stopped(t) && (r = sluice_object_list_next(list, &e, &err)) > 0) {
		if (!strncmp(e.key, t->prefix + head, own))
			continue;
		if (asprintf(&uris[n], "%.*s%s", (int)head, t->place, e.key) < 0)
			break;
		if (++n == SWEEP) {
			delete_some(t, uris, n);
			n = 0;
		}
	}
	if (r < 0)
		store_tell(t->store, r, t->place, 0, err.msg);
	delete_some(t, uris, n);
	sluice_object_list_close(list);
}

static void *run_down(void *arg)
{
	struct store_tier *t = arg;
	struct sluice_store *s = t->store;
	struct job job;

	sweep(t);
	pthread_mutex_lock(&s->lock);
	while (!t->stop) {
		if (t->nr_read) {
			job = t->jobs[t->first_job];
			t->first_job = (t->first_job + 1) % JOBS;
			t->nr_jobs--;
			t->nr_read--;
			pthread_mutex_unlock(&s->lock);
			put_one(t, &job);
			pthread_mutex_lock(&s->lock);
		} else if (t->nr_gone && !is_out(t)) {
			delete_gone(t);
		} else {
			pthread_cond_wait(&t->work_down, &s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* What is still on its way down stays where it is, and goes with the store. */
static void drop_jobs(struct store_tier *t)
{
	pthread_mutex_lock(&t->store->lock);
	for (; t->nr_jobs; t->nr_jobs--) {
		struct job *job = &t->jobs[t->first_job];

		if (t->nr_read)
			t->nr_read--;
		else
			store_entry_unpin(t->store, job->from);
		sluice_buf_free(t->store->io, job->buf);
		t->first_job = (t->first_job + 1) % JOBS;
	}
	pthread_mutex_unlock(&t->store->lock);
}

/* ------------------------------------------------------------------------ up */

bool store_tier_want(struct sluice_store *s, struct store_op *op)
{
	struct store_tier *t = s->tier;
	const struct store_entry *e = op->promoted ? NULL : find(t, op->hash);

	if (!e || e->len > op->len || t->nr_wanted == WANTED)
		return false;
	op->promoted = true; /* once */
	t->nr_wanted++;
	store_line_add(&t->wanted, op);
	pthread_cond_signal(&t->work_up);
	return true;
}

/* A value on its way up, and the get that waits for it. */
struct climb {
	struct sluice_store *store;
	struct store_op *op;
	void *buf;
	struct sluice_iov iov;
};

/* It is set, or not: what the get finds now is what it gets. */
static void climbed(void *arg, const struct sluice_store_done *done)
{
	struct climb *c = arg;

	(void)done;
	sluice_buf_free(c->store->io, c->buf);
	store_ready(c->store, c->op);
	free(c);
}

/* The value of @e, a copy, verified.  0 or -errno. */
static int fetch(struct store_tier *t, const struct store_op *op, const struct store_entry *e,
		 void *buf)
{
	char *uri = uri_of(t, e->hash, e->gen);
	struct sluice_err err = {0, ""};
	int64_t n = -ENOMEM;
	uint32_t crc;

	if (uri)
		n = sluice_object_read(t->client, uri, buf, e->len, 0, NULL, &err);
	crc = sluice_crc32c(0, op->key, op->key_len);
	if (n >= 0 && (n != (int64_t)e->len || sluice_crc32c(crc, buf, e->len) != e->crc)) {
		n = -EBADMSG;
		sluice_line(err.msg, sizeof(err.msg), "a value is not what was written");
	}
	if (n < 0)
		store_tell(t->store, (int)n, uri ? uri : "", e->len, err.msg);
	free(uri);
	return n < 0 ? (int)n : 0;
}

/* Set it, unless another one is set meanwhile; then the get goes on. */
static int climb(struct store_tier *t, struct store_op *op, const struct store_entry *e, void *buf)
{
	struct sluice_store *s = t->store;
	uint64_t now = store_now(s);
	struct sluice_store_item item = {op->key, op->key_len, 1, NULL};
	struct sluice_store_batch b = {.opcode = SLUICE_STORE_SET, .nr = 1, .items = &item};
	struct climb *c = malloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct climb){s, op, buf, {buf, e->len}};
	item.iov = &c->iov;
	b.memory = SLUICE_MEMORY_HOST;
	b.ttl_s = !e->expiry ? 0 : e->expiry > now ? (uint32_t)(e->expiry - now) : 1;
	b.on_done = climbed;
	b.arg = c;
	if (store_submit_promotion(s, &b, e->gen) == 0)
		return 0;
	free(c);
	return -ENOMEM;
}

static void fetch_one(struct store_tier *t, struct store_op *op)
{
	struct sluice_store *s = t->store;
	struct store_entry copy = {0}, *e;
	void *buf = NULL;
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	e = store_is_over(op) ? NULL : find(t, op->hash);
	if (e)
		copy = *e;
	pthread_mutex_unlock(&s->lock);
	if (e)
		r = sluice_buf_alloc(&buf, s->io, align_up(copy.len, STORE_UNIT), 0, NULL, NULL);
	if (e && r == 0)
		r = fetch(t, op, &copy, buf);
	pthread_mutex_lock(&s->lock);
	if (e)
		tell_end(t, r == -EBADMSG || r == -ENOENT ? 0 : r);
	s->stats.corrupt += e && r == -EBADMSG;
	if (e && (r == -EBADMSG || r == -ENOENT) && store_tier_has(s, copy.hash, copy.gen))
		store_tier_forget(s, copy.hash);
	pthread_mutex_unlock(&s->lock);
	if (r == 0 && climb(t, op, &copy, buf) == 0)
		return;
	sluice_buf_free(s->io, buf);
	store_ready(s, op);
}

static void *run_up(void *arg)
{
	struct store_tier *t = arg;
	struct sluice_store *s = t->store;
	struct store_op *op;

	pthread_mutex_lock(&s->lock);
	while (!t->stop) {
		op = store_line_next(&t->wanted);
		if (!op) {
			pthread_cond_wait(&t->work_up, &s->lock);
			continue;
		}
		t->nr_wanted--;
		pthread_mutex_unlock(&s->lock);
		fetch_one(t, op);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ------------------------------------------------------------ opening, closing */

static int names(struct store_tier *t, const char *uri)
{
	struct sluice_store *s = t->store;
	size_t n = strlen(uri);

	while (n && uri[n - 1] == '/')
		n--;
	if (asprintf(&t->place, "%.*s/%016" PRIx64 "/", (int)n, uri,
		     store_hash_key(&s->secret, "below", 5).a) < 0) {
		t->place = NULL;
		return -ENOMEM;
	}
	if (asprintf(&t->prefix, "%s%016" PRIx64 "/", t->place, store_next_epoch(0)) < 0) {
		t->prefix = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* A cache does not wait long: a value that does not come soon is computed again. */
static int open_client(struct store_tier *t, struct sluice_err *err)
{
	struct sluice_object_opts o = SLUICE_OBJECT_OPTS_INIT;

	if (t->store->opts.object)
		o = *t->store->opts.object;
	o.attempts = o.attempts ? o.attempts : 2;
	o.timeout_ms = o.timeout_ms ? o.timeout_ms : 10000;
	o.stall_ms = o.stall_ms ? o.stall_ms : 5000;
	return sluice_object_open(&t->client, &o, err);
}

int store_tier_open(struct sluice_store *s, const char *uri, struct sluice_err *err)
{
	static void *(*const run[])(void *arg) = {run_read, run_down, run_up};
	struct store_tier *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return sluice_fail(err, -ENOMEM, "out of memory");
	t->store = s;
	t->limit = s->opts.below ? s->opts.below : 10 * s->capacity;
	pthread_cond_init(&t->work_read, NULL);
	pthread_cond_init(&t->work_down, NULL);
	pthread_cond_init(&t->work_up, NULL);
	store_line_init(&t->wanted);
	r = store_index_init(&t->index);
	if (r < 0) {
		free(t);
		return sluice_fail(err, r, "out of memory");
	}
	s->tier = t;
	r = store_policy_init(&t->policy, SLUICE_STORE_LRU);
	if (r == 0)
		r = names(t, uri);
	if (r < 0)
		return sluice_fail(err, r, "out of memory");
	r = open_client(t, err);
	if (r < 0)
		return r;
	for (; r == 0 && t->nr_threads < ARRAY_SIZE(run); t->nr_threads += r == 0)
		r = thread_start(&t->threads[t->nr_threads], run[t->nr_threads], t);
	return r < 0 ? sluice_fail(err, r, "no thread: %s", strerror(-r)) : 0;
}

void store_tier_close(struct sluice_store *s)
{
	struct store_tier *t = s->tier;

	if (!t)
		return;
	pthread_mutex_lock(&s->lock);
	t->stop = true;
	pthread_cond_signal(&t->work_read);
	pthread_cond_signal(&t->work_down);
	pthread_cond_signal(&t->work_up);
	pthread_mutex_unlock(&s->lock);
	while (t->nr_threads)
		pthread_join(t->threads[--t->nr_threads], NULL);
	drop_jobs(t);
	sluice_object_close(t->client);
	store_index_fini(&t->index);
	store_policy_fini(&t->policy);
	pthread_cond_destroy(&t->work_read);
	pthread_cond_destroy(&t->work_down);
	pthread_cond_destroy(&t->work_up);
	free(t->gone);
	free(t->prefix);
	free(t->place);
	free(t);
	s->tier = NULL;
}
