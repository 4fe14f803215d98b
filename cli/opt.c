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

#include "base/size.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/number.h"

const char cli_required[] = "";

const struct cli_opt cli_output_opts[] = {
	CLI_STR(struct cli_output, json, 'j', "json", "FILE", NULL,
		"write the result as JSON; - is standard output"),
	CLI_END,
};

const struct cli_opt cli_no_opts[] = {
	CLI_END,
};

/* One name of one option. */
struct slot {
	const char *name;
	const struct cli_opt *opt;
	size_t at;
	size_t main; /* index of the slot that is not an alias */
	bool seen;
	bool first; /* abbreviations mean this one before others */
};

struct parser {
	const struct cli_cmd *cmd;
	char *args;
	struct cli_msg *msg;
	struct slot *slots;
	size_t nr;
	char **argv;
	int argc;
	int next;     /* word to look at */
	int operands; /* words moved to the front so far */
};

static int bad(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int bad(struct parser *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->msg->text, sizeof(p->msg->text), fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

/* ---------------------------------------------------------------- nearness */

static unsigned edits(const char *a, const char *b)
{
	unsigned row[64], la = (unsigned)strlen(a), lb = (unsigned)strlen(b);

	if (la >= ARRAY_SIZE(row) || lb >= ARRAY_SIZE(row))
		return 99;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned i = 1; i <= la; i++) {
		unsigned diag = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			unsigned sub = diag + (a[i - 1] != b[j - 1]);

			diag = row[j];
			row[j] = (unsigned)min_u64(min_u64(row[j], row[j - 1]) + 1, sub);
		}
	}
	return row[lb];
}

/* How far @word is from @candidate; 99 is too far. */
static unsigned distance(const char *word, const char *candidate)
{
	size_t len = strlen(word);
	unsigned d = edits(word, candidate);

	if (len >= 2 && !strncmp(word, candidate, len))
		return 1;
	return d <= 1 + len / 4 && d < len ? d : 99;
}

const char *cli_nearest(const char *word, const char *const *words)
{
	const char *best = NULL;
	unsigned least = 99;

	for (; *words; words++) {
		unsigned d = distance(word, *words);

		if (d < least) {
			least = d;
			best = *words;
		}
	}
	return best;
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
			slots[nr] = (struct slot){o->name, slots[main].opt, slots[main].at,
						  main,    false,           first};
		else if (slots)
			slots[nr] = (struct slot){o->name, o, base + o->at, main, false, first};
		nr++;
	}
	return nr;
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

static bool same_name(const char *name, const char *word, size_t len)
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
		if (same_name(p->slots[i].name, word, len))
			return &p->slots[i];
	if (!p->cmd->abbreviated || !len)
		return NULL;
	s = find_short(p, word, len, true, &nr, all, sizeof(all));
	if (!nr)
		s = find_short(p, word, len, false, &nr, all, sizeof(all));
	if (nr > 1)
		bad(p, "'--%.*s' may be short for %s%s", (int)len, word, all,
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
		return bad(p, "out of memory");
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
		d = distance(name, other);
		if (d < least) {
			least = d;
			near = p->slots[i].name;
		}
	}
	if (near)
		return bad(p, "unknown option '--%.*s'; did you mean '--%s'?", (int)len, word,
			   near);
	return bad(p, "unknown option '--%.*s'", (int)len, word);
}

/* ------------------------------------------------------------------ values */

static int number_parse(uint64_t *out, const char *s)
{
	int base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
	const char *digits = base == 16 ? s + 2 : s;
	unsigned long long v;
	char *end;

	/* strtoull() would take signs, blanks and, after 0x, another 0x */
	if (!isxdigit((unsigned char)digits[0]) || digits[1] == 'x' || digits[1] == 'X')
		return -EINVAL;
	errno = 0;
	v = strtoull(digits, &end, base);
	if (end == digits || *end)
		return -EINVAL;
	if (errno == ERANGE)
		return -ERANGE;
	*out = v;
	return 0;
}

static int outside(struct parser *p, const struct slot *s, const char *value)
{
	const struct cli_opt *o = s->opt;
	char lo[SLUICE_SIZE_TEXT], hi[SLUICE_SIZE_TEXT];

	if (o->kind == CLI_KIND_SIZE)
		return bad(p, "--%s: '%.80s' is outside %s..%s", s->name, value,
			   sluice_size_exact(lo, o->min), sluice_size_exact(hi, o->max));
	return bad(p, "--%s: '%.80s' is outside %" PRIu64 "..%" PRIu64, s->name, value, o->min,
		   o->max);
}

static int set_number(struct parser *p, const struct slot *s, const char *value)
{
	const struct cli_opt *o = s->opt;
	bool size = o->kind == CLI_KIND_SIZE;
	uint64_t v;
	int r = size ? sluice_size_parse(&v, value) : number_parse(&v, value);

	if (r == -EINVAL && size)
		return bad(p,
			   "--%s: '%.80s' is not a size; give bytes, or a number with K, M, G or T",
			   s->name, value);
	if (r == -EINVAL)
		return bad(p,
			   "--%s: '%.80s' is not a whole number; give one in %" PRIu64 "..%" PRIu64,
			   s->name, value, o->min, o->max);
	if (r < 0 || v < o->min || v > o->max)
		return outside(p, s, value);
	if (o->kind == CLI_KIND_U32)
		*(uint32_t *)(void *)(p->args + s->at) = (uint32_t)v;
	else
		*(uint64_t *)(void *)(p->args + s->at) = v;
	return CLI_OK;
}

static int set_signed(struct parser *p, const struct slot *s, const char *value)
{
	int r = cli_int_parse((int64_t *)(void *)(p->args + s->at), value);

	if (r == -ERANGE)
		return bad(p, "--%s: '%.80s' is outside %" PRId64 "..%" PRId64, s->name, value,
			   INT64_MIN, INT64_MAX);
	return r < 0 ? bad(p, "--%s: '%.80s' is not a whole number", s->name, value) : CLI_OK;
}

static int set_real(struct parser *p, const struct slot *s, const char *value)
{
	const struct cli_opt *o = s->opt;
	double v;

	if (cli_dbl_parse(&v, value) < 0)
		return bad(p, "--%s: '%.80s' is not a number", s->name, value);
	if (v < o->low || v > o->high)
		return bad(p, "--%s: '%.80s' is outside %g..%g", s->name, value, o->low, o->high);
	*(double *)(void *)(p->args + s->at) = v;
	return CLI_OK;
}

static int set_enum(struct parser *p, const struct slot *s, const char *value)
{
	const char *const *c = s->opt->choices;
	char all[256] = "";
	size_t used = 0;

	for (uint32_t i = 0; c[i]; i++) {
		if (same_name(c[i], value, strlen(value))) {
			*(uint32_t *)(void *)(p->args + s->at) = i;
			return CLI_OK;
		}
		if (used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
						 i ? ", " : "", c[i]);
	}
	return bad(p, "--%s: '%.80s' is not one of %s", s->name, value, all);
}

static int list_add_one(struct parser *p, const struct slot *s, const char *value, size_t len)
{
	struct cli_list *l = (void *)(p->args + s->at);
	const char **items;

	if (!len && !s->opt->paths)
		return bad(p, "--%s: there is an empty value", s->name);
	if (l->nr >= s->opt->max)
		return bad(p, "--%s: '%.*s' is one too many; at most %" PRIu64 " are taken",
			   s->name, (int)min_u64(len, 80), value, s->opt->max);
	items = reallocarray(l->items, l->nr + 1, sizeof(*items));
	if (!items)
		return bad(p, "out of memory");
	l->items = items;
	items[l->nr] = strndup(value, len);
	if (!items[l->nr])
		return bad(p, "out of memory");
	l->nr++;
	return CLI_OK;
}

/* Up to the comma behind which there is another value: not `seed=1' of `fault:nth=3,seed=1'. */
static size_t value_len(const char *value)
{
	size_t len = strcspn(value, ",");

	while (value[len]) {
		const char *next = value + len + 1;

		if (next[strcspn(next, ",:=")] != '=')
			break;
		len += 1 + strcspn(next, ",");
	}
	return len;
}

static int list_add(struct parser *p, const struct slot *s, const char *value)
{
	int r = CLI_OK;

	if (s->opt->paths)
		return list_add_one(p, s, value, strlen(value));
	for (bool more = true; more && r == CLI_OK;) {
		size_t len = value_len(value);

		r = list_add_one(p, s, value, len);
		more = value[len];
		value += len + more;
	}
	return r;
}

static int set_value(struct parser *p, const struct slot *s, const char *value)
{
	switch (s->opt->kind) {
	case CLI_KIND_FLAG:
		*(bool *)(p->args + s->at) = true;
		return CLI_OK;
	case CLI_KIND_STR:
		*(const char **)(void *)(p->args + s->at) = value;
		return CLI_OK;
	case CLI_KIND_U32:
	case CLI_KIND_U64:
	case CLI_KIND_SIZE:
		return set_number(p, s, value);
	case CLI_KIND_INT:
		return set_signed(p, s, value);
	case CLI_KIND_DBL:
		return set_real(p, s, value);
	case CLI_KIND_ENUM:
		return set_enum(p, s, value);
	case CLI_KIND_LIST:
		return list_add(p, s, value);
	case CLI_KIND_END:
	case CLI_KIND_GROUP:
	case CLI_KIND_TABLE:
	case CLI_KIND_ALIAS:
		break;
	}
	return bad(p, "--%s: has no kind", s->name);
}

/* ------------------------------------------------------------------- words */

/* "-" is a value (standard output), "-1" and "-.5" are numbers: not options. */
static bool is_option(const char *word)
{
	const char *digit = word[0] == '-' && word[1] == '.' ? word + 2 : word + 1;

	return word[0] == '-' && word[1] && !isdigit((unsigned char)*digit);
}

/* Store @value (what followed `=' or the letter), or else the words that follow. */
static int take(struct parser *p, struct slot *s, const char *value)
{
	bool attached = value, list = s->opt->kind == CLI_KIND_LIST;
	const char *meta = s->opt->meta ? s->opt->meta : "VALUE";
	int r;

	if (list)
		((struct cli_list *)(void *)(p->args + s->at))->given = true;

	/* A list is what is given; the default counts only when nothing is. */
	p->slots[s->main].seen = true;
	if (!attached) {
		bool alone = p->next >= p->argc || is_option(p->argv[p->next]);

		if (alone && list && !s->opt->min)
			return CLI_OK;
		if (alone)
			return bad(p, "--%s: needs a value (%s)", s->name, meta);
		value = p->argv[p->next++];
	}
	r = set_value(p, s, value);
	/* After `=' only where a word can be nothing else. */
	while (r == CLI_OK && list && !s->opt->single && !(attached && p->cmd->usage) &&
	       p->next < p->argc && !is_option(p->argv[p->next]))
		r = set_value(p, s, p->argv[p->next++]);
	return r;
}

static int long_option(struct parser *p, const char *word)
{
	const char *eq = strchr(word, '=');
	size_t len = eq ? (size_t)(eq - word) : strlen(word);
	struct slot *s = find_long(p, word, len);

	if (!s)
		return *p->msg->text ? CLI_USAGE : unknown_long(p, word, len);
	if (s->opt->kind != CLI_KIND_FLAG)
		return take(p, s, eq ? eq + 1 : NULL);
	if (eq)
		return bad(p, "--%s: takes no value, but '%.80s' was given", s->name, eq + 1);
	return set_value(p, s, NULL);
}

/* -abc is -a -b -c as long as they are flags; -d32 is -d 32. */
static int short_options(struct parser *p, const char *letters)
{
	int r = CLI_OK;

	for (; *letters && r == CLI_OK; letters++) {
		struct slot *s = find_letter(p, *letters);

		if (!s)
			return bad(p, "unknown option '-%c' in '-%s'", *letters, letters);
		if (s->opt->kind != CLI_KIND_FLAG)
			return take(p, s, letters[1] ? letters + 1 : NULL);
		r = set_value(p, s, NULL);
	}
	return r;
}

static int words(struct parser *p)
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

		if (s->main == i && s->opt->def && s->opt->def != cli_required &&
		    s->opt->kind != CLI_KIND_LIST)
			r = set_value(p, s, s->opt->def);
	}
	return r;
}

/* What can be said only at the end: what is missing, and lists left at their default. */
static int finish(struct parser *p)
{
	int r = CLI_OK;

	for (size_t i = 0; i < p->nr && r == CLI_OK; i++) {
		const struct slot *s = &p->slots[i];
		const struct cli_opt *o = s->opt;

		if (s->main != i)
			continue;
		if (!s->seen && o->def == cli_required)
			r = bad(p, "--%s: is needed (%s: %s)", s->name, o->meta ? o->meta : "VALUE",
				o->help);
		else if (o->kind != CLI_KIND_LIST)
			continue;
		else if (!s->seen && o->def)
			r = list_add(p, s, o->def);
		else if (s->seen && ((struct cli_list *)(void *)(p->args + s->at))->nr < o->min)
			r = bad(p, "--%s: needs at least %" PRIu64 " values", s->name, o->min);
	}
	return r;
}

int cli_parse(const struct cli_cmd *cmd, void *args, int argc, char **argv, int *ret_argc,
	      struct cli_msg *msg)
{
	CLEANUP_FREE struct slot *slots = NULL;
	struct parser p = {.cmd = cmd, .args = args, .msg = msg, .argv = argv, .argc = argc};
	int r;

	memset(args, 0, cmd->args_size);
	msg->text[0] = 0;
	p.nr = flatten(cmd, cmd->opts, 0, NULL, 0);
	p.slots = slots = calloc(p.nr + 1, sizeof(*slots));
	if (!slots)
		return bad(&p, "out of memory");
	flatten(cmd, cmd->opts, 0, slots, 0);
	r = defaults(&p);
	if (r == CLI_OK)
		r = words(&p);
	if (r == CLI_OK)
		r = finish(&p);
	if (r == CLI_OK && p.operands && !cmd->usage)
		r = bad(&p, "'%s' is not expected: '%s' takes options only", argv[0], cmd->name);
	if (r == CLI_OK)
		*ret_argc = p.operands;
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
	memset(args, 0, cmd->args_size);
}

/* ---------------------------------------------------------------- messages */

/* One line whatever is in it: a newline in a file's name must not look like another message. */
static void say(const struct cli_cmd *cmd, const char *tail, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
static void say(const struct cli_cmd *cmd, const char *tail, const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	if (!cmd)
		fprintf(stderr, "sluice: %s%s\n", text, tail ? " (see 'sluice --help')" : "");
	else if (tail)
		fprintf(stderr, "sluice %s: %s (see 'sluice %s --help')\n", cmd->name, text,
			cmd->name);
	else
		fprintf(stderr, "sluice %s: %s\n", cmd->name, text);
}

int cli_fail(const struct cli_cmd *cmd, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(cmd, NULL, fmt, ap);
	va_end(ap);
	return status;
}

int cli_usage(const struct cli_cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(cmd, "help", fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

int cli_cmd_run(const struct cli_cmd *cmd, int argc, char **argv)
{
	CLEANUP_FREE void *args = calloc(1, max_u64(cmd->args_size, 1));
	const struct cli_cmd *sub = argc ? cli_find(cmd->subs, argv[0]) : NULL;
	struct cli_msg msg;
	int r, operands = 0;

	if (sub)
		return cli_cmd_run(sub, argc - 1, argv + 1);
	/* A value never begins with a dash, so this cannot be one. */
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			cli_help(stdout, cmd);
			return CLI_OK;
		}
	}
	if (!args)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	if (cmd->subs && !cmd->usage && argc && argv[0][0] != '-')
		return cli_unknown(cmd, cmd->subs, NULL, argv[0]);
	r = cli_parse(cmd, args, argc, argv, &operands, &msg);
	if (r == CLI_OK)
		r = cmd->run ? cmd->run(args, operands, argv) : cli_needs_command(cmd);
	else
		cli_usage(cmd, "%s", msg.text);
	cli_args_fini(cmd, args);
	return r;
}
