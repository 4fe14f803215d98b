/* SPDX-License-Identifier: Apache-2.0 */
/* Points, folders and files of a sweep. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/jobs/sweep_work.h"
#include "load/measure/null.h"

#define CHUNK (8u << 20)

int sweep_stopped(const struct sweep_job *job, struct sluice_err *err)
{
	if (job->stop && atomic_load(job->stop))
		return sluice_fail(err, -ECANCELED, "interrupted");
	return 0;
}

static void name_point(struct sweep *w, unsigned index)
{
	const struct sweep_job *job = w->job;
	struct run_series *s = &w->res->series[index];
	struct sweep_point *p = &w->res->points[index];

	p->point = index % w->nr_points;
	s->read = job->read && index < w->nr_points;
	s->size = job->io_size;
	s->opts = job->opts;
	s->memory = job->memory;
	space_apply(job->space, p->point, &s->opts, &s->memory);
	space_name(s->name, sizeof(s->name), job->space, p->point, s->read, job->nr_folders,
		   &job->opts);
	s->no_storage = engine_is_null(s->opts.engine);
	snprintf(s->limit_how, sizeof(s->limit_how), "%s",
		 s->no_storage ? NULL_LIMIT : "not measured");
}

int sweep_alloc_points(struct sweep *w, struct sluice_err *err)
{
	const struct sweep_job *job = w->job;
	unsigned both = (unsigned)job->read + (unsigned)job->write;

	w->nr_points = space_points(job->space);
	w->res->series = calloc((size_t)both * w->nr_points, sizeof(*w->res->series));
	w->res->points = calloc((size_t)both * w->nr_points, sizeof(*w->res->points));
	w->res->paths = calloc(job->nr_folders, sizeof(*w->res->paths));
	w->known = calloc((size_t)both * w->nr_points, (size_t)job->loops * sizeof(*w->known));
	w->worker_sec = calloc(job->nr_folders, sizeof(*w->worker_sec));
	w->dirs = calloc(job->nr_folders, sizeof(*w->dirs));
	w->paths = calloc(job->nr_folders, sizeof(*w->paths));
	if (!w->res->series || !w->res->points || !w->res->paths || !w->known || !w->worker_sec ||
	    !w->dirs || !w->paths)
		return sluice_fail(err, -ENOMEM, "out of memory");
	for (; w->res->nr < both * w->nr_points; w->res->nr++) {
		struct sweep_point *p = &w->res->points[w->res->nr];

		p->worker_sec = calloc(job->nr_folders, sizeof(*p->worker_sec));
		if (!p->worker_sec || series_init(&w->res->series[w->res->nr]) < 0)
			return sluice_fail(err, -ENOMEM, "out of memory");
		name_point(w, w->res->nr);
	}
	return 0;
}

int sweep_make_folder(struct sweep *w, unsigned i, struct sluice_err *err)
{
	char *dir = NULL;

	if (asprintf(&dir, "%s/" SWEEP_WORK "XXXXXX", w->job->folders[i]) < 0)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if (!mkdtemp(dir)) {
		int saved = errno;

		free(dir);
		return sluice_fail(err, -saved, "%s: cannot make a folder in it: %s",
				   w->job->folders[i], sluice_strerror(saved));
	}
	w->dirs[i] = dir;
	if (asprintf(&w->paths[i], "%s/data", dir) < 0) {
		w->paths[i] = NULL;
		return sluice_fail(err, -ENOMEM, "out of memory");
	}
	w->res->paths[i].size = sizeof(w->res->paths[i]);
	sluice_probe_path(dir, &w->res->paths[i], NULL);
	return 0;
}

int sweep_add_wear(struct sweep *w, uint64_t bytes, struct sluice_err *err)
{
	w->res->bytes_written += bytes;
	return sweep_state_add_wear(w->state, w->job, bytes, err);
}

/* A file to read and to write over, in pieces so that a stop is noticed. */
int sweep_make_file(struct sweep *w, unsigned i, struct sluice_err *err)
{
	struct sluice_file *file;
	struct sluice_io *io;
	void *buf;
	uint64_t n, written = 0;
	int r = sluice_open(&io, NULL, err), noted;

	if (r < 0)
		return r;
	r = sluice_file_open(&file, io, w->paths[i], O_RDWR | O_CREAT | O_EXCL, 0600, err);
	if (r == 0)
		r = sluice_buf_alloc(&buf, io, CHUNK, 0, NULL, err);
	for (uint64_t off = 0; r == 0 && off < w->job->io_size; off += n) {
		int64_t moved;

		n = min_u64(CHUNK, w->job->io_size - off);
		sluice_pattern_fill(buf, n, w->job->seed + i, off);
		moved = sluice_pwrite(file, buf, n, off, err);
		r = moved < 0 ? (int)moved : sweep_stopped(w->job, err);
		written += moved < 0 ? 0 : (uint64_t)moved;
		if (w->job->progress)
			w->job->progress(w->job->arg, "prepare", 0, w->left_bytes);
	}
	sluice_close(io, NULL);
	noted = sweep_add_wear(w, written, r == 0 ? err : NULL);
	return r < 0 ? r : noted;
}

void sweep_count_left(struct sweep *w)
{
	uint64_t left = 0;

	for (size_t i = 0; i < (size_t)w->res->nr * w->job->loops; i++)
		left += !w->known[i];
	w->res->resumed = (unsigned)(sweep_measurements(w->job) - left);
	w->left_bytes = left * sweep_bytes(w->job);
}

void sweep_close(struct sweep *w)
{
	for (unsigned i = 0; w->dirs && i < w->job->nr_folders; i++) {
		if (w->paths && w->paths[i])
			unlink(w->paths[i]);
		if (w->dirs[i])
			rmdir(w->dirs[i]);
		free(w->dirs[i]);
		if (w->paths)
			free(w->paths[i]);
	}
	for (unsigned i = 0; i < NR_BUFFERS; i++)
		bed_buffers_close(&w->buffers[i]);
	if (w->state)
		fclose(w->state);
	free(w->dirs);
	free(w->paths);
	free(w->known);
	free(w->worker_sec);
}
