/* SPDX-License-Identifier: Apache-2.0 */
/* Files and places that the command line names: what is a path, and what may be written. */
#include <ctype.h>
#include <errno.h>
#include <penstock/s3.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/parser.h"

#define PATH_SCHEME "file://"

/* Of "s3://bucket": 2; of what has none: 0. */
static size_t scheme_len(const char *text)
{
	size_t n = 0;

	if (!isalpha((unsigned char)*text))
		return 0;
	while (isalnum((unsigned char)text[n]) || (text[n] && strchr("+-.", text[n])))
		n++;
	return strncmp(text + n, "://", 3) ? 0 : n;
}

/*
 * A name as a user gives it: *@out is the path.  0, or -EINVAL with the reason when it has a
 * scheme that is not `file'.  A folder that is called `s3:' is `./s3://...'.
 */
static int cli_path(const char **out, const char *text, struct penstock_err *err)
{
	size_t n = scheme_len(text);

	*out = text;
	if (!n)
		return 0;
	if (strncasecmp(text, PATH_SCHEME, strlen(PATH_SCHEME)) != 0)
		return penstock_fail(
			err, -EINVAL,
			"'%.80s': %.*s:// is not supported; give a path or " PATH_SCHEME "/PATH",
			text, (int)min_u64(n, 20), text);
	*out = text + strlen(PATH_SCHEME);
	if (**out != '/')
		return penstock_fail(
			err, -EINVAL,
			"'%.80s' is a file of another machine; give " PATH_SCHEME "/PATH", text);
	return 0;
}

int cli_name(const char **out, enum cli_role role, const char *text, struct penstock_err *err)
{
	int uri = role == CLI_ROLE_OBJECT ? penstock_s3_is_uri(text, err) : 0;

	*out = text;
	if (uri)
		return uri < 0 ? uri : 0;
	return cli_path(out, text, err);
}

/* --------------------------------------------------- what is read and written */

/* A file that was named, and how a message calls who named it. */
struct named {
	const char *name;
	enum cli_role role;
	char who[40];
};

struct named_list {
	struct named *v;
	size_t nr;
};

static void add_name(struct named_list *l, enum cli_role role, const char *dashes, const char *who,
		     const char *name)
{
	struct named *n = &l->v[l->nr];

	if (!name || (role != CLI_ROLE_READ && role != CLI_ROLE_WRITE))
		return;
	*n = (struct named){.name = name, .role = role};
	snprintf(n->who, sizeof(n->who), "%s%s", dashes, who);
	l->nr++;
}

static int check_pair(struct parser *p, const struct named *a, const struct named *b)
{
	const struct named *out = b->role == CLI_ROLE_WRITE ? b : a, *other = out == b ? a : b;

	if (out->role != CLI_ROLE_WRITE)
		return CLI_OK;
	if (other->role == CLI_ROLE_READ && cli_file_within(other->name, out->name))
		return cli_bad(p, "%s: '%s' is among what is read by %s; give another file",
			       out->who, out->name, other->who);
	if (!cli_file_same(a->name, b->name))
		return CLI_OK;
	if (other->role == CLI_ROLE_READ && cli_is_stdout(out->name))
		return CLI_OK; /* and standard input */
	if (other->role == CLI_ROLE_READ)
		return cli_bad(p, "%s: '%s' is read by %s and would be lost; give another file",
			       out->who, out->name, other->who);
	if (cli_is_stdout(out->name))
		return cli_bad(p, "%s and %s: only one can be standard output", a->who, b->who);
	return cli_bad(p, "%s and %s: '%s' can be only one of them", a->who, b->who, b->name);
}

static int names_check_pairs(struct parser *p, const struct named_list *l)
{
	int r = CLI_OK;

	for (size_t i = 0; i < l->nr && r == CLI_OK; i++)
		for (size_t k = 0; k < i && r == CLI_OK; k++)
			r = check_pair(p, &l->v[k], &l->v[i]);
	return r;
}

/* Of the @i-th operand; the last one is for all that follow. */
static char operand_letter(const struct cli_cmd *cmd, size_t i)
{
	size_t n = cmd->operands ? strlen(cmd->operands) : 0;

	return n ? cmd->operands[min_u64(i, n - 1)] : 0;
}

static enum cli_role operand_role(char c)
{
	return c == 'r'   ? CLI_ROLE_READ
	       : c == 'i' ? CLI_ROLE_READ
	       : c == 'w' ? CLI_ROLE_WRITE
	       : c == 'p' ? CLI_ROLE_PLACE
	       : c == 'o' ? CLI_ROLE_OBJECT
			  : CLI_ROLE_NONE;
}

/* "RESULT" of "RESULT.json...": the word of the usage line for the @i-th operand. */
static void operand_name(char out[40], const struct cli_cmd *cmd, size_t i)
{
	const char *word = cmd->usage;

	for (const char *next; i && (next = strchr(word, ' ')); i--)
		word = next + 1;
	word += strspn(word, "[");
	snprintf(out, 40, "%.*s", (int)min_u64(strcspn(word, " .]"), 39), word);
}

static int add_operands(struct parser *p, struct named_list *l)
{
	struct penstock_err err = {0, ""};
	const char *path;
	char who[40];

	for (int i = 0; i < p->operands; i++) {
		char letter = operand_letter(p->cmd, (size_t)i);
		enum cli_role role = operand_role(letter);

		if (!role)
			continue;
		if (cli_name(&path, letter == 'i' ? CLI_ROLE_OBJECT : role, p->argv[i], &err) < 0)
			return cli_bad(p, "%s", err.msg);
		p->argv[i] += path - p->argv[i];
		operand_name(who, p->cmd, (size_t)i);
		add_name(l, role, "", who, p->argv[i]);
	}
	return CLI_OK;
}

static int list_names(struct parser *p, struct named_list *l)
{
	l->v = calloc(p->nr + (size_t)p->operands + 1, sizeof(*l->v));
	if (!l->v)
		return cli_bad(p, "out of memory");
	for (size_t i = 0; i < p->nr; i++) {
		const struct slot *s = &p->slots[i];

		if (s->main == i && s->opt->kind == CLI_KIND_STR)
			add_name(l, s->opt->role, "--", s->name,
				 *(const char **)(void *)(p->args + s->at));
	}
	return add_operands(p, l);
}

/* Could a place, "PATH", "N=PATH", "PATH:DEVICE" or "store:PATH,PATH", end here? */
static bool ends_place(const char *at)
{
	at += strspn(at, "/");
	return !*at || *at == ',' || (*at == ':' && at[1] != '/');
}

/* How much of @why the place is with which it begins, or which is above that; 0: none. */
static size_t begins_with_place(const char *why, const char *places)
{
	size_t most = 0;

	for (const char *at = places; at; at = (at = strpbrk(at, "=:,")) ? at + 1 : NULL)
		for (size_t n = 1; at[n - 1] && at[n - 1] == why[n - 1]; n++)
			if (ends_place(at + n) && (strchr(":/", why[n]) || why[n - 1] == '/'))
				most = max_u64(n, most);
	return most;
}

const struct slot *cli_names_about(const struct parser *p, const char *why)
{
	const struct slot *found = NULL;
	size_t most = 0, n;

	for (size_t i = 0; i < p->nr; i++) {
		const struct slot *s = &p->slots[i];
		const void *at = p->args + s->at;
		const struct cli_list *l = at;
		bool list = s->opt->kind == CLI_KIND_LIST;
		const char *const *v = list ? l->items : at;

		if (s->main != i ||
		    (s->opt->role != CLI_ROLE_PLACE && s->opt->role != CLI_ROLE_OBJECT))
			continue;
		for (size_t k = 0; k < (list ? l->nr : 1); k++) {
			n = v[k] ? begins_with_place(why, v[k]) : 0;
			found = n > most ? s : found;
			most = max_u64(n, most);
		}
	}
	return found;
}

int cli_names_check(struct parser *p)
{
	struct named_list l = {.nr = 0};
	int r = list_names(p, &l);

	if (r == CLI_OK)
		r = names_check_pairs(p, &l);
	free(l.v);
	return r;
}

int cli_name_check(const struct cli_cmd *cmd, const void *args, const char *option,
		   const char *name)
{
	struct cli_msg msg = {""};
	struct parser p = {.cmd = cmd, .args = (char *)(uintptr_t)args, .msg = &msg};
	struct named_list l = {.nr = 0};
	struct named made = {.name = name, .role = CLI_ROLE_WRITE};
	int r = cli_slots(&p);

	snprintf(made.who, sizeof(made.who), "%s", option);
	if (r == CLI_OK)
		r = list_names(&p, &l);
	for (size_t i = 0; i < l.nr && r == CLI_OK; i++)
		if (strcmp(l.v[i].who, option) != 0)
			r = check_pair(&p, &l.v[i], &made);
	free(l.v);
	free(p.slots);
	return r == CLI_OK ? CLI_OK : cli_usage(cmd, "%s", msg.text);
}
