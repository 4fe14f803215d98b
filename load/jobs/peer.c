/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 100

extern char **environ;

bool peer_exists(const char *name)
{
	const char *path = getenv("PATH");
	char full[4096];

	if (strchr(name, '/'))
		return access(name, X_OK) == 0;
	while (path && *path) {
		size_t len = strcspn(path, ":");

		if ((size_t)snprintf(full, sizeof(full), "%.*s/%s", (int)len, path, name) <
			    sizeof(full) &&
		    access(full, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

/* Start it with its output in a pipe.  Returns the pipe or -errno. */
static int start(pid_t *pid, const char *dir, char *const argv[])
{
	posix_spawn_file_actions_t actions;
	int pipes[2], r;

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
static char *peer_read_all(int fd, pid_t pid, const atomic_int *stop)
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

int peer_run(char *const argv[], const char *dir, const atomic_int *stop, char **ret)
{
	int status = 0, fd;
	pid_t pid;

	*ret = NULL;
	fd = start(&pid, dir, argv);
	if (fd < 0)
		return fd;
	*ret = peer_read_all(fd, pid, stop);
	close(fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
