/* SPDX-License-Identifier: Apache-2.0 */
/* What else two results differ in, one sentence each. */
#include <stdlib.h>
#include <string.h>

#include "load/report/compare/compare.h"

static void add_note(struct compare *c, const char *what, const json_t *a, const json_t *b)
{
	char *x = json_dumps(a ? a : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);
	char *y = json_dumps(b ? b : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);

	if (x && y)
		json_array_append_new(c->notes,
				      json_sprintf("A and B differ in %s: %s and %s.", what, x, y));
	free(x);
	free(y);
}

/* Numbers that are equal as numbers: 2 and 2.0. */
static bool differs(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return json_number_value(a) < json_number_value(b) ||
		       json_number_value(a) > json_number_value(b);
	return (a || b) && !(a && b && json_equal(a, b));
}

static void note_members(struct compare *c, const char *member, const char *const *only)
{
	json_t *a = json_object_get(c->in.a, member), *b = json_object_get(c->in.b, member), *v;
	const char *key;
	char what[96];

	json_object_foreach(a, key, v)
	{
		const json_t *other = json_object_get(b, key);
		bool wanted = !only;

		for (size_t i = 0; only && only[i]; i++)
			wanted |= !strcmp(only[i], key);
		snprintf(what, sizeof(what), "%s %s", member, key);
		if (wanted && differs(v, other))
			add_note(c, what, v, other);
	}
}

static const json_t *device(const json_t *result)
{
	const json_t *target = json_array_get(json_object_get(result, "targets"), 0);

	return json_object_get(json_object_get(target, "block_device"), "model");
}

void compare_errors(json_t *lines, const json_t *result, const char *which)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(result, "series"), i, s)
	{
		json_int_t errors = json_integer_value(json_object_get(s, "errors"));
		const char *why = json_string_value(json_object_get(s, "first_error"));

		if (errors > 0)
			json_array_append_new(
				lines, json_sprintf("%s: %" JSON_INTEGER_FORMAT
						    " operation%s of %s failed%s%s",
						    json_string_value(json_object_get(s, "name")),
						    errors, errors == 1 ? "" : "s", which,
						    why ? ": " : "", why ? why : ""));
	}
}

void compare_notes(struct compare *c)
{
	static const char *const machine[] = {"kernel", "cpu", "cpus", "memory_bytes", "gpu", NULL};
	const json_t *a = json_object_get(c->in.a, "command"),
		     *b = json_object_get(c->in.b, "command");

	if (differs(a, b))
		add_note(c, "command", a, b);
	note_members(c, "machine", machine);
	note_members(c, "settings", NULL);
	if (differs(device(c->in.a), device(c->in.b)))
		add_note(c, "device", device(c->in.a), device(c->in.b));
	if (json_is_true(json_object_get(c->in.a, "partial")))
		json_array_append_new(c->notes, json_string("A is a partial result."));
	if (json_is_true(json_object_get(c->in.b, "partial")))
		json_array_append_new(c->notes, json_string("B is a partial result."));
	compare_errors(c->notes, c->in.a, "A");
	compare_errors(c->notes, c->in.b, "B");
}
