/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stop.h"

#include <signal.h>
#include <stddef.h>

static atomic_int stop_signal; /* lock-free, so a handler may set it */

static void on_signal(int sig)
{
	atomic_store(&stop_signal, sig);
}

const atomic_int *cli_stop_catch(void)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN); /* files must be removed before we go */
	signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error like others: EFBIG */
	return &stop_signal;
}
