/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML file of `penstock kv': every key of the table by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/kv/kv_config.h"
#include "cli/opt/opt.h"

/* Values no key has by default; one of them suits each. */
static const char *const values[] = {"7", "70000", "0.37", "[3, 9]", "uniform"};

/* "rag.top_k_chunks" and "7" to "rag: {top_k_chunks: 7}". */
static void make_yaml(char *out, size_t size, const char *path, const char *value)
{
	unsigned depth = 0;
	size_t used = 0;

	for (; *path && used + 4 < size; path++) {
		if (*path == '.')
			used += (size_t)snprintf(out + used, size - used, ": {");
		else
			out[used++] = *path;
		depth += *path == '.';
	}
	used += (size_t)snprintf(out + used, size - used, ": %s", value);
	while (depth-- && used + 1 < size)
		out[used++] = '}';
	out[used] = 0;
}

/* Number of problems. */
static unsigned read_yaml(struct kv_config *c, const char *text, bool compat)
{
	struct cli_problems problems = {.nr = 0}, warnings = {.nr = 0};
	struct kv_params p = {.compat = compat};
	unsigned nr;

	assert_int_equal(kv_config_defaults(c), 0);
	kv_config_parse(c, text, strlen(text), "file", &problems, &warnings);
	p.config = *c;
	if (compat)
		kv_params_as_upstream(&p);
	*c = p.config;
	nr = problems.nr;
	cli_problems_fini(&problems);
	cli_problems_fini(&warnings);
	return nr;
}

/* All but the models, which are a pointer. */
static bool same(const struct kv_config *a, const struct kv_config *b)
{
	return !memcmp(a, b, offsetof(struct kv_config, models));
}

static void every_key_is_taken_and_sets_something(void **state)
{
	struct kv_config defaults, upstream, c;
	const char *path;
	bool dead;

	(void)state;
	assert_int_equal(kv_config_defaults(&defaults), 0);
	assert_int_equal(read_yaml(&upstream, "", true), 0);
	for (unsigned i = 0; (path = kv_config_key(i, &dead)); i++) {
		unsigned taken = 0;
		bool alive = false;
		char text[200];

		for (unsigned k = 0; k < ARRAY_SIZE(values); k++) {
			make_yaml(text, sizeof(text), path, values[k]);
			if (read_yaml(&c, text, false) == 0) {
				taken++;
				if (same(&c, &defaults))
					fail_msg("'%s' has no effect", text);
			}
			kv_config_fini(&c);
			/* what is wrong is wrong with compat, too */
			alive |= read_yaml(&c, text, true) == 0 && !same(&c, &upstream);
			kv_config_fini(&c);
		}
		if (!taken)
			fail_msg("%s takes nothing", path);
		if (alive == dead)
			fail_msg("%s with compat: %s", path, dead ? "alive" : "dead");
	}
	kv_config_fini(&defaults);
	kv_config_fini(&upstream);
}

static void no_key_is_there_twice(void **state)
{
	const char *a, *b;
	bool dead;

	(void)state;
	for (unsigned i = 0; (a = kv_config_key(i, &dead)); i++)
		for (unsigned k = i + 1; (b = kv_config_key(k, &dead)); k++)
			assert_string_not_equal(a, b);
}

static void what_is_wrong_changes_nothing(void **state)
{
	static const char *const texts[] = {
		"decode: {batch_size: x}",
		"eviction: {target_usage_ratio: 3}",
		"user_templates: {coding: {context_range: [9, 1]}}",
		"rag: {retrieval_distribution: [a]}",
		"validation_limits: {max_users: 0}",
	};
	struct kv_config defaults, c;

	(void)state;
	assert_int_equal(kv_config_defaults(&defaults), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(read_yaml(&c, texts[i], false), 1);
		assert_true(same(&c, &defaults));
		kv_config_fini(&c);
	}
	kv_config_fini(&defaults);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_taken_and_sets_something),
		cmocka_unit_test(no_key_is_there_twice),
		cmocka_unit_test(what_is_wrong_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
