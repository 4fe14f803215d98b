/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that the store makes itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/client.h"

/* "/bucket/key", encoded. */
static int copy_source(struct object_strbuf *source, const char *from, struct penstock_err *err)
{
	struct object_name name;
	int r = object_name_parse(&name, from, true, err);

	if (r < 0)
		return r;
	object_strbuf_printf(source, "/%s/", name.bucket);
	object_strbuf_add_encoded(source, name.key, true);
	object_name_free(&name);
	return source->failed ? penstock_fail(err, -ENOMEM, "out of memory") : 0;
}

/* The answer has its ETag in a document. */
static int copy_result(struct object_req *r, uint64_t bytes, struct penstock_s3_info *info,
		       struct penstock_err *err)
{
	CLEANUP_FREE char *etag = object_response_element(r->http.text.s, r->http.text.len, "ETag");

	if (!etag)
		return penstock_fail(err, -EBADMSG,
				     "s3://%s/%s: copy: the answer is no "
				     "CopyObjectResult",
				     r->name.bucket, r->name.key);
	if (!r->http.response.etag[0])
		snprintf(r->http.response.etag, sizeof(r->http.response.etag), "%s", etag);
	object_info_fill(info, r, bytes, NULL);
	return 0;
}

int penstock_s3_copy(struct penstock_s3 *c, const char *from, const char *to,
		     struct penstock_s3_info *info, struct penstock_err *err)
{
	struct penstock_s3_info there = {.size = sizeof(there)};
	struct object_strbuf source = {0};
	struct object_req r;
	int code = penstock_s3_stat(c, from, &there, err);

	if (code < 0)
		return code;
	if (there.bytes > OBJECT_PUT_MAX)
		return penstock_fail(err, -EFBIG,
				     "%s: copy: the store copies at most 5 GiB in one go", from);
	code = object_req_init(&r, c, HTTP_PUT, "copy", to, true, err);
	if (code == 0)
		code = copy_source(&source, from, err);
	if (code == 0) {
		r.slow = true;
		object_req_header(&r, "x-amz-copy-source", source.s);
		if (there.etag[0])
			object_req_header(&r, "x-amz-copy-source-if-match", there.etag);
		code = object_req_run(&r, err);
	}
	if (code == 0)
		code = copy_result(&r, there.bytes, info, err);
	object_req_fini(&r);
	object_strbuf_fini(&source);
	return code;
}
