/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_FLOWKIT_H
#define PENSTOCK_TESTS_FLOWKIT_H

/* A flow with its places for a test, and small words for chains. */
#include "load/object/content.h"
#include "load/object/flow.h"
#include "tests/common/t.h"

enum { FK_DONE = 4096, FK_PLACES = 8 };

extern const char *fk_engine;
extern bool fk_gpu; /* there is device memory */
extern struct flow *fk_flow;
extern struct place *fk_place[FK_PLACES];
extern struct flow_opts fk_opts; /* changed before fk_open() */

/* Of the operations that ended, by tag; ends in order. */
extern struct flow_done fk_done[FK_DONE];
extern unsigned fk_order[FK_DONE]; /* tags */
extern unsigned fk_nr_done;
extern unsigned fk_nr_chains;

void fk_setup(void);
void fk_teardown(void); /* ends what is left */

/* Add a place; the numbers are 0, 1, ...  The path is a name in the test's folder. */
unsigned fk_add(struct place_opts o, const char *name);
unsigned fk_files(const char *name, enum place_layout layout);
unsigned fk_slab(const char *name, uint64_t capacity);
unsigned fk_memory(uint64_t capacity);
unsigned fk_device(uint64_t capacity);
unsigned fk_null(double bytes_per_sec);
/* The flow over all of them. */
void fk_open(void);
void fk_close(void); /* flow and places, which must succeed */
void fk_close_flow(void);

struct flow_op fk_write(unsigned place, uint64_t object, const char *name, uint64_t size);
struct flow_op fk_read(unsigned place, uint64_t object);
struct flow_op fk_move(unsigned place, unsigned to, uint64_t object, uint64_t size);
struct flow_op fk_delete(unsigned place, uint64_t object);
struct flow_op fk_pause(uint64_t ns);
/* Of a read or write only this range. */
struct flow_op fk_range(struct flow_op op, uint64_t offset, uint64_t len);

/* Start a chain; tags of operations are given in the order of fk_start(). Returns the first. */
unsigned fk_start(const struct flow_op *ops, unsigned n);
#define FK_CHAIN(...)                                                       \
	fk_start((const struct flow_op[]){__VA_ARGS__},                     \
		 (unsigned)(sizeof((const struct flow_op[]){__VA_ARGS__}) / \
			    sizeof(struct flow_op)))
/* Takes a result down. */
void fk_on_op(void *arg, const struct flow_done *d);
/* Until no chain runs. */
void fk_wait(void);
/* One operation by itself: its result. */
int64_t fk_do(struct flow_op op);
#define FK_DO(op, want) fk_do_is((op), (int64_t)(want), __FILE__, __LINE__)
void fk_do_is(struct flow_op op, int64_t want, const char *file, int line);
/* What the last operation of fk_do() said. */
const char *fk_error(void);
/* Number of entries of a folder, the marker not counted; -1: there is none. */
int fk_entries(const char *name);

extern const struct t_group fk_moves, fk_orders, fk_ranges;

#endif
