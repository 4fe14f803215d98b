/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options, each kind in its way. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "base/size.h"
#include "base/util.h"
#include "cli/opt/opt.h"
#include "cli/opt/parser.h"

static int number_parse(uint64_t *out, const char *s)
{
	int base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;
	const char *digits = base == 16 ? s + 2 : s;
	unsigned long long v;
	char *end;

	/* strtoull() would take signs, blanks and, after 0x, another 0x */
	if (!isxdigit((unsigned char)digits[0]) || digits[1] == 'x' || digits[1] == 'X')
		return -EINVAL;
	errno = 0;
	v = strtoull(digits, &end, base);
	if (end == digits || *end)
		return -EINVAL;
	if (errno == ERANGE)
		return -ERANGE;
	*out = v;
	return 0;
}

void cli_bounds(const struct cli_opt *o, struct penstock_bounds *out)
{
	*out = (struct penstock_bounds){.min = o->min, .max = o->max, .step = 1};
	if (o->bounds)
		penstock_get_bounds(o->bounds, out);
}

static int outside(struct parser *p, const struct slot *s, const char *value,
		   const struct penstock_bounds *is)
{
	char lo[PENSTOCK_SIZE_TEXT], hi[PENSTOCK_SIZE_TEXT];

	if (s->opt->kind == CLI_KIND_SIZE)
		return cli_bad(p, "--%s: '%.80s' is outside %s..%s", s->name, value,
			       penstock_size_exact(lo, is->min), penstock_size_exact(hi, is->max));
	return cli_bad(p, "--%s: '%.80s' is outside %" PRIu64 "..%" PRIu64, s->name, value, is->min,
		       is->max);
}

static void value_put_number(struct parser *p, const struct slot *s, uint64_t v)
{
	v *= s->opt->scale ? s->opt->scale : 1;
	if (s->opt->kind == CLI_KIND_U32)
		*(uint32_t *)(void *)(p->args + s->at) = (uint32_t)v;
	else
		*(uint64_t *)(void *)(p->args + s->at) = v;
}

static struct cli_problems *problems(struct parser *p)
{
	return (void *)(p->args + p->cmd->problems);
}

/* With a sign as other programs take it; what is out of range is told later. */
static int set_late(struct parser *p, const struct slot *s, const char *value)
{
	const struct cli_opt *o = s->opt;
	int64_t v;
	int r = cli_int_parse(&v, value);

	if (r == -EINVAL)
		return cli_bad(p, "--%s: '%.80s' is not a whole number", s->name, value);
	if (r == 0 && v < (int64_t)o->min)
		cli_problem(problems(p), "--%s: %" PRId64 " is below %" PRIu64, s->name, v, o->min);
	else if (r < 0 || (uint64_t)v > o->max)
		cli_problem(problems(p), "--%s: %s is outside %" PRIu64 "..%" PRIu64, s->name,
			    value, o->min, o->max);
	else
		value_put_number(p, s, (uint64_t)v);
	return CLI_OK;
}

static int set_number(struct parser *p, const struct slot *s, const char *value)
{
	const struct cli_opt *o = s->opt;
	bool size = o->kind == CLI_KIND_SIZE;
	struct penstock_bounds is;
	uint64_t v;
	int r = size ? penstock_size_parse(&v, value) : number_parse(&v, value);

	cli_bounds(o, &is);
	if (r == -EINVAL && size)
		return cli_bad(
			p, "--%s: '%.80s' is not a size; give bytes, or a number with K, M, G or T",
			s->name, value);
	if (r == -EINVAL)
		return cli_bad(
			p, "--%s: '%.80s' is not a whole number; give one in %" PRIu64 "..%" PRIu64,
			s->name, value, is.min, is.max);
	if (r < 0 || v < is.min || v > is.max)
		return outside(p, s, value, &is);
	if (v % is.step)
		return cli_bad(p, "--%s: '%.80s' is not a multiple of %" PRIu64, s->name, value,
			       is.step);
	value_put_number(p, s, v);
	return CLI_OK;
}

static int set_real(struct parser *p, const struct slot *s, const char *value)
{
	const struct cli_opt *o = s->opt;
	double v;

	if (cli_dbl_parse(&v, value) < 0)
		return cli_bad(p, "--%s: '%.80s' is not a number", s->name, value);
	if (v >= o->low && v <= o->high)
		*(double *)(void *)(p->args + s->at) = v * (double)(o->scale ? o->scale : 1);
	else if (!o->late)
		return cli_bad(p, "--%s: '%.80s' is outside %g..%g", s->name, value, o->low,
			       o->high);
	else if (v < o->low)
		cli_problem(problems(p), "--%s: %g is below %g", s->name, v, o->low);
	else
		cli_problem(problems(p), "--%s: %g is outside %g..%g", s->name, v, o->low, o->high);
	return CLI_OK;
}

static int set_enum(struct parser *p, const struct slot *s, const char *value)
{
	const char *const *c = s->opt->choices;
	char all[256] = "";
	size_t used = 0;

	for (uint32_t i = 0; c[i]; i++) {
		if (cli_same_name(c[i], value, strlen(value))) {
			*(uint32_t *)(void *)(p->args + s->at) = i;
			return CLI_OK;
		}
		if (used < sizeof(all))
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
						 i ? ", " : "", c[i]);
	}
	return cli_bad(p, "--%s: '%.80s' is not one of %s", s->name, value, all);
}

static int list_add_one(struct parser *p, const struct slot *s, const char *value, size_t len)
{
	struct cli_list *l = (void *)(p->args + s->at);

	if (!len && !s->opt->role)
		return cli_bad(p, "--%s: there is an empty value", s->name);
	if (l->nr >= s->opt->max)
		return cli_bad(p, "--%s: '%.*s' is one too many; at most %" PRIu64 " are taken",
			       s->name, (int)min_u64(len, 80), value, s->opt->max);
	if (ARRAY_GROW(l->items, l->nr) < 0 || !(l->items[l->nr] = strndup(value, len)))
		return cli_bad(p, "out of memory");
	l->nr++;
	return CLI_OK;
}

/* Up to the comma behind which there is another value: not `seed=1' of `fault:nth=3,seed=1'. */
static size_t value_len(const char *value)
{
	size_t len = strcspn(value, ",");

	while (value[len]) {
		const char *next = value + len + 1;

		if (next[strcspn(next, ",:=")] != '=')
			break;
		len += 1 + strcspn(next, ",");
	}
	return len;
}

static int set_name(struct parser *p, const struct slot *s, const char **value)
{
	struct penstock_err err = {0, ""};

	if (!**value && (s->opt->role == CLI_ROLE_PLACE || s->opt->role == CLI_ROLE_OBJECT))
		return cli_bad(p, "--%s: is empty", s->name);
	if (s->opt->role && cli_name(value, s->opt->role, *value, &err) < 0)
		return cli_bad(p, "--%s: %s", s->name, err.msg);
	return CLI_OK;
}

static int list_add(struct parser *p, const struct slot *s, const char *value)
{
	int r = set_name(p, s, &value);

	if (r == CLI_OK && s->opt->role)
		return list_add_one(p, s, value, strlen(value));
	for (bool more = true; more && r == CLI_OK;) {
		size_t len = value_len(value);

		r = list_add_one(p, s, value, len);
		more = value[len];
		value += len + more;
	}
	return r;
}

int cli_set_value(struct parser *p, const struct slot *s, const char *value)
{
	switch (s->opt->kind) {
	case CLI_KIND_FLAG:
		*(bool *)(p->args + s->at) = !s->opt->invert;
		return CLI_OK;
	case CLI_KIND_BIT:
		*(uint32_t *)(void *)(p->args + s->at) |= (uint32_t)s->opt->max;
		return CLI_OK;
	case CLI_KIND_STR:
		*(const char **)(void *)(p->args + s->at) = value;
		return set_name(p, s, (const char **)(void *)(p->args + s->at));
	case CLI_KIND_U32:
	case CLI_KIND_U64:
	case CLI_KIND_SIZE:
		return s->opt->late ? set_late(p, s, value) : set_number(p, s, value);
	case CLI_KIND_DBL:
		return set_real(p, s, value);
	case CLI_KIND_ENUM:
		return set_enum(p, s, value);
	case CLI_KIND_LIST:
		return list_add(p, s, value);
	case CLI_KIND_END:
	case CLI_KIND_GROUP:
	case CLI_KIND_TABLE:
	case CLI_KIND_ALIAS:
		break;
	}
	return cli_bad(p, "--%s: has no kind", s->name);
}

/* ------------------------------------------------------------------- numbers */

static size_t sign_len(const char *s)
{
	return s[0] == '-' || s[0] == '+';
}

int cli_int_parse(int64_t *out, const char *s)
{
	const char *digits = s + sign_len(s);
	long long v;

	if (!*digits || digits[strspn(digits, "0123456789")])
		return -EINVAL;
	errno = 0;
	v = strtoll(s, NULL, 10);
	if (errno == ERANGE)
		return -ERANGE;
	*out = v;
	return 0;
}

int cli_dbl_parse(double *out, const char *s)
{
	const char *body = s + sign_len(s);
	char *end;
	double v;

	if (!*body || body[strspn(body, "0123456789.eE+-")])
		return -EINVAL;
	v = strtod(s, &end);
	if (end == s || *end || !isfinite(v))
		return -EINVAL;
	*out = v;
	return 0;
}
