/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a result: written under another name first, because a long job may still fail. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "load/report/result.h"

const struct cli_opt cli_result_opts[] = {
	CLI_STR(struct cli_result_args, json, 'j', "json", "FILE", NULL,
		"write the result as JSON; - is standard output"),
	CLI_STR(struct cli_result_args, csv, 0, "csv", "FILE", NULL,
		"write one line per series; - is standard output"),
	CLI_STR(struct cli_result_args, xlsx, 0, "xlsx", "FILE", NULL,
		"write a workbook, or CSV where libxlsxwriter is missing"),
	CLI_STR(struct cli_result_args, html, 0, "html", "FILE", NULL,
		"write a page with plots, as `sluice report' does"),
	CLI_END,
};

/* --------------------------------------------------------------------- files */

/* A device, a pipe: what cannot be replaced is written to. */
static bool replaceable(const char *name)
{
	struct stat st;

	return stat(name, &st) != 0 || S_ISREG(st.st_mode);
}

/* An empty file beside the one that was named, with the rights it would have. */
static int file_temp(struct cli_file *file)
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	if (asprintf(&file->temp, "%s.XXXXXX", file->name) < 0) {
		file->temp = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(file->temp, O_CLOEXEC);
	if (fd < 0) {
		int saved = errno;

		free(file->temp);
		file->temp = NULL;
		return -saved;
	}
	fchmod(fd, 0666 & ~mask);
	file->f = fdopen(fd, "w");
	if (file->f)
		return 0;
	close(fd);
	return -ENOMEM;
}

static int file_open(struct cli_file *file, const struct cli_cmd *cmd, const char *option,
		     const char *name)
{
	int r = 0;

	*file = (struct cli_file){.option = option, .name = name};
	if (!name)
		return CLI_OK;
	if (!strcmp(name, "-"))
		file->f = stdout;
	else if (replaceable(name))
		r = file_temp(file);
	else if (!(file->f = fopen(name, "we")))
		r = -errno;
	return r == 0 ? CLI_OK
		      : cli_fail(cmd, CLI_FAILED, "%s: '%s' cannot be written: %s", option, name,
				 strerror(-r));
}

static void file_abandon(struct cli_file *file)
{
	if (file->f && file->f != stdout)
		fclose(file->f);
	if (file->temp)
		unlink(file->temp);
	free(file->temp);
	*file = (struct cli_file){.name = NULL};
}

/* @r is what writing came to: 0 or -errno.  Let the file appear. */
static int file_finish(struct cli_file *file, const struct cli_cmd *cmd, int r)
{
	const char *option = file->option, *name = file->name;

	if (file->f && (fflush(file->f) || ferror(file->f)) && r == 0)
		r = errno ? -errno : -EIO;
	if (r == 0 && file->temp && rename(file->temp, name) < 0)
		r = -errno;
	if (r == 0) {
		free(file->temp);
		file->temp = NULL;
	}
	file_abandon(file);
	return r == 0 ? CLI_OK
		      : cli_fail(cmd, CLI_FAILED, "%s: '%s' was not written: %s", option, name,
				 strerror(-r));
}

/* -------------------------------------------------------------------- outputs */

static bool is_stdout(const char *name)
{
	return name && !strcmp(name, "-");
}

int cli_outputs_open(struct cli_outputs *o, const struct cli_cmd *cmd,
		     const struct cli_result_args *args)
{
	int r;

	*o = (struct cli_outputs){.cmd = cmd,
				  .text = !is_stdout(args->json) && !is_stdout(args->csv) &&
					  !is_stdout(args->html)};
	if (is_stdout(args->json) + is_stdout(args->csv) + is_stdout(args->html) > 1)
		return cli_usage(cmd, "--json, --csv, --html: only one can be standard output");
	if (is_stdout(args->xlsx))
		return cli_usage(cmd, "--xlsx: a workbook needs a file");
	r = file_open(&o->json, cmd, "--json", args->json);
	if (r == CLI_OK)
		r = file_open(&o->csv, cmd, "--csv", args->csv);
	if (r == CLI_OK)
		r = file_open(&o->xlsx, cmd, "--xlsx", args->xlsx);
	if (r == CLI_OK && args->html)
		r = cli_html_open(&o->html, cmd, "--html", args->html);
	if (r != CLI_OK)
		cli_outputs_abandon(o);
	return r;
}

void cli_outputs_abandon(struct cli_outputs *o)
{
	file_abandon(&o->json);
	file_abandon(&o->csv);
	file_abandon(&o->xlsx);
	cli_html_abandon(&o->html);
}

static int finish_html(struct cli_outputs *o, const struct result *r)
{
	json_t *j = result_json(r);
	int status =
		j ? cli_html_result(&o->html, j) : cli_fail(o->cmd, CLI_FAILED, "out of memory");

	json_decref(j);
	return status;
}

static int write_json(FILE *f, const struct result *r)
{
	json_t *j = result_json(r);
	int e = j ? json_dumpf(j, f, JSON_INDENT(1)) : -1;

	putc('\n', f);
	json_decref(j);
	return e < 0 ? -ENOMEM : 0;
}

/* "result.xlsx" to "result.csv", a file that is not there yet. */
static int csv_instead(struct cli_outputs *o, const struct result *r, const char *why)
{
	CLEANUP_FREE char *name = NULL;
	const char *xlsx = o->xlsx.name, *dot = strrchr(xlsx, '.');
	size_t len = dot && !strcmp(dot, ".xlsx") ? (size_t)(dot - xlsx) : strlen(xlsx);
	FILE *f;
	int e;

	if (asprintf(&name, "%.*s.csv", (int)len, xlsx) < 0)
		return cli_fail(o->cmd, CLI_FAILED, "out of memory");
	file_abandon(&o->xlsx);
	f = fopen(name, "wxe");
	if (!f)
		return cli_fail(o->cmd, CLI_FAILED, "--xlsx: %s, and '%s' cannot be made: %s", why,
				name, strerror(errno));
	e = result_csv(f, r);
	if (fclose(f) && e == 0)
		e = -errno;
	if (e < 0)
		return cli_fail(o->cmd, CLI_FAILED, "--xlsx: '%s' was not written: %s", name,
				strerror(-e));
	fprintf(stderr, "sluice %s: note: --xlsx: %s; wrote %s\n", o->cmd->name, why, name);
	return CLI_OK;
}

static int finish_xlsx(struct cli_outputs *o, const struct result *r)
{
	const char *path = o->xlsx.temp ? o->xlsx.temp : o->xlsx.name;
	struct sluice_err err = {0, ""};
	int e = result_xlsx(path, r, &err);

	if (e == -ENOTSUP)
		return csv_instead(o, r, err.msg);
	if (e < 0)
		return cli_fail(o->cmd, CLI_FAILED, "--xlsx: %s", err.msg);
	return file_finish(&o->xlsx, o->cmd, 0);
}

int cli_outputs_finish(struct cli_outputs *o, const struct result *r)
{
	int status = CLI_OK, one;

	if (o->json.f) {
		one = file_finish(&o->json, o->cmd, write_json(o->json.f, r));
		status = one != CLI_OK ? one : status;
	}
	if (o->csv.f) {
		one = file_finish(&o->csv, o->cmd, result_csv(o->csv.f, r));
		status = one != CLI_OK ? one : status;
	}
	if (o->xlsx.f) {
		one = finish_xlsx(o, r);
		status = one != CLI_OK ? one : status;
	}
	if (o->html.f) {
		one = finish_html(o, r);
		status = one != CLI_OK ? one : status;
	}
	cli_outputs_abandon(o);
	return status;
}
