/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPLAY_REPLAY_PACE_H
#define PENSTOCK_REPLAY_REPLAY_PACE_H

/*
 * When the rows of a trace are due, and how far a replay is behind.  No clock in here: times
 * come from the caller, nanoseconds since the replay began.
 */
#include <stdbool.h>
#include <stdint.h>

struct replay_pace {
	double factor; /* 1: as recorded; 0: everything is due at once */
	bool begun;
	uint64_t first_ns, last_ns; /* of the trace: the first row, and the latest so far */
	uint64_t out_of_order;      /* rows before the latest */
	uint64_t max_back_ns;
};

/* When a row recorded at @time_ns is due; never before the one asked for last. */
uint64_t replay_due(struct replay_pace *p, uint64_t time_ns);

/*
 * Lag: how long operations that were due waited, for others before them, for room or for storage
 * to take them; all of the time until they ended but that at the device.  Its slope is what is lost
 * per second of the schedule, or in all of a schedule that is shorter (a replay that was
 * interrupted early says nothing of the seconds to come); a replay that loses more than
 * REPLAY_SLOPE and ends more than REPLAY_LATE behind cannot keep up.
 */
#define REPLAY_SLOPE 0.01
#define REPLAY_LATE  0.1

struct replay_lag {
	uint64_t n;
	double sum, max, last; /* seconds */
	double t_min, t_max, t_sum, tt_sum, tl_sum;
};
void replay_lag_add(struct replay_lag *l, uint64_t due_ns, uint64_t waited_ns);
/* Least squares; 0 when that cannot be told. */
double replay_lag_slope(const struct replay_lag *l);
bool replay_overloaded(const struct replay_lag *l);

#endif
