/* SPDX-License-Identifier: Apache-2.0 */
/* What is read as a result: each member of the samples is damaged in turn.  schema ROOT */
#include <errno.h>

#include "base/util.h"
#include "common/t.h"
#include "load/report/result/result_reader.h"
#include "load/report/result/schema.h"

static const char *root_folder;

/* Schemas by hand, and what is said of values. */
static void a_complaint_names_the_member_what_it_is_and_what_it_should_be(void **state)
{
	static const struct {
		const char *schema, *value, *says; /* NULL: nothing */
	} cases[] = {
		{"{'type': 'string'}", "[3]", "'f': [0] is 3, not a string"},
		{"{'type': ['number', 'null']}", "[true]",
		 "'f': [0] is true, not a number or null"},
		{"{'type': 'integer'}", "[3.0]", NULL},
		{"{'type': 'integer'}", "[3.5]", "'f': [0] is 3.5, not a whole number"},
		{"{'type': 'integer'}", "[1e300]", NULL},
		{"{'enum': ['a', null]}", "[null]", NULL},
		{"{'enum': ['a', 'b']}", "['c']", "'f': [0] is \"c\", not one of \"a\", \"b\""},
		{"{'const': 1}", "[2]", "'f': [0] is 2, not 1"},
		{"{'minimum': 0}", "[-1]", "'f': [0] is -1, below 0"},
		{"{'minimum': 0}", "['x']", NULL},
		{"{'maximum': 1}", "[1.5]", "'f': [0] is 1.5, above 1"},
		{"{'exclusiveMinimum': 0}", "[0]", "'f': [0] is 0, not above 0"},
		{"{'minLength': 1}", "['']", "'f': [0] is empty"},
		{"{'pattern': '^[0-9]+$'}", "['1x']",
		 "'f': [0] is \"1x\", which is not of the form ^[0-9]+$"},
		{"{'minItems': 2}", "[[1]]", "'f': [0] has 1 elements, fewer than 2"},
		{"{'maxItems': 0}", "[[1]]", "'f': [0] has 1 elements, more than 0"},
		{"{'prefixItems': [{'type': 'string'}], 'items': {'type': 'null'}}",
		 "[['x', null, 3]]", "'f': [0][2] is 3, not null"},
		{"{'required': ['a']}", "[{'b': 1}]", "'f': [0].a is missing"},
		{"{'properties': {'a': {'type': 'null'}}, 'additionalProperties': false}",
		 "[{'a': null, 'b': 1}]", NULL},
		{"{'additionalProperties': {'type': 'null'}}", "[{'a': {}}]",
		 "'f': [0].a is an object, not null"},
		{"{'patternProperties': {'^p': {'type': 'null'}}}", "[{'q': 1, 'p9': []}]",
		 "'f': [0].p9 is an array, not null"},
		{"{'anyOf': [{'type': 'null'}, {'type': 'object', 'required': ['a']}]}", "[{}]",
		 "'f': [0].a is missing"},
		{"{'anyOf': [{'type': 'null'}, {'type': 'string'}]}", "['x']", NULL},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct penstock_err err = {0, ""};
		char text[400];
		json_t *v, *schema;
		int r;

		snprintf(text, sizeof(text), "%s", cases[i].value);
		for (char *c = text; *c; c++)
			*c = *c == '\'' ? '"' : *c;
		v = json_loads(text, 0, NULL);
		assert_non_null(v);
		snprintf(text, sizeof(text), "{\"items\": %s}", cases[i].schema);
		for (char *c = text; *c; c++)
			*c = *c == '\'' ? '"' : *c;
		schema = json_loads(text, 0, NULL);
		r = schema_check(schema, v, "f", &err);
		assert_string_equal(err.msg, cases[i].says ? cases[i].says : "");
		assert_int_equal(r, cases[i].says ? -EINVAL : 0);
		json_decref(v);
		json_decref(schema);
	}
}

/* ------------------------------------------------------------------- damage */

struct damage {
	json_t *root;
	unsigned tried, refused;
};

static void try_it(struct damage *d)
{
	struct penstock_err err = {0, ""};
	int r = report_check(d->root, "f", &err);

	d->tried++;
	d->refused += r < 0;
	assert_true(r == 0 || r == -EINVAL);
	assert_true(r == 0 || (err.msg[0] && !strchr(err.msg, '\n')));
}

static void damage_below(struct damage *d, json_t *v);

/* All kinds of values in the place of one. */
static void damage_member(struct damage *d, json_t *object, const char *key)
{
	json_t *was = json_incref(json_object_get(object, key));
	json_t *others = json_loads("[null, true, -1, 0.5, \"x\", [], {}]", 0, NULL);
	const json_t *other;
	size_t i;

	json_array_foreach(others, i, other)
	{
		json_object_set(object, key, (json_t *)(uintptr_t)other);
		try_it(d);
	}
	json_object_del(object, key);
	try_it(d);
	json_object_set_new(object, key, was);
	json_decref(others);
	damage_below(d, was);
}

static void damage_below(struct damage *d, json_t *v)
{
	const char *key;
	json_t *keys = json_array(), *name, *x;
	size_t i;

	json_object_foreach(v, key, x) json_array_append_new(keys, json_string(key));
	json_array_foreach(keys, i, name) damage_member(d, v, json_string_value(name));
	json_decref(keys);
	/* one element of an array speaks for the others */
	if (json_array_size(v))
		damage_below(d, json_array_get(v, 0));
}

/* Few series and samples are enough, and quick. */
static void shrink(json_t *v, size_t most)
{
	json_t *x;
	const char *key;

	json_object_foreach(v, key, x)
	{
		bool seconds = !strcmp(key, "seconds") || !strcmp(key, "per_second");

		shrink(x, seconds ? SIZE_MAX : most);
	}
	while (json_is_array(v) && json_array_size(v) > most)
		json_array_remove(v, json_array_size(v) - 1);
	for (size_t i = 0; i < json_array_size(v); i++)
		shrink(json_array_get(v, i), most);
}

static void whatever_is_damaged_is_refused_in_one_line_or_does_no_harm(void **state)
{
	static const char *const names[] = {"bench", "kv", "replay", "sweep", "tune"};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		struct penstock_err err = {0, ""};
		struct damage d = {.root = NULL};
		char path[4096];

		snprintf(path, sizeof(path), "%s/tests/report/sample-%s.json", root_folder,
			 names[i]);
		assert_int_equal(report_read_any(&d.root, path, &err), 0);
		shrink(d.root, 3);
		while (json_array_size(json_object_get(d.root, "series")) > 1)
			json_array_remove(json_object_get(d.root, "series"), 1);
		try_it(&d);
		assert_int_equal(d.refused, 0);
		damage_below(&d, d.root);
		assert_true(d.refused > d.tried / 2);
		json_decref(d.root);
	}
}

static void columns_of_seconds_have_one_length(void **state)
{
	struct penstock_err err = {0, ""};
	json_t *root = NULL, *seconds;
	char path[4096];

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/report/sample-replay.json", root_folder);
	assert_int_equal(report_read_any(&root, path, &err), 0);
	seconds = json_object_get(json_object_get(root, "replay"), "seconds");
	json_array_remove(json_object_get(seconds, "t"), 0);
	assert_int_equal(report_check(root, "f", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "'f': replay.seconds."));
	json_decref(root);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_complaint_names_the_member_what_it_is_and_what_it_should_be),
		cmocka_unit_test(whatever_is_damaged_is_refused_in_one_line_or_does_no_harm),
		cmocka_unit_test(columns_of_seconds_have_one_length),
	};

	root_folder = argc > 1 ? argv[1] : ".";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
