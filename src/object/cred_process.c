/* SPDX-License-Identifier: Apache-2.0 */
/* credential_process: a program of the user's that prints keys. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/util.h"
#include "object/cred_in.h"

#define LIMIT_NS 60000000000ull

/*
 * Start it with the write end of a pipe as its output, in a process group of its own so that all of
 * it can be ended.  What it says on its standard error is lost: it might be a secret, and ours is
 * not to print.
 */
static int start(pid_t *pid, int out, const char *command)
{
	char *const argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			      (char *)(uintptr_t)command, NULL};
	extern char **environ;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, defaults;
	int r;

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGCHLD);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	r = posix_spawn(pid, "/bin/sh", &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* All it prints, up to its end or the deadline. */
static int process_collect(char *text, size_t room, int fd)
{
	uint64_t end = clock_ns() + LIMIT_NS;
	struct pollfd p = {fd, POLLIN, 0};
	size_t len = 0;

	for (;;) {
		uint64_t now = clock_ns();
		int r = now < end ? poll(&p, 1, (int)((end - now) / 1000000) + 1) : 0;
		ssize_t n;

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r ? -errno : -ETIMEDOUT;
		n = read(fd, text + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			text[len] = 0;
			return n ? -errno : 0;
		}
		len += (size_t)n;
		if (len == room)
			return -E2BIG;
	}
}

/* Its status; 0 too where somebody else has waited for it: what it printed decides then. */
static int ended(pid_t pid, bool kill_it)
{
	int status = 0;

	if (kill_it)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

static int process_run(struct object_cred_source *s, char *text, size_t room,
		       struct sluice_err *err)
{
	int fds[2], r, status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return sluice_fail(err, -errno, "credentials: pipe: %s", strerror(errno));
	r = start(&pid, fds[1], s->command);
	close(fds[1]);
	if (r) {
		close(fds[0]);
		return sluice_fail(err, r, "credentials: credential_process of %s: %s", s->name,
				   strerror(-r));
	}
	r = process_collect(text, room, fds[0]);
	close(fds[0]);
	status = ended(pid, r);
	if (r)
		return sluice_fail(err, r, "credentials: credential_process of %s: %s", s->name,
				   r == -E2BIG ? "prints more than any keys" : strerror(-r));
	if (WIFSIGNALED(status))
		return sluice_fail(err, -EINVAL, "credentials: credential_process of %s: signal %d",
				   s->name, WTERMSIG(status));
	if (WEXITSTATUS(status))
		return sluice_fail(err, -EINVAL,
				   "credentials: credential_process of %s: exit status %d", s->name,
				   WEXITSTATUS(status));
	return 0;
}

int cred_ask_process(struct object_cred_source *s, struct object_cred *out, struct sluice_err *err)
{
	char *text = malloc(CRED_TEXT_MAX + 1);
	int r;

	if (!text)
		return sluice_fail(err, -ENOMEM, "credentials: no memory");
	text[0] = 0;
	r = process_run(s, text, CRED_TEXT_MAX, err);
	if (!r)
		r = cred_from_json(out, text, "SessionToken", s->name, err);
	explicit_bzero(text, CRED_TEXT_MAX + 1);
	free(text);
	return r;
}
