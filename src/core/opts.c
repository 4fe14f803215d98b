/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a handle: one table of what each may be, for checking and for asking. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "core/core.h"

#define OPT(field) \
#field, offsetof(struct penstock_opts, field), sizeof(((struct penstock_opts *)0)->field)

static const struct opt {
	const char *name;
	size_t at, size;
	struct penstock_bounds is;
} opts_table[] = {
	{OPT(depth), {1, 4096, 1, DEPTH_AUTO}},
	{OPT(block), {512, 1ull << 30, 512, 0}},
	{OPT(threads), {1, 256, 1, 0}},
	{OPT(flags),
	 {0, PENSTOCK_SINGLE_SUBMIT | PENSTOCK_NO_OVERLAP | PENSTOCK_DESCRIBE | PENSTOCK_SPARE_CPU,
	  1, 0}},
	{OPT(direct), {0, PENSTOCK_DIRECT_NEVER, 1, PENSTOCK_DIRECT_AUTO}},
	{OPT(durability), {0, PENSTOCK_DURABLE_FULL, 1, PENSTOCK_DURABLE_NONE}},
	{OPT(huge), {0, PENSTOCK_HUGE_NEVER, 1, PENSTOCK_HUGE_AUTO}},
	{OPT(mode), {0, 07777, 1, 0644}},
};

int penstock_get_bounds(const char *field, struct penstock_bounds *out)
{
	if (!field || !out)
		return -EINVAL;
	for (unsigned i = 0; i < ARRAY_SIZE(opts_table); i++)
		if (!strcmp(opts_table[i].name, field)) {
			*out = opts_table[i].is;
			return 0;
		}
	return -ENOENT;
}

static uint64_t opt_get(const struct penstock_opts *o, const struct opt *f)
{
	const char *at = (const char *)o + f->at;

	return f->size == sizeof(uint64_t) ? *(const uint64_t *)(const void *)at
					   : *(const uint32_t *)(const void *)at;
}

static void opt_set(struct penstock_opts *o, const struct opt *f, uint64_t v)
{
	char *at = (char *)o + f->at;

	if (f->size == sizeof(uint64_t))
		*(uint64_t *)(void *)at = v;
	else
		*(uint32_t *)(void *)at = (uint32_t)v;
}

static int opt_check(const struct opt *f, uint64_t v, struct penstock_err *err)
{
	if (v < f->is.min || v > f->is.max)
		return penstock_fail(err, -EINVAL, "%s: %llu is outside %llu..%llu", f->name,
				     (unsigned long long)v, (unsigned long long)f->is.min,
				     (unsigned long long)f->is.max);
	if (v % f->is.step)
		return penstock_fail(err, -EINVAL, "%s: %llu is not a multiple of %llu", f->name,
				     (unsigned long long)v, (unsigned long long)f->is.step);
	return 0;
}

/* Take the fields the caller knows; refuse those only a newer library would. */
static int opts_copy(struct penstock_opts *o, const struct penstock_opts *user,
		     struct penstock_err *err)
{
	const unsigned char *bytes = (const unsigned char *)user;

	if (user->size < offsetof(struct penstock_opts, engine))
		return penstock_fail(err, -EINVAL,
				     "size: %u is too small; start from PENSTOCK_OPTS_INIT",
				     user->size);
	memcpy(o, user, min_u64(user->size, sizeof(*o)));
	for (uint32_t i = sizeof(*o); i < user->size; i++)
		if (bytes[i])
			return penstock_fail(err, -E2BIG,
					     "size: a field is set that this library (%s) does not "
					     "know",
					     PENSTOCK_VERSION_STRING);
	return 0;
}

int opts_load(struct penstock_opts *o, const struct penstock_opts *user, struct penstock_err *err)
{
	int r = 0;

	memset(o, 0, sizeof(*o));
	if (user)
		r = opts_copy(o, user, err);
	o->size = sizeof(*o);
	for (unsigned i = 0; i < ARRAY_SIZE(opts_table) && !r; i++) {
		const struct opt *f = &opts_table[i];
		uint64_t v = opt_get(o, f);

		if (v)
			r = opt_check(f, v, err);
		else
			opt_set(o, f, f->is.preset);
	}
	return r;
}
