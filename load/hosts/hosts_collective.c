/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for each other: where something begins, and for what all have to say. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "load/hosts/hosts_internal.h"

#define START_DELAY_NS                                                             \
	2000000u /* from the word to the beginning, and more where the way is long \
		  */
#define START_PER_RANK_NS 150000u /* to tell one rank, and for it to hear of it on a busy host */
#define SPIN_NS           200000u /* a sleep may end so late */
#define CHECK_NS          200000000u
#define START_MAX_NS \
	10000000000u /* more than any beginning is: then the clocks are not what we think */

/* -------------------------------------------------------------------- barrier */

/* With the lock held: has everybody who still comes come to barrier @n? */
static bool all_ready(const struct hosts *h, uint64_t n)
{
	for (unsigned i = 1; i < h->size; i++) {
		const struct peer *p = &h->peers[i];

		if (p->fd >= 0 && !p->result && p->ready < n)
			return false;
	}
	return true;
}

bool hosts_raise_priority(int *policy, struct sched_param *old)
{
	const struct sched_param least = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};

	return pthread_getschedparam(pthread_self(), policy, old) == 0 &&
	       pthread_setschedparam(pthread_self(), SCHED_FIFO, &least) == 0;
}

/*
 * Sleep most of it, the last of it exactly; but where there are more ranks than processors others
 * need those to wake up.
 */
static void wait_until(uint64_t at_ns, bool alone)
{
	uint64_t now = clock_ns(), spin = alone ? SPIN_NS : 0;

	at_ns = min_u64(at_ns, now + START_MAX_NS);
	if (at_ns > now + spin) {
		const struct timespec t = {.tv_sec = (time_t)((at_ns - spin) / 1000000000u),
					   .tv_nsec = (long)((at_ns - spin) % 1000000000u)};

		prctl(PR_SET_TIMERSLACK, 1ul); /* of this thread; else 50 us */
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	}
	while (clock_ns() < at_ns)
		;
}

static uint64_t send_go(struct hosts *h, uint64_t n)
{
	uint64_t error = 0, at;

	for (unsigned i = 1; i < h->size; i++)
		error = max_u64(error, h->peers[i].clock.error_ns);
	at = clock_ns() +
	     min_u64(START_DELAY_NS + h->size * START_PER_RANK_NS + 4 * error, START_MAX_NS);
	for (unsigned i = 1; i < h->size; i++) {
		struct peer *p = &h->peers[i];
		const struct header go = {
			.type = MESSAGE_GO, .a = n, .b = (int64_t)at + p->clock.offset_ns};

		if (p->ready >= n)
			hosts_send(p, &go, NULL);
	}
	return at;
}

uint64_t hosts_barrier(void)
{
	struct hosts *h = &hosts_run;
	struct header ready = {.type = MESSAGE_READY, .rank = h->rank};
	struct sched_param old;
	uint64_t n, at = 0, passed;
	bool first;
	int policy;

	if (h->size < 2)
		return clock_ns();
	first = hosts_raise_priority(&policy, &old);
	pthread_mutex_lock(&h->lock);
	n = ++h->barriers;
	ready.a = n;
	if (h->rank)
		hosts_send(&h->peers[0], &ready, NULL);
	hosts_begin_wait(h, n);
	/* a stop ends the wait; what was lost is not waited for */
	while (!h->stopping && (h->rank ? h->go < n && h->peers[0].fd >= 0 : !all_ready(h, n)))
		hosts_wait(h, clock_ns() + CHECK_NS);
	h->wait_start_ns = 0;
	if (!h->stopping)
		at = h->rank ? h->go_ns : send_go(h, n);
	pthread_mutex_unlock(&h->lock);
	wait_until(at, (long)h->size <= sysconf(_SC_NPROCESSORS_ONLN));
	passed = clock_ns();
	if (first)
		pthread_setschedparam(pthread_self(), policy, &old);
	return passed;
}

/* --------------------------------------------------------------------- gather */

/* With the lock held: is there nobody left to wait for? */
static bool all_results_in(const struct hosts *h)
{
	for (unsigned i = 1; i < h->size; i++)
		if (h->peers[i].fd >= 0 && !h->peers[i].result)
			return false;
	return true;
}

/* Does somebody say something that is not all here?  It is waited for as long as there comes more.
 */
static bool receives_result(const struct hosts *h)
{
	for (unsigned i = 1; i < h->size; i++)
		if (h->peers[i].fd >= 0 && h->peers[i].in.got > sizeof(struct header))
			return true;
	return false;
}

/* Those that wait at a barrier which rank 0 will not come to any more must not wait for ever. */
static void release_ranks(struct hosts *h)
{
	for (unsigned i = 1; i < h->size; i++) {
		struct peer *p = &h->peers[i];
		const struct header go = {.type = MESSAGE_GO, .a = p->ready};

		if (p->fd >= 0 && !p->result && p->ready > h->barriers)
			hosts_send(p, &go, NULL);
	}
}

/* False: it ended by a stop. */
static bool collect_results(struct hosts *h, char **all, const char **lost)
{
	bool whole;

	pthread_mutex_lock(&h->lock);
	h->result_sent = true;
	hosts_begin_wait(h, HOSTS_ALL_BARRIERS);
	while (!all_results_in(h)) {
		uint64_t now = clock_ns();

		if (h->stopping && now > h->stop_ns + HOSTS_STOP_NS && !receives_result(h))
			break;
		release_ranks(h);
		hosts_wait(h, now + CHECK_NS / 4);
	}
	for (unsigned i = 1; i < h->size; i++) {
		struct peer *p = &h->peers[i];

		all[i] = p->result;
		p->result = NULL;
		if (!all[i])
			lost[i] = *p->lost ? p->lost : "it did not stop in time";
	}
	h->wait_start_ns = 0;
	h->ended = true; /* who goes now is not lost */
	whole = !h->stopping;
	pthread_mutex_unlock(&h->lock);
	return whole;
}

int hosts_gather(const char *text, char **all, const char **lost)
{
	struct hosts *h = &hosts_run;
	const struct header result = {.type = MESSAGE_RESULT, .rank = h->rank, .len = strlen(text)};

	if (h->rank) {
		bool there;

		pthread_mutex_lock(&h->lock);
		there = hosts_send(&h->peers[0], &result, text);
		h->result_sent = true;
		pthread_mutex_unlock(&h->lock);
		return there ? 0 : -ECONNRESET;
	}
	if (collect_results(h, all, lost))
		hosts_check_clocks(h);
	all[0] = strdup(text);
	return all[0] ? 0 : -ENOMEM;
}
