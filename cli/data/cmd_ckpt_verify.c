/* SPDX-License-Identifier: Apache-2.0 */
/* penstock ckpt verify: is a file what was saved?  See load/ckpt/model_file.h. */
#include <errno.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/data/ckpt_open.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/ckpt/model_file.h"
#include "load/report/jobs/ckpt_files.h"

struct verify_command {
	struct penstock_opts opts;
	struct penstock_s3_opts s3;
	bool quiet;
	struct cli_output out;
	/* what the run needs */
	struct cli_progress progress;
};

static const struct cli_opt verify_opts[] = {
	CLI_GROUP("How"),
	CLI_ENGINE(struct verify_command, opts.engine),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct verify_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct verify_command, quiet, 'q', "quiet", "say nothing of files that are right"),
	CLI_TABLE(struct verify_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

static int no_sums(struct penstock_err *err, const char *name)
{
	return penstock_fail(
		err, -ENODATA,
		"%s: has no checksums, nothing was verified; `penstock ckpt cp' makes a copy "
		"that has",
		name);
}

struct verifying {
	struct verify_command *c;
	struct ckpt_open *k;
	const atomic_int *stop;
};

/* One file: an exit status, with what is to be said of it in the list of files. */
static int verify_one(void *arg, const char *name)
{
	struct verify_command *c = ((struct verifying *)arg)->c;
	struct ckpt_open *k = ((struct verifying *)arg)->k;
	const atomic_int *stop = ((struct verifying *)arg)->stop;
	struct model_pass p = {.io = k->io,
			       .path = name,
			       .stop = stop,
			       .progress = cli_progress_moved,
			       .arg = &c->progress};
	struct penstock_err err = {0, ""};
	int r;

	cli_progress_start(&c->progress, name, 0);
	r = model_pass_run(&p, &err);
	cli_progress_end(&c->progress);
	if (r == -ECANCELED)
		return cli_fail(&cmd_ckpt_verify, 128 + *stop, "interrupted");
	if (r == 0 && !p.how)
		r = no_sums(&err, name);
	json_array_append_new(k->files, ckpt_verify_json(&p, r < 0 ? err.msg : NULL));
	if (r < 0)
		return cli_fail(&cmd_ckpt_verify, CLI_FAILED, "%s", err.msg);
	if (k->text && !c->quiet)
		ckpt_verify_text(stdout, &p);
	return CLI_OK;
}

static int verify_run(void *args, int argc, char **argv)
{
	struct verify_command *c = args;
	const atomic_int *stop = cli_stop_catch();
	struct ckpt_open k;
	int r, status;

	if (!argc)
		return cli_usage(&cmd_ckpt_verify, "name at least one FILE");
	status = ckpt_open(&k, &cmd_ckpt_verify, &c->opts, &c->s3, (const char *const *)argv,
			   (size_t)argc, c->out.json);
	for (int i = 0; k.io && i < argc && status < 128; i++) {
		r = cli_s3_models(k.opts.s3, argv[i], &cmd_ckpt_verify, verify_one,
				  &(struct verifying){c, &k, stop});
		status = r ? r : status;
	}
	return ckpt_close(&k, "verify", status);
}

const struct cli_cmd cmd_ckpt_verify = {
	.name = "ckpt verify",
	.summary = "read model files and compare them with their checksums",
	.usage = "FILE...",
	.operands = "i",
	.opts = verify_opts,
	.args_size = sizeof(struct verify_command),
	.run = verify_run,
};
