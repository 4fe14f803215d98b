/* SPDX-License-Identifier: Apache-2.0 */
/* What is said before a run: what will be done, by whom, and whether the memory is there for it. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/kv/kv_report.h"

/* A trace whose storage has no end has nothing to be filled up to. */
static bool preconditions(const struct kv_job *job)
{
	const struct kv_params *p = job->params;

	return p->precondition && (!job->trace_path || p->storage_gb > 0 || p->precondition_gb > 0);
}

static void features(FILE *f, const struct kv_job *job)
{
	const struct kv_params *p = job->params;
	const struct {
		bool on;
		const char *name;
	} all[] = {
		{p->multi_turn, "multi-turn"},
		{p->prefix, "prefix caching"},
		{p->rag, "RAG"},
		{p->autoscale, "autoscaling"},
		{preconditions(job), "preconditioning"},
		{p->prefill_only, "prefill only"},
		{p->decode_only, "decode only"},
		{p->closed_loop, "closed loop"},
		{p->burst_path && !p->sharegpt_path, "BurstGPT"},
		{p->sharegpt_path, "ShareGPT"},
		{p->compat, "as upstream"},
	};
	bool any = false;

	fprintf(f, "Features:    ");
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		if (all[i].on)
			fprintf(f, "%s%s", any ? ", " : "", all[i].name);
		any |= all[i].on;
	}
	fprintf(f, "%s\n", any ? "" : "none");
}

static void system_line(FILE *f, const struct kv_params *p)
{
	fprintf(f, "GPU memory:  ");
	if (p->gpus > 1)
		fprintf(f, "%u of %g GiB, together ", p->gpus, p->gpu_gb);
	fprintf(f, "%g GiB; CPU memory: %g GiB\n", p->gpus * p->gpu_gb, p->cpu_gb);
	if (p->tensor_parallel > 1)
		fprintf(f, "Rank:        one of %u, %s; bytes below are this rank's\n",
			p->tensor_parallel,
			p->policy.undivided_limits ? "which has all of that (as upstream)"
						   : "which has its part of that, the node's");
}

/* The population: how much context, and which levels of service. */
static void users(FILE *f, const struct kv_params *p)
{
	CLEANUP_FREE struct kv_user *u = calloc(p->users, sizeof(*u));
	uint32_t low = UINT32_MAX, high = 0, level[KV_QOS] = {0};
	double sum = 0, think = 0;

	if (!u || p->burst_path || p->sharegpt_path)
		return;
	kv_users_make(p, u);
	for (uint32_t i = 0; i < p->users; i++) {
		low = u[i].context < low ? u[i].context : low;
		high = u[i].context > high ? u[i].context : high;
		sum += u[i].context;
		think += u[i].think;
		level[u[i].qos]++;
	}
	fprintf(f,
		"Context:     %u to %u tokens, %.0f on average; a pause of %.2f s between "
		"requests\n",
		low, high, sum / p->users, think / p->users);
	fprintf(f, "Levels:      %u interactive, %u responsive, %u batch\n", level[0], level[1],
		level[2]);
}

void kv_report_banner(FILE *f, const struct kv_report *r)
{
	const struct kv_params *p = r->job->params;
	uint64_t all = kv_model_bytes_per_token(p->model);
	char each[PENSTOCK_SIZE_TEXT];

	fprintf(f, "Model:       %s (%s), %s of KV cache per token", p->model->key, p->model->name,
		penstock_size_format(each, all));
	if (p->tensor_parallel > 1)
		fprintf(f, ", %s on each rank",
			penstock_size_format(
				each, kv_model_object_bytes(p->model, 1, kv_params_shards(p))));
	fprintf(f, "\n");
	system_line(f, p);
	fprintf(f, "Users:       %u on %u workers, for %g s%s; seed %" PRIu64 "%s; generation %s\n",
		p->users, kv_load_workers(p->users), (double)p->duration_ns / 1e9,
		p->max_requests ? " or until enough requests are done" : "", p->seed,
		p->seed_given ? "" : " (drawn)", kv_gen_names[p->generation]);
	features(f, r->job);
	users(f, p);
}

/* Of a run on the virtual clock: how much, if storage took no time. */
void kv_report_plan(FILE *f, const struct kv_report *r)
{
	static const char *const names[KV_TIERS] = {"GPU", "CPU", "storage"};
	const struct kv_result *res = r->res;
	const struct kv_counts *n = &res->counts;
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT], c[PENSTOCK_SIZE_TEXT], whose[32];

	fprintf(f,
		"\nWould do%s, if storage took no time (a slower one gets through less of it):\n"
		"  %" PRIu64 " requests, %" PRIu64 " entries written, %" PRIu64 " read, %" PRIu64
		" moved down or deleted\n",
		kv_report_rank_note(whose, sizeof(whose), r), res->requests, n->write_ops,
		n->read_ops, n->evictions);
	for (unsigned t = 0; t < KV_TIERS; t++)
		fprintf(f, "  %-8s %12s written, %12s read; at the end %" PRIu64 " entries of %s\n",
			names[t], penstock_size_format(a, n->tier_written[t]),
			penstock_size_format(b, n->tier_read[t]), res->entries[t],
			penstock_size_format(c, res->used[t]));
	if (r->job->trace_path)
		fprintf(f, "Would write %" PRIu64 " rows to %s.\n", res->rows, r->job->trace_path);
	else
		fprintf(f, "Would write %s to %s, in %s.\n",
			penstock_size_format(a, n->tier_written[KV_NVME]),
			r->job->cache_dir ? r->job->cache_dir : "a temporary folder",
			r->job->backend == KV_BACKEND_STORE ? "a KV store"
			: r->job->cache_dir && penstock_s3_is_uri(r->job->cache_dir, NULL) == 1
				? "one object per entry"
			: r->job->layout == KV_LAYOUT_SLAB ? "one file"
							   : "one file per entry");
}
