/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock --ranks PROGRAM [WORD...]: for a command that is Python and has several ranks.  This
 * process is the rank, as of any other command; the program is its child and asks for what it needs
 * over a socket, whose number is in PENSTOCK_RANKS_FD:
 *
 *	rank -> program: "RANK SIZE"
 *	program -> rank: "gate"         answer, when all are there: "go"
 *	program -> rank: "say BYTES"    and a text
 *	rank 0 -> program: for each rank "BYTES" and its text, or "lost WHY"
 *	other ranks -> program: "said"
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/hosts.h"
#include "load/hosts/hosts.h"

#define LOOK_MS 100
#define LONGEST (1ul << 30)

/* Say what all have said; false: out of memory, or it does not listen. */
static bool pass_all(FILE *to, const char *mine)
{
	unsigned nr = hosts_size();
	char **all = calloc(nr, sizeof(*all));
	const char **lost = calloc(nr, sizeof(*lost));
	bool ok = all && lost && hosts_gather(mine, all, lost) == 0;

	for (unsigned i = 0; ok && i < nr && !hosts_rank(); i++) {
		if (all[i] && *all[i])
			fprintf(to, "%zu\n%s", strlen(all[i]), all[i]);
		else
			fprintf(to, "lost %s\n", lost[i] ? lost[i] : "it ended without a result");
	}
	if (ok && hosts_rank())
		fputs("said\n", to);
	for (unsigned i = 0; all && i < nr; i++)
		free(all[i]);
	free(all);
	free(lost);
	return ok && fflush(to) == 0;
}

/* What the program asks for; false: nothing more. */
static bool serve(FILE *from, FILE *to)
{
	CLEANUP_FREE char *text = NULL;
	unsigned long len;
	char line[64];

	if (!fgets(line, sizeof(line), from))
		return false;
	if (!strcmp(line, "gate\n")) {
		hosts_barrier();
		return fputs("go\n", to) >= 0 && fflush(to) == 0;
	}
	if (sscanf(line, "say %lu", &len) != 1 || len > LONGEST)
		return false;
	text = calloc(1, len + 1);
	return text && fread(text, 1, len, from) == len && pass_all(to, text);
}

/* Until the program is done; a wish to stop is passed on once. */
static int serve_all(pid_t child, int fd)
{
	const atomic_int *stop = cli_stop_catch();
	FILE *from = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
	bool open = from && to, signal_sent = false;
	int status = 0;

	if (open)
		fprintf(to, "%u %u\n", hosts_rank(), hosts_size());
	open = open && fflush(to) == 0;
	while (open) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (atomic_load(stop) && !signal_sent)
			signal_sent = kill(child, atomic_load(stop)) == 0;
		if (poll(&p, 1, LOOK_MS) > 0)
			open = serve(from, to);
	}
	if (from)
		fclose(from);
	if (to)
		fclose(to);
	while (waitpid(child, &status, 0) < 0)
		if (atomic_load(stop) && !signal_sent)
			signal_sent = kill(child, atomic_load(stop)) == 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int cli_ranks_run(int argc, char **argv)
{
	char number[16];
	pid_t child, mine = getpid();
	int ends[2];

	if (argc < 1)
		return cli_fail(NULL, CLI_USAGE, "--ranks: PROGRAM is needed");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		return cli_fail(NULL, CLI_FAILED, "no socket can be made");
	signal(SIGCHLD, SIG_DFL); /* where it is ignored, the status is lost */
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != mine)
			_exit(CLI_FAILED);
		close(ends[0]);
		snprintf(number, sizeof(number), "%d", ends[1]);
		setenv("PENSTOCK_RANKS_FD", number, 1);
		signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return cli_fail(NULL, CLI_FAILED, "no process can be started");
	}
	return serve_all(child, ends[0]);
}
