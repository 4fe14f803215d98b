/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPLAY_REPLAY_INTERNAL_H
#define PENSTOCK_REPLAY_REPLAY_INTERNAL_H

/*
 * The inside of a replay.
 *
 *	replay.c	the run
 *	replay_count.c	completions become results
 *	replay_keys.c	objects that exist
 *	replay_map.c	tiers, targets, places
 *	replay_open.c	opening and closing
 *	replay_pace.c	when rows are due, lag
 *	replay_part.c	rows that are this part's
 *	replay_row.c	rows become chains of the flow
 *	replay_scan.c	the pass before
 *	replay_store.c	rows at a KV store, which has its own will
 */
#include <sys/resource.h>

#include "load/replay/replay.h"
#include "load/replay/replay_keys.h"

/* ---- replay_map.c */
struct replay_map {
	struct place_opts opts[REPLAY_PLACES];
	const char *paths[REPLAY_PLACES]; /* of the first folder of each; NULL: none */
	unsigned nr;
	struct {
		unsigned first, nr;
	} tiers[REPLAY_TIERS]; /* places of each; nr 0: not used */
};
int replay_map_make(struct replay_map *m, const struct replay_job *job, struct penstock_err *err);
/* Capacities and units from what the trace needs. */
int replay_map_size(struct replay_map *m, const struct replay_job *job,
		    const struct replay_scan *scan, struct penstock_err *err);
/* -EINVAL: one of the places cannot do what such a trace asks for. */
int replay_map_suits(const struct replay_map *m, enum trace_format format,
		     const struct replay_job *job, struct penstock_err *err);
/* What an object of @size takes of @place. */
uint64_t replay_charge(const struct replay_map *m, unsigned place, uint64_t size);
/* Is the row, from @line of the trace, one that storage could hold?  0 or -EINVAL. */
int replay_row_check(const struct replay_job *job, const struct trace_row *row, uint64_t line,
		     struct penstock_err *err);

/* A row of the trace, with the object and the place that it is for. */
struct replay_row {
	enum replay_passed passed; /* REPLAY_PASSED: it is used */
	unsigned tier, place;
	struct replay_id id;
	const char *key; /* as far as objects go: the row's, or one made up */
	uint32_t key_len;
	char key_buf[40];
};
/* @w->key may point into @row and @w itself. */
void replay_row_resolve(struct replay_row *w, const struct replay_map *m,
			const struct trace_row *row);

/* ---- replay_part.c */
/* Is row @number of the trace, from 0, for this part to do?  What belongs together is together. */
bool replay_owns(const struct replay_job *job, const struct trace_row *row, uint64_t number);

/* ---- replay_scan.c */
/* An object that is read while it does not exist.  0, or -errno which ends the pass. */
typedef int replay_initial(void *arg, const struct replay_row *w, uint64_t size);
int replay_find_initial(const struct replay_job *job, replay_initial *found, void *arg,
			struct penstock_err *err);

/* ---- replay.c */

/* An operation in flight. */
struct replay_op {
	struct replay_id id;
	uint64_t number, size;
	uint64_t due_ns, start_ns;
	uint32_t next; /* unused */
	uint8_t op, tier, phase, place;
	bool measured, hit;
	bool at_store; /* a store, which says itself what it has */
};

/* What an operation of a chain is for: in the low bits of its tag. */
enum { REPLAY_ROLE_MAIN, REPLAY_ROLE_MAKE, REPLAY_ROLE_DROP, REPLAY_ROLE_LEAVE, REPLAY_ROLES };

struct replay {
	const struct replay_job *job;
	const struct replay_scan *scan;
	struct replay_result *r;
	struct replay_map map;
	struct place *places[REPLAY_PLACES];
	struct flow *flow;
	struct replay_keys keys;
	uint64_t used[REPLAY_PLACES]; /* as started */
	struct trace_reader *source;
	struct replay_pace pace;
	uint64_t rows_read; /* rows, those of other parts, too */
	struct replay_op *ops;
	uint32_t unused, in_flight; /* of ops; index + 1 */
	struct flow_op *chain;
	unsigned nr_chain, chain_capacity;
	bool ranges; /* a fio log: parts of files that are there from the beginning */
	bool measuring;
	bool absent; /* REPLAY_FAIL: what is under way ends, then it fails; p->err says why */
	uint64_t begin_ns, last_end_ns, tick_sec, next_report_ns;
	struct rusage before;
	uint64_t library_ns;
	int8_t series_at[REPLAY_TIERS][2][TRACE_PHASES]; /* index + 1 */
	int16_t class_at[REPLAY_TIERS][TRACE_DELETE + 1][TRACE_PHASES][REPLAY_SIZES];
	int failed; /* -errno: it cannot go on */
	struct penstock_err err;
};

int replay_fail(struct replay *p, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

bool replay_stopped(const struct replay *p);
/* Wait until no more than @most operations are in flight.  0 or -errno: it cannot go on. */
int replay_drain(struct replay *p, uint32_t most);

/* ---- replay_open.c */
int replay_open(struct replay *p, struct penstock_err *err);
int replay_close(struct replay *p, struct penstock_err *err);

/* ---- replay_row.c */
/* There is room for one more operation. */
int replay_start_row(struct replay *p, const struct trace_row *row, uint64_t due_ns);
/* An object that is to be there before the first row. */
int replay_start_fill(struct replay *p, const struct replay_row *w, uint64_t size);

/* The chain of a row, to be handed over. */
int replay_chain_of(struct replay *p, const struct flow_op *ops, unsigned nr);

/* ---- replay_store.c */
bool replay_at_store(const struct replay *p, unsigned place);
int replay_store_row(struct replay *p, struct replay_op *op, const struct replay_row *w,
		     const struct trace_row *row);
int replay_store_fill(struct replay *p, struct replay_op *op, const struct replay_row *w,
		      uint64_t size);
/* What the store said.  True: there is nothing more to count, nothing was moved. */
bool replay_store_result(struct replay *p, struct replay_op *op, unsigned role,
			 const struct flow_done *d);

/* ---- replay_count.c */
void replay_count_done(struct replay *p, const struct flow_done *d);
/* A row is started, perhaps for nothing: of a read, @op->hit. */
void replay_count_start(struct replay *p, const struct replay_op *op, uint64_t now_ns);
void replay_count_hit(struct replay *p, const struct replay_op *op, uint64_t at_ns);
void replay_count_created(struct replay *p, uint64_t bytes);
void replay_count_seconds(struct replay *p, uint64_t now_ns); /* those that are over */
void replay_count_end(struct replay *p, uint64_t end_ns);

#endif
