/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads: each is cut into ranges, all are handed to the transport at once, and what they brought is
 * put together at the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "object/client.h"

struct fetch;

/* One read of the caller's. */
struct read_job {
	struct fetch *f;
	struct penstock_s3_range *read;
	char etag[PENSTOCK_S3_ETAG]; /* of the object, once known; the transport's thread's */
	uint64_t total;              /* its size, UINT64_MAX: not known yet */
	bool replaced;
	struct object_req *parts;
	uint64_t nr;
};

struct fetch {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint64_t left; /* parts that have not ended */
};

/* Another range of the same object has told which one it is. */
static void part_prepare(struct object_req *r)
{
	const struct read_job *j = r->arg;

	if (!r->etag[0])
		memcpy(r->etag, j->etag, sizeof(r->etag));
}

/* Where two answers are of two objects, what was read is neither. */
static void read_note_object(struct read_job *j, const struct object_req *r)
{
	const struct http_response *response = &r->http.response;
	uint64_t total = response->status == 200 ? response->length : response->range_total;

	if (r->code < 0 || !r->have)
		return;
	if (response->etag[0] && j->etag[0] && strcmp(response->etag, j->etag) != 0)
		j->replaced = true;
	if (response->etag[0] && !j->etag[0])
		memcpy(j->etag, response->etag, sizeof(j->etag));
	if (j->total != UINT64_MAX && total != UINT64_MAX && total != j->total)
		j->replaced = true;
	if (total != UINT64_MAX)
		j->total = total;
}

static void read_part_done(struct object_req *r)
{
	struct read_job *j = r->arg;
	struct fetch *f = j->f;

	pthread_mutex_lock(&f->lock);
	read_note_object(j, r);
	if (--f->left == 0)
		pthread_cond_signal(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* ----------------------------------------------------------------------- cutting */

static int job_init(struct read_job *j, struct fetch *f, struct penstock_s3 *c,
		    struct penstock_s3_range *read, struct penstock_err *err)
{
	uint64_t part = c->opts.part;

	memset(j, 0, sizeof(*j));
	j->f = f;
	j->read = read;
	j->total = UINT64_MAX;
	if (read->etag && strlen(read->etag) >= sizeof(j->etag))
		return penstock_fail(err, -EINVAL, "%s: an ETag has fewer than %d characters",
				     read->uri, PENSTOCK_S3_ETAG);
	if (read->etag)
		memcpy(j->etag, read->etag, strlen(read->etag) + 1);
	if (read->len > INT64_MAX || read->offset > INT64_MAX - read->len)
		return penstock_fail(err, -EINVAL, "%s: offset and length are too large",
				     read->uri);
	j->parts = calloc(read->len / part + 1, sizeof(*j->parts));
	if (!j->parts)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (uint64_t at = 0; at < read->len; at += part) {
		struct object_req *r = &j->parts[j->nr];
		int code = object_req_init(r, c, HTTP_GET, "read", read->uri, true, err);

		j->nr++;
		if (code < 0)
			return code;
		r->ranged = true;
		r->at = read->offset + at;
		r->len = min_u64(part, read->len - at);
		r->into = (unsigned char *)read->buf + at;
		/* Who knows the ETag knows the size, and wants all of it more often than not. */
		r->try_unranged = read->etag && read->offset == 0 && read->len <= part;
		r->prepare = part_prepare;
		r->done = read_part_done;
		r->arg = j;
		if (c->opts.checksum != PENSTOCK_S3_CHECKSUM_NONE)
			object_req_header(r, "x-amz-checksum-mode", "ENABLED");
	}
	return 0;
}

static void job_fini(struct read_job *j)
{
	for (uint64_t i = 0; i < j->nr; i++)
		object_req_fini(&j->parts[i]);
	free(j->parts);
}

/* ---------------------------------------------------------------------- together */

/* Bytes, from the beginning on; -errno of the first range that failed. */
static int64_t job_result(const struct read_job *j, struct penstock_err *err)
{
	const struct penstock_s3_range *read = j->read;
	uint64_t sum = 0, want = read->len;

	for (uint64_t i = 0; i < j->nr; i++) {
		const struct object_req *r = &j->parts[i];

		if (r->code < 0)
			return penstock_fail(err, r->code, "%s", r->err.msg);
		sum += r->have;
	}
	if (j->total != UINT64_MAX)
		want = min_u64(want, j->total > read->offset ? j->total - read->offset : 0);
	else
		want = 0; /* not one byte came: all of it lies behind the end */
	if (j->replaced || sum != want)
		return penstock_fail(err, -ESTALE,
				     "%s: read: it was replaced: its ETag or size is another",
				     read->uri);
	return (int64_t)sum;
}

static int jobs_finish(struct read_job *jobs, uint64_t nr, struct penstock_err *err)
{
	struct penstock_err why;
	int first = 0;

	for (uint64_t i = 0; i < nr; i++) {
		struct penstock_s3_range *read = jobs[i].read;

		read->res = job_result(&jobs[i], &why);
		memcpy(read->got, jobs[i].etag, sizeof(read->got));
		if (read->res < 0 && first == 0)
			first = penstock_fail(err, (int)read->res, "%s", why.msg);
	}
	return first;
}

static void read_run_all(struct fetch *f, struct read_job *jobs, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		for (uint64_t k = 0; k < jobs[i].nr; k++)
			object_req_start(&jobs[i].parts[k]);
	pthread_mutex_lock(&f->lock);
	while (f->left)
		pthread_cond_wait(&f->cond, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

int penstock_s3_fetch(struct penstock_s3 *c, struct penstock_s3_range *reads, uint64_t n,
		      struct penstock_err *err)
{
	struct fetch f = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
	struct read_job *jobs = calloc(n ? n : 1, sizeof(*jobs));
	uint64_t made = 0;
	int r = 0;

	if (!jobs)
		return penstock_fail(err, -ENOMEM, "out of memory");
	while (made < n && r == 0) {
		reads[made].res = 0;
		reads[made].got[0] = 0;
		r = job_init(&jobs[made], &f, c, &reads[made], err);
		f.left += jobs[made].nr;
		made++;
	}
	if (r == 0) {
		read_run_all(&f, jobs, n);
		r = jobs_finish(jobs, n, err);
	}
	for (uint64_t i = 0; i < made; i++)
		job_fini(&jobs[i]);
	free(jobs);
	pthread_cond_destroy(&f.cond);
	pthread_mutex_destroy(&f.lock);
	return r;
}

int64_t penstock_s3_read(struct penstock_s3 *c, const char *uri, void *buf, uint64_t len,
			 uint64_t offset, const char *etag, struct penstock_err *err)
{
	struct penstock_s3_range read = {
		.uri = uri, .buf = buf, .len = len, .offset = offset, .etag = etag};
	int r = penstock_s3_fetch(c, &read, 1, err);

	return r < 0 ? r : read.res;
}
