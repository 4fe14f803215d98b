/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_HTTP_HEADERS_H
#define PENSTOCK_OBJECT_HTTP_HEADERS_H

/* The lines of an answer before its body. */
#include "object/http.h"

enum { HTTP_HEADERS_MAX = 64 << 10 };

/* Take one line, which ends anyhow.  0, or -EBADMSG where a value that matters makes no sense or
 * there are too many. */
int http_headers_parse_line(struct http_response *h, const char *line, size_t len);

#endif
