/* SPDX-License-Identifier: Apache-2.0 */
/* Upstream takes any key and passes it on; here a key or a value that is not understood ends it. */
#include "cli/opt/opt_space.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include <penstock/penstock.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/opt/opt.h"
#include "cli/opt/opt_json.h"
#include "cli/opt/transfer_opts.h"
#include "load/bed/buffers.h"

/* Options of ds_io that have one value here, whatever the configuration. */
enum other_type { FLAG, COUNT, SIZE };
static const struct other {
	const char *key;
	enum other_type type;
	enum { SET, IGNORE, REFUSE } act; /* on another value than @usual */
	uint64_t usual;                   /* what this program does anyway */
	const char *why;
	size_t at;     /* of SET ... */
	uint64_t most; /* ... and from 1 on */
} others[] = {
	{"io_size", SIZE, SET, 0, "there is one size for all",
	 offsetof(struct cli_space_job, io_size), 1ull << 40},
	{"loops", COUNT, SET, 0, "all have the same number", offsetof(struct cli_space_job, loops),
	 100000},
	{"gpu", FLAG, SET, 0, "use memory", offsetof(struct cli_space_job, gpu), 1},
	{"use_gds", FLAG, SET, 0, "use engine", offsetof(struct cli_space_job, gds), 1},
	{"threads", COUNT, REFUSE, 1, "one worker per folder", 0, 0}, /* old name of the next */
	{"multi_process", COUNT, REFUSE, 1, "one worker per folder", 0, 0},
	{"validate", FLAG, REFUSE, 0, "`penstock bench --verify' checks contents", 0, 0},
	{"include_warmup_time", FLAG, REFUSE, 0, "a warm-up is never counted", 0, 0},
	{"different_file_each_iteration", FLAG, REFUSE, 0, "there is one file per folder", 0, 0},
	{"warmup_loops", COUNT, IGNORE, 0, "whether to warm up is not a choice", 0, 0},
	{"fast_io_size", SIZE, IGNORE, 0, "it is of torch's engines", 0, 0},
	{"torch_legacy_save", FLAG, IGNORE, 0, "it is of torch's engines", 0, 0},
	{"slow_bounce_buffer", FLAG, IGNORE, 0, "there is one way to bounce", 0, 0},
	{"use_accelerator_pin_memory", FLAG, IGNORE, 0, "see memory", 0, 0},
};

/* Options of ds_io that are options of the command, not settings. */
static const struct {
	const char *key, *instead;
} elsewhere[] = {
	{"folder", "use --target"},
	{"folder_to_device_mapping", "use --target"},
	{"read", "use --read-only or --write-only"},
};

struct reader {
	struct config_space space;
	struct cli_space_job *job;
};

static bool is_flag(enum config_space_kind kind)
{
	return kind == CONFIG_SPACE_SEQUENTIAL || kind == CONFIG_SPACE_SINGLE;
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
static int space_parse(uint64_t *ret, enum config_space_kind kind, const json_t *v)
{
	const char *text = json_string_value(v);

	*ret = 0;
	if (is_flag(kind)) {
		*ret = json_is_true(v);
		return json_is_boolean(v) ? 0 : -EINVAL;
	}
	if (kind == CONFIG_SPACE_ENGINE)
		return text && cli_engine_known(text) ? 0 : -EINVAL;
	if (kind == CONFIG_SPACE_MEMORY)
		return text ? word(ret, text, bed_memory_words) : -EINVAL;
	if (text)
		return penstock_size_parse(ret, text);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return -EINVAL;
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int space_add_value(struct config_space *s, enum config_space_kind kind, const json_t *v,
			   struct penstock_err *err)
{
	char *text;
	uint64_t n;

	if (space_parse(&n, kind, v) == 0)
		return config_space_add(
			s, kind, n, kind == CONFIG_SPACE_ENGINE ? json_string_value(v) : NULL, err);
	text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	penstock_fail(err, -EINVAL, "%s: %s is not %s", config_space_names[kind],
		      text ? text : "a value",
		      is_flag(kind)                     ? "true or false"
		      : kind == CONFIG_SPACE_ENGINE     ? "an engine of this build"
		      : kind == CONFIG_SPACE_MEMORY     ? "a kind of memory"
		      : kind == CONFIG_SPACE_BLOCK_SIZE ? "a size"
							: "a number");
	free(text);
	return -EINVAL;
}

static int parse_other(uint64_t *ret, enum other_type type, const json_t *v)
{
	*ret = json_is_true(v);
	if (type == FLAG)
		return json_is_boolean(v) ? 0 : -EINVAL;
	if (type == SIZE && json_is_string(v))
		return penstock_size_parse(ret, json_string_value(v));
	*ret = (uint64_t)json_integer_value(v);
	return json_is_integer(v) && json_integer_value(v) >= 0 ? 0 : -EINVAL;
}

static void set_other(struct cli_space_job *job, const struct other *o, uint64_t n)
{
	void *field = (char *)job + o->at;

	if (o->type == FLAG)
		*(bool *)field = n;
	else
		*(uint64_t *)field = n;
}

static int add_other(struct cli_space_job *job, const struct other *o, const json_t *list,
		     struct penstock_err *err)
{
	uint64_t n;

	if (json_array_size(list) != 1)
		return penstock_fail(err, -EINVAL, "%s: cannot vary here: %s", o->key, o->why);
	if (parse_other(&n, o->type, json_array_get(list, 0)) < 0)
		return penstock_fail(err, -EINVAL, "%s: is not %s", o->key,
				     o->type == FLAG    ? "true or false"
				     : o->type == COUNT ? "a number"
							: "a size");
	if (o->act == SET && (n > o->most || (o->type != FLAG && !n)))
		return penstock_fail(err, -EINVAL, "%s: %" PRIu64 " is outside 1..%" PRIu64, o->key,
				     n, o->most);
	if (o->act == SET)
		set_other(job, o, n);
	else if (o->act == REFUSE && n != o->usual)
		return penstock_fail(err, -EINVAL, "%s: cannot be had here: %s", o->key, o->why);
	return 0;
}

/* After all that could be refused, so that a refusal is one line. */
static void note_ignored(const struct cli_cmd *cmd, const json_t *root)
{
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
		const json_t *list = json_object_get(root, others[i].key);
		uint64_t n;

		if (others[i].act == IGNORE && list &&
		    parse_other(&n, others[i].type, json_array_get(list, 0)) == 0 &&
		    n != others[i].usual)
			cli_note(cmd, "--sweep-config: %s is ignored: %s", others[i].key,
				 others[i].why);
	}
}

/* ["aio_handle"], which is ds_io's default, is ours as well. */
static bool default_engine(enum config_space_kind kind, const json_t *list)
{
	const char *name = json_string_value(json_array_get(list, 0));

	return kind == CONFIG_SPACE_ENGINE && json_array_size(list) == 1 && name &&
	       !strcmp(name, "aio_handle");
}

static int add_axis(struct config_space *s, enum config_space_kind kind, const json_t *list,
		    struct penstock_err *err)
{
	const json_t *v;
	size_t i;
	int r = 0;

	if (default_engine(kind, list))
		return 0;
	json_array_foreach(list, i, v)
	{
		if (r == 0)
			r = space_add_value(s, kind, v, err);
	}
	return r;
}

static int space_add_key(struct reader *r, const char *key, const json_t *list,
			 struct penstock_err *err)
{
	for (unsigned i = 0; i < ARRAY_SIZE(elsewhere); i++)
		if (!strcmp(elsewhere[i].key, key))
			return penstock_fail(err, -EINVAL, "%s: is not a setting: %s", key,
					     elsewhere[i].instead);
	if (!json_is_array(list) || !json_array_size(list))
		return penstock_fail(err, -EINVAL, "%s: is not a list of values", key);
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(others[i].key, key))
			return add_other(r->job, &others[i], list, err);
	for (unsigned kind = 0; kind < CONFIG_SPACE_KINDS; kind++)
		if (!strcmp(config_space_names[kind], key))
			return add_axis(&r->space, kind, list, err);
	return penstock_fail(err, -EINVAL,
			     "unknown key '%s'; there are block_size, queue_depth, "
			     "sequential_requests, single_submit, io_parallel, engine, "
			     "memory, and other options of ds_io with one value",
			     key);
}

/* What excludes each other on the command line does so here. */
static int check_whole(const struct reader *r, struct penstock_err *err)
{
	if (config_space_points(&r->space) > CLI_SPACE_MAX)
		return penstock_fail(err, -EINVAL, "%u configurations are too many, at most %d",
				     config_space_points(&r->space), CLI_SPACE_MAX);
	if (r->job->gpu && config_space_value(&r->space, 0, CONFIG_SPACE_MEMORY))
		return penstock_fail(err, -EINVAL, "gpu and memory exclude each other");
	if (r->job->gds && config_space_value(&r->space, 0, CONFIG_SPACE_ENGINE))
		return penstock_fail(err, -EINVAL,
				     "use_gds is the engine cufile: leave out engine");
	return 0;
}

int cli_space_read(struct config_space *out, struct cli_space_job *job, const struct cli_cmd *cmd,
		   const char *file)
{
	json_t *root = cli_json_load(cmd, "--sweep-config", file), *list;
	struct reader reader = {.job = job};
	struct penstock_err err = {0, ""};
	const char *key;
	int r = 0;

	*job = (struct cli_space_job){.io_size = 0};
	if (!root)
		return CLI_USAGE;
	if (!json_is_object(root))
		r = penstock_fail(&err, -EINVAL, "is not an object of lists");
	json_object_foreach(root, key, list)
	{
		if (r == 0)
			r = space_add_key(&reader, key, list, &err);
	}
	if (r == 0)
		r = check_whole(&reader, &err);
	if (r == 0)
		note_ignored(cmd, root);
	json_decref(root);
	if (r < 0) {
		config_space_fini(&reader.space);
		return cli_fail(cmd, r == -ENOMEM ? CLI_FAILED : CLI_USAGE,
				"--sweep-config: '%s': %s", file, err.msg);
	}
	*out = reader.space;
	return CLI_OK;
}

int cli_space_check(const struct config_space *s, const struct cli_space_job *job, bool gpu,
		    const char *engine, const struct cli_cmd *cmd)
{
	if (gpu && config_space_value(s, 0, CONFIG_SPACE_MEMORY))
		return cli_usage(cmd, "--gpu and memory of --sweep-config exclude each other");
	if (engine && config_space_value(s, 0, CONFIG_SPACE_ENGINE))
		return cli_usage(cmd, "%s and engine of --sweep-config exclude each other", engine);
	if (job->gds && !gpu && !job->gpu)
		return cli_usage(cmd, "--sweep-config: use_gds goes with gpu only");
	return CLI_OK;
}
