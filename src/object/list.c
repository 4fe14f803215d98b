/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of objects and of uploads, a page at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/client.h"

struct penstock_s3_list {
	struct penstock_s3 *c;
	char *uri; /* of the bucket */
	struct object_name name;
	uint32_t flags;
	bool begun;
	struct object_list_page page;
	size_t at;
};

int penstock_s3_list_open(struct penstock_s3_list **out, struct penstock_s3 *c, const char *uri,
			  uint32_t flags, struct penstock_err *err)
{
	struct penstock_s3_list *l;
	int r;

	if (flags & ~(PENSTOCK_S3_LIST_FLAT | PENSTOCK_S3_LIST_UPLOADS))
		return penstock_fail(err, -EINVAL, "flags: 0x%x has bits that mean nothing", flags);
	l = calloc(1, sizeof(*l));
	if (!l)
		return penstock_fail(err, -ENOMEM, "out of memory");
	l->c = c;
	l->flags = flags;
	r = object_name_parse(&l->name, uri, false, err);
	if (r == 0 && asprintf(&l->uri, "s3://%s", l->name.bucket) < 0) {
		l->uri = NULL;
		r = penstock_fail(err, -ENOMEM, "out of memory");
	}
	if (r < 0)
		penstock_s3_list_close(l);
	else
		*out = l;
	return r;
}

void penstock_s3_list_close(struct penstock_s3_list *l)
{
	if (!l)
		return;
	object_list_page_free(&l->page);
	object_name_free(&l->name);
	free(l->uri);
	free(l);
}

static void add_parameter(struct object_strbuf *q, const char *name, const char *value)
{
	if (!value)
		return;
	object_strbuf_printf(q, "%s%s=", q->len ? "&" : "", name);
	object_strbuf_add_encoded(q, value, false);
}

static void make_query(struct object_strbuf *q, const struct penstock_s3_list *l)
{
	bool uploads = l->flags & PENSTOCK_S3_LIST_UPLOADS;

	if (!uploads) {
		add_parameter(q, "list-type", "2");
		add_parameter(q, "continuation-token", l->page.next);
	} else {
		add_parameter(q, "uploads", "");
		add_parameter(q, "key-marker", l->page.next);
		add_parameter(q, "upload-id-marker", l->page.next_upload);
	}
	if (!(l->flags & PENSTOCK_S3_LIST_FLAT))
		add_parameter(q, "delimiter", "/");
	if (l->name.key[0])
		add_parameter(q, "prefix", l->name.key);
}

/* A page that repeats the place of the one before would come for ever. */
static bool is_stuck(const struct object_list_page *old, const struct object_list_page *page)
{
	return page->more && old->next && !strcmp(old->next, page->next) &&
	       !strcmp(old->next_upload ? old->next_upload : "",
		       page->next_upload ? page->next_upload : "");
}

static int next_page(struct penstock_s3_list *l, struct penstock_err *err)
{
	struct object_strbuf query = {0};
	struct object_list_page page;
	struct object_req r;
	int code = object_req_init(&r, l->c, HTTP_GET, "list", l->uri, false, err);

	make_query(&query, l);
	r.query = query.s;
	if (code == 0 && query.failed)
		code = penstock_fail(err, -ENOMEM, "out of memory");
	if (code == 0)
		code = object_req_run(&r, err);
	if (code == 0) {
		code = object_list_page_parse(&page, r.http.text.s, r.http.text.len);
		if (code == 0 && is_stuck(&l->page, &page)) {
			object_list_page_free(&page);
			code = -EBADMSG;
		}
		if (code < 0)
			penstock_fail(err, code, "%s: list: the answer is no list (%zu bytes)",
				      l->uri, r.http.text.len);
	}
	object_req_fini(&r);
	if (code < 0)
		return code;
	object_list_page_free(&l->page);
	l->page = page;
	l->at = 0;
	l->begun = true;
	return 0;
}

int penstock_s3_list_next(struct penstock_s3_list *l, struct penstock_s3_entry *entry,
			  struct penstock_err *err)
{
	struct penstock_s3_entry e = {0};
	const struct object_list_item *i;
	int r;

	while (!l->begun || l->at == l->page.nr) {
		if (l->begun && !l->page.more)
			return 0;
		r = next_page(l, err);
		if (r < 0)
			return r;
	}
	i = &l->page.items[l->at++];
	e.is_prefix = i->is_prefix;
	e.key = i->key;
	e.etag = i->etag ? i->etag : "";
	e.upload_id = i->upload_id;
	e.bytes = i->bytes;
	e.mtime = i->mtime;
	r = object_struct_copy_out(entry, &e, sizeof(e));
	return r < 0 ? penstock_fail(err, r, "size: is not set") : 1;
}
