/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/gen_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/gen.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/jobs/generated_file.h"
#include "load/measure/handle.h"
#include "load/measure/page_cache.h"

#define PIECE (8u << 20)

/* The folder a file is in; NULL for want of memory. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static int check_file(const struct gen_job *job, const struct gen_file *f, struct penstock_err *err)
{
	struct stat st;

	if (stat(f->path, &st) < 0) {
		if (job->verify || errno != ENOENT)
			return penstock_fail(err, -EINVAL, "%s: %s", f->path,
					     penstock_strerror(errno));
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return penstock_fail(err, -EINVAL, "%s: is no regular file", f->path);
	if (!job->verify && !job->overwrite)
		return penstock_fail(err, -EINVAL, "%s: is there already; --overwrite replaces it",
				     f->path);
	return 0;
}

int gen_files_plan(struct gen_job *job, uint64_t *ret_bytes, struct penstock_err *err)
{
	CLEANUP_FREE char *folder = folder_of(job->files[0].path);
	struct bed_need need = {.folder = folder};
	uint64_t end = 0;
	int r = folder ? 0 : penstock_fail(err, -ENOMEM, "out of memory");

	*ret_bytes = 0;
	for (uint64_t i = 0; i < job->nr && r == 0; i++) {
		job->files[i].offset = end;
		if (__builtin_add_overflow(end, align_up(job->files[i].len, GEN_UNIT), &end))
			return penstock_fail(err, -EINVAL, "size: too much in all");
		*ret_bytes += job->files[i].len;
		r = check_file(job, &job->files[i], err);
	}
	if (r < 0 || job->verify)
		return r;
	need.bytes = *ret_bytes;
	r = bed_check_folder(folder, true, err);
	return r < 0 ? r : bed_check_space(&need, 1, err);
}

struct gen_work {
	const struct gen_job *job;
	struct generated_file file;
	struct page_cache_facts facts;
	uint64_t done; /* bytes of files before */
};

static void report_moved(void *arg, uint64_t bytes)
{
	const struct gen_work *w = arg;

	if (w->job->progress)
		w->job->progress(w->job->arg, w->done + bytes);
}

static int do_file(struct gen_work *w, const struct gen_file *f, struct gen_result *res,
		   struct penstock_err *err)
{
	struct run_series *s = &res->series;
	struct generated_file *p = &w->file;
	int r;

	p->path = f->path;
	p->len = f->len;
	p->offset = f->offset;
	if (w->job->verify) {
		page_cache_add(&w->facts, page_cache_drop(f->path, 0, f->len));
		w->facts.size = max_u64(w->facts.size, f->len);
	}
	r = w->job->verify ? generated_file_compare(p, err) : generated_file_save(p, err);
	if (r < 0)
		return r;
	w->done += f->len;
	res->made_sec += (double)p->made_ns / 1e9;
	s->sec += (double)p->total_ns / 1e9;
	s->run_bytes += f->len;
	s->verified_bytes += w->job->verify ? f->len : 0;
	return series_add(s, f->len, p->total_ns, (uint64_t)(s->sec * 1e9));
}

static int do_files(struct gen_work *w, struct gen_result *res, struct penstock_err *err)
{
	struct run_series *s = &res->series;
	struct rusage before;
	int r = 0;

	getrusage(RUSAGE_SELF, &before);
	for (uint64_t i = 0; i < w->job->nr && r == 0; i++)
		r = do_file(w, &w->job->files[i], res, err);
	cpu_time_since(&before, &s->user_sec, &s->system_sec);
	generated_file_get_info(&w->file, &s->stats, &s->file);
	s->library_sec = (double)s->stats.cpu_ns / 1e9;
	s->partial = r < 0;
	snprintf(s->partial_why, sizeof(s->partial_why), "%s", r < 0 ? err->msg : "");
	series_finish(s);
	w->facts.durable = true;
	page_cache_describe(s, &w->facts, &res->path, 1);
	return r;
}

static int gen_prepare(struct gen_result *res, const struct gen_job *job, struct penstock_err *err)
{
	struct run_series *s = &res->series;
	int r = series_init(s);

	res->folder = folder_of(job->files[0].path);
	if (r < 0 || !res->folder)
		return penstock_fail(err, -ENOMEM, "out of memory");
	res->path.size = sizeof(res->path);
	penstock_probe_path(res->folder, &res->path, NULL);
	snprintf(s->name, sizeof(s->name), "%s files", job->verify ? "verify" : "write");
	s->read = s->verify = job->verify;
	s->opts = job->opts;
	s->opts.durability = job->verify ? PENSTOCK_DURABLE_NONE : PENSTOCK_DURABLE_FULL;
	for (uint64_t i = 0; i < job->nr; i++)
		s->size = !i || s->size == job->files[i].len ? job->files[i].len : 0;
	return 0;
}

int gen_files_run(const struct gen_job *job, struct gen_result *res, struct penstock_err *err)
{
	struct gen_work w = {.job = job,
			     .file = {.writer = PENSTOCK_WRITER_OPTS_INIT,
				      .reader = PENSTOCK_READER_OPTS_INIT,
				      .buf_len = PIECE,
				      .stop = job->stop,
				      .progress = report_moved}};
	struct penstock_gen gen;
	void *buf = NULL;
	int r;

	*res = (struct gen_result){.folder = NULL};
	r = gen_prepare(res, job, err);
	if (r == 0)
		r = penstock_gen_init(&gen, job->seed, job->dedup, job->compress, err);
	if (r == 0)
		r = penstock_open(&w.file.io, &job->opts, err);
	if (r < 0)
		return r;
	w.file.arg = &w;
	w.file.gen = &gen;
	w.file.writer.flags = job->no_crc ? PENSTOCK_WRITER_NO_CRC : 0;
	/* The generator itself says what is right, down to the byte. */
	w.file.reader.verify = PENSTOCK_VERIFY_NEVER;
	r = penstock_buf_alloc(&buf, w.file.io, PIECE, 0, &res->series.buf, err);
	w.file.buf = buf;
	if (r == 0)
		r = do_files(&w, res, err);
	penstock_close(w.file.io, NULL);
	return r;
}

void gen_result_fini(struct gen_result *res)
{
	series_fini(&res->series);
	free(res->folder);
	res->folder = NULL;
}
