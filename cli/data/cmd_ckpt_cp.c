/* SPDX-License-Identifier: Apache-2.0 */
/* penstock ckpt cp: a copy that is checked on the way and appears whole; see
 * load/ckpt/model_file.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/data/ckpt_open.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/ckpt/model_file.h"
#include "load/report/jobs/ckpt_files.h"

struct cp_command {
	struct penstock_opts opts;
	struct penstock_s3_opts s3;
	bool no_crc, quiet;
	struct cli_output out;
	/* what the run needs */
	struct cli_progress progress;
};

static const struct cli_opt cp_opts[] = {
	CLI_GROUP("What"),
	CLI_FLAG(struct cp_command, no_crc, 0, "no-crc", "the copy gets no TO.crc"),
	CLI_GROUP("How"),
	CLI_ENGINE(struct cp_command, opts.engine),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct cp_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct cp_command, quiet, 'q', "quiet", "say nothing when it is done"),
	CLI_TABLE(struct cp_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/*
 * TO, or where that is a folder, or a URI that ends with a slash, the file of the same name in it;
 * NULL for want of memory.
 */
static char *copy_name(const char *from, const char *to)
{
	const char *base = strrchr(from, '/');
	bool folder = cli_is_object(to) ? to[strlen(to) - 1] == '/' : is_folder(to);
	char *name;

	if (!folder)
		return strdup(to);
	return asprintf(&name, "%s%s%s", to, to[strlen(to) - 1] == '/' ? "" : "/",
			base ? base + 1 : from) < 0
		       ? NULL
		       : name;
}

static int copy(struct cp_command *c, struct ckpt_open *k, const char *from, const char *to)
{
	struct model_pass p = {.io = k->io,
			       .path = from,
			       .to = to,
			       .no_crc = c->no_crc,
			       .stop = cli_stop_catch(),
			       .progress = cli_progress_moved,
			       .arg = &c->progress};
	struct penstock_err err = {0, ""};
	int r;

	cli_progress_start(&c->progress, from, 0);
	r = model_pass_run(&p, &err);
	cli_progress_end(&c->progress);
	if (r < 0)
		return cli_fail(&cmd_ckpt_cp, r == -ECANCELED ? 128 + *p.stop : CLI_FAILED, "%s",
				err.msg);
	if (!p.how)
		cli_note(&cmd_ckpt_cp, "%s has no checksums: copied as it is", from);
	if (!c->quiet && k->text)
		ckpt_verify_text(stdout, &p);
	json_array_append_new(k->files, ckpt_verify_json(&p, NULL));
	return CLI_OK;
}

static int cp_run(void *args, int argc, char **argv)
{
	struct cp_command *c = args;
	CLEANUP_FREE char *to = NULL;
	struct ckpt_open k;
	int r;

	if (argc != 2)
		return cli_usage(&cmd_ckpt_cp, "FROM and TO are needed, not %d operands", argc);
	to = copy_name(argv[0], argv[1]);
	if (!to)
		return cli_fail(&cmd_ckpt_cp, CLI_FAILED, "out of memory");
	if (!strcmp(argv[0], to) || cli_file_same(argv[0], to))
		return cli_usage(&cmd_ckpt_cp, "'%s' and '%s' are the same file", argv[0], to);
	r = ckpt_open(&k, &cmd_ckpt_cp, &c->opts, &c->s3, (const char *[]){argv[0], to}, 2,
		      c->out.json);
	if (r == CLI_OK)
		r = copy(c, &k, argv[0], to);
	if (r != CLI_OK)
		cli_file_abandon(&k.json);
	return ckpt_close(&k, "cp", r);
}

const struct cli_cmd cmd_ckpt_cp = {
	.name = "ckpt cp",
	.summary = "copy a model file: checked on the way, atomic, with checksums",
	.usage = "FROM TO",
	.operands = "io",
	.opts = cp_opts,
	.args_size = sizeof(struct cp_command),
	.run = cp_run,
};
