/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what keys are read from.  The first byte says which: a shared file, JSON, a date. */
#include <errno.h>
#include <string.h>

#include "object/cred_internal.h"
#include "tests/fuzz/fuzz.h"

static void read_ini(const char *text)
{
	bool there = false;
	char *value = cred_ini(text, "default", "aws_access_key_id", &there);

	FUZZ_CHECK(!value || (there && *value && strlen(value) <= strlen(text)));
	free(value);
	value = cred_ini(text, "profile x", "k", NULL);
	free(value);
}

static void read_json(const char *text)
{
	struct object_cred c = {0};
	int r = cred_from_json(&c, text, "Token", "a test", NULL);

	FUZZ_CHECK(r == 0 ? c.key_id && c.secret : r == -EINVAL && !c.key_id && !c.secret);
	object_cred_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	FUZZ_CHECK(text);
	if (data[0] == 'i')
		read_ini(text);
	else if (data[0] == 'j')
		read_json(text);
	else
		cred_date_ns(text);
	free(text);
	return 0;
}
