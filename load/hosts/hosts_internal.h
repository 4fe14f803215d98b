/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_HOSTS_HOSTS_INTERNAL_H
#define PENSTOCK_HOSTS_HOSTS_INTERNAL_H

/* What the files of this folder share. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "load/hosts/hosts.h"

#define HOSTS_NAME 96

/*
 * Each rank gives a sign of life to those it is connected with, and to its supervisor.  Who has
 * said nothing for so many of one's own is lost: so a machine that stood still for a while takes
 * nobody for lost but itself.  The supervisor is the first to give up and ends the process, so that
 * nothing is left behind when the launcher ends; the others are for hosts that hang as a whole.
 */
#define HOSTS_HEARTBEAT_NS      1000000000u
#define HOSTS_PEER_MISSED       10
#define HOSTS_SUPERVISOR_MISSED 7

/* That rank 0 waits for all to come; until then it has no word for those that are there. */
#define HOSTS_CONNECT_NS 60000000000u

/*
 * A rank that lives and does not come to where others wait for it is slow, or its storage does not
 * answer.  It says with its signs of life for how long nothing of its own has moved: so long, and
 * waited for as long, it is lost.  PENSTOCK_RANK_TIMEOUT changes it, and is then also for a rank
 * that cannot tell.
 */
#define HOSTS_STALL_NS 60000000000u
#define HOSTS_REPORT_WAIT_NS \
	10000000000u /* that others are waited for is said first, and then seldom */

#define HOSTS_ALL_BARRIERS INT64_MAX

#define HOSTS_QUIT 'q'

#define HOSTS_STOP_NS   4000000000u  /* that rank 0 waits for others after a stop */
#define HOSTS_ORPHAN_NS 60000000000u /* after a stop, when all others are gone */

enum message {
	MESSAGE_BROADCAST = 1,
	MESSAGE_PING,  /* a: rank 0's clock */
	MESSAGE_PONG,  /* a: the same; b: the rank's clock */
	MESSAGE_CLOCK, /* a: wall_ns, b: offset_ns; text: error_ns */
	MESSAGE_READY, /* a: number of barriers that were reached */
	MESSAGE_GO,    /* a: number of the barrier, b: when, by the rank's clock */
	MESSAGE_STOP,
	MESSAGE_RESULT,    /* text: for rank 0 */
	MESSAGE_DONE,      /* to rank 0: a: status */
	MESSAGE_END,       /* a: status */
	MESSAGE_HEARTBEAT, /* a sign of life; a: rank_progress_stalled_ns(), b: barriers that were
			 reached */
};

struct header {
	uint32_t type, rank;
	uint64_t a;
	int64_t b;
	uint64_t len; /* of the text behind it */
};

/* Bytes that wait to be sent. */
struct outgoing {
	char *data;
	size_t len, sent, capacity;
};

/* A message of which so many bytes are there; its text is of one byte more, a zero. */
struct incoming {
	struct header head;
	char *text;
	size_t got;
};

/* One of the others, as rank 0 sees it; the others have only rank 0. */
struct peer {
	int fd; /* -1: lost, or not there yet */
	struct outgoing out;
	struct incoming in;
	char name[HOSTS_NAME];
	char lost[HOSTS_NAME];
	uint64_t ready;
	char *result;
	bool done;
	int status;
	unsigned missed;     /* of our beats, since the last word of it */
	bool connected;      /* it has sent something */
	uint64_t stalled_ns; /* as it says; RANK_PROGRESS_NONE: it does not */
	unsigned pongs;
	uint64_t pong_a;
	int64_t pong_b;
	uint64_t pong_at;
	struct hosts_clock clock;
};

struct hosts {
	unsigned rank, size;
	uint64_t random;
	struct peer *peers; /* one per rank; others than rank 0 use the first */
	hosts_notify *notify;
	pthread_t thread;
	bool running;
	int supervisor_fd; /* a pipe that ends with the process the launcher knows */
	int heartbeat_fd;  /* a pipe to that process: that this one lives */
	int wake[2];       /* a pipe that wakes up the thread, or ends it with HOSTS_QUIT */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* by CLOCK_MONOTONIC */
	/* under the lock */
	uint64_t barriers; /* that this rank has reached */
	uint64_t go, go_ns;
	char *broadcast;
	size_t broadcast_len;
	bool result_sent; /* what this rank had to say */
	bool stopping, ended;
	uint64_t stop_ns;
	uint64_t stall_limit_ns; /* that one waits for those that are behind; 0: any time */
	bool stall_limit_given;  /* for those that cannot tell how far they are, too */
	uint64_t wait_start_ns;  /* since when; 0: it does not */
	uint64_t wait_barrier;   /* that others have reached so many barriers */
	uint64_t report_wait_ns; /* so long, and the user is told */
	int status;
	struct hosts_clock clock;
};

extern struct hosts hosts_run;

/* ---- hosts_connect.c ---- */
int hosts_connect(struct hosts *h, struct penstock_err *err);

/* ---- hosts_supervisor.c ---- */
/* Go on in a child: 0 in there; the parent never returns.  It stops with @launcher, if not 0. */
int hosts_supervise(struct hosts *h, pid_t launcher, struct penstock_err *err);

/* ---- hosts_message.c, with the lock held ---- */
/*
 * Never waits: what the connection does not take now is sent by the thread.  False: the peer is
 * gone, which the thread will find, too.
 */
bool hosts_send(struct peer *p, const struct header *head, const void *text);
void hosts_flush(struct peer *p);
/* 1: a whole message is there; 0: not yet; -1: the connection ended. */
int hosts_receive_message(struct peer *p);
void hosts_free_message(struct peer *p); /* make room for the next */
void hosts_close_peer(struct peer *p);   /* close it */
/* Receive exactly @len bytes, without the lock: of a connection that nobody else has yet. */
bool hosts_receive_bytes(int fd, void *data, size_t len);

/* ---- hosts_thread.c ---- */
int hosts_start_thread(struct hosts *h, struct penstock_err *err); /* start the thread */
void hosts_disconnect(struct hosts *h);
/* From any thread: it is lost, @why. */
void hosts_give_up(struct hosts *h, struct peer *p, const char *why);
/* With the lock held: wait until woken, or @until_ns (0: for ever); false: it is past that. */
bool hosts_wait(struct hosts *h, uint64_t until_ns);
/* With the lock held: others are waited for, until they have reached so many barriers. */
void hosts_begin_wait(struct hosts *h, uint64_t barriers);
/* With the lock held: ask everybody to stop. */
void hosts_stop(struct hosts *h);

/* ---- hosts_collective.c ---- */
/*
 * Before others who may run get their turn, where that is permitted: those who begin first have
 * work to do, and all others would wake up when that leaves them a processor.  For threads that
 * do nearly nothing.  True: this thread was as *@policy and *@old say before.
 */
bool hosts_raise_priority(int *policy, struct sched_param *old);

/* ---- hosts_clock.c ---- */
/* Rank 0: how far the others' clocks are off, and tell them. */
void hosts_set_clocks(struct hosts *h);
/* Rank 0, again at the end: what drifted makes the bound wider. */
void hosts_check_clocks(struct hosts *h);

#endif
