/* SPDX-License-Identifier: Apache-2.0 */
/* The options of reading a trace, and copying one into a file that appears when it is complete. */
#include "cli/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/opt/file.h"
#include "load/model/kv_model.h"

const struct cli_opt cli_trace_in_opts[] = {
	CLI_GROUP("Input"),
	CLI_WORD(struct cli_trace_in, opts.format, 'f', "format", trace_format_names, "auto",
		 "what IN is; auto: by content"),
	CLI_FLAG(struct cli_trace_in, opts.strict, 0, "strict",
		 "stop at the first bad row; otherwise bad rows are counted and left out",
		 .often = true),
	CLI_U64(struct cli_trace_in, opts.block_tokens, 0, "block-tokens", "N", "512", 1, 1 << 30,
		"mooncake: tokens of a hash id"),
	CLI_SIZE(struct cli_trace_in, opts.bytes_per_token, 0, "bytes-per-token", "BYTES", NULL, 1,
		 1ull << 40, "mooncake: KV cache of a token"),
	CLI_STR(struct cli_trace_in, model, 0, "model", "NAME", NULL,
		"mooncake: instead of bytes per token, a model of 'sluice kv --model list'; "
		"burstgpt, sharegpt: whose requests they are",
		.often = true),
	CLI_END,
};

static int model_bytes(uint64_t *out, const char *name, const struct cli_cmd *cmd)
{
	const struct kv_model *m;

	for (unsigned i = 0; (m = kv_model_builtin(i)); i++) {
		if (!strcmp(m->key, name)) {
			*out = kv_model_bytes_per_token(m);
			return CLI_OK;
		}
	}
	return cli_usage(cmd, "--model: '%s' is not one of 'sluice kv --model list'", name);
}

int cli_trace_in(struct cli_trace_in *a, const struct cli_cmd *cmd)
{
	if (a->model && a->opts.bytes_per_token)
		return cli_usage(cmd, "--model and --bytes-per-token exclude each other");
	return a->model ? model_bytes(&a->opts.bytes_per_token, a->model, cmd) : CLI_OK;
}

void cli_trace_tell_bad(const struct trace_bad *bad, const struct cli_cmd *cmd)
{
	for (unsigned i = 0; i < bad->nr && i < TRACE_BAD_TEXTS; i++)
		cli_fail(cmd, 0, "a bad row was left out: %s", bad->text[i]);
	if (bad->nr > TRACE_BAD_TEXTS)
		cli_fail(cmd, 0, "%" PRIu64 " bad rows were left out in all", bad->nr);
}

bool cli_trace_twice(const char *path)
{
	struct stat st;

	return strcmp(path, "-") != 0 && (stat(path, &st) < 0 || S_ISREG(st.st_mode) ||
					  S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode));
}

static bool ends_in(const char *s, const char *end)
{
	size_t len = strlen(s), n = strlen(end);

	return len >= n && !strcmp(s + len - n, end);
}

static void tell_losses(const struct trace_copy *c, const struct cli_cmd *cmd)
{
	const char *out = c->raw ? NULL : trace_left_out(c->format);

	if (out)
		cli_fail(cmd, 0, "lost: %s", out);
	if (c->unknown[0])
		cli_fail(cmd, 0, "lost: columns of unknown meaning: %s", c->unknown);
	for (int i = 0; i < TRACE_LOSSES; i++) {
		if (c->lost[i] && i == TRACE_LOSS_EPOCH)
			cli_fail(cmd, 0, "lost: %s", trace_loss_texts[i]);
		else if (c->lost[i])
			cli_fail(cmd, 0, "lost: %s (%" PRIu64 " of %" PRIu64 " row%s)",
				 trace_loss_texts[i], c->lost[i], c->rows_in,
				 c->rows_in == 1 ? "" : "s");
	}
}

int cli_trace_copy(struct trace_copy *c, const char *out, const struct cli_cmd *cmd)
{
	struct sluice_err err = {0, ""};
	struct cli_file file;
	int r;

	r = cli_file_open(&file, cmd, "OUT", out);
	if (r != CLI_OK)
		return r;
	c->out = out;
	c->writer.fd = file.stream->fd;
	c->writer.pack = ends_in(out, ".zst") ? TRACE_PACK_ZSTD : TRACE_PACK_NO;
	c->stop = cli_stop_catch();
	r = trace_copy(c, &err);
	if (r < 0 && c->output_failed)
		return cli_file_finish(&file, cmd, r, NULL);
	if (r < 0) {
		cli_file_abandon(&file);
		return cli_fail(cmd, r == -ENOMEM || r == -EINTR ? CLI_FAILED : CLI_USAGE, "%s",
				err.msg);
	}
	cli_trace_tell_bad(&c->bad, cmd);
	r = cli_file_finish(&file, cmd, 0, NULL);
	if (r == CLI_OK)
		tell_losses(c, cmd);
	return r;
}
