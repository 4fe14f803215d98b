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

FILE *cli_stream_open(struct cli_stream *s)
{
	const cookie_io_functions_t calls = {.write = stream_write};

	return fopencookie(s, "w", calls);
}

int cli_stream_flush(struct cli_stream *s, FILE *f)
{
	if (!fflush(f) && !ferror(f))
		return 0;
	return s->error ? s->error : -EIO;
}

/* --------------------------------------------------------------------- files */

/* The name under which the kernel shows what has none; false without /proc. */
static bool unnamed_path(const struct cli_file *file, char path[CLI_FILE_PATH])
{
	snprintf(path, CLI_FILE_PATH, "/proc/self/fd/%d", file->stream->fd);
	return access(path, F_OK) == 0;
}

/* Without a name nothing of it is left, however the command ends. */
static int open_unnamed(struct cli_file *file)
{
	CLEANUP_FREE char *copy = strdup(file->name);
	char path[CLI_FILE_PATH];

	file->stream->fd = copy ? open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
	if (file->stream->fd < 0)
		return -errno;
	if (unnamed_path(file, path)) {
		file->unnamed = true;
		return 0;
	}
	close(file->stream->fd);
	return -ENOTSUP;
}

static int open_temp(struct cli_file *file)
{
	int r;

	if (asprintf(&file->temp, "%s.XXXXXX", file->name) < 0) {
		file->temp = NULL;
		return -ENOMEM;
	}
	file->stream->fd = mkostemp(file->temp, O_CLOEXEC);
	if (file->stream->fd >= 0)
		return 0;
	r = -errno;
	free(file->temp);
	file->temp = NULL;
	return r;
}

/* Rights and owner of the file it replaces, or those of a new one. */
static int set_rights(const struct cli_file *file, const struct stat *old)
{
	mode_t mask = umask(0);
	int fd = file->stream->fd;

	umask(mask);
	if (!old)
		return fchmod(fd, 0666 & ~mask) < 0 ? -errno : 0;
	if ((old->st_uid != geteuid() || old->st_gid != getegid()) &&
	    fchown(fd, old->st_uid, old->st_gid) < 0 && errno != EPERM)
		return -errno;
	return fchmod(fd, old->st_mode & 07777) < 0 ? -errno : 0;
}

/* Devices and pipes cannot be replaced: they are written to. */
static int open_stream(struct cli_file *file)
{
	struct stat st;
	bool there = stat(file->name, &st) == 0;
	int r = 0;

	if (there && !S_ISREG(st.st_mode)) {
		file->stream->fd = open(file->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		return file->stream->fd < 0 ? -errno : 0;
	}
	/* A file that must not be written to must not be replaced either. */
	if (access(file->name, W_OK) < 0 && errno != ENOENT)
		return -errno;
	if (open_unnamed(file) < 0)
		r = open_temp(file);
	return r == 0 ? set_rights(file, there ? &st : NULL) : r;
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

	*file = (struct cli_file){.option = option, .name = name};
	if (!name)
		return CLI_OK;
	r = open_named(file);
	if (r == 0)
		return CLI_OK;
	cli_file_abandon(file);
	return cli_fail(cmd, CLI_USAGE, "%s: '%s' cannot be written: %s", option, name,
			strerror(-r));
}

const char *cli_file_path(const struct cli_file *file, char path[CLI_FILE_PATH])
{
	if (file->unnamed && unnamed_path(file, path))
		return path;
	return file->temp ? file->temp : file->name;
}

/* Give it the name, which another file may have, in one step. */
static int unnamed_replace(const struct cli_file *file, const char *path)
{
	CLEANUP_FREE char *beside = NULL;
	int r = -EEXIST;

	for (unsigned i = 0; i < 100 && r == -EEXIST; i++) {
		free(beside);
		if (asprintf(&beside, "%s.%06x", file->name,
			     (unsigned)(clock_ns() >> 4) & 0xffffff) < 0) {
			beside = NULL;
			return -ENOMEM;
		}
		r = linkat(AT_FDCWD, path, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
	}
	if (r == 0 && rename(beside, file->name) < 0) {
		r = -errno;
		unlink(beside);
	}
	return r;
}

static int appear(const struct cli_file *file)
{
	char path[CLI_FILE_PATH];

	if (file->temp)
		return rename(file->temp, file->name) < 0 ? -errno : 0;
	if (!file->unnamed)
		return 0;
	unnamed_path(file, path);
	if (linkat(AT_FDCWD, path, AT_FDCWD, file->name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return errno == EEXIST ? unnamed_replace(file, path) : -errno;
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
	if (r == 0)
		r = appear(file);
	if (r == 0 && file->temp) {
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
	if (file->stream && file->stream->fd >= 0)
		close(file->stream->fd);
	if (file->temp)
		unlink(file->temp);
	free(file->temp);
	free(file->stream);
	*file = (struct cli_file){.name = NULL};
}
