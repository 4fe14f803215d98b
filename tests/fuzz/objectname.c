/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: names of objects and lists of endpoints.  What is accepted is harmless in a request.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "object/endpoint.h"
#include "object/uri.h"
#include "tests/fuzz/fuzz.h"

/* Nothing that would end a line of a request or begin a query. */
static void check_sent(const char *s)
{
	for (; *s; s++)
		FUZZ_CHECK(isgraph((unsigned char)*s) && (unsigned char)*s < 0x80 &&
			   !strchr("?#@\"<>\\^`{|}", *s));
}

static void check_name(const char *text)
{
	struct object_name n;
	struct penstock_err err;
	struct object_strbuf s = {0};
	char none[] = "", host[] = "h";
	struct object_url u = {.host = host, .base = none};

	if (object_name_parse(&n, text, false, &err) < 0) {
		FUZZ_CHECK(err.code < 0 && err.msg[0]);
		return;
	}
	object_url_host(&s, &u, n.bucket, true);
	object_url_path(&s, &u, n.bucket, n.key, false);
	FUZZ_CHECK(!s.failed);
	check_sent(s.s);
	object_strbuf_fini(&s);
	object_name_free(&n);
}

static void check_endpoints(const char *text)
{
	struct object_endpoints s = {0};
	struct penstock_err err;

	/* Another file is nothing to it. */
	if (text[0] == '@')
		return;
	if (object_endpoints_parse(&s, text, &err) < 0) {
		FUZZ_CHECK(err.code < 0 && err.msg[0] && !s.nr);
		return;
	}
	FUZZ_CHECK(s.nr && s.nr <= OBJECT_ENDPOINTS);
	for (unsigned i = 0; i < s.nr; i++) {
		FUZZ_CHECK(s.v[i].url.host[0]);
		check_sent(s.v[i].url.host);
		check_sent(s.v[i].url.base);
	}
	object_endpoints_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = NULL;

	if (!size || size > 4096)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	if (data[0] & 1)
		check_endpoints(text);
	else
		check_name(text);
	return 0;
}
