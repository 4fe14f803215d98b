/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_HOSTS_HOSTS_H
#define PENSTOCK_HOSTS_HOSTS_H

/*
 * Processes that a launcher of MPI started, on one or several hosts, as one run.  Rank 0 has a
 * connection to each of the others; all of them wait for each other where something that is counted
 * begins (hosts_barrier), and rank 0 gets what they have to say at the end (hosts_gather).
 *
 * A connection that ends is a rank that is lost: it is named at once, the others are asked to stop,
 * and nobody waits for it any more.
 *
 * There is one such run in a process, so this is of the process.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct penstock_err;

/*
 * @line is for the user (NULL: another rank says it).  @stop: a rank is lost, or rank 0 asks to
 * stop; from a thread of its own.
 */
typedef void hosts_notify(const char *line, bool stop);

/* Has a launcher started several, of which this is the first? */
bool hosts_is_first(void);

/* 0: this process is alone, or all have found each other.  Else -errno with the reason in @err. */
int hosts_open(hosts_notify *notify, struct penstock_err *err);

/* 1: alone. */
unsigned hosts_size(void);
unsigned hosts_rank(void);
/* "rank 3 (node7)" */
const char *hosts_name(unsigned rank);

/* A random number that all ranks have. */
uint64_t hosts_random(void);

/*
 * @data of rank 0 for all: *@data is replaced in the others, by memory that is to be freed.
 * 0, -ENOMEM, or -ECONNRESET when rank 0 is lost.
 */
int hosts_broadcast(char **data, size_t *len);

/*
 * Begin together: is passed by all ranks at the same moment, as far as their clocks are known.
 * Returns that moment, by clock_ns().
 */
uint64_t hosts_barrier(void);

/* The clock of this rank: what is to be added to clock_ns() for the time since 1970 by rank 0. */
struct hosts_clock {
	int64_t wall_ns;
	int64_t offset_ns; /* this rank's clock_ns() less rank 0's */
	uint64_t error_ns; /* how far off that may be */
};
/* Of this rank; in rank 0 of any. */
void hosts_get_clock(unsigned rank, struct hosts_clock *ret);

/*
 * Hand @text to rank 0, which gets that of all: @all[i] of rank i, to be freed, or NULL where it
 * has none; @lost[i] then says why.  Waits for all that are not lost, but after a stop for some
 * seconds only.  0, -ENOMEM, or -ECONNRESET when rank 0 is lost.
 */
int hosts_gather(const char *text, char **all, const char **lost);

/* The end: rank 0's @status is that of all, and is returned. */
int hosts_close(int status);
/* After it: has rank 0 done all that it does?  Else it was lost, with what it had been told. */
bool hosts_ended(void);

#endif
