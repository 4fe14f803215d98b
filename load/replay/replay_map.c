/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers of a trace, the targets the user gave for them, and the places they become.  A folder is
 * one place, several are one place too where objects are files; slabs are one place each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/replay/replay_internal.h"

enum {
	FS_BLOCK = 4096,
	LARGE_UNIT = 64 << 10, /* of slabs whose objects are large ... */
	LARGE_MEAN = 1 << 20,  /* ... in the mean */
	SLACK_SHARE = 16,      /* one part in so many, so that writes need not wait for deletes */
};
#define SLACK_MOST (1ull << 30)

const char *const replay_tier_names[REPLAY_TIERS] = {"Tier-0", "Tier-1", "Tier-2", "no tier"};

/* ---------------------------------------------------------------------- targets */

/* What a path is, and what @job wants to make there when it is nothing. */
static int path_kind(enum place_kind *ret, const char *path, const struct replay_job *job,
		     struct penstock_err *err)
{
	enum place_kind folder = job->layout == REPLAY_SLAB ? PLACE_SLAB : PLACE_FILES;
	struct stat st;

	*ret = folder;
	if (stat(path, &st) < 0)
		return errno == ENOENT
			       ? 0
			       : penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		*ret = PLACE_SLAB;
	else if (!S_ISDIR(st.st_mode))
		return penstock_fail(err, -EINVAL,
				     "%s: is neither a folder, a file nor a block device", path);
	return 0;
}

static int add_place(struct replay_map *m, const struct place_opts *o, struct penstock_err *err)
{
	if (m->nr == REPLAY_PLACES)
		return penstock_fail(err, -EINVAL, "more than %d targets", REPLAY_PLACES);
	m->paths[m->nr] = o->nr_paths ? o->paths[0] : NULL;
	m->opts[m->nr++] = *o;
	return 0;
}

static int add_paths(struct replay_map *m, const struct replay_target *t,
		     const struct replay_job *job, struct penstock_err *err)
{
	struct place_opts o = {.layout = PLACE_RAW,
			       .hashed = job->layout == REPLAY_HASHED,
			       .keep = job->keep,
			       .recycle = !job->new_files,
			       .durability = job->durability};
	enum place_kind kind;
	int r = 0;

	for (unsigned i = 0; i < t->nr_paths; i++) {
		r = path_kind(&kind, t->paths[i], job, err);
		if (r < 0)
			return r;
		if (i && kind != o.kind)
			return penstock_fail(
				err, -EINVAL,
				"%s and %s: folders of files and slabs cannot be mixed",
				t->paths[0], t->paths[i]);
		o.kind = kind;
	}
	o.paths = t->paths;
	o.nr_paths = o.kind == PLACE_SLAB ? 1 : t->nr_paths;
	for (unsigned i = 0; r == 0 && i < t->nr_paths; i += o.nr_paths, o.paths += o.nr_paths) {
		o.reuse = job->reuse || (!job->fresh && place_is_kept(&o));
		r = add_place(m, &o, err);
	}
	return r;
}

static int add_store(struct replay_map *m, const struct replay_target *t,
		     const struct replay_job *job, struct penstock_err *err)
{
	struct place_opts o = {.kind = PLACE_STORE,
			       .paths = t->paths,
			       .nr_paths = t->nr_paths,
			       .keep = job->keep,
			       .reuse = job->reuse,
			       .replace = job->fresh,
			       .durability = job->durability,
			       .policy = job->policy,
			       .io_threads = job->opts.threads,
			       .engine = job->opts.engine};

	for (unsigned i = 0; i < m->nr; i++)
		if (m->opts[i].kind == PLACE_STORE)
			return penstock_fail(err, -EINVAL,
					     "%s and %s: one store is all there can be",
					     m->paths[i], t->paths[0]);
	return add_place(m, &o, err);
}

static int add_bucket(struct replay_map *m, const struct replay_target *t,
		      const struct replay_job *job, struct penstock_err *err)
{
	struct place_opts o = {.kind = PLACE_BUCKET,
			       .paths = t->paths,
			       .nr_paths = 1,
			       .keep = job->keep,
			       .reuse = job->reuse,
			       .replace = job->fresh,
			       .s3 = &job->s3};

	o.reuse = job->reuse || (!job->fresh && place_is_kept(&o));
	return add_place(m, &o, err);
}

static bool same_target(const struct replay_target *a, const struct replay_target *b)
{
	if (!a->used || a->kind != b->kind || !a->nr_paths || a->nr_paths != b->nr_paths)
		return false;
	for (unsigned i = 0; i < a->nr_paths; i++)
		if (strcmp(a->paths[i], b->paths[i]) != 0)
			return false;
	return true;
}

static int map_add_target(struct replay_map *m, const struct replay_job *job, unsigned tier,
			  struct penstock_err *err)
{
	const struct replay_target *t = &job->tiers[tier];
	struct place_opts o = {
		.kind = t->kind, .bytes_per_sec = t->bytes_per_sec, .device = t->device};
	int r;

	for (unsigned i = 0; i < tier; i++)
		if (same_target(&job->tiers[i], t)) {
			m->tiers[tier] = m->tiers[i];
			return 0;
		}
	m->tiers[tier].first = m->nr;
	r = t->kind == PLACE_FILES    ? add_paths(m, t, job, err)
	    : t->kind == PLACE_STORE  ? add_store(m, t, job, err)
	    : t->kind == PLACE_BUCKET ? add_bucket(m, t, job, err)
				      : add_place(m, &o, err);
	m->tiers[tier].nr = m->nr - m->tiers[tier].first;
	return r;
}

int replay_map_make(struct replay_map *m, const struct replay_job *job, struct penstock_err *err)
{
	int r = 0;

	*m = (struct replay_map){.nr = 0};
	for (unsigned i = 0; r == 0 && i < REPLAY_TIERS; i++)
		if (job->tiers[i].used)
			r = map_add_target(m, job, i, err);
	for (unsigned i = 0; i < m->nr; i++)
		m->opts[i].unit = FS_BLOCK;
	return r;
}

static bool has_units(const struct place_opts *o)
{
	return o->kind == PLACE_SLAB || o->kind == PLACE_MEMORY || o->kind == PLACE_GPU;
}

uint64_t replay_charge(const struct replay_map *m, unsigned place, uint64_t size)
{
	const struct place_opts *o = &m->opts[place];

	return align_up(size, has_units(o) ? o->unit : FS_BLOCK);
}

/* ------------------------------------------------------------------------ sizes */

/*
 * Objects of a MiB and more are not cut into pieces of 4 KiB; but what stays must fit another
 * trace, too.
 */
static void choose_unit(struct place_opts *o, const struct replay_need *n, uint64_t bytes)
{
	if (n && n->objects && n->peak / n->objects >= LARGE_MEAN && !o->keep && !o->reuse)
		o->unit = LARGE_UNIT;
	o->unit = place_fit_unit(o->unit, bytes, UINT32_MAX / 4);
}

static uint64_t need_bytes(const struct place_opts *o, const struct replay_need *n)
{
	uint64_t bytes = n->peak;

	if (o->unit > FS_BLOCK)
		bytes += n->objects * o->unit;
	bytes += min_u64(bytes / SLACK_SHARE, SLACK_MOST);
	return align_up(max_u64(bytes, o->unit), o->unit);
}

/*
 * Files: what the user allows, else most of what is free, so that writes wait for deletions before
 * they fill the file system.  Less than the trace needs at once would be of no use.
 */
static int files_size(struct place_opts *o, const struct replay_job *job,
		      const struct replay_need *n, struct penstock_err *err)
{
	uint64_t free_bytes;
	int r;

	o->capacity = job->capacity;
	if (o->capacity)
		return 0;
	r = place_free_bytes(o, &free_bytes, err);
	if (r == 0)
		o->capacity = max_u64(free_bytes - free_bytes / SLACK_SHARE, n ? n->peak : 0);
	return r;
}

int replay_map_size(struct replay_map *m, const struct replay_job *job,
		    const struct replay_scan *scan, struct penstock_err *err)
{
	int r;

	for (unsigned i = 0; i < m->nr; i++) {
		struct place_opts *o = &m->opts[i];
		const struct replay_need *n = scan ? &scan->need[i] : NULL;

		r = o->kind == PLACE_FILES || o->kind == PLACE_STORE ? files_size(o, job, n, err)
								     : 0;
		if (o->kind == PLACE_BUCKET)
			o->capacity = job->capacity;
		if (r < 0)
			return r;
		if (!has_units(o))
			continue;
		if (!n && !job->capacity)
			return penstock_fail(err, -EINVAL,
					     "%s: how much room the trace needs is not known: give "
					     "--capacity",
					     m->paths[i] ? m->paths[i] : "memory");
		choose_unit(o, n, n ? n->peak : job->capacity);
		/* what was kept may be in the way of what the trace needs */
		o->stretch = o->kind == PLACE_SLAB && o->reuse && !job->capacity;
		o->capacity = n ? need_bytes(o, n) : job->capacity;
		if (job->capacity)
			o->capacity = o->keep || o->reuse ? job->capacity
							  : min_u64(o->capacity, job->capacity);
		o->capacity = align_up(o->capacity, o->unit);
	}
	return 0;
}

/* Places without a limit of their own: is there room for what the trace needs? */
static int map_check_space(const struct replay_map *m, unsigned i, const struct replay_job *job,
			   const struct replay_scan *scan, struct penstock_err *err)
{
	const struct place_opts *o = &m->opts[i];
	char want[PENSTOCK_SIZE_TEXT], have[PENSTOCK_SIZE_TEXT];
	uint64_t need = scan ? scan->need[i].peak : job->capacity, free_bytes;
	int r = place_free_bytes(o, &free_bytes, err);

	if (job->capacity)
		need = min_u64(need, job->capacity);
	if (r < 0 || need <= free_bytes)
		return r;
	return penstock_fail(err, -ENOSPC,
			     "%s: the trace needs %s at once, %s are free; --capacity deletes what "
			     "has not been used for longest",
			     o->paths[0], penstock_size_format(want, need),
			     penstock_size_format(have, free_bytes));
}

int replay_map_suits(const struct replay_map *m, enum trace_format format,
		     const struct replay_job *job, struct penstock_err *err)
{
	for (unsigned i = 0; format == TRACE_FIO && i < m->nr; i++)
		if (m->opts[i].kind == PLACE_STORE || m->opts[i].kind == PLACE_BUCKET)
			return penstock_fail(
				err, -EINVAL,
				"%s: a fio log has parts of files, a store whole values",
				job->trace);
	return 0;
}

int replay_check(const struct replay_job *job, const struct replay_scan *scan,
		 struct penstock_err *err)
{
	struct replay_map m;
	int r = replay_map_make(&m, job, err);

	if (r == 0)
		r = replay_map_size(&m, job, scan, err);
	if (r == 0 && scan)
		r = replay_map_suits(&m, scan->format, job, err);
	for (unsigned i = 0; r == 0 && i < m.nr; i++) {
		const struct place_opts *o = &m.opts[i];

		if (o->kind == PLACE_STORE && !o->reuse && !o->replace && place_is_kept(o))
			r = penstock_fail(err, -EEXIST,
					  "%s: holds a store already: --reuse goes on with it, "
					  "--fresh removes it",
					  m.paths[i]);
		else if (m.opts[i].kind == PLACE_FILES)
			r = map_check_space(&m, i, job, scan, err);
		else
			r = place_check(&m.opts[i], err);
	}
	return r;
}

/* ------------------------------------------------------------------------- rows */

/*
 * Whose objects those of @tier are.  What stays in a place has the name of its key only: rows of no
 * tier that share the places of Tier-2 must find there what a run before them has left.
 */
static unsigned owner_tier(const struct replay_map *m, unsigned tier)
{
	unsigned last = TRACE_TIERS - 1;

	return tier == REPLAY_NO_TIER && m->tiers[last].nr &&
			       m->tiers[last].first == m->tiers[tier].first
		       ? last
		       : tier;
}

void replay_row_resolve(struct replay_row *w, const struct replay_map *m,
			const struct trace_row *row)
{
	w->tier = row->tier < TRACE_TIERS ? row->tier : REPLAY_NO_TIER;
	w->passed = REPLAY_PASSED;
	if (!m->tiers[w->tier].nr)
		w->passed = REPLAY_PASSED_TIER;
	else if (row->op > TRACE_DELETE)
		w->passed = REPLAY_PASSED_OP;
	else if (row->failed)
		w->passed = REPLAY_PASSED_FAILED;
	if (w->passed != REPLAY_PASSED)
		return;
	w->key = row->key;
	w->key_len = row->key_len;
	if (!row->key_len) { /* a trace without names: objects of one size are one */
		w->key_len = (uint32_t)snprintf(w->key_buf, sizeof(w->key_buf), "%" PRIu64 "-bytes",
						row->size);
		w->key = w->key_buf;
	}
	w->id = replay_id(w->key, w->key_len, owner_tier(m, w->tier));
	w->place = m->tiers[w->tier].first + (unsigned)(w->id.b % m->tiers[w->tier].nr);
}
