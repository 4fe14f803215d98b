/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a launcher started stays behind as a keeper, and the work is done by its child
 * in a session of its own.  When a process of a launcher dies, the launcher ends all the others,
 * MPICH without a moment to write anything down; so a child that dies is known to rank 0 first, and
 * to the launcher when the others have had time to stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "load/hosts/hosts_in.h"

#define GRACE_SEC 8 /* longer than others wait for each other after a stop */

static volatile pid_t kept;

static void pass_on(int sig)
{
	kill(kept, sig);
}

static void keep(pid_t child)
{
	const struct sigaction sa = {.sa_handler = pass_on};
	int status = 0;

	kept = child;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFSIGNALED(status))
		_exit(WEXITSTATUS(status));
	for (unsigned left = GRACE_SEC; left;)
		left = sleep(left);
	_exit(128 + WTERMSIG(status));
}

int hosts_keep(struct hosts *h, struct sluice_err *err)
{
	int line[2]; /* ends when the keeper does */
	pid_t child;

	if (pipe2(line, O_CLOEXEC) < 0)
		return sluice_fail(err, -errno, "no pipe can be made: %s", strerror(errno));
	child = fork();
	if (child < 0)
		return sluice_fail(err, -errno, "no process can be started: %s", strerror(errno));
	if (child > 0) {
		close(line[0]);
		keep(child);
	}
	close(line[1]);
	setsid();
	h->keeper = line[0];
	return 0;
}
