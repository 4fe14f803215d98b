/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run of several ranks. */
#include "load/hosts/hosts.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/hosts/hosts_internal.h"

#define END_NS 10000000000u /* that others wait for rank 0 after a stop */

struct hosts hosts_run = {.size = 1};

static int get_stall_limit(struct hosts *h, struct penstock_err *err)
{
	const char *given = getenv("PENSTOCK_RANK_TIMEOUT");
	char *end = NULL;
	double sec = given ? strtod(given, &end) : HOSTS_STALL_NS / 1e9;

	if (given && (end == given || *end || !(sec >= 0 && sec <= 1e9)))
		return penstock_fail(err, -EINVAL,
				     "PENSTOCK_RANK_TIMEOUT: '%s' is no number of seconds", given);
	h->stall_limit_ns = (uint64_t)(sec * 1e9);
	h->stall_limit_given = given;
	return 0;
}

int hosts_open(hosts_notify *notify, struct penstock_err *err)
{
	struct hosts *h = &hosts_run;
	int r = get_stall_limit(h, err);

	h->notify = notify;
	if (r == 0)
		r = hosts_connect(h, err);
	if (r == 0 && h->size > 1)
		r = hosts_start_thread(h, err);
	if (r < 0 || h->size < 2) {
		h->size = 1;
		h->rank = 0;
		return r;
	}
	if (h->rank == 0)
		hosts_set_clocks(h);
	return 0;
}

unsigned hosts_size(void)
{
	return hosts_run.size;
}

unsigned hosts_rank(void)
{
	return hosts_run.rank;
}

uint64_t hosts_random(void)
{
	return hosts_run.random;
}

const char *hosts_name(unsigned rank)
{
	return hosts_run.peers[rank].name;
}

int hosts_broadcast(char **data, size_t *len)
{
	struct hosts *h = &hosts_run;
	const struct header broadcast = {.type = MESSAGE_BROADCAST, .len = *len};
	int r = 0;

	if (h->size < 2)
		return 0;
	if (!h->rank) {
		pthread_mutex_lock(&h->lock);
		for (unsigned i = 1; i < h->size; i++)
			hosts_send(&h->peers[i], &broadcast, *data);
		pthread_mutex_unlock(&h->lock);
		return 0;
	}
	pthread_mutex_lock(&h->lock);
	while (!h->broadcast && h->peers[0].fd >= 0)
		hosts_wait(h, 0);
	if (!h->broadcast)
		r = -ECONNRESET;
	*data = h->broadcast;
	*len = h->broadcast_len;
	h->broadcast = NULL;
	pthread_mutex_unlock(&h->lock);
	return r;
}

bool hosts_ended(void)
{
	return hosts_run.ended;
}

void hosts_get_clock(unsigned rank, struct hosts_clock *ret)
{
	struct hosts *h = &hosts_run;

	pthread_mutex_lock(&h->lock);
	*ret = rank == h->rank ? h->clock : h->peers[rank].clock;
	pthread_mutex_unlock(&h->lock);
}

/* With the lock held: rank 0 has ended with @status; what all have come to. */
static int collect_statuses(struct hosts *h, int status)
{
	struct header end = {.type = MESSAGE_END};

	if (!h->result_sent)
		hosts_stop(h);
	h->ended = true;
	hosts_begin_wait(h, HOSTS_ALL_BARRIERS); /* one may hang in what it does at its end */
	for (unsigned i = 1; i < h->size; i++) {
		struct peer *p = &h->peers[i];

		while (p->fd >= 0 && !p->done &&
		       (!h->stopping || clock_ns() < h->stop_ns + HOSTS_STOP_NS))
			hosts_wait(h, clock_ns() + HOSTS_HEARTBEAT_NS);
		status = status ? status : p->done ? p->status : 1;
	}
	h->wait_start_ns = 0;
	end.a = (uint64_t)status;
	for (unsigned i = 1; i < h->size; i++)
		hosts_send(&h->peers[i], &end, NULL);
	return status;
}

/* With the lock held: until the last word is on its way to all that are there. */
static void flush_all(struct hosts *h)
{
	uint64_t until = clock_ns() + HOSTS_STOP_NS;
	bool all = false, in_time = true;

	while (!all && in_time) {
		all = true;
		for (unsigned i = 1; i < h->size; i++)
			all = all && (h->peers[i].fd < 0 || !h->peers[i].out.len);
		in_time = all || hosts_wait(h, until);
	}
}

int hosts_close(int status)
{
	struct hosts *h = &hosts_run;
	const struct header nothing = {.type = MESSAGE_RESULT, .rank = h->rank};
	const struct header done = {.type = MESSAGE_DONE, .rank = h->rank, .a = (uint64_t)status};

	if (h->size < 2)
		return status;
	pthread_mutex_lock(&h->lock);
	if (h->rank) {
		if (!h->result_sent)
			hosts_send(&h->peers[0], &nothing, NULL);
		hosts_send(&h->peers[0], &done, NULL);
		/* rank 0 waits for the slowest, which may take any time, but not after a stop */
		hosts_begin_wait(h, HOSTS_ALL_BARRIERS);
		while (!h->ended && h->peers[0].fd >= 0 &&
		       (!h->stopping || h->peers[0].out.len || clock_ns() < h->stop_ns + END_NS))
			hosts_wait(h, clock_ns() + END_NS);
		status = h->ended ? h->status : status ? status : 1;
	} else {
		status = collect_statuses(h, status);
		flush_all(h);
	}
	pthread_mutex_unlock(&h->lock);
	hosts_disconnect(h);
	h->size = 1;
	return status;
}
