/* SPDX-License-Identifier: Apache-2.0 */
/* Log files of a sweep, in the places and with the lines that upstream's tools expect. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/jobs/config_space.h"
#include "load/jobs/io.h"
#include "load/jobs/sweep.h"
#include "load/report/jobs/sweep_report.h"
#include "load/report/result/report_lines.h"

/* Is there anything in it?  -errno when it cannot be read. */
static int folder_used(const char *dir)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int used = 0;

	if (!d)
		return -errno;
	while (!used && (e = readdir(d)))
		used = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return used;
}

int sweep_logs_check(const char *dir, bool resume, struct penstock_err *err)
{
	CLEANUP_FREE char *state = NULL;
	int used = folder_used(dir);

	if (asprintf(&state, "%s/" SWEEP_STATE, dir) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (resume && access(state, R_OK | W_OK) < 0)
		return penstock_fail(err, -EINVAL, "log_dir: nothing to resume: %s: %s", state,
				     penstock_strerror(errno));
	if (resume || used == -ENOENT)
		return 0;
	if (used < 0)
		return penstock_fail(err, -EINVAL, "log_dir: %s: %s", dir, penstock_strerror(used));
	if (used)
		return penstock_fail(err, -EINVAL,
				     "log_dir: %s is not empty, and logs of two sweeps are never "
				     "mixed; remove it, name another, or --resume",
				     dir);
	return 0;
}

static const char *sub_folder(bool read)
{
	return read ? "_aio_bench_read_logs" : "_aio_bench_write_logs";
}

/* The folder itself, and the two in it. */
static char *folder_name(const char *dir, int i)
{
	char *name;

	if (asprintf(&name, "%s%s%s", dir, i ? "/" : "", i ? sub_folder(i == 1) : "") < 0)
		return NULL;
	return name;
}

int sweep_logs_make(const char *dir, unsigned *made, struct penstock_err *err)
{
	for (int i = 0; i < 3; i++) {
		CLEANUP_FREE char *name = folder_name(dir, i);

		if (!name)
			return penstock_fail(err, -ENOMEM, "out of memory");
		if (mkdir(name, 0777) == 0)
			*made |= 1u << i;
		else if (errno != EEXIST)
			return penstock_fail(err, -errno, "log_dir: %s: %s", name,
					     penstock_strerror(errno));
	}
	return 0;
}

void sweep_logs_undo(const char *dir, unsigned made)
{
	for (int i = 3; i-- > 0;) {
		CLEANUP_FREE char *name = made & 1u << i ? folder_name(dir, i) : NULL;

		if (name)
			rmdir(name);
	}
}

/* --------------------------------------------------------------------- foreign */

struct names {
	char **items;
	unsigned nr;
};

static int log_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The logs that the job leaves of one direction, sorted. */
static int names_of(struct names *n, const struct sweep_job *job, bool read)
{
	unsigned nr = config_space_points(job->space);
	char name[128];

	*n = (struct names){.items = calloc(nr + 1, sizeof(*n->items))};
	for (; n->items && n->nr < nr; n->nr++) {
		config_space_name(name, sizeof(name), job->space, n->nr, read, job->nr_folders,
				  &job->opts);
		if (asprintf(&n->items[n->nr], "%s.txt", name) < 0)
			return -ENOMEM;
	}
	if (!n->items)
		return -ENOMEM;
	qsort(n->items, n->nr, sizeof(*n->items), log_by_name);
	return 0;
}

static void names_fini(struct names *n)
{
	while (n->items && n->nr)
		free(n->items[--n->nr]);
	free(n->items);
}

static int check_sub_folder(const char *dir, const struct names *n, struct penstock_err *err)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	int r = 0;

	while (d && r == 0 && (e = readdir(d))) {
		const char *name = e->d_name;

		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    !bsearch(&name, n->items, n->nr, sizeof(*n->items), log_by_name))
			r = penstock_fail(err, -EINVAL,
					  "log_dir: %s/%s is not of this sweep; move it away", dir,
					  name);
	}
	if (d)
		closedir(d);
	return r;
}

int sweep_logs_own(const char *dir, const struct sweep_job *job, struct penstock_err *err)
{
	int r = 0;

	for (int i = 1; i < 3 && r == 0; i++) {
		CLEANUP_FREE char *sub = folder_name(dir, i);
		bool read = i == 1;
		struct names n = {.nr = 0};

		/* without that direction there are no logs of it at all */
		if (!sub || ((read ? job->read : job->write) && names_of(&n, job, read) < 0))
			r = penstock_fail(err, -ENOMEM, "out of memory");
		if (r == 0)
			r = check_sub_folder(sub, &n, err);
		names_fini(&n);
	}
	return r;
}

/* ------------------------------------------------------------------------- log */

static void log_lines(FILE *f, const struct sweep_job *job, const struct run_series *s,
		      const struct sweep_point *p)
{
	const char *word = s->read ? "Read" : "Write";
	uint64_t bytes = (uint64_t)p->loops * sweep_bytes(job);

	fprintf(f, "Configuring %u process to folder mapping\n", job->nr_folders);
	for (unsigned i = 0; i < job->nr_folders; i++)
		fprintf(f, "[%u]: process %u <----> %s\n", i, i, job->folders[i]);
	fprintf(f, "Task %s Latency = %.9f sec\n", word, p->task_sec);
	fprintf(f, "Task %s Speed = %.9f GB/sec\n", word, io_speed(bytes, p->task_sec));
	fprintf(f, "E2E %s Latency = %.9f sec\n", word, p->e2e_sec);
	fprintf(f, "E2E %s Speed = %.9f GB/sec\n", word, io_speed(bytes, p->e2e_sec));
	report_run_lines(f, s);
}

/* Complete or not there at all. */
int sweep_log_write(const char *dir, const struct sweep_job *job, const struct run_series *s,
		    const struct sweep_point *p, struct penstock_err *err)
{
	CLEANUP_FREE char *name = NULL, *temp = NULL;
	FILE *f;
	bool bad;

	if (asprintf(&name, "%s/%s/%s.txt", dir, sub_folder(s->read), s->name) < 0 ||
	    asprintf(&temp, "%s/" SWEEP_STATE ".log", dir) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	f = fopen(temp, "we");
	if (!f)
		return penstock_fail(err, -errno, "%s: %s", temp, penstock_strerror(errno));
	log_lines(f, job, s, p);
	bad = ferror(f) != 0;
	if (fclose(f) || bad || rename(temp, name) < 0)
		return penstock_fail(err, errno ? -errno : -EIO, "%s: cannot be written: %s", name,
				     penstock_strerror(errno ? errno : EIO));
	return 0;
}
