/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault engine wraps another engine and spoils what passes through, by seed:
 *
 *	fault:inner=io_uring,seed=7,error=0.01,errno=5,short=0.2,again=0.05,delay=0.2,reorder=1
 *
 * error, short, again and delay are probabilities per request.  "error" fails a
 * request with "errno" (5, EIO) before the inner engine sees it, "again" does so
 * with EAGAIN.  "short" lets it through and reports fewer bytes than were moved.
 * "delay" holds a finished request back for a few calls of reap().  "reorder=1"
 * shuffles what comes out.  "nth=K" fails the K-th request and no other, with "while=PATH"
 * that one is held back for as long as there is a file PATH instead, and "only=read" or
 * "only=write" leaves the other kind alone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "engine/engine.h"

struct fault_settings {
	const struct penstock_engine *inner;
	uint64_t seed;
	double error, shorten, again, delay;
	uint64_t nth;
	char until[256]; /* it is gone, the nth is held back */
	int code;
	bool reorder;
	uint32_t only; /* enum penstock_req_code, 0: all */
};

/* What stands for a request inside the inner engine. */
struct shadow {
	struct penstock_req req; /* first: reap() finds the shadow by it */
	struct penstock_req *real;
	struct shadow *next;
	unsigned hold; /* calls of reap() to stay hidden for */
	bool late;     /* and until the file is gone */
};

struct fault_state {
	struct fault_settings set;
	struct penstock_random rng;
	void *inner; /* the inner engine's state */
	struct shadow *pool;
	struct shadow *free;
	struct shadow *ready; /* finished, perhaps held back */
	struct penstock_req **shuffle;
	unsigned depth;
	unsigned inside; /* requests in the inner engine */
	uint64_t count;
};

static int fault_number(double *out, const char *value)
{
	char *end;

	*out = strtod(value, &end);
	return end == value || *end || !(*out >= 0) ? -EINVAL : 0; /* nan is not >= 0 */
}

static int set_inner(struct fault_settings *f, const char *value)
{
	f->inner = penstock_engine_find(value, NULL);
	return !f->inner || f->inner == &penstock_engine_fault ? -EINVAL : 0;
}

static int set_only(struct fault_settings *f, const char *value)
{
	f->only = !strcmp(value, "read")    ? PENSTOCK_REQ_READ
		  : !strcmp(value, "write") ? PENSTOCK_REQ_WRITE
					    : 0;
	return f->only ? 0 : -EINVAL;
}

static int set_one(struct fault_settings *f, const char *key, const char *value)
{
	struct {
		const char *key;
		double *probability;
	} odds[] = {{"error", &f->error},
		    {"short", &f->shorten},
		    {"again", &f->again},
		    {"delay", &f->delay}};
	double v;

	if (!strcmp(key, "inner"))
		return set_inner(f, value);
	if (!strcmp(key, "only"))
		return set_only(f, value);
	if (!strcmp(key, "while"))
		return snprintf(f->until, sizeof(f->until), "%s", value) < (int)sizeof(f->until)
			       ? 0
			       : -EINVAL;
	for (unsigned i = 0; i < ARRAY_SIZE(odds); i++)
		if (!strcmp(key, odds[i].key))
			return fault_number(odds[i].probability, value) < 0 ||
					       *odds[i].probability > 1
				       ? -EINVAL
				       : 0;
	if (fault_number(&v, value) < 0 || v > 1e15)
		return -EINVAL;
	if (!strcmp(key, "seed"))
		f->seed = (uint64_t)v;
	else if (!strcmp(key, "nth"))
		f->nth = (uint64_t)v;
	else if (!strcmp(key, "errno") && v >= 1 && v < 4096)
		f->code = (int)v;
	else if (!strcmp(key, "reorder"))
		f->reorder = v != 0;
	else
		return -EINVAL;
	return 0;
}

static int fault_parse(struct fault_settings *f, const char *text, struct penstock_err *err)
{
	CLEANUP_FREE char *copy = strdup(text ? text : "");
	char *save, *value;

	if (!copy)
		return penstock_fail(err, -ENOMEM, "fault: out of memory");
	for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		value = strchr(item, '=');
		if (value)
			*value++ = '\0';
		if (!value || set_one(f, item, value) < 0)
			return penstock_fail(
				err, -EINVAL,
				"engine: fault: \"%s%s%s\" is not a setting; known are "
				"inner, seed, error, errno, short, again, delay, "
				"reorder, nth, while, only",
				item, value ? "=" : "", value ? value : "");
	}
	return 0;
}

static const struct penstock_engine *first_usable(void)
{
	for (unsigned i = 0; penstock_engines[i]; i++)
		if (penstock_engines[i]->automatic && penstock_engines[i]->probe(NULL) == 0)
			return penstock_engines[i];
	return &penstock_engine_threads;
}

static int fault_probe(struct penstock_err *err)
{
	(void)err;
	return 0;
}

static int fault_open(void *state, const struct penstock_engine_params *p, struct penstock_err *err)
{
	struct fault_state *s = state;
	struct penstock_engine_params inner = *p;
	CLEANUP_FREE struct shadow *pool = calloc(p->depth, sizeof(*pool));
	CLEANUP_FREE struct penstock_req **shuffle =
		calloc(p->depth, sizeof(struct penstock_req *));
	CLEANUP_FREE void *inner_state = NULL;
	int r;

	s->set = (struct fault_settings){.code = EIO};
	r = fault_parse(&s->set, p->settings, err);
	if (r < 0)
		return r;
	if (!s->set.inner)
		s->set.inner = first_usable();
	inner_state = calloc(1, s->set.inner->state_size);
	if (!pool || !shuffle || !inner_state)
		return penstock_fail(err, -ENOMEM, "fault: out of memory");
	inner.settings = NULL;
	r = s->set.inner->open(inner_state, &inner, err);
	if (r < 0)
		return r;
	penstock_random_seed(&s->rng, s->set.seed);
	for (unsigned i = 0; i < p->depth; i++) {
		pool[i].next = s->free;
		s->free = &pool[i];
	}
	s->depth = p->depth;
	s->pool = TAKE_PTR(pool);
	s->shuffle = TAKE_PTR(shuffle);
	s->inner = TAKE_PTR(inner_state);
	return 0;
}

static void free_state(struct fault_state *s)
{
	free(s->inner);
	free(s->shuffle);
	free(s->pool);
}

static void fault_abandon(void *state)
{
	struct fault_state *s = state;

	s->set.inner->abandon(s->inner);
	free_state(s);
}

static void fault_close(void *state)
{
	struct fault_state *s = state;

	s->set.inner->close(s->inner);
	free_state(s);
}

static bool fault_chance(struct fault_state *s, double p)
{
	return p > 0 && (double)(penstock_random_next(&s->rng) >> 11) * 0x1p-53 < p;
}

/* The verdict on a request before it is done: 0, or the error it shall have. */
static int fault_verdict(struct fault_state *s, const struct penstock_req *req)
{
	if (s->set.only && req->code != s->set.only)
		return 0;
	s->count++;
	if (s->set.nth)
		return s->count == s->set.nth && !*s->set.until ? -s->set.code : 0;
	if (fault_chance(s, s->set.error))
		return -s->set.code;
	return fault_chance(s, s->set.again) ? -EAGAIN : 0;
}

static void fault_finish(struct fault_state *s, struct shadow *sh, int32_t res)
{
	struct penstock_req *real = sh->real;
	bool moved = real->code == PENSTOCK_REQ_READ || real->code == PENSTOCK_REQ_WRITE;

	if (moved && res > 1 && (!s->set.only || real->code == s->set.only) &&
	    fault_chance(s, s->set.shorten))
		res = 1 + (int32_t)penstock_random_below(&s->rng, (uint64_t)res - 1);
	real->res = res;
	sh->hold =
		fault_chance(s, s->set.delay) ? 1 + (unsigned)penstock_random_below(&s->rng, 4) : 0;
	sh->next = s->ready;
	s->ready = sh;
}

static int fault_submit(void *state, struct penstock_req *const *reqs, unsigned n)
{
	struct fault_state *s = state;
	struct penstock_req *one;
	struct shadow *sh;
	unsigned i;
	int r;

	for (i = 0; i < n && s->free; i++) {
		sh = s->free;
		sh->real = reqs[i];
		r = fault_verdict(s, reqs[i]);
		if (r < 0) {
			s->free = sh->next;
			sh->late = false;
			fault_finish(s, sh, r);
			continue;
		}
		sh->req = *reqs[i];
		sh->late = *s->set.until && s->count == s->set.nth;
		one = &sh->req;
		r = s->set.inner->submit(s->inner, &one, 1);
		if (r < 0 && i == 0)
			return r;
		if (r <= 0)
			break;
		s->free = sh->next;
		s->inside++;
	}
	return (int)i;
}

static bool is_late(const struct fault_state *s, const struct shadow *sh)
{
	return sh->late && access(s->set.until, F_OK) == 0;
}

/* Hand out what is not held back; with nothing else left inside, hold nothing back. */
static int fault_release(struct fault_state *s, struct penstock_req **done)
{
	struct shadow **at = &s->ready, *sh;
	unsigned n = 0, k;
	struct penstock_req *swap;

	while ((sh = *at)) {
		if (is_late(s, sh)) {
			at = &sh->next;
			continue;
		}
		if (sh->hold && s->inside) {
			sh->hold--;
			at = &sh->next;
			continue;
		}
		s->shuffle[n++] = sh->real;
		*at = sh->next;
		sh->next = s->free;
		s->free = sh;
	}
	for (unsigned i = n; s->set.reorder && i > 1; i--) {
		k = (unsigned)penstock_random_below(&s->rng, i);
		swap = s->shuffle[i - 1];
		s->shuffle[i - 1] = s->shuffle[k];
		s->shuffle[k] = swap;
	}
	for (unsigned i = 0; i < n; i++)
		penstock_req_push(done, s->shuffle[i], s->shuffle[i]->res);
	return (int)n;
}

static bool all_late(const struct fault_state *s)
{
	const struct shadow *sh = s->ready;

	while (sh && is_late(s, sh))
		sh = sh->next;
	return !sh;
}

/* Negative is without limit. */
static int64_t min_ns(int64_t timeout_ns, int64_t most)
{
	return timeout_ns < 0 || timeout_ns > most ? most : timeout_ns;
}

static int fault_reap(void *state, struct penstock_req **done, int64_t timeout_ns)
{
	struct fault_state *s = state;
	struct penstock_req *list = NULL, *next;
	int r;

	*done = NULL;
	if (s->ready)
		timeout_ns = all_late(s) ? min_ns(timeout_ns, 1000000) : 0;
	r = s->set.inner->reap(s->inner, &list, timeout_ns);
	if (r < 0)
		return r;
	for (; list; list = next) {
		next = list->next;
		s->inside--;
		fault_finish(s, (struct shadow *)list, list->res);
	}
	return fault_release(s, done);
}

static void fault_wake(void *state)
{
	struct fault_state *s = state;

	s->set.inner->wake(s->inner);
}

static int fault_set_file(void *state, unsigned slot, int fd)
{
	struct fault_state *s = state;

	return s->set.inner->set_file ? s->set.inner->set_file(s->inner, slot, fd) : -ENOTSUP;
}

static int fault_set_buf(void *state, void *shared_bufs, unsigned slot, void *addr, size_t len)
{
	struct fault_state *s = state;

	return s->set.inner->set_buf ? s->set.inner->set_buf(s->inner, shared_bufs, slot, addr, len)
				     : -ENOTSUP;
}

static uint64_t fault_cpu_ns(void *state)
{
	struct fault_state *s = state;

	return s->set.inner->cpu_ns ? s->set.inner->cpu_ns(s->inner) : 0;
}

const struct penstock_engine penstock_engine_fault = {
	.name = "fault",
	.descr = "wraps another engine; errors, short transfers, delays and reordering by seed",
	.state_size = sizeof(struct fault_state),
	.probe = fault_probe,
	.open = fault_open,
	.close = fault_close,
	.abandon = fault_abandon,
	.submit = fault_submit,
	.reap = fault_reap,
	.wake = fault_wake,
	.cpu_ns = fault_cpu_ns,
	.set_file = fault_set_file,
	.set_buf = fault_set_buf,
};
