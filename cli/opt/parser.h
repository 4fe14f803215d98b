/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_PARSER_H
#define PENSTOCK_CLI_OPT_PARSER_H

/* What opt.c, which finds the option of a word, and opt_value.c, which stores its value, share. */
#include "cli/opt/opt.h"

/* One name of one option. */
struct slot {
	const char *name;
	const struct cli_opt *opt;
	size_t at;
	size_t main;           /* index of the slot that is not an alias */
	const struct slot *as; /* of a main one: the name by which it was given; NULL: it was not */
	bool first;            /* abbreviations mean this one before others */
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

/* One line into the parser's message; returns CLI_USAGE. */
int cli_bad(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Is @name the word of @len letters?  `-' and `_' are the same. */
bool cli_same_name(const char *name, const char *word, size_t len);
/* How far @word is from @candidate; 99 is too far. */
unsigned cli_distance(const char *word, const char *candidate);

/* What the last step of parsing looks at: no file is written that another option names. */
int cli_names_check(struct parser *p);
/* The place among @p's options that @why begins with, and thus is about; NULL: none. */
const struct slot *cli_names_about(const struct parser *p, const char *why);
/* The slots of @p's command; p->slots is the caller's to free.  CLI_OK, or CLI_USAGE. */
int cli_slots(struct parser *p);

/* Store @value as the option's kind wants it: CLI_OK, or CLI_USAGE with the reason. */
int cli_set_value(struct parser *p, const struct slot *s, const char *value);

#endif
