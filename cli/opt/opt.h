/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_H
#define PENSTOCK_CLI_OPT_H

/*
 * How to write a subcommand: one file cmd_NAME.c with
 *
 *	struct name_command {			what the options set: mostly the job itself
 *		struct name_job job;
 *		struct cli_result_args out;	shared with other commands
 *	};
 *	static const struct cli_opt name_opts[] = {
 *		CLI_GROUP("How"),
 *		CLI_TABLE(struct name_command, job.opts, struct penstock_opts, cli_engine_opts),
 *		CLI_SIZE(struct name_command, job.span, 0, "span", "BYTES", "1M", 512, 1ull << 30,
 *			 "bytes on disk"),
 *		CLI_ALIAS("extent"),		another name of the option above
 *		CLI_ALIAS_OF("fio", "size"),	and the one that another tool has for it
 *		CLI_TABLE(struct name_command, out, struct cli_result_args, cli_result_opts),
 *		CLI_END,
 *	};
 *	static int name_run(void *args, int argc, char **argv) { ... }
 *	const struct cli_cmd cmd_name = { .name = "name", ... };
 *
 * one line in main.c, one declaration in cli.h, and docs/man/penstock-NAME.md with a
 * paragraph per option.  A concept has one name in all commands and a name one meaning, which
 * tests/docs/options.py holds them to; docs/options.md shows them all.  Help, manual page,
 * completion, range checks and error messages come from the table, and so do the settings of a
 * result (cli_settings()).  A command can have commands of its own (`subs'): `penstock trace stat'
 * is "trace stat" in cmd_trace_stat.c, penstock-trace-stat.md, and in the list of "trace" instead
 * of main.c.
 *
 * On the command line: --name VALUE, --name=VALUE, -n VALUE, -nVALUE; `-' and
 * `_' are the same letter in long names; options and operands mix freely; `--'
 * ends the options.  Names are not abbreviated, but for `abbreviated' below: an
 * option added later must not change what a script means.  A word that begins
 * with `-' is a value only after `=', so that a forgotten value is noticed.
 *
 * Results go to stdout, everything else to stderr.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct penstock_err;

/* Exit status of every command. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,       /* bad command line; nothing was done */
	CLI_UNSUPPORTED = 3, /* this machine or build cannot do it */
};

enum cli_kind {
	CLI_KIND_END,
	CLI_KIND_GROUP, /* heading in the help */
	CLI_KIND_TABLE, /* options shared with other commands */
	CLI_KIND_ALIAS, /* another long name of the option above */
	CLI_KIND_FLAG,
	CLI_KIND_BIT,
	CLI_KIND_STR,
	CLI_KIND_U32,
	CLI_KIND_U64,
	CLI_KIND_SIZE,
	CLI_KIND_DBL,
	CLI_KIND_ENUM,
	CLI_KIND_LIST,
};

/*
 * What a value names.  `file://' in front of any of them is taken off and other schemes are
 * refused; no file that is written may be one that is read or written by another option.
 */
enum cli_role {
	CLI_ROLE_NONE,
	CLI_ROLE_READ,
	CLI_ROLE_WRITE,
	CLI_ROLE_PLACE,  /* a folder, a device: where work is done */
	CLI_ROLE_OBJECT, /* a path, or a URI of an object store */
};

/* One line of an option table; made by the macros below. */
struct cli_opt {
	enum cli_kind kind;
	enum cli_role role;
	char letter;      /* -l, or 0 */
	const char *name; /* --name, heading, or alias */
	const char *meta; /* what the value is called in the help */
	const char *def;  /* as it would be typed; NULL: the field stays 0; or CLI_REQUIRED */
	uint64_t min, max;
	uint64_t scale;             /* what one of a number is in the field; 0: one */
	const char *bounds;         /* or a field of struct penstock_opts whose range it is */
	const char *key;            /* in the settings of a result, where it is not the name */
	bool invert;                /* a flag that takes away what is there without it */
	bool quiet;                 /* not among the settings of a result */
	bool often;                 /* in the short help, like all that have a letter */
	bool late;                  /* of a number out of range: told with all else that is wrong */
	double low, high;           /* of CLI_KIND_DBL */
	const char *const *choices; /* NULL-terminated */
	const struct cli_opt *sub;
	bool single;     /* a list of which each value needs the option anew */
	size_t at;       /* of the field in the command's struct */
	size_t given_at; /* of a bool there, set when the option is given; 0: none */
	const char *help;
};

/* The values of a CLI_LIST option, in the order given; copies. */
struct cli_list {
	const char **items;
	size_t nr;
	bool given; /* the option was there, perhaps without a value */
};

/* As the default of an option: leaving it out is an error. */
extern const char cli_required[];
#define CLI_REQUIRED cli_required

/* offsetof() that fails to compile when the field has another type. */
#define CLI_AT(T, field, ctype)                                                               \
	(offsetof(T, field) +                                                                 \
	 0 * sizeof(char[__builtin_types_compatible_p(ctype, __typeof__(((T *)0)->field)) ? 1 \
											  : -1]))

/* clang-format off */
#define CLI_GROUP(title) {.kind = CLI_KIND_GROUP, .name = (title)}
/* All of @table, for the struct @S at @field of @T. */
#define CLI_TABLE(T, field, S, table) \
	{.kind = CLI_KIND_TABLE, .sub = (table), .at = CLI_AT(T, field, S)}
#define CLI_ALIAS(long_name) {.kind = CLI_KIND_ALIAS, .name = (long_name)}
/* The name that another tool has for it: help and manual show it and say whose it is. */
#define CLI_ALIAS_OF(tool, long_name) \
	{.kind = CLI_KIND_ALIAS, .name = (long_name), .help = (tool)}
/* bool: false unless given. */
#define CLI_FLAG(T, field, short_name, long_name, text, ...) \
	{.kind = CLI_KIND_FLAG, .letter = (short_name), .name = (long_name), \
	 .at = CLI_AT(T, field, bool), .help = (text), ##__VA_ARGS__}
/* bool: true unless given; and a bit of an uint32_t. */
#define CLI_NOT(T, field, short_name, long_name, text, ...) \
	{.kind = CLI_KIND_FLAG, .invert = true, .letter = (short_name), .name = (long_name), \
	 .at = CLI_AT(T, field, bool), .help = (text), ##__VA_ARGS__}
#define CLI_BIT(T, field, bit, short_name, long_name, text, ...) \
	{.kind = CLI_KIND_BIT, .max = (bit), .letter = (short_name), .name = (long_name), \
	 .at = CLI_AT(T, field, uint32_t), .help = (text), ##__VA_ARGS__}
/* const char *: points into argv or to the default. */
#define CLI_STR(T, field, short_name, long_name, what, default_, text, ...) \
	{.kind = CLI_KIND_STR, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .at = CLI_AT(T, field, const char *), .help = (text), ##__VA_ARGS__}
/* The same for a file that is read, one that is written, and a folder to work in. */
#define CLI_FILE_(role_, T, field, short_name, long_name, what, default_, text, ...) \
	{.kind = CLI_KIND_STR, .role = (role_), .letter = (short_name), .name = (long_name), \
	 .meta = (what), .def = (default_), .at = CLI_AT(T, field, const char *), .help = (text), ##__VA_ARGS__}
#define CLI_IN(...)    CLI_FILE_(CLI_ROLE_READ, __VA_ARGS__)
#define CLI_OUT(...)   CLI_FILE_(CLI_ROLE_WRITE, __VA_ARGS__)
#define CLI_PLACE(...) CLI_FILE_(CLI_ROLE_PLACE, __VA_ARGS__)
#define CLI_S3(...) CLI_FILE_(CLI_ROLE_OBJECT, __VA_ARGS__)
/* uint32_t and uint64_t: decimal or 0x..., min <= value <= max. */
#define CLI_U32(T, field, short_name, long_name, what, default_, lo, hi, text, ...) \
	{.kind = CLI_KIND_U32, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .min = (lo), .max = (hi), .at = CLI_AT(T, field, uint32_t), .help = (text), ##__VA_ARGS__}
#define CLI_U64(T, field, short_name, long_name, what, default_, lo, hi, text, ...) \
	{.kind = CLI_KIND_U64, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .min = (lo), .max = (hi), .at = CLI_AT(T, field, uint64_t), .help = (text), ##__VA_ARGS__}
/* The same and sizes for fields of struct penstock_opts, which the library knows the range of. */
#define CLI_U32_OF(T, field, short_name, long_name, what, name_, text, ...) \
	{.kind = CLI_KIND_U32, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .bounds = (name_), .at = CLI_AT(T, field, uint32_t), .help = (text), ##__VA_ARGS__}
#define CLI_SIZE_OF(T, field, short_name, long_name, what, name_, text, ...) \
	{.kind = CLI_KIND_SIZE, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .bounds = (name_), .at = CLI_AT(T, field, uint64_t), .help = (text), ##__VA_ARGS__}
/* uint64_t: bytes; takes K, M, G, T as powers of two. */
#define CLI_SIZE(T, field, short_name, long_name, what, default_, lo, hi, text, ...) \
	{.kind = CLI_KIND_SIZE, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .min = (lo), .max = (hi), .at = CLI_AT(T, field, uint64_t), .help = (text), ##__VA_ARGS__}
/* double: a finite number, lo <= value <= hi; -INFINITY and INFINITY: any. */
#define CLI_DBL(T, field, short_name, long_name, what, default_, lo, hi, text, ...) \
	{.kind = CLI_KIND_DBL, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .low = (lo), .high = (hi), .at = CLI_AT(T, field, double), .help = (text), ##__VA_ARGS__}
/* uint32_t: index into @words, an array of strings that ends with NULL. */
#define CLI_ENUM(T, field, short_name, long_name, words, default_, text, ...) \
	{.kind = CLI_KIND_ENUM, .letter = (short_name), .name = (long_name), .choices = (words), \
	 .def = (default_), .at = CLI_AT(T, field, uint32_t), .help = (text), ##__VA_ARGS__}
/* The same for an enum or an int. */
#define CLI_WORD(T, field, short_name, long_name, words, default_, text, ...) \
	{.kind = CLI_KIND_ENUM, .letter = (short_name), .name = (long_name), .choices = (words), \
	 .def = (default_), .at = CLI_AT(T, field, __typeof__(((T *)0)->field)) + \
	 0 * sizeof(char[sizeof(((T *)0)->field) == sizeof(uint32_t) ? 1 : -1]), \
	 .help = (text), ##__VA_ARGS__}
/* The same, and a bool that is set when the option is given. */
#define CLI_ENUM_GIVEN(T, field, given_field, short_name, long_name, words, default_, text, ...) \
	{.kind = CLI_KIND_ENUM, .letter = (short_name), .name = (long_name), .choices = (words), \
	 .def = (default_), .at = CLI_AT(T, field, uint32_t), .given_at = CLI_AT(T, given_field, bool), \
	 .help = (text), ##__VA_ARGS__}
/*
 * struct cli_list: may be repeated, and takes all words up to the next one that
 * begins with `-': --size 1M 2M --read-only.  Commas do the same: --size 1M,2M; but
 * what begins like a setting belongs to the value before: fault:nth=3,seed=1.
 * Where a command has operands, --size=1M takes exactly that word, and what may stand alone takes
 * a value no other way.  @lo and
 * @hi bound the number of values; with @lo 0 the option may stand alone.
 */
#define CLI_LIST(T, field, short_name, long_name, what, default_, lo, hi, text, ...) \
	{.kind = CLI_KIND_LIST, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .min = (lo), .max = (hi), .at = CLI_AT(T, field, struct cli_list), .help = (text), ##__VA_ARGS__}
/* The same for places, in whose names a comma is a letter like others. */
#define CLI_PLACES_(role_, T, field, short_name, long_name, what, default_, lo, hi, text, ...) \
	{.kind = CLI_KIND_LIST, .letter = (short_name), .name = (long_name), .meta = (what), \
	 .def = (default_), .min = (lo), .max = (hi), .role = (role_), \
	 .at = CLI_AT(T, field, struct cli_list), .help = (text), ##__VA_ARGS__}
#define CLI_PLACES(...) CLI_PLACES_(CLI_ROLE_PLACE, __VA_ARGS__)
#define CLI_S3S(...) CLI_PLACES_(CLI_ROLE_OBJECT, __VA_ARGS__)
/* The same for one value each time: --fail-if a --fail-if b, operands may follow. */
#define CLI_EACH(T, field, short_name, long_name, what, hi, text, ...) \
	{.kind = CLI_KIND_LIST, .single = true, .letter = (short_name), .name = (long_name), \
	 .meta = (what), .min = 1, .max = (hi), .at = CLI_AT(T, field, struct cli_list), .help = (text), ##__VA_ARGS__}
#define CLI_END {.kind = CLI_KIND_END}
/* clang-format on */

struct cli_cmd {
	const char *name;
	const char *summary;  /* one line, lower case, no full stop */
	const char *usage;    /* operands: "FILE", "[PATH...]"; NULL: takes none */
	const char *operands; /* what they are: r, w, p or o as enum cli_role, i: read, and may be
				 a URI; the last is that of all that follow */
	const char *notes;    /* optional: lines at the end of the help */
	const struct cli_opt *opts;
	size_t args_size;
	/* Of a struct cli_problems in the arguments, for numbers that are `late'. */
	size_t problems;
	/*
	 * Of a command that stands in for another program whose options can be cut short: that
	 * program's, a table within @opts.  What is short for one of these means it; only else are
	 * the other options looked at, so that ours take nothing away from theirs.
	 */
	const struct cli_opt *abbreviated;
	/*
	 * Commands of the command, NULL-terminated, by their whole names: "trace stat" of "trace".
	 * The first word decides; without `run' one is needed, and @opts is cli_no_opts.
	 */
	const struct cli_cmd *const *subs;
	/* What to type instead, of a command that is written in Python. */
	const char *elsewhere;
	/* @args: zeroed, then defaults, then what was given; returns the exit status. */
	int (*run)(void *args, int argc, char **argv);
};

/* Options every job has; include with CLI_TABLE. */
struct cli_output {
	const char *json; /* file, "-" for standard output, NULL for none; see json.h */
};
extern const struct cli_opt cli_output_opts[];
extern const struct cli_opt cli_no_opts[];

/* One line "penstock NAME: ..." on stderr.  cli_fail() returns @status. */
int cli_fail(const struct cli_cmd *cmd, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with "note: " in front, where nothing failed. */
void cli_note(const struct cli_cmd *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The same for a bad command line, with a pointer to --help; returns CLI_USAGE. */
int cli_usage(const struct cli_cmd *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * What the options of @cmd have in @args, as the settings of a result: by name, with `_', null
 * where there is no value; files that are written are left out.  NULL for want of memory.
 */
struct json_t;
struct json_t *cli_settings(const struct cli_cmd *cmd, const void *args);

/* What a number may be; step is what it is a multiple of. */
struct penstock_bounds;
void cli_bounds(const struct cli_opt *o, struct penstock_bounds *out);

/*
 * @why is told of the option that it is about, as that was given: "rate: ..." of --rate, and
 * "/mnt/x: ..." of the option that names this place.  Returns @status, of which CLI_USAGE points to
 * --help.
 */
int cli_blame(const struct cli_cmd *cmd, int status, const char *why);
/* The same of what a job's check returned, -errno: the exit status. */
int cli_refuse(const struct cli_cmd *cmd, int r, const char *why);

/* Options that exclude each other: the first @nr of which both are given.  An exit status. */
struct cli_pair {
	bool both;
	const char *names; /* "--a and --b" */
};
int cli_exclude(const struct cli_cmd *cmd, const struct cli_pair *pairs, size_t nr);

/* ---- what follows is for main.c and the tests ---- */

/*
 * Fill @args from @argv (without the command's name) and move the operands to
 * the front of @argv; *@ret_argc is their number.  Returns CLI_OK or CLI_USAGE
 * with one line in @msg.  cli_args_fini() frees the lists in @args either way.
 */
struct cli_msg {
	char text[512];
};
int cli_parse(const struct cli_cmd *cmd, void *args, int argc, char **argv, int *ret_argc,
	      struct cli_msg *msg);
void cli_args_fini(const struct cli_cmd *cmd, void *args);

/* The same, and s3:// as it is where @role allows it. */
int cli_name(const char **out, enum cli_role role, const char *text, struct penstock_err *err);

/*
 * May @name be written for @option, when it is not one of the options' own values but made of
 * one?  CLI_OK, or CLI_USAGE after a message.
 */
int cli_name_check(const struct cli_cmd *cmd, const void *args, const char *option,
		   const char *name);

/* Parse and run; --help is dealt with here. */
int cli_cmd_run(const struct cli_cmd *cmd, int argc, char **argv);

/* The one of @commands (NULL-terminated, or NULL) that is called @word. */
const struct cli_cmd *cli_find(const struct cli_cmd *const *commands, const char *word);
/* Say that @word is none of @commands nor of the words @more; returns CLI_USAGE. */
int cli_unknown(const struct cli_cmd *cmd, const struct cli_cmd *const *commands,
		const char *const *more, const char *word);
int cli_needs_command(const struct cli_cmd *cmd);

void cli_list_commands(FILE *f, const struct cli_cmd *const *commands);
/* On one screen what is used most, or @all options. */
void cli_help(FILE *f, const struct cli_cmd *cmd, bool all);
#define CLI_WIDTH 80 /* columns of help */
/* Print @text from column @col on, in lines of @width that begin at @indent; ends the line. */
void cli_wrap(FILE *f, const char *text, size_t col, size_t indent, size_t width);
/* All tables as one JSON object, commands of commands behind theirs; @commands ends with NULL.
 * Returns an exit status. */
int cli_dump_options(FILE *f, const struct cli_cmd *const *commands);
/* The word nearest to @word in @words (NULL-terminated), or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *words);

/*
 * Numbers as people type them, in the "C" locale whatever the user's is: decimal, with or without
 * a sign.  0, -EINVAL or -ERANGE; *@out is set only on success.
 */
int cli_int_parse(int64_t *out, const char *s);
/* Decimal, with or without point and exponent; finite.  0 or -EINVAL. */
int cli_dbl_parse(double *out, const char *s);

/* What is wrong, collected so that all of it can be said at once; zeroed is empty. */
#define CLI_PROBLEMS_MAX 100 /* those that come after are only counted */
struct cli_problems {
	char *lines[CLI_PROBLEMS_MAX];
	unsigned nr;
};
void cli_problem(struct cli_problems *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* One line each on stderr, @what ("warning: ") in front. */
void cli_problems_say(const struct cli_problems *p, const struct cli_cmd *cmd, const char *what);
void cli_problems_fini(struct cli_problems *p);

#endif
