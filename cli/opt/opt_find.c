/* SPDX-License-Identifier: Apache-2.0 */
/* Words that name commands: found, or answered with the nearest one. */
#include <string.h>

#include "base/util.h"
#include "cli/opt/opt.h"

/* "stat" of "trace stat": what is typed behind the words before it. */
static const char *word_of(const struct cli_cmd *cmd)
{
	const char *space = strrchr(cmd->name, ' ');

	return space ? space + 1 : cmd->name;
}

const struct cli_cmd *cli_find(const struct cli_cmd *const *commands, const char *word)
{
	for (; commands && *commands; commands++)
		if (!strcmp(word_of(*commands), word))
			return *commands;
	return NULL;
}

int cli_unknown(const struct cli_cmd *cmd, const struct cli_cmd *const *commands,
		const char *const *more, const char *word)
{
	const char *what = word[0] == '-' ? "option" : "command", *near, *words[64] = {NULL};
	size_t n = 0;

	for (; commands && *commands && n + 1 < ARRAY_SIZE(words); commands++)
		words[n++] = word_of(*commands);
	for (; more && *more && n + 1 < ARRAY_SIZE(words); more++)
		words[n++] = *more;
	near = cli_nearest(word, words);
	if (near)
		return cli_usage(cmd, "unknown %s '%s'; did you mean '%s'?", what, word, near);
	return cli_usage(cmd, "unknown %s '%s'", what, word);
}

void cli_list_commands(FILE *f, const struct cli_cmd *const *commands)
{
	fprintf(f, "Commands:\n");
	for (; *commands; commands++) {
		fprintf(f, "  %-8s  ", word_of(*commands));
		cli_wrap(f, (*commands)->summary, 12, 12, CLI_WIDTH);
	}
}

int cli_needs_command(const struct cli_cmd *cmd)
{
	char all[256] = "";
	size_t used = 0;

	for (size_t i = 0; cmd->subs[i] && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
					 word_of(cmd->subs[i]));
	return cli_usage(cmd, "a command is needed: one of %s", all);
}
