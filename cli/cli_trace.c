/* SPDX-License-Identifier: Apache-2.0 */
/* The options of reading a trace, and copying one into a file that appears when it is complete. */
#include "cli/cli_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/opt/opt_file.h"
#include "load/model/kv_model.h"

const struct cli_opt cli_trace_in_opts[] = {
	CLI_GROUP("Input"),
	CLI_WORD(struct cli_trace_in, opts.format, 0, "format", trace_format_names, "auto",
		 "what IN is; auto: by content", .often = true),
	CLI_FLAG(struct cli_trace_in, opts.strict, 0, "strict",
		 "stop at the first bad row; otherwise bad rows are counted and left out",
		 .often = true),
	CLI_U64(struct cli_trace_in, opts.block_tokens, 0, "block-tokens", "N", "512", 1, 1 << 30,
		"mooncake: tokens of a hash id"),
	CLI_SIZE(struct cli_trace_in, opts.bytes_per_token, 0, "bytes-per-token", "BYTES", NULL, 1,
		 1ull << 40, "mooncake: KV cache of a token"),
	CLI_STR(struct cli_trace_in, model, 0, "model", "NAME", NULL,
		"mooncake: instead of bytes per token, a model of 'penstock kv --model list'; "
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
	return cli_usage(cmd, "--model: '%s' is not one of 'penstock kv --model list'", name);
}

int cli_trace_in(struct cli_trace_in *a, const struct cli_cmd *cmd)
{
	if (a->model && a->opts.bytes_per_token)
		return cli_usage(cmd, "--model and --bytes-per-token exclude each other");
	return a->model ? model_bytes(&a->opts.bytes_per_token, a->model, cmd) : CLI_OK;
}

void cli_trace_report_bad(const struct trace_bad *bad, const struct cli_cmd *cmd)
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

static void report_losses(const struct trace_copy *c, const struct cli_cmd *cmd)
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
	struct penstock_err err = {0, ""};
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
	cli_trace_report_bad(&c->bad, cmd);
	r = cli_file_finish(&file, cmd, 0, NULL);
	if (r == CLI_OK)
		report_losses(c, cmd);
	return r;
}

/* ------------------------------------------------------------------ requests */

#define FOREVER  1000000000000000000ull /* ns of the model's clock: an input ends by itself */
#define EPOCH_NS 1735689600000000000ull

const struct cli_opt cli_requests_opts[] = {
	CLI_GROUP("BurstGPT and ShareGPT: the model the requests go through"),
	CLI_U32(struct cli_requests, params.users, 0, "num-users", "N", "100", 1, 100000,
		"users of the model: how many requests it serves at a time"),
	CLI_DBL(struct cli_requests, params.gpu_gb, 0, "gpu-mem-gb", "GIB", "16", 0, 65536,
		"memory of a GPU of the model"),
	CLI_U32(struct cli_requests, params.gpus, 0, "num-gpus", "N", "1", 1, 1 << 20, "its GPUs"),
	CLI_U32(struct cli_requests, params.tensor_parallel, 0, "tensor-parallel", "N", "1", 1,
		1 << 20, "ranks an entry is divided among, at most --num-gpus"),
	CLI_DBL(struct cli_requests, params.cpu_gb, 0, "cpu-mem-gb", "GIB", "32", 0, 131072,
		"its second tier"),
	CLI_DBL(struct cli_requests, params.storage_gb, 0, "storage-capacity-gb", "GIB", "0", 0,
		1e12, "its third tier; 0: no limit"),
	CLI_U32(struct cli_requests, params.sharegpt_conversations, 0, "max-conversations", "N",
		"500", 1, UINT32_MAX, "conversations of a ShareGPT file"),
	CLI_U64(struct cli_requests, params.max_requests, 0, "max-requests", "N", "0", 0, INT64_MAX,
		"end after so many requests; 0: all"),
	CLI_WORD(struct cli_requests, params.generation, 0, "generation-mode", kv_gen_names,
		 "realistic", "0, 2 or 30 ms per generated token"),
	CLI_END,
};

static int set_params(struct kv_params *p, const char *model, const struct cli_cmd *cmd)
{
	if (p->tensor_parallel > p->gpus)
		return cli_usage(cmd, "--tensor-parallel: %u is more than --num-gpus %u",
				 p->tensor_parallel, p->gpus);
	p->seed_given = p->multi_turn = p->prefix = true;
	p->duration_ns = FOREVER;
	p->target_saturation = 0.8;
	p->trace_speedup = 1;
	p->replay_cycles = 1;
	p->epoch_ns = EPOCH_NS;
	if (kv_config_defaults(&p->config) < 0)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	p->model = kv_models_find(&p->config.models, model ? model : "llama3.1-8b");
	return CLI_OK;
}

int cli_requests(struct cli_requests *q, struct trace_reader_opts *o, const char *model,
		 uint64_t seed, const char *trace, const struct cli_cmd *cmd)
{
	enum trace_format format = o->format;
	struct penstock_err err = {0, ""};
	int r;

	if (format == TRACE_AUTO && cli_trace_twice(trace) &&
	    trace_detect(&format, trace, &err) < 0)
		return cli_usage(cmd, "%s", err.msg);
	if (format != TRACE_BURSTGPT && format != TRACE_SHAREGPT)
		return CLI_OK;
	r = set_params(&q->params, model, cmd);
	if (r != CLI_OK)
		return r;
	q->params.seed = seed;
	q->params.input = o->strict ? KV_INPUT_STRICT : KV_INPUT_CHECKED;
	*(format == TRACE_BURSTGPT ? &q->params.burst_path : &q->params.sharegpt_path) = trace;
	q->generator = kv_row_generator(&q->params);
	o->generator = &q->generator;
	return CLI_OK;
}

void cli_requests_fini(struct cli_requests *q)
{
	if (q->generator.open)
		kv_config_fini(&q->params.config);
}
