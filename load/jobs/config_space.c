/* SPDX-License-Identifier: Apache-2.0 */
/* Axes and their values; what they mean to the library is in config_space_apply(). */
#include "load/jobs/config_space.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/bed/buffers.h"

const char *const config_space_names[CONFIG_SPACE_KINDS] = {
	"block_size", "queue_depth", "sequential_requests", "single_submit", "io_parallel",
	"engine",     "memory",
};

/* What a value may be: of what is a field of a handle's options, the library says it. */
static struct penstock_bounds config_space_bounds(enum config_space_kind kind)
{
	static const char *const fields[CONFIG_SPACE_KINDS] = {
		[CONFIG_SPACE_BLOCK_SIZE] = "block",
		[CONFIG_SPACE_QUEUE_DEPTH] = "depth",
		[CONFIG_SPACE_IO_PARALLEL] = "threads",
	};
	struct penstock_bounds is = {.max = 1, .step = 1};

	if (kind == CONFIG_SPACE_ENGINE)
		is.max = UINT64_MAX;
	else if (kind == CONFIG_SPACE_MEMORY)
		is.max = BED_GPU;
	else if (fields[kind])
		penstock_get_bounds(fields[kind], &is);
	return is;
}

static struct config_space_axis *config_space_find_axis(const struct config_space *s,
							enum config_space_kind kind)
{
	for (unsigned i = 0; i < s->nr; i++)
		if (s->axes[i].kind == kind)
			return (struct config_space_axis *)(uintptr_t)&s->axes[i];
	return NULL;
}

static int config_space_check_value(const struct config_space_axis *axis,
				    enum config_space_kind kind, uint64_t n, const char *text,
				    struct penstock_err *err)
{
	struct penstock_bounds is = config_space_bounds(kind);

	if (n < is.min || n > is.max)
		return penstock_fail(err, -EINVAL,
				     "%s: %" PRIu64 " is outside %" PRIu64 "..%" PRIu64,
				     config_space_names[kind], n, is.min, is.max);
	if (n % is.step)
		return penstock_fail(err, -EINVAL, "%s: %" PRIu64 " is not a multiple of %" PRIu64,
				     config_space_names[kind], n, is.step);
	for (unsigned i = 0; axis && i < axis->nr; i++)
		if (axis->values[i].n == n && (!text || !strcmp(text, axis->values[i].text)))
			return penstock_fail(err, -EEXIST, "%s: a value is there twice",
					     config_space_names[kind]);
	return 0;
}

int config_space_add(struct config_space *s, enum config_space_kind kind, uint64_t n,
		     const char *text, struct penstock_err *err)
{
	struct config_space_axis *axis = config_space_find_axis(s, kind);
	struct config_space_value v = {.n = n};
	int r = config_space_check_value(axis, kind, n, text, err);

	if (r < 0)
		return r;
	if (!axis) {
		axis = &s->axes[s->nr++];
		*axis = (struct config_space_axis){.kind = kind};
	}
	if (text && !(v.text = strdup(text)))
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (ARRAY_GROW(axis->values, axis->nr) < 0) {
		free(v.text);
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	axis->values[axis->nr++] = v;
	return 0;
}

void config_space_fini(struct config_space *s)
{
	for (unsigned i = 0; i < s->nr; i++) {
		for (unsigned k = 0; k < s->axes[i].nr; k++)
			free(s->axes[i].values[k].text);
		free(s->axes[i].values);
	}
	*s = (struct config_space){.nr = 0};
}

unsigned config_space_points(const struct config_space *s)
{
	unsigned n = 1;

	for (unsigned i = 0; i < s->nr; i++)
		if (__builtin_mul_overflow(n, s->axes[i].nr, &n))
			return UINT32_MAX;
	return n;
}

const struct config_space_value *config_space_value(const struct config_space *s, unsigned point,
						    enum config_space_kind kind)
{
	for (unsigned i = s->nr; i-- > 0;) {
		if (s->axes[i].kind == kind)
			return &s->axes[i].values[point % s->axes[i].nr];
		point /= s->axes[i].nr;
	}
	return NULL;
}

static void config_space_set_flag(struct penstock_opts *opts, uint32_t flag,
				  const struct config_space_value *v)
{
	if (v)
		opts->flags = v->n ? opts->flags | flag : opts->flags & ~flag;
}

void config_space_apply(const struct config_space *s, unsigned point, struct penstock_opts *opts,
			uint32_t *memory)
{
	const struct config_space_value *v[CONFIG_SPACE_KINDS];

	for (unsigned k = 0; k < CONFIG_SPACE_KINDS; k++)
		v[k] = config_space_value(s, point, k);
	if (v[CONFIG_SPACE_BLOCK_SIZE])
		opts->block = v[CONFIG_SPACE_BLOCK_SIZE]->n;
	if (v[CONFIG_SPACE_QUEUE_DEPTH])
		opts->depth = (uint32_t)v[CONFIG_SPACE_QUEUE_DEPTH]->n;
	if (v[CONFIG_SPACE_IO_PARALLEL])
		opts->threads = (uint32_t)v[CONFIG_SPACE_IO_PARALLEL]->n;
	if (v[CONFIG_SPACE_ENGINE])
		opts->engine = v[CONFIG_SPACE_ENGINE]->text;
	if (v[CONFIG_SPACE_MEMORY])
		*memory = (uint32_t)v[CONFIG_SPACE_MEMORY]->n;
	config_space_set_flag(opts, PENSTOCK_NO_OVERLAP, v[CONFIG_SPACE_SEQUENTIAL]);
	config_space_set_flag(opts, PENSTOCK_SINGLE_SUBMIT, v[CONFIG_SPACE_SINGLE]);
}

double config_space_cost(const struct penstock_opts *opts)
{
	double threads = opts->threads ? opts->threads : 1;
	double block = opts->block ? (double)opts->block : 1u << 20;
	double depth = opts->depth ? opts->depth : 32;

	return threads * 1e13 + threads * depth * block +
	       0.25 * !!(opts->flags & PENSTOCK_SINGLE_SUBMIT) +
	       0.125 * !!(opts->flags & PENSTOCK_NO_OVERLAP);
}

/* K or M, as upstream's parser knows no other letter; bytes where neither fits. */
static void block_text(char *buf, size_t size, uint64_t block)
{
	unsigned shift = block % (1u << 20) == 0 ? 20 : block % 1024 == 0 ? 10 : 0;

	snprintf(buf, size, "%" PRIu64 "%s", block >> shift, shift == 20 ? "M" : shift ? "K" : "");
}

/* "-io-uring", where there are several on the axis; fields of a name are split at `_'. */
static void append_word(char *buf, size_t size, const struct config_space *s,
			enum config_space_kind kind, const char *word)
{
	const struct config_space_axis *axis = config_space_find_axis(s, kind);
	size_t len = strlen(buf);

	if (!axis || axis->nr < 2)
		return;
	snprintf(buf + len, size - len, "-%s", word);
	for (char *c = buf + len; *c; c++)
		if (*c == '_' || *c == '/')
			*c = '-';
}

void config_space_name(char *buf, size_t size, const struct config_space *s, unsigned point,
		       bool read, unsigned nr_folders, const struct penstock_opts *opts)
{
	struct penstock_opts o = *opts;
	char block[32], more[72] = "";
	uint32_t memory = 0;

	config_space_apply(s, point, &o, &memory);
	block_text(block, sizeof(block), o.block ? o.block : 1u << 20);
	append_word(more, sizeof(more), s, CONFIG_SPACE_ENGINE, o.engine);
	append_word(more, sizeof(more), s, CONFIG_SPACE_MEMORY, bed_memory_words[memory]);
	snprintf(buf, size, "%s_%s_%s_ftd%u%s_d%u_bs%s_p%u", read ? "read" : "write",
		 o.flags & PENSTOCK_SINGLE_SUBMIT ? "single" : "block",
		 o.flags & PENSTOCK_NO_OVERLAP ? "sequential" : "overlap", nr_folders, more,
		 o.depth ? o.depth : 1, block, o.threads ? o.threads : 1);
}

/* ------------------------------------------------------------------ upstream */

int config_space_nvme_tune(struct config_space *s, struct penstock_err *err)
{
	static const struct {
		enum config_space_kind kind;
		uint64_t n;
	} all[] = {
		{CONFIG_SPACE_BLOCK_SIZE, 1u << 20}, {CONFIG_SPACE_BLOCK_SIZE, 8u << 20},
		{CONFIG_SPACE_QUEUE_DEPTH, 32},      {CONFIG_SPACE_QUEUE_DEPTH, 128},
		{CONFIG_SPACE_SEQUENTIAL, true},     {CONFIG_SPACE_SEQUENTIAL, false},
		{CONFIG_SPACE_SINGLE, false},        {CONFIG_SPACE_SINGLE, true},
		{CONFIG_SPACE_IO_PARALLEL, 1},       {CONFIG_SPACE_IO_PARALLEL, 2},
		{CONFIG_SPACE_IO_PARALLEL, 4},       {CONFIG_SPACE_IO_PARALLEL, 8},
	};
	int r = 0;

	*s = (struct config_space){.nr = 0};
	for (unsigned i = 0; i < ARRAY_SIZE(all) && r == 0; i++)
		r = config_space_add(s, all[i].kind, all[i].n, NULL, err);
	if (r < 0)
		config_space_fini(s);
	return r;
}
