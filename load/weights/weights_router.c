/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which experts a step uses: drawn by Zipf's law for each token and layer, in each layer with other
 * favourites, or from a file with a line for each layer: its number and those of its experts.  A
 * step ends where the number of the layer does not grow.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/weights/weights_job.h"

struct line {
	uint64_t first, nr; /* in the list of all */
};

struct weights_router {
	/* groups by layer and expert; UINT64_MAX: there is none */
	uint64_t *grid;
	uint64_t layers, experts;
	/* zipf */
	struct penstock_random rnd;
	double *sums; /* of weights, by rank */
	uint32_t *favourites;
	uint32_t batch, active;
	uint64_t layer;
	bool *marked;
	uint64_t *sets[2];
	unsigned turn;
	/* a file */
	uint64_t *all;
	uint64_t nr_all, total_capacity;
	struct line *lines;
	uint64_t nr_lines, lines_capacity, at;
	uint64_t steps; /* of all lines */
};

/* "x.layers.3.mlp.experts.17": the first number, and the one behind "experts." */
bool weights_expert_of(const char *name, uint64_t *ret_layer, uint64_t *ret_expert)
{
	const char *mark = strstr(name, "experts."), *digit = name;

	while (digit < mark &&
	       !(isdigit((unsigned char)*digit) && digit > name && digit[-1] == '.'))
		digit++;
	if (!mark || digit >= mark || !isdigit((unsigned char)mark[8]))
		return false;
	*ret_layer = strtoull(digit, NULL, 10);
	*ret_expert = strtoull(mark + 8, NULL, 10);
	return true;
}

static int index_experts(struct weights_router *r, const struct penstock_model *m,
			 const char *model, struct penstock_err *err)
{
	const struct penstock_group *g;
	uint64_t layer, expert;

	for (uint64_t i = 0; (g = penstock_model_get_group(m, i)); i++)
		if (weights_expert_of(g->name, &layer, &expert) && layer < 1 << 20 &&
		    expert < 1 << 20) {
			r->layers = max_u64(r->layers, layer + 1);
			r->experts = max_u64(r->experts, expert + 1);
		}
	if (!r->layers)
		return penstock_fail(err, -EINVAL,
				     "%s: has no group with a layer and an expert, as "
				     "'layers.3.experts.17'",
				     model);
	r->grid = reallocarray(NULL, r->layers * r->experts, sizeof(*r->grid));
	if (!r->grid)
		return penstock_fail(err, -ENOMEM, "out of memory");
	memset(r->grid, 0xff, r->layers * r->experts * sizeof(*r->grid));
	for (uint64_t i = 0; (g = penstock_model_get_group(m, i)); i++)
		if (weights_expert_of(g->name, &layer, &expert) && layer < r->layers &&
		    expert < r->experts)
			r->grid[layer * r->experts + expert] = i;
	return 0;
}

/* --------------------------------------------------------------------- zipf */

static int zipf_make(struct weights_router *r, struct penstock_err *err)
{
	double sum = 0;

	r->sums = calloc(r->experts, sizeof(*r->sums));
	r->favourites = calloc(r->layers * r->experts, sizeof(*r->favourites));
	r->marked = calloc(r->experts, sizeof(*r->marked));
	for (unsigned i = 0; i < 2; i++)
		r->sets[i] = calloc(r->experts, sizeof(**r->sets));
	if (!r->sums || !r->favourites || !r->marked || !r->sets[0] || !r->sets[1])
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (uint64_t e = 0; e < r->experts; e++)
		r->sums[e] = sum += 1 / (double)(e + 1);
	for (uint64_t l = 0; l < r->layers; l++) {
		uint32_t *f = r->favourites + l * r->experts;

		for (uint32_t e = 0; e < r->experts; e++) {
			uint64_t k = penstock_random_below(&r->rnd, e + 1);

			f[e] = f[k];
			f[k] = e;
		}
	}
	return 0;
}

static uint32_t zipf_rank(struct weights_router *r)
{
	double u =
		(double)(penstock_random_next(&r->rnd) >> 11) * 0x1p-53 * r->sums[r->experts - 1];
	uint32_t low = 0, high = (uint32_t)r->experts - 1;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (r->sums[mid] > u)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* The experts of one token: different ones. */
static void draw_token(struct weights_router *r, const uint32_t *favourites)
{
	uint32_t own[64], nr = 0;

	while (nr < min_u64(r->active, min_u64(r->experts, ARRAY_SIZE(own)))) {
		uint32_t e = favourites[zipf_rank(r)], i = 0;

		while (i < nr && own[i] != e)
			i++;
		if (i == nr)
			own[nr++] = e;
	}
	while (nr > 0)
		r->marked[own[--nr]] = true;
}

static uint64_t zipf_next(struct weights_router *r, const uint64_t **ret)
{
	uint64_t *set = r->sets[r->turn++ % 2], nr = 0;
	const uint64_t *row = r->grid + r->layer * r->experts;

	memset(r->marked, 0, r->experts * sizeof(*r->marked));
	for (uint32_t t = 0; t < r->batch; t++)
		draw_token(r, r->favourites + r->layer * r->experts);
	for (uint64_t e = 0; e < r->experts; e++)
		if (r->marked[e] && row[e] != UINT64_MAX)
			set[nr++] = row[e];
	r->layer = (r->layer + 1) % r->layers;
	*ret = set;
	return nr;
}

/* --------------------------------------------------------------------- file */

static int file_line(struct weights_router *r, char *text, uint64_t nr, const char *path,
		     uint64_t *before, struct penstock_err *err)
{
	struct line line = {.first = r->nr_all};
	char *end, *at = text;
	uint64_t layer = strtoull(at, &end, 10);

	if (end == at && !text[strspn(text, " \t\r\n")])
		return 0;
	if (end == at || layer >= r->layers)
		return penstock_fail(err, -EINVAL,
				     "%s: line %" PRIu64
				     ": begins with no layer of the model's %" PRIu64,
				     path, nr, r->layers);
	for (at = end;; at = end) {
		uint64_t e = strtoull(at, &end, 10);

		if (end == at)
			break;
		if (e >= r->experts || r->grid[layer * r->experts + e] == UINT64_MAX)
			return penstock_fail(err, -EINVAL,
					     "%s: line %" PRIu64 ": layer %" PRIu64
					     " has no expert %" PRIu64,
					     path, nr, layer, e);
		if (ARRAY_RESERVE(r->all, r->total_capacity, r->nr_all + 1) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		r->all[r->nr_all++] = r->grid[layer * r->experts + e];
		line.nr++;
	}
	if (at[strspn(at, " \t\r\n")] || !line.nr)
		return penstock_fail(err, -EINVAL,
				     "%s: line %" PRIu64
				     ": a layer and its experts, as numbers, are due",
				     path, nr);
	if (ARRAY_RESERVE(r->lines, r->lines_capacity, r->nr_lines + 1) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (!r->nr_lines || layer <= *before)
		r->steps++;
	*before = layer;
	r->lines[r->nr_lines++] = line;
	return 0;
}

static int file_read(struct weights_router *r, const char *path, struct penstock_err *err)
{
	FILE *f = fopen(path, "re");
	CLEANUP_FREE char *text = NULL;
	uint64_t before = 0, nr = 0;
	size_t capacity = 0;
	int res = 0;

	if (!f)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	while (res == 0 && getline(&text, &capacity, f) >= 0)
		res = file_line(r, text, ++nr, path, &before, err);
	fclose(f);
	if (res == 0 && !r->nr_lines)
		return penstock_fail(err, -EINVAL, "%s: has no line with a layer and its experts",
				     path);
	return res;
}

/* --------------------------------------------------------------------- both */

int weights_router_open(struct weights_router **out, const struct weights_job *job,
			const struct penstock_model *m, const struct weights_shape *shape,
			struct penstock_err *err)
{
	struct weights_router *r = calloc(1, sizeof(*r));
	int res;

	if (!r)
		return penstock_fail(err, -ENOMEM, "out of memory");
	penstock_random_seed(&r->rnd, job->seed);
	r->batch = job->batch;
	r->active = job->active ? job->active : shape && shape->active ? shape->active : 2;
	res = index_experts(r, m, job->model, err);
	if (res == 0 && job->active > r->experts)
		res = penstock_fail(err, -EINVAL,
				    "--active: %" PRIu32 ", and a layer has %" PRIu64 " experts",
				    job->active, r->experts);
	if (res == 0)
		res = !strcmp(job->experts, "zipf") ? zipf_make(r, err)
						    : file_read(r, job->experts, err);
	if (res < 0)
		weights_router_close(r);
	else
		*out = r;
	return res;
}

void weights_router_close(struct weights_router *r)
{
	if (!r)
		return;
	free(r->grid);
	free(r->sums);
	free(r->favourites);
	free(r->marked);
	free(r->sets[0]);
	free(r->sets[1]);
	free(r->all);
	free(r->lines);
	free(r);
}

uint64_t weights_router_next(struct weights_router *r, const uint64_t **ret)
{
	const struct line *l;

	if (r->sums)
		return zipf_next(r, ret);
	l = &r->lines[r->at++ % r->nr_lines];
	*ret = r->all + l->first;
	return l->nr;
}

double weights_router_share(const struct weights_router *r)
{
	return r->sums ? 1 / (double)r->layers : (double)r->steps / (double)r->nr_lines;
}
