/* SPDX-License-Identifier: Apache-2.0 */
/* penstock ckpt ls: what is in a model file; see load/ckpt/model_file.h. */
#include "cli/cli.h"
#include "cli/data/ckpt_open.h"
#include "load/ckpt/model_file.h"
#include "load/report/jobs/ckpt_files.h"

struct ls_command {
	bool brief;
	struct penstock_s3_opts s3;
	struct cli_output out;
};

static const struct cli_opt ls_opts[] = {
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct ls_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct ls_command, brief, 0, "brief", "one line for each file", .often = true),
	CLI_TABLE(struct ls_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

struct listing {
	const struct ls_command *c;
	struct ckpt_open *k;
};

static int ls_one(void *arg, const char *name)
{
	const struct ls_command *c = ((struct listing *)arg)->c;
	struct ckpt_open *k = ((struct listing *)arg)->k;
	struct penstock_err err = {0, ""};
	struct model_file m;
	int r = model_file_open(&m, k->io, name, NULL, &err), status = CLI_OK;

	if (r < 0)
		status = cli_fail(&cmd_ckpt_ls, CLI_FAILED, "%s", err.msg);
	else
		json_array_append_new(k->files, ckpt_ls_json(&m, name));
	if (r == 0 && k->text)
		ckpt_ls_text(stdout, &m, name, c->brief);
	model_file_close(&m);
	return status;
}

static int ckpt_ls_run(void *args, int argc, char **argv)
{
	struct ls_command *c = args;
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct ckpt_open k;
	int r, status;

	if (!argc)
		return cli_usage(&cmd_ckpt_ls, "name at least one FILE");
	status = ckpt_open(&k, &cmd_ckpt_ls, &opts, &c->s3, (const char *const *)argv, (size_t)argc,
			   c->out.json);
	for (int i = 0; k.io && i < argc; i++) {
		r = cli_s3_models(k.opts.s3, argv[i], &cmd_ckpt_ls, ls_one,
				  &(struct listing){c, &k});
		status = r ? r : status;
	}
	return ckpt_close(&k, "ls", status);
}

const struct cli_cmd cmd_ckpt_ls = {
	.name = "ckpt ls",
	.summary = "tensors or records of model files: type, shape, bytes",
	.usage = "FILE...",
	.operands = "i",
	.opts = ls_opts,
	.args_size = sizeof(struct ls_command),
	.run = ckpt_ls_run,
};
