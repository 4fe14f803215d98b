/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to one object with one request, or to many that are deleted together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/client.h"

static int64_t answer_time(const struct object_req *r)
{
	return object_parse_http_date(r->http.response.modified);
}

void object_info_fill(struct penstock_s3_info *user, const struct object_req *r, uint64_t bytes,
		      const struct object_checksum *checksum)
{
	struct penstock_s3_info info = {.bytes = bytes};

	if (!user)
		return;
	info.mtime = answer_time(r);
	memcpy(info.etag, r->http.response.etag, sizeof(info.etag));
	if (checksum && checksum->value[0])
		snprintf(info.checksum, sizeof(info.checksum), "%s:%s", object_checksum_name(r->c),
			 checksum->value);
	else if (r->http.response.crc32c[0])
		snprintf(info.checksum, sizeof(info.checksum), "crc32c:%s",
			 r->http.response.crc32c);
	else if (r->http.response.crc64nvme[0])
		snprintf(info.checksum, sizeof(info.checksum), "crc64nvme:%s",
			 r->http.response.crc64nvme);
	object_struct_copy_out(user, &info, sizeof(info));
}

int penstock_s3_stat(struct penstock_s3 *c, const char *uri, struct penstock_s3_info *info,
		     struct penstock_err *err)
{
	struct object_req r;
	int code = object_req_init(&r, c, HTTP_HEAD, "stat", uri, true, err);

	if (code == 0) {
		if (c->opts.checksum != PENSTOCK_S3_CHECKSUM_NONE)
			object_req_header(&r, "x-amz-checksum-mode", "ENABLED");
		code = object_req_run(&r, err);
	}
	if (code == 0 && !r.http.response.has_length)
		code = penstock_fail(err, -EBADMSG, "%s: stat: the answer tells no length", uri);
	if (code == 0)
		object_info_fill(info, &r, r.http.response.length, NULL);
	object_req_fini(&r);
	return code;
}

/* The server computed another one than we did, of what it has stored. */
static int compare_acknowledged_checksum(struct object_req *r,
					 const struct object_checksum *checksum,
					 struct penstock_err *err)
{
	const char *acknowledged = r->c->opts.checksum == PENSTOCK_S3_CHECKSUM_CRC64NVME
					   ? r->http.response.crc64nvme
					   : r->http.response.crc32c;

	if (!checksum->value[0] || !acknowledged[0] || strchr(acknowledged, '-'))
		return 0;
	if (strcmp(acknowledged, checksum->value) != 0)
		return penstock_fail(
			err, -EBADMSG,
			"s3://%s/%s: put: the store has it with the checksum %s, it was sent "
			"with %s",
			r->name.bucket, r->name.key, acknowledged, checksum->value);
	pthread_mutex_lock(&r->c->lock);
	r->c->stats.checked += r->http.body_len;
	pthread_mutex_unlock(&r->c->lock);
	return 0;
}

int object_put(struct penstock_s3 *c, const char *uri, const void *buf, uint64_t len,
	       uint32_t flags, const char *etag, const char *content_type,
	       struct penstock_s3_info *info, struct penstock_err *err)
{
	struct object_checksum checksum = {0};
	struct object_req r;
	int code;

	if (flags & ~PENSTOCK_S3_NEW)
		return penstock_fail(err, -EINVAL, "flags: 0x%x has bits that mean nothing", flags);
	if (len > OBJECT_PUT_MAX)
		return penstock_fail(err, -EFBIG, "%s: more than 5 GiB need an upload in parts",
				     uri);
	if (etag && strlen(etag) >= PENSTOCK_S3_ETAG)
		return penstock_fail(err, -EINVAL, "%s: '%.40s...' is no ETag", uri, etag);
	code = object_req_init(&r, c, HTTP_PUT, "put", uri, true, err);
	if (code == 0) {
		r.http.body = buf;
		r.http.body_len = len;
		r.is_new = flags & PENSTOCK_S3_NEW;
		if (etag)
			memcpy(r.etag, etag, strlen(etag) + 1);
		r.conditional = r.is_new || etag;
		if (object_checksum_compute(&checksum, c, buf, len))
			object_req_header(&r, checksum.header, checksum.value);
		if (content_type)
			object_req_header(&r, "content-type", content_type);
		code = object_req_run(&r, err);
	}
	if (code == 0)
		code = compare_acknowledged_checksum(&r, &checksum, err);
	if (code == 0)
		object_info_fill(info, &r, len, &checksum);
	object_req_fini(&r);
	return code;
}

int penstock_s3_put(struct penstock_s3 *c, const char *uri, const void *buf, uint64_t len,
		    uint32_t flags, const char *etag, struct penstock_s3_info *info,
		    struct penstock_err *err)
{
	return object_put(c, uri, buf, len, flags, etag, NULL, info, err);
}

int penstock_s3_upload_discard(struct penstock_s3 *c, const char *uri, const char *id,
			       struct penstock_err *err)
{
	struct object_strbuf query = {0};
	struct object_req r;
	int code = object_req_init(&r, c, HTTP_DELETE, "abort an upload", uri, true, err);

	object_strbuf_put(&query, "uploadId=");
	object_strbuf_add_encoded(&query, id, false);
	r.query = query.s;
	if (code == 0 && query.failed)
		code = penstock_fail(err, -ENOMEM, "out of memory");
	if (code == 0)
		code = object_req_run(&r, err);
	object_req_fini(&r);
	return code;
}

/* ------------------------------------------------------------------------ delete */

enum { BATCH = 1000 };

static void object_add_key(struct object_strbuf *doc, const char *key)
{
	object_strbuf_put(doc, "<Object><Key>");
	object_strbuf_add_xml(doc, key);
	object_strbuf_put(doc, "</Key></Object>");
}

/* What the answer says of single keys. */
static int batch_result(struct object_req *r, struct penstock_err *err)
{
	struct object_error e;
	char *key;
	int code = object_delete_result_parse(&key, &e, r->http.text.s, r->http.text.len);

	if (code < 0)
		return penstock_fail(err, code, "s3://%s: delete: the answer is no DeleteResult",
				     r->name.bucket);
	if (key || e.code[0]) {
		struct object_outcome o = {.status = 400, .code = e.code};

		if (!strcmp(e.code, "AccessDenied"))
			o.status = 403;
		code = penstock_fail(err, object_outcome_errno(&o), "s3://%s/%s: delete: %s: %s",
				     r->name.bucket, key ? key : "", e.code, e.message);
	}
	free(key);
	return code;
}

/* Keys of one bucket, in @doc. */
static int delete_batch(struct penstock_s3 *c, const char *bucket, struct object_strbuf *doc,
			struct penstock_err *err)
{
	CLEANUP_FREE char *uri = NULL;
	struct object_checksum checksum;
	struct object_req r;
	char md5[OBJECT_MD5];
	int code;

	object_strbuf_put(doc, "<Quiet>true</Quiet></Delete>");
	if (doc->failed || asprintf(&uri, "s3://%s", bucket) < 0) {
		uri = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	code = object_req_init(&r, c, HTTP_POST, "delete", uri, false, err);
	r.query = strdup("delete=");
	r.http.body = doc->s;
	r.http.body_len = doc->len;
	/* This one must have a hash of its body, and the oldest kind is what all take. */
	object_sha256_hex(r.payload, doc->s, doc->len);
	if (object_md5(md5, doc->s, doc->len))
		object_req_header(&r, "content-md5", md5);
	else if (object_checksum_compute(&checksum, c, doc->s, doc->len))
		object_req_header(&r, checksum.header, checksum.value);
	if (code == 0 && !r.query)
		code = penstock_fail(err, -ENOMEM, "out of memory");
	if (code == 0)
		code = object_req_run(&r, err);
	if (code == 0)
		code = batch_result(&r, err);
	object_req_fini(&r);
	return code;
}

/* From @uris[@at] on, as many as go together; *@at is then the next.  */
static int delete_some(struct penstock_s3 *c, const char *const *uris, uint64_t n, uint64_t *at,
		       struct penstock_err *err)
{
	struct object_strbuf doc = {0};
	struct object_name first = {0}, name;
	uint64_t i = *at;
	int r = 0;

	object_strbuf_put(&doc, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (; i < n && i - *at < BATCH && r == 0; i++) {
		r = object_name_parse(&name, uris[i], true, err);
		if (r < 0)
			break;
		if (!first.bucket) {
			first = name;
		} else if (strcmp(first.bucket, name.bucket) != 0) {
			object_name_free(&name);
			break;
		}
		object_add_key(&doc, name.key);
		if (name.bucket != first.bucket)
			object_name_free(&name);
	}
	if (r == 0)
		r = delete_batch(c, first.bucket, &doc, err);
	*at = r < 0 && i == *at ? i + 1 : i;
	object_name_free(&first);
	object_strbuf_fini(&doc);
	return r;
}

int penstock_s3_delete(struct penstock_s3 *c, const char *const *uris, uint64_t n,
		       struct penstock_err *err)
{
	struct penstock_err why;
	struct object_name name;
	int first = 0, r;

	/* A name that is none is found before anything is gone. */
	for (uint64_t i = 0; i < n; i++) {
		r = object_name_parse(&name, uris[i], true, err);
		if (r < 0)
			return r;
		object_name_free(&name);
	}
	for (uint64_t at = 0; at < n;) {
		r = delete_some(c, uris, n, &at, &why);
		if (r < 0 && first == 0)
			first = penstock_fail(err, r, "%s", why.msg);
	}
	return first;
}
