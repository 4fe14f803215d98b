/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_RESPONSE_DOC_H
#define PENSTOCK_OBJECT_RESPONSE_DOC_H

/* The XML documents in responses of a store: errors, pages of lists, results; and dates. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object_error {
	char code[64]; /* "NoSuchKey"; "": it was no document of an error */
	char message[160];
	char region[64];
	char endpoint[256]; /* of PermanentRedirect */
};

/* False, with @e empty, where it is something else.  Control characters are taken out. */
bool object_error_doc_parse(struct object_error *e, char *doc, size_t len);

/* One of a list. */
struct object_list_item {
	char *key;
	char *etag;
	char *upload_id;
	uint64_t bytes;
	int64_t mtime;
	bool is_prefix;
};

struct object_list_page {
	struct object_list_item *items;
	size_t nr;
	bool more;
	char *next;        /* token, or marker of the key of a list of uploads */
	char *next_upload; /* marker of uploads */
};

/* A page of ListObjectsV2 or ListMultipartUploads.  0, -EBADMSG or -ENOMEM. */
int object_list_page_parse(struct object_list_page *p, char *doc, size_t len);
void object_list_page_free(struct object_list_page *p);

/* The text of the first element @name below the outermost one; to be freed.  NULL: none. */
char *object_response_element(char *doc, size_t len, const char *name);

/* Of DeleteObjects: the first that was not deleted, in @key (to be freed) and @e.  0 or -EBADMSG.
 */
int object_delete_result_parse(char **key, struct object_error *e, char *doc, size_t len);

/* Seconds since 1970 of "2026-01-02T03:04:05.000Z" and of "Fri, 02 Jan 2026 03:04:05 GMT"; 0: none.
 */
int64_t object_parse_iso_date(const char *text);
int64_t object_parse_http_date(const char *text);

#endif
