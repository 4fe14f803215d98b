/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <signal.h>
#include <stddef.h>

#include "base/util.h"

#define IMPATIENT_NS 1000000000u

static atomic_int stop_signal; /* lock-free, so a handler may set it */
static atomic_uint_fast64_t stop_ns;

/*
 * One wish to stop may come as several signals: timeout(1) sends its own to the program and
 * to the group.
 */
static void on_signal(int sig)
{
	if (!atomic_load(&stop_signal)) {
		atomic_store(&stop_ns, clock_ns());
		atomic_store(&stop_signal, sig);
	} else if (clock_ns() > atomic_load(&stop_ns) + IMPATIENT_NS) {
		signal(sig, SIG_DFL);
		raise(sig);
	}
}

void cli_stop_now(int sig)
{
	int none = 0;

	atomic_store(&stop_ns, clock_ns() + 4 * (uint64_t)IMPATIENT_NS);
	atomic_compare_exchange_strong(&stop_signal, &none, sig);
}

const atomic_int *cli_stop_catch(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN); /* files must be removed before we go */
	signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error like others: EFBIG */
	return &stop_signal;
}
