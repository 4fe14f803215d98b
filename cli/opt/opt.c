/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line, from tables.  A table (with the tables it includes) is
 * flattened into slots, one per name an option goes by; then each word of the
 * command line finds its slot, and the slot's kind knows how to store a value
 * and how to say what is wrong with it.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/opt/opt.h"
#include "cli/opt/parser.h"
#include "load/report/result/text.h"

const char cli_required[] = "";

const struct cli_opt cli_output_opts[] = {
	CLI_OUT(struct cli_output, json, 'j', "json", "FILE", NULL,
		"write the result as JSON; - is standard output"),
	CLI_END,
};

const struct cli_opt cli_no_opts[] = {
	CLI_END,
};

int cli_bad(struct parser *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	penstock_vprint_elided(p->msg->text, sizeof(p->msg->text), fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

/* ------------------------------------------------------------------- slots */

/* Called with NULL slots to count. */
static size_t flatten(const struct cli_cmd *cmd, const struct cli_opt *o, size_t base,
		      struct slot *slots, size_t nr)
{
	bool first = o == cmd->abbreviated;
	size_t main = nr;

	for (; o->kind != CLI_KIND_END; o++) {
		if (o->kind == CLI_KIND_GROUP)
			continue;
		if (o->kind == CLI_KIND_TABLE) {
			nr = flatten(cmd, o->sub, base + o->at, slots, nr);
			continue;
		}
		if (o->kind != CLI_KIND_ALIAS)
			main = nr;
		if (slots && o->kind == CLI_KIND_ALIAS)
			slots[nr] = (struct slot){
				o->name, slots[main].opt, slots[main].at, main, NULL, first};
		else if (slots)
			slots[nr] = (struct slot){o->name, o, base + o->at, main, NULL, first};
		nr++;
	}
	return nr;
}

int cli_slots(struct parser *p)
{
	p->nr = flatten(p->cmd, p->cmd->opts, 0, NULL, 0);
	p->slots = calloc(p->nr + 1, sizeof(*p->slots));
	if (!p->slots)
		return cli_bad(p, "out of memory");
	flatten(p->cmd, p->cmd->opts, 0, p->slots, 0);
	return CLI_OK;
}

/* `-' and `_' are the same letter. */
static bool begins_with(const char *name, const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char a = name[i] == '_' ? '-' : name[i], b = word[i] == '_' ? '-' : word[i];

		if (a != b || !a)
			return false;
	}
	return true;
}

bool cli_same_name(const char *name, const char *word, size_t len)
{
	return begins_with(name, word, len) && !name[len];
}

/* One of those that @word, cut short, may mean, and their number; @all: their names. */
static struct slot *find_short(struct parser *p, const char *word, size_t len, bool first,
			       size_t *ret_nr, char *all, size_t size)
{
	struct slot *found = NULL;

	for (size_t i = 0; i < p->nr; i++) {
		struct slot *s = &p->slots[i];

		if (s->first != first || !begins_with(s->name, word, len))
			continue;
		if (found && found->main == s->main) /* another name of the same option */
			continue;
		if (*ret_nr < 5)
			snprintf(all + strlen(all), size - strlen(all), "%s--%s",
				 *ret_nr ? ", " : "", s->name);
		found = s;
		++*ret_nr;
	}
	return found;
}

/* The option @word names, or NULL; several that it may be cut short from are in p->msg. */
static struct slot *find_long(struct parser *p, const char *word, size_t len)
{
	char all[300] = "";
	struct slot *s;
	size_t nr = 0;

	for (size_t i = 0; i < p->nr; i++)
		if (cli_same_name(p->slots[i].name, word, len))
			return &p->slots[i];
	if (!p->cmd->abbreviated || !len)
		return NULL;
	s = find_short(p, word, len, true, &nr, all, sizeof(all));
	if (!nr)
		s = find_short(p, word, len, false, &nr, all, sizeof(all));
	if (nr > 1)
		cli_bad(p, "'--%.*s' may be short for %s%s", (int)len, word, all,
			nr > 5 ? ", ..." : "");
	return nr == 1 ? s : NULL;
}

static struct slot *find_letter(struct parser *p, char letter)
{
	for (size_t i = 0; i < p->nr; i++)
		if (p->slots[i].main == i && p->slots[i].opt->letter == letter)
			return &p->slots[i];
	return NULL;
}

static int unknown_long(struct parser *p, const char *word, size_t len)
{
	CLEANUP_FREE char *name = strndup(word, len);
	const char *near = NULL;
	unsigned least = 99;

	if (!name)
		return cli_bad(p, "out of memory");
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = '-';
	for (size_t i = 0; i < p->nr; i++) {
		char other[64];
		unsigned d;

		snprintf(other, sizeof(other), "%s", p->slots[i].name);
		for (char *c = other; *c; c++)
			if (*c == '_')
				*c = '-';
		d = cli_distance(name, other);
		if (d < least) {
			least = d;
			near = p->slots[i].name;
		}
	}
	if (near)
		return cli_bad(p, "unknown option '--%.*s'; did you mean '--%s'?", (int)len, word,
			       near);
	return cli_bad(p, "unknown option '--%.*s'", (int)len, word);
}

/* ------------------------------------------------------------------- words */

/* "-" is a value (standard output), "-1" and "-.5" are numbers: not options. */
static bool is_option(const char *word)
{
	const char *digit = word[0] == '-' && word[1] == '.' ? word + 2 : word + 1;

	return word[0] == '-' && word[1] && !isdigit((unsigned char)*digit);
}

static bool is_switch(const struct cli_opt *o)
{
	return o->kind == CLI_KIND_FLAG || o->kind == CLI_KIND_BIT;
}

/* Store @value (what followed `=' or the letter), or else the words that follow. */
static int take_value(struct parser *p, struct slot *s, const char *value)
{
	bool attached = value, list = s->opt->kind == CLI_KIND_LIST;
	const char *meta = s->opt->meta ? s->opt->meta : "VALUE";
	int r;

	if (list)
		((struct cli_list *)(void *)(p->args + s->at))->given = true;

	/* A list is what is given; the default counts only when nothing is. */
	p->slots[s->main].as = s;
	if (!attached) {
		bool operands = list && !s->opt->min && p->cmd->usage;
		bool alone = operands || p->next >= p->argc || is_option(p->argv[p->next]);

		if (alone && list && !s->opt->min)
			return CLI_OK;
		if (alone)
			return cli_bad(p, "--%s: needs a value (%s)", s->name, meta);
		value = p->argv[p->next++];
	}
	r = cli_set_value(p, s, value);
	/* After `=' only where a word can be nothing else. */
	while (r == CLI_OK && list && !s->opt->single && !(attached && p->cmd->usage) &&
	       p->next < p->argc && !is_option(p->argv[p->next]))
		r = cli_set_value(p, s, p->argv[p->next++]);
	return r;
}

static int long_option(struct parser *p, const char *word)
{
	const char *eq = strchr(word, '=');
	size_t len = eq ? (size_t)(eq - word) : strlen(word);
	struct slot *s = find_long(p, word, len);

	if (!s)
		return *p->msg->text ? CLI_USAGE : unknown_long(p, word, len);
	if (!is_switch(s->opt))
		return take_value(p, s, eq ? eq + 1 : NULL);
	if (eq)
		return cli_bad(p, "--%s: takes no value, but '%.80s' was given", s->name, eq + 1);
	return cli_set_value(p, s, NULL);
}

/* -abc is -a -b -c as long as they are flags; -d32 is -d 32. */
static int short_options(struct parser *p, const char *letters)
{
	int r = CLI_OK;

	for (; *letters && r == CLI_OK; letters++) {
		struct slot *s = find_letter(p, *letters);

		if (!s)
			return cli_bad(p, "unknown option '-%c' in '-%s'", *letters, letters);
		if (!is_switch(s->opt))
			return take_value(p, s, letters[1] ? letters + 1 : NULL);
		r = cli_set_value(p, s, NULL);
	}
	return r;
}

static int parse_words(struct parser *p)
{
	int r = CLI_OK;

	while (p->next < p->argc && r == CLI_OK) {
		char *word = p->argv[p->next++];

		if (!strcmp(word, "--")) {
			while (p->next < p->argc)
				p->argv[p->operands++] = p->argv[p->next++];
			break;
		}
		if (!strncmp(word, "--", 2))
			r = long_option(p, word + 2);
		else if (is_option(word))
			r = short_options(p, word + 1);
		else
			p->argv[p->operands++] = word;
	}
	return r;
}

static int defaults(struct parser *p)
{
	int r = CLI_OK;

	for (size_t i = 0; i < p->nr && r == CLI_OK; i++) {
		const struct slot *s = &p->slots[i];

		if (s->main == i && s->opt->invert)
			*(bool *)(p->args + s->at) = true;
		if (s->main == i && s->opt->def && s->opt->def != cli_required &&
		    s->opt->kind != CLI_KIND_LIST)
			r = cli_set_value(p, s, s->opt->def);
	}
	return r;
}

/* What can be said only at the end: what is missing, and lists left at their default. */
static int finish_slots(struct parser *p)
{
	int r = CLI_OK;

	for (size_t i = 0; i < p->nr && r == CLI_OK; i++) {
		const struct slot *s = &p->slots[i];
		const struct cli_opt *o = s->opt;

		if (s->main != i)
			continue;
		if (s->as && o->given_at)
			*(bool *)(p->args + s->at - o->at + o->given_at) = true;
		if (!s->as && o->def == cli_required)
			r = cli_bad(p, "--%s: is needed (%s: %s)", s->name,
				    o->meta ? o->meta : "VALUE", o->help);
		else if (o->kind != CLI_KIND_LIST)
			continue;
		else if (!s->as && o->def)
			r = cli_set_value(p, s, o->def);
		else if (s->as && ((struct cli_list *)(void *)(p->args + s->at))->nr < o->min)
			r = cli_bad(p, "--%s: needs at least %" PRIu64 " values", s->name, o->min);
	}
	return r;
}

static int parse_line(struct parser *p)
{
	const struct cli_cmd *cmd = p->cmd;
	int r;

	memset(p->args, 0, cmd->args_size);
	p->msg->text[0] = 0;
	r = cli_slots(p);
	if (r == CLI_OK)
		r = defaults(p);
	if (r == CLI_OK)
		r = parse_words(p);
	if (r == CLI_OK)
		r = finish_slots(p);
	if (r == CLI_OK && p->operands && !cmd->usage)
		r = cli_bad(p, "'%s' is not expected: '%s' takes options only", p->argv[0],
			    cmd->name);
	return r == CLI_OK ? cli_names_check(p) : r;
}

int cli_parse(const struct cli_cmd *cmd, void *args, int argc, char **argv, int *ret_argc,
	      struct cli_msg *msg)
{
	struct parser p = {.cmd = cmd, .args = args, .msg = msg, .argv = argv, .argc = argc};
	int r = parse_line(&p);

	if (r == CLI_OK)
		*ret_argc = p.operands;
	free(p.slots);
	return r;
}

static void list_free(struct cli_list *l)
{
	for (size_t i = 0; i < l->nr; i++)
		free((char *)(uintptr_t)l->items[i]);
	free(l->items);
}

static void lists_free(const struct cli_opt *o, char *args)
{
	for (; o->kind != CLI_KIND_END; o++) {
		if (o->kind == CLI_KIND_TABLE)
			lists_free(o->sub, args + o->at);
		else if (o->kind == CLI_KIND_LIST)
			list_free((void *)(args + o->at));
	}
}

void cli_args_fini(const struct cli_cmd *cmd, void *args)
{
	lists_free(cmd->opts, args);
	if (cmd->problems)
		cli_problems_fini((void *)((char *)args + cmd->problems));
	memset(args, 0, cmd->args_size);
}

/* ---------------------------------------------------------------- messages */

/*
 * One line whatever is in it: a newline in a file's name must not look like another message,
 * nor anything else of it be an order to the terminal.
 */
static void say_line(const struct cli_cmd *cmd, const char *tail, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
static void say_line(const struct cli_cmd *cmd, const char *tail, const char *fmt, va_list ap)
{
	char line[1024], text[2048];

	penstock_vprint_elided(line, sizeof(line), fmt, ap);
	report_escape(text, sizeof(text), line);
	if (!cmd)
		fprintf(stderr, "penstock: %s%s\n", text, tail ? " (see 'penstock --help')" : "");
	else if (tail)
		fprintf(stderr, "penstock %s: %s (see 'penstock %s --help')\n", cmd->name, text,
			cmd->name);
	else
		fprintf(stderr, "penstock %s: %s\n", cmd->name, text);
}

int cli_fail(const struct cli_cmd *cmd, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(cmd, NULL, fmt, ap);
	va_end(ap);
	return status;
}

void cli_note(const struct cli_cmd *cmd, const char *fmt, ...)
{
	char note[1024];
	va_list ap;

	va_start(ap, fmt);
	penstock_vprint_elided(note, sizeof(note), fmt, ap);
	va_end(ap);
	cli_fail(cmd, CLI_OK, "note: %s", note);
}

int cli_usage(const struct cli_cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_line(cmd, "help", fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

/* The command line of the command that runs: its messages name options as they were given. */
static const struct parser *running;

static const char *given_name(const struct slot *s)
{
	return s->as ? s->as->name : s->name;
}

/* Is it an operand, or a folder that one is in? */
static bool is_operand(const char *word, size_t len)
{
	for (int i = 0; i < running->operands; i++) {
		const char *operand = running->argv[i];

		if (!strncmp(operand, word, len) && (!operand[len] || operand[len] == '/'))
			return true;
	}
	return false;
}

/* What a job says of a setting, "rate: ...", is said of the option: *@ret, "" where it is none. */
static size_t named_option(const char *why, const char **ret)
{
	size_t len = strcspn(why, ": ");

	*ret = "";
	if (why[len] != ':' || is_operand(why, len))
		return 0;
	for (size_t i = 0; i < running->nr && !**ret; i++)
		if (cli_same_name(running->slots[i].name, why, len))
			*ret = given_name(&running->slots[running->slots[i].main]);
	return **ret ? len : 0;
}

int cli_blame(const struct cli_cmd *cmd, int status, const char *why)
{
	const char *option = "", *colon = "";
	const struct slot *place = NULL;
	size_t len = 0;
	char line[1024];

	if (running)
		place = cli_names_about(running, why);
	if (running && !place)
		len = named_option(why, &option);
	if (place) {
		option = given_name(place);
		colon = ": ";
	}
	snprintf(line, sizeof(line), "%s%s%s%s", *option ? "--" : "", option, colon, why + len);
	return status == CLI_USAGE ? cli_usage(cmd, "%s", line) : cli_fail(cmd, status, "%s", line);
}

int cli_refuse(const struct cli_cmd *cmd, int r, const char *why)
{
	return cli_blame(cmd,
			 r == -EINVAL                    ? CLI_USAGE
			 : r == -ENOTSUP || r == -ENODEV ? CLI_UNSUPPORTED
							 : CLI_FAILED,
			 why);
}

int cli_exclude(const struct cli_cmd *cmd, const struct cli_pair *pairs, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (pairs[i].both)
			return cli_usage(cmd, "%s exclude each other", pairs[i].names);
	return CLI_OK;
}

int cli_cmd_run(const struct cli_cmd *cmd, int argc, char **argv)
{
	CLEANUP_FREE void *args = calloc(1, max_u64(cmd->args_size, 1));
	const struct cli_cmd *sub = argc ? cli_find(cmd->subs, argv[0]) : NULL;
	struct cli_msg msg;
	struct parser p = {.cmd = cmd, .args = args, .msg = &msg, .argv = argv, .argc = argc};
	int r;

	if (sub)
		return cli_cmd_run(sub, argc - 1, argv + 1);
	if (cmd->elsewhere)
		return cli_fail(cmd, CLI_UNSUPPORTED, "is part of the Python package: %s",
				cmd->elsewhere);
	/* A value never begins with a dash, so this cannot be one. */
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		bool all = !strcmp(argv[i], "--help-all") || !strcmp(argv[i], "--help_all");

		if (all || !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			cli_help(stdout, cmd, all);
			return CLI_OK;
		}
	}
	if (!args)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	if (cmd->subs && !cmd->usage && argc && argv[0][0] != '-')
		return cli_unknown(cmd, cmd->subs, NULL, argv[0]);
	r = parse_line(&p);
	running = &p;
	if (r == CLI_OK)
		r = cmd->run ? cmd->run(args, p.operands, argv) : cli_needs_command(cmd);
	else
		cli_usage(cmd, "%s", msg.text);
	running = NULL;
	free(p.slots);
	cli_args_fini(cmd, args);
	return r;
}
