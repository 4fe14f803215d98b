/* SPDX-License-Identifier: Apache-2.0 */
#include "file/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { PARTS_IN_FLIGHT = 8 };

/* ---------------------------------------------------------------------- opening */

static int check_flags(const char *uri, int oflags, struct penstock_err *err)
{
	int access = oflags & O_ACCMODE;

	if (access == O_RDWR)
		return penstock_fail(err, -EINVAL, "%s: an object is read or written, not both",
				     uri);
	if (access == O_WRONLY && !(oflags & (O_TRUNC | O_EXCL)))
		return penstock_fail(
			err, -EINVAL,
			"%s: an object is written as a whole: it has to be opened with "
			"O_TRUNC or O_EXCL",
			uri);
	return 0;
}

/* What is there now. */
static int load_etag_and_size(struct penstock_object_file *f, struct penstock_err *err)
{
	struct penstock_s3_info info = {.size = sizeof(info)};
	int r = penstock_s3_stat(f->c, f->uri, &info, err);

	if (r < 0)
		return r;
	memcpy(f->etag, info.etag, sizeof(f->etag));
	f->size = f->size_at_open = info.bytes;
	return 0;
}

static void *upload_main(void *arg);

static int begin_upload(struct penstock_object_file *f, int oflags, struct penstock_err *err)
{
	struct penstock_s3_upload_opts o = PENSTOCK_S3_UPLOAD_OPTS_INIT;
	int r;

	o.in_flight = PARTS_IN_FLIGHT;
	o.flags = oflags & O_EXCL ? PENSTOCK_S3_NEW : 0;
	r = penstock_s3_upload_open(&f->upload, f->c, f->uri, &o, err);
	if (r < 0)
		return r;
	r = thread_start(&f->thread, upload_main, f);
	if (r == 0)
		return 0;
	penstock_s3_upload_abort(TAKE_PTR(f->upload));
	return penstock_fail(err, r, "%s: cannot start a thread: %s", f->uri, penstock_strerror(r));
}

static void object_file_free(struct penstock_object_file *f)
{
	pthread_cond_destroy(&f->cond);
	pthread_mutex_destroy(&f->lock);
	free(f->uri);
	free(f);
}

static int open_checked(struct penstock_object_file *f, int oflags, bool lazy,
			struct penstock_err *err)
{
	struct object_name name;
	int r = object_name_parse(&name, f->uri, true, err);

	object_name_free(&name);
	if (r == 0)
		r = check_flags(f->uri, oflags, err);
	/* What is to be written need not be there, unless that was asked for. */
	if (r == 0 && !lazy && (!f->writes || !(oflags & O_CREAT)))
		r = load_etag_and_size(f, err);
	return r == 0 && f->writes ? begin_upload(f, oflags, err) : r;
}

int penstock_object_file_open(struct penstock_object_file **out, struct penstock_s3 *c,
			      const char *uri, int oflags, bool lazy, struct penstock_err *err)
{
	struct penstock_object_file *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return penstock_fail(err, -ENOMEM, "out of memory");
	f->c = c;
	f->uri = strdup(uri);
	f->writes = (oflags & O_ACCMODE) != O_RDONLY;
	f->size = f->size_at_open = UINT64_MAX;
	f->last = &f->first;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->cond, NULL);
	r = f->uri ? open_checked(f, oflags, lazy, err)
		   : penstock_fail(err, -ENOMEM, "out of memory");
	if (r < 0)
		object_file_free(f);
	else
		*out = f;
	return r;
}

int64_t penstock_object_file_size(struct penstock_object_file *f)
{
	int64_t size;

	if (!f->writes)
		return f->size_at_open == UINT64_MAX ? -ESPIPE : (int64_t)f->size_at_open;
	pthread_mutex_lock(&f->lock);
	size = (int64_t)f->announced;
	pthread_mutex_unlock(&f->lock);
	return size;
}

/* ---------------------------------------------------------------------- reading */

/* The ranges in flight with this one may have reported its ETag. */
static void set_if_match(struct object_req *q)
{
	const struct penstock_object_file_req *r = q->arg;

	if (!q->etag[0])
		memcpy(q->etag, r->file->etag, sizeof(q->etag));
}

/* Where two answers are of two objects, what was read is neither. */
static int check_same_object(struct penstock_object_file *f, const struct object_req *q,
			     struct penstock_err *err)
{
	const struct http_response *head = &q->http.response;
	uint64_t total = head->status == 200 ? head->length : head->range_total;
	bool other = head->etag[0] && f->etag[0] && strcmp(head->etag, f->etag) != 0;

	if (!q->have)
		return 0;
	other = other || (total != UINT64_MAX && f->size != UINT64_MAX && total != f->size);
	if (other)
		return penstock_fail(err, -ESTALE,
				     "%s: read: it was replaced: its ETag or size is another",
				     f->uri);
	if (!f->etag[0])
		memcpy(f->etag, head->etag, sizeof(f->etag));
	if (total != UINT64_MAX)
		f->size = total;
	return 0;
}

static void read_done(struct object_req *q)
{
	struct penstock_object_file_req *r = q->arg;
	int code = q->code;

	r->err = q->err;
	if (code == 0)
		code = check_same_object(r->file, q, &r->err);
	if (code == -ESTALE || code == -ENOENT)
		atomic_store(&r->file->stale, true);
	r->res = code < 0 ? code : (int64_t)q->have;
	object_req_fini(q);
	r->done(r);
}

/* Memory in pieces: straight from the transport's buffer to where the bytes belong. */
static void read_scatter(struct http_req *h, const void *data, size_t len)
{
	const struct object_req *q = container_of(h, struct object_req, http);
	const struct penstock_object_file_req *r = q->arg;
	const struct penstock_iov *iov = r->iov;
	uint64_t at = r->skip + q->have + h->got;
	const char *from = data;

	for (; len; iov++) {
		uint64_t step = at < iov->len ? min_u64(len, iov->len - at) : 0;

		if (step)
			memcpy((char *)iov->addr + at, from, step);
		at = at < iov->len ? 0 : at - iov->len;
		from += step;
		len -= step;
	}
}

static void read_start(struct penstock_object_file_req *r)
{
	struct penstock_object_file *f = r->file;
	struct object_req *q = &r->http;
	uint64_t len = r->len;
	int code;

	if (f->size_at_open != UINT64_MAX)
		len = r->offset < f->size_at_open ? min_u64(len, f->size_at_open - r->offset) : 0;
	if (!len) {
		r->res = 0;
		r->done(r);
		return;
	}
	code = object_req_init(q, f->c, HTTP_GET, "read", f->uri, true, &r->err);
	if (code < 0) {
		object_req_fini(q);
		r->res = code;
		r->done(r);
		return;
	}
	q->ranged = true;
	q->at = r->offset;
	q->len = len;
	/* Of an object that is asked for whole the store tells the checksum. */
	q->try_unranged = !r->offset && len == f->size_at_open && len <= f->c->opts.part;
	if (r->iov->len - r->skip >= len)
		q->into = (unsigned char *)r->iov->addr + r->skip;
	else
		q->http.sink = read_scatter;
	q->must_not_wait = true;
	q->prepare = set_if_match;
	q->done = read_done;
	q->arg = r;
	if (f->c->opts.checksum != PENSTOCK_S3_CHECKSUM_NONE)
		object_req_header(q, "x-amz-checksum-mode", "ENABLED");
	object_req_start(q);
}

/* ---------------------------------------------------------------------- writing */

static int report_first_error(struct penstock_object_file *f, struct penstock_err *err)
{
	return penstock_fail(err, f->err.code, "%s", f->err.msg);
}

int penstock_object_file_announce_write(struct penstock_object_file *f, uint64_t off, uint64_t len,
					struct penstock_err *err)
{
	int r = 0;

	pthread_mutex_lock(&f->lock);
	if (f->err.code < 0)
		r = report_first_error(f, err);
	else if (off != f->announced)
		r = penstock_fail(
			err, -EINVAL,
			"write %s: offset %" PRIu64
			": an object is written from its beginning to its end, and %" PRIu64
			" is next",
			f->uri, off, f->announced);
	else
		f->announced += len;
	pthread_mutex_unlock(&f->lock);
	return r;
}

void penstock_object_file_fail(struct penstock_object_file *f, int code, const char *why)
{
	pthread_mutex_lock(&f->lock);
	if (f->err.code == 0)
		penstock_fail(&f->err, code, "%s: write: %s", f->uri, why);
	atomic_store(&f->failed, true);
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* Whose turn it is: the next bytes; after a failure anybody's; the end comes last.  Locked. */
static struct penstock_object_file_req *next_request(struct penstock_object_file *f)
{
	struct penstock_object_file_req **at = &f->first, *r;

	while ((r = *at) && r->kind == OBJECT_FILE_WRITE && r->offset != f->written &&
	       f->err.code == 0)
		at = &r->next;
	if (!r)
		return NULL;
	*at = r->next;
	if (!*at)
		f->last = at;
	return r;
}

static int write_block(struct penstock_object_file *f, struct penstock_object_file_req *r)
{
	const struct penstock_iov *iov = r->iov;
	uint64_t skip = r->skip, left = r->len;
	int code = 0;

	for (; left && code == 0; iov++) {
		uint64_t step = skip < iov->len ? min_u64(left, iov->len - skip) : 0;

		code = penstock_s3_upload_write(f->upload, (const char *)iov->addr + skip, step,
						&r->err);
		skip = 0;
		left -= step;
	}
	return code;
}

static int end_upload(struct penstock_object_file *f, bool commit, struct penstock_err *err)
{
	int code = 0;

	f->upload_ended = true;
	if (commit)
		code = penstock_s3_upload_commit(TAKE_PTR(f->upload), NULL, err);
	else
		penstock_s3_upload_abort(TAKE_PTR(f->upload));
	return code;
}

static void run_request(struct penstock_object_file *f, struct penstock_object_file_req *r)
{
	bool failed = atomic_load(&f->failed);
	int code = 0;

	if (r->kind == OBJECT_FILE_WRITE)
		code = failed ? report_first_error(f, &r->err) : write_block(f, r);
	else
		code = end_upload(f, r->kind == OBJECT_FILE_COMMIT && !failed, &r->err);
	if (failed && r->kind == OBJECT_FILE_COMMIT)
		code = report_first_error(f, &r->err);
	pthread_mutex_lock(&f->lock);
	if (code == 0)
		f->written += r->kind == OBJECT_FILE_WRITE ? r->len : 0;
	else if (f->err.code == 0)
		f->err = r->err;
	if (code < 0)
		atomic_store(&f->failed, true);
	pthread_mutex_unlock(&f->lock);
	r->res = code < 0 ? code : (int64_t)r->len;
	r->done(r);
}

static void *upload_main(void *arg)
{
	struct penstock_object_file *f = arg;
	struct penstock_object_file_req *r;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		r = next_request(f);
		if (!r && f->stop)
			break;
		if (!r) {
			pthread_cond_wait(&f->cond, &f->lock);
			continue;
		}
		pthread_mutex_unlock(&f->lock);
		run_request(f, r);
		pthread_mutex_lock(&f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

void penstock_object_file_submit(struct penstock_object_file_req *r)
{
	struct penstock_object_file *f = r->file;

	if (r->kind == OBJECT_FILE_READ) {
		read_start(r);
		return;
	}
	pthread_mutex_lock(&f->lock);
	r->next = NULL;
	*f->last = r;
	f->last = &r->next;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* ----------------------------------------------------------------------- ending */

int penstock_object_file_close(struct penstock_object_file *f, bool commit,
			       struct penstock_err *err)
{
	int r = 0;

	if (f->writes) {
		pthread_mutex_lock(&f->lock);
		f->stop = true;
		pthread_cond_broadcast(&f->cond);
		pthread_mutex_unlock(&f->lock);
		pthread_join(f->thread, NULL);
		if (!f->upload_ended && commit && f->err.code < 0)
			r = report_first_error(f, err);
		if (!f->upload_ended) {
			int code = end_upload(f, commit && r == 0, r == 0 ? err : NULL);

			r = r < 0 ? r : code;
		}
	}
	object_file_free(f);
	return r;
}

void penstock_object_file_free_forked(struct penstock_object_file *f)
{
	free(f->uri);
	free(f);
}
