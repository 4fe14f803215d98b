/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models by their shape, as their configurations are published: bytes and groups are those of the
 * model, and what is read lies in a file that is smaller, in blocks that are used again and again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/weights/weights_job.h"

const char *const weights_by_words[] = {"layer", "expert", "tensor", NULL};

const struct weights_shape weights_shapes[] = {
	{"llama-8b", 16, 32, 32, 41951232, 176160768, 0, 0, 0, 0, 525336576, 525340672},
	{"llama-70b", 16, 80, 80, 151011328, 704643072, 0, 0, 0, 0, 1050673152, 1050681344},
	{"llama-405b", 16, 126, 126, 570458112, 2617245696, 0, 0, 0, 0, 2101346304, 2101362688},
	{"bloom-176b", 16, 70, 70, 822274048, 1644163072, 0, 0, 0, 0, 3596644352, 28672},
	{"mixtral-8x7b", 16, 32, 0, 41951232, 0, 8, 2, 176160768, 32768, 131072000, 131076096},
	{"mixtral-8x22b", 16, 56, 0, 88092672, 0, 8, 2, 301989888, 49152, 196608000, 196614144},
	{"deepseek-v3", 8, 61, 3, 187121664, 396361728, 256, 8, 44040192, 45875456, 926679040,
	 926686208},
	{.name = NULL},
};

const struct weights_shape *weights_shape_find(const char *name)
{
	for (const struct weights_shape *s = weights_shapes; s->name; s++)
		if (!strcasecmp(s->name, name))
			return s;
	return NULL;
}

static uint64_t bytes_of(uint64_t parameters, uint32_t bits)
{
	return parameters * bits / 8;
}

/* A model that is being written down. */
struct model_builder {
	struct penstock_model *m;
	const char *path;
	uint64_t len, at;   /* of the file; where the next block of it begins */
	uint64_t max_group; /* bytes */
	uint32_t bits;
	struct penstock_err *err;
};

/* As many groups as it takes, each of them one stretch of the file. */
static int add_groups(struct model_builder *k, uint64_t parameters, const char *name)
{
	uint64_t bytes = bytes_of(parameters, k->bits);
	uint64_t parts = (bytes + k->max_group - 1) / k->max_group;
	int r = 0;

	for (uint64_t i = 0; i < parts && r == 0; i++) {
		uint64_t len = bytes / parts + (i < bytes % parts);
		struct penstock_weight w = {.path = k->path, .len = len};
		char group[96], tensor[128];

		if (k->at + len > k->len)
			k->at = 0;
		w.offset = k->at;
		k->at = align_up(k->at + len, 4096);
		if (parts > 1)
			snprintf(group, sizeof(group), "%s.part%" PRIu64, name, i);
		else
			snprintf(group, sizeof(group), "%s", name);
		snprintf(tensor, sizeof(tensor), "%s.weight", group);
		w.name = tensor;
		r = penstock_model_group(k->m, group, k->err);
		if (r == 0)
			r = penstock_model_add(k->m, &w, k->err);
	}
	return r;
}

static int add_layer(struct model_builder *k, const struct weights_shape *s, uint32_t i)
{
	bool dense = i < s->dense;
	char name[64];
	int r;

	snprintf(name, sizeof(name), "layers.%u", i);
	r = add_groups(k, s->attention + (dense ? s->mlp : s->shared), name);
	for (uint32_t e = 0; !dense && e < s->experts && r == 0; e++) {
		snprintf(name, sizeof(name), "layers.%u.experts.%u", i, e);
		r = add_groups(k, s->expert, name);
	}
	return r;
}

static int build_model(struct model_builder *k, const struct weights_shape *s)
{
	int r = add_groups(k, s->embed, "embed");

	for (uint32_t i = 0; i < s->layers && r == 0; i++)
		r = add_layer(k, s, i);
	return r < 0 ? r : add_groups(k, s->head, "head");
}

int weights_model(struct penstock_model **out, struct penstock_io *io,
		  const struct weights_job *job, const char *path, uint64_t len,
		  struct penstock_err *err)
{
	const struct weights_shape *s = weights_shape_find(job->model);
	struct penstock_model_opts o = PENSTOCK_MODEL_OPTS_INIT;
	struct model_builder k = {.path = path, .len = len, .err = err};
	int r;

	o.by = job->experts ? PENSTOCK_BY_EXPERT : job->by;
	if (!s)
		return penstock_model_open(out, io, job->model, &o, err);
	/* two of them fit into the window, and one into the file */
	k.max_group = min_u64(align_down(job->window / 2 - 8192, 4096), len);
	k.bits = job->bits ? job->bits : s->bits;
	/* of one in parts, each use would have to be of all of them */
	if (job->experts && bytes_of(s->expert, k.bits) > k.max_group) {
		char a[PENSTOCK_SIZE_TEXT];

		return penstock_fail(err, -EINVAL,
				     "%s: an expert has %s: --size has to be at least that, and "
				     "--window twice as much",
				     s->name, penstock_size_format(a, bytes_of(s->expert, k.bits)));
	}
	r = penstock_model_new(&k.m, err);
	if (r < 0)
		return r;
	r = build_model(&k, s);
	if (r < 0)
		penstock_model_close(k.m);
	else
		*out = k.m;
	return r;
}
