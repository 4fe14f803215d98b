/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages.  A thread that sleeps in poll() receives all of them and notes what they say under the
 * lock; while a run is measured there are signs of life only, one in a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/hosts/hosts_internal.h"
#include "load/measure/rank_barrier.h"

bool hosts_wait(struct hosts *h, uint64_t until_ns)
{
	const struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u),
				   .tv_nsec = (long)(until_ns % 1000000000u)};

	if (!until_ns)
		return pthread_cond_wait(&h->changed, &h->lock) == 0;
	return pthread_cond_timedwait(&h->changed, &h->lock, &t) == 0;
}

void hosts_begin_wait(struct hosts *h, uint64_t barriers)
{
	h->wait_start_ns = clock_ns();
	h->wait_barrier = barriers;
	h->report_wait_ns = HOSTS_REPORT_WAIT_NS;
}

void hosts_stop(struct hosts *h)
{
	const struct header stop = {.type = MESSAGE_STOP, .rank = h->rank};

	if (!h->stopping)
		h->stop_ns = clock_ns();
	if (h->stopping || h->rank) {
		h->stopping = true;
		return;
	}
	h->stopping = true;
	for (unsigned i = 1; i < h->size; i++)
		hosts_send(&h->peers[i], &stop, NULL);
}

/* ------------------------------------------------------------------- incoming */

/*
 * It is gone, @why; after the end of the run that is as it should be.  One that lives is told, so
 * that it does not take rank 0 for lost.
 */
static void peer_lost(struct hosts *h, struct peer *p, const char *why)
{
	const struct header stop = {.type = MESSAGE_STOP, .rank = h->rank};
	char line[2 * HOSTS_NAME + 16];
	bool report, at_end;

	pthread_mutex_lock(&h->lock);
	if (!h->rank)
		hosts_send(p, &stop, NULL);
	hosts_close_peer(p);
	/* while rank 0 waits for the end of all, what they had to say is safe */
	at_end = !h->rank && h->ended && h->wait_start_ns && !p->done && !h->stopping;
	report = !h->ended && !p->result && !(h->rank && h->stopping);
	if (!*p->lost && report)
		snprintf(p->lost, sizeof(p->lost), "%s", why);
	if (report)
		hosts_stop(h);
	snprintf(line, sizeof(line), "%s is lost: %s", p->name, *p->lost ? p->lost : why);
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	if (report || at_end)
		h->notify(h->rank <= 1 ? line : NULL, report); /* once, if rank 0 is not there */
}

void hosts_give_up(struct hosts *h, struct peer *p, const char *why)
{
	pthread_mutex_lock(&h->lock);
	if (p->fd >= 0) {
		snprintf(p->lost, sizeof(p->lost), "%s", why);
		shutdown(p->fd, SHUT_RDWR); /* the thread does the rest */
	}
	pthread_mutex_unlock(&h->lock);
}

/* With the lock held; @text is taken where it is kept.  True: a stop was asked for. */
static bool handle_message(struct hosts *h, struct peer *p, const struct header *m, char **text)
{
	struct header pong;

	switch ((enum message)m->type) {
	case MESSAGE_BROADCAST:
		h->broadcast = *text;
		h->broadcast_len = m->len;
		*text = NULL;
		break;
	case MESSAGE_PONG:
		p->pongs++;
		p->pong_a = m->a;
		p->pong_b = m->b;
		p->pong_at = clock_ns();
		break;
	case MESSAGE_CLOCK:
		h->clock = (struct hosts_clock){.wall_ns = (int64_t)m->a, .offset_ns = m->b};
		if (m->len == sizeof(h->clock.error_ns))
			memcpy(&h->clock.error_ns, *text, sizeof(h->clock.error_ns));
		break;
	case MESSAGE_READY:
		p->ready = m->a;
		break;
	case MESSAGE_GO:
		h->go = m->a;
		h->go_ns = (uint64_t)m->b;
		break;
	case MESSAGE_RESULT:
		free(p->result);
		p->result = *text;
		*text = NULL;
		break;
	case MESSAGE_DONE:
		p->done = true;
		p->status = (int)m->a;
		break;
	case MESSAGE_END:
		h->ended = true;
		h->status = (int)m->a;
		break;
	case MESSAGE_STOP:
		hosts_stop(h);
		return true;
	case MESSAGE_HEARTBEAT:
		p->stalled_ns = m->a;
		if (h->rank) /* else it says so itself, at once */
			p->ready = (uint64_t)m->b;
		break;
	case MESSAGE_PING:
		pong = (struct header){
			.type = MESSAGE_PONG, .rank = h->rank, .a = m->a, .b = (int64_t)clock_ns()};
		hosts_send(p, &pong, NULL);
		break;
	}
	return false;
}

/* What has come of a message, and what it says when that is all; false: the connection ended. */
static bool receive_message(struct hosts *h, struct peer *p)
{
	bool stop = false;
	int got;

	pthread_mutex_lock(&h->lock);
	got = hosts_receive_message(p);
	if (got > 0) {
		stop = handle_message(h, p, &p->in.head, &p->in.text);
		hosts_free_message(p);
		pthread_cond_broadcast(&h->changed);
	}
	pthread_mutex_unlock(&h->lock);
	if (stop)
		h->notify(NULL, true);
	return got >= 0;
}

/* Send what waits for it. */
static void flush_peer(struct hosts *h, struct peer *p)
{
	pthread_mutex_lock(&h->lock);
	hosts_flush(p);
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

/* The launcher wants an end, and did not ask. */
static void supervisor_lost(struct hosts *h)
{
	pthread_mutex_lock(&h->lock);
	close(h->supervisor_fd);
	h->supervisor_fd = -1;
	hosts_stop(h);
	pthread_cond_broadcast(&h->changed);
	pthread_mutex_unlock(&h->lock);
	h->notify(NULL, true);
}

/* For how many of our beats it may say nothing: rank 0 for more while others are on their way. */
static unsigned allowed_missed(const struct hosts *h, const struct peer *p)
{
	return HOSTS_PEER_MISSED +
	       (h->rank && !p->connected ? HOSTS_CONNECT_NS / HOSTS_HEARTBEAT_NS : 0);
}

/* Tell that we live, and look who does not. */
static void send_heartbeats(struct hosts *h, unsigned nr)
{
	struct header sign = {
		.type = MESSAGE_HEARTBEAT, .rank = h->rank, .a = rank_progress_stalled_ns()};
	char why[64];

	if (h->heartbeat_fd >= 0 && write(h->heartbeat_fd, "", 1) < 0 && errno == EPIPE) {
		close(h->heartbeat_fd); /* the supervisor is gone; that is told elsewhere */
		h->heartbeat_fd = -1;
	}
	pthread_mutex_lock(&h->lock);
	sign.b = h->result_sent ? HOSTS_ALL_BARRIERS : (int64_t)h->barriers;
	for (unsigned i = h->rank ? 0 : 1; i < nr; i++)
		if (!h->peers[i].out.len) /* bytes on their way are a sign themselves */
			hosts_send(&h->peers[i], &sign, NULL);
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = h->rank ? 0 : 1; i < nr; i++) {
		struct peer *p = &h->peers[i];
		unsigned limit = allowed_missed(h, p);

		if (p->fd < 0 || ++p->missed <= limit)
			continue;
		snprintf(why, sizeof(why), "it gives no sign of life for %u s", limit);
		peer_lost(h, p, why);
	}
}

/* With the lock held: does it hold up those who wait? */
static bool is_behind(const struct hosts *h, const struct peer *p)
{
	if (!h->wait_start_ns || p->fd < 0)
		return false;
	return !h->rank && h->ended ? !p->done : !p->result && p->ready < h->wait_barrier;
}

/*
 * With the lock held: is there no hope for it?  Rank 0 knows who is behind; the others have to let
 * it find out first.
 */
static bool is_stalled(const struct hosts *h, const struct peer *p, uint64_t now)
{
	uint64_t limit = h->stall_limit_ns * (h->rank ? 2 : 1);
	bool knows = p->stalled_ns != RANK_PROGRESS_NONE;

	return limit && is_behind(h, p) && now > h->wait_start_ns + limit &&
	       (knows ? p->stalled_ns > limit : h->stall_limit_given);
}

/* Who is waited for, in a line; false: it is not the time for it, or another's to say it. */
static bool format_wait(struct hosts *h, unsigned nr, uint64_t now, char *line, size_t size)
{
	const struct peer *first = NULL;
	unsigned more = 0;
	char others[32] = "", still[64] = "still at work";

	if (h->rank > 1 || h->stopping || !h->wait_start_ns ||
	    now < h->wait_start_ns + h->report_wait_ns)
		return false;
	for (unsigned i = h->rank ? 0 : 1; i < nr; i++) {
		bool behind = is_behind(h, &h->peers[i]);

		more += behind && first;
		first = first || !behind ? first : &h->peers[i];
	}
	h->report_wait_ns *= 2;
	if (!first)
		return false;
	if (more)
		snprintf(others, sizeof(others), " and %u more", more);
	if (first->stalled_ns != RANK_PROGRESS_NONE && first->stalled_ns > h->report_wait_ns / 4)
		snprintf(still, sizeof(still), "nothing of %s has moved for %u s",
			 more ? "the first" : "it", (unsigned)(first->stalled_ns / 1000000000u));
	snprintf(line, size, "%s%s: the others have waited for %u s; %s", first->name, others,
		 (unsigned)((now - h->wait_start_ns) / 1000000000u), still);
	return true;
}

/* Those that live, but do not come to where others are: tell of them, and give them up. */
static void check_stragglers(struct hosts *h, unsigned nr)
{
	uint64_t now = clock_ns();
	char line[2 * HOSTS_NAME + 80];
	bool report;

	pthread_mutex_lock(&h->lock);
	report = format_wait(h, nr, now, line, sizeof(line));
	pthread_mutex_unlock(&h->lock);
	if (report)
		h->notify(line, false);
	for (unsigned i = h->rank ? 0 : 1; i < nr; i++) {
		struct peer *p = &h->peers[i];
		bool gone;

		pthread_mutex_lock(&h->lock);
		gone = is_stalled(h, p, now);
		snprintf(line, sizeof(line),
			 p->stalled_ns == RANK_PROGRESS_NONE
				 ? "the others have waited for it for %u s"
				 : "nothing of it has moved for %u s",
			 (unsigned)(min_u64(p->stalled_ns, now - h->wait_start_ns) / 1000000000u));
		pthread_mutex_unlock(&h->lock);
		if (gone)
			peer_lost(h, p, line);
	}
}

/* All others are gone and this rank cannot stop: nobody waits for it any more. */
static void exit_if_orphan(const struct hosts *h, unsigned nr)
{
	bool alone = h->stopping && !h->ended && clock_ns() > h->stop_ns + HOSTS_ORPHAN_NS;

	for (unsigned i = h->rank ? 0 : 1; i < nr; i++)
		alone = alone && h->peers[i].fd < 0;
	if (!alone)
		return;
	dprintf(STDERR_FILENO, "penstock: rank %u does not stop and is ended\n", h->rank);
	_exit(1);
}

/* Who may have something for us, and who may take what waits for it. */
static void fill_pollfds(struct hosts *h, struct pollfd *p, unsigned nr)
{
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < nr; i++)
		p[i] = (struct pollfd){.fd = i || h->rank ? h->peers[i].fd : -1,
				       .events = h->peers[i].out.len ? POLLIN | POLLOUT : POLLIN};
	pthread_mutex_unlock(&h->lock);
	p[nr] = (struct pollfd){.fd = h->wake[0], .events = POLLIN};
	p[nr + 1] = (struct pollfd){.fd = h->supervisor_fd, .events = POLLIN};
}

/* Something waits to be sent; false: it is the end. */
static bool drain_wake_pipe(const struct hosts *h)
{
	char why[64];
	ssize_t n = read(h->wake[0], why, sizeof(why));

	return n <= 0 || !memchr(why, HOSTS_QUIT, (size_t)n);
}

static void *run_thread(void *arg)
{
	struct hosts *h = arg;
	unsigned nr = h->rank ? 1 : h->size;
	struct pollfd *p = calloc(nr + 2, sizeof(*p));
	uint64_t next = clock_ns();
	struct sched_param was;
	int policy;

	/* this thread brings the moment at which all ranks begin */
	hosts_raise_priority(&policy, &was);
	while (p) {
		uint64_t now = clock_ns();

		if (now >= next) {
			send_heartbeats(h, nr);
			check_stragglers(h, nr);
			exit_if_orphan(h, nr);
			next = now + HOSTS_HEARTBEAT_NS;
		}
		fill_pollfds(h, p, nr);
		if (poll(p, nr + 2, (int)((next - now) / 1000000) + 1) < 0 && errno != EINTR)
			break;
		if (p[nr].revents && !drain_wake_pipe(h))
			break;
		if (p[nr + 1].revents)
			supervisor_lost(h);
		for (unsigned i = 0; i < nr; i++) {
			if (p[i].fd >= 0 && p[i].revents & POLLOUT)
				flush_peer(h, &h->peers[i]);
			if (p[i].fd >= 0 && p[i].revents & ~POLLOUT &&
			    !receive_message(h, &h->peers[i]))
				peer_lost(h, &h->peers[i], "its connection ended");
		}
	}
	free(p);
	return NULL;
}

int hosts_start_thread(struct hosts *h, struct penstock_err *err)
{
	pthread_condattr_t monotonic;
	int r;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (pipe2(h->wake, O_CLOEXEC | O_NONBLOCK) < 0)
		return penstock_fail(err, -errno, "no pipe can be made: %s", strerror(errno));
	r = thread_start(&h->thread, run_thread, h);
	h->running = r == 0;
	return r < 0 ? penstock_fail(err, r, "no thread can be started: %s", strerror(-r)) : 0;
}

void hosts_disconnect(struct hosts *h)
{
	const char quit = HOSTS_QUIT;

	if (!h->running)
		return;
	if (write(h->wake[1], &quit, 1) == 1)
		pthread_join(h->thread, NULL);
	h->running = false;
	for (unsigned i = 0; i < h->size; i++) {
		hosts_close_peer(&h->peers[i]);
		free(h->peers[i].result);
	}
	free(h->peers);
	free(h->broadcast);
	close(h->wake[0]);
	close(h->wake[1]);
	if (h->supervisor_fd >= 0)
		close(h->supervisor_fd);
	if (h->heartbeat_fd >= 0)
		close(h->heartbeat_fd);
}
