/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_LOAD_WEIGHTS_JOB_H
#define PENSTOCK_LOAD_WEIGHTS_JOB_H

/*
 * Weights streamed as by a program that runs a model larger than memory: `penstock weights'.  No
 * model is run: groups are waited for, held for the time that computing would take, and released.
 *
 * The work is done in turns, between which plain threads find out what the device can do.  A turn
 * is a list of groups with an end, so that nothing is read in its time but what is counted.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/probe.h>
#include <penstock/weights.h>

#include "load/measure/page_cache.h"
#include "load/measure/series.h"

extern const char *const weights_by_words[]; /* of enum penstock_model_by */

/* A model that is known by its shape.  Numbers are parameters. */
struct weights_shape {
	const char *name;
	uint32_t bits; /* of a parameter, as it is published */
	uint32_t layers;
	uint32_t dense;       /* of these, the first so many have no experts */
	uint64_t attention;   /* of a layer, norms included */
	uint64_t mlp;         /* of a layer without experts */
	uint32_t experts;     /* of a layer with them */
	uint32_t active;      /* of these for a token */
	uint64_t expert;      /* each */
	uint64_t shared;      /* of a layer with experts: gate and what all tokens use */
	uint64_t embed, head; /* before and behind the layers */
};
extern const struct weights_shape weights_shapes[]; /* ends with one without a name */
const struct weights_shape *weights_shape_find(const char *name);

struct weights_job {
	const char *model;  /* a file, a folder, or the name of a shape */
	const char *folder; /* of a shape: where its file is made, ... */
	uint64_t size;      /* ... of so many bytes */
	uint32_t bits;      /* of a shape: of a parameter; 0: as published */
	uint32_t by;        /* enum penstock_model_by */
	uint64_t window;
	uint32_t batch;
	double compute_ms;   /* of a group */
	double sec;          /* of all turns */
	const char *experts; /* NULL, "zipf", or a file of layers and experts */
	uint32_t active;     /* of a token and layer, with zipf; 0: as the shape says, or 2 */
	bool ahead;          /* hint at the experts of the next layer */
	uint64_t seed;
	bool gpu;
	uint32_t device;
	struct penstock_opts opts;
	uint64_t limit; /* bytes per second; 0: not given */
	bool measure_limit;
	const atomic_int *stop;
	void (*progress)(void *arg, uint64_t done, uint64_t total); /* optional: milliseconds */
	void *arg;
};

/* What is known before anything is read. */
struct weights_plan {
	const struct weights_shape *shape; /* NULL: a model on disk */
	uint64_t bytes;                    /* of the model */
	uint64_t groups, weights, largest; /* bytes of the largest group */
	uint64_t expert_groups, expert_bytes;
	uint64_t file_bytes; /* of a shape: what is made, and read again and again */
};

struct weights_result {
	struct weights_plan plan;
	struct run_series series; /* an operation is a group; latency: since the one before */
	bool ran;
	struct penstock_weights_stats stats; /* of all turns */
	double compute_sec;
	double ideal_sec; /* the same turns, by a device at the limit and a caller that waits */
	double bound;     /* tokens per second, of the limit; 0: it is not known */
	double tokens;    /* per second, measured */
	double steps;     /* of all tokens of a batch: passes over the model */
	int64_t cached;   /* bytes of the files that the page cache holds afterwards; or -errno */
	uint64_t made;    /* bytes written for a shape */
	struct penstock_path_info path;
};

/* The window as asked for, or what suits the largest group. */
int weights_make_plan(struct weights_job *job, struct weights_plan *plan, struct penstock_err *err);
/* 0 or -errno; what was measured up to there is in @res.  weights_result_fini() is due. */
int weights_run(const struct weights_job *job, struct weights_result *res,
		struct penstock_err *err);
void weights_result_fini(struct weights_result *res);

/* Tokens per second at most: every byte is read once for each step of the batch. */
static inline double weights_bound(double batch, double bytes_per_sec, double model_bytes)
{
	return model_bytes > 0 ? batch * bytes_per_sec / model_bytes : 0;
}

/* ------------------------------------------------------ between its files */

/* The model of a job: on disk, or of a shape in the file @path of @len bytes. */
int weights_model(struct penstock_model **out, struct penstock_io *io,
		  const struct weights_job *job, const char *path, uint64_t len,
		  struct penstock_err *err);

/* Its files, each once. */
struct weights_files {
	char **paths; /* without links */
	uint64_t *lens;
	uint64_t nr, largest;
	struct page_cache_facts facts;
};
int weights_files_find(struct weights_files *f, const struct penstock_model *m,
		       struct penstock_err *err);
/* They are whole, and out of the page cache as far as that can be: 0 or -EINVAL. */
int weights_files_check(struct weights_files *f, struct penstock_s3 *s3, struct penstock_err *err);
/* Bytes of them in the page cache, or -errno. */
int64_t weights_files_resident(const struct weights_files *f);
void weights_files_fini(struct weights_files *f);

/* Which experts are used: sets of groups, layer by layer. */
struct weights_router;
int weights_router_open(struct weights_router **out, const struct weights_job *job,
			const struct penstock_model *m, const struct weights_shape *shape,
			struct penstock_err *err);
void weights_router_close(struct weights_router *r);
/* The next set; *@ret lives until the next but one call. */
uint64_t weights_router_next(struct weights_router *r, const uint64_t **ret);
/* Of a step, the part that a set is. */
double weights_router_share(const struct weights_router *r);
/* Layer and expert of a group by its name; false: it is none. */
bool weights_expert_of(const char *name, uint64_t *ret_layer, uint64_t *ret_expert);

#endif
