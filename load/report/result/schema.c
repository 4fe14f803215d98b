/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk of value and schema side by side, which ends at the first member that does not fit.  Of
 * alternatives (anyOf) the complaint is told that came from deepest in the value: that one was
 * meant.
 */
#include "load/report/result/schema.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* Where in the value: a list from here up to the whole. */
struct json_path {
	const struct json_path *up;
	const char *key; /* NULL: an element */
	size_t index;
	unsigned depth;
};

struct schema_walk {
	const json_t *root; /* of the schema */
	unsigned depth;     /* of the complaint */
	char what[400];
	/* compiling an expression takes longer than all else */
	struct {
		const char *text;
		regex_t r;
	} patterns[4];
	unsigned nr_patterns;
};

/* ---------------------------------------------------------------- complaints */

/* "series[3].latency.mean" */
static void json_path_text(char *buf, size_t size, const struct json_path *at)
{
	size_t used;

	if (!at || !at->up) {
		snprintf(buf, size, "%s", "");
		return;
	}
	json_path_text(buf, size, at->up);
	used = strlen(buf);
	if (at->key)
		snprintf(buf + used, size - used, "%s%.60s", used ? "." : "", at->key);
	else
		snprintf(buf + used, size - used, "[%zu]", at->index);
}

static bool fail_at(struct schema_walk *w, const struct json_path *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static bool fail_at(struct schema_walk *w, const struct json_path *at, const char *fmt, ...)
{
	char path[200];
	va_list ap;

	if (*w->what && at->depth < w->depth)
		return false;
	w->depth = at->depth;
	json_path_text(path, sizeof(path), at);
	snprintf(w->what, sizeof(w->what), "%s ", *path ? path : "the whole");
	va_start(ap, fmt);
	vsnprintf(w->what + strlen(w->what), sizeof(w->what) - strlen(w->what), fmt, ap);
	va_end(ap);
	return false;
}

#define VALUE_TEXT 64

/* A value in a few words. */
static const char *value_text(char buf[VALUE_TEXT], const json_t *v)
{
	char *text;

	if (json_is_object(v))
		return "an object";
	if (json_is_array(v))
		return "an array";
	text = json_dumps(v, JSON_ENCODE_ANY);
	snprintf(buf, VALUE_TEXT, strlen(text ? text : "") < 50 ? "%s" : "%.46s...",
		 text ? text : "?");
	free(text);
	return buf;
}

/* --------------------------------------------------------------------- types */

static const struct {
	const char *name, *text;
} schema_types[] = {
	{"object", "an object"}, {"array", "an array"},         {"string", "a string"},
	{"number", "a number"},  {"integer", "a whole number"}, {"boolean", "true or false"},
	{"null", "null"},
};

static bool is_whole(const json_t *v)
{
	return json_is_integer(v) || floor(json_real_value(v)) == json_real_value(v);
}

static bool is_type(const json_t *v, const char *type)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return !strcmp(type, "object");
	case JSON_ARRAY:
		return !strcmp(type, "array");
	case JSON_STRING:
		return !strcmp(type, "string");
	case JSON_INTEGER:
	case JSON_REAL:
		return !strcmp(type, "number") || (!strcmp(type, "integer") && is_whole(v));
	case JSON_TRUE:
	case JSON_FALSE:
		return !strcmp(type, "boolean");
	default:
		return !strcmp(type, "null");
	}
}

static const char *type_text(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(schema_types); i++)
		if (!strcmp(schema_types[i].name, name))
			return schema_types[i].text;
	return name;
}

/* @types: a name, or an array of them. */
static bool fits_type(struct schema_walk *w, const json_t *types, const json_t *v,
		      const struct json_path *at)
{
	char text[VALUE_TEXT], wanted[128] = "";
	size_t nr = json_is_array(types) ? json_array_size(types) : 1;

	for (size_t i = 0; i < nr; i++) {
		const json_t *type = json_is_array(types) ? json_array_get(types, i) : types;
		size_t used = strlen(wanted);

		if (is_type(v, json_string_value(type)))
			return true;
		snprintf(wanted + used, sizeof(wanted) - used, "%s%s", used ? " or " : "",
			 type_text(json_string_value(type)));
	}
	return fail_at(w, at, "is %s, not %s", value_text(text, v), wanted);
}

/* ------------------------------------------------------------------- scalars */

static bool fits_enum(struct schema_walk *w, const json_t *list, const json_t *v,
		      const struct json_path *at)
{
	char text[VALUE_TEXT], one[VALUE_TEXT], wanted[200] = "";
	const json_t *x;
	size_t i;

	json_array_foreach(list, i, x)
	{
		size_t used = strlen(wanted);

		if (json_equal(x, v))
			return true;
		snprintf(wanted + used, sizeof(wanted) - used, "%s%s", used ? ", " : "",
			 value_text(one, x));
	}
	return fail_at(w, at, "is %s, not %s%s", value_text(text, v),
		       json_array_size(list) > 1 ? "one of " : "", wanted);
}

static bool fits_number(struct schema_walk *w, const json_t *schema, const json_t *v,
			const struct json_path *at)
{
	const json_t *low = json_object_get(schema, "minimum"),
		     *high = json_object_get(schema, "maximum"),
		     *above = json_object_get(schema, "exclusiveMinimum");
	double x = json_number_value(v);
	char text[VALUE_TEXT];

	if (low && x < json_number_value(low))
		return fail_at(w, at, "is %s, below %g", value_text(text, v),
			       json_number_value(low));
	if (high && x > json_number_value(high))
		return fail_at(w, at, "is %s, above %g", value_text(text, v),
			       json_number_value(high));
	if (above && x <= json_number_value(above))
		return fail_at(w, at, "is %s, not above %g", value_text(text, v),
			       json_number_value(above));
	return true;
}

static bool matches(struct schema_walk *w, const char *pattern, const char *text)
{
	unsigned i = 0;

	while (i < w->nr_patterns && w->patterns[i].text != pattern)
		i++;
	if (i == w->nr_patterns) {
		assert(i < ARRAY_SIZE(w->patterns)); /* of our own schemas */
		if (regcomp(&w->patterns[i].r, pattern, REG_EXTENDED | REG_NOSUB) != 0)
			return false;
		w->patterns[i].text = pattern;
		w->nr_patterns++;
	}
	return regexec(&w->patterns[i].r, text, 0, NULL, 0) == 0;
}

static bool fits_string(struct schema_walk *w, const json_t *schema, const json_t *v,
			const struct json_path *at)
{
	const char *pattern = json_string_value(json_object_get(schema, "pattern"));
	char text[VALUE_TEXT];

	if (json_string_length(v) <
	    (size_t)json_integer_value(json_object_get(schema, "minLength")))
		return fail_at(w, at, "is empty");
	if (pattern && !matches(w, pattern, json_string_value(v)))
		return fail_at(w, at, "is %s, which is not of the form %s", value_text(text, v),
			       pattern);
	return true;
}

/* --------------------------------------------------------- arrays and objects */

static bool schema_fits(struct schema_walk *w, const json_t *schema, const json_t *v,
			const struct json_path *at);

static bool fits_array(struct schema_walk *w, const json_t *schema, const json_t *v,
		       const struct json_path *at)
{
	const json_t *least = json_object_get(schema, "minItems"),
		     *most = json_object_get(schema, "maxItems"),
		     *first = json_object_get(schema, "prefixItems"),
		     *items = json_object_get(schema, "items"), *x;
	size_t nr = json_array_size(v), i;

	if (least && nr < (size_t)json_integer_value(least))
		return fail_at(w, at, "has %zu elements, fewer than %" JSON_INTEGER_FORMAT, nr,
			       json_integer_value(least));
	if (most && nr > (size_t)json_integer_value(most))
		return fail_at(w, at, "has %zu elements, more than %" JSON_INTEGER_FORMAT, nr,
			       json_integer_value(most));
	json_array_foreach(v, i, x)
	{
		struct json_path here = {.up = at, .index = i, .depth = at->depth + 1};
		const json_t *one = i < json_array_size(first) ? json_array_get(first, i) : items;

		if (one && !schema_fits(w, one, x, &here))
			return false;
	}
	return true;
}

/* The schema of a member, or NULL: anything. */
static const json_t *member_schema(struct schema_walk *w, const json_t *schema, const char *key)
{
	json_t *patterns = json_object_get(schema, "patternProperties"), *one;
	const json_t *other = json_object_get(schema, "additionalProperties"),
		     *known = json_object_get(json_object_get(schema, "properties"), key);
	const char *pattern;

	if (known)
		return known;
	json_object_foreach(patterns, pattern, one)
	{
		if (matches(w, pattern, key))
			return one;
	}
	return json_is_object(other) ? other : NULL;
}

static bool fits_object(struct schema_walk *w, const json_t *schema, const json_t *v,
			const struct json_path *at)
{
	const json_t *name, *x;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, name)
	{
		struct json_path here = {
			.up = at, .key = json_string_value(name), .depth = at->depth + 1};

		if (!json_object_get(v, here.key))
			return fail_at(w, &here, "is missing");
	}
	for (void *it = json_object_iter((json_t *)(uintptr_t)v); it;
	     it = json_object_iter_next((json_t *)(uintptr_t)v, it)) {
		struct json_path here = {
			.up = at, .key = json_object_iter_key(it), .depth = at->depth + 1};
		const json_t *one = member_schema(w, schema, here.key);

		x = json_object_iter_value(it);
		if (one && !schema_fits(w, one, x, &here))
			return false;
	}
	return true;
}

/* ----------------------------------------------------------------- the whole */

static const json_t *resolve(const struct schema_walk *w, const json_t *schema)
{
	const char *ref = json_string_value(json_object_get(schema, "$ref"));

	if (!ref || strncmp(ref, "#/$defs/", 8) != 0)
		return schema;
	return json_object_get(json_object_get(w->root, "$defs"), ref + 8);
}

static bool fits_any(struct schema_walk *w, const json_t *list, const json_t *v,
		     const struct json_path *at)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (schema_fits(w, one, v, at)) {
			*w->what = 0; /* what the others said */
			return true;
		}
	}
	return false;
}

static bool schema_fits(struct schema_walk *w, const json_t *schema, const json_t *v,
			const struct json_path *at)
{
	const json_t *part;
	bool ok = true;

	schema = resolve(w, schema);
	part = json_object_get(schema, "const");
	if (part) {
		json_t *list = json_pack("[O]", part);

		ok = fits_enum(w, list, v, at);
		json_decref(list);
	}
	part = json_object_get(schema, "enum");
	ok = ok && (!part || fits_enum(w, part, v, at));
	part = json_object_get(schema, "type");
	ok = ok && (!part || fits_type(w, part, v, at));
	part = json_object_get(schema, "anyOf");
	ok = ok && (!part || fits_any(w, part, v, at));
	if (!ok)
		return false;
	return json_is_object(v)   ? fits_object(w, schema, v, at)
	       : json_is_array(v)  ? fits_array(w, schema, v, at)
	       : json_is_number(v) ? fits_number(w, schema, v, at)
	       : json_is_string(v) ? fits_string(w, schema, v, at)
				   : true;
}

int schema_check(const json_t *schema, const json_t *value, const char *name,
		 struct penstock_err *err)
{
	struct schema_walk w = {.root = schema};
	const struct json_path top = {.up = NULL};
	int r = 0;

	if (!schema_fits(&w, w.root, value, &top))
		r = penstock_fail(err, -EINVAL, "'%s': %s", name, w.what);
	for (unsigned i = 0; i < w.nr_patterns; i++)
		regfree(&w.patterns[i].r);
	return r;
}

int schema_check_text(const char *schema, const json_t *value, const char *name,
		      struct penstock_err *err)
{
	json_t *parsed = json_loads(schema, 0, NULL);
	int r = parsed ? schema_check(parsed, value, name, err)
		       : penstock_fail(err, -ENOMEM, "out of memory");

	json_decref(parsed);
	return r;
}
