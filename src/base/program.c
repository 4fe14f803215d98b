/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

#define POLL_NS        100000000ull /* how soon a stop is noticed */
#define FIRST_CAPACITY 65536u

/* In a group of its own, so that all of it can be ended; with signals as if nobody had touched
 * them. */
static int program_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, defaults;
	int r = posix_spawnattr_init(attr);

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGCHLD);
	if (r)
		return r;
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
					       POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(attr, 0);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setsigdefault(attr, &defaults);
	return 0;
}

/* Its errors are lost: they may be secrets, and ours are not to be mixed with them. */
static int program_start(const struct penstock_program *p, pid_t *pid, int out)
{
	extern char **environ;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int r = program_attributes(&attr);

	if (r)
		return -r;
	r = posix_spawn_file_actions_init(&files);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, out, 1);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	if (r == 0 && p->dir)
		r = posix_spawn_file_actions_addchdir_np(&files, p->dir);
	if (r == 0)
		r = posix_spawnp(pid, p->argv[0], &files, &attr, p->argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return -r;
}

/* Ask it to end, once, if that is wanted; the time it still has. */
static uint64_t program_left(const struct penstock_program *p, pid_t pid, uint64_t end_ns,
			     bool *term_sent)
{
	uint64_t now = clock_ns();

	if (asked_to_stop(p->stop) && !*term_sent)
		*term_sent = !kill(pid, SIGTERM);
	return end_ns > now ? end_ns - now : 0;
}

/* Until there is something to read: 0, or -errno. */
static int program_wait(const struct penstock_program *p, pid_t pid, int fd, uint64_t end_ns,
			bool *term_sent)
{
	struct pollfd one = {fd, POLLIN, 0};

	for (;;) {
		uint64_t left = program_left(p, pid, end_ns, term_sent);
		int r;

		if (!left)
			return -ETIMEDOUT;
		r = poll(&one, 1, (int)(min_u64(left, POLL_NS) / 1000000) + 1);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

/* All it prints, with a zero behind it. */
static int program_read(const struct penstock_program *p, pid_t pid, int fd, uint64_t end_ns,
			bool *term_sent, char **text)
{
	size_t len = 0, capacity = 0;

	for (;;) {
		ssize_t n;
		int r = program_wait(p, pid, fd, end_ns, term_sent);

		if (r < 0)
			return r;
		if (ARRAY_RESERVE(*text, capacity,
				  p->max_output ? p->max_output + 1 : len + FIRST_CAPACITY) < 0)
			return -ENOMEM;
		n = read(fd, *text + len, (p->max_output ? p->max_output : capacity - 1) - len);
		if (n < 0 && errno == EINTR)
			continue;
		(*text)[len + (n > 0 ? (size_t)n : 0)] = 0;
		if (n <= 0)
			return n ? -errno : 0;
		len += (size_t)n;
		if (len == p->max_output)
			return -E2BIG;
	}
}

/* It prints no more, but may run on. */
static int program_reap(const struct penstock_program *p, pid_t pid, uint64_t end_ns,
			bool *term_sent, int *status)
{
	struct timespec nap = {0, 250000};
	pid_t got;

	while ((got = waitpid(pid, status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
		if (!program_left(p, pid, end_ns, term_sent))
			return -ETIMEDOUT;
		nanosleep(&nap, NULL);
		nap.tv_nsec = (long)min_u64(2 * (uint64_t)nap.tv_nsec, POLL_NS);
	}
	return 0;
}

int penstock_program_run(const struct penstock_program *p, char **text, int *status)
{
	uint64_t end_ns = p->limit_ns ? clock_ns() + p->limit_ns : UINT64_MAX;
	bool term_sent = false;
	int fds[2], r;
	pid_t pid;

	*text = NULL;
	*status = 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	r = program_start(p, &pid, fds[1]);
	close(fds[1]);
	if (r < 0) {
		close(fds[0]);
		return r;
	}
	r = program_read(p, pid, fds[0], end_ns, &term_sent, text);
	close(fds[0]);
	if (r == 0)
		r = program_reap(p, pid, end_ns, &term_sent, status);
	if (r == 0)
		return 0;
	kill(-pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			break;
	return r;
}
