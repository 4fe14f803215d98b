/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a launcher started stays behind as a supervisor, and the work is done by its
 * child in a session of its own.  When a process of a launcher dies, the launcher ends all the
 * others, MPICH without a moment to write anything down; so a child that dies is known to rank 0
 * first, and to the launcher when the others have had time to stop.  A child that hangs is ended in
 * the end, or the launcher would wait for it for ever.  When the launcher dies, a child is told to
 * stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "load/hosts/hosts_internal.h"

#define END_SEC   10 /* that a child may take to end that was told to */
#define GRACE_SEC 8  /* longer than others wait for each other after a stop */

static volatile pid_t supervised; /* 0: it has ended, and its number may be another's */

static void forward_signal(int sig)
{
	if (supervised > 0)
		kill(supervised, sig);
}

/* Until the child is gone, or has closed the pipe, which it does at its end; false: it hangs. */
static bool watch_child(pid_t child, int heartbeats, unsigned rank, pid_t launcher)
{
	unsigned missed = 0;
	bool begun =
		false; /* until ranks have met, which has a limit of its own, there are no signs */
	char bytes[64];

	while (missed <= HOSTS_SUPERVISOR_MISSED) {
		struct pollfd p = {.fd = heartbeats, .events = POLLIN};
		int n = poll(&p, 1, (int)(HOSTS_HEARTBEAT_NS / 1000000));

		if (launcher && getppid() != launcher) {
			launcher = 0;
			kill(child, SIGTERM);
		}
		if (n == 0)
			missed += begun;
		else if (n > 0 && read(heartbeats, bytes, sizeof(bytes)) <= 0)
			return true;
		else if (n > 0) {
			missed = 0;
			begun = true;
		}
	}
	dprintf(STDERR_FILENO, "penstock: rank %u gives no sign of life for %u s and is ended\n",
		rank, HOSTS_SUPERVISOR_MISSED);
	kill(child, SIGKILL);
	return false;
}

/* A child that hangs in the kernel, since its storage does not answer, does not even end. */
static int reap_child(pid_t child, bool hangs)
{
	unsigned tries = hangs ? END_SEC * 10 : 0;
	pid_t got;
	int status = 0;

	do {
		got = waitpid(child, &status, hangs ? WNOHANG : 0);
		if (got == 0)
			poll(NULL, 0, 100);
	} while ((got == 0 && --tries) || (got < 0 && errno == EINTR));
	if (got == 0)
		_exit(128 + SIGKILL);
	return status;
}

static void supervise(pid_t child, int heartbeats, unsigned rank, pid_t launcher)
{
	const struct sigaction sa = {.sa_handler = forward_signal};
	int status;

	supervised = child;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	status = reap_child(child, !watch_child(child, heartbeats, rank, launcher));
	supervised = 0;
	if (!WIFSIGNALED(status))
		_exit(WEXITSTATUS(status));
	for (unsigned left = GRACE_SEC; left;)
		left = sleep(left);
	_exit(128 + WTERMSIG(status));
}

int hosts_supervise(struct hosts *h, pid_t launcher, struct penstock_err *err)
{
	int parent[2];     /* ends when the supervisor does */
	int heartbeats[2]; /* and this one with the child */
	pid_t child;

	if (pipe2(parent, O_CLOEXEC) < 0 || pipe2(heartbeats, O_CLOEXEC | O_NONBLOCK) < 0)
		return penstock_fail(err, -errno, "no pipe can be made: %s", strerror(errno));
	signal(SIGCHLD, SIG_DFL); /* where it is ignored, the status is lost */
	child = fork();
	if (child < 0)
		return penstock_fail(err, -errno, "no process can be started: %s", strerror(errno));
	if (child > 0) {
		close(parent[0]);
		close(heartbeats[1]);
		supervise(child, heartbeats[0], h->rank, launcher);
	}
	signal(SIGPIPE, SIG_IGN);
	close(parent[1]);
	close(heartbeats[0]);
	h->heartbeat_fd = heartbeats[1];
	setsid();
	h->supervisor_fd = parent[0];
	return 0;
}
