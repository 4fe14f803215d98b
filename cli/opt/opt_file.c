/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are given for files, and files that appear when they are complete. */
#include "cli/opt/opt_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/stripe.h>

#include "base/glob.h"
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

/* Under any name: links lead to a file, too. */
bool cli_file_within(const char *in, const char *name)
{
	CLEANUP_FREE char *all = NULL;
	bool found = false;
	struct stat st;
	glob_t g;

	if (!in || !name || stat(name, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (stat(in, &st) == 0) {
		if (!S_ISDIR(st.st_mode))
			return false;
		all = penstock_glob_pattern(in, "*");
		in = all;
	}
	if (!in || glob(in, 0, NULL, &g) != 0)
		return false;
	for (size_t i = 0; i < g.gl_pathc && !found; i++)
		found = same_inode(g.gl_pathv[i], name, &st);
	globfree(&g);
	return found;
}

/* ------------------------------------------------------------------- streams */

/* What stdio knows is only that a write failed once. */
static ssize_t stream_write(void *arg, const char *from, size_t len)
{
	struct cli_stream *s = arg;
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(s->fd, from + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->error = s->error ? s->error : n < 0 ? -errno : -EIO;
			return 0;
		}
		done += (size_t)n;
	}
	return (ssize_t)len;
}

/* For writing; NULL for want of memory.  fclose() leaves the descriptor open. */
static FILE *cli_stream_open(struct cli_stream *s)
{
	const cookie_io_functions_t calls = {.write = stream_write};

	/* Data are what they are, but a terminal obeys them. */
	return isatty(s->fd) ? report_escape_stream(&s->plain, s->fd) : fopencookie(s, "w", calls);
}

/* 0, or -errno of the first write that failed. */
static int cli_stream_flush(struct cli_stream *s, FILE *f)
{
	if (!fflush(f) && !ferror(f))
		return 0;
	return s->error ? s->error : s->plain.error ? s->plain.error : -EIO;
}

/* --------------------------------------------------------------------- files */

/* Devices and pipes cannot be replaced: they are written to. */
static int open_stream(struct cli_file *file)
{
	struct stat st;
	int r;

	if (stat(file->name, &st) == 0 && !S_ISREG(st.st_mode)) {
		file->stream->fd = open(file->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		return file->stream->fd < 0 ? -errno : 0;
	}
	r = penstock_replace_open(&file->replace, file->name, 0666);
	if (r < 0)
		return r;
	file->stream->fd = file->replace.fd;
	return penstock_replace_copy_permissions(&file->replace);
}

static int open_named(struct cli_file *file)
{
	int r = 0;

	file->stream = calloc(1, sizeof(*file->stream));
	if (!file->stream)
		return -ENOMEM;
	file->stream->fd = -1;
	if (cli_is_stdout(file->name))
		file->stream->fd = STDOUT_FILENO; /* data: past what makes text harmless */
	else
		r = *file->name ? open_stream(file) : -ENOENT;
	if (r == 0 && !(file->f = cli_stream_open(file->stream)))
		r = -ENOMEM;
	return r;
}

int cli_file_open(struct cli_file *file, const struct cli_cmd *cmd, const char *option,
		  const char *name)
{
	int r;

	*file = (struct cli_file){option, name, .replace = PENSTOCK_REPLACE_NONE};
	if (!name)
		return CLI_OK;
	if (penstock_stripe_get_kind(name) == 1) /* its members would be left behind */
		return cli_fail(cmd, CLI_USAGE,
				"%s: '%s' is a striped file, which cannot be replaced; `penstock "
				"stripe rm' removes it",
				option, name);
	r = open_named(file);
	if (r == 0)
		return CLI_OK;
	cli_file_abandon(file);
	return cli_fail(cmd, CLI_USAGE, "%s: '%s' cannot be written: %s", option, name,
			strerror(-r));
}

/* What the last bytes came to, which a full disk tells only now; 0 or -errno. */
static int flush_all(const struct cli_file *file)
{
	int r = cli_stream_flush(file->stream, file->f), copy;

	if (r < 0)
		return r;
	/* Some file systems tell when it is closed; without a name we need it open still. */
	copy = dup(file->stream->fd);
	return copy < 0 || close(copy) < 0 ? -errno : 0;
}

int cli_file_finish(struct cli_file *file, const struct cli_cmd *cmd, int r, const char *why)
{
	const char *option = file->option, *name = file->name;
	int flushed = file->f ? flush_all(file) : 0;

	/* A writer knows that it failed, the stream knows why. */
	if (flushed < 0 && (r == 0 || r == -EIO)) {
		r = flushed;
		why = NULL;
	}
	if (r == 0 && file->replace.fd >= 0)
		r = penstock_replace_publish(&file->replace);
	cli_file_abandon(file);
	return r == 0 ? CLI_OK
		      : cli_fail(cmd, CLI_FAILED, "%s: '%s' was not written: %s", option, name,
				 why ? why : strerror(-r));
}

void cli_file_abandon(struct cli_file *file)
{
	if (file->f)
		fclose(file->f);
	if (file->stream && file->stream->fd >= 0 && file->stream->fd != file->replace.fd)
		close(file->stream->fd);
	if (file->name)
		penstock_replace_close(&file->replace, false);
	free(file->stream);
	*file = (struct cli_file){.name = NULL};
}

int cli_file_instead(struct cli_file *file, const struct cli_cmd *cmd, const char *name,
		     const char *why)
{
	const char *option = file->option;
	int r;

	cli_file_abandon(file);
	r = cli_file_open(file, cmd, option, name);
	if (r == CLI_OK)
		cli_note(cmd, "%s: %s; the table is in %s", option, why, name);
	return r;
}

bool cli_name_ends(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcmp(name + n - m, end);
}

char *cli_csv_name(const char *xlsx)
{
	size_t len = strlen(xlsx) - (cli_name_ends(xlsx, ".xlsx") ? strlen(".xlsx") : 0);
	char *name = NULL;

	return asprintf(&name, "%.*s.csv", (int)len, xlsx) < 0 ? NULL : name;
}
