/* SPDX-License-Identifier: Apache-2.0 */
/* penstock store: look into a KV store that nobody has open; see penstock/store.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <penstock/store.h>

#include "base/size.h"
#include "cli/cli.h"

static int store_fail(const struct cli_cmd *cmd, int code, const struct penstock_err *err)
{
	return cli_fail(cmd, code == -ENOENT || code == -EEXIST ? CLI_USAGE : CLI_FAILED, "%s",
			err->msg);
}

/* As far as it is text; other bytes as \xNN. */
static void print_key(const struct penstock_store_entry *e)
{
	const unsigned char *key = e->key;

	for (uint32_t i = 0; i < e->key_len; i++)
		if (isgraph(key[i]) && key[i] != '\\')
			putchar(key[i]);
		else
			printf("\\x%02x", key[i]);
}

/* Each directory on its own; the first failure ends it. */
static int each_dir(const struct cli_cmd *cmd, int argc, char **argv,
		    int (*run)(const struct cli_cmd *cmd, const char *dir))
{
	int status = CLI_OK, r;

	if (argc < 1)
		return cli_usage(cmd, "a directory is needed");
	for (int i = 0; i < argc; i++) {
		r = run(cmd, argv[i]);
		status = status == CLI_OK ? r : status;
	}
	return status;
}

/* -------------------------------------------------------------------- info */

static void print_size(const char *what, uint64_t bytes)
{
	char text[PENSTOCK_SIZE_TEXT];

	printf("  %-14s %s\n", what, penstock_size_format(text, bytes));
}

static int info_dir(const struct cli_cmd *cmd, const char *dir)
{
	struct penstock_store_summary sum = {.size = sizeof(sum)};
	struct penstock_err err = {0, ""};
	int r = penstock_store_inspect(dir, 0, NULL, NULL, &sum, &err);

	if (r < 0)
		return store_fail(cmd, r, &err);
	printf("%s\n  %-14s %u\n  %-14s %" PRIu64 "\n", dir, "version", sum.version, "values",
	       sum.entries);
	print_size("of values", sum.value_bytes);
	print_size("data file", sum.data_bytes);
	print_size("log", sum.log_bytes);
	print_size("of it alive", sum.log_live);
	if (sum.lost)
		printf("  %-14s %" PRIu64 " records\n", "broken", sum.lost);
	return sum.lost ? CLI_FAILED : CLI_OK;
}

static int store_info_run(void *args, int argc, char **argv)
{
	(void)args;
	return each_dir(&cmd_store_info, argc, argv, info_dir);
}

const struct cli_cmd cmd_store_info = {
	.name = "store info",
	.summary = "how many values a store has, and what its files take",
	.usage = "DIR...",
	.operands = "p",
	.opts = cli_no_opts,
	.run = store_info_run,
};

/* ---------------------------------------------------------------------- ls */

static int ls_entry(void *arg, const struct penstock_store_entry *e)
{
	time_t expires = (time_t)e->expires;
	char when[32] = "-";
	struct tm tm;

	(void)arg;
	if (e->expires && gmtime_r(&expires, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	printf("%" PRIu64 "\t%s\t", e->len, when);
	print_key(e);
	putchar('\n');
	return 0;
}

static int ls_dir(const struct cli_cmd *cmd, const char *dir)
{
	struct penstock_err err = {0, ""};
	int r = penstock_store_inspect(dir, 0, ls_entry, NULL, NULL, &err);

	return r < 0 ? store_fail(cmd, r, &err) : CLI_OK;
}

static int store_ls_run(void *args, int argc, char **argv)
{
	(void)args;
	return each_dir(&cmd_store_ls, argc, argv, ls_dir);
}

const struct cli_cmd cmd_store_ls = {
	.name = "store ls",
	.summary = "the values of a store: bytes, end, key",
	.usage = "DIR...",
	.operands = "p",
	.opts = cli_no_opts,
	.run = store_ls_run,
};

/* ------------------------------------------------------------------ verify */

static int verify_entry(void *arg, const struct penstock_store_entry *e)
{
	(void)arg;
	if (!e->code)
		return 0;
	printf("bad\t%s\t",
	       e->code == -EBADMSG ? "not what was written" : penstock_strerror(e->code));
	print_key(e);
	putchar('\n');
	return 0;
}

static int verify_dir(const struct cli_cmd *cmd, const char *dir)
{
	struct penstock_store_summary sum = {.size = sizeof(sum)};
	struct penstock_err err = {0, ""};
	int r = penstock_store_inspect(dir, PENSTOCK_STORE_VERIFY, verify_entry, NULL, &sum, &err);

	if (r < 0)
		return store_fail(cmd, r, &err);
	printf("%s: %" PRIu64 " values read, %" PRIu64 " bad, %" PRIu64 " records broken\n", dir,
	       sum.entries, sum.bad, sum.lost);
	return sum.bad || sum.lost ? CLI_FAILED : CLI_OK;
}

static int verify_run(void *args, int argc, char **argv)
{
	(void)args;
	return each_dir(&cmd_store_verify, argc, argv, verify_dir);
}

const struct cli_cmd cmd_store_verify = {
	.name = "store verify",
	.summary = "read every value of a store and check it",
	.usage = "DIR...",
	.operands = "p",
	.opts = cli_no_opts,
	.run = verify_run,
};

/* -------------------------------------------------------------------- drop */

static int drop_dir(const struct cli_cmd *cmd, const char *dir)
{
	struct penstock_err err = {0, ""};
	int r = penstock_store_drop(dir, &err);

	return r < 0 ? store_fail(cmd, r, &err) : CLI_OK;
}

static int drop_run(void *args, int argc, char **argv)
{
	(void)args;
	return each_dir(&cmd_store_drop, argc, argv, drop_dir);
}

const struct cli_cmd cmd_store_drop = {
	.name = "store drop",
	.summary = "remove a store with all its values, and nothing else",
	.usage = "DIR...",
	.operands = "p",
	.opts = cli_no_opts,
	.run = drop_run,
};

static const struct cli_cmd *const store_subs[] = {
	&cmd_store_info, &cmd_store_ls, &cmd_store_verify, &cmd_store_drop, NULL,
};

const struct cli_cmd cmd_store = {
	.name = "store",
	.summary = "look into a KV store: info, ls, verify, drop",
	.opts = cli_no_opts,
	.subs = store_subs,
};
