/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_HTTP_TRANSFER_H
#define PENSTOCK_OBJECT_HTTP_TRANSFER_H

/* One attempt as libcurl sees it: its options, and where its bytes come from and go to. */
#include "object/http.h"

struct penstock_curl;

struct http_transfer_opts {
	char *ca_file;
	bool no_proxy;
	uint32_t connect_ms;
};

/* Nothing of the attempt before is left but memory. */
void http_transfer_clear(struct http_req *r);
void http_transfer_set(const struct penstock_curl *curl, void *easy, struct http_req *r,
		       const struct http_transfer_opts *opts);

#endif
