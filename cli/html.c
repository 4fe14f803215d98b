/* SPDX-License-Identifier: Apache-2.0 */
/* The page under a temporary name, its rights, and its way to the name it was given. */
#include "cli/html.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "load/report/html.h"

/* A device, a pipe: what cannot be replaced is written to. */
static bool replaceable(const char *file)
{
	struct stat st;

	return stat(file, &st) != 0 || S_ISREG(st.st_mode);
}

/* Make an empty file beside the one that was named, with the rights it would have. */
static FILE *open_temp(struct cli_html *h)
{
	mode_t mask = umask(0);
	int fd, saved;

	umask(mask);
	if (asprintf(&h->temp, "%s.XXXXXX", h->file) < 0) {
		h->temp = NULL;
		errno = ENOMEM;
		return NULL;
	}
	fd = mkostemp(h->temp, O_CLOEXEC);
	if (fd >= 0 && fchmod(fd, 0666 & ~mask) == 0)
		return fdopen(fd, "w");
	saved = errno;
	if (fd >= 0) {
		unlink(h->temp);
		close(fd);
	}
	free(h->temp);
	h->temp = NULL;
	errno = saved;
	return NULL;
}

int cli_html_open(struct cli_html *h, const struct cli_cmd *cmd, const char *option,
		  const char *file)
{
	struct sluice_err err;

	*h = (struct cli_html){.cmd = cmd, .option = option, .file = file};
	if (report_html_check(&err) < 0)
		return cli_fail(cmd, CLI_UNSUPPORTED, "%s: %s", option, err.msg);
	h->f = !strcmp(file, "-") ? stdout : replaceable(file) ? open_temp(h) : fopen(file, "we");
	if (!h->f)
		return cli_fail(cmd, CLI_FAILED, "%s: '%s' cannot be written: %s", option, file,
				strerror(errno));
	return CLI_OK;
}

void cli_html_abandon(struct cli_html *h)
{
	if (h->f && h->f != stdout)
		fclose(h->f);
	if (h->temp)
		unlink(h->temp);
	free(h->temp);
	h->temp = NULL;
	h->f = NULL;
}

int cli_html_finish(struct cli_html *h, const struct report_html *page)
{
	struct sluice_err err = {0, ""};
	int r = report_html_write(h->f, page, &err);

	if (r == 0 && h->f != stdout) {
		FILE *f = h->f;

		h->f = NULL;
		if (fclose(f) || (h->temp && rename(h->temp, h->file)))
			r = sluice_fail(&err, -errno, "%s", strerror(errno));
	}
	if (r == 0) {
		free(h->temp);
		h->temp = NULL;
	}
	cli_html_abandon(h);
	return r < 0 ? cli_fail(h->cmd, CLI_FAILED, "%s: '%s' was not written: %s", h->option,
				h->file, err.msg)
		     : CLI_OK;
}

int cli_html_result(struct cli_html *h, json_t *result)
{
	const char *name = json_string_value(json_object_get(result, "command"));

	return cli_html_finish(h,
			       &(struct report_html){.results = &result, .names = &name, .nr = 1});
}

const char *cli_html_name(char **argv, int argc, int i)
{
	const char *name = argv[i];
	const char *last = strrchr(name, '/');

	if (!last)
		return name;
	for (int k = 0; k < argc; k++) {
		const char *other = strrchr(argv[k], '/');

		if (k != i && !strcmp(other ? other + 1 : argv[k], last + 1))
			return name;
	}
	return last + 1;
}
