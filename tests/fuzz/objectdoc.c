/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a store answers.  The first byte says as what it is read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "object/http_headers.h"
#include "object/response_doc.h"
#include "tests/fuzz/fuzz.h"

static void read_page(char *doc, size_t len)
{
	struct object_list_page p;
	int r = object_list_page_parse(&p, doc, len);

	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	if (r < 0)
		return;
	FUZZ_CHECK(!p.more || (p.next && *p.next));
	for (size_t i = 0; i < p.nr; i++)
		FUZZ_CHECK(p.items[i].key && strlen(p.items[i].key) <= len);
	object_list_page_free(&p);
}

static void read_error(char *doc, size_t len)
{
	struct object_error e;

	FUZZ_CHECK(object_error_doc_parse(&e, doc, len) == (e.code[0] != 0));
	for (const char *p = e.message; *p; p++)
		FUZZ_CHECK((unsigned char)*p >= 0x20);
}

static void read_deleted(char *doc, size_t len)
{
	struct object_error e;
	char *key;
	int r = object_delete_result_parse(&key, &e, doc, len);

	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	FUZZ_CHECK(r == 0 || !key);
	free(key);
}

/* Lines, each as libcurl would hand it over. */
static void read_head(const char *text, size_t len)
{
	struct http_response h = {0};

	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) + 1 : len;
		int r = http_headers_parse_line(&h, text, n);

		FUZZ_CHECK(r == 0 || r == -EBADMSG);
		if (r < 0)
			return;
		FUZZ_CHECK(!h.has_range || h.range_len);
		text += n;
		len -= n;
	}
	object_parse_http_date(h.date);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *doc = NULL;

	if (!size)
		return 0;
	doc = malloc(size);
	if (!doc)
		return 0;
	memcpy(doc, data + 1, size - 1);
	doc[size - 1] = 0;
	switch (data[0] % 5) {
	case 0:
		read_page(doc, size - 1);
		break;
	case 1:
		read_error(doc, size - 1);
		break;
	case 2:
		read_deleted(doc, size - 1);
		break;
	case 3:
		free(object_response_element(doc, size - 1, "UploadId"));
		break;
	default:
		read_head(doc, size - 1);
	}
	return 0;
}
