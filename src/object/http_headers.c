/* SPDX-License-Identifier: Apache-2.0 */
#include "object/http_headers.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

/* Digits only: strtoull() would take signs and blanks. */
static int parse_u64(const char **at, uint64_t *out)
{
	char *rest;

	if (!isdigit((unsigned char)**at))
		return -EBADMSG;
	errno = 0;
	*out = strtoull(*at, &rest, 10);
	*at = rest;
	return errno ? -EBADMSG : 0;
}

/* "bytes 0-9/100", "bytes 0-9/?"; that of a 416 is "bytes ?/100" and tells the total. */
static int parse_range(struct http_response *h, const char *v)
{
	uint64_t last;

	if (strncasecmp(v, "bytes ", 6) != 0)
		return -EBADMSG;
	v += 6;
	if (*v == '*')
		return 0;
	if (parse_u64(&v, &h->range_at) < 0 || *v++ != '-' || parse_u64(&v, &last) < 0 ||
	    *v++ != '/' || last < h->range_at || last == UINT64_MAX)
		return -EBADMSG;
	h->range_len = last - h->range_at + 1;
	h->range_total = UINT64_MAX;
	h->has_range = true;
	return *v == '*' ? 0 : parse_u64(&v, &h->range_total);
}

static int parse_length(struct http_response *h, const char *v)
{
	uint64_t length;

	/* Two that differ: nobody knows where the body ends. */
	if (parse_u64(&v, &length) < 0 || *v || (h->has_length && h->length != length))
		return -EBADMSG;
	h->length = length;
	h->has_length = true;
	return 0;
}

static const struct field {
	const char *name;
	size_t at, size;
} fields[] = {
	{"etag", offsetof(struct http_response, etag), PENSTOCK_S3_ETAG},
	{"date", offsetof(struct http_response, date), 40},
	{"last-modified", offsetof(struct http_response, modified), 40},
	{"x-amz-bucket-region", offsetof(struct http_response, region), 64},
	{"location", offsetof(struct http_response, location), 512},
	{"x-amz-checksum-crc32c", offsetof(struct http_response, crc32c), 24},
	{"x-amz-checksum-crc64nvme", offsetof(struct http_response, crc64nvme), 24},
	{"server", offsetof(struct http_response, server), 64},
};

/* Printable characters only: these go into headers of ours and into messages. */
static void copy_if_printable(char *out, size_t size, const char *v)
{
	if (strlen(v) >= size)
		return;
	for (const char *p = v; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return;
	memcpy(out, v, strlen(v) + 1);
}

static int parse_field(struct http_response *h, const char *name, const char *v)
{
	if (!strcasecmp(name, "content-length"))
		return parse_length(h, v);
	if (!strcasecmp(name, "content-range"))
		return parse_range(h, v);
	if (!strcasecmp(name, "retry-after"))
		h->retry_after_s = isdigit((unsigned char)*v)
					   ? (unsigned)min_u64(strtoul(v, NULL, 10), 3600)
					   : 0;
	for (unsigned i = 0; i < ARRAY_SIZE(fields); i++)
		if (!strcasecmp(name, fields[i].name))
			copy_if_printable((char *)h + fields[i].at, fields[i].size, v);
	return 0;
}

int http_headers_parse_line(struct http_response *h, const char *line, size_t len)
{
	char text[1024], *colon, *v;

	h->bytes += len;
	if (h->bytes > HTTP_HEADERS_MAX)
		return -EBADMSG;
	if (len >= sizeof(text))
		return 0; /* none of ours is so long */
	memcpy(text, line, len);
	text[len] = 0;
	while (len && strchr("\r\n \t", text[len - 1]))
		text[--len] = 0;
	if (!strncmp(text, "HTTP/", 5)) {
		size_t bytes = h->bytes;

		memset(h, 0, sizeof(*h));
		h->bytes = bytes;
		v = strchr(text, ' ');
		h->status = v ? (unsigned)strtoul(v, NULL, 10) : 0;
		return 0;
	}
	colon = strchr(text, ':');
	if (!colon)
		return 0;
	*colon = 0;
	v = colon + 1 + strspn(colon + 1, " \t");
	return parse_field(h, text, v);
}
