/* SPDX-License-Identifier: Apache-2.0 */
/* penstock rm: objects, all below a prefix, or what killed uploads have left; files too. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/cli_s3.h"
#include "cli/opt/opt_file.h"
#include "load/report/result/text.h"

enum { BATCH = 1000 };

struct rm_command {
	struct penstock_s3_opts s3;
	struct cli_output out;
	bool recursive, uploads, dry_run;
	/* what the run needs */
	struct penstock_s3 *c;
	uint64_t nr;
	struct cli_file json;
	json_t *entries;
	bool text;
	char *batch[BATCH];
	unsigned nr_batch;
};

static const struct cli_opt rm_opts[] = {
	CLI_GROUP("What"),
	CLI_FLAG(struct rm_command, recursive, 'r', "recursive", "all objects below the prefix"),
	CLI_FLAG(
		struct rm_command, uploads, 'u', "uploads",
		"uploads below the prefix that were begun and not ended, also those of others that "
		"are under way"),
	CLI_FLAG(struct rm_command, dry_run, 0, "dry-run",
		 "print what would go, and remove nothing"),
	CLI_GROUP("Object store"),
	CLI_TABLE(struct rm_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_TABLE(struct rm_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

/* --------------------------------------------------------------------- in batches */

/* It is gone, or would be. */
static void report_removed(struct rm_command *c, const char *name, const char *upload)
{
	json_t *j;

	c->nr++;
	if (c->dry_run && c->text)
		printf("%s%s%s\n", name, upload ? " " : "", upload ? upload : "");
	if (!c->json.name)
		return;
	j = json_pack("{s:s?, s:b}", "upload_id", upload, "removed", !c->dry_run);
	report_set_path(j, "name", name);
	json_array_append_new(c->entries, j);
}

static int flush_batch(struct rm_command *c, struct penstock_err *err)
{
	int r = 0;

	if (c->nr_batch && !c->dry_run)
		r = penstock_s3_delete(c->c, (const char *const *)c->batch, c->nr_batch, err);
	for (unsigned i = 0; i < c->nr_batch; i++) {
		if (r == 0)
			report_removed(c, c->batch[i], NULL);
		free(c->batch[i]);
	}
	c->nr_batch = 0;
	return r;
}

/* @uri is taken, and may be NULL for want of memory. */
static int add_object(struct rm_command *c, char *uri, struct penstock_err *err)
{
	if (!uri)
		return penstock_fail(err, -ENOMEM, "out of memory");
	c->batch[c->nr_batch++] = uri;
	return c->nr_batch == BATCH ? flush_batch(c, err) : 0;
}

static char *object_uri(const char *prefix, const char *key)
{
	size_t bucket = strcspn(prefix + strlen("s3://"), "/");
	char *uri;

	return asprintf(&uri, "%.*s/%s", (int)(strlen("s3://") + bucket), prefix, key) < 0 ? NULL
											   : uri;
}

/* ----------------------------------------------------------------------- each kind */

static int remove_upload(struct rm_command *c, const char *prefix,
			 const struct penstock_s3_entry *e, struct penstock_err *err)
{
	CLEANUP_FREE char *uri = object_uri(prefix, e->key);
	int r = 0;

	if (!uri)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (!c->dry_run)
		r = penstock_s3_upload_discard(c->c, uri, e->upload_id, err);
	if (r == 0)
		report_removed(c, uri, e->upload_id);
	/* Somebody ended it meanwhile. */
	return r == -ENOENT ? 0 : r;
}

/* The list goes on while what it told is removed: S3's pages begin behind a key. */
static int remove_below(struct rm_command *c, const char *prefix, struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	uint32_t flags = PENSTOCK_S3_LIST_FLAT | (c->uploads ? PENSTOCK_S3_LIST_UPLOADS : 0);
	int r = penstock_s3_list_open(&l, c->c, prefix, flags, err), code = 0;

	if (r < 0)
		return r;
	while (code == 0 && (r = penstock_s3_list_next(l, &e, err)) > 0)
		code = c->uploads ? remove_upload(c, prefix, &e, err)
				  : add_object(c, object_uri(prefix, e.key), err);
	penstock_s3_list_close(l);
	return code < 0 ? code : r;
}

static int remove_file(struct rm_command *c, const char *path, struct penstock_err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return penstock_fail(err, -EISDIR,
				     "%s: is a folder; only files and objects are removed", path);
	if (!c->dry_run && unlink(path) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	report_removed(c, path, NULL);
	return 0;
}

static int remove_one(struct rm_command *c, const char *name)
{
	struct penstock_err err = {0, ""};
	int r;

	if (!cli_is_object(name))
		r = remove_file(c, name, &err);
	else if (c->recursive || c->uploads)
		r = remove_below(c, name, &err);
	else
		r = add_object(c, strdup(name), &err);
	return r < 0 ? cli_s3_fail(&cmd_rm, r, err.msg) : CLI_OK;
}

/* --------------------------------------------------------------------- the command */

/* Nothing goes before all names make sense. */
static int check_names(const struct rm_command *c, int argc, char **argv, bool *objects)
{
	if (!argc)
		return cli_usage(&cmd_rm, "name what to remove: s3://BUCKET/KEY or a file");
	if (c->recursive && c->uploads)
		return cli_usage(&cmd_rm, "--recursive and --uploads exclude each other");
	for (int i = 0; i < argc; i++) {
		bool object = cli_is_object(argv[i]);

		*objects = *objects || object;
		if (!object && (c->recursive || c->uploads))
			return cli_usage(&cmd_rm,
					 "'%s' is a path; --recursive and --uploads are for s3://",
					 argv[i]);
	}
	return CLI_OK;
}

static int rm_run(void *args, int argc, char **argv)
{
	struct rm_command *c = args;
	struct penstock_err err = {0, ""};
	bool objects = false;
	int r = check_names(c, argc, argv, &objects), last;

	if (r == CLI_OK && objects)
		r = cli_s3_open(&c->c, &c->s3, &cmd_rm);
	if (r != CLI_OK)
		return r;
	r = cli_file_open(&c->json, &cmd_rm, "--json", c->out.json);
	c->text = !cli_is_stdout(c->out.json);
	c->entries = json_array();
	for (int i = 0; i < argc && r == CLI_OK; i++)
		r = remove_one(c, argv[i]);
	last = flush_batch(c, &err);
	if (last < 0 && r == CLI_OK)
		r = cli_s3_fail(&cmd_rm, last, err.msg);
	if (r == CLI_OK && c->text)
		printf("%" PRIu64 " %s\n", c->nr, c->dry_run ? "would be removed" : "removed");
	if (c->json.name) { /* what is gone is told, even if not all is */
		last = cli_s3s_json(&c->json, &cmd_rm, json_incref(c->entries), c->c);
		r = r == CLI_OK ? last : r;
	}
	cli_file_abandon(&c->json);
	json_decref(c->entries);
	if (c->c)
		cli_s3_print_requests(&cmd_rm, c->c);
	penstock_s3_close(c->c);
	return r;
}

const struct cli_cmd cmd_rm = {
	.name = "rm",
	.summary = "remove objects, all below a prefix, or what killed uploads have left",
	.usage = "NAME...",
	.operands = "o",
	.opts = rm_opts,
	.args_size = sizeof(struct rm_command),
	.run = rm_run,
};
