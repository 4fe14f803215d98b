/* SPDX-License-Identifier: Apache-2.0 */
/* What stores answer: documents, header lines, times. */
#include "object/response_doc.h"
#include "object/http_headers.h"
#include "object/xml.h"
#include "tests/common/t.h"

/* Documents are written to while they are read. */
static char doc[1 << 16];

static size_t set_doc(const char *text)
{
	snprintf(doc, sizeof(doc), "%s", text);
	return strlen(doc);
}

static int nothing(void *ctx, enum object_xml_event event, unsigned depth, const char *name,
		   const char *text)
{
	(void)event;
	(void)depth;
	(void)name;
	(void)text;
	++*(unsigned *)ctx;
	return 0;
}

static int walk(const char *text)
{
	unsigned nr = 0;

	return object_xml_walk(doc, set_doc(text), nothing, &nr);
}

static void what_is_no_document_is_refused(void)
{
	static const char *const bad[] = {
		"",
		"text",
		"<a>",
		"<a></b>",
		"</a>",
		"<a/><b/>",
		"<a",
		"<>x</>",
		"<a>&x;</a>",
		"<a>&amp</a>",
		"<a>&#0;</a>",
		"<a>&#xd800;</a>",
		"<a>&#99999999999;</a>",
		"<a b='></a>",
		"<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
		"<a><![CDATA[x]]></a>",
		"<!-- <a/>",
	};
	char deep[256] = "";

	for (unsigned i = 0; i < T_COUNT(bad); i++)
		T_EQ(walk(bad[i]), -EBADMSG);
	for (unsigned i = 0; i < 17; i++)
		strcat(deep, "<a>");
	for (unsigned i = 0; i < 17; i++)
		strcat(deep, "</a>");
	T_EQ(walk(deep), -EBADMSG);
	T_EQ(walk("<?xml version='1.0'?><!-- c --><x:a b=\"/>\"><c/>t</x:a >"), 0);
}

static void text_is_decoded(void)
{
	size_t len =
		set_doc("<r xmlns='n'><E>x&amp;&lt;&gt;&quot;&apos;&#65;&#xe4;&#x1F600;</E></r>");
	char *text = object_response_element(doc, len, "E");

	T_OK(text && !strcmp(text, "x&<>\"'A\xc3\xa4\xf0\x9f\x98\x80"));
	free(text);
}

static void errors_are_known(void)
{
	struct object_error e;

	T_OK(object_error_doc_parse(&e, doc,
				    set_doc("<Error><Code>SlowDown</Code><Message>a\nb</Message>"
					    "<Region>eu</Region><X><Code>no</Code></X></Error>")));
	T_OK(!strcmp(e.code, "SlowDown") && !strcmp(e.message, "a b") && !strcmp(e.region, "eu"));
	T_OK(!object_error_doc_parse(&e, doc, set_doc("<Other><Code>x</Code></Other>")));
	T_OK(!e.code[0]);
	T_OK(!object_error_doc_parse(&e, doc, set_doc("<html>502</html>")));
}

static void a_page_is_read(void)
{
	struct object_list_page p;

	T_EQ(object_list_page_parse(
		     &p, doc,
		     set_doc("<ListBucketResult><Name>b</Name><Prefix>x</Prefix>"
			     "<IsTruncated>true</IsTruncated>"
			     "<NextContinuationToken>a+/=</NextContinuationToken>"
			     "<Contents><Key>k&amp;1</Key><ETag>&quot;e&quot;</ETag><Size>42</Size>"
			     "<LastModified>2026-01-02T03:04:05.678Z</LastModified>"
			     "<Owner><ID>Key</ID></Owner></Contents>"
			     "<CommonPrefixes><Prefix>f/</Prefix></CommonPrefixes>"
			     "</ListBucketResult>")),
	     0);
	T_EQ(p.nr, 2);
	T_OK(p.more && !strcmp(p.next, "a+/="));
	T_OK(!strcmp(p.items[0].key, "k&1") && !strcmp(p.items[0].etag, "\"e\""));
	T_EQ(p.items[0].bytes, 42);
	T_EQ(p.items[0].mtime, 1767323045);
	T_OK(p.items[1].is_prefix && !strcmp(p.items[1].key, "f/"));
	object_list_page_free(&p);
}

static void a_page_without_an_end_is_refused(void)
{
	struct object_list_page p;

	T_EQ(object_list_page_parse(&p, doc,
				    set_doc("<ListBucketResult><IsTruncated>true</IsTruncated>"
					    "</ListBucketResult>")),
	     -EBADMSG);
	T_EQ(object_list_page_parse(&p, doc,
				    set_doc("<ListBucketResult><Contents/></ListBucketResult>")),
	     -EBADMSG);
	T_EQ(object_list_page_parse(&p, doc, set_doc("<Error/>")), -EBADMSG);
}

static void what_was_not_deleted_is_named(void)
{
	struct object_error e;
	char *key;

	T_EQ(object_delete_result_parse(
		     &key, &e, doc,
		     set_doc("<DeleteResult><Deleted><Key>a</Key></Deleted>"
			     "<Error><Key>b</Key><Code>AccessDenied</Code></Error>"
			     "<Error><Key>c</Key><Code>Other</Code></Error>"
			     "</DeleteResult>")),
	     0);
	T_OK(key && !strcmp(key, "b") && !strcmp(e.code, "AccessDenied"));
	free(key);
	T_EQ(object_delete_result_parse(&key, &e, doc, set_doc("<DeleteResult/>")), 0);
	T_OK(!key && !e.code[0]);
	T_EQ(object_delete_result_parse(&key, &e, doc, set_doc("<Other/>")), -EBADMSG);
}

/* ------------------------------------------------------------------------ headers */

static int parse_header(struct http_response *h, const char *line)
{
	return http_headers_parse_line(h, line, strlen(line));
}

static void header_lines_are_read(void)
{
	struct http_response h = {0};

	T_EQ(parse_header(&h, "HTTP/1.1 100 Continue\r\n"), 0);
	T_EQ(parse_header(&h, "ETag: \"old\"\r\n"), 0);
	T_EQ(parse_header(&h, "HTTP/1.1 206 Partial Content\r\n"), 0);
	T_EQ(h.status, 206);
	T_OK(!h.etag[0]);
	T_EQ(parse_header(&h, "content-range: bytes 5-14/100\r\n"), 0);
	T_EQ(parse_header(&h, "Content-Length:10 \r\n"), 0);
	T_EQ(parse_header(&h, "ETag:  \"e\"\r\n"), 0);
	T_OK(h.has_range && h.range_at == 5 && h.range_len == 10 && h.range_total == 100);
	T_OK(h.has_length && h.length == 10 && !strcmp(h.etag, "\"e\""));
	T_EQ(parse_header(&h, "Content-Range: bytes 0-0/*\r\n"), 0);
	T_OK(h.range_len == 1 && h.range_total == UINT64_MAX);
}

static void headers_that_contradict_are_refused(void)
{
	static const char *const bad[] = {"Content-Length: -1",
					  "Content-Length: 1x",
					  "Content-Length: 99999999999999999999",
					  "Content-Range: bytes 5-4/100",
					  "Content-Range: 0-1/2",
					  "Content-Range: bytes 0-18446744073709551615/*",
					  "Content-Range: bytes 0-1"};
	struct http_response h = {0};
	char line[512];

	for (unsigned i = 0; i < T_COUNT(bad); i++)
		T_EQ(parse_header(&h, bad[i]), -EBADMSG);
	memset(&h, 0, sizeof(h));
	T_EQ(parse_header(&h, "Content-Length: 5"), 0);
	T_EQ(parse_header(&h, "Content-Length: 6"), -EBADMSG);
	/* Lines for ever. */
	memset(&h, 0, sizeof(h));
	memset(line, 'a', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	for (unsigned i = 0; i < HTTP_HEADERS_MAX / (sizeof(line) - 1); i++)
		T_EQ(parse_header(&h, line), 0);
	T_EQ(parse_header(&h, line), -EBADMSG);
	/* What is longer than its place is not taken in part. */
	memset(&h, 0, sizeof(h));
	snprintf(line, sizeof(line), "ETag: %0200d", 1);
	T_EQ(parse_header(&h, line), 0);
	T_OK(!h.etag[0]);
}

static void times_are_read(void)
{
	T_EQ(object_parse_http_date("Fri, 02 Jan 2026 03:04:05 GMT"), 1767323045);
	T_EQ(object_parse_http_date("Fri, 02 Xan 2026 03:04:05 GMT"), 0);
	T_EQ(object_parse_http_date("anJan"), 0);
	T_EQ(object_parse_http_date(""), 0);
	T_EQ(object_parse_iso_date("2026-01-02T03:04:05Z"), 1767323045);
	T_EQ(object_parse_iso_date("2026-01-02"), 0);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(what_is_no_document_is_refused),
		T_CASE(text_is_decoded),
		T_CASE(errors_are_known),
		T_CASE(a_page_is_read),
		T_CASE(a_page_without_an_end_is_refused),
		T_CASE(what_was_not_deleted_is_named),
		T_CASE(header_lines_are_read),
		T_CASE(headers_that_contradict_are_refused),
		T_CASE(times_are_read),
	};
	static const struct t_group groups[] = {
		{.name = "answers", .cases = cases, .nr_cases = T_COUNT(cases)},
	};

	return t_run(groups, T_COUNT(groups), NULL);
}
