/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay needs before its first row, and gives back after the last. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/replay/replay_internal.h"

/* Objects of an earlier run are there from the beginning. */
static int adopt(struct replay *p, unsigned place, unsigned tier, struct penstock_err *err)
{
	struct place_found found;
	struct replay_key *e;
	int r = 0;

	for (uint64_t pos = 0; r == 0 && place_next(p->places[place], &pos, &found);) {
		e = replay_keys_add(&p->keys, replay_id(found.name, found.name_len, tier), place,
				    found.size);
		if (!e)
			return penstock_fail(err, -ENOMEM, "out of memory");
		p->used[place] += replay_charge(&p->map, place, found.size);
		p->r->reused++;
		r = flow_adopt(p->flow, place, e->number, found.name, found.name_len,
			       content_id(found.name, found.name_len), err);
	}
	return r;
}

static int adopt_all(struct replay *p, struct penstock_err *err)
{
	int r = 0;

	for (unsigned t = 0; r == 0 && t < REPLAY_TIERS; t++)
		for (unsigned i = 0; r == 0 && i < p->map.tiers[t].nr; i++)
			r = adopt(p, p->map.tiers[t].first + i, t, err);
	return r;
}

uint32_t replay_max_depth(void)
{
	return flow_max_file_ops();
}

static int open_ops(struct replay *p, struct penstock_err *err)
{
	p->ops = calloc(p->job->depth, sizeof(*p->ops));
	if (!p->ops)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = p->job->depth; i > 0; i--) {
		p->ops[i - 1].next = p->unused;
		p->unused = i;
	}
	return 0;
}

static int open_flow(struct replay *p, struct penstock_err *err)
{
	struct flow_opts o = {.io = p->job->opts,
			      .verify = p->job->verify,
			      .fill = true,
			      .seed = p->job->seed,
			      .nr_places = p->map.nr};
	int r = 0;

	for (unsigned i = 0; r == 0 && i < p->map.nr; i++) {
		r = place_open(&p->places[i], &p->map.opts[i], err);
		o.places[i] = p->places[i];
	}
	return r < 0 ? r : flow_new(&p->flow, &o, err);
}

static void probe_paths(struct replay *p)
{
	struct replay_result *r = p->r;

	for (unsigned i = 0; i < p->map.nr; i++) {
		if (!p->map.paths[i])
			continue;
		r->path[r->nr_paths].size = sizeof(r->path[0]);
		r->path_name[r->nr_paths] = p->map.paths[i];
		penstock_probe_path(p->map.paths[i], &r->path[r->nr_paths++], NULL);
	}
}

static int open_all(struct replay *p, struct penstock_err *err)
{
	int r = replay_map_make(&p->map, p->job, err);

	if (r == 0)
		r = replay_map_size(&p->map, p->job, p->scan, err);
	if (r == 0)
		r = trace_reader_open(&p->source, p->job->trace, &p->job->reader, err);
	if (r < 0)
		return r;
	p->ranges = trace_reader_format(p->source) == TRACE_FIO;
	if ((p->ranges || p->job->prefill) && !p->scan)
		return penstock_fail(
			err, -EINVAL, "%s: has to be read twice for %s; give it as a file",
			p->job->trace, p->ranges ? "the sizes of its files" : "--prefill");
	r = replay_map_suits(&p->map, trace_reader_format(p->source), p->job, err);
	if (r == 0)
		r = open_ops(p, err);
	if (r == 0)
		r = open_flow(p, err);
	if (r == 0)
		r = adopt_all(p, err);
	if (r == 0)
		probe_paths(p);
	return r;
}

/* A run that cannot begin leaves the objects of an earlier one alone. */
int replay_open(struct replay *p, struct penstock_err *err)
{
	int r = open_all(p, err);

	for (unsigned i = 0; r < 0 && i < p->map.nr; i++)
		if (p->places[i])
			place_keep_found(p->places[i]);
	return r;
}

int replay_close(struct replay *p, struct penstock_err *err)
{
	int r = 0, e;

	for (unsigned i = 0; i < p->map.nr && p->places[i]; i++) {
		p->r->objects += place_objects(p->places[i]);
		p->r->used_bytes += place_used(p->places[i]);
	}
	flow_free(p->flow);
	for (unsigned i = 0; i < p->map.nr; i++) {
		e = place_close(p->places[i], r == 0 ? err : NULL);
		r = r < 0 ? r : e;
	}
	trace_reader_close(p->source);
	replay_keys_fini(&p->keys);
	free(p->ops);
	free(p->chain);
	return r;
}
