/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice cp: files and objects, from either to either.  A file appears by the stream writer, an
 * object by an upload: whole or not at all.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sluice/ckpt.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/object.h"
#include "cli/opt/file.h"
#include "cli/progress.h"

enum { WINDOW_PARTS = 8 }; /* of an object, read together */

struct cp_command {
	struct sluice_object_opts object;
	bool new_only, no_crc, quiet;
	/* what the run needs */
	struct sluice_object *c;
	struct sluice_io *io;
	struct cli_progress progress;
	const atomic_int *stop;
};

static const struct cli_opt cp_opts[] = {
	CLI_GROUP("What"),
	CLI_FLAG(struct cp_command, new_only, 'n', "new",
		 "fail where TO is there already, whoever made it and when"),
	CLI_FLAG(struct cp_command, no_crc, 0, "no-crc", "a file that is written gets no TO.crc"),
	CLI_GROUP("Object store"),
	CLI_TABLE(struct cp_command, object, struct sluice_object_opts, cli_object_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct cp_command, quiet, 'q', "quiet", "say nothing when it is done"),
	CLI_END,
};

/* ------------------------------------------------------------------ both sides */

/* Where bytes come from, and where they go: one of each pair is set. */
struct source {
	const char *name;
	struct sluice_reader *file;
	uint64_t bytes;
	char etag[SLUICE_OBJECT_ETAG];
};

struct target {
	const char *name;
	struct sluice_writer *file;
	struct sluice_upload *object;
};

static int source_open(struct source *s, struct cp_command *c, struct sluice_err *err)
{
	struct sluice_object_info object = {.size = sizeof(object)};
	struct sluice_reader_info file = {.size = sizeof(file)};
	int r;

	if (cli_is_object(s->name)) {
		r = sluice_object_stat(c->c, s->name, &object, err);
		s->bytes = object.bytes;
		memcpy(s->etag, object.etag, sizeof(s->etag));
		return r;
	}
	r = sluice_reader_open(&s->file, c->io, s->name, NULL, err);
	if (r == 0 && sluice_reader_stat(s->file, &file) == 0)
		s->bytes = file.bytes;
	return r;
}

static int64_t source_read(struct source *s, struct cp_command *c, void *buf, uint64_t len,
			   uint64_t at, struct sluice_err *err)
{
	int64_t n;

	if (s->file)
		return sluice_reader_read(s->file, buf, len, err);
	len = min_u64(len, s->bytes - at);
	n = sluice_object_read(c->c, s->name, buf, len, at, s->etag[0] ? s->etag : NULL, err);
	if (n >= 0 && (uint64_t)n != len)
		return sluice_fail(err, -ESTALE, "%s: has become shorter while it was read",
				   s->name);
	return n;
}

static int target_open(struct target *t, struct cp_command *c, uint64_t bytes,
		       struct sluice_err *err)
{
	struct sluice_writer_opts w = SLUICE_WRITER_OPTS_INIT;
	struct sluice_upload_opts u = SLUICE_UPLOAD_OPTS_INIT;

	if (cli_is_object(t->name)) {
		u.flags = c->new_only ? SLUICE_OBJECT_NEW : 0;
		u.expected = bytes;
		return sluice_upload_open(&t->object, c->c, t->name, &u, err);
	}
	w.expected = bytes;
	w.flags = c->no_crc ? SLUICE_WRITER_NO_CRC : 0;
	return sluice_writer_open(&t->file, c->io, t->name, &w, err);
}

static int target_write(struct target *t, const void *buf, uint64_t len, struct sluice_err *err)
{
	return t->file ? sluice_writer_write(t->file, buf, len, err)
		       : sluice_upload_write(t->object, buf, len, err);
}

static int target_end(struct target *t, int r, struct sluice_err *err)
{
	if (r < 0) {
		sluice_writer_abort(t->file);
		sluice_upload_abort(t->object);
		return r;
	}
	if (t->file)
		return sluice_writer_commit(t->file, err);
	return t->object ? sluice_upload_commit(t->object, NULL, err) : 0;
}

/* ------------------------------------------------------------------------- copy */

static int move_bytes(struct cp_command *c, struct source *s, struct target *t,
		      struct sluice_err *err)
{
	uint64_t window = c->object.part * (s->file ? 1 : WINDOW_PARTS), at = 0;
	CLEANUP_FREE void *buf = malloc(window);
	int r = 0;

	if (!buf)
		return sluice_fail(err, -ENOMEM, "out of memory");
	while (r == 0 && at < s->bytes) {
		int64_t n = source_read(s, c, buf, min_u64(window, s->bytes - at), at, err);

		if (n == 0)
			return sluice_fail(err, -ESTALE, "%s: has become shorter while it was read",
					   s->name);
		r = n < 0 ? (int)n : target_write(t, buf, (uint64_t)n, err);
		at += n > 0 ? (uint64_t)n : 0;
		cli_progress_update(&c->progress, at);
		if (r == 0 && *c->stop)
			r = sluice_fail(err, -ECANCELED, "interrupted; %s is as it was", t->name);
	}
	return r;
}

static int copy_through(struct cp_command *c, struct source *s, struct target *t,
			struct sluice_err *err)
{
	int r = target_open(t, c, s->bytes, err);

	if (r < 0)
		return r;
	r = move_bytes(c, s, t, err);
	return target_end(t, r, err);
}

/* Within the store, where that can be and nothing else was asked for. */
static bool store_copies(const struct cp_command *c, const struct source *s, const struct target *t)
{
	return cli_is_object(s->name) && cli_is_object(t->name) && !c->new_only &&
	       s->bytes <= 5ull << 30;
}

static int copy_one(struct cp_command *c, const char *from, const char *to, uint64_t *bytes,
		    struct sluice_err *err)
{
	struct source s = {.name = from};
	struct target t = {.name = to};
	int r = source_open(&s, c, err);

	*bytes = s.bytes;
	if (r == 0) {
		cli_progress_label(&c->progress, from, s.bytes);
		r = store_copies(c, &s, &t) ? sluice_object_copy(c->c, from, to, NULL, err)
					    : copy_through(c, &s, &t, err);
	}
	if (s.file)
		sluice_reader_close(s.file);
	return r;
}

/* -------------------------------------------------------------------- the command */

/* TO, or where that is a folder (or ends with a slash) the same name in it; NULL: no memory. */
static char *copy_name(const char *from, const char *to)
{
	const char *base = strrchr(from, '/');
	size_t len = strlen(to);
	bool slash = len && to[len - 1] == '/';
	bool folder = slash;
	struct stat st;
	char *name;

	if (cli_is_object(to))
		folder = slash || !strchr(to + strlen("s3://"), '/');
	else if (!slash)
		folder = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
	if (!folder)
		return strdup(to);
	return asprintf(&name, "%s%s%s", to, slash ? "" : "/", base ? base + 1 : from) < 0 ? NULL
											   : name;
}

static int copy_and_tell(struct cp_command *c, const char *from, const char *to)
{
	struct sluice_err err = {0, ""};
	char size[SLUICE_SIZE_TEXT];
	uint64_t bytes, start = clock_ns();
	double seconds;
	struct stat st;
	int r;

	if (!cli_is_object(from) && !cli_is_object(to) && cli_file_same(from, to))
		return cli_usage(&cmd_cp, "'%s' and '%s' are the same file", from, to);
	if (c->new_only && !cli_is_object(to) && lstat(to, &st) == 0)
		return cli_fail(&cmd_cp, CLI_FAILED, "%s: is there already", to);
	cli_progress_start(&c->progress, from, 0);
	r = copy_one(c, from, to, &bytes, &err);
	cli_progress_end(&c->progress);
	if (r == -ECANCELED && *c->stop)
		return cli_fail(&cmd_cp, 128 + *c->stop, "%s", err.msg);
	if (r < 0)
		return cli_object_fail(&cmd_cp, r, err.msg);
	seconds = (double)(clock_ns() - start) / 1e9;
	if (!c->quiet)
		printf("%s -> %s: %s in %.2f s, %.0f MB/s\n", from, to,
		       sluice_size_format(size, bytes), seconds, (double)bytes / seconds / 1e6);
	return CLI_OK;
}

static int copy_all(struct cp_command *c, int argc, char **argv)
{
	int r = CLI_OK;

	for (int i = 0; i + 1 < argc && r == CLI_OK; i++) {
		CLEANUP_FREE char *to = copy_name(argv[i], argv[argc - 1]);

		r = to ? copy_and_tell(c, argv[i], to)
		       : cli_fail(&cmd_cp, CLI_FAILED, "out of memory");
	}
	return r;
}

/* What is needed of the two: a client where there is a URI, a handle where there is a path. */
static int open_sides(struct cp_command *c, int argc, char **argv)
{
	struct sluice_err err = {0, ""};
	bool objects = false, files = false;
	int r = CLI_OK;

	for (int i = 0; i < argc; i++) {
		objects = objects || cli_is_object(argv[i]);
		files = files || !cli_is_object(argv[i]);
	}
	if (objects)
		r = cli_object_open(&c->c, &c->object, &cmd_cp);
	if (r == CLI_OK && files && sluice_open(&c->io, NULL, &err) < 0)
		r = cli_fail(&cmd_cp, CLI_FAILED, "%s", err.msg);
	return r;
}

static int cp_run(void *args, int argc, char **argv)
{
	struct cp_command *c = args;
	const char *to = argc ? argv[argc - 1] : "";
	struct stat st;
	int r;

	if (argc < 2)
		return cli_usage(&cmd_cp, "FROM and TO are needed, not %d operand%s", argc,
				 argc == 1 ? "" : "s");
	if (argc > 2 && to[strlen(to) - 1] != '/' &&
	    (cli_is_object(to) || stat(to, &st) < 0 || !S_ISDIR(st.st_mode)))
		return cli_usage(&cmd_cp, "'%s' is no folder; several are copied to FOLDER/", to);
	c->stop = cli_stop_catch();
	r = open_sides(c, argc, argv);
	if (r == CLI_OK)
		r = copy_all(c, argc, argv);
	if (c->c)
		cli_object_tell(&cmd_cp, c->c);
	sluice_object_close(c->c);
	if (c->io)
		sluice_close(c->io, NULL);
	return r;
}

const struct cli_cmd cmd_cp = {
	.name = "cp",
	.summary = "copy files and objects (s3://BUCKET/KEY), from either to either",
	.usage = "FROM... TO",
	.operands = "o",
	.opts = cp_opts,
	.args_size = sizeof(struct cp_command),
	.run = cp_run,
};
