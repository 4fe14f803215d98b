/* SPDX-License-Identifier: Apache-2.0 */
/* Processes, folders, and meeting points made of files, for want of MPI. */
#include "cli/kv/kv_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/opt/number.h"

#define LOOK_NS 50000000 /* between looks at children, files and the wish to stop */

extern char **environ;

/* ------------------------------------------------------------------ who we are */

/* 1: found, 0: not there, -EINVAL: not a number. */
static int env_number(const char *const *names, unsigned *ret)
{
	for (; *names; names++) {
		const char *text = getenv(*names);
		int64_t v;

		if (!text)
			continue;
		if (cli_int_parse(&v, text) < 0 || v < 0 || v > 1000000)
			return -EINVAL;
		*ret = (unsigned)v;
		return 1;
	}
	return 0;
}

int kv_rank_get(struct kv_rank *r, const struct cli_cmd *cmd)
{
	static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", NULL};
	static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
	static const char *const locals[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
	int found;

	*r = (struct kv_rank){.size = 1, .local_size = 1};
	found = env_number(ranks, &r->rank);
	if (found > 0)
		found = env_number(sizes, &r->size) < 0 || env_number(locals, &r->local_size) < 0
				? -EINVAL
				: 1;
	if (found < 0)
		return cli_fail(
			cmd, CLI_FAILED,
			"a variable of MPI's (OMPI_COMM_WORLD_RANK, PMI_RANK, ...) is not a "
			"number of 0..1000000");
	r->mpi = found;
	return CLI_OK;
}

/* ----------------------------------------------------------------------- words */

void kv_word(struct kv_words *w, const char *fmt, ...)
{
	char *word = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (w->nr + 1 >= ARRAY_SIZE(w->v) || vasprintf(&word, fmt, ap) < 0)
		w->failed = true;
	else
		w->v[w->nr++] = word;
	va_end(ap);
}

void kv_words_fini(struct kv_words *w)
{
	for (unsigned i = 0; i < w->nr; i++)
		free(w->v[i]);
	*w = (struct kv_words){.nr = 0};
}

/* --------------------------------------------------------------------- folders */

int kv_make_folders(const char *path)
{
	CLEANUP_FREE char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *s = copy + 1; *s; s++) {
		if (*s != '/')
			continue;
		*s = 0;
		if (mkdir(copy, 0777) < 0 && errno != EEXIST)
			return -errno;
		*s = '/';
	}
	return mkdir(copy, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

void kv_pause(double sec, const atomic_int *stop)
{
	uint64_t end = clock_ns() + (uint64_t)(sec * 1e9);

	while (clock_ns() < end && !*stop) {
		struct timespec ts = {0, (long)min_u64(LOOK_NS, end - clock_ns())};

		nanosleep(&ts, NULL);
	}
}

/* ------------------------------------------------------------------- processes */

static int make_words(struct kv_words *w, const struct kv_ranks *r, unsigned rank)
{
	kv_word(w, "sluice");
	kv_word(w, "kv");
	for (unsigned i = 0; i < r->common->nr; i++)
		kv_word(w, "%s", r->common->v[i]);
	kv_word(w, "--seed=%llu", r->seed + rank);
	kv_word(w, "--output=%s/rank_%u/kvcache_results_%s.json", r->out, rank, r->time);
	kv_word(w, "--cache-dir=%s/rank_%u", r->cache, rank);
	return w->failed || r->common->failed ? -ENOMEM : 0;
}

static int start(const struct kv_ranks *r, unsigned rank, pid_t *ret)
{
	CLEANUP_FREE char *folder = NULL, *log = NULL;
	posix_spawn_file_actions_t files;
	struct kv_words w = {.nr = 0};
	int e;

	if (asprintf(&folder, "%s/rank_%u", r->out, rank) < 0) {
		folder = NULL;
		return -ENOMEM;
	}
	if (asprintf(&log, "%s/kv.log", folder) < 0) {
		log = NULL;
		return -ENOMEM;
	}
	e = make_words(&w, r, rank);
	if (e == 0)
		e = kv_make_folders(folder);
	if (e == 0)
		e = -posix_spawn_file_actions_init(&files);
	if (e < 0) {
		kv_words_fini(&w);
		return e;
	}
	if (r->quiet) {
		posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC,
						 0666);
		posix_spawn_file_actions_adddup2(&files, 1, 2);
	}
	e = -posix_spawn(ret, "/proc/self/exe", &files, NULL, w.v, environ);
	posix_spawn_file_actions_destroy(&files);
	kv_words_fini(&w);
	return e;
}

static int status_of(int wait)
{
	return WIFEXITED(wait) ? WEXITSTATUS(wait) : 128 + WTERMSIG(wait);
}

/* Until all have ended; a wish to stop is passed on once. */
static void wait_all(const pid_t *pids, int *status, unsigned nr, const atomic_int *stop)
{
	unsigned left = 0;
	bool told = false;

	for (unsigned i = 0; i < nr; i++)
		left += pids[i] > 0 && status[i] < 0;
	while (left) {
		for (unsigned i = 0; i < nr; i++) {
			int wait;

			if (pids[i] <= 0 || status[i] >= 0 || waitpid(pids[i], &wait, WNOHANG) <= 0)
				continue;
			status[i] = status_of(wait);
			left--;
		}
		for (unsigned i = 0; *stop && !told && i < nr; i++)
			if (pids[i] > 0 && status[i] < 0)
				kill(pids[i], *stop);
		told |= *stop != 0;
		if (left)
			nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	}
}

int kv_ranks_run(const struct kv_ranks *r, int *status)
{
	CLEANUP_FREE pid_t *pids = calloc(r->nr, sizeof(*pids));
	int e = pids ? 0 : -ENOMEM;

	for (unsigned i = 0; i < r->nr; i++)
		status[i] = -1;
	for (unsigned i = 0; i < r->nr && e == 0 && !*r->stop; i++)
		e = start(r, r->first + i, &pids[i]);
	if (!pids)
		return e;
	if (e < 0) /* those that run are of no use */
		for (unsigned i = 0; i < r->nr; i++)
			if (pids[i] > 0)
				kill(pids[i], SIGTERM);
	wait_all(pids, status, r->nr, r->stop);
	return e;
}

/* -------------------------------------------------------------- meeting points */

/* One run's must not be taken for another's: launchers name the run. */
static char *point_name(const char *folder, const char *name, unsigned rank)
{
	static const char *const names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID"};
	const char *job = NULL;
	char *path = NULL;

	for (unsigned i = 0; !job && i < ARRAY_SIZE(names); i++)
		job = getenv(names[i]);
	if (asprintf(&path, "%s/.meet.%s.%s.%u", folder, job ? job : "", name, rank) < 0)
		return NULL;
	for (char *s = path + strlen(folder) + 1; *s; s++)
		if (*s == '/')
			*s = '_';
	return path;
}

int kv_arrive(const char *folder, const char *name, const struct kv_rank *r)
{
	CLEANUP_FREE char *mine = point_name(folder, name, r->rank);
	int fd;

	if (r->size == 1)
		return 0;
	if (!mine)
		return -ENOMEM;
	fd = open(mine, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int kv_meet(const char *folder, const char *name, const struct kv_rank *r, const atomic_int *stop)
{
	unsigned next = 0;
	int e = kv_arrive(folder, name, r);

	if (r->size == 1 || e < 0)
		return e;
	while (next < r->size && !*stop) {
		CLEANUP_FREE char *theirs = point_name(folder, name, next);

		if (!theirs)
			return -ENOMEM;
		if (access(theirs, F_OK) == 0)
			next++;
		else
			nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	}
	return *stop ? -ECANCELED : 0;
}

void kv_meet_end(const char *folder, const char *name, const struct kv_rank *r)
{
	for (unsigned i = 0; r->size > 1 && i < r->size; i++) {
		CLEANUP_FREE char *path = point_name(folder, name, i);

		if (path)
			unlink(path);
	}
}
