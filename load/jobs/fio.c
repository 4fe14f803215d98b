/* SPDX-License-Identifier: Apache-2.0 */
/* Builds fio's command line, runs it in the folder of the job, and reads the JSON it prints. */
#include "load/jobs/fio.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "load/jobs/bench.h"
#include "load/measure/series.h"

#define POLL_MS 100

extern char **environ;

struct fio_args {
	char (*v)[96];
	unsigned nr;
};

static void arg(struct fio_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void arg(struct fio_args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->nr < FIO_ARGS)
		vsnprintf(a->v[a->nr++], sizeof(*a->v), fmt, ap);
	va_end(ap);
}

bool fio_exists(void)
{
	const char *path = getenv("PATH");
	char name[4096];

	while (path && *path) {
		size_t len = strcspn(path, ":");

		if ((size_t)snprintf(name, sizeof(name), "%.*s/fio", (int)len, path) <
			    sizeof(name) &&
		    access(name, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

/* ------------------------------------------------------------------- running */

/* Start it with its output in a pipe.  Returns the pipe or -errno. */
static int start(pid_t *pid, const char *dir, const struct fio_args *a)
{
	char *argv[FIO_ARGS + 1];
	posix_spawn_file_actions_t actions;
	int pipes[2], r;

	for (unsigned i = 0; i < a->nr; i++)
		argv[i] = a->v[i];
	argv[a->nr] = NULL;
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addchdir_np(&actions, dir);
	r = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	if (r)
		close(pipes[0]);
	return r ? -r : pipes[0];
}

/* Everything it says, or NULL.  A stop ends it. */
static char *read_all(int fd, pid_t pid, const atomic_int *stop)
{
	char *text = NULL;
	size_t used = 0, room = 0;
	bool told = false;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (stop && atomic_load(stop) && !told) {
			kill(pid, SIGTERM);
			told = true;
		}
		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		if (room - used < 4096) {
			char *more = realloc(text, room + 65536);

			if (!more)
				break;
			text = more;
			room += 65536;
		}
		n = read(fd, text + used, room - used - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	if (text)
		text[used] = 0;
	return text;
}

/* With one operation at a time the time is the sum of latencies, as it is for us. */
static void job_numbers(struct fio_result *r, const json_t *job, bool alone)
{
	static const char *const kinds[] = {"read", "write"};
	double bytes = 0, ms = 0, latency = 0, ios = 0;

	for (unsigned i = 0; i < 2; i++) {
		const json_t *k = json_object_get(job, kinds[i]);
		double n = json_number_value(json_object_get(k, "total_ios"));
		double one = json_number_value(json_object_get(k, "io_bytes"));
		double t = json_number_value(json_object_get(k, "runtime"));

		bytes += one;
		ms = t > ms ? t : ms;
		ios += n;
		latency += n *
			   json_number_value(json_object_get(json_object_get(k, "lat_ns"), "mean"));
		if (i == 1)
			r->bytes_written += (uint64_t)one;
	}
	if (bytes <= 0)
		return;
	/* The run time is in whole milliseconds. */
	r->bytes_per_sec = alone && latency > 0 ? bytes / (latency / 1e9)
			   : ms > 0             ? bytes / (ms / 1e3)
						: bytes / 1e-3;
	r->latency_mean = ios > 0 ? latency / ios / 1e9 : 0;
}

static void run_once(struct fio_result *r, const char *dir, const struct fio_args *a, bool alone,
		     const atomic_int *stop)
{
	CLEANUP_FREE char *text = NULL;
	const char *begin;
	json_t *root;
	pid_t pid;
	int status = 0, fd = start(&pid, dir, a);

	if (fd < 0) {
		snprintf(r->why_not, sizeof(r->why_not), "fio cannot be started: %s",
			 sluice_strerror(fd));
		return;
	}
	text = read_all(fd, pid, stop);
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	begin = text ? strchr(text, '{') : NULL;
	root = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	job_numbers(r, json_array_get(json_object_get(root, "jobs"), 0), alone);
	json_decref(root);
	if (stop && atomic_load(stop)) {
		r->bytes_per_sec = 0; /* not of the whole work; what it wrote it wrote */
		snprintf(r->why_not, sizeof(r->why_not), "interrupted");
	} else if (r->bytes_per_sec <= 0) {
		snprintf(r->why_not, sizeof(r->why_not), "fio failed with status %d",
			 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	}
}

/* ------------------------------------------------------------------ the work */

static const char *rw_word(const struct bench_job *job, bool read)
{
	if (job->rwmix)
		return job->random ? "randrw" : "rw";
	if (job->random)
		return read ? "randread" : "randwrite";
	return read ? "read" : "write";
}

static void build(struct fio_args *a, const struct bench_job *job, const struct run_series *s,
		  uint64_t file_bytes, uint64_t block, unsigned depth)
{
	bool direct = s->stats.blocks_direct && !s->stats.blocks_buffered;
	/* of both series of a mix */
	uint64_t bytes = s->run_bytes > s->bytes ? s->run_bytes : s->bytes;

	arg(a, "fio");
	arg(a, "--name=sluice");
	arg(a, "--filename=fio");
	arg(a, "--output-format=json");
	arg(a, "--rw=%s", rw_word(job, s->read));
	if (job->rwmix)
		arg(a, "--rwmixread=%u", job->rwmix);
	arg(a, "--ioengine=%s", !strcmp(s->stats.engine, "io_uring") ? "io_uring" : "libaio");
	arg(a, "--direct=%d", direct);
	arg(a, "--bs=%llu", (unsigned long long)block);
	arg(a, "--iodepth=%u", depth);
	arg(a, "--size=%llu", (unsigned long long)file_bytes);
	arg(a, "--thread");
	arg(a, "--randrepeat=1");
	arg(a, "--overwrite=%d", job->overwrite);
	if (job->rate)
		arg(a, "--rate=%llu", (unsigned long long)job->rate);
	if (job->opts.durability && !s->read)
		arg(a, "--fdatasync=1");
	if (job->runtime_ns) {
		arg(a, "--time_based");
		arg(a, "--runtime=%llu", (unsigned long long)(job->runtime_ns / 1000000000));
	} else {
		arg(a, "--io_size=%llu", (unsigned long long)max_u64(bytes / block * block, block));
	}
}

/* What fio has filled a file with before it began, which it does not tell. */
static uint64_t laid_out(const char *name, uint64_t file_bytes)
{
	struct stat st;

	return stat(name, &st) == 0 ? min_u64((uint64_t)st.st_blocks * 512, file_bytes) : 0;
}

void fio_compare(struct fio_result *ret, const struct bench_job *job, const char *dir,
		 const struct run_series *s, unsigned nr_files)
{
	uint64_t block = min_u64(s->file.block ? s->file.block : s->size, s->size);
	const struct {
		uint64_t block;
		unsigned depth;
	} ways[] = {{s->size, job->in_flight},
		    {s->size / block * block == s->size ? block : s->size,
		     s->stats.depth * s->stats.threads}};
	uint64_t file_bytes = job->random ? job->span / s->size * s->size : nr_files * s->size;
	bool fresh = !s->read && !job->overwrite;
	char name[4200];

	*ret = (struct fio_result){
		.ours = s->sec > 0 ? (double)(job->rwmix ? s->run_bytes : s->bytes) / s->sec : 0};
	bench_name(ret->series, sizeof(ret->series), job, s->size,
		   job->rwmix ? "read and write"
		   : s->read  ? "read"
			      : "write");
	snprintf(name, sizeof(name), "%s/fio", dir);
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		struct fio_result one = {.bytes_per_sec = 0};
		struct fio_args a = {one.args, 0};

		build(&a, job, s, file_bytes, ways[i].block, ways[i].depth ? ways[i].depth : 1);
		one.nr_args = a.nr;
		run_once(&one, dir, &a, ways[i].depth == 1 && !job->rate, job->stop);
		ret->bytes_written += one.bytes_written;
		if (i == 0 && !fresh)
			ret->bytes_written += laid_out(name, file_bytes);
		if (one.bytes_per_sec > ret->bytes_per_sec) {
			uint64_t written = ret->bytes_written;

			memcpy(one.series, ret->series, sizeof(one.series));
			one.ours = ret->ours;
			*ret = one;
			ret->bytes_written = written;
		} else if (!ret->why_not[0] && ret->bytes_per_sec <= 0) {
			memcpy(ret->why_not, one.why_not, sizeof(ret->why_not));
		}
		if (fresh)
			unlink(name); /* the next one writes a fresh file as well */
	}
	unlink(name);
	if (ret->bytes_per_sec > 0)
		ret->why_not[0] = 0;
}
