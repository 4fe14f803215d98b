/* SPDX-License-Identifier: Apache-2.0 */
/* What a loader has found goes into one block of memory, requests first, their texts behind. */
#include "load/trace/requests.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/trace/reader.h"

int request_text(struct request_list *l, const char *text, size_t *ret)
{
	size_t len = strlen(text) + 1;

	if (ARRAY_RESERVE(l->texts, l->reserve_texts, l->texts_len + len) < 0)
		return -ENOMEM;
	*ret = l->texts_len;
	memcpy(l->texts + l->texts_len, text, len);
	l->texts_len += len;
	return 0;
}

int request_add(struct request_list *l, const struct trace_request *r, size_t text)
{
	if (ARRAY_RESERVE(l->v, l->capacity, l->nr + 1) < 0)
		return -ENOMEM;
	l->v[l->nr++] = (struct request_item){*r, text};
	return 0;
}

int request_finish(const struct request_list *l, struct trace_request **out, size_t *nr)
{
	struct trace_request *v = malloc(l->nr * sizeof(*v) + l->texts_len + 1);
	char *texts = (char *)(v + l->nr);

	if (!v)
		return -ENOMEM;
	if (l->texts_len)
		memcpy(texts, l->texts, l->texts_len);
	for (size_t i = 0; i < l->nr; i++) {
		v[i] = l->v[i].r;
		v[i].id = l->texts_len ? texts + l->v[i].text : NULL;
	}
	*out = v;
	*nr = l->nr;
	return 0;
}

void request_list_fini(struct request_list *l)
{
	free(l->v);
	free(l->texts);
	*l = (struct request_list){.v = NULL};
}

void trace_requests_free(struct trace_request *v, size_t nr)
{
	(void)nr; /* one block */
	free(v);
}

int request_bad(struct trace_bad *b, const struct request_origin *at, uint64_t number,
		struct penstock_err *err, const char *fmt, ...)
{
	const char *slash = strrchr(at->path, '/');
	struct penstock_short_name short_name;
	char why[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	trace_printable(why);
	if (b->strict)
		return penstock_fail(err, -EBADMSG, "%s: %s %" PRIu64 ": %s",
				     penstock_shorten_name(&short_name, at->path), at->unit, number,
				     why);
	trace_bad_add(b, "%.50s%s%s %" PRIu64 ": %s",
		      !at->named ? ""
		      : slash    ? slash + 1
				 : at->path,
		      at->named ? ": " : "", at->unit, number, why);
	return 0;
}
