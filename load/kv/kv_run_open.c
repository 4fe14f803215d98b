/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the tiers of a real run are: storage in a folder or bucket, CPU memory in memory, GPU
 * memory on a GPU, or nowhere, at a stated bandwidth.  Everything that can be refused is refused by
 * places_choose() and place_check(), which make nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/kv/kv_result.h"
#include "load/kv/kv_run.h"

#define FREE_SHARE    0.95 /* of the free space, unless the user says how much; upstream's */
#define UNIT          4096u
#define SMALL_ENTRIES 256 /* so many may be smaller ... */
#define USUAL_TOKENS  8   /* ... than this, and cost more than they hold */

/* ----------------------------------------------------------------------- choice */

static void choose_storage(struct kv_run_places *pl, const struct kv_job *job, const char *folder)
{
	pl->paths[0] = folder;
	if (penstock_s3_is_uri(folder, NULL) == 1) {
		pl->opts[KV_NVME] = (struct place_opts){
			.kind = PLACE_BUCKET, .paths = pl->paths, .nr_paths = 1, .s3 = &job->s3};
		return;
	}
	if (job->backend == KV_BACKEND_STORE) {
		pl->opts[KV_NVME] = (struct place_opts){.kind = PLACE_STORE,
							.paths = pl->paths,
							.nr_paths = 1,
							.durability = job->durability,
							.policy = job->policy,
							.io_threads = job->opts.threads,
							.engine = job->opts.engine,
							.s3 = &job->s3,
							.below = job->below};
		return;
	}
	pl->opts[KV_NVME] = (struct place_opts){
		.kind = job->layout == KV_LAYOUT_SLAB ? PLACE_SLAB : PLACE_FILES,
		.layout = job->layout == KV_LAYOUT_NPY ? PLACE_NPY : PLACE_RAW,
		.paths = pl->paths,
		.nr_paths = 1,
		.durability = job->durability,
		.recycle = !job->new_files,
		.stretch = job->layout == KV_LAYOUT_SLAB, /* an entry may be larger than it */
	};
}

/* Of the storage tier, bytes. */
static int kv_run_storage_limit(const struct kv_run_places *pl, const struct kv_params *p,
				uint64_t *ret, struct penstock_err *err)
{
	uint64_t free_bytes;
	int r = place_free_bytes(&pl->opts[KV_NVME], &free_bytes, err);

	if (r < 0)
		return r;
	if (p->storage_gb > 0)
		*ret = kv_params_storage(p);
	else if (free_bytes == UINT64_MAX)
		*ret = KV_UNLIMITED;
	else /* other parts may be on the same file system */
		*ret = (uint64_t)(FREE_SHARE * (double)free_bytes) / max_u64(p->parts, 1);
	return 0;
}

/* Objects take whole units: what a tier needs to hold its limit. */
static uint64_t capacity(const struct kv_run_places *pl, enum kv_tier t, uint32_t unit)
{
	const struct kv_cache_opts *c = &pl->cache;
	uint64_t bytes = c->limit[t];
	uint64_t token = kv_model_object_bytes(c->model, 1, c->shards);
	bool header = pl->opts[t].kind == PLACE_FILES && pl->opts[t].layout == PLACE_NPY;

	if (token % unit || header)
		bytes += (bytes / (max_u64(token, 1) * USUAL_TOKENS) + SMALL_ENTRIES) * unit;
	return align_up(bytes, unit);
}

static void set_capacity(struct kv_run_places *pl, enum kv_tier t)
{
	struct place_opts *o = &pl->opts[t];

	o->unit = place_fit_unit(UNIT, pl->cache.limit[t], UINT32_MAX / 2);
	o->capacity = capacity(pl, t, o->unit);
}

/* A tier of size 0 is there, and takes nothing. */
static void choose_memory(struct kv_run_places *pl, enum kv_tier t, enum place_kind kind)
{
	pl->opts[t] = (struct place_opts){.kind = PLACE_NULL};
	if (!pl->cache.limit[t])
		return;
	pl->opts[t].kind = kind;
	set_capacity(pl, t);
}

static bool find_gpu(struct kv_run_places *pl, const struct kv_job *job)
{
	struct penstock_gpu_info info = {.size = sizeof(info)};
	char size[PENSTOCK_SIZE_TEXT];
	uint64_t bytes = pl->cache.limit[KV_GPU];

	if (job->gpu_simulated || !bytes)
		return false;
	penstock_probe_gpu(&info);
	if (!info.cuda || !info.devices)
		return false;
	snprintf(pl->gpu_how, sizeof(pl->gpu_how), "%s of the memory of %s",
		 penstock_size_format(size, bytes), info.device0);
	return true;
}

static void choose_gpu(struct kv_run_places *pl, const struct kv_job *job)
{
	const struct kv_params *p = job->params;

	pl->gpu_real = find_gpu(pl, job);
	pl->has_gpu = pl->gpu_real || !p->policy.needs_gpu;
	pl->cache.has_gpu = pl->has_gpu;
	choose_memory(pl, KV_GPU, pl->gpu_real ? PLACE_GPU : PLACE_NULL);
	if (pl->gpu_real)
		return;
	pl->opts[KV_GPU].bytes_per_sec = job->gpu_bandwidth;
	if (!pl->has_gpu)
		snprintf(pl->gpu_how, sizeof(pl->gpu_how), "absent: there is no GPU");
	else if (!pl->cache.limit[KV_GPU])
		snprintf(pl->gpu_how, sizeof(pl->gpu_how), "not used: its size is 0");
	else
		snprintf(pl->gpu_how, sizeof(pl->gpu_how), "bookkeeping at %g GB/s",
			 job->gpu_bandwidth / 1e9);
}

static int places_choose(struct kv_run_places *pl, const struct kv_job *job, const char *folder,
			 struct penstock_err *err)
{
	uint64_t limit;
	int r;

	*pl = (struct kv_run_places){.gpu_real = false};
	choose_storage(pl, job, folder);
	r = kv_run_storage_limit(pl, job->params, &limit, err);
	if (r < 0)
		return r;
	pl->storage = limit;
	kv_params_cache(job->params, limit, true, &pl->cache);
	if (job->backend == KV_BACKEND_STORE) {
		pl->cache.limit[KV_NVME] = KV_UNLIMITED; /* what goes there says the store */
		pl->opts[KV_NVME].capacity = limit;
	} else if (limit != KV_UNLIMITED) {
		set_capacity(pl, KV_NVME);
	}
	choose_memory(pl, KV_CPU, PLACE_MEMORY);
	choose_gpu(pl, job);
	return 0;
}

/* ------------------------------------------------------------------------ check */

/* Of a GPU not all is taken. */
static int gpu_check(const struct kv_run_places *pl, double share, struct penstock_err *err)
{
	char want[PENSTOCK_SIZE_TEXT], have[PENSTOCK_SIZE_TEXT];
	uint64_t free_bytes;
	int r = place_free_bytes(&pl->opts[KV_GPU], &free_bytes, err);

	if (r < 0 || (double)pl->opts[KV_GPU].capacity <= share * (double)free_bytes)
		return r;
	return penstock_fail(
		err, -ENOMEM,
		"%s needed, of %s no more than gpu_backend.memory_fraction, %g, is taken",
		penstock_size_format(want, pl->opts[KV_GPU].capacity),
		penstock_size_format(have, free_bytes), share);
}

static int places_check(const struct kv_run_places *pl, const struct kv_params *p,
			struct penstock_err *err)
{
	static const char *const names[KV_TIERS] = {
		"GPU tier (--gpu-mem-gb)", "CPU tier (--cpu-mem-gb)", "storage tier (--folder)"};
	struct penstock_err why;

	for (int t = KV_TIERS - 1; t >= 0; t--) {
		bool gpu = t == KV_GPU && pl->gpu_real;
		int r = gpu ? gpu_check(pl, p->config.gpu_memory_fraction, &why)
			    : place_check(&pl->opts[t], &why);

		if (r < 0)
			return penstock_fail(err, r, "%s: %s", names[t], why.msg);
	}
	return 0;
}

static const char *temporary_root(void)
{
	const char *root = getenv("TMPDIR");

	return root && root[0] ? root : "/tmp";
}

/* A slab in a folder that is not there yet has to be told from a file. */
static char *folder_name(const struct kv_job *job)
{
	const char *dir = job->cache_dir;
	bool new_slab = dir && job->layout == KV_LAYOUT_SLAB && access(dir, F_OK) < 0;
	char *name;
	int r = dir ? asprintf(&name, "%s%s", dir, new_slab ? "/" : "")
		    : asprintf(&name, "%s/kv_cache_XXXXXX", temporary_root());

	return r < 0 ? NULL : name;
}

int kv_check(const struct kv_job *job, struct penstock_err *err)
{
	CLEANUP_FREE char *name = folder_name(job);
	struct kv_run_places pl;
	int r;

	if (!name)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = places_choose(&pl, job, name, err);
	return r < 0 ? r : places_check(&pl, job->params, err);
}

/* --------------------------------------------------------------- open and close */

static int folder_open(struct kv_run *k, struct penstock_err *err)
{
	k->folder = folder_name(k->job);
	if (!k->folder)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (k->job->cache_dir)
		return 0;
	if (!mkdtemp(k->folder))
		return penstock_fail(err, -errno, "%s: %s", k->folder, strerror(errno));
	k->temporary = true;
	return 0;
}

static int places_open(struct kv_run *k, struct penstock_err *err)
{
	int r = places_choose(&k->pl, k->job, k->folder, err);

	for (int t = 0; t < KV_TIERS && r == 0; t++)
		r = place_open(&k->places[t], &k->pl.opts[t], err);
	return r;
}

static int kv_run_model_open(struct kv_run *k, struct penstock_err *err)
{
	int r;

	k->texts = kv_texts_new();
	if (!k->texts || kv_cache_new(&k->cache, &k->pl.cache, kv_run_emit, k) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = kv_load_new(&k->load, k->p, k->texts, err);
	if (r == 0)
		kv_result_input(k->r, k->load);
	return r;
}

static int flow_open(struct kv_run *k, struct penstock_err *err)
{
	struct flow_opts o = {
		.io = k->job->opts,
		.verify = k->job->verify,
		.fill = true,
		.seed = k->p->seed,
		.nr_places = KV_TIERS,
	};

	o.io.durability =
		PENSTOCK_DURABLE_NONE; /* whole objects are made durable, by their place */
	for (int t = 0; t < KV_TIERS; t++)
		o.places[t] = k->places[t];
	return flow_new(&k->flow, &o, err);
}

int kv_run_open(struct kv_run *k, struct penstock_err *err)
{
	int r = folder_open(k, err);

	if (r == 0)
		r = places_open(k, err);
	if (r == 0)
		r = kv_run_model_open(k, err);
	if (r == 0)
		r = flow_open(k, err);
	if (r < 0)
		return r;
	k->r->path.size = sizeof(k->r->path);
	penstock_probe_path(k->folder, &k->r->path, NULL);
	snprintf(k->r->folder, sizeof(k->r->folder), "%s", k->folder);
	k->r->gpu_real = k->pl.gpu_real;
	k->r->has_gpu = k->pl.has_gpu;
	memcpy(k->r->gpu_how, k->pl.gpu_how, sizeof(k->r->gpu_how));
	return 0;
}

int kv_run_close(struct kv_run *k, struct penstock_err *err)
{
	int r = 0;

	flow_free(k->flow);
	kv_run_free_all(k);
	kv_load_free(k->load);
	kv_cache_free(k->cache);
	kv_texts_free(k->texts);
	for (int t = 0; t < KV_TIERS; t++) {
		int e = place_close(k->places[t], r == 0 ? err : NULL);

		r = r < 0 ? r : e;
	}
	if (k->temporary && rmdir(k->folder) < 0 && r == 0)
		r = penstock_fail(err, -errno, "%s: %s", k->folder, strerror(errno));
	free(k->folder);
	return r;
}
