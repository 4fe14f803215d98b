/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are given for files, and files that appear when they are complete. */
#include "cli/opt/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/opt/opt.h"

/* -------------------------------------------------------------------- names */

bool cli_is_stdout(const char *name)
{
	return name && !strcmp(name, "-");
}

static bool same_inode(const char *a, const char *b, struct stat *ret)
{
	struct stat other;

	return stat(a, ret) == 0 && stat(b, &other) == 0 && ret->st_dev == other.st_dev &&
	       ret->st_ino == other.st_ino;
}

/* Files that are not there yet, by the folders they would be in. */
static bool same_new_file(const char *a, const char *b)
{
	CLEANUP_FREE char *dir_a = strdup(a), *dir_b = strdup(b);
	const char *last_a = strrchr(a, '/'), *last_b = strrchr(b, '/');
	struct stat st;

	return dir_a && dir_b && !strcmp(last_a ? last_a + 1 : a, last_b ? last_b + 1 : b) &&
	       same_inode(dirname(dir_a), dirname(dir_b), &st);
}

bool cli_file_same(const char *a, const char *b)
{
	struct stat st;

	if (!a || !b)
		return false;
	if (cli_is_stdout(a) || cli_is_stdout(b))
		return cli_is_stdout(a) && cli_is_stdout(b);
	if (same_inode(a, b, &st))
		return S_ISREG(st.st_mode);
	return stat(a, &st) != 0 && stat(b, &st) != 0 && same_new_file(a, b);
}

static int check_pair(const struct cli_cmd *cmd, const struct cli_name *a, const struct cli_name *b)
{
	if (!a->name || !b->name)
		return CLI_OK;
	if (cli_is_stdout(a->name) && cli_is_stdout(b->name))
		return cli_usage(cmd, "%s and %s: only one can be standard output", a->option,
				 b->option);
	if (!cli_file_same(a->name, b->name))
		return CLI_OK;
	return cli_usage(cmd, "%s and %s: '%s' can be only one of them", a->option, b->option,
			 b->name);
}

int cli_names_check(const struct cli_cmd *cmd, const struct cli_name *names, unsigned nr)
{
	int r = CLI_OK;

	for (unsigned i = 0; i < nr && r == CLI_OK; i++)
		for (unsigned k = 0; k < i && r == CLI_OK; k++)
			r = check_pair(cmd, &names[k], &names[i]);
	return r;
}

/* --------------------------------------------------------------------- files */

/* A device, a pipe: what cannot be replaced is written to. */
static bool replaceable(const char *name)
{
	struct stat st;

	return stat(name, &st) != 0 || S_ISREG(st.st_mode);
}

/* An empty file beside the one that was named, with the rights it would have. */
static int open_temp(struct cli_file *file)
{
	mode_t mask = umask(0);
	int fd, r;

	umask(mask);
	/* A file that must not be written to must not be replaced either. */
	if (access(file->name, W_OK) < 0 && errno != ENOENT)
		return -errno;
	if (asprintf(&file->temp, "%s.XXXXXX", file->name) < 0) {
		file->temp = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(file->temp, O_CLOEXEC);
	if (fd >= 0 && fchmod(fd, 0666 & ~mask) == 0 && (file->f = fdopen(fd, "w")))
		return 0;
	r = -errno;
	if (fd >= 0) {
		unlink(file->temp);
		close(fd);
	}
	free(file->temp);
	file->temp = NULL;
	return r;
}

/* A stream of its own: what is printed on stdout is made harmless, and this is data. */
static int open_standard(struct cli_file *file)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	file->f = fd < 0 ? NULL : fdopen(fd, "w");
	if (fd >= 0 && !file->f)
		close(fd);
	return file->f ? 0 : -errno;
}

int cli_file_open(struct cli_file *file, const struct cli_cmd *cmd, const char *option,
		  const char *name)
{
	int r = 0;

	*file = (struct cli_file){.option = option, .name = name};
	if (!name)
		return CLI_OK;
	if (cli_is_stdout(name))
		r = open_standard(file);
	else if (!*name)
		r = -ENOENT;
	else if (replaceable(name))
		r = open_temp(file);
	else if (!(file->f = fopen(name, "we")))
		r = -errno;
	return r == 0 ? CLI_OK
		      : cli_fail(cmd, CLI_USAGE, "%s: '%s' cannot be written: %s", option, name,
				 strerror(-r));
}

/* What the last bytes came to, which a full disk tells only now; 0 or -errno. */
static int close_checked(struct cli_file *file)
{
	FILE *f = file->f;
	bool bad;

	file->f = NULL;
	if (!f)
		return 0;
	errno = 0;
	bad = ferror(f);
	if (fclose(f))
		bad = true;
	return !bad ? 0 : errno ? -errno : -EIO;
}

int cli_file_finish(struct cli_file *file, const struct cli_cmd *cmd, int r, const char *why)
{
	const char *option = file->option, *name = file->name;
	int closed = close_checked(file);

	if (r == 0 && closed < 0) {
		r = closed;
		why = NULL;
	}
	if (r == 0 && file->temp && rename(file->temp, name) < 0)
		r = -errno;
	if (r == 0) {
		free(file->temp);
		file->temp = NULL;
	}
	cli_file_abandon(file);
	return r == 0 ? CLI_OK
		      : cli_fail(cmd, CLI_FAILED, "%s: '%s' was not written: %s", option, name,
				 why ? why : strerror(-r));
}

void cli_file_abandon(struct cli_file *file)
{
	if (file->f)
		fclose(file->f);
	if (file->temp)
		unlink(file->temp);
	free(file->temp);
	*file = (struct cli_file){.name = NULL};
}
