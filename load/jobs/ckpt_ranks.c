/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: started, told what to do all at once, waited for, ended. */
#include "load/jobs/ckpt_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/util.h"

#define POLL_MS 100  /* so often whether we shall stop */
#define STOP_MS 5000 /* and so long may a process take for it */

/* ------------------------------------------------------------------- beginning */

static void exec_torch(const struct ckpt_job *job, unsigned rank, int fd)
{
	char size[24], number[16], seed[24];
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	snprintf(size, sizeof(size), "%" PRIu64, job->size);
	snprintf(number, sizeof(number), "%u", rank);
	snprintf(seed, sizeof(seed), "%" PRIu64, job->seed % 1000000);
	if (dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(null, 2) < 0)
		return;
	execlp(job->python, job->python, "-c", ckpt_torch_program, size, number, seed,
	       (char *)NULL);
	dprintf(1, "fail %d %s: %s\n", errno, job->python, strerror(errno));
}

static void run_child(const struct ckpt_ranks *r, unsigned rank, int fd, pid_t parent)
{
	/* Ends of lines to the others must not stay open here. */
	for (unsigned i = 0; i < rank; i++)
		close(r->ranks[i].fd);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (r->method == CKPT_TORCH)
		exec_torch(r->job, rank, fd);
	else
		ckpt_rank_main(r->job, r->method, rank, fd, &r->info[rank]);
	_exit(0);
}

static int start_one(struct ckpt_ranks *r, unsigned rank, struct penstock_err *err)
{
	struct ckpt_rank *k = &r->ranks[rank];
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return penstock_fail(err, -errno, "socketpair: %s", penstock_strerror(errno));
	k->fd = ends[0];
	k->pid = fork();
	if (k->pid == 0) {
		close(ends[0]);
		run_child(r, rank, ends[1], parent);
	}
	r->nr = rank + 1;
	close(ends[1]);
	return k->pid < 0 ? penstock_fail(err, -errno, "fork: %s", penstock_strerror(errno)) : 0;
}

/* ------------------------------------------------------------------- answers */

/* 0, or what the process failed with. */
static int parse_answer(struct ckpt_rank *k, unsigned rank, struct penstock_err *err)
{
	struct ckpt_times *t = &k->times;
	int code = 0, at = 0;

	if (sscanf(k->line, "ok %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
		   &t->total, &t->made, &t->close, &t->user, &t->system) == 5)
		return 0;
	if (sscanf(k->line, "fail %d %n", &code, &at) == 1 && code > 0 && at)
		return penstock_fail(err, -code, "process %u: %s", rank, k->line + at);
	return penstock_fail(err, -EPROTO, "process %u says '%s'", rank, k->line);
}

/* More of an answer: 1 when it is complete, 0 when not, -EPIPE when the process has ended. */
static int read_answer(struct ckpt_rank *k)
{
	ssize_t n = read(k->fd, k->line + k->len, sizeof(k->line) - 1 - k->len);
	char *end;

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	k->len += (size_t)n;
	k->line[k->len] = 0;
	end = memchr(k->line, '\n', k->len);
	if (end)
		*end = 0;
	return end || k->len == sizeof(k->line) - 1;
}

static int report_death(const struct ckpt_rank *k, unsigned rank, struct penstock_err *err)
{
	int status = 0;

	/* It stays to be waited for at the end. */
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)k->pid, &info, WEXITED | WNOWAIT) == 0)
		status = info.si_status;
	return penstock_fail(err, -ECHILD, "process %u has died (%s %d)", rank,
			     info.si_code == CLD_EXITED ? "exit status" : "signal", status);
}

static bool stopping(const struct ckpt_ranks *r)
{
	return asked_to_stop(r->job->stop);
}

/* An answer of each of them; the first that failed is told. */
static int wait_answers(struct ckpt_ranks *r, struct penstock_err *err)
{
	CLEANUP_FREE struct pollfd *fds = calloc(r->nr, sizeof(*fds));
	unsigned left = r->nr;
	struct penstock_err why;
	int result = 0;

	if (!fds)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < r->nr; i++) {
		fds[i] = (struct pollfd){.fd = r->ranks[i].fd, .events = POLLIN};
		r->ranks[i].len = 0;
	}
	while (left) {
		if (stopping(r))
			return penstock_fail(err, -ECANCELED, "interrupted");
		if (poll(fds, r->nr, POLL_MS) <= 0)
			continue;
		for (unsigned i = 0; i < r->nr; i++) {
			struct ckpt_rank *k = &r->ranks[i];
			int got = fds[i].fd >= 0 && fds[i].revents ? read_answer(k) : 0;

			if (got == 0)
				continue;
			got = got < 0 ? report_death(k, i, &why) : parse_answer(k, i, &why);
			if (got < 0 && result == 0)
				result = penstock_fail(err, got, "%s", why.msg);
			fds[i].fd = -1;
			left--;
		}
	}
	return result;
}

int ckpt_ranks_start(struct ckpt_ranks *r, const struct ckpt_job *job, enum ckpt_method method,
		     struct penstock_err *err)
{
	size_t shared = job->processes * sizeof(*r->info);
	int e = 0;

	*r = (struct ckpt_ranks){.job = job, .method = method};
	r->ranks = calloc(job->processes, sizeof(*r->ranks));
	r->info = mmap(NULL, shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!r->ranks || r->info == MAP_FAILED) {
		r->info = r->info == MAP_FAILED ? NULL : r->info;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	for (unsigned i = 0; i < job->processes && e == 0; i++)
		e = start_one(r, i, err);
	return e < 0 ? e : wait_answers(r, err);
}

int ckpt_ranks_do(struct ckpt_ranks *r, const char *verb, uint64_t object, char *const *files,
		  uint64_t *ret_ns, struct penstock_err *err)
{
	uint64_t begin = clock_ns();
	int e;

	for (unsigned i = 0; i < r->nr; i++) {
		CLEANUP_FREE char *line = NULL;
		int n = asprintf(&line, "%s %" PRIu64 " %s\n", verb, object, files[i]);

		if (n < 0) {
			line = NULL;
			return penstock_fail(err, -ENOMEM, "out of memory");
		}
		if (send(r->ranks[i].fd, line, (size_t)n, MSG_NOSIGNAL) != n)
			return report_death(&r->ranks[i], i, err);
	}
	e = wait_answers(r, err);
	*ret_ns = clock_ns() - begin;
	return e;
}

/* Wait for its end; one that was told to stop and does not in time is made to. */
static void reap(const struct ckpt_rank *k, bool stopped)
{
	pid_t got = 0;

	for (unsigned tries = 0; stopped && got == 0 && tries < STOP_MS / POLL_MS; tries++) {
		got = waitpid(k->pid, NULL, WNOHANG);
		if (got == 0)
			poll(NULL, 0, POLL_MS);
	}
	if (stopped && got == 0)
		kill(k->pid, SIGKILL);
	while (got <= 0) {
		got = waitpid(k->pid, NULL, 0);
		if (got < 0 && errno != EINTR)
			break;
	}
}

void ckpt_ranks_end(struct ckpt_ranks *r)
{
	for (unsigned i = 0; i < r->nr; i++) {
		/* One that has read to the end of its lines ends by itself. */
		shutdown(r->ranks[i].fd, SHUT_WR);
		if (r->ranks[i].pid > 0 && stopping(r))
			kill(r->ranks[i].pid, SIGTERM);
	}
	for (unsigned i = 0; i < r->nr; i++) {
		if (r->ranks[i].pid > 0)
			reap(&r->ranks[i], stopping(r));
		close(r->ranks[i].fd);
	}
	if (r->info)
		munmap(r->info, r->job->processes * sizeof(*r->info));
	free(r->ranks);
	*r = (struct ckpt_ranks){.nr = 0};
}
