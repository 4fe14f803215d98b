/* SPDX-License-Identifier: Apache-2.0 */
/* The whole: what may be added, and the members that all commands have. */
#include "load/report/merge/merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/merge/merge_internal.h"
#include "load/report/result/text.h"

/* Results that began further apart are not of one run. */
#define APART_SEC 86400.0

static const char *const commands[] = {"bench", "io", "kv", "replay", "ckpt bench"};
static const char *const parts[] = {"io", "kv", "flows", "replay", "ckpt", "objects"};

/* Each rank has places of its own, and may have a seed. */
static const char *const own_settings[] = {"folder",       "folder_to_device_mapping",
					   "target",       "targets",
					   "seed",         "seed_given",
					   "io_trace_log", "trace"};

struct merging {
	const struct merge_input *in;
	unsigned nr;
	bool one_run;
	const struct merge_input *first; /* that has a result */
	json_t *out;
	json_t *rows;
	struct penstock_err *err;
};

static bool contains_word(const char *const *list, size_t nr, const char *word)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(list[i], word))
			return true;
	return false;
}

/* Files of ranks that have lost rank 0 say of which run they are. */
static bool of_one_run(const struct merge_input *in, unsigned nr)
{
	const json_t *first = NULL;

	for (unsigned i = 0; i < nr; i++) {
		const json_t *run = json_object_get(json_object_get(in[i].result, "clock"), "run");

		if (!run || (first && !json_equal(first, run)))
			return false;
		first = run;
	}
	return true;
}

/* --------------------------------------------------------------- may they add */

static int report_mismatch(const struct merging *m, const struct merge_input *in, const char *field,
			   const json_t *is, const json_t *first)
{
	char *a = json_dumps(is ? is : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);
	char *b = json_dumps(first ? first : json_null(), JSON_ENCODE_ANY | JSON_COMPACT);
	int r = penstock_fail(m->err, -EINVAL,
			      "'%s': %s is %.80s, not %.80s as in '%s': they cannot be added",
			      in->name, field, a ? a : "?", b ? b : "?", m->first->name);

	free(a);
	free(b);
	return r;
}

/* Ranks of one run had one command line; what of it is not the same is made of their machines. */
static bool is_own(const struct merging *m, const char *setting)
{
	return m->one_run || contains_word(own_settings, ARRAY_SIZE(own_settings), setting);
}

static int check_settings(const struct merging *m, const struct merge_input *in)
{
	json_t *mine = json_object_get(in->result, "settings"),
	       *first = json_object_get(m->first->result, "settings"), *v;
	const char *key;
	char field[96];

	json_object_foreach(first, key, v)
	{
		const json_t *other = json_object_get(mine, key);

		snprintf(field, sizeof(field), "settings.%.60s", key);
		if (!is_own(m, key) && !json_equal(v, other))
			return report_mismatch(m, in, field, other, v);
	}
	return 0;
}

static int merge_check_all(const struct merging *m)
{
	const json_t *command = json_object_get(m->first->result, "command");
	int r = 0;

	if (!contains_word(commands, ARRAY_SIZE(commands), json_string_value(command)))
		return penstock_fail(
			m->err, -EINVAL,
			"'%s': command is '%s', whose results cannot be added; those of "
			"bench, io, kv, replay and ckpt bench can",
			m->first->name, json_string_value(command));
	for (unsigned i = 0; i < m->nr && r == 0; i++) {
		const json_t *j = m->in[i].result;

		if (!j)
			continue;
		if (json_object_get(j, "ranks"))
			r = penstock_fail(m->err, -EINVAL,
					  "'%s': ranks is there: it was merged already; give the "
					  "results it was made of",
					  m->in[i].name);
		else if (!json_equal(json_object_get(j, "command"), command))
			r = report_mismatch(m, &m->in[i], "command", json_object_get(j, "command"),
					    command);
		else
			r = check_settings(m, &m->in[i]);
	}
	return r;
}

static bool is_same_result(const json_t *a, const json_t *b)
{
	const json_t *of = json_object_get(a, "clock"), *other = json_object_get(b, "clock");

	return of && other
		       ? json_equal(json_object_get(of, "run"), json_object_get(other, "run")) &&
				 json_equal(json_object_get(of, "rank"),
					    json_object_get(other, "rank"))
		       : json_equal(a, b);
}

int merge_check_twice(const struct merge_input *in, unsigned nr, struct penstock_err *err)
{
	for (unsigned i = 1; i < nr; i++)
		for (unsigned k = 0; k < i; k++)
			if (is_same_result(in[i].result, in[k].result))
				return penstock_fail(
					err, -EINVAL,
					"'%s': is the same result as '%s': give each of "
					"them once",
					in[i].name, in[k].name);
	return 0;
}

/* --------------------------------------------------------------------- series */

/* One that has nothing was interrupted before, or had no such rows. */
static bool may_lack_series(const json_t *result)
{
	return !result || json_is_true(json_object_get(result, "partial")) ||
	       !strcmp(report_text(result, "command"), "replay");
}

static int check_series(const struct merging *m, const struct merge_rank *k, const json_t *first)
{
	static const char *const same[] = {"kind", "size", "settings"};
	static const char *const ran[] = {"engine", "path", "memory"};
	const json_t *mine = json_object_get(k->j, "ran"), *its = json_object_get(first, "ran");
	const char *name = report_text(first, "name");
	char field[192];

	for (unsigned i = 0; i < ARRAY_SIZE(same); i++) {
		const json_t *a = json_object_get(k->j, same[i]),
			     *b = json_object_get(first, same[i]);

		snprintf(field, sizeof(field), "%s of series '%.100s'", same[i], name);
		if (!json_equal(a, b))
			return report_mismatch(m, k->in, field, a, b);
	}
	/* what hosts of one run fell back to is told, and no reason to throw the run away */
	for (unsigned i = 0; i < ARRAY_SIZE(ran) && !m->one_run; i++) {
		const json_t *a = json_object_get(mine, ran[i]), *b = json_object_get(its, ran[i]);

		snprintf(field, sizeof(field), "ran.%s of series '%.100s'", ran[i], name);
		if (!json_equal(a, b))
			return report_mismatch(m, k->in, field, a, b);
	}
	return 0;
}

/* When it was; a series in which nothing was done has no time. */
static int place_in_time(const struct merging *m, struct merge_rank *k)
{
	const json_t *interval = json_object_get(k->j, "interval"),
		     *turns = json_object_get(interval, "turns");
	size_t nr = json_array_size(turns);

	if (!interval)
		return penstock_fail(
			m->err, -EINVAL,
			"'%s': interval of series '%s' is missing: it was written by an "
			"older version",
			k->in->name, report_text(k->j, "name"));
	if (!nr) {
		k->j = NULL;
		return 0;
	}
	k->start = json_number_value(json_array_get(json_array_get(turns, 0), 0));
	k->end = json_number_value(json_array_get(json_array_get(turns, nr - 1), 1));
	k->first = json_number_value(json_object_get(interval, "first_done"));
	k->last = json_number_value(json_object_get(interval, "last_done"));
	return 0;
}

static int merge_collect(const struct merging *m, struct merge_rank *ranks, const char *name)
{
	const struct merge_rank *first = NULL;
	int r = 0;

	for (unsigned i = 0; i < m->nr && r == 0; i++) {
		struct merge_rank *k = &ranks[i];

		*k = (struct merge_rank){
			.in = &m->in[i],
			.j = report_named(json_object_get(m->in[i].result, "series"), name)};
		if (!k->j && !may_lack_series(m->in[i].result))
			return penstock_fail(m->err, -EINVAL,
					     "'%s': series has no '%s', which others have: they "
					     "cannot be added",
					     m->in[i].name, name);
		if (!k->j)
			continue;
		if (first)
			r = check_series(m, k, first->j);
		if (r == 0)
			r = place_in_time(m, k);
		if (r == 0 && k->j && first && fabs(k->start - first->start) > APART_SEC)
			r = penstock_fail(m->err, -EINVAL,
					  "'%s': interval of series '%s' is %.1f days from that of "
					  "'%s': they are not of one run",
					  k->in->name, name,
					  fabs(k->start - first->start) / APART_SEC,
					  first->in->name);
		first = first ? first : k->j ? k : NULL;
	}
	return r;
}

static int add_one_series(struct merging *m, const char *name)
{
	CLEANUP_FREE struct merge_rank *ranks = calloc(m->nr, sizeof(*ranks));
	bool together = !strcmp(report_text(m->first->result, "command"), "ckpt bench"),
	     any = false;
	json_t *one = NULL;
	int r = ranks ? merge_collect(m, ranks, name)
		      : penstock_fail(m->err, -ENOMEM, "out of memory");

	for (unsigned i = 0; r == 0 && i < m->nr; i++)
		any |= ranks[i].j != NULL;
	if (r < 0 || !any)
		return r;
	r = merge_series(&one, ranks, m->nr, together, m->err);
	if (r < 0)
		return r;
	json_array_append_new(m->rows, merge_rows(one, ranks, m->nr));
	json_array_append_new(json_object_get(m->out, "series"), one);
	return 0;
}

/* In the order of the first that has them. */
static int add_all_series(struct merging *m)
{
	const json_t *s;
	size_t i;
	int r = 0;

	for (unsigned k = 0; k < m->nr; k++) {
		json_array_foreach(json_object_get(m->in[k].result, "series"), i, s)
		{
			const char *name = report_text(s, "name");

			if (r == 0 && !report_named(json_object_get(m->out, "series"), name))
				r = add_one_series(m, name);
		}
	}
	return r;
}

/* ---------------------------------------------------------------------- parts */

/* When a result's first series began; 0: it has none. */
static double first_start(const json_t *result)
{
	const json_t *s = json_array_get(json_object_get(result, "series"), 0),
		     *turns = json_object_get(json_object_get(s, "interval"), "turns");

	return json_number_value(json_array_get(json_array_get(turns, 0), 0));
}

static int add_parts(struct merging *m)
{
	double begin = INFINITY;
	int r = 0;

	for (unsigned i = 0; i < m->nr; i++)
		if (first_start(m->in[i].result) > 0)
			begin = fmin(begin, first_start(m->in[i].result));
	for (unsigned p = 0; p < ARRAY_SIZE(parts); p++) {
		json_t *sum = NULL;

		for (unsigned i = 0; i < m->nr && r == 0; i++) {
			const json_t *one = json_object_get(m->in[i].result, parts[p]);
			double at = first_start(m->in[i].result);

			if (one && !sum)
				sum = json_deep_copy(one);
			else if (one)
				r = merge_part(sum, one, parts[p], at > 0 ? at - begin : 0,
					       m->in[i].name, m->err);
		}
		if (!sum)
			continue;
		merge_part_end(sum, json_object_get(m->out, "series"));
		json_object_set_new(m->out, parts[p], sum);
	}
	return r;
}

/* ------------------------------------------------------------------ the whole */

static void add_targets(json_t *all, const json_t *result)
{
	json_t *one;
	size_t i, k;

	json_array_foreach(json_object_get(result, "targets"), i, one)
	{
		for (k = 0; k < json_array_size(all); k++)
			if (json_equal(json_object_get(json_array_get(all, k), "folder"),
				       json_object_get(one, "folder")))
				break;
		if (k == json_array_size(all))
			json_array_append(all, one);
	}
}

/* Null where ranks had their own. */
static json_t *settings_of(const struct merging *m)
{
	json_t *j = json_deep_copy(json_object_get(m->first->result, "settings")), *v;
	const char *key;

	for (unsigned i = 0; i < m->nr; i++) {
		const json_t *other = json_object_get(m->in[i].result, "settings");

		json_object_foreach(j, key, v)
		{
			if (other && is_own(m, key) && !json_equal(v, json_object_get(other, key)))
				json_object_set_new(j, key, json_null());
		}
	}
	return j;
}

/* The first that is lost, or that ended early, speaks for all. */
static void note_partial(json_t *out, const struct merge_input *in, bool lost)
{
	const char *why = in->result ? report_text(in->result, "partial_why") : in->lost;

	if (json_is_true(json_object_get(out, "partial")) || lost != !in->result ||
	    (in->result && !json_is_true(json_object_get(in->result, "partial"))))
		return;
	json_object_set_new(out, "partial", json_true());
	json_object_set_new(out, "partial_why",
			    json_sprintf("%s: %s", in->name, why ? why : "ended early"));
}

static double start_time(const json_t *result)
{
	struct tm tm = {.tm_year = 0};

	return strptime(report_text(result, "time"), "%Y-%m-%dT%H:%M:%SZ", &tm)
		       ? (double)timegm(&tm)
		       : 0;
}

/* From the first to the last of all, to a second: that is what `time' tells. */
static void set_time(struct merging *m)
{
	double begin = INFINITY, end = 0, longest = 0;

	for (unsigned i = 0; i < m->nr; i++) {
		const json_t *j = m->in[i].result;
		double sec = json_number_value(json_object_get(j, "duration_sec"));

		if (!j)
			continue;
		if (start_time(j) < begin)
			json_object_set(m->out, "time", json_object_get(j, "time"));
		begin = fmin(begin, start_time(j));
		end = fmax(end, start_time(j) + sec);
		longest = fmax(longest, sec);
	}
	json_object_set_new(m->out, "duration_sec", json_real(fmax(longest, end - begin)));
}

static json_t *members_json(const struct merging *m)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < m->nr; i++) {
		const struct merge_input *in = &m->in[i];
		json_t *machine = json_object_get(in->result, "machine"),
		       *host = json_object_get(machine, "host"),
		       *partial = json_object_get(in->result, "partial"),
		       *clock = json_object_get(in->result, "clock"),
		       *own = clock ? NULL : json_object_get(in->result, "wall_clock");

		json_array_append_new(
			all,
			json_pack("{s:s, s:O?, s:o, s:s*, s:O*, s:O*}", "name", in->name, "host",
				  host ? host : json_null(), "partial",
				  json_boolean(!in->result || json_is_true(partial)), "lost",
				  in->result ? NULL : in->lost, "clock", clock, "wall_clock", own));
	}
	return all;
}

static json_t *begin_json(const struct merging *m)
{
	const json_t *first = m->first->result;
	json_t *j = json_copy((json_t *)(uintptr_t)first), *targets = json_array();
	json_int_t written = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++)
		json_object_del(j, parts[i]);
	json_object_del(j, "fio");
	json_object_del(j, "gdsio");
	json_object_del(j, "clock");
	json_object_del(j, "wall_clock");
	for (unsigned i = 0; i < m->nr; i++) {
		add_targets(targets, m->in[i].result);
		written += json_integer_value(json_object_get(m->in[i].result, "bytes_written"));
	}
	json_object_set_new(j, "partial", json_false());
	json_object_set_new(j, "partial_why", json_null());
	for (unsigned i = 0; i < 2 * m->nr; i++)
		note_partial(j, &m->in[i % m->nr], i < m->nr);
	json_object_set_new(j, "targets", targets);
	json_object_set_new(j, "bytes_written", json_integer(written));
	json_object_set_new(j, "settings", settings_of(m));
	json_object_set_new(j, "series", json_array());
	return j;
}

int merge_results(json_t **out, const struct merge_input *in, unsigned nr, const char *how,
		  struct penstock_err *err)
{
	struct merging m = {.in = in, .nr = nr, .err = err};
	int r;

	m.one_run = !strcmp(how, "mpi") || of_one_run(in, nr);
	for (unsigned i = 0; i < nr && !m.first; i++)
		m.first = in[i].result ? &in[i] : NULL;
	if (!m.first)
		return penstock_fail(err, -EINVAL, "no rank has a result");
	r = merge_check_all(&m);
	if (r < 0)
		return r;
	m.out = begin_json(&m);
	m.rows = json_array();
	set_time(&m);
	r = add_all_series(&m);
	if (r == 0)
		r = add_parts(&m);
	json_object_set_new(m.out, "ranks",
			    json_pack("{s:s, s:o, s:o, s:o*}", "how", how, "members",
				      members_json(&m), "series", m.rows, "reference",
				      merge_mlperf(in, nr)));
	if (r < 0)
		json_decref(m.out);
	else
		*out = m.out;
	return r;
}
