/* SPDX-License-Identifier: Apache-2.0 */
/* penstock trace cut: a part of a trace, by time and by key; see load/trace/copy.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_trace.h"
#include "load/trace/numbers.h"

struct cut_args {
	struct cli_trace_in in;
	const char *from, *to, *keys;
	uint64_t seed;
};

static const struct cli_opt cut_opts[] = {
	CLI_TABLE(struct cut_args, in, struct cli_trace_in, cli_trace_in_opts),
	CLI_GROUP("What stays"),
	CLI_STR(struct cut_args, from, 0, "from", "SECONDS", NULL,
		"rows of this time and later; +SECONDS: since the first row"),
	CLI_STR(struct cut_args, to, 0, "to", "SECONDS", NULL,
		"rows before this time, or +SECONDS"),
	CLI_STR(struct cut_args, keys, 0, "keys", "SHARE", NULL,
		"a share of the keys, with all their rows: 10% or 1/10"),
	CLI_U64(struct cut_args, seed, 0, "seed", "N", "0", 0, UINT64_MAX,
		"which keys: another number, another sample"),
	CLI_END,
};

static int parse_point(struct trace_point *out, const char *option, const char *text)
{
	if (!text)
		return CLI_OK;
	out->given = true;
	out->relative = *text == '+';
	text += out->relative;
	if (trace_decimal(&out->ns, text, strlen(text), 9))
		return CLI_OK;
	return cli_usage(&cmd_trace_cut,
			 "--%s: '%s' is not a time; give seconds as the trace has them, or "
			 "+SECONDS since its first row",
			 option, text);
}

/* A number without sign, blanks or exponent; where it ends is in *@end. */
static double plain(const char *text, char **end)
{
	size_t n = strspn(text, "0123456789.");

	*end = NULL;
	if (!n || n > 20)
		return -1;
	return strtod(text, end);
}

/* "10%", "1/10": a share in *@out. */
static int parse_share(double *out, const char *text)
{
	double a, b = 100;
	char *end;

	if (!text)
		return CLI_OK;
	a = plain(text, &end);
	if (end && *end == '/')
		b = plain(end + 1, &end);
	else if (end && !strcmp(end, "%"))
		end++;
	else
		end = NULL;
	if (end && !*end && a > 0 && b > 0 && a <= b) {
		*out = a / b;
		return CLI_OK;
	}
	return cli_usage(&cmd_trace_cut,
			 "--keys: '%s' is not a share of the keys, such as 10%% or 1/10", text);
}

static int cut_run(void *args, int argc, char **argv)
{
	struct cut_args *a = args;
	struct trace_copy c = {.tier = TRACE_NO_TIER, .seed = a->seed};
	int r = cli_trace_in(&a->in, &cmd_trace_cut);

	if (r == CLI_OK)
		r = parse_point(&c.from, "from", a->from);
	if (r == CLI_OK)
		r = parse_point(&c.to, "to", a->to);
	if (r == CLI_OK)
		r = parse_share(&c.share, a->keys);
	if (r != CLI_OK)
		return r;
	if (argc != 2)
		return cli_usage(&cmd_trace_cut, "IN and OUT are needed, not %d operands", argc);
	if (!a->from && !a->to && !a->keys)
		return cli_usage(&cmd_trace_cut, "nothing to cut; give --from, --to or --keys");
	if (c.from.given && c.to.given && c.from.relative == c.to.relative && c.to.ns <= c.from.ns)
		return cli_usage(&cmd_trace_cut, "--to: '%s' is not later than --from '%s'", a->to,
				 a->from);
	c.in = argv[0];
	c.reader = a->in.opts;
	c.writer.block_tokens = c.reader.block_tokens;
	return cli_trace_copy(&c, argv[1], &cmd_trace_cut);
}

const struct cli_cmd cmd_trace_cut = {
	.name = "trace cut",
	.summary = "a part of a trace: a window of time, a share of the keys",
	.usage = "IN OUT",
	.operands = "rw",
	.opts = cut_opts,
	.args_size = sizeof(struct cut_args),
	.run = cut_run,
};
