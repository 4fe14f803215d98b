/* SPDX-License-Identifier: Apache-2.0 */
#include "object/endpoint.h"

#include <errno.h>
#include <penstock/s3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* A broken connection alone may be the network's fault; two in a row are the endpoint's. */
enum { FAILURES = 2, DOWN_MS = 500, DOWN_MAX_MS = 30000 };

/* --------------------------------------------------------------------- parsing */

static int add_one(struct object_endpoints *s, const char *text, struct penstock_err *err)
{
	struct object_endpoint e = {0};
	int r;

	if (s->nr == OBJECT_ENDPOINTS)
		return penstock_fail(err, -EINVAL, "endpoint: more than %d", OBJECT_ENDPOINTS);
	r = object_url_parse(&e.url, text, err);
	if (r < 0)
		return r;
	e.text = strdup(text);
	if (!e.text || ARRAY_GROW(s->v, s->nr) < 0) {
		free(e.text);
		object_url_free(&e.url);
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	s->v[s->nr++] = e;
	return 0;
}

/* "a{1...8}b": each number in turn, with as many digits as the first has. */
static int add_template(struct object_endpoints *s, const char *text, struct penstock_err *err)
{
	const char *open = strchr(text, '{');
	unsigned from, to;
	int width = 0, used = 0, r = 0;
	char name[512];

	if (!open)
		return add_one(s, text, err);
	if (sscanf(open, "{%6u...%6u}%n", &from, &to, &used) != 2 || !used || from > to ||
	    to - from >= OBJECT_ENDPOINTS || strchr(open + 1, '{'))
		return penstock_fail(err, -EINVAL,
				     "endpoint: '%s' is no template; give one {1...8}, at most %d",
				     text, OBJECT_ENDPOINTS);
	if (open[1] == '0')
		width = (int)strcspn(open + 1, ".");
	for (unsigned i = from; i <= to && r == 0; i++) {
		snprintf(name, sizeof(name), "%.*s%0*u%s", (int)(open - text), text, width, i,
			 open + used);
		r = add_one(s, name, err);
	}
	return r;
}

/* @text is ours to write to. */
static int add_list(struct object_endpoints *s, char *text, struct penstock_err *err)
{
	static const char blanks[] = ", \t\r\n";
	char *rest, *word;
	int r = 0;

	for (word = strtok_r(text, blanks, &rest); word && r == 0;
	     word = strtok_r(NULL, blanks, &rest))
		r = add_template(s, word, err);
	return r;
}

static int endpoint_add_file(struct object_endpoints *s, const char *name, struct penstock_err *err)
{
	FILE *f = fopen(name, "re");
	char *line = NULL;
	size_t capacity = 0;
	int r = 0;

	if (!f)
		return penstock_fail(err, -errno, "endpoint: %s: %s", name,
				     penstock_strerror(errno));
	while (r == 0 && getline(&line, &capacity, f) >= 0) {
		*strchrnul(line, '#') = 0;
		r = add_list(s, line, err);
	}
	free(line);
	fclose(f);
	return r;
}

int object_endpoints_parse(struct object_endpoints *s, const char *text, struct penstock_err *err)
{
	CLEANUP_FREE char *copy = NULL;
	int r;

	if (text[0] == '@') {
		r = endpoint_add_file(s, text + 1, err);
	} else {
		copy = strdup(text);
		r = copy ? add_list(s, copy, err) : penstock_fail(err, -ENOMEM, "out of memory");
	}
	if (r == 0 && !s->nr)
		r = penstock_fail(err, -EINVAL, "endpoint: '%s' names none", text);
	if (r < 0)
		object_endpoints_free(s);
	return r;
}

void object_endpoints_free(struct object_endpoints *s)
{
	for (unsigned i = 0; i < s->nr; i++) {
		object_url_free(&s->v[i].url);
		free(s->v[i].text);
	}
	free(s->v);
	s->v = NULL;
	s->nr = 0;
}

/* -------------------------------------------------------------------- choosing */

static bool is_usable(const struct object_endpoints *s, unsigned i, int avoid, uint64_t now_ns)
{
	const struct object_endpoint *e = &s->v[i];

	return (int)i != avoid && (!e->down || (!e->probing && now_ns >= e->until_ns));
}

/* One of those that are usable; what one that is down would get is spread over all the others. */
static int pick_any(const struct object_endpoints *s, uint64_t number, int avoid, uint64_t now_ns)
{
	unsigned usable = 0;

	for (unsigned i = 0; i < s->nr; i++)
		usable += is_usable(s, i, avoid, now_ns);
	number %= max_u64(usable, 1);
	for (unsigned i = 0; i < s->nr; i++)
		if (is_usable(s, i, avoid, now_ns) && number-- == 0)
			return (int)i;
	return -1;
}

/* In turns; with PENSTOCK_S3_LEAST of those that have the fewest in flight. */
static int pick_next(struct object_endpoints *s, int avoid, uint64_t now_ns)
{
	int best = -1;

	for (unsigned n = 0; n < s->nr; n++) {
		unsigned i = (s->next + n) % s->nr;
		const struct object_endpoint *e = &s->v[i];

		if (!is_usable(s, i, avoid, now_ns))
			continue;
		if (best < 0 || e->down || e->in_flight < s->v[best].in_flight)
			best = (int)i;
		/* One that is due for a try comes first: nobody else would find out. */
		if (e->down || s->balance != PENSTOCK_S3_LEAST)
			break;
	}
	if (best >= 0)
		s->next = (unsigned)best + 1;
	return best;
}

/* One of those that are usable and not @avoid, by the rule; -1: there is none. */
static int pick_usable(struct object_endpoints *s, int avoid, uint64_t now_ns)
{
	unsigned mine = s->rank % s->nr;

	if (s->balance == PENSTOCK_S3_RANDOM)
		return pick_any(s, penstock_random_next(&s->random), avoid, now_ns);
	if (s->balance != PENSTOCK_S3_RANK)
		return pick_next(s, avoid, now_ns);
	if (is_usable(s, mine, avoid, now_ns))
		return (int)mine;
	return pick_any(s, s->rank / s->nr, avoid, now_ns);
}

/* Of those that are all down the one whose time comes first, @avoid last of all. */
static unsigned pick_down(const struct object_endpoints *s, int avoid)
{
	unsigned best = avoid == 0 && s->nr > 1 ? 1 : 0;

	for (unsigned i = 0; i < s->nr; i++)
		if ((int)i != avoid && s->v[i].until_ns < s->v[best].until_ns)
			best = i;
	return best;
}

unsigned object_endpoint_pick(struct object_endpoints *s, int avoid, uint64_t now_ns)
{
	int i = pick_usable(s, avoid, now_ns);
	struct object_endpoint *e;

	/* The one that failed is better than others that are known to be down. */
	if (i < 0 && avoid >= 0 && is_usable(s, (unsigned)avoid, -1, now_ns))
		i = avoid;
	if (i < 0)
		i = (int)pick_down(s, avoid);
	e = &s->v[i];
	e->probing = e->down;
	e->in_flight++;
	e->attempts++;
	return (unsigned)i;
}

void object_endpoint_release(struct object_endpoints *s, unsigned i, bool failed, uint64_t now_ns)
{
	struct object_endpoint *e = &s->v[i];

	e->in_flight--;
	e->probing = false;
	if (!failed) {
		e->failures = 0;
		e->down = false;
		return;
	}
	e->failed++;
	e->failures++;
	/* What was in flight when it went down tells nothing new. */
	if (e->failures < FAILURES || (e->down && now_ns < e->until_ns))
		return;
	if (!e->down)
		e->downs++;
	e->level = e->down ? min_u64(e->level + 1, 10) : 0;
	e->down = true;
	e->until_ns = now_ns + 1000000 * min_u64((uint64_t)DOWN_MS << e->level, DOWN_MAX_MS);
}

bool object_endpoint_has_alternative(const struct object_endpoints *s, unsigned but)
{
	for (unsigned i = 0; i < s->nr; i++)
		if (i != but && !s->v[i].down)
			return true;
	return false;
}
