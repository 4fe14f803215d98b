/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_HEAD_H
#define PENSTOCK_OBJECT_HEAD_H

/* The lines of an answer before its body. */
#include "object/http.h"

enum { HTTP_HEAD_MAX = 64 << 10 };

/* Take one line, which ends anyhow.  0, or -EBADMSG where a value that matters makes no sense or
 * there are too many. */
int http_head_line(struct http_head *h, const char *line, size_t len);

#endif
