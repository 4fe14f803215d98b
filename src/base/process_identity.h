/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_PROCESS_IDENTITY_H
#define PENSTOCK_BASE_PROCESS_IDENTITY_H

/*
 * The process that made a file or an object, for storage without locks: another process reads it
 * and finds out whether that process still runs.
 */
#include <stdbool.h>
#include <stdint.h>

struct penstock_process_identity {
	char pid_space[192]; /* host, boot and PID name space, in which @pid has a meaning */
	int pid;
	uint64_t start_ticks; /* when it started, in ticks since boot */
};

/* The calling process. */
void penstock_process_identity_read(struct penstock_process_identity *m);
/* Was it started on this machine, since the last boot? */
bool penstock_process_is_local(const struct penstock_process_identity *m);
/* Does it still run?  Only for a local one. */
bool penstock_process_is_alive(const struct penstock_process_identity *m);

#endif
