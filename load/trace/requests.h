/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_REQUESTS_H
#define PENSTOCK_TRACE_REQUESTS_H

/* A list of requests that grows, and the texts they point to.  Zeroed is empty. */
#include "load/trace/trace.h"

struct request_list {
	struct request_item {
		struct trace_request r;
		size_t text; /* where in @texts */
	} * v;
	size_t nr, capacity;
	char *texts; /* each with its final 0 */
	size_t texts_len, reserve_texts;
};

/* Returns 0 or -ENOMEM.  @text, from request_text(), is what the request's id will be. */
int request_add(struct request_list *l, const struct trace_request *r, size_t text);
int request_text(struct request_list *l, const char *text, size_t *ret);
/* All of it as one block of memory, for trace_requests_free(). */
int request_finish(const struct request_list *l, struct trace_request **out, size_t *nr);
void request_list_fini(struct request_list *l);

/*
 * @unit ("line", "item") @number of @path is bad, and why.  0 where that was counted, -EBADMSG
 * where it is the end.  @named: the file's name is part of what is kept, there are several.
 */
struct request_origin {
	const char *path, *unit;
	bool named;
};
int request_bad(struct trace_bad *b, const struct request_origin *at, uint64_t number,
		struct penstock_err *err, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#endif
