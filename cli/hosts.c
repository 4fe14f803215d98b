/* SPDX-License-Identifier: Apache-2.0 */
/* A run of several ranks, seen from the command: one command line, one result, one status. */
#include "cli/hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/opt_json.h"
#include "load/bed/bed_folder.h"
#include "load/hosts/hosts.h"
#include "load/measure/rank_barrier.h"
#include "load/report/merge/merge.h"
#include "load/report/result/result.h"

/* Names made of those of the command line, and folders that were not there before. */
static char **names;
static unsigned nr_names, names_capacity;
static char *absent[16];
static unsigned nr_absent;
/* What this rank had to say, and where to, until rank 0 has come to its end. */
static struct {
	char *text;
	const char *file;
	const struct cli_cmd *cmd;
} mine;

/* Commands that several ranks do together; of others each rank does its own. */
static bool is_shared(int argc, char **argv)
{
	const char *a = argc > 1 ? argv[1] : "", *b = argc > 2 ? argv[2] : "";

	return !strcmp(a, "--ranks") || !strcmp(a, "bench") || !strcmp(a, "io") ||
	       !strcmp(a, "replay") || (!strcmp(a, "kv") && strcmp(b, "mlperf") != 0) ||
	       (!strcmp(a, "ckpt") && !strcmp(b, "bench"));
}

/* And these would be taken for one, so it is said once that they are not. */
static void note_ranks_are_alone(const char *command)
{
	if ((!strcmp(command, "sweep") || !strcmp(command, "tune") ||
	     !strcmp(command, "weights")) &&
	    hosts_is_first())
		cli_note(NULL, "%s is no run of several ranks: each runs by itself", command);
}

static void say(const char *line, bool stop)
{
	if (line)
		cli_note(NULL, "%s%s", line, stop ? "; the others are stopped" : "");
	if (stop)
		cli_stop_now(SIGTERM);
}

/* ------------------------------------------------------------------- settings */

static char *join_words(int argc, char **argv, size_t *ret_len)
{
	size_t len = 0, at = 0;
	char *all;

	for (int i = 0; i < argc; i++)
		len += strlen(argv[i]) + 1;
	all = malloc(len + 1);
	for (int i = 0; all && i < argc; i++) {
		memcpy(all + at, argv[i], strlen(argv[i]) + 1);
		at += strlen(argv[i]) + 1;
	}
	*ret_len = len;
	return all;
}

/* Into @all, which stays. */
static char **split_words(char *all, size_t len, int *ret_nr)
{
	char **words;
	int nr = 0;

	for (size_t i = 0; i < len; i++)
		nr += !all[i];
	words = calloc((size_t)nr + 1, sizeof(*words));
	*ret_nr = nr;
	nr = 0;
	for (size_t at = 0; words && at < len; at += strlen(all + at) + 1)
		words[nr++] = all + at;
	return words;
}

int cli_hosts_open(struct cli_hosts *h, int *argc, char ***argv)
{
	struct penstock_err err = {0, ""};
	int r;

	*h = (struct cli_hosts){.all = NULL};
	if (!is_shared(*argc, *argv)) {
		note_ranks_are_alone(*argc > 1 ? (*argv)[1] : "");
		return CLI_OK;
	}
	r = hosts_open(say, &err);
	if (r < 0)
		return cli_fail(NULL, r == -ENOTSUP ? CLI_UNSUPPORTED : CLI_FAILED, "%s", err.msg);
	if (hosts_size() < 2)
		return CLI_OK;
	rank_barrier_set(hosts_barrier);
	h->all = join_words(*argc, *argv, &h->len);
	if (hosts_rank())
		free(h->all);
	if (h->all && hosts_broadcast(&h->all, &h->len) < 0)
		return cli_fail(NULL, CLI_FAILED, "rank 0 is lost");
	h->words = h->all ? split_words(h->all, h->len, argc) : NULL;
	if (!h->words)
		return cli_fail(NULL, CLI_FAILED, "out of memory");
	*argv = h->words;
	return CLI_OK;
}

unsigned cli_hosts_size(void)
{
	return hosts_size();
}

unsigned cli_hosts_rank(void)
{
	return hosts_rank();
}

uint64_t cli_hosts_random(void)
{
	return hosts_random();
}

void cli_hosts_share(struct bed_share *share)
{
	share->rank = hosts_rank();
	share->size = hosts_size();
	share->number = hosts_random();
}

/* ---------------------------------------------------------------------- names */

static int keep_name(const char **name, char *made, const struct cli_cmd *cmd)
{
	if (!made || ARRAY_RESERVE(names, names_capacity, nr_names + 1) < 0) {
		free(made);
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	}
	names[nr_names++] = made;
	*name = made;
	return CLI_OK;
}

/* The last part of a path has its suffixes from its first dot on. */
static char *ranked(const char *name, unsigned rank)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name,
		   *dot = *last ? strchr(last + 1, '.') : NULL;
	int len = (int)(dot ? dot - name : (ptrdiff_t)strlen(name));
	char *made;

	return asprintf(&made, "%.*s.rank-%u%s", len, name, rank, dot ? dot : "") < 0 ? NULL : made;
}

int cli_hosts_place(const char **path, const struct cli_cmd *cmd)
{
	struct stat st;
	char *made;

	if (hosts_size() < 2 || !*path)
		return CLI_OK;
	if (stat(*path, &st) == 0 && !S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode) ? keep_name(path, ranked(*path, hosts_rank()), cmd)
					   : CLI_OK;
	if (access(*path, F_OK) < 0 && nr_absent < ARRAY_SIZE(absent))
		absent[nr_absent++] = strdup(*path);
	if (asprintf(&made, "%s/rank-%u", *path, hosts_rank()) < 0)
		made = NULL;
	return keep_name(path, made, cmd);
}

int cli_hosts_file(const char **name, const struct cli_cmd *cmd, const char *option)
{
	if (hosts_size() < 2 || !*name)
		return CLI_OK;
	if (cli_is_stdout(*name))
		return cli_usage(cmd, "%s: each of several ranks has its own, so give a file",
				 option);
	return keep_name(name, ranked(*name, hosts_rank()), cmd);
}

/* --------------------------------------------------------------------- result */

static json_t *read_said(unsigned rank, const char *text)
{
	json_t *j = text && *text ? json_loads(text, 0, NULL) : NULL;
	struct hosts_clock c;
	char run[17];

	hosts_get_clock(rank, &c);
	snprintf(run, sizeof(run), "%016" PRIx64, hosts_random());
	if (j)
		json_object_set_new(j, "clock",
				    json_pack("{s:I, s:f, s:f, s:s}", "rank", (json_int_t)rank,
					      "offset_sec", (double)c.offset_ns / 1e9, "error_sec",
					      (double)c.error_ns / 1e9, "run", run));
	return j;
}

/* Beside @file, where that of all would be; false: after a message, or there is no such place. */
static bool write_rank(const struct cli_cmd *cmd, const char *file, unsigned rank, const char *text)
{
	CLEANUP_FREE char *name = file && !cli_is_stdout(file) ? ranked(file, rank) : NULL;
	json_t *j = name ? read_said(rank, text) : NULL;
	struct cli_file to = {.name = NULL};
	struct stat st;
	bool ok = j && (stat(file, &st) < 0 || S_ISREG(st.st_mode)) &&
		  cli_file_open(&to, cmd, "--json", name) == CLI_OK &&
		  cli_file_finish(&to, cmd, cli_json_dump(to.f, j, 1), NULL) == CLI_OK;

	json_decref(j);
	return ok;
}

/* Rank 0 went before it had written what came of all, or without us: what we have is not lost. */
static void write_mine(void)
{
	if (mine.text && !hosts_ended() && write_rank(mine.cmd, mine.file, hosts_rank(), mine.text))
		cli_note(mine.cmd,
			 "the result of rank %u is in its own file beside '%s', for `penstock "
			 "merge'",
			 hosts_rank(), mine.file);
	free(mine.text);
	mine.text = NULL;
}

/* They cannot be added, which is no reason to lose them. */
static void write_each(const struct cli_cmd *cmd, const char *file, char **all)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < hosts_size(); i++)
		nr += all[i] && write_rank(cmd, file, i, all[i]);
	if (nr)
		cli_note(cmd, "each rank's own result is in a file beside '%s'", file);
}

/* What all said as one. */
static int merge_said(json_t **out, char **all, const char **lost, struct penstock_err *err)
{
	unsigned nr = hosts_size();
	struct merge_input *in = calloc(nr, sizeof(*in));
	json_t **read = calloc(nr, sizeof(*read));
	int r = in && read ? 0 : penstock_fail(err, -ENOMEM, "out of memory");

	for (unsigned i = 0; i < nr && r == 0; i++) {
		read[i] = read_said(i, all[i]);
		in[i] = (struct merge_input){.result = read[i],
					     .name = hosts_name(i),
					     .lost = lost[i] ? lost[i]
							     : "it ended without a result"};
	}
	if (r == 0)
		r = merge_results(out, in, nr, "mpi", err);
	for (unsigned i = 0; i < nr && read; i++)
		json_decref(read[i]);
	free(read);
	free(in);
	return r;
}

static int hosts_gather_all(json_t **out, const struct cli_cmd *cmd, const char *file,
			    const char *text, struct penstock_err *err)
{
	unsigned nr = hosts_size();
	char **all = calloc(nr, sizeof(*all));
	const char **lost = calloc(nr, sizeof(*lost));
	int r = all && lost ? hosts_gather(text, all, lost) : -ENOMEM;

	if (r < 0)
		penstock_fail(err, r, "%s",
			      r == -ENOMEM ? "out of memory" : "rank 0 takes no result any more");
	else if (!hosts_rank())
		r = merge_said(out, all, lost, err);
	if (r == -EINVAL)
		write_each(cmd, file, all);
	for (unsigned i = 0; i < nr && all; i++)
		free(all[i]);
	free(all);
	free(lost);
	return r;
}

int cli_hosts_result(json_t **out, const struct cli_cmd *cmd, const char *file,
		     const struct result *r)
{
	struct penstock_err err = {0, ""};
	struct result one = *r;
	struct hosts_clock c;
	json_t *j;
	char *text;
	int e;

	hosts_get_clock(hosts_rank(), &c);
	one.wall_ns = c.wall_ns;
	j = result_json(&one);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	*out = NULL;
	e = hosts_gather_all(out, cmd, file, text, &err);
	free(mine.text);
	mine.text = NULL;
	if (hosts_rank()) {
		mine.text = text;
		mine.file = file;
		mine.cmd = cmd;
	} else {
		free(text);
	}
	return e < 0 ? cli_fail(cmd, CLI_FAILED, "%s", err.msg) : CLI_OK;
}

/* ------------------------------------------------------------------- the end */

int cli_hosts_close(struct cli_hosts *h, int status)
{
	status = hosts_close(status);
	write_mine();
	/* now nobody is in there; who made it could not remove it before the others */
	while (nr_absent) {
		CLEANUP_FREE char *path = absent[--nr_absent];

		if (path)
			rmdir(path);
	}
	while (nr_names)
		free(names[--nr_names]);
	free(names);
	free(h->words);
	free(h->all);
	return status;
}
