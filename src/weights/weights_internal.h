/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_WEIGHTS_INTERNAL_H
#define PENSTOCK_WEIGHTS_INTERNAL_H

/*
 * A window of weights from inside.  The schedule says which groups are used next.  Groups get space
 * in the window in that order, and are read in that order.  Everything is under the window's lock,
 * which is not held while something is submitted.
 */
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <penstock/weights.h>

#include "weights/model.h"

enum {
	WEIGHTS_READ = 4 << 20,              /* bytes of a read, at most */
	WEIGHTS_BYTES_IN_FLIGHT = 128 << 20, /* a request waits for no more bytes than these */
	WEIGHTS_READS = 512,                 /* the same in reads, where they are small */
	WEIGHTS_BATCH = 16,                  /* reads that are submitted together */
};

enum weights_state {
	WEIGHTS_ABSENT,  /* not in the window */
	WEIGHTS_LOADING, /* has space, and reads to be made or on their way */
	WEIGHTS_READY,
	WEIGHTS_FAILED,
	WEIGHTS_DROPPED, /* given up; its space is freed when its reads are done */
};

/* A stretch of a file, whole pages, that lies in the window in one piece, too. */
struct weights_range {
	uint32_t file;
	uint64_t offset, len;
	uint64_t first; /* where its first weight begins */
	uint64_t end;   /* where its last weight ends: the file must be as long */
	uint64_t at;    /* in the group's space */
};

struct weights_group {
	struct weights_range *ranges;
	uint64_t nr_ranges;
	uint64_t window_bytes; /* space that it takes in the window */
	enum weights_state state;
	uint32_t held;      /* times that it was given and not yet released */
	uint64_t scheduled; /* times that it is among the placed groups of the schedule */
	bool hinted;        /* read by a hint and not used since */
	bool delivered;     /* to the caller, since it was read */
	uint64_t at;        /* in the window */
	struct weights_group *prev, *next;   /* neighbors in the window */
	struct weights_group *older, *newer; /* by use */
	uint64_t next_range, next_pos;       /* what is read next: a range, and where in it */
	uint64_t in_flight;                  /* reads and copies that are not over */
	int code;                            /* the first failure, and its words; NULL: no memory */
	char *msg;
	uint64_t read_done_ns; /* when the last of it was read */
};

struct weights_read {
	struct penstock_weights *w;
	struct weights_group *g;
	uint32_t file;
	uint64_t offset, len;
	uint64_t need; /* bytes that there must be */
	char *to;
	char *bounce; /* memory that it passes through on its way to a device */
	struct weights_read *next;
};

struct weights_file {
	struct penstock_file *file; /* NULL: there are too many, it is opened when it is used */
	const char *path;
};

struct penstock_weights {
	struct penstock_io *io;
	const struct penstock_model *m;
	struct penstock_weights_opts o;
	pid_t pid;
	struct weights_file *files;
	struct weights_range *ranges;
	struct weights_group *groups;
	uint64_t nr_groups;
	uint64_t *at;  /* of each weight, its offset in the space of its group */
	uint64_t page; /* bytes that offsets and addresses agree modulo */

	char *window;
	uint64_t window_len;   /* for groups */
	uint64_t window_taken; /* by the groups that are placed */
	void *allocated;       /* the memory, if it is not the caller's */
	bool device, registered, pinned;
	char *fence_buf; /* device memory that fences copy */
	char *bounce_bufs;
	uint32_t nr_bounce_bufs;

	pthread_mutex_t lock;
	pthread_cond_t wakeup;
	bool closing;
	unsigned busy; /* callbacks and calls that use the window */

	struct weights_group window_ends;  /* of the window: before the first and behind the last */
	struct weights_group *last_placed; /* the group that got space last */
	struct weights_group lru;          /* head of a circular list by use, the oldest first */
	uint64_t nr_dropped, fences;

	uint64_t *requested; /* the schedule: groups requested, then the order from @next_in_order
				on */
	uint64_t nr_requested, requested_at, requested_capacity;
	uint64_t next_in_order;
	uint64_t nr_placed,
		nr_submitted; /* groups of it that have space, whose reads are all submitted */
	uint64_t *hints;
	uint64_t nr_hints, hints_at, hints_capacity;

	struct weights_read reads[WEIGHTS_READS];
	struct weights_read *free;
	uint64_t bytes_in_flight;
	uint64_t reading, copying, reads_in_flight;
	uint64_t reading_since, copying_since, idle_since;
	struct penstock_weights_stats stats;
};

/* schedule.c: what comes next. */
uint64_t schedule_len(const struct penstock_weights *w);
struct weights_group *schedule_at(const struct penstock_weights *w, uint64_t k);
int schedule_append(struct penstock_weights *w, const uint64_t *groups, uint64_t n);
/* Groups keep their space but may be evicted, until schedule_place_groups() comes to them again. */
void schedule_rewind(struct penstock_weights *w);
void schedule_pop(struct penstock_weights *w);
/* Place groups of the schedule in the window, as many as have space. */
void schedule_place_groups(struct penstock_weights *w);
/* The group whose reads are to be made; NULL: none. */
struct weights_group *schedule_next_to_read(struct penstock_weights *w);

/* placement.c: which group is where in the window. */
void placement_init(struct penstock_weights *w);
/* Throws out what nobody needs; @hint: not for what was hinted at, either. */
bool place_group(struct penstock_weights *w, struct weights_group *g, bool hint);
void placement_touch(struct penstock_weights *w, struct weights_group *g);
/* The group is not needed any more: now, or when its reads are back. */
void placement_drop(struct penstock_weights *w, struct weights_group *g);

/* weights_read.c: the reads. */
void weights_submit_reads(struct penstock_weights *w);
int weights_submit_fence(struct penstock_weights *w, struct weights_group *g, void *stream,
			 struct penstock_err *err);
void weights_release_group(struct penstock_weights *w, struct weights_group *g);

#endif
