/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_LOAD_WEIGHTS_RUN_H
#define PENSTOCK_LOAD_WEIGHTS_RUN_H

/* A job of weights through a window while it runs: between weights_run.c and weights_turns.c. */
#include "load/bed/bed_file.h"
#include "load/bed/buffers.h"
#include "load/measure/limit.h"
#include "load/weights/weights_job.h"

enum {
	WEIGHTS_TURNS = 2 * LIMIT_CONFIGS,
	WEIGHTS_LIMIT_BUFFER = 64 << 20,
};

struct weights_turn {
	uint64_t first, nr; /* groups, around the model */
};

struct weights_run {
	const struct weights_job *job;
	struct weights_result *res;
	struct penstock_io *io;
	struct bed_folder folder;
	struct bed_file file; /* of a shape */
	struct penstock_model *m;
	struct weights_files files;
	void *window;
	struct limit limit;
	struct bed_buffers limit_buffers;
	struct weights_router *router;
	struct weights_turn turns[WEIGHTS_TURNS];
	unsigned nr_turns;
	double planned_sec;         /* that the turns so far were meant to take */
	struct penstock_stats warm; /* of the handle, before the first turn */
	uint64_t last_ns;           /* when the group before was there */
	uint64_t counted;           /* of experts: bytes read */
};

/* The window is used as the turns will, and nothing is counted.  0 or -errno. */
int weights_warm_up(struct weights_run *run, struct penstock_err *err);
/* All turns, and tries of the limit between them: @run->res has what was measured.  0 or -errno. */
int weights_turns(struct weights_run *run, struct penstock_err *err);

#endif
