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
static const char *const names[SPACE_KINDS] = {
	"block-size", "queue-depth", "sequential-requests", "single-submit", "threads",
	"engine",     "memory",
};

/* One word to its value; false: not understood. */
static bool axis_value(enum space_kind kind, const char *word, uint64_t *n)
{
	static const char *const yes_no[] = {"no", "yes", NULL};
	bool flag = kind == SPACE_SEQUENTIAL || kind == SPACE_SINGLE;
	const char *const *words = flag ? yes_no : kind == SPACE_MEMORY ? bed_memory_words : NULL;

	for (uint64_t i = 0; words && words[i]; i++) {
		*n = i;
		if (!strcmp(words[i], word))
			return true;
	}
	return !words && penstock_size_parse(n, word) == 0;
}

static int axis_add_value(struct space *s, enum space_kind kind, uint64_t n, const char *text,
			  const struct cli_cmd *cmd)
{
	struct penstock_err err;
	int r = space_add(s, kind, n, text, &err);

	if (r == -ENOMEM)
		return cli_fail(cmd, CLI_FAILED, "%s", err.msg);
	/* it begins with the name of the axis: ours may be another */
	return r < 0 ? cli_usage(cmd, "--%s%s", names[kind], err.msg + strcspn(err.msg, ":"))
		     : CLI_OK;
}

static int add_word(struct space *s, enum space_kind kind, const char *word,
		    const struct cli_cmd *cmd)
{
	uint64_t n;

	if (!axis_value(kind, word, &n))
		return cli_usage(cmd, "--%s: '%s' is not understood", names[kind], word);
	return axis_add_value(s, kind, n, NULL, cmd);
}

/* ds_io's names mean the first usable: alone they are no axis. */
static int add_engine(struct space *s, const char *word, bool alone, const struct cli_cmd *cmd)
{
	const char *engine;
	int r = cli_engine(&engine, word, cmd);

	if (r != CLI_OK || (!engine && alone))
		return r;
	if (!engine)
		return cli_usage(cmd, "--engine: %s is the first usable: name it instead", word);
	return axis_add_value(s, SPACE_ENGINE, 0, engine, cmd);
}

static int add_words(struct space *s, enum space_kind kind, const struct cli_list *l,
		     const struct cli_cmd *cmd)
{
	int r = CLI_OK;

	for (size_t i = 0; i < l->nr && r == CLI_OK; i++) {
		const char *word = l->items[i];
		bool both =
			!strcmp(word, "both") && (kind == SPACE_SEQUENTIAL || kind == SPACE_SINGLE);

		if (kind == SPACE_ENGINE)
			r = add_engine(s, word, l->nr == 1, cmd);
		else if (!both)
			r = add_word(s, kind, word, cmd);
		for (uint64_t n = 0; both && n < 2 && r == CLI_OK; n++)
			r = axis_add_value(s, kind, n, NULL, cmd);
	}
	return r;
}

static int copy_axis(struct space *s, const struct space_axis *a, const struct cli_cmd *cmd)
{
	int r = CLI_OK;

	for (unsigned i = 0; i < a->nr && r == CLI_OK; i++)
		r = axis_add_value(s, a->kind, a->values[i].n, a->values[i].text, cmd);
	return r;
}

int cli_space_replace(struct space *s, const struct cli_cmd *cmd, const struct cli_list *axes)
{
	struct space base = *s;
	bool there[SPACE_KINDS] = {false};
	int r = CLI_OK;

	*s = (struct space){.nr = 0};
	for (unsigned i = 0; i < base.nr && r == CLI_OK; i++) {
		const struct space_axis *a = &base.axes[i];

		there[a->kind] = true;
		r = axes[a->kind].nr ? add_words(s, a->kind, &axes[a->kind], cmd)
				     : copy_axis(s, a, cmd);
	}
	for (unsigned kind = 0; kind < SPACE_KINDS && r == CLI_OK; kind++)
		if (!there[kind])
			r = add_words(s, kind, &axes[kind], cmd);
	if (r == CLI_OK && space_points(s) > CLI_SPACE_MAX)
		r = cli_usage(cmd,
			      "%u configurations are too many, at most %d; give fewer values of "
			      "--block-size, --queue-depth or others",
			      space_points(s), CLI_SPACE_MAX);
	space_fini(&base);
	return r;
}
