/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups by names.  "model.layers.12.mlp.up_proj.weight" belongs to "model.layers.12", with experts
 * by themselves ".experts.5." to ".experts.5"; a name without a number belongs to all of it but its
 * last part.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "weights/model.h"

/* When a group is used. */
enum use_phase { USE_FIRST, USE_NUMBERED, USE_LAST };

struct sort_entry {
	char *key; /* of its group */
	enum use_phase phase;
	uint64_t nr; /* of the weight */
	uint32_t file;
	uint64_t offset;
};

static bool is_number(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)s[i]))
			return false;
	return len > 0;
}

/* How much of a name is that of its group. */
static size_t key_len(const char *name, uint32_t by, bool *numbered)
{
	size_t layer = 0, expert = 0, last = strlen(name);
	bool experts = false;

	for (const char *at = name;;) {
		size_t n = strcspn(at, ".");

		if (is_number(at, n)) {
			size_t end = (size_t)(at - name) + n;

			layer = layer ? layer : end;
			expert = experts && !expert ? end : expert;
		}
		experts = n == 7 && !memcmp(at, "experts", 7);
		if (!at[n])
			break;
		last = (size_t)(at - name) + n;
		at += n + 1;
	}
	*numbered = layer > 0;
	if (by == PENSTOCK_BY_TENSOR)
		return strlen(name);
	if (by == PENSTOCK_BY_EXPERT && expert)
		return expert;
	return layer ? layer : last;
}

static bool is_embedding(const char *name)
{
	static const char *const words[] = {"embed", "embd", "wte", "wpe"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

static int use_order(const void *a, const void *b)
{
	const struct sort_entry *x = a, *y = b;
	int r = (int)x->phase - (int)y->phase;

	r = r ? r : strverscmp(x->key, y->key);
	r = r ? r : strcmp(x->key, y->key);
	if (r)
		return r;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->nr > y->nr) - (x->nr < y->nr);
}

static int make_sort_entries(struct sort_entry *v, const struct penstock_model *m, uint32_t by)
{
	for (uint64_t i = 0; i < m->nr; i++) {
		const struct penstock_weight *t = &m->weights[i];
		bool numbered;
		size_t len = key_len(t->name, by, &numbered);

		v[i] = (struct sort_entry){
			.key = strndup(t->name, len),
			.phase = numbered                ? USE_NUMBERED
				 : is_embedding(t->name) ? USE_FIRST
							 : USE_LAST,
			.nr = i,
			.file = m->files[i],
			.offset = t->offset,
		};
		if (!v[i].key)
			return -ENOMEM;
	}
	return 0;
}

/* The weights in their new order, and where the key changes a new group. */
static int apply_order(struct penstock_model *m, const struct sort_entry *v,
		       struct penstock_err *err)
{
	struct penstock_weight *old = m->weights;
	CLEANUP_FREE uint32_t *files = m->files;
	CLEANUP_FREE struct penstock_weight *moved = NULL;
	int r = 0;

	m->weights = reallocarray(NULL, m->capacity, sizeof(*m->weights));
	m->files = reallocarray(NULL, m->files_capacity, sizeof(*m->files));
	if (!m->weights || !m->files) {
		free(m->weights);
		free(m->files);
		m->weights = old;
		m->files = TAKE_PTR(files);
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	moved = old;
	for (uint64_t i = 0; i < m->nr; i++) {
		m->weights[i] = old[v[i].nr];
		m->files[i] = files[v[i].nr];
	}
	for (uint64_t i = 0; i < m->nr && r == 0; i++) {
		struct penstock_group *g;

		if (i == 0 || strcmp(v[i].key, v[i - 1].key))
			r = penstock_model_group(m, v[i].key, err);
		g = &m->groups[m->nr_groups - 1];
		g->first = g->nr ? g->first : i;
		g->nr++;
		g->bytes += m->weights[i].len;
	}
	return r;
}

int model_regroup(struct penstock_model *m, uint32_t by, struct penstock_err *err)
{
	struct sort_entry *v = calloc(m->nr + 1, sizeof(*v));
	int r;

	if (!m->nr) {
		free(v);
		return 0;
	}
	r = v ? make_sort_entries(v, m, by) : -ENOMEM;
	if (r == 0) {
		qsort(v, m->nr, sizeof(*v), use_order);
		for (uint64_t i = 0; i < m->nr_groups; i++)
			free((void *)(uintptr_t)m->groups[i].name);
		m->nr_groups = 0;
		r = apply_order(m, v, err);
	} else {
		penstock_fail(err, r, "out of memory");
	}
	for (uint64_t i = 0; v && i < m->nr; i++)
		free(v[i].key);
	free(v);
	return r;
}

/* "blk.3.ffn_up_exps.weight" becomes "blk.3.experts.5.ffn_up.weight". */
static int expert_name(char *out, size_t size, const char *name, uint64_t i)
{
	const char *mark = strstr(name, "_exps"), *dot = mark;

	while (dot > name && dot[-1] != '.')
		dot--;
	return snprintf(out, size, "%.*sexperts.%llu.%.*s%s", (int)(dot - name), name,
			(unsigned long long)i, (int)(mark - dot), dot, mark + 5) < (int)size
		       ? 0
		       : -ENAMETOOLONG;
}

int model_add_parts(struct penstock_model *m, const struct penstock_weight *t, uint32_t by,
		    struct penstock_err *err)
{
	uint64_t n = by == PENSTOCK_BY_EXPERT && t->rank > 1 && strstr(t->name, "_exps")
			     ? t->shape[0]
			     : 1;
	struct penstock_weight part = *t;
	char name[512];
	int r = 0;

	if (n <= 1 || t->len % n)
		return penstock_model_add(m, t, err);
	part.shape++;
	part.rank--;
	part.len = t->len / n;
	part.name = name;
	for (uint64_t i = 0; i < n && r == 0; i++, part.offset += part.len) {
		if (expert_name(name, sizeof(name), t->name, i) < 0)
			return penstock_fail(err, -EINVAL,
					     "%s: tensor '%.200s': its name is too long", t->path,
					     t->name);
		r = penstock_model_add(m, &part, err);
	}
	return r;
}
