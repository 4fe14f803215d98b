/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements as lines of JSON, one per line so that an interruption costs at most the last. */
#include "load/jobs/sweep_work.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <penstock/version.h>

#include "base/err.h"
#include "base/util.h"

/* --------------------------------------------------------------------- header */

static json_t *axis_json(const struct config_space_axis *a)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < a->nr; i++)
		json_array_append_new(j, a->values[i].text
						 ? json_string(a->values[i].text)
						 : json_integer((json_int_t)a->values[i].n));
	return j;
}

/* Everything that would make another measurement. */
static json_t *header_json(const struct sweep_job *job)
{
	json_t *axes = json_object(), *folders = json_array();

	for (unsigned i = 0; i < job->space->nr; i++)
		json_object_set_new(axes, config_space_names[job->space->axes[i].kind],
				    axis_json(&job->space->axes[i]));
	for (unsigned i = 0; i < job->nr_folders; i++) {
		CLEANUP_FREE char *real = realpath(job->folders[i], NULL);

		/* names need not be UTF-8: their bytes as numbers */
		for (const char *c = real ? real : job->folders[i]; *c; c++)
			json_array_append_new(folders, json_integer((unsigned char)*c));
		json_array_append_new(folders, json_integer(0));
	}
	return json_pack("{s:s, s:s, s:o, s:o, s:b, s:b, s:I, s:I, s:I, s:i, s:i, s:i, s:b}",
			 "sweep", "penstock-sweep-state/1", "version", PENSTOCK_VERSION_STRING,
			 "axes", axes, "folders", folders, "read", job->read, "write", job->write,
			 "io_size", (json_int_t)job->io_size, "loops", (json_int_t)job->loops,
			 "seed", (json_int_t)job->seed, "direct", (int)job->opts.direct,
			 "durability", (int)job->opts.durability, "memory", (int)job->memory,
			 "flush", job->flush);
}

/* Name of the first member in which they differ; NULL: in none. */
static const char *state_difference(json_t *a, const json_t *b)
{
	const char *key;
	json_t *v;

	json_object_foreach(a, key, v)
	{
		if (!json_equal(v, json_object_get(b, key)))
			return key;
	}
	return NULL;
}

int sweep_state_check(const struct sweep_job *job, const char *file, struct penstock_err *err)
{
	CLEANUP_FREE char *line = NULL;
	json_t *ours = header_json(job), *theirs = NULL;
	const char *differs;
	size_t capacity = 0;
	FILE *f = fopen(file, "re");
	int r = 0;

	if (!f)
		r = penstock_fail(err, -errno, "%s: %s", file, penstock_strerror(errno));
	else if (getline(&line, &capacity, f) > 0)
		theirs = json_loads(line, 0, NULL);
	if (f)
		fclose(f);
	if (r == 0 && !json_is_object(theirs))
		r = penstock_fail(err, -EINVAL, "%s: is not the state of a sweep", file);
	if (r == 0 && (differs = state_difference(ours, theirs)))
		r = penstock_fail(err, -EINVAL, "%s: is of another sweep: %s differs", file,
				  differs);
	json_decref(ours);
	json_decref(theirs);
	return r;
}

/* ----------------------------------------------------------------------- lines */

/* One line, on its way to the disk before the next measurement begins. */
static int write_line(FILE *f, json_t *j, const char *name, struct penstock_err *err)
{
	bool bad = !j || json_dumpf(j, f, JSON_COMPACT) < 0;

	putc('\n', f);
	json_decref(j);
	if (bad || fflush(f))
		return penstock_fail(err, errno ? -errno : -ENOMEM, "%s: cannot be written: %s",
				     name, penstock_strerror(errno ? errno : ENOMEM));
	return 0;
}

/* A line without an end is of a crash: what comes next must not be glued to it. */
static void cut_partial_line(FILE *f)
{
	if (fseek(f, -1, SEEK_END) == 0 && getc(f) != '\n') {
		fseek(f, 0, SEEK_END);
		putc('\n', f);
	}
	fseek(f, 0, SEEK_END);
}

/* Where the file system knows no locks, there is none. */
static int state_lock(FILE *f, const char *name, struct penstock_err *err)
{
	if (flock(fileno(f), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return penstock_fail(err, -EBUSY, "%s: the sweep is still running", name);
	return 0;
}

int sweep_state_open(FILE **out, const struct sweep_job *job, struct penstock_err *err)
{
	FILE *f = fopen(job->state, job->resume ? "r+e" : "wxe");
	int r = 0;

	if (!f)
		return penstock_fail(err, -errno, "%s: cannot be written: %s", job->state,
				     penstock_strerror(errno));
	r = state_lock(f, job->state, err);
	if (r == 0 && job->resume)
		cut_partial_line(f);
	else if (r == 0)
		r = write_line(f, header_json(job), job->state, err);
	if (r == 0) {
		*out = f;
		return 0;
	}
	fclose(f);
	if (!job->resume)
		unlink(job->state);
	return r;
}

int sweep_state_add(FILE *f, const struct sweep_job *job, const struct sweep_sample *m,
		    struct penstock_err *err)
{
	const struct run_series *s = m->run;
	const struct penstock_stats *st = &s->stats;
	json_t *workers = json_array(), *j;

	for (unsigned i = 0; i < job->nr_folders; i++)
		json_array_append_new(workers, json_real(m->worker_sec[i]));
	j = json_pack("{s:I, s:I, s:f, s:f, s:o, s:f, s:f, s:f}", "point", (json_int_t)m->index,
		      "loop", (json_int_t)m->loop, "sec", m->sec, "elapsed", m->elapsed_sec,
		      "workers", workers, "user", s->user_sec, "system", s->system_sec, "library",
		      s->library_sec);
	json_object_update_new(
		j, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I}",
			     "engine", st->engine, "depth", (json_int_t)st->depth, "threads",
			     (json_int_t)st->threads, "block", (json_int_t)s->file.block,
			     "blocks_direct", (json_int_t)st->blocks_direct, "blocks_buffered",
			     (json_int_t)st->blocks_buffered, "fallbacks",
			     (json_int_t)st->fallbacks, "fallback_why", st->fallback_why, "got",
			     (json_int_t)s->buf.got, "ways", (json_int_t)s->done_flags, "resident",
			     (json_int_t)m->resident, "unknown", (json_int_t)m->unknown));
	return write_line(f, j, job->state, err);
}

static uint64_t state_member(const json_t *j, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(j, key));
}

/* A time that can have been measured; -1: it is none. */
static double state_seconds(const json_t *j)
{
	double sec = json_number_value(j);

	return sec >= 0 && sec <= 1e9 ? sec : -1;
}

static void state_text(char *out, size_t size, const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	snprintf(out, size, "%s", s ? s : "");
}

static void load_series(struct run_series *s, const json_t *j)
{
	s->user_sec = state_seconds(json_object_get(j, "user"));
	s->system_sec = state_seconds(json_object_get(j, "system"));
	s->library_sec = state_seconds(json_object_get(j, "library"));
	state_text(s->stats.engine, sizeof(s->stats.engine), j, "engine");
	state_text(s->stats.fallback_why, sizeof(s->stats.fallback_why), j, "fallback_why");
	s->stats.size = sizeof(s->stats);
	s->stats.depth = (uint32_t)state_member(j, "depth");
	s->stats.threads = (uint32_t)state_member(j, "threads");
	s->stats.blocks_direct = state_member(j, "blocks_direct");
	s->stats.blocks_buffered = state_member(j, "blocks_buffered");
	s->stats.fallbacks = (uint32_t)state_member(j, "fallbacks");
	s->file.block = state_member(j, "block");
	s->buf.got = (uint32_t)state_member(j, "got");
	s->done_flags = (uint32_t)state_member(j, "ways");
}

/* ------------------------------------------------------------------------ wear */

int sweep_state_add_wear(FILE *f, const struct sweep_job *job, uint64_t bytes,
			 struct penstock_err *err)
{
	if (!f || !bytes)
		return 0;
	return write_line(f, json_pack("{s:I}", "wear", (json_int_t)bytes), job->state, err);
}

/* ------------------------------------------------------------------ read again */

static int load_line(const struct sweep_job *job, const json_t *j, double *worker_sec,
		     int (*add)(void *arg, const struct sweep_sample *m, struct penstock_err *err),
		     void *arg, struct penstock_err *err)
{
	const json_t *workers = json_object_get(j, "workers");
	struct run_series run = {.ops = 0};
	struct sweep_sample m = {
		.index = (unsigned)state_member(j, "point"),
		.loop = (uint32_t)state_member(j, "loop"),
		.sec = state_seconds(json_object_get(j, "sec")),
		.elapsed_sec = state_seconds(json_object_get(j, "elapsed")),
		.worker_sec = worker_sec,
		.run = &run,
		.resident = json_integer_value(json_object_get(j, "resident")),
		.unknown = json_integer_value(json_object_get(j, "unknown")),
	};

	bool good = json_array_size(workers) == job->nr_folders && m.sec > 0 && m.elapsed_sec >= 0;

	for (unsigned i = 0; good && i < job->nr_folders; i++) {
		worker_sec[i] = state_seconds(json_array_get(workers, i));
		good = worker_sec[i] >= 0;
	}
	load_series(&run, j);
	if (!good || run.user_sec < 0 || run.system_sec < 0 || run.library_sec < 0)
		return penstock_fail(err, -EINVAL, "%s: holds something else", job->state);
	return add(arg, &m, err);
}

int sweep_state_load(const struct sweep_job *job,
		     int (*add)(void *arg, const struct sweep_sample *m, struct penstock_err *err),
		     void *arg, uint64_t *wear, struct penstock_err *err)
{
	CLEANUP_FREE double *worker_sec = calloc(job->nr_folders, sizeof(*worker_sec));
	CLEANUP_FREE char *line = NULL;
	size_t capacity = 0;
	FILE *f = fopen(job->state, "re");
	bool header = true;
	int r = 0;

	if (!f)
		return penstock_fail(err, -errno, "%s: %s", job->state, penstock_strerror(errno));
	if (!worker_sec)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	while (r == 0 && getline(&line, &capacity, f) > 0) {
		json_t *j = json_loads(line, 0, NULL);

		if (!header && json_object_get(j, "wear"))
			*wear += state_member(j, "wear");
		else if (!header && json_object_get(j, "point"))
			r = load_line(job, j, worker_sec, add, arg, err);
		header = false;
		json_decref(j);
	}
	fclose(f);
	return r;
}
