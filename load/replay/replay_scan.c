/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pass before: what the trace holds, and how much room its objects need at once.  Objects
 * that are read while they do not exist are taken as there from the beginning: that is what
 * --missing create and --prefill make of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/replay/replay_internal.h"

#define ROW_END_MAX    (1ull << 60)
#define SCAN_BYTES_MAX ((int64_t)1 << 61) /* of each kind of objects */

enum { PROGRESS_EVERY = 1 << 16 };

struct scan {
	const struct replay_job *job;
	struct replay_scan *r;
	struct replay_map map;
	struct replay_keys keys;
	struct replay_pace pace;
	/* of each place: what exists now without the initial objects; negative when some of those
	 * have gone */
	int64_t live[REPLAY_PLACES], most[REPLAY_PLACES];
	int64_t count[REPLAY_PLACES], most_count[REPLAY_PLACES];
	uint64_t initial[REPLAY_PLACES];
	uint64_t seen;         /* rows, those of other parts, too */
	bool others;           /* have something to do */
	replay_initial *found; /* may be NULL */
	void *arg;
};

/* ---------------------------------------------------------------- what exists */

/* @bytes more, or less, of @place; -EOVERFLOW where it would hold more than there can be. */
static int change(struct scan *s, unsigned place, int64_t bytes, int64_t objects)
{
	if (bytes > 0 && s->live[place] > SCAN_BYTES_MAX - bytes)
		return -EOVERFLOW;
	s->live[place] += bytes;
	s->count[place] += objects;
	if (s->live[place] > s->most[place])
		s->most[place] = s->live[place];
	if (s->count[place] > s->most_count[place])
		s->most_count[place] = s->count[place];
	return 0;
}

/* The same of objects that are there from the beginning. */
static int change_initial(struct scan *s, unsigned place, uint64_t bytes)
{
	if (bytes > (uint64_t)SCAN_BYTES_MAX - s->initial[place])
		return -EOVERFLOW;
	s->initial[place] += bytes;
	return 0;
}

static int64_t charge(const struct scan *s, unsigned place, uint64_t size)
{
	return (int64_t)replay_charge(&s->map, place, size);
}

static int add_object(struct scan *s, const struct replay_row *w, uint64_t size, bool initial)
{
	struct replay_need *n = &s->r->need[w->place];
	struct replay_key *e = replay_keys_add(&s->keys, w->id, w->place, size);
	int r;

	if (!e)
		return -ENOMEM;
	n->largest = max_u64(n->largest, size);
	if (!initial)
		return change(s, w->place, charge(s, w->place, size), 1);
	n->initial++;
	n->initial_bytes += size;
	r = change_initial(s, w->place, (uint64_t)charge(s, w->place, size));
	return r == 0 && s->found ? s->found(s->arg, w, size) : r;
}

/* An object of a fio log is a file, as long as the log reaches. */
static int grow_file(struct scan *s, const struct replay_row *w, const struct trace_row *row)
{
	struct replay_key *e = replay_keys_find(&s->keys, w->id);
	struct replay_need *n = &s->r->need[w->place];
	uint64_t end = row->offset + row->size;
	struct replay_file *more;
	int r;

	if (!e) {
		if (ARRAY_GROW(s->r->files, s->r->nr_files) < 0)
			return -ENOMEM;
		more = &s->r->files[s->r->nr_files];
		*more = (struct replay_file){.name = strndup(w->key, w->key_len),
					     .name_len = w->key_len,
					     .tier = (uint8_t)w->tier};
		if (!more->name || add_object(s, w, 0, true) < 0)
			return -ENOMEM;
		s->r->nr_files++;
		e = replay_keys_find(&s->keys, w->id);
		e->number = s->r->nr_files;
	}
	if (end <= e->size)
		return 0;
	n->initial_bytes += end - e->size;
	r = change_initial(s, w->place,
			   (uint64_t)(charge(s, w->place, end) - charge(s, w->place, e->size)));
	n->largest = max_u64(n->largest, end);
	s->r->files[e->number - 1].size = e->size = end;
	return r;
}

static int object_row(struct scan *s, const struct replay_row *w, const struct trace_row *row)
{
	struct replay_key *e = replay_keys_find(&s->keys, w->id);
	int r;

	switch (row->op) {
	case TRACE_WRITE:
		if (!e)
			return add_object(s, w, row->size, false);
		r = change(s, w->place,
			   charge(s, w->place, row->size) - charge(s, w->place, e->size), 0);
		e->size = row->size;
		s->r->need[w->place].largest = max_u64(s->r->need[w->place].largest, row->size);
		return r;
	case TRACE_READ:
		r = e ? 0 : add_object(s, w, row->size, true);
		if (r < 0 || !trace_is_demotion(row))
			return r;
		e = replay_keys_find(&s->keys, w->id);
		break;
	default:
		break;
	}
	if (!e)
		return 0;
	r = change(s, w->place, -charge(s, w->place, e->size), -1);
	replay_keys_remove(&s->keys, e);
	return r;
}

/* ------------------------------------------------------------------------ rows */

int replay_row_check(const struct replay_job *job, const struct trace_row *row, uint64_t line,
		     struct penstock_err *err)
{
	if (row->size <= ROW_END_MAX && row->offset <= ROW_END_MAX - row->size)
		return 0;
	return penstock_fail(err, -EINVAL,
			     "%s: line %" PRIu64 ": ends at more than 2^60 bytes, which no storage "
			     "has",
			     job->trace, line);
}

static int do_row(struct scan *s, const struct trace_row *row)
{
	struct replay_scan *r = s->r;
	struct replay_row w;

	replay_row_resolve(&w, &s->map, row);
	replay_due(&s->pace, row->time_ns);
	if (!replay_owns(s->job, row, s->seen++)) {
		s->others |= w.passed == REPLAY_PASSED;
		return 0;
	}
	r->rows++;
	r->count[w.tier][row->op].ops++;
	r->count[w.tier][row->op].bytes += row->size;
	if (w.passed != REPLAY_PASSED) {
		r->passed[w.passed]++;
		return 0;
	}
	if (r->format == TRACE_FIO && row->op == TRACE_DELETE) { /* a trim of a part of a file */
		r->passed[REPLAY_PASSED_OP]++;
		return 0;
	}
	r->used_rows++;
	if (row->op <= TRACE_WRITE)
		block_sizes_add(&r->mix[row->op == TRACE_WRITE], row->size, r->block, 1);
	return r->format == TRACE_FIO ? grow_file(s, &w, row) : object_row(s, &w, row);
}

static bool scan_stopped(const struct replay_job *job)
{
	return asked_to_stop(job->stop);
}

static int scan_read_all(struct scan *s, struct trace_reader *src, struct penstock_err *err)
{
	struct trace_row row;
	int r;

	while ((r = trace_read(src, &row, err)) > 0) {
		if ((s->seen + 1) % PROGRESS_EVERY == 0) {
			if (scan_stopped(s->job))
				return penstock_fail(err, -ECANCELED, "interrupted");
			if (s->job->progress)
				s->job->progress(s->job->progress_arg, "Scan:", s->seen, 0, 0);
		}
		r = replay_row_check(s->job, &row, trace_reader_line(src), err);
		if (r < 0)
			return r;
		r = do_row(s, &row);
		if (r == -EOVERFLOW)
			return penstock_fail(err, r,
					     "%s: line %" PRIu64
					     ": with this one objects take more "
					     "than 2^62 bytes at once",
					     s->job->trace, trace_reader_line(src));
		if (r < 0)
			return r == -ENOMEM ? penstock_fail(err, r, "out of memory") : r;
	}
	return r;
}

static void scan_finish(struct scan *s, struct trace_reader *src)
{
	struct replay_scan *r = s->r;

	r->bad = *trace_reader_bad(src);
	r->out_of_order = s->pace.out_of_order;
	r->max_step_back_ns = s->pace.max_back_ns;
	r->first_ns = s->pace.first_ns;
	r->last_ns = s->pace.last_ns;
	for (unsigned i = 0; i < s->map.nr; i++) {
		r->need[i].peak = s->initial[i] + (uint64_t)s->most[i];
		r->need[i].objects = r->need[i].initial + (uint64_t)s->most_count[i];
	}
}

/* Why there is nothing to do, and what would help. */
static int fail_nothing_to_do(const struct replay_scan *r, const struct replay_job *job,
			      struct penstock_err *err)
{
	char tiers[80] = "";

	for (unsigned i = 0; i < TRACE_TIERS; i++)
		if (r->count[i][TRACE_READ].ops + r->count[i][TRACE_WRITE].ops)
			snprintf(tiers + strlen(tiers), sizeof(tiers) - strlen(tiers), "%s%s",
				 tiers[0] ? ", " : "", replay_tier_names[i]);
	if (!r->rows)
		return penstock_fail(err, -ENODATA, "%s: holds no operation%s%s", job->trace,
				     r->bad.nr ? ": " : "", r->bad.text[0]);
	return penstock_fail(err, -ENODATA,
			     "%s: none of its %" PRIu64
			     " rows has a target; it has rows of %s: give them one with --tier",
			     job->trace, r->rows,
			     tiers[0] ? tiers : replay_tier_names[REPLAY_NO_TIER]);
}

static int scan(const struct replay_job *job, struct replay_scan *ret, replay_initial *found,
		void *arg, struct penstock_err *err)
{
	struct scan s = {.job = job, .r = ret, .found = found, .arg = arg};
	struct trace_reader *src;
	int r;

	*ret = (struct replay_scan){.block =
					    job->opts.block ? (uint32_t)job->opts.block : 1u << 20};
	r = replay_map_make(&s.map, job, err);
	if (r == 0)
		r = trace_reader_open(&src, job->trace, &job->reader, err);
	if (r < 0)
		return r;
	ret->format = trace_reader_format(src);
	r = scan_read_all(&s, src, err);
	if (r == 0)
		scan_finish(&s, src);
	if (r == 0 && !ret->used_rows && !s.others)
		r = fail_nothing_to_do(ret, job, err);
	trace_reader_close(src);
	replay_keys_fini(&s.keys);
	if (r < 0)
		replay_scan_fini(ret);
	return r;
}

int replay_scan(const struct replay_job *job, struct replay_scan *ret, struct penstock_err *err)
{
	return scan(job, ret, NULL, NULL, err);
}

int replay_find_initial(const struct replay_job *job, replay_initial *found, void *arg,
			struct penstock_err *err)
{
	struct replay_job quiet = *job;
	struct replay_scan unused;
	int r;

	quiet.progress = NULL;
	r = scan(&quiet, &unused, found, arg, err);
	replay_scan_fini(&unused);
	return r;
}

void replay_scan_fini(struct replay_scan *s)
{
	for (unsigned i = 0; i < s->nr_files; i++)
		free(s->files[i].name);
	free(s->files);
	s->files = NULL;
	s->nr_files = 0;
}
