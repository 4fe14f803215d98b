/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock cp: files and objects, from either to either.  A file appears by the checkpoint writer,
 * an object by an upload: whole or not at all.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/ckpt.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/cli_s3.h"
#include "cli/data/cp_list.h"
#include "cli/opt/opt_file.h"
#include "cli/progress.h"
#include "load/report/result/text.h"

enum {
	WINDOW_PARTS = 8, /* of an object, read together */
	COPIERS = 8,      /* of a tree, at a time, ... */
	TREE_PARTS = 2,   /* ... each with so many parts read and sent together */
	DRAW_NS = 100000000,
};

struct cp_command {
	struct penstock_s3_opts s3;
	struct cli_output out;
	bool recursive, new_only, no_crc, quiet;
	/* what the run needs */
	struct penstock_s3 *c;
	struct penstock_io *io;
	struct cli_file json;
	json_t *entries;
	bool text;
	struct cp_list list;
	struct cli_progress progress;
	const atomic_int *stop;
	uint64_t bytes;
	/* shared by the threads */
	_Atomic uint64_t next, moved;
	atomic_bool failed;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t cond;
	uint64_t *done, nr_done; /* items, in the order in which they ended */
	unsigned nr_threads;
};

static const struct cli_opt cp_opts[] = {
	CLI_GROUP("What"),
	CLI_FLAG(struct cp_command, recursive, 'r', "recursive",
		 "all below FROM, a folder or prefix, to the same names below TO"),
	CLI_FLAG(struct cp_command, new_only, 'n', "new",
		 "fail where TO is there already, whoever made it and when"),
	CLI_FLAG(struct cp_command, no_crc, 0, "no-crc", "a file that is written gets no TO.crc"),
	CLI_GROUP("Object store"),
	CLI_TABLE(struct cp_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct cp_command, quiet, 'q', "quiet", "say nothing when it is done"),
	CLI_TABLE(struct cp_command, out, struct cli_output, cli_output_opts),
	CLI_END,
};

/* ------------------------------------------------------------------ both sides */

/* Where bytes come from, and where they go: one of each pair is set. */
struct source {
	const char *name;
	struct penstock_reader *file;
	uint64_t bytes;
	char etag[PENSTOCK_S3_ETAG];
};

struct target {
	const char *name;
	struct penstock_writer *file;
	struct penstock_s3_upload *object;
};

static int cp_source_open(struct source *s, struct cp_command *c, struct penstock_err *err)
{
	struct penstock_s3_info object = {.size = sizeof(object)};
	struct penstock_reader_info file = {.size = sizeof(file)};
	int r;

	if (cli_is_object(s->name)) {
		r = penstock_s3_stat(c->c, s->name, &object, err);
		s->bytes = object.bytes;
		memcpy(s->etag, object.etag, sizeof(s->etag));
		return r;
	}
	r = penstock_reader_open(&s->file, c->io, s->name, NULL, err);
	if (r == 0 && penstock_reader_stat(s->file, &file) == 0)
		s->bytes = file.bytes;
	return r;
}

static int64_t source_read(struct source *s, struct cp_command *c, void *buf, uint64_t len,
			   uint64_t at, struct penstock_err *err)
{
	int64_t n;

	if (s->file)
		return penstock_reader_read(s->file, buf, len, err);
	len = min_u64(len, s->bytes - at);
	n = penstock_s3_read(c->c, s->name, buf, len, at, s->etag[0] ? s->etag : NULL, err);
	if (n >= 0 && (uint64_t)n != len)
		return penstock_fail(err, -ESTALE, "%s: has become shorter while it was read",
				     s->name);
	return n;
}

static int target_open(struct target *t, struct cp_command *c, uint64_t bytes,
		       struct penstock_err *err)
{
	struct penstock_writer_opts w = PENSTOCK_WRITER_OPTS_INIT;
	struct penstock_s3_upload_opts u = PENSTOCK_S3_UPLOAD_OPTS_INIT;

	if (cli_is_object(t->name)) {
		u.flags = c->new_only ? PENSTOCK_S3_NEW : 0;
		u.expected = bytes;
		u.in_flight = c->recursive ? TREE_PARTS : 0;
		return penstock_s3_upload_open(&t->object, c->c, t->name, &u, err);
	}
	w.expected = bytes;
	w.flags = c->no_crc ? PENSTOCK_WRITER_NO_CRC : 0;
	return penstock_writer_open(&t->file, c->io, t->name, &w, err);
}

static int target_write(struct target *t, const void *buf, uint64_t len, struct penstock_err *err)
{
	return t->file ? penstock_writer_write(t->file, buf, len, err)
		       : penstock_s3_upload_write(t->object, buf, len, err);
}

static int target_end(struct target *t, int r, struct penstock_err *err)
{
	if (r < 0) {
		penstock_writer_abort(t->file);
		penstock_s3_upload_abort(t->object);
		return r;
	}
	if (t->file)
		return penstock_writer_commit(t->file, err);
	return t->object ? penstock_s3_upload_commit(t->object, NULL, err) : 0;
}

/* ------------------------------------------------------------------------- copy */

static int move_bytes(struct cp_command *c, struct source *s, struct target *t,
		      struct penstock_err *err)
{
	unsigned parts = s->file ? 1 : c->recursive ? TREE_PARTS : WINDOW_PARTS;
	uint64_t window = min_u64(c->s3.part * parts, max_u64(s->bytes, 1)), at = 0;
	CLEANUP_FREE void *buf = malloc(window);
	int r = 0;

	if (!buf)
		return penstock_fail(err, -ENOMEM, "out of memory");
	while (r == 0 && at < s->bytes) {
		int64_t n = source_read(s, c, buf, min_u64(window, s->bytes - at), at, err);

		if (n == 0)
			return penstock_fail(err, -ESTALE,
					     "%s: has become shorter while it was read", s->name);
		r = n < 0 ? (int)n : target_write(t, buf, (uint64_t)n, err);
		at += n > 0 ? (uint64_t)n : 0;
		atomic_fetch_add(&c->moved, n > 0 ? (uint64_t)n : 0);
		if (r == 0 && *c->stop)
			r = penstock_fail(err, -ECANCELED, "interrupted; %s is as it was", t->name);
	}
	return r;
}

static int copy_through(struct cp_command *c, struct source *s, struct target *t,
			struct penstock_err *err)
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

static int copy_bytes(struct cp_command *c, struct cp_item *it)
{
	struct source s = {.name = it->from};
	struct target t = {.name = it->to};
	int r = cp_source_open(&s, c, &it->err);

	it->bytes = s.bytes;
	if (r == 0 && store_copies(c, &s, &t)) {
		r = penstock_s3_copy(c->c, it->from, it->to, NULL, &it->err);
		atomic_fetch_add(&c->moved, r == 0 ? s.bytes : 0);
	} else if (r == 0) {
		r = copy_through(c, &s, &t, &it->err);
	}
	if (s.file)
		penstock_reader_close(s.file);
	return r;
}

/* What has to be right of a file that is written. */
static int look_before(const struct cp_command *c, struct cp_item *it)
{
	struct stat st;
	int r = 0;

	if (cli_is_object(it->to))
		return 0;
	if (!cli_is_object(it->from) && cli_file_same(it->from, it->to))
		return penstock_fail(&it->err, -EINVAL, "'%s' and '%s' are the same file", it->from,
				     it->to);
	if (c->new_only && lstat(it->to, &st) == 0)
		return penstock_fail(&it->err, -EEXIST, "%s: is there already", it->to);
	if (c->recursive)
		r = cp_make_folders(it->to);
	return r < 0 ? penstock_fail(&it->err, r, "%s: its folder cannot be made: %s", it->to,
				     strerror(-r))
		     : 0;
}

/* A thread: one after the other, until all are done or one has failed. */
static void *copy_some(void *arg)
{
	struct cp_command *c = arg;
	uint64_t i;

	while (!atomic_load(&c->failed) && !*c->stop &&
	       (i = atomic_fetch_add(&c->next, 1)) < c->list.nr) {
		struct cp_item *it = &c->list.v[i];
		uint64_t start = clock_ns();

		it->code = look_before(c, it);
		if (it->code == 0)
			it->code = copy_bytes(c, it);
		it->seconds = (double)(clock_ns() - start) / 1e9;
		pthread_mutex_lock(&c->lock);
		if (it->code < 0)
			atomic_store(&c->failed, true);
		c->done[c->nr_done++] = i;
		pthread_cond_signal(&c->cond);
		pthread_mutex_unlock(&c->lock);
	}
	pthread_mutex_lock(&c->lock);
	c->nr_threads--;
	pthread_cond_signal(&c->cond);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* -------------------------------------------------------------------- the command */

static void report_item(struct cp_command *c, const struct cp_item *it)
{
	char size[PENSTOCK_SIZE_TEXT];
	json_t *j;

	if (it->code < 0)
		return;
	c->bytes += it->bytes;
	if (c->text && !c->quiet && !c->recursive)
		printf("%s -> %s: %s in %.2f s, %.0f MB/s\n", it->from, it->to,
		       penstock_size_format(size, it->bytes), it->seconds,
		       (double)it->bytes / it->seconds / 1e6);
	if (!c->json.name)
		return;
	j = json_pack("{s:I, s:f}", "bytes", (json_int_t)it->bytes, "sec", it->seconds);
	report_set_path(j, "from", it->from);
	report_set_path(j, "to", it->to);
	json_array_append_new(c->entries, j);
}

static int item_status(const struct cp_command *c, const struct cp_item *it)
{
	if (it->code == -ECANCELED && *c->stop)
		return cli_fail(&cmd_cp, 128 + *c->stop, "%s", it->err.msg);
	if (it->code == -EINVAL && !cli_is_object(it->from) && !cli_is_object(it->to))
		return cli_usage(&cmd_cp, "%s", it->err.msg);
	return cli_s3_fail(&cmd_cp, it->code, it->err.msg);
}

/* Until the threads have ended: show how far they are, and tell what is done. */
static int cp_watch(struct cp_command *c)
{
	struct timespec until;
	int status = CLI_OK;
	uint64_t nr_reported = 0;

	cli_progress_start(&c->progress, c->list.nr == 1 ? c->list.v[0].from : "copied", 0);
	pthread_mutex_lock(&c->lock);
	while (c->nr_threads || nr_reported < c->nr_done) {
		if (nr_reported == c->nr_done) {
			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += DRAW_NS;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
			pthread_cond_timedwait(&c->cond, &c->lock, &until);
			cli_progress_update(&c->progress, atomic_load(&c->moved));
			continue;
		}
		const struct cp_item *it = &c->list.v[c->done[nr_reported++]];

		if (it->code < 0 || !c->recursive)
			cli_progress_end(&c->progress);
		report_item(c, it);
		if (it->code < 0 && status == CLI_OK)
			status = item_status(c, it);
	}
	pthread_mutex_unlock(&c->lock);
	cli_progress_end(&c->progress);
	return status;
}

static int copy_list(struct cp_command *c)
{
	pthread_t threads[COPIERS];
	unsigned want = (unsigned)min_u64(c->recursive ? COPIERS : 1, c->list.nr), nr = 0;
	uint64_t start = clock_ns();
	char size[PENSTOCK_SIZE_TEXT];
	double sec;
	int r = 0, status;

	c->done = calloc(c->list.nr + 1, sizeof(*c->done));
	if (!c->done)
		return cli_fail(&cmd_cp, CLI_FAILED, "out of memory");
	pthread_mutex_lock(&c->lock);
	for (; nr < want && r == 0; nr += r == 0) {
		r = pthread_create(&threads[nr], NULL, copy_some, c);
		c->nr_threads += r == 0;
	}
	pthread_mutex_unlock(&c->lock);
	if (!nr && want)
		return cli_fail(&cmd_cp, CLI_FAILED, "no thread: %s", strerror(r));
	status = cp_watch(c);
	for (unsigned i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	if (status == CLI_OK && *c->stop)
		status = cli_fail(&cmd_cp, 128 + *c->stop,
				  "interrupted after %" PRIu64 " of %" PRIu64, c->nr_done,
				  c->list.nr);
	sec = (double)(clock_ns() - start) / 1e9;
	if (status == CLI_OK && c->recursive && c->text && !c->quiet)
		printf("%" PRIu64 " copied: %s in %.2f s, %.0f MB/s\n", c->list.nr,
		       penstock_size_format(size, c->bytes), sec, (double)c->bytes / sec / 1e6);
	return status;
}

static int make_list(struct cp_command *c, int argc, char **argv)
{
	struct penstock_err err = {0, ""};
	uint64_t passed = 0;
	int r = 0;

	for (int i = 0; i + 1 < argc && r == 0 && !c->recursive; i++)
		r = cp_list_add(&c->list, argv[i], argv[argc - 1]);
	if (c->recursive)
		r = cp_list_add_tree(&c->list, argv[0], argv[1], c->c, &passed, &err);
	if (passed)
		cli_note(&cmd_cp,
			 "%" PRIu64 " below %s are no files (links, devices) and were left out",
			 passed, argv[0]);
	if (r < 0)
		return cli_s3_fail(&cmd_cp, r, err.msg[0] ? err.msg : "out of memory");
	return CLI_OK;
}

static int copy_all(struct cp_command *c, int argc, char **argv)
{
	int r = cli_file_open(&c->json, &cmd_cp, "--json", c->out.json), written;

	c->text = !cli_is_stdout(c->out.json);
	c->entries = json_array();
	if (r == CLI_OK)
		r = make_list(c, argc, argv);
	if (r == CLI_OK) {
		r = copy_list(c);
		written = cli_s3s_json(&c->json, &cmd_cp, json_incref(c->entries), c->c);
		r = r == CLI_OK ? written : r;
	}
	cli_file_abandon(&c->json);
	json_decref(c->entries);
	cp_list_fini(&c->list);
	free(c->done);
	return r;
}

/* What is needed of the two: a client where there is a URI, a handle where there is a path. */
static int open_sides(struct cp_command *c, int argc, char **argv)
{
	struct penstock_err err = {0, ""};
	bool objects = false, files = false;
	int r = CLI_OK;

	for (int i = 0; i < argc; i++) {
		objects = objects || cli_is_object(argv[i]);
		files = files || !cli_is_object(argv[i]);
	}
	if (objects)
		r = cli_s3_open(&c->c, &c->s3, &cmd_cp);
	if (r == CLI_OK && files && penstock_open(&c->io, NULL, &err) < 0)
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
	if (c->recursive && argc != 2)
		return cli_usage(&cmd_cp, "--recursive: one FROM and TO, not %d operands", argc);
	if (argc > 2 && to[strlen(to) - 1] != '/' &&
	    (cli_is_object(to) || stat(to, &st) < 0 || !S_ISDIR(st.st_mode)))
		return cli_usage(&cmd_cp, "'%s' is no folder; several are copied to FOLDER/", to);
	c->stop = cli_stop_catch();
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->cond, NULL);
	r = open_sides(c, argc, argv);
	if (r == CLI_OK)
		r = copy_all(c, argc, argv);
	if (c->c)
		cli_s3_print_requests(&cmd_cp, c->c);
	penstock_s3_close(c->c);
	if (c->io)
		penstock_close(c->io, NULL);
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
