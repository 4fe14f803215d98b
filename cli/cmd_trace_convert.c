/* SPDX-License-Identifier: Apache-2.0 */
/* penstock trace convert: a trace in another format; see load/trace/copy.h. */
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_trace.h"

struct convert_args {
	struct cli_trace_in in;
	struct cli_requests requests;
	struct trace_copy copy;
	uint64_t seed;
	uint32_t level, tier;
};

/* The same order as TRACE_NO_TIER first, then the tiers. */
static const char *const tier_words[] = {"none", "0", "1", "2", NULL};

static const struct cli_opt convert_opts[] = {
	CLI_TABLE(struct convert_args, in, struct cli_trace_in, cli_trace_in_opts),
	CLI_GROUP("Output"),
	CLI_WORD(struct convert_args, copy.writer.format, 0, "to-format", trace_format_names,
		 "auto",
		 "what OUT is; auto: by its name (.csv kv, .jsonl mooncake, .iolog fio, .tsv "
		 "oplog), which may end in .zst",
		 .often = true),
	CLI_FLAG(struct convert_args, copy.writer.extended, 0, "trace-extended",
		 "kv: more columns for what the six cannot hold; Delete, Stat and List rows too"),
	CLI_FLAG(struct convert_args, copy.writer.lf, 0, "lf",
		 "kv: lines end in LF instead of CRLF"),
	CLI_ENUM(struct convert_args, tier, 0, "default-tier", tier_words, "none",
		 "kv: the tier of rows that have none"),
	CLI_U32(struct convert_args, level, 0, "level", "N", "3", 1, 19, "of compression"),
	CLI_TABLE(struct convert_args, requests, struct cli_requests, cli_requests_opts),
	CLI_U64(struct convert_args, seed, 0, "seed", "N", "1", 0, INT64_MAX, "of the model"),
	CLI_END,
};

/* By what the name ends in, without .zst. */
static enum trace_format convert_by_name(const char *out)
{
	static const struct {
		const char *end;
		enum trace_format format;
	} ends[] = {
		{".csv", TRACE_KV},
		{".jsonl", TRACE_MOONCAKE},
		{".iolog", TRACE_FIO},
		{".tsv", TRACE_OPLOG},
	};
	size_t len = strlen(out);

	if (len >= 4 && !strcmp(out + len - 4, ".zst"))
		len -= 4;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t n = strlen(ends[i].end);

		if (len >= n && !memcmp(out + len - n, ends[i].end, n))
			return ends[i].format;
	}
	return TRACE_AUTO;
}

/* What OUT is to be. */
static int set_format(struct trace_writer_opts *w, const char *out)
{
	if (w->format == TRACE_AUTO)
		w->format = convert_by_name(out);
	if (w->format == TRACE_AUTO)
		return cli_usage(
			&cmd_trace_convert,
			"'%s' does not say what it is to be; give --to-format kv, mooncake, fio or "
			"oplog",
			out);
	if (w->format == TRACE_BURSTGPT || w->format == TRACE_SHAREGPT)
		return cli_usage(&cmd_trace_convert,
				 "--to-format: %s is a list of requests, which cannot be had from "
				 "operations; kv, mooncake, fio and oplog can",
				 trace_format_names[w->format]);
	return CLI_OK;
}

static int convert_run(void *args, int argc, char **argv)
{
	struct convert_args *a = args;
	struct trace_writer_opts *w = &a->copy.writer;
	int r = cli_trace_in(&a->in, &cmd_trace_convert);

	if (r == CLI_OK && argc != 2)
		return cli_usage(&cmd_trace_convert, "IN and OUT are needed, not %d operands",
				 argc);
	if (r == CLI_OK)
		r = set_format(w, argv[1]);
	if (r != CLI_OK)
		return r;
	if ((w->extended || w->lf || a->tier) && w->format != TRACE_KV)
		return cli_usage(&cmd_trace_convert, "--%s is for kv traces, not for %s",
				 w->extended ? "trace-extended"
				 : w->lf     ? "lf"
					     : "default-tier",
				 trace_format_names[w->format]);
	w->zstd_level = (int)a->level;
	if (w->format == TRACE_MOONCAKE)
		w->block_tokens = a->in.opts.block_tokens;
	a->copy.in = argv[0];
	a->copy.tier = a->tier ? a->tier - 1 : TRACE_NO_TIER;
	a->copy.reader = a->in.opts;
	r = cli_requests(&a->requests, &a->copy.reader, a->in.model, a->seed, argv[0],
			 &cmd_trace_convert);
	if (r == CLI_OK)
		r = cli_trace_copy(&a->copy, argv[1], &cmd_trace_convert);
	cli_requests_fini(&a->requests);
	return r;
}

const struct cli_cmd cmd_trace_convert = {
	.name = "trace convert",
	.summary = "write a trace in another format, and say what is lost",
	.usage = "IN OUT",
	.operands = "rw",
	.opts = convert_opts,
	.args_size = sizeof(struct convert_args),
	.run = convert_run,
};
