/* SPDX-License-Identifier: Apache-2.0 */
/* penstock ls: what is below a prefix of an object store, or in a folder. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/cli_s3.h"
#include "cli/opt/opt_file.h"
#include "load/report/result/text.h"

struct ls_command {
	struct penstock_s3_opts s3;
	struct cli_output out;
	bool recursive, uploads, exact;
	/* what the run needs */
	struct penstock_s3 *c;
	uint64_t nr, bytes;
	struct cli_file json;
	json_t *entries;
	bool text;
};

static const struct cli_opt ls_opts[] = {
	CLI_GROUP("What"),
	CLI_FLAG(struct ls_command, recursive, 'r', "recursive",
		 "all objects below it, not only up to the next slash"),
	CLI_FLAG(struct ls_command, uploads, 'u', "uploads",
		 "uploads that were begun and not ended, which cost money and are seen nowhere "
		 "else"),
	CLI_GROUP("Object store"),
	CLI_TABLE(struct ls_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct ls_command, exact, 0, "bytes", "sizes in bytes, without a unit",
		 .often = true),
	CLI_TABLE(struct ls_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

/* @bytes: -1 where there is no size. */
static void note_entry(struct ls_command *c, const char *name, int64_t bytes, int64_t mtime,
		       const char *etag, const char *upload)
{
	json_t *j;

	if (!c->json.name)
		return;
	j = json_pack("{s:o, s:o, s:s?, s:s?}", "bytes",
		      bytes < 0 ? json_null() : json_integer(bytes), "mtime",
		      mtime ? json_integer(mtime) : json_null(), "etag", etag, "upload_id", upload);
	report_set_path(j, "name", name);
	json_array_append_new(c->entries, j);
}

static void print_entry(struct ls_command *c, uint64_t bytes, int64_t mtime, const char *name)
{
	char size[PENSTOCK_SIZE_TEXT], when[32] = "-";
	time_t t = (time_t)mtime;
	struct tm tm;

	if (mtime && gmtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	if (c->exact)
		snprintf(size, sizeof(size), "%" PRIu64, bytes);
	else
		penstock_size_format(size, bytes);
	if (c->text)
		printf("%-19s %12s %s\n", when, size, name);
	c->nr++;
	c->bytes += bytes;
}

static void print_object(struct ls_command *c, const struct penstock_s3_entry *e)
{
	bool object = !e->is_prefix && !e->upload_id;

	if (object)
		print_entry(c, e->bytes, e->mtime, e->key);
	else if (e->is_prefix && c->text)
		printf("%-19s %12s %s\n", "", "", e->key);
	else if (c->text)
		printf("%s %s\n", e->key, e->upload_id);
	note_entry(c, e->key, object ? (int64_t)e->bytes : -1, e->mtime, object ? e->etag : NULL,
		   e->upload_id);
	c->nr += e->is_prefix || e->upload_id;
}

static int list_objects(struct ls_command *c, const char *uri, struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	uint32_t flags = (c->recursive || c->uploads ? PENSTOCK_S3_LIST_FLAT : 0) |
			 (c->uploads ? PENSTOCK_S3_LIST_UPLOADS : 0);
	int r = penstock_s3_list_open(&l, c->c, uri, flags, err);

	if (r < 0)
		return r;
	while ((r = penstock_s3_list_next(l, &e, err)) > 0)
		print_object(c, &e);
	penstock_s3_list_close(l);
	return r;
}

static int not_hidden(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static void print_file(struct ls_command *c, const struct stat *st, const char *name)
{
	bool folder = S_ISDIR(st->st_mode);
	CLEANUP_FREE char *with_slash = NULL;

	if (!folder)
		print_entry(c, (uint64_t)st->st_size, st->st_mtime, name);
	else if (asprintf(&with_slash, "%s/", name) < 0)
		with_slash = NULL;
	else if (c->text)
		printf("%-19s %12s %s\n", "", "", with_slash);
	note_entry(c, with_slash ? with_slash : name, folder ? -1 : st->st_size,
		   folder ? 0 : st->st_mtime, NULL, NULL);
}

static int list_folder(struct ls_command *c, const char *path, struct penstock_err *err)
{
	struct dirent **v = NULL;
	struct stat st;
	int n;

	if (stat(path, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		print_entry(c, (uint64_t)st.st_size, st.st_mtime, path);
		note_entry(c, path, st.st_size, st.st_mtime, NULL, NULL);
		return 0;
	}
	n = scandir(path, &v, not_hidden, alphasort);
	if (n < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		CLEANUP_FREE char *name = NULL;

		if (asprintf(&name, "%s/%s", path, v[i]->d_name) < 0)
			name = NULL;
		else if (stat(name, &st) == 0)
			print_file(c, &st, v[i]->d_name);
		free(v[i]);
	}
	free(v);
	return 0;
}

/* Below a file's name there is nothing, but the caller meant the object itself. */
static int list_one(struct ls_command *c, const char *name)
{
	struct penstock_err err = {0, ""};
	int r;

	if (!cli_is_object(name) && (c->recursive || c->uploads))
		return cli_usage(&cmd_ls, "'%s' is a path; --recursive and --uploads are for s3://",
				 name);
	if (cli_is_object(name) && !c->c) {
		r = cli_s3_open(&c->c, &c->s3, &cmd_ls);
		if (r != CLI_OK)
			return r;
	}
	r = cli_is_object(name) ? list_objects(c, name, &err) : list_folder(c, name, &err);
	return r < 0 ? cli_s3_fail(&cmd_ls, r, err.msg) : CLI_OK;
}

static int object_ls_run(void *args, int argc, char **argv)
{
	struct ls_command *c = args;
	int r;

	if (!argc)
		return cli_usage(&cmd_ls, "name what to list: s3://BUCKET/PREFIX or a folder");
	r = cli_file_open(&c->json, &cmd_ls, "--json", c->out.json);
	c->text = !cli_is_stdout(c->out.json);
	c->entries = json_array();
	for (int i = 0; i < argc && r == CLI_OK; i++)
		r = list_one(c, argv[i]);
	if (r == CLI_OK)
		r = cli_s3s_json(&c->json, &cmd_ls, json_incref(c->entries), c->c);
	cli_file_abandon(&c->json);
	json_decref(c->entries);
	if (c->c)
		cli_s3_print_requests(&cmd_ls, c->c);
	penstock_s3_close(c->c);
	return r;
}

const struct cli_cmd cmd_ls = {
	.name = "ls",
	.summary = "list objects below s3://BUCKET/PREFIX, or a folder",
	.usage = "NAME...",
	.operands = "o",
	.opts = ls_opts,
	.args_size = sizeof(struct ls_command),
	.run = object_ls_run,
};
