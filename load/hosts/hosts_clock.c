/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks.  Rank 0 asks a rank for its clock; the answer was given at some moment between the two
 * readings of its own, so the middle of them is off by no more than half of the time between.  Of
 * many the quickest is taken.
 */
#include <stdlib.h>
#include <time.h>

#include "base/util.h"
#include "load/hosts/hosts_internal.h"

#define CLOCK_SAMPLES 40
#define WAIT_NS       1000000000u
#define CLOCK_FAILURES                                                                     \
	10 /* that nothing comes back for so long, which packets that are lost may explain \
	    */

/* One question; false: no answer, to this one or to one before it that came late. */
static bool sample_clock(struct hosts *h, struct peer *p, int64_t *offset, uint64_t *error)
{
	uint64_t asked = clock_ns(), until = asked + WAIT_NS, half;
	const struct header ping = {.type = MESSAGE_PING, .a = asked};
	unsigned had;
	bool ok;

	pthread_mutex_lock(&h->lock);
	had = p->pongs;
	ok = hosts_send(p, &ping, NULL);
	while (ok && p->pongs == had && p->fd >= 0 && hosts_wait(h, until))
		;
	ok = ok && p->pongs != had && p->pong_a <= p->pong_at;
	half = ok ? (p->pong_at - p->pong_a) / 2 : 0;
	*offset = p->pong_b - (int64_t)(p->pong_a + half);
	*error = half + 1;
	pthread_mutex_unlock(&h->lock);
	return ok;
}

static bool measure_clock(struct hosts *h, struct peer *p, int64_t *offset, uint64_t *error)
{
	int64_t one;
	uint64_t bound;
	bool any = false;

	for (unsigned i = 0, failures = 0; i < CLOCK_SAMPLES && failures < CLOCK_FAILURES; i++) {
		if (!sample_clock(h, p, &one, &bound)) {
			failures = p->fd < 0 ? CLOCK_FAILURES : failures + 1;
			continue;
		}
		failures = 0;
		if (any && bound >= *error)
			continue;
		*offset = one;
		*error = bound;
		any = true;
	}
	return any;
}

static void send_clock(struct hosts *h, struct peer *p)
{
	const struct header clock = {.type = MESSAGE_CLOCK,
				     .a = (uint64_t)p->clock.wall_ns,
				     .b = p->clock.offset_ns,
				     .len = sizeof(p->clock.error_ns)};

	pthread_mutex_lock(&h->lock);
	hosts_send(p, &clock, &p->clock.error_ns);
	pthread_mutex_unlock(&h->lock);
}

void hosts_set_clocks(struct hosts *h)
{
	struct timespec wall = {0, 0};

	clock_gettime(CLOCK_REALTIME, &wall);
	h->clock.wall_ns = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)clock_ns();
	for (unsigned i = 1; i < h->size; i++) {
		struct peer *p = &h->peers[i];

		if (!measure_clock(h, p, &p->clock.offset_ns, &p->clock.error_ns)) {
			/* it would begin when its clock says what that of rank 0 does */
			hosts_give_up(h, p, "it does not tell its clock");
			continue;
		}
		p->clock.wall_ns = h->clock.wall_ns - p->clock.offset_ns;
		send_clock(h, p);
	}
}

void hosts_check_clocks(struct hosts *h)
{
	for (unsigned i = 1; i < h->size; i++) {
		struct peer *p = &h->peers[i];
		int64_t offset;
		uint64_t error, moved;

		if (!measure_clock(h, p, &offset, &error))
			continue;
		moved = (uint64_t)llabs(offset - p->clock.offset_ns);
		p->clock.error_ns = max_u64(p->clock.error_ns, moved + error);
		send_clock(h, p);
	}
}
