/* SPDX-License-Identifier: Apache-2.0 */
/* One table says what "aio" may have and in which range; the rest of the file is not ours. */
#include "cli/opt/config.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/opt/json.h"
#include "cli/opt/opt.h"

enum which { BLOCK, DEPTH, THREADS, SINGLE, OVERLAP, GDS };

static const struct member {
	const char *name;
	enum which which;
	bool flag;
	json_int_t min, max;
} members[] = {
	{"block_size", BLOCK, false, 512, 1 << 30},
	{"queue_depth", DEPTH, false, 1, 4096},
	{"intra_op_parallelism", THREADS, false, 1, 256},
	{"thread_count", THREADS, false, 1, 256}, /* before DeepSpeed 0.16.4, and in its manual */
	{"num_threads", THREADS, false, 1, 256},  /* what ds_nvme_tune writes */
	{"single_submit", SINGLE, true, 0, 0},
	{"overlap_events", OVERLAP, true, 0, 0},
	{"use_gds", GDS, true, 0, 0},
};

/* true, false, or the words, which ds_nvme_tune writes.  Returns 0 or -EINVAL. */
static int flag_value(bool *ret, const json_t *v)
{
	const char *word = json_string_value(v);

	*ret = json_is_true(v) || (word && !strcmp(word, "true"));
	return *ret || json_is_false(v) || (word && !strcmp(word, "false")) ? 0 : -EINVAL;
}

static void set_flag(struct sluice_opts *opts, uint32_t flag, bool on)
{
	opts->flags = on ? opts->flags | flag : opts->flags & ~flag;
}

static void config_set(struct sluice_opts *opts, enum which which, json_int_t n, bool on)
{
	switch (which) {
	case BLOCK:
		opts->block = (uint64_t)n;
		break;
	case DEPTH:
		opts->depth = (uint32_t)n;
		break;
	case THREADS:
		opts->threads = (uint32_t)n;
		break;
	case SINGLE:
		set_flag(opts, SLUICE_SINGLE_SUBMIT, on);
		break;
	case OVERLAP:
		set_flag(opts, SLUICE_NO_OVERLAP, !on);
		break;
	case GDS:
		opts->engine = on ? "cufile" : opts->engine;
		break;
	}
}

/* Ours; DeepSpeed does not look at it.  The name outlives the JSON. */
static int read_engine(struct sluice_opts *opts, const json_t *v, struct sluice_err *err)
{
	const char *name = json_string_value(v);

	for (unsigned i = 0; name && sluice_engine_name(i); i++)
		if (!strcmp(sluice_engine_name(i), name)) {
			opts->engine = sluice_engine_name(i);
			return 0;
		}
	return sluice_fail(err, -EINVAL, "engine is none of this build; see `sluice info'");
}

static int read_member(struct sluice_opts *opts, const char *key, const json_t *v,
		       struct sluice_err *err)
{
	if (!strcmp(key, "engine"))
		return read_engine(opts, v, err);
	for (unsigned i = 0; i < ARRAY_SIZE(members); i++) {
		const struct member *m = &members[i];
		bool on = false;

		if (strcmp(m->name, key) != 0)
			continue;
		if (m->flag && flag_value(&on, v) < 0)
			return sluice_fail(err, -EINVAL, "%s is neither true nor false", key);
		if (!m->flag && (!json_is_integer(v) || json_integer_value(v) < m->min ||
				 json_integer_value(v) > m->max))
			return sluice_fail(err, -EINVAL, "%s is not a number of %lld..%lld", key,
					   (long long)m->min, (long long)m->max);
		config_set(opts, m->which, json_integer_value(v), on);
		return 0;
	}
	return sluice_fail(err, -EINVAL, "unknown member '%s'", key);
}

int cli_config_read(struct sluice_opts *opts, const struct cli_cmd *cmd, const char *file)
{
	json_t *root = cli_json_load(cmd, "--config", file), *aio, *v;
	struct sluice_err err = {0, ""};
	const char *key;
	int r = 0;

	if (!root)
		return CLI_USAGE;
	aio = json_object_get(root, "aio");
	if (!json_is_object(aio))
		r = sluice_fail(&err, -EINVAL, "has no object 'aio'");
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
