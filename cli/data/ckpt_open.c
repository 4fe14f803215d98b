/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/data/ckpt_open.h"

#include "cli/opt/opt_json.h"
#include "cli/opt/transfer_opts.h"
#include "load/report/jobs/ckpt_files.h"

int ckpt_open(struct ckpt_open *k, const struct cli_cmd *cmd, const struct penstock_opts *opts,
	      struct penstock_s3_opts *s3, const char *const *names, size_t nr, const char *json)
{
	struct penstock_err err = {0, ""};
	int r;

	*k = (struct ckpt_open){.cmd = cmd, .opts = *opts, .text = !cli_is_stdout(json)};
	r = cli_opts_check(&k->opts, cmd);
	if (r == CLI_OK)
		r = cli_file_open(&k->json, cmd, "--json", json);
	if (r == CLI_OK)
		r = cli_s3_for(&k->opts.s3, s3, names, nr, cmd);
	if (r != CLI_OK)
		return r;
	r = penstock_open(&k->io, &k->opts, &err);
	if (r < 0)
		return cli_refuse(cmd, r, err.msg);
	k->files = json_array();
	return CLI_OK;
}

int ckpt_close(struct ckpt_open *k, const char *what, int status)
{
	int r = CLI_OK;

	penstock_close(k->io, NULL);
	penstock_s3_close(k->opts.s3);
	if (k->json.name && k->files && status < 128)
		r = cli_json_write(&k->json, k->cmd, ckpt_files_json(what, k->files));
	else
		json_decref(k->files);
	cli_file_abandon(&k->json);
	return status ? status : r;
}
