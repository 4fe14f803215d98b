/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_HOSTS_H
#define PENSTOCK_CLI_HOSTS_H

/*
 * Several ranks that a launcher of MPI started as one run: load/hosts has how they find and wait
 * for each other, docs/hosts.md what a user sees.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cli_cmd;
struct result;

struct cli_hosts {
	char *all;
	size_t len;
	char **words;
};

/*
 * Find the others, if there are any, and take the command line of rank 0.  Returns CLI_OK, or
 * another exit status after a message.
 */
int cli_hosts_open(struct cli_hosts *h, int *argc, char ***argv);
/* The end; returns the exit status of all. */
int cli_hosts_close(struct cli_hosts *h, int status);

/* penstock --ranks PROGRAM [WORD...]: one of several ranks whose work a program does. */
int cli_ranks_run(int argc, char **argv);

unsigned cli_hosts_size(void); /* 1: alone */
unsigned cli_hosts_rank(void);

/* A random number that all ranks have. */
uint64_t cli_hosts_random(void);

/* Of what all ranks share: who this one is. */
struct bed_share;
void cli_hosts_share(struct bed_share *share);

/*
 * What each rank has for itself of what the command line says once: below a folder `rank-N', of a
 * file NAME.rank-N.SUFFIX; devices, and all of it where there is one rank, stay as they are.  Lives
 * until cli_hosts_close().  Returns CLI_OK, or another exit status after a message.
 */
int cli_hosts_place(const char **path, const struct cli_cmd *cmd);
int cli_hosts_file(const char **name, const struct cli_cmd *cmd, const char *option);

/*
 * Hand in the result of this rank.  In rank 0 *@out becomes that of all, in others NULL.  @file:
 * what --json names, which stays; results that cannot be added, and those of ranks that have lost
 * rank 0, are beside it in files of their own.  Returns CLI_OK, or another exit status after a
 * message.
 */
int cli_hosts_result(json_t **out, const struct cli_cmd *cmd, const char *file,
		     const struct result *r);

#endif
