/* SPDX-License-Identifier: Apache-2.0 */
#include "base/maker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/textfile.h"

static void find_where(char out[192])
{
	char host[64] = "", boot[64] = "", space[64] = "";
	ssize_t n = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);

	gethostname(host, sizeof(host) - 1);
	penstock_textfile_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
	space[n > 0 ? n : 0] = 0;
	snprintf(out, 192, "%s/%s/%s", host[0] ? host : "?", boot, space);
}

/* 0: there is no such process. */
static uint64_t find_started(int pid)
{
	char text[1024], *at;
	uint64_t v = 0;

	if (penstock_textfile_line(text, sizeof(text), "/proc/%d/stat", pid) < 0)
		return 0;
	at = strrchr(text, ')'); /* the name may hold anything */
	for (unsigned i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	if (at)
		v = strtoull(at, NULL, 10);
	return v;
}

void penstock_maker_self(struct penstock_maker *m)
{
	find_where(m->where);
	m->pid = (int)getpid();
	m->started = find_started(m->pid);
}

bool penstock_maker_is_here(const struct penstock_maker *m)
{
	char where[sizeof(m->where)];

	find_where(where);
	return !strcmp(where, m->where);
}

bool penstock_maker_runs(const struct penstock_maker *m)
{
	uint64_t started = find_started(m->pid);

	if (!started) /* gone, or not ours to see (hidepid) */
		return !m->started || m->pid <= 0 || kill(m->pid, 0) == 0 || errno != ESRCH;
	return started == m->started;
}
