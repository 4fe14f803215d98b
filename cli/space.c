/* SPDX-License-Identifier: Apache-2.0 */
/* Upstream takes any key and passes it on; here a key or a value that is not understood ends it. */
#include "cli/space.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include <sluice/sluice.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/how.h"
#include "load/run/pool.h"

/* Options of ds_io that have one value here, whatever the configuration. */
static const struct {
	const char *key;
	bool flag;
	const char *why;
} fixed[] = {
	{"threads", false, "one worker per folder"}, /* the old name of multi_process */
	{"multi_process", false, "one worker per folder"},
	{"gpu", true, "use --gpu"},
	{"use_gds", true, "use --gds"},
};

static bool is_flag(enum space_kind kind)
{
	return kind == SPACE_SEQUENTIAL || kind == SPACE_SINGLE;
}

/* A word of a list that ends with NULL. */
static int word(uint64_t *ret, const char *text, const char *const *words)
{
	for (unsigned i = 0; words[i]; i++)
		if (!strcmp(words[i], text)) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

/* 32, "32", "1M", true, "io_uring": what @kind takes. */
static int parse(uint64_t *ret, enum space_kind kind, const json_t *v)
{
	const char *text = json_string_value(v);

	*ret = 0;
	if (is_flag(kind)) {
		*ret = json_is_true(v);
		return json_is_boolean(v) ? 0 : -EINVAL;
	}
	if (kind == SPACE_ENGINE)
		return text && cli_engine_known(text) ? 0 : -EINVAL;
	if (kind == SPACE_MEMORY)
		return text ? word(ret, text, pool_words) : -EINVAL;
	if (text)
		return sluice_size_parse(ret, text);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return -EINVAL;
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int add_value(struct space *s, enum space_kind kind, const json_t *v, struct sluice_err *err)
{
	char *text;
	uint64_t n;

	if (parse(&n, kind, v) == 0)
		return space_add(s, kind, n, kind == SPACE_ENGINE ? json_string_value(v) : NULL,
				 err);
	text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	sluice_fail(err, -EINVAL, "%s: %s is not %s", space_names[kind], text ? text : "a value",
		    is_flag(kind)              ? "true or false"
		    : kind == SPACE_ENGINE     ? "an engine of this build"
		    : kind == SPACE_MEMORY     ? "a kind of memory"
		    : kind == SPACE_BLOCK_SIZE ? "a size"
					       : "a number");
	free(text);
	return -EINVAL;
}

static int add_key(struct space *s, const char *key, const json_t *list, struct sluice_err *err)
{
	const json_t *v;
	size_t i;
	int r = 0;

	if (!json_is_array(list) || !json_array_size(list))
		return sluice_fail(err, -EINVAL, "%s: is not a list of values", key);
	for (unsigned k = 0; k < ARRAY_SIZE(fixed); k++) {
		v = json_array_get(list, 0);
		if (strcmp(fixed[k].key, key) != 0)
			continue;
		if (json_array_size(list) == 1 &&
		    (fixed[k].flag ? json_is_false(v) : json_integer_value(v) == 1))
			return 0;
		return sluice_fail(err, -EINVAL, "%s: cannot vary here: %s", key, fixed[k].why);
	}
	for (unsigned kind = 0; kind < SPACE_KINDS; kind++) {
		if (strcmp(space_names[kind], key) != 0)
			continue;
		json_array_foreach(list, i, v)
		{
			if (r == 0)
				r = add_value(s, kind, v, err);
		}
		return r;
	}
	return sluice_fail(err, -EINVAL,
			   "unknown key '%s'; there are block_size, queue_depth, "
			   "sequential_requests, single_submit, io_parallel, engine, "
			   "memory",
			   key);
}

int cli_space_read(struct space *out, const struct cli_cmd *cmd, const char *file)
{
	json_error_t e;
	json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &e), *list;
	struct space s = {.nr = 0};
	struct sluice_err err = {0, ""};
	const char *key;
	int r = 0;

	if (!root)
		return cli_fail(cmd, CLI_USAGE, "--sweep_config: '%s': line %d: %s", file,
				e.line > 0 ? e.line : 0, e.text);
	if (!json_is_object(root))
		r = sluice_fail(&err, -EINVAL, "is not an object of lists");
	json_object_foreach(root, key, list)
	{
		if (r == 0)
			r = add_key(&s, key, list, &err);
	}
	if (r == 0 && space_points(&s) > CLI_SPACE_MAX)
		r = sluice_fail(&err, -EINVAL, "%u configurations are too many", space_points(&s));
	json_decref(root);
	if (r < 0) {
		space_fini(&s);
		return cli_fail(cmd, r == -ENOMEM ? CLI_FAILED : CLI_USAGE,
				"--sweep_config: '%s': %s", file, err.msg);
	}
	*out = s;
	return CLI_OK;
}
