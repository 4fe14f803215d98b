/* SPDX-License-Identifier: Apache-2.0 */
/* penstock merge: results of several processes as one; load/report/merge makes it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/opt/opt_json.h"
#include "load/report/merge/merge.h"
#include "load/report/page/html.h"
#include "load/report/result/result_reader.h"

#define MERGE_MAX      1024
#define MERGE_MAX_TEXT "1024"

struct merge_args {
	const char *json, *html;
	struct cli_list offsets;
};

static const struct cli_opt merge_opts[] = {
	CLI_GROUP("Clocks"),
	CLI_EACH(struct merge_args, offsets, 0, "offset", "FILE=SECONDS", MERGE_MAX,
		 "the clock of the host that wrote it was so far ahead of the others' (-: behind)"),
	CLI_GROUP("Output"),
	CLI_OUT(struct merge_args, json, 'j', "json", "FILE", NULL,
		"write the result as JSON; - is standard output"),
	CLI_OUT(struct merge_args, html, 0, "html", "FILE", NULL,
		"write a page with plots, as `penstock report' does"),
	CLI_END,
};

static int merge_write_result(const struct merge_args *a, json_t *merged)
{
	struct cli_html html = {.cmd = &cmd_merge};
	struct cli_file json = {.name = NULL};
	int r = cli_file_open(&json, &cmd_merge, "--json", a->json);

	if (r == CLI_OK && a->html)
		r = cli_html_open(&html, &cmd_merge, "--html", a->html);
	if (r == CLI_OK) {
		if (!cli_is_stdout(a->json) && !cli_is_stdout(a->html))
			merge_text(stdout, merged);
		if (json.f)
			r = cli_file_finish(&json, &cmd_merge, cli_json_dump(json.f, merged, 1),
					    NULL);
		if (html.file.f && r == CLI_OK)
			r = cli_html_result(&html, merged);
	}
	cli_file_abandon(&json);
	cli_html_abandon(&html);
	return r;
}

/* "node1.json=-0.25": of a file whose name may have a `=' in it. */
static int shift_one(const char *offset, json_t **read, int argc, char **argv,
		     struct penstock_err *err)
{
	const char *is = strrchr(offset, '=');
	size_t len = is ? (size_t)(is - offset) : 0;
	char *end = NULL;
	double ahead = is ? strtod(is + 1, &end) : 0;

	if (!is || end == is + 1 || *end || !isfinite(ahead))
		return penstock_fail(err, -EINVAL, "--offset: '%s' is not FILE=SECONDS", offset);
	for (int i = 0; i < argc; i++) {
		if (strlen(argv[i]) == len && !memcmp(argv[i], offset, len)) {
			merge_shift(read[i], ahead);
			return 0;
		}
	}
	return penstock_fail(err, -EINVAL, "--offset: '%.*s' is none of the results", (int)len,
			     offset);
}

static int merge_main(void *args, int argc, char **argv)
{
	const struct cli_list *offsets = &((const struct merge_args *)args)->offsets;
	struct merge_input *in;
	struct penstock_err err = {0, ""};
	json_t *merged = NULL, **read;
	int e = 0, r;

	if (argc < 1 || argc > MERGE_MAX)
		return cli_usage(&cmd_merge, "between 1 and %d results are needed, not %d",
				 MERGE_MAX, argc);
	in = calloc((size_t)argc, sizeof(*in));
	read = calloc((size_t)argc, sizeof(*read));
	if (!in || !read)
		e = penstock_fail(&err, -ENOMEM, "out of memory");
	for (int i = 0; i < argc && e == 0; i++) {
		e = report_read_result(&read[i], argv[i], &err);
		in[i] = (struct merge_input){.result = read[i],
					     .name = cli_html_name(argv, argc, i)};
	}
	if (e == 0)
		e = merge_check_twice(in, (unsigned)argc, &err);
	for (size_t i = 0; i < offsets->nr && e == 0; i++)
		e = shift_one(offsets->items[i], read, argc, argv, &err);
	if (e == 0)
		e = merge_results(&merged, in, (unsigned)argc, "merge", &err);
	r = e == 0 ? merge_write_result(args, merged)
		   : cli_fail(&cmd_merge, e == -ENOMEM ? CLI_FAILED : CLI_USAGE, "%s", err.msg);
	json_decref(merged);
	for (int i = 0; read && i < argc; i++)
		json_decref(read[i]);
	free(read);
	free(in);
	return r;
}

const struct cli_cmd cmd_merge = {
	.name = "merge",
	.summary = "results of several processes or hosts as one",
	.usage = "RESULT.json...",
	.operands = "r",
	.notes = "Up to " MERGE_MAX_TEXT " results of bench, io, kv, replay or ckpt bench.\n",
	.opts = merge_opts,
	.args_size = sizeof(struct merge_args),
	.run = merge_main,
};
