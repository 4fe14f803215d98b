/* SPDX-License-Identifier: Apache-2.0 */
/* Options that each are an axis of a space: --queue-depth 4 8, --single-submit yes. */
#include <errno.h>
#include <string.h>

#include <penstock/penstock.h>

#include "base/size.h"
#include "cli/opt/opt.h"
#include "cli/opt/opt_space.h"
#include "cli/opt/transfer_opts.h"
#include "load/bed/buffers.h"

/* As options are called; those that are flags elsewhere take words. */
static const char *const names[CONFIG_SPACE_KINDS] = {
	"block-size", "queue-depth", "sequential-requests", "single-submit", "threads",
	"engine",     "memory",
};

/* One word to its value; false: not understood. */
static bool axis_value(enum config_space_kind kind, const char *word, uint64_t *n)
{
	static const char *const yes_no[] = {"no", "yes", NULL};
	bool flag = kind == CONFIG_SPACE_SEQUENTIAL || kind == CONFIG_SPACE_SINGLE;
	const char *const *words = flag                          ? yes_no
				   : kind == CONFIG_SPACE_MEMORY ? bed_memory_words
								 : NULL;

	for (uint64_t i = 0; words && words[i]; i++) {
		*n = i;
		if (!strcmp(words[i], word))
			return true;
	}
	return !words && penstock_size_parse(n, word) == 0;
}

static int axis_add_value(struct config_space *s, enum config_space_kind kind, uint64_t n,
			  const char *text, const struct cli_cmd *cmd)
{
	struct penstock_err err;
	int r = config_space_add(s, kind, n, text, &err);

	if (r == -ENOMEM)
		return cli_fail(cmd, CLI_FAILED, "%s", err.msg);
	/* it begins with the name of the axis: ours may be another */
	return r < 0 ? cli_usage(cmd, "--%s%s", names[kind], err.msg + strcspn(err.msg, ":"))
		     : CLI_OK;
}

static int add_word(struct config_space *s, enum config_space_kind kind, const char *word,
		    const struct cli_cmd *cmd)
{
	uint64_t n;

	if (!axis_value(kind, word, &n))
		return cli_usage(cmd, "--%s: '%s' is not understood", names[kind], word);
	return axis_add_value(s, kind, n, NULL, cmd);
}

/* ds_io's names mean the first usable: alone they are no axis. */
static int add_engine(struct config_space *s, const char *word, bool alone,
		      const struct cli_cmd *cmd)
{
	const char *engine;
	int r = cli_engine(&engine, word, cmd);

	if (r != CLI_OK || (!engine && alone))
		return r;
	if (!engine)
		return cli_usage(cmd, "--engine: %s is the first usable: name it instead", word);
	return axis_add_value(s, CONFIG_SPACE_ENGINE, 0, engine, cmd);
}

static int add_words(struct config_space *s, enum config_space_kind kind, const struct cli_list *l,
		     const struct cli_cmd *cmd)
{
	int r = CLI_OK;

	for (size_t i = 0; i < l->nr && r == CLI_OK; i++) {
		const char *word = l->items[i];
		bool both = !strcmp(word, "both") &&
			    (kind == CONFIG_SPACE_SEQUENTIAL || kind == CONFIG_SPACE_SINGLE);

		if (kind == CONFIG_SPACE_ENGINE)
			r = add_engine(s, word, l->nr == 1, cmd);
		else if (!both)
			r = add_word(s, kind, word, cmd);
		for (uint64_t n = 0; both && n < 2 && r == CLI_OK; n++)
			r = axis_add_value(s, kind, n, NULL, cmd);
	}
	return r;
}

static int copy_axis(struct config_space *s, const struct config_space_axis *a,
		     const struct cli_cmd *cmd)
{
	int r = CLI_OK;

	for (unsigned i = 0; i < a->nr && r == CLI_OK; i++)
		r = axis_add_value(s, a->kind, a->values[i].n, a->values[i].text, cmd);
	return r;
}

int cli_space_replace(struct config_space *s, const struct cli_cmd *cmd,
		      const struct cli_list *axes)
{
	struct config_space base = *s;
	bool there[CONFIG_SPACE_KINDS] = {false};
	int r = CLI_OK;

	*s = (struct config_space){.nr = 0};
	for (unsigned i = 0; i < base.nr && r == CLI_OK; i++) {
		const struct config_space_axis *a = &base.axes[i];

		there[a->kind] = true;
		r = axes[a->kind].nr ? add_words(s, a->kind, &axes[a->kind], cmd)
				     : copy_axis(s, a, cmd);
	}
	for (unsigned kind = 0; kind < CONFIG_SPACE_KINDS && r == CLI_OK; kind++)
		if (!there[kind])
			r = add_words(s, kind, &axes[kind], cmd);
	if (r == CLI_OK && config_space_points(s) > CLI_SPACE_MAX)
		r = cli_usage(cmd,
			      "%u configurations are too many, at most %d; give fewer values of "
			      "--block-size, --queue-depth or others",
			      config_space_points(s), CLI_SPACE_MAX);
	config_space_fini(&base);
	return r;
}
