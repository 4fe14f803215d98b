/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads.  The writer fills a buffer of one part; full, it is sent while the next is filled.
 * The upload begins at the store with the second part: what fits into one is a plain put at the
 * end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/optscopy.h"
#include "object/client.h"

/* What the store said of a part that it has. */
struct part {
	char etag[PENSTOCK_S3_ETAG];
	char checksum[24];
};

struct slot {
	struct object_req req;
	struct penstock_s3_upload *u;
	unsigned char *buf;
	unsigned part; /* from 0 on */
	struct object_checksum checksum;
	bool busy;
};

struct penstock_s3_upload {
	struct penstock_s3 *c;
	char *uri, *etag, *content_type, *id;
	uint32_t flags;
	uint64_t size; /* of a part */

	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct slot *slots;
	unsigned nr_slots, nr_busy;
	struct part *parts;
	unsigned nr_parts;
	struct penstock_err err; /* the first */

	struct slot *filling; /* NULL: none yet */
	uint64_t fill, total;
};

/* ---------------------------------------------------------------------- opening */

static int upload_size(struct penstock_s3_upload *u, const struct penstock_s3_upload_opts *o,
		       struct penstock_err *err)
{
	uint64_t mib = 1 << 20, least;

	u->size = o->part ? o->part : u->c->opts.part;
	if (u->size < OBJECT_PART_MIN || u->size > OBJECT_PART_MAX)
		return penstock_fail(err, -EINVAL, "part: %" PRIu64 " is outside 5 MiB..1 GiB",
				     u->size);
	least = (o->expected + OBJECT_PARTS - 1) / OBJECT_PARTS;
	if (least > u->size)
		u->size = (least + mib - 1) / mib * mib;
	if (u->size > OBJECT_PUT_MAX)
		return penstock_fail(err, -EFBIG, "expected: %" PRIu64 " bytes are too many",
				     o->expected);
	return 0;
}

static char *copy_or_null(const char *s, bool *failed)
{
	char *copy = s ? strdup(s) : NULL;

	*failed = *failed || (s && !copy);
	return copy;
}

static int upload_init(struct penstock_s3_upload *u, const char *uri,
		       const struct penstock_s3_upload_opts *o, struct penstock_err *err)
{
	struct object_name name;
	bool failed = false;
	int r = object_name_parse(&name, uri, true, err);

	object_name_free(&name);
	if (r < 0)
		return r;
	if (o->flags & ~PENSTOCK_S3_NEW)
		return penstock_fail(err, -EINVAL, "flags: 0x%x has bits that mean nothing",
				     o->flags);
	if (o->in_flight > 64)
		return penstock_fail(err, -EINVAL, "in_flight: %u is outside 1..64", o->in_flight);
	if (o->etag && strlen(o->etag) >= PENSTOCK_S3_ETAG)
		return penstock_fail(err, -EINVAL, "%s: '%.40s...' is no ETag", uri, o->etag);
	u->flags = o->flags;
	u->uri = copy_or_null(uri, &failed);
	u->etag = copy_or_null(o->etag, &failed);
	u->content_type = copy_or_null(o->content_type, &failed);
	u->nr_slots = o->in_flight ? o->in_flight : 4;
	u->slots = calloc(u->nr_slots, sizeof(*u->slots));
	if (failed || !u->slots)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return upload_size(u, o, err);
}

static void upload_free(struct penstock_s3_upload *u)
{
	for (unsigned i = 0; u->slots && i < u->nr_slots; i++)
		free(u->slots[i].buf);
	free(u->slots);
	free(u->parts);
	free(u->uri);
	free(u->etag);
	free(u->content_type);
	free(u->id);
	pthread_cond_destroy(&u->cond);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

int penstock_s3_upload_open(struct penstock_s3_upload **out, struct penstock_s3 *c, const char *uri,
			    const struct penstock_s3_upload_opts *opts, struct penstock_err *err)
{
	struct penstock_s3_upload_opts o;
	struct penstock_s3_upload *u;
	int r = penstock_opts_copy(&o, sizeof(o), opts, err);

	if (r < 0)
		return r;
	u = calloc(1, sizeof(*u));
	if (!u)
		return penstock_fail(err, -ENOMEM, "out of memory");
	u->c = c;
	pthread_mutex_init(&u->lock, NULL);
	pthread_cond_init(&u->cond, NULL);
	r = upload_init(u, uri, &o, err);
	if (r < 0)
		upload_free(u);
	else
		*out = u;
	return r;
}

/* ------------------------------------------------------------------------ parts */

/* The first stays. */
static int upload_fail(struct penstock_s3_upload *u, const struct penstock_err *why)
{
	pthread_mutex_lock(&u->lock);
	if (u->err.code == 0)
		u->err = *why;
	pthread_mutex_unlock(&u->lock);
	return u->err.code;
}

static void upload_part_done(struct object_req *r)
{
	struct slot *s = r->arg;
	struct penstock_s3_upload *u = s->u;
	struct part *p = &u->parts[s->part];

	if (r->code == 0 && !r->http.response.etag[0])
		r->code = penstock_fail(&r->err, -EBADMSG,
					"%s: upload: the store gave no ETag for part %u", u->uri,
					s->part + 1);
	if (r->code < 0)
		upload_fail(u, &r->err);
	pthread_mutex_lock(&u->lock);
	memcpy(p->etag, r->http.response.etag, sizeof(p->etag));
	memcpy(p->checksum, s->checksum.value, sizeof(p->checksum));
	object_req_fini(r);
	s->busy = false;
	u->nr_busy--;
	pthread_cond_broadcast(&u->cond);
	pthread_mutex_unlock(&u->lock);
}

/* Ask the store for an upload.  0 or -errno. */
static int upload_begin_parts(struct penstock_s3_upload *u, struct penstock_err *err)
{
	struct object_checksum checksum;
	struct object_req r;
	int code = object_req_init(&r, u->c, HTTP_POST, "upload", u->uri, true, err);

	r.query = strdup("uploads=");
	r.slow = true;
	if (object_checksum_names(&checksum, u->c))
		object_req_header(&r, "x-amz-checksum-algorithm", checksum.algorithm);
	if (u->c->opts.checksum == PENSTOCK_S3_CHECKSUM_CRC64NVME)
		object_req_header(&r, "x-amz-checksum-type", "FULL_OBJECT");
	if (u->content_type)
		object_req_header(&r, "content-type", u->content_type);
	if (code == 0 && !r.query)
		code = penstock_fail(err, -ENOMEM, "out of memory");
	if (code == 0)
		code = object_req_run(&r, err);
	if (code == 0) {
		u->id = object_response_element(r.http.text.s, r.http.text.len, "UploadId");
		if (!u->id || !*u->id)
			code = penstock_fail(err, -EBADMSG,
					     "%s: upload: the store gave no UploadId", u->uri);
	}
	object_req_fini(&r);
	return code;
}

static int part_query(char **query, const struct penstock_s3_upload *u, unsigned part)
{
	struct object_strbuf q = {0};

	object_strbuf_printf(&q, "partNumber=%u&uploadId=", part + 1);
	object_strbuf_add_encoded(&q, u->id, false);
	*query = q.s;
	return q.failed ? -ENOMEM : 0;
}

/* Send what the slot holds as the next part. */
static int part_send(struct penstock_s3_upload *u, struct slot *s, uint64_t len,
		     struct penstock_err *err)
{
	struct object_req *r = &s->req;
	int code;

	if (u->nr_parts == OBJECT_PARTS)
		return penstock_fail(err, -EFBIG,
				     "%s: upload: more than %d parts of %" PRIu64
				     " bytes; tell how much is expected",
				     u->uri, OBJECT_PARTS, u->size);
	if (!u->parts) {
		u->parts = calloc(OBJECT_PARTS, sizeof(*u->parts));
		if (!u->parts)
			return penstock_fail(err, -ENOMEM, "out of memory");
	}
	code = object_req_init(r, u->c, HTTP_PUT, "upload", u->uri, true, err);
	if (code == 0 && part_query(&r->query, u, u->nr_parts) < 0)
		code = penstock_fail(err, -ENOMEM, "out of memory");
	if (code < 0) {
		object_req_fini(r);
		return code;
	}
	r->http.body = s->buf;
	r->http.body_len = len;
	if (object_checksum_compute(&s->checksum, u->c, s->buf, len))
		object_req_header(r, s->checksum.header, s->checksum.value);
	r->done = upload_part_done;
	r->arg = s;
	s->u = u;
	s->part = u->nr_parts++;
	pthread_mutex_lock(&u->lock);
	s->busy = true;
	u->nr_busy++;
	pthread_mutex_unlock(&u->lock);
	object_req_start(r);
	return 0;
}

/* A slot to fill, with its buffer; NULL after an error.  Waits for one. */
static struct slot *wait_for_slot(struct penstock_s3_upload *u)
{
	struct slot *s = NULL;

	pthread_mutex_lock(&u->lock);
	while (u->nr_busy == u->nr_slots)
		pthread_cond_wait(&u->cond, &u->lock);
	for (unsigned i = 0; i < u->nr_slots && !s; i++)
		if (!u->slots[i].busy)
			s = &u->slots[i];
	pthread_mutex_unlock(&u->lock);
	if (!s->buf)
		s->buf = malloc(u->size);
	return s->buf ? s : NULL;
}

/* ---------------------------------------------------------------------- writing */

/* The part is full and more is to come. */
static int next_part(struct penstock_s3_upload *u, struct penstock_err *err)
{
	int r = u->id ? 0 : upload_begin_parts(u, err);

	if (r == 0)
		r = part_send(u, u->filling, u->fill, err);
	if (r == 0) {
		u->filling = NULL;
		u->fill = 0;
	}
	return r;
}

/* Room for at least one byte in u->filling. */
static int upload_reserve(struct penstock_s3_upload *u, struct penstock_err *err)
{
	int r = u->filling && u->fill == u->size ? next_part(u, err) : 0;

	if (r == 0 && !u->filling) {
		u->filling = wait_for_slot(u);
		if (!u->filling)
			r = penstock_fail(err, -ENOMEM, "out of memory");
	}
	return r;
}

static int first_error(struct penstock_s3_upload *u, struct penstock_err *err)
{
	int r;

	pthread_mutex_lock(&u->lock);
	r = u->err.code;
	if (r < 0)
		penstock_fail(err, r, "%s", u->err.msg);
	pthread_mutex_unlock(&u->lock);
	return r;
}

int penstock_s3_upload_write(struct penstock_s3_upload *u, const void *buf, uint64_t len,
			     struct penstock_err *err)
{
	const unsigned char *p = buf;
	struct penstock_err why;
	int r = first_error(u, err);

	while (len && r == 0) {
		uint64_t n;

		r = upload_reserve(u, &why);
		if (r < 0) {
			upload_fail(u, &why);
			return first_error(u, err);
		}
		n = min_u64(len, u->size - u->fill);
		memcpy(u->filling->buf + u->fill, p, n);
		u->fill += n;
		u->total += n;
		p += n;
		len -= n;
		r = first_error(u, err);
	}
	return r;
}

/* ----------------------------------------------------------------------- ending */

static void wait_for_parts(struct penstock_s3_upload *u)
{
	pthread_mutex_lock(&u->lock);
	while (u->nr_busy)
		pthread_cond_wait(&u->cond, &u->lock);
	pthread_mutex_unlock(&u->lock);
}

static void list_parts(struct object_strbuf *doc, const struct penstock_s3_upload *u)
{
	struct object_checksum checksum;
	bool has_checksums = object_checksum_names(&checksum, u->c);

	object_strbuf_put(doc, "<CompleteMultipartUpload "
			       "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (unsigned i = 0; i < u->nr_parts; i++) {
		object_strbuf_printf(doc, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
		object_strbuf_add_xml(doc, u->parts[i].etag);
		object_strbuf_put(doc, "</ETag>");
		if (has_checksums)
			object_strbuf_printf(doc, "<%s>%s</%s>", checksum.element,
					     u->parts[i].checksum, checksum.element);
		object_strbuf_put(doc, "</Part>");
	}
	object_strbuf_put(doc, "</CompleteMultipartUpload>");
}

/*
 * The answer to an attempt was lost, and the next said that there is no such upload: is the object
 * there, of our size and made of as many parts?
 */
static int verify_lost_commit(struct penstock_s3_upload *u, struct penstock_s3_info *info)
{
	struct penstock_s3_info there = {.size = sizeof(there)};
	char parts[16];
	size_t len, tail;

	if (penstock_s3_stat(u->c, u->uri, &there, NULL) < 0 || there.bytes != u->total)
		return -ENOENT;
	snprintf(parts, sizeof(parts), "-%u\"", u->nr_parts);
	len = strlen(there.etag);
	tail = strlen(parts);
	if (len < tail || strcmp(there.etag + len - tail, parts) != 0)
		return -ENOENT;
	if (info)
		object_struct_copy_out(info, &there, sizeof(there));
	return 0;
}

/* The request that makes an object of the parts in @doc.  0 or -errno. */
static int complete_request_init(struct object_req *r, struct penstock_s3_upload *u,
				 struct object_strbuf *doc, struct penstock_err *err)
{
	struct object_strbuf query = {0};
	int code = object_req_init(r, u->c, HTTP_POST, "commit", u->uri, true, err);

	object_strbuf_put(&query, "uploadId=");
	object_strbuf_add_encoded(&query, u->id, false);
	r->query = query.s;
	list_parts(doc, u);
	if (code < 0)
		return code;
	if (query.failed || doc->failed)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r->slow = true;
	r->http.body = doc->s;
	r->http.body_len = doc->len;
	object_sha256_hex(r->payload, doc->s, doc->len);
	r->is_new = u->flags & PENSTOCK_S3_NEW;
	if (u->etag)
		memcpy(r->etag, u->etag, strlen(u->etag) + 1);
	r->conditional = r->is_new || u->etag;
	return 0;
}

/*
 * Stores that know conditions of a put may not know those of a commit (radosgw 16) and say nothing:
 * what can be seen is looked at right before.
 */
static int check_condition(struct penstock_s3_upload *u, struct penstock_err *err)
{
	struct penstock_s3_info there = {.size = sizeof(there)};
	int r;

	if (!u->etag && !(u->flags & PENSTOCK_S3_NEW))
		return 0;
	r = penstock_s3_stat(u->c, u->uri, &there, err);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && u->flags & PENSTOCK_S3_NEW)
		return penstock_fail(err, -EEXIST, "%s: commit: it is there already", u->uri);
	if (u->etag && (r == -ENOENT || strcmp(u->etag, there.etag) != 0))
		return penstock_fail(err, -ESTALE,
				     "%s: commit: it was replaced: its ETag is another", u->uri);
	return 0;
}

/* The ETag of what was made, which is in the document of the answer; "" of servers that have none.
 */
static void take_etag(struct object_req *r)
{
	CLEANUP_FREE char *etag = object_response_element(r->http.text.s, r->http.text.len, "ETag");

	if (etag && !r->http.response.etag[0] && strlen(etag) < sizeof(r->http.response.etag))
		memcpy(r->http.response.etag, etag, strlen(etag) + 1);
}

static int complete_upload(struct penstock_s3_upload *u, struct penstock_s3_info *info,
			   struct penstock_err *err)
{
	struct object_strbuf doc = {0};
	struct object_req r;
	int code = complete_request_init(&r, u, &doc, err);

	if (code == 0)
		code = check_condition(u, err);
	if (code == 0)
		code = object_req_run(&r, err);
	if (code == -ENOENT && r.maybe_applied) {
		code = verify_lost_commit(u, info);
	} else if (code == 0) {
		take_etag(&r);
		object_info_fill(info, &r, u->total, NULL);
	}
	if (code == 0)
		free(TAKE_PTR(u->id));
	object_req_fini(&r);
	object_strbuf_fini(&doc);
	return code;
}

int penstock_s3_upload_commit(struct penstock_s3_upload *u, struct penstock_s3_info *info,
			      struct penstock_err *err)
{
	int r = first_error(u, err);

	if (r == 0 && u->id && u->filling)
		r = part_send(u, u->filling, u->fill, err);
	wait_for_parts(u);
	if (r == 0)
		r = first_error(u, err);
	if (r == 0 && u->id)
		r = complete_upload(u, info, err);
	else if (r == 0)
		r = object_put(u->c, u->uri, u->filling ? u->filling->buf : NULL, u->fill, u->flags,
			       u->etag, u->content_type, info, err);
	penstock_s3_upload_abort(u);
	return r;
}

void penstock_s3_upload_abort(struct penstock_s3_upload *u)
{
	if (!u)
		return;
	wait_for_parts(u);
	if (u->id)
		penstock_s3_upload_discard(u->c, u->uri, u->id, NULL);
	upload_free(u);
}
