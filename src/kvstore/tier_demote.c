/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way down to the object store: values that make room are read by one thread, which gives their
 * space back, and put by another, which also deletes what is out of date.  A third removes what
 * earlier runs have left, so that a long list of that holds up nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "kvstore/tier_internal.h"

void store_tier_demote(struct penstock_store *s, struct store_entry *e)
{
	struct store_tier *t = s->tier;
	struct store_entry *b;

	if (!t || !e->len || (e->expiry && e->expiry <= store_now(s)))
		return;
	/* What waits takes space that sets want: not more than an eighth of it. */
	if (t->nr_jobs == TIER_JOBS || tier_is_paused(t) ||
	    t->job_bytes + e->len > min_u64(TIER_JOB_BYTES, s->capacity / 8)) {
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
	b->dir = TIER_NO_LOG;
	b->recent = 0; /* this run's */
	if (store_index_add(&t->index, b) < 0) {
		store_index_free(&t->index, b);
		return;
	}
	store_entry_pin(s, e);
	t->jobs[(t->first_job + t->nr_jobs++) % TIER_JOBS] =
		(struct tier_job){.from = e, .hash = e->hash, .gen = e->gen, .len = e->len};
	t->job_bytes += e->len;
	t->unread += e->len;
	pthread_cond_signal(&t->work_read);
}

uint64_t store_tier_unread(const struct penstock_store *s)
{
	return s->tier ? s->tier->unread : 0;
}

/* The value of an entry that is pinned. */
static int read_value(struct penstock_store *s, const struct store_entry *e, unsigned char *to)
{
	struct penstock_file *file = s->dirs[e->dir].data;
	uint64_t at = 0;

	for (uint32_t i = 0; i < e->space.nr && at < e->len; i++) {
		const struct extent *p = extents_at(&e->space, i);
		uint64_t n = min_u64(e->len - at, (uint64_t)p->count * STORE_UNIT);
		int64_t r = penstock_pread(file, to + at, n, (uint64_t)p->start * STORE_UNIT, NULL);

		if (r != (int64_t)n)
			return r < 0 ? (int)r : -EIO;
		at += n;
	}
	return 0;
}

/* With @lock: it is there now, unless it is out of date already. */
static void put_end(struct store_tier *t, const struct tier_job *job, int code)
{
	struct penstock_store *s = t->store;
	struct store_entry *e = store_index_find(&t->index, job->hash);

	tier_count_result(t, code);
	if (!e || e->gen != job->gen) {
		if (code == 0)
			tier_queue_delete(t, (struct tier_object){job->hash, job->gen, t->runs[0]});
		return;
	}
	if (code < 0) {
		s->stats.demotions_lost++;
		tier_drop(t, e);
		return;
	}
	s->stats.demoted++;
	tier_write_record(t, e);
	tier_add(t, e);
}

static void put_object(struct store_tier *t, const struct tier_job *job)
{
	struct penstock_store *s = t->store;
	char *uri = tier_uri(t, (struct tier_object){job->hash, job->gen, t->runs[0]});
	struct penstock_err err = {0, ""};
	int r = uri ? job->code : -ENOMEM;

	if (r == 0)
		r = penstock_s3_put(t->client, uri, job->buf, job->len, 0, NULL, NULL, &err);
	if (r < 0)
		store_report_error(s, r, uri ? uri : "", job->len, err.msg);
	penstock_buf_free(s->io, job->buf);
	free(uri);
	pthread_mutex_lock(&s->lock);
	t->job_bytes -= job->len;
	put_end(t, job, r);
	store_unlock(s);
}

static void read_job(struct store_tier *t, struct tier_job *job)
{
	struct penstock_store *s = t->store;

	job->code =
		penstock_buf_alloc(&job->buf, s->io, align_up(job->len, STORE_UNIT), 0, NULL, NULL);
	if (job->code == 0)
		job->code = read_value(s, job->from, job->buf);
}

/* Before the object store is asked: the space of the value is wanted. */
void *tier_read_run(void *arg)
{
	struct store_tier *t = arg;
	struct penstock_store *s = t->store;
	struct tier_job *job;

	pthread_mutex_lock(&s->lock);
	while (!t->stop) {
		if (t->nr_read == t->nr_jobs) {
			pthread_cond_wait(&t->work_read, &s->lock);
			continue;
		}
		job = &t->jobs[(t->first_job + t->nr_read) %
			       TIER_JOBS]; /* stays there: it is not read */
		store_unlock(s);
		read_job(t, job);
		pthread_mutex_lock(&s->lock);
		t->unread -= job->len;
		t->nr_read++;
		store_entry_unpin(s, job->from);
		pthread_cond_signal(&t->work_put);
	}
	store_unlock(s);
	return NULL;
}

static void delete_some(struct store_tier *t, char **uris, unsigned n)
{
	struct penstock_err err = {0, ""};
	int r = n ? penstock_s3_delete(t->client, (const char *const *)uris, n, &err) : 0;

	if (r < 0)
		store_report_error(t->store, r, t->prefix, n, err.msg);
	while (n)
		free(uris[--n]);
}

/* With @lock, which is let go meanwhile. */
static void delete_queued(struct store_tier *t)
{
	char *uris[TIER_SWEEP];
	unsigned n = 0;

	while (t->nr_deletes && n < TIER_SWEEP) {
		uris[n] = tier_uri(t, t->deletes[--t->nr_deletes]);
		n += uris[n] != NULL;
	}
	store_unlock(t->store);
	delete_some(t, uris, n);
	pthread_mutex_lock(&t->store->lock);
}

static bool is_stopping(struct store_tier *t)
{
	bool stop;

	pthread_mutex_lock(&t->store->lock);
	stop = t->stop;
	store_unlock(t->store);
	return stop;
}

/* Is it of this run, or does a log know of it?  @name: behind the prefix. */
static bool is_known(struct store_tier *t, const char *name)
{
	struct tier_object o;
	const struct store_entry *e;
	bool known;

	if (sscanf(name, "%16" SCNx64 "/%16" SCNx64 "%16" SCNx64 "-%" SCNx64, &o.run, &o.hash.a,
		   &o.hash.b, &o.gen) != 4)
		return true; /* nothing of ours: it stays */
	pthread_mutex_lock(&t->store->lock);
	e = store_index_find(&t->index, o.hash);
	known = o.run == t->runs[0] || (e && e->gen == o.gen && tier_object_of(t, e).run == o.run);
	store_unlock(t->store);
	return known;
}

/* What earlier runs of this store have left, but for what is in the index. */
void *tier_sweep_run(void *arg)
{
	struct store_tier *t = arg;
	struct penstock_s3_entry e = {.size = sizeof(e)};
	const char *bucket = t->prefix + strlen("s3://");
	size_t head = (size_t)(strchr(bucket, '/') - t->prefix) + 1, own = strlen(t->prefix) - head;
	struct penstock_s3_list *list;
	struct penstock_err err = {0, ""};
	char *uris[TIER_SWEEP];
	unsigned n = 0;
	int r = penstock_s3_list_open(&list, t->client, t->prefix, PENSTOCK_S3_LIST_FLAT, &err);

	if (r < 0) {
		store_report_error(t->store, r, t->prefix, 0, err.msg);
		return NULL;
	}
	while (!is_stopping(t) && (r = penstock_s3_list_next(list, &e, &err)) > 0) {
		if (strncmp(e.key, t->prefix + head, own) || is_known(t, e.key + own))
			continue;
		if (asprintf(&uris[n], "%.*s%s", (int)head, t->prefix, e.key) < 0)
			break;
		if (++n == TIER_SWEEP) {
			delete_some(t, uris, n);
			n = 0;
		}
	}
	if (r < 0)
		store_report_error(t->store, r, t->prefix, 0, err.msg);
	delete_some(t, uris, n);
	penstock_s3_list_close(list);
	return NULL;
}

void *tier_put_run(void *arg)
{
	struct store_tier *t = arg;
	struct penstock_store *s = t->store;
	struct tier_job job;

	pthread_mutex_lock(&s->lock);
	while (!t->stop) {
		if (t->nr_read) {
			job = t->jobs[t->first_job];
			t->first_job = (t->first_job + 1) % TIER_JOBS;
			t->nr_jobs--;
			t->nr_read--;
			store_unlock(s);
			put_object(t, &job);
			pthread_mutex_lock(&s->lock);
		} else if (t->nr_deletes && !tier_is_paused(t)) {
			delete_queued(t);
		} else {
			pthread_cond_wait(&t->work_put, &s->lock);
		}
	}
	store_unlock(s);
	return NULL;
}

/* What is still on its way down stays where it is, and goes with the store. */
void tier_drop_jobs(struct store_tier *t)
{
	pthread_mutex_lock(&t->store->lock);
	for (; t->nr_jobs; t->nr_jobs--) {
		struct tier_job *job = &t->jobs[t->first_job];

		if (t->nr_read)
			t->nr_read--;
		else
			store_entry_unpin(t->store, job->from);
		penstock_buf_free(t->store->io, job->buf);
		t->first_job = (t->first_job + 1) % TIER_JOBS;
	}
	store_unlock(t->store);
}
