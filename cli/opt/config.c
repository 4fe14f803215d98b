/* SPDX-License-Identifier: Apache-2.0 */
/* One table says what "aio" may have, the library in which range; the rest is not ours. */
#include "cli/opt/config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/opt/opt.h"
#include "cli/opt/opt_json.h"

static const struct member {
	const char *name;
	const char *field; /* of struct penstock_opts, a number; NULL: true or false */
	uint32_t bit;      /* of its flags; 0: use_gds */
	bool off;          /* which true takes away */
} members[] = {
	{"block_size", "block", 0, false},
	{"queue_depth", "depth", 0, false},
	{"intra_op_parallelism", "threads", 0, false},
	{"thread_count", "threads", 0, false}, /* before DeepSpeed 0.16.4, and in its manual */
	{"num_threads", "threads", 0, false},  /* what ds_nvme_tune writes */
	{"single_submit", NULL, PENSTOCK_SINGLE_SUBMIT, false},
	{"overlap_events", NULL, PENSTOCK_NO_OVERLAP, true},
	{"use_gds", NULL, 0, false},
};

/* true, false, or the words, which ds_nvme_tune writes.  Returns 0 or -EINVAL. */
static int flag_value(bool *ret, const json_t *v)
{
	const char *word = json_string_value(v);

	*ret = json_is_true(v) || (word && !strcmp(word, "true"));
	return *ret || json_is_false(v) || (word && !strcmp(word, "false")) ? 0 : -EINVAL;
}

static int read_flag(struct penstock_opts *opts, const struct member *m, const json_t *v,
		     struct penstock_err *err)
{
	bool on;

	if (flag_value(&on, v) < 0)
		return penstock_fail(err, -EINVAL, "%s is neither true nor false", m->name);
	opts->flags = on != m->off ? opts->flags | m->bit : opts->flags & ~m->bit;
	if (!m->bit && on)
		opts->engine = "cufile";
	return 0;
}

static int read_number(struct penstock_opts *opts, const struct member *m, const json_t *v,
		       struct penstock_err *err)
{
	struct penstock_bounds is = {.min = 0};
	uint64_t n = json_is_integer(v) ? (uint64_t)json_integer_value(v) : 0;

	penstock_get_bounds(m->field, &is);
	if (n < is.min || n > is.max)
		return penstock_fail(err, -EINVAL, "%s is not a number of %" PRIu64 "..%" PRIu64,
				     m->name, is.min, is.max);
	if (!strcmp(m->field, "block"))
		opts->block = n;
	else if (!strcmp(m->field, "depth"))
		opts->depth = (uint32_t)n;
	else
		opts->threads = (uint32_t)n;
	return 0;
}

/* Ours; DeepSpeed does not look at it.  The name outlives the JSON. */
static int read_engine(struct penstock_opts *opts, const json_t *v, struct penstock_err *err)
{
	const char *name = json_string_value(v);

	for (unsigned i = 0; name && penstock_engine_name(i); i++)
		if (!strcmp(penstock_engine_name(i), name)) {
			opts->engine = penstock_engine_name(i);
			return 0;
		}
	return penstock_fail(err, -EINVAL, "engine is none of this build; see `penstock info'");
}

static int read_member(struct penstock_opts *opts, const char *key, const json_t *v,
		       struct penstock_err *err)
{
	if (!strcmp(key, "engine"))
		return read_engine(opts, v, err);
	for (unsigned i = 0; i < ARRAY_SIZE(members); i++)
		if (!strcmp(members[i].name, key))
			return members[i].field ? read_number(opts, &members[i], v, err)
						: read_flag(opts, &members[i], v, err);
	return penstock_fail(err, -EINVAL, "unknown member '%s'", key);
}

int cli_config_read(struct penstock_opts *opts, const struct cli_cmd *cmd, const char *file)
{
	json_t *root = cli_json_load(cmd, "--config", file), *aio, *v;
	struct penstock_err err = {0, ""};
	const char *key;
	int r = 0;

	if (!root)
		return CLI_USAGE;
	aio = json_object_get(root, "aio");
	if (!json_is_object(aio))
		r = penstock_fail(&err, -EINVAL, "has no object 'aio'");
	json_object_foreach(aio, key, v)
	{
		if (r == 0)
			r = read_member(opts, key, v, &err);
	}
	json_decref(root);
	if (r < 0)
		return cli_fail(cmd, CLI_USAGE, "--config: '%s': %s", file, err.msg);
	return CLI_OK;
}
