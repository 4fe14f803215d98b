/* SPDX-License-Identifier: Apache-2.0 */
/* penstock stripe: striped files made, shown, checked and removed; see penstock/stripe.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <penstock/stripe.h>

#include "base/size.h"
#include "cli/cli.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/opt_json.h"
#include "load/report/result/text.h"

struct stripe_command {
	uint64_t unit;
	bool force;
	bool folder;
	struct cli_output out;
};

static int stripe_fail(const struct cli_cmd *cmd, int code, const struct penstock_err *err)
{
	bool usage = code == -ENOENT || code == -EEXIST || code == -EINVAL || code == -ENOTEMPTY;

	return cli_fail(cmd, usage ? CLI_USAGE : CLI_FAILED, "%s", err->msg);
}

/* ------------------------------------------------------------------ create */

static int create_run(void *args, int argc, char **argv)
{
	const struct stripe_command *c = args;
	struct penstock_err err = {0, ""};
	uint32_t flags;
	int r;

	if (argc < 2)
		return cli_usage(&cmd_stripe_create, "a NAME and the folders or block devices of "
						     "its members are needed");
	flags = (c->force ? PENSTOCK_STRIPE_FORCE : 0u) | (c->folder ? PENSTOCK_STRIPE_FOLDER : 0u);
	r = penstock_stripe_create(argv[0], c->unit, (const char *const *)argv + 1,
				   (unsigned)argc - 1, flags, &err);
	return r < 0 ? stripe_fail(&cmd_stripe_create, r, &err) : CLI_OK;
}

static const struct cli_opt create_opts[] = {
	CLI_GROUP("How"),
	CLI_SIZE(struct stripe_command, unit, 0, "unit", "BYTES", "2M", 4096, 1u << 30,
		 "bytes in a member before the turn of the next; a multiple of 4K, 1M to 4M is "
		 "good"),
	CLI_FLAG(struct stripe_command, folder, 0, "as-folder",
		 "NAME is a folder, in which files that are made become striped ones"),
	CLI_FLAG(struct stripe_command, force, 0, "force",
		 "take block devices even if there is something on them, which is lost"),
	CLI_END,
};

const struct cli_cmd cmd_stripe_create = {
	.name = "stripe create",
	.summary = "make a striped file or folder",
	.usage = "NAME DIR_OR_DEVICE...",
	.operands = "wp",
	.opts = create_opts,
	.args_size = sizeof(struct stripe_command),
	.run = create_run,
};

/* ------------------------------------------------------------- info, check */

static const char *const states[] = {"good", "missing", "foreign", "exchanged", "short"};

static bool is_good(const struct penstock_stripe_info *info)
{
	bool good = true;

	for (unsigned i = 0; i < info->nr; i++)
		good &= info->members[i].state == PENSTOCK_MEMBER_GOOD;
	return good;
}

static json_t *to_json(const char *name, const struct penstock_stripe_info *info)
{
	json_t *members = json_array(), *all;

	for (unsigned i = 0; i < info->nr; i++) {
		const struct penstock_member *m = &info->members[i];
		json_t *o = json_pack("{ss,sb,sI}", "state", states[m->state], "device",
				      (int)m->device, "bytes", (json_int_t)m->bytes);

		report_set_path(o, "path", m->path);
		if (m->state != PENSTOCK_MEMBER_GOOD)
			json_object_set_new(o, "why", report_str(m->why));
		json_array_append_new(members, o);
	}
	all = json_pack("{ss,sI,sI,sb,so}", "id", info->id, "unit", (json_int_t)info->unit, "bytes",
			(json_int_t)info->bytes, "good", (int)is_good(info), "members", members);
	report_set_path(all, "name", name);
	return all;
}

static void print_info(const char *name, const struct penstock_stripe_info *info)
{
	char unit[PENSTOCK_SIZE_TEXT], bytes[PENSTOCK_SIZE_TEXT];

	if (penstock_stripe_get_kind(name) == 2)
		snprintf(bytes, sizeof(bytes), "a folder");
	else
		penstock_size_format(bytes, info->bytes);
	printf("%s: %s in %u members, units of %s, id %s\n", name, bytes, info->nr,
	       penstock_size_format(unit, info->unit), info->id);
	for (unsigned i = 0; i < info->nr; i++)
		printf("  %-2u %-9s %10s  %s\n", i + 1, states[info->members[i].state],
		       penstock_size_format(bytes, info->members[i].bytes), info->members[i].path);
}

static void print_check(const char *name, const struct penstock_stripe_info *info)
{
	for (unsigned i = 0; i < info->nr; i++)
		if (info->members[i].state != PENSTOCK_MEMBER_GOOD)
			printf("%s: %s\n", name, info->members[i].why);
	if (is_good(info))
		printf("%s: %u members are good\n", name, info->nr);
}

/* All NAMEs; with JSON an array of them. */
static int show_all(const struct cli_cmd *cmd, const struct stripe_command *c, int argc,
		    char **argv)
{
	bool check = cmd == &cmd_stripe_check;
	bool text = !cli_is_stdout(c->out.json);
	struct cli_file json = {0};
	json_t *all = json_array();
	int status = CLI_OK;

	if (argc < 1)
		status = cli_usage(cmd, "a NAME is needed");
	else
		status = cli_file_open(&json, cmd, "--json", c->out.json);
	if (status != CLI_OK)
		argc = 0;
	for (int i = 0; i < argc; i++) {
		struct penstock_stripe_info *info;
		struct penstock_err err = {0, ""};
		int r = penstock_stripe_load(&info, argv[i], &err);

		if (r < 0) {
			r = stripe_fail(cmd, r, &err);
			status = status == CLI_OK ? r : status;
			continue;
		}
		json_array_append_new(all, to_json(argv[i], info));
		if (text && check)
			print_check(argv[i], info);
		else if (text)
			print_info(argv[i], info);
		if (check && !is_good(info) && status == CLI_OK)
			status = CLI_FAILED;
		penstock_stripe_free(info);
	}
	if (json.name && argc) {
		int r = cli_json_write(&json, cmd, json_incref(all));

		status = status == CLI_OK ? r : status;
	}
	cli_file_abandon(&json);
	json_decref(all);
	return status;
}

static int stripe_info_run(void *args, int argc, char **argv)
{
	return show_all(&cmd_stripe_info, args, argc, argv);
}

static int check_run(void *args, int argc, char **argv)
{
	return show_all(&cmd_stripe_check, args, argc, argv);
}

static const struct cli_opt show_opts[] = {
	CLI_GROUP("Output"),
	CLI_TABLE(struct stripe_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

const struct cli_cmd cmd_stripe_info = {
	.name = "stripe info",
	.summary = "size, unit and members of striped files",
	.usage = "NAME...",
	.operands = "p",
	.opts = show_opts,
	.args_size = sizeof(struct stripe_command),
	.run = stripe_info_run,
};

const struct cli_cmd cmd_stripe_check = {
	.name = "stripe check",
	.summary = "are all members of striped files there, in their places, and long enough?",
	.usage = "NAME...",
	.operands = "p",
	.opts = show_opts,
	.args_size = sizeof(struct stripe_command),
	.run = check_run,
};

/* ---------------------------------------------------------------------- rm */

static int rm_run(void *args, int argc, char **argv)
{
	int status = CLI_OK, r;

	(void)args;
	if (argc < 1)
		return cli_usage(&cmd_stripe_rm, "a NAME is needed");
	for (int i = 0; i < argc; i++) {
		struct penstock_err err = {0, ""};

		r = penstock_stripe_remove(argv[i], &err);
		r = r < 0 ? stripe_fail(&cmd_stripe_rm, r, &err) : CLI_OK;
		status = status == CLI_OK ? r : status;
	}
	return status;
}

const struct cli_cmd cmd_stripe_rm = {
	.name = "stripe rm",
	.summary = "remove striped files with all members",
	.usage = "NAME...",
	.operands = "p",
	.opts = cli_no_opts,
	.run = rm_run,
};

static const struct cli_cmd *const stripe_subs[] = {
	&cmd_stripe_create, &cmd_stripe_info, &cmd_stripe_check, &cmd_stripe_rm, NULL,
};

const struct cli_cmd cmd_stripe = {
	.name = "stripe",
	.summary = "files over several folders or block devices: create, info, check, rm",
	.opts = cli_no_opts,
	.subs = stripe_subs,
};
