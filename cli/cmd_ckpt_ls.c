/* SPDX-License-Identifier: Apache-2.0 */
/* sluice ckpt ls: what is in a model file; see load/ckpt/model_file.h. */
#include <errno.h>

#include "cli/cli.h"
#include "cli/object.h"
#include "cli/opt/file.h"
#include "cli/opt/json.h"
#include "load/ckpt/model_file.h"
#include "load/report/jobs/ckpt_files.h"

struct ls_command {
	bool brief;
	struct cli_output out;
};

static const struct cli_opt ls_opts[] = {
	CLI_GROUP("Output"),
	CLI_FLAG(struct ls_command, brief, 'b', "brief", "one line for each file"),
	CLI_TABLE(struct ls_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

static int ls_one(const struct ls_command *c, struct sluice_io *io, const char *name, bool text,
		  json_t *files)
{
	struct sluice_err err = {0, ""};
	struct model_file m;
	int r = model_file_open(&m, io, name, NULL, &err), status = CLI_OK;

	if (r < 0)
		status = cli_fail(&cmd_ckpt_ls, CLI_FAILED, "%s", err.msg);
	else
		json_array_append_new(files, ckpt_ls_json(&m, name));
	if (r == 0 && text)
		ckpt_ls_text(stdout, &m, name, c->brief);
	model_file_close(&m);
	return status;
}

static int ls_all(const struct ls_command *c, int argc, char **argv, struct cli_file *json)
{
	json_t *files = json_array();
	struct sluice_err err = {0, ""};
	struct sluice_opts opts = SLUICE_OPTS_INIT;
	struct sluice_io *io;
	int status = CLI_OK, r;

	r = cli_object_folders(&opts.objects, (const char *const *)argv, (size_t)argc,
			       &cmd_ckpt_ls);
	if (r != CLI_OK)
		return r;
	r = sluice_open(&io, &opts, &err);

	if (r < 0)
		return cli_refuse(&cmd_ckpt_ls, r, err.msg);
	for (int i = 0; i < argc; i++) {
		r = ls_one(c, io, argv[i], !cli_is_stdout(json->name), files);
		status = r ? r : status;
	}
	sluice_close(io, NULL);
	sluice_object_close(opts.objects);
	r = json->name ? cli_json_write(json, &cmd_ckpt_ls, ckpt_files_json("ls", files))
		       : (json_decref(files), CLI_OK);
	return status ? status : r;
}

static int ls_run(void *args, int argc, char **argv)
{
	const struct ls_command *c = args;
	struct cli_file json = {0};
	int r;

	if (!argc)
		return cli_usage(&cmd_ckpt_ls, "name at least one FILE");
	r = cli_file_open(&json, &cmd_ckpt_ls, "--json", c->out.json);
	if (r == CLI_OK)
		r = ls_all(c, argc, argv, &json);
	cli_file_abandon(&json);
	return r;
}

const struct cli_cmd cmd_ckpt_ls = {
	.name = "ckpt ls",
	.summary = "tensors or records of model files: type, shape, bytes",
	.usage = "FILE...",
	.operands = "i",
	.opts = ls_opts,
	.args_size = sizeof(struct ls_command),
	.run = ls_run,
};
