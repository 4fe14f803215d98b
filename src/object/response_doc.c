/* SPDX-License-Identifier: Apache-2.0 */
#include "object/response_doc.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "object/xml.h"

/* ---------------------------------------------------------------------- time */

int64_t object_parse_iso_date(const char *text)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	return rest && (*rest == '.' || *rest == 'Z') ? (int64_t)timegm(&tm) : 0;
}

int64_t object_parse_http_date(const char *text)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char month[4] = "";
	const char *found;
	struct tm tm = {0};
	int year;

	if (sscanf(text, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &tm.tm_mday, month, &year,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	found = strstr(months, month);
	if (!found || strlen(month) != 3 || (found - months) % 3)
		return 0;
	tm.tm_mon = (int)(found - months) / 3;
	tm.tm_year = year - 1900;
	return (int64_t)timegm(&tm);
}

/* --------------------------------------------------------------------- errors */

/* One line of what a server nobody knows wrote. */
static void copy_printable(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text && n + 1 < size; text++)
		out[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
	out[n] = 0;
}

/* An element of an error that we know, in @e. */
static void set_error_field(struct object_error *e, const char *name, const char *text)
{
	if (!strcmp(name, "Code"))
		copy_printable(e->code, sizeof(e->code), text);
	else if (!strcmp(name, "Message"))
		copy_printable(e->message, sizeof(e->message), text);
	else if (!strcmp(name, "Region"))
		copy_printable(e->region, sizeof(e->region), text);
	else if (!strcmp(name, "Endpoint"))
		copy_printable(e->endpoint, sizeof(e->endpoint), text);
}

static int error_element(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
			 const char *text)
{
	if (event == OBJECT_XML_OPEN)
		return depth == 1 && strcmp(name, "Error") != 0;
	if (depth == 2)
		set_error_field(ctx, name, text);
	return 0;
}

bool object_error_doc_parse(struct object_error *e, char *doc, size_t len)
{
	memset(e, 0, sizeof(*e));
	if (!len || object_xml_walk(doc, len, error_element, e) != 0 || !e->code[0]) {
		memset(e, 0, sizeof(*e));
		return false;
	}
	return true;
}

/* ---------------------------------------------------------------------- lists */

struct page_walk {
	struct object_list_page *page;
	struct object_list_item item;
	bool is_page;
};

static int copy_text(char **at, const char *text)
{
	if (*at)
		return 0;
	*at = strdup(text);
	return *at ? 0 : -ENOMEM;
}

static void item_free(struct object_list_item *i)
{
	free(i->key);
	free(i->etag);
	free(i->upload_id);
	memset(i, 0, sizeof(*i));
}

static bool is_item(const char *name)
{
	return !strcmp(name, "Contents") || !strcmp(name, "Upload") ||
	       !strcmp(name, "CommonPrefixes");
}

static int end_item(struct page_walk *w)
{
	struct object_list_page *p = w->page;

	if (!w->item.key)
		return -EBADMSG;
	if (ARRAY_GROW(p->items, p->nr) < 0)
		return -ENOMEM;
	p->items[p->nr++] = w->item;
	memset(&w->item, 0, sizeof(w->item));
	return 0;
}

static int item_element(struct object_list_item *i, const char *name, const char *text)
{
	if (!strcmp(name, "Prefix")) {
		i->is_prefix = true;
		return copy_text(&i->key, text);
	}
	if (!strcmp(name, "Key"))
		return copy_text(&i->key, text);
	if (!strcmp(name, "ETag"))
		return copy_text(&i->etag, text);
	if (!strcmp(name, "UploadId"))
		return copy_text(&i->upload_id, text);
	if (!strcmp(name, "Size"))
		i->bytes = strtoull(text, NULL, 10);
	else if (!strcmp(name, "LastModified") || !strcmp(name, "Initiated"))
		i->mtime = object_parse_iso_date(text);
	return 0;
}

static int page_field(struct object_list_page *p, const char *name, const char *text)
{
	if (!strcmp(name, "IsTruncated"))
		p->more = !strcmp(text, "true");
	else if (!strcmp(name, "NextContinuationToken") || !strcmp(name, "NextKeyMarker"))
		return copy_text(&p->next, text);
	else if (!strcmp(name, "NextUploadIdMarker"))
		return copy_text(&p->next_upload, text);
	return 0;
}

static int page_element(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
			const char *text)
{
	struct page_walk *w = ctx;

	if (event == OBJECT_XML_OPEN && depth == 1)
		w->is_page = !strcmp(name, "ListBucketResult") ||
			     !strcmp(name, "ListMultipartUploadsResult");
	if (event == OBJECT_XML_OPEN)
		return w->is_page ? 0 : -EBADMSG;
	if (depth == 2)
		return is_item(name) ? end_item(w) : page_field(w->page, name, text);
	return depth == 3 ? item_element(&w->item, name, text) : 0;
}

int object_list_page_parse(struct object_list_page *p, char *doc, size_t len)
{
	struct page_walk w = {.page = p};
	int r;

	memset(p, 0, sizeof(*p));
	r = object_xml_walk(doc, len, page_element, &w);
	item_free(&w.item);
	/* A page without a way to the next would be read for ever. */
	if (r == 0 && p->more && (!p->next || !*p->next))
		r = -EBADMSG;
	if (r < 0)
		object_list_page_free(p);
	return r;
}

void object_list_page_free(struct object_list_page *p)
{
	for (size_t i = 0; i < p->nr; i++)
		item_free(&p->items[i]);
	free(p->items);
	free(p->next);
	free(p->next_upload);
	memset(p, 0, sizeof(*p));
}

/* --------------------------------------------------------------------- others */

struct text_walk {
	const char *name;
	char *text;
};

static int text_element(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
			const char *text)
{
	struct text_walk *w = ctx;

	if (event == OBJECT_XML_CLOSE && depth == 2 && !strcmp(name, w->name))
		return copy_text(&w->text, text);
	return 0;
}

char *object_response_element(char *doc, size_t len, const char *name)
{
	struct text_walk w = {.name = name};

	if (object_xml_walk(doc, len, text_element, &w) == 0)
		return w.text;
	free(w.text);
	return NULL;
}

struct deleted_walk {
	char *key;
	struct object_error *e;
	bool done; /* the first error is complete */
};

static int deleted_element(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
			   const char *text)
{
	struct deleted_walk *w = ctx;

	if (event == OBJECT_XML_OPEN)
		return depth == 1 && strcmp(name, "DeleteResult") != 0 ? -EBADMSG : 0;
	if (depth == 2 && !strcmp(name, "Error"))
		w->done = true;
	if (depth == 2 && !strcmp(name, "Deleted") && !w->done)
		free(TAKE_PTR(w->key));
	if (depth != 3 || w->done)
		return 0;
	if (!strcmp(name, "Key")) {
		free(TAKE_PTR(w->key));
		return copy_text(&w->key, text);
	}
	set_error_field(w->e, name, text);
	return 0;
}

int object_delete_result_parse(char **key, struct object_error *e, char *doc, size_t len)
{
	struct deleted_walk w = {.e = e};
	int r;

	memset(e, 0, sizeof(*e));
	r = object_xml_walk(doc, len, deleted_element, &w);
	*key = w.done && r == 0 ? w.key : NULL;
	if (!*key)
		free(w.key);
	if (!w.done)
		memset(e, 0, sizeof(*e));
	return r;
}
