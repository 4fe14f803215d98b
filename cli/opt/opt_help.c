/* SPDX-License-Identifier: Apache-2.0 */
/* --help and --help-all, from the option tables: two columns, wrapped at 80. */
#include <string.h>

#include "base/util.h"
#include "cli/opt/opt.h"

enum { TEXT_COLUMN = 30, FEW = 12 };

void cli_wrap(FILE *f, const char *text, size_t col, size_t indent, size_t width)
{
	bool first = true; /* of its line */

	while (*text) {
		size_t len = strcspn(text, " ");

		if (col + !first + len > width && !first) {
			fprintf(f, "\n%*s", (int)indent, "");
			col = indent;
			first = true;
		}
		fprintf(f, "%s%.*s", first ? "" : " ", (int)len, text);
		col += !first + len;
		first = false;
		text += len;
		while (*text == ' ')
			text++;
	}
	putc('\n', f);
}

static size_t help_append(char *buf, size_t size, size_t used, const char *a, const char *b)
{
	size_t n = (size_t)snprintf(buf + used, used < size ? size - used : 0, "%s%s", a, b);

	return min_u64(used + n, size - 1);
}

static bool may_stand_alone(const struct cli_opt *o)
{
	return o->kind == CLI_KIND_LIST && !o->min;
}

/* "-m, --mode read|write" */
static void left_column(char *buf, size_t size, const struct cli_opt *o)
{
	size_t used;

	if (o->letter)
		used = (size_t)snprintf(buf, size, "  -%c, --%s", o->letter, o->name);
	else
		used = (size_t)snprintf(buf, size, "      --%s", o->name);
	used = min_u64(used, size - 1);
	for (size_t i = 0; o->choices && o->choices[i]; i++)
		used = help_append(buf, size, used, i ? "|" : " ", o->choices[i]);
	if (o->meta)
		used = help_append(buf, size, used, may_stand_alone(o) ? " [" : " ", o->meta);
	if (o->kind == CLI_KIND_LIST && !o->single)
		help_append(buf, size, used, "...", may_stand_alone(o) ? "]" : "");
}

static void help_option(FILE *f, const struct cli_opt *o, bool all)
{
	char left[160], text[512];
	size_t used = 0, col;

	left_column(left, sizeof(left), o);
	used = help_append(text, sizeof(text), used, o->help, "");
	if (!all && text[strcspn(text, ";")]) {
		used = strcspn(text, ";");
		text[used] = 0;
	}
	if (o->def == CLI_REQUIRED)
		used = help_append(text, sizeof(text), used, " (needed)", "");
	else if (o->def) {
		used = help_append(text, sizeof(text), used, " (", o->def);
		used = help_append(text, sizeof(text), used, ")", "");
	}
	for (const struct cli_opt *a = o + 1; a->kind == CLI_KIND_ALIAS; a++)
		used = help_append(text, sizeof(text), used, a == o + 1 ? "; also --" : ", --",
				   a->name);
	col = strlen(left);
	if (col + 2 > TEXT_COLUMN)
		fprintf(f, "%s\n%*s", left, TEXT_COLUMN, "");
	else
		fprintf(f, "%-*s", TEXT_COLUMN, left);
	cli_wrap(f, text, TEXT_COLUMN, TEXT_COLUMN, CLI_WIDTH);
}

static void help_table(FILE *f, const struct cli_opt *o, bool all)
{
	for (; o->kind != CLI_KIND_END; o++) {
		if (o->kind == CLI_KIND_GROUP && all)
			fprintf(f, "\n%s:\n", o->name);
		else if (o->kind == CLI_KIND_TABLE)
			help_table(f, o->sub, all);
		else if (o->kind > CLI_KIND_ALIAS && (all || o->letter || o->often))
			help_option(f, o, all);
	}
}

static unsigned help_count(const struct cli_opt *o)
{
	unsigned n = 0;

	for (; o->kind != CLI_KIND_END; o++)
		n += o->kind == CLI_KIND_TABLE ? help_count(o->sub) : o->kind > CLI_KIND_ALIAS;
	return n;
}

static const struct cli_opt *first_of(const struct cli_opt *o)
{
	while (o->kind == CLI_KIND_TABLE)
		o = o->sub;
	return o;
}

void cli_help(FILE *f, const struct cli_cmd *cmd, bool all)
{
	bool alone = cmd->run || !cmd->subs;
	unsigned nr = help_count(cmd->opts);

	if (alone)
		fprintf(f, "usage: penstock %s [OPTION...]%s%s\n", cmd->name, cmd->usage ? " " : "",
			cmd->usage ? cmd->usage : "");
	if (cmd->subs)
		fprintf(f, "%s penstock %s COMMAND [OPTION...]\n",
			alone ? "      " : "usage:", cmd->name);
	cli_wrap(f, cmd->summary, 0, 0, CLI_WIDTH);
	if (cmd->subs) {
		fprintf(f, "\n");
		cli_list_commands(f, cmd->subs);
	}
	all |= nr <= FEW;
	if (!all || first_of(cmd->opts)->kind != CLI_KIND_GROUP)
		fprintf(f, "\nOptions:\n");
	help_table(f, cmd->opts, all);
	fprintf(f, "  %-*s%s\n", TEXT_COLUMN - 2, "-h, --help", "show this help");
	if (!all)
		fprintf(f, "  %-*sall %u options\n", TEXT_COLUMN - 2, "    --help-all", nr);
	if (all && cmd->notes)
		fprintf(f, "\n%s", cmd->notes);
}
