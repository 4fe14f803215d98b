/* SPDX-License-Identifier: Apache-2.0 */
/* A model as a list: weights in groups, and the files they are in, each once. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/keyhash.h"
#include "base/util.h"
#include "weights/model.h"

static int model_no_memory(struct penstock_err *err)
{
	return penstock_fail(err, -ENOMEM, "out of memory");
}

int penstock_model_new(struct penstock_model **out, struct penstock_err *err)
{
	struct penstock_model *m = calloc(1, sizeof(*m));

	if (!m)
		return model_no_memory(err);
	*out = m;
	return 0;
}

static void free_const(const void *p)
{
	free((void *)(uintptr_t)p);
}

void penstock_model_close(struct penstock_model *m)
{
	if (!m)
		return;
	for (uint64_t i = 0; i < m->nr; i++) {
		free_const(m->weights[i].name);
		free_const(m->weights[i].dtype);
		free_const(m->weights[i].shape);
	}
	for (uint64_t i = 0; i < m->nr_groups; i++)
		free_const(m->groups[i].name);
	for (uint64_t i = 0; i < m->nr_paths; i++)
		free(m->paths[i]);
	penstock_table_fini(&m->by_path);
	free(m->weights);
	free(m->files);
	free(m->groups);
	free(m->paths);
	free(m);
}

int penstock_model_group(struct penstock_model *m, const char *name, struct penstock_err *err)
{
	char *copy;

	if (!name)
		return penstock_fail(err, -EINVAL, "name: a group has none");
	copy = strdup(name);
	if (!copy || ARRAY_RESERVE(m->groups, m->groups_capacity, m->nr_groups + 1) < 0) {
		free(copy);
		return model_no_memory(err);
	}
	m->groups[m->nr_groups++] = (struct penstock_group){.name = copy, .first = m->nr};
	return 0;
}

/* The file of this name, a new one if need be; NULL: no memory. */
static struct model_path *get_path(struct penstock_model *m, const char *path)
{
	size_t len = strlen(path);
	uint64_t hash = penstock_key_hash(path, len, 0);
	struct model_path *p;

	for (struct penstock_table_node *n = penstock_table_find(&m->by_path, hash); n;
	     n = penstock_table_find_next(n)) {
		p = container_of(n, struct model_path, node);
		if (!strcmp(p->text, path))
			return p;
	}
	p = malloc(sizeof(*p) + len + 1);
	if (!p || ARRAY_RESERVE(m->paths, m->paths_capacity, m->nr_paths + 1) < 0 ||
	    penstock_table_insert(&m->by_path, &p->node, hash) < 0) {
		free(p);
		return NULL;
	}
	memcpy(p->text, path, len + 1);
	p->nr = (uint32_t)m->nr_paths;
	m->paths[m->nr_paths++] = p;
	return p;
}

static int check_weight(const struct penstock_model *m, const struct penstock_weight *t,
			struct penstock_err *err)
{
	struct penstock_short_name short_name;

	if (!m->nr_groups)
		return penstock_fail(err, -EINVAL,
				     "a weight is in a group: penstock_model_group()");
	if (!t->name || !t->path || (t->rank && !t->shape))
		return penstock_fail(err, -EINVAL, "%s: a weight has name, path and shape",
				     t->name ? penstock_shorten_name(&short_name, t->name)
					     : "weight");
	if (t->offset > INT64_MAX || t->len > INT64_MAX - t->offset)
		return penstock_fail(
			err, -EINVAL,
			"%s: offset %" PRIu64 " and length %" PRIu64 " are beyond 2^63",
			penstock_shorten_name(&short_name, t->name), t->offset, t->len);
	return 0;
}

int penstock_model_add(struct penstock_model *m, const struct penstock_weight *t,
		       struct penstock_err *err)
{
	struct penstock_weight copy = *t;
	struct model_path *path;
	uint64_t *shape = NULL;
	int r = check_weight(m, t, err);

	if (r < 0)
		return r;
	path = get_path(m, t->path);
	copy.name = strdup(t->name);
	copy.dtype = t->dtype ? strdup(t->dtype) : NULL;
	if (t->rank)
		shape = calloc(t->rank, sizeof(*shape));
	copy.shape = shape;
	if (!path || !copy.name || (t->dtype && !copy.dtype) || (t->rank && !shape) ||
	    ARRAY_RESERVE(m->weights, m->capacity, m->nr + 1) < 0 ||
	    ARRAY_RESERVE(m->files, m->files_capacity, m->nr + 1) < 0) {
		free_const(copy.name);
		free_const(copy.dtype);
		free(shape);
		return model_no_memory(err);
	}
	if (t->rank)
		memcpy(shape, t->shape, t->rank * sizeof(*shape));
	copy.path = path->text;
	m->files[m->nr] = path->nr;
	m->weights[m->nr++] = copy;
	m->groups[m->nr_groups - 1].nr++;
	m->groups[m->nr_groups - 1].bytes += t->len;
	return 0;
}

int penstock_model_order(struct penstock_model *m, const uint64_t *order, uint64_t n,
			 struct penstock_err *err)
{
	CLEANUP_FREE bool *seen = calloc(n + 1, sizeof(*seen));
	struct penstock_group *v;

	if (n != m->nr_groups)
		return penstock_fail(err, -EINVAL,
				     "n: an order of %" PRIu64 " groups, and there are %" PRIu64, n,
				     m->nr_groups);
	v = calloc(n + 1, sizeof(*v));
	if (!v || !seen) {
		free(v);
		return model_no_memory(err);
	}
	for (uint64_t i = 0; i < n; i++) {
		if (order[i] >= n || seen[order[i]]) {
			free(v);
			return penstock_fail(err, -EINVAL, "order: group %" PRIu64 " is %s",
					     order[i],
					     order[i] >= n ? "none of the model's" : "there twice");
		}
		seen[order[i]] = true;
		v[i] = m->groups[order[i]];
	}
	free(m->groups);
	m->groups = v;
	m->groups_capacity = n + 1;
	return 0;
}

const struct penstock_group *penstock_model_get_group(const struct penstock_model *m, uint64_t i)
{
	return i < m->nr_groups ? &m->groups[i] : NULL;
}

const struct penstock_weight *penstock_model_get_weight(const struct penstock_model *m, uint64_t i)
{
	return i < m->nr ? &m->weights[i] : NULL;
}
