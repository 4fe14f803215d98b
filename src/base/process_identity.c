/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_identity.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/textfile.h"

static void read_pid_space(char out[192])
{
	char host[64] = "", boot[64] = "", space[64] = "";
	ssize_t n = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);

	gethostname(host, sizeof(host) - 1);
	penstock_textfile_read_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
	space[n > 0 ? n : 0] = 0;
	snprintf(out, 192, "%s/%s/%s", host[0] ? host : "?", boot, space);
}

/* 0: there is no such process. */
static uint64_t read_start_ticks(int pid)
{
	char text[1024], *at;
	uint64_t v = 0;

	if (penstock_textfile_read_line(text, sizeof(text), "/proc/%d/stat", pid) < 0)
		return 0;
	at = strrchr(text, ')'); /* the name may hold anything */
	for (unsigned i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	if (at)
		v = strtoull(at, NULL, 10);
	return v;
}

void penstock_process_identity_read(struct penstock_process_identity *m)
{
	read_pid_space(m->pid_space);
	m->pid = (int)getpid();
	m->start_ticks = read_start_ticks(m->pid);
}

bool penstock_process_is_local(const struct penstock_process_identity *m)
{
	char pid_space[sizeof(m->pid_space)];

	read_pid_space(pid_space);
	return !strcmp(pid_space, m->pid_space);
}

bool penstock_process_is_alive(const struct penstock_process_identity *m)
{
	uint64_t start_ticks = read_start_ticks(m->pid);

	if (!start_ticks) /* gone, or not ours to see (hidepid) */
		return !m->start_ticks || m->pid <= 0 || kill(m->pid, 0) == 0 || errno != ESRCH;
	return start_ticks == m->start_ticks;
}
