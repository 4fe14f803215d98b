/* SPDX-License-Identifier: Apache-2.0 */
#include "common/t.h"

#include <dirent.h>

#include "common/kvparams.h"
#include "common/kvrun.h"

struct kvrun kvrun;

double kvrun_mib(double mib)
{
	return mib / 1024;
}

void kvrun_setup(void)
{
	static unsigned nr;
	struct kv_params *p = &kvrun.params;

	kvrun = (struct kvrun){0};
	t_kv_params(p, 8, 600);
	p->gpu_gb = kvrun_mib(4);
	p->cpu_gb = kvrun_mib(6);
	p->storage_gb = kvrun_mib(8);
	p->max_requests = 60;
	for (int i = 0; i < KV_TEMPLATES; i++) {
		p->config.user[i] = (struct kv_template){{8, 64}, {16, 64}, {0.001, 0.005}};
	}
	snprintf(kvrun.dir, sizeof(kvrun.dir), "%s/kv%u", t_dir(), nr++);
	kvrun.job = (struct kv_job){
		.params = p,
		.cache_dir = kvrun.dir,
		.layout = KV_LAYOUT_NPY,
		.verify = !T_TSAN, /* but where a case asks for it */
		.gpu_simulated = true,
		.gpu_bandwidth = 64e9,
		.opts = PENSTOCK_OPTS_INIT,
		.stop = &kvrun.stop,
	};
}

static void forget(void)
{
	kv_result_fini(&kvrun.r);
	free(kvrun.events);
	free(kvrun.ops);
	kvrun.events = NULL;
	kvrun.ops = NULL;
	kvrun.nr_events = kvrun.nr_ops = 0;
	memset(kvrun.most, 0, sizeof(kvrun.most));
}

void kvrun_teardown(void)
{
	forget();
	kv_config_fini(&kvrun.params.config);
}

unsigned kvrun_names(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	if (d)
		closedir(d);
	return n;
}

/* Room for one more in an array that doubles. */
static void *more(void *v, size_t nr, size_t size)
{
	if (nr & (nr - 1))
		return v;
	v = realloc(v, (nr ? 2 * nr : 1) * size);
	assert_non_null(v);
	return v;
}

static void on_event(void *arg, const struct kv_event *ev)
{
	struct kvrun *k = arg;

	k->events = more(k->events, k->nr_events, sizeof(*ev));
	k->events[k->nr_events++] = *ev;
}

static void on_done(void *arg, const struct kv_run *k, const struct flow_done *d)
{
	const struct kv_run_op *op = (const struct kv_run_op *)(uintptr_t)d->tag;
	struct kvrun *v = arg;

	v->begin_ns = k->begin_ns;
	v->ops = more(v->ops, v->nr_ops, sizeof(*v->ops));
	v->ops[v->nr_ops++] = (struct kvrun_op){
		.type = op->flow.type,
		.tier = op->ev.tier,
		.to = op->flow.to,
		.kind = op->ev.kind,
		.phase = op->ev.phase,
		.alloc_begin = op->flow.alloc_begin,
		.missed = d->missed,
		.alloc_end = op->flow.alloc_end,
		.result = d->result,
		.size = op->ev.size,
		.chain = (uintptr_t)op->chain,
		.request = op->chain->kind == KV_CHAIN_REQUEST,
		.id = op->chain->req.id,
		.arrival_ns = k->begin_ns + op->chain->req.arrival_ns,
		.user = op->chain->req.user,
		.begin_ns = d->begin_ns,
		.start_ns = d->start_ns,
		.end_ns = d->end_ns,
	};
	for (int t = 0; t < KV_TIERS; t++) {
		uint64_t used = place_used(k->places[t]);

		v->capacity[t] = k->pl.opts[t].capacity;
		v->most[t] = used > v->most[t] ? used : v->most[t];
	}
	v->most_active = k->active > v->most_active ? k->active : v->most_active;
	if (v->act && v->nr_ops == v->at)
		v->act(v);
}

static void on_end(void *arg, const struct kv_run *k)
{
	struct penstock_err err;
	struct kvrun *v = arg;

	for (int t = 0; t < KV_TIERS; t++) {
		v->objects[t] = place_objects(k->places[t]);
		v->place_used[t] = place_used(k->places[t]);
		v->entries[t] = kv_cache_entries(k->cache, (enum kv_tier)t);
	}
	v->running = k->pending;
	v->chains = k->chains != NULL;
	v->files = kvrun_names(k->folder);
	v->consistent = kv_cache_check(k->cache, &err) == 0;
}

int kvrun_go(void)
{
	struct kv_run_hook hook = {on_event, on_done, on_end, &kvrun, kvrun.scale_ns};

	forget();
	assert_int_equal(kv_result_init(&kvrun.r), 0);
	return kv_run_hooked(&kvrun.job, &hook, &kvrun.r, &kvrun.err);
}

void kvrun_ok(void)
{
	T_ERR(kvrun_go(), 0, &kvrun.err);
	T_OK(kvrun.consistent);
	T_EQ(kvrun.running, 0);
	T_EQ(kvrun.chains, 0);
}

void kvrun_clean(void)
{
	if (kvrun.r.first_error[0])
		T_FAIL("%s", kvrun.r.first_error);
	T_EQ(kvrun.r.errors[0] + kvrun.r.errors[1] + kvrun.r.verify_errors, 0);
	T_EQ(kvrun.r.failed_requests, 0);
	T_OK(!kvrun.r.partial);
}

void kvrun_conserved(void)
{
	const struct kv_counts *n = &kvrun.r.counts;

	T_EQ(n->tier_evicted_out[KV_GPU], n->tier_evicted_in[KV_CPU]);
	T_EQ(n->tier_evicted_out[KV_CPU], n->tier_evicted_in[KV_NVME]);
	for (int t = 0; t < KV_TIERS; t++) {
		T_EQ(n->tier_written[t] - n->tier_evicted_out[t] - n->tier_deleted[t],
		     kvrun.r.used[t]);
		T_EQ(kvrun.objects[t], kvrun.entries[t]);
		T_EQ(kvrun.r.entries[t], kvrun.entries[t]);
	}
}

void kvrun_documents(uint32_t nr)
{
	kvrun.params.rag = true;
	kvrun.params.rag_docs = nr;
	kvrun.params.config.rag_small_tokens[0] = 32;
	kvrun.params.config.rag_small_tokens[1] = 64;
	kvrun.params.config.rag_chunk_tokens = 16;
}

void kvrun_burst(unsigned nr)
{
	FILE *f;

	snprintf(kvrun.burst, sizeof(kvrun.burst), "%s", t_path("burst.csv"));
	f = fopen(kvrun.burst, "w");
	T_OK(f != NULL);
	fprintf(f, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n");
	for (unsigned i = 0; i < nr; i++)
		fprintf(f, "%u,m,%u,20,%u,log\n", 100 * i, 10 + i % 8, 30 + i % 8);
	fclose(f);
	kvrun.params.burst_path = kvrun.burst;
}

void kvrun_overload(void)
{
	kvrun.params.users = 40;
	kvrun.params.max_requests = 0;
	kvrun.params.duration_ns = 1000000000;
	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	kvrun.params.storage_gb = kvrun_mib(512);
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvrun.params.config.user[i] =
			(struct kv_template){{200, 400}, {64, 256}, {0.001, 0.005}};
}

void kvrun_stop(struct kvrun *k)
{
	atomic_store(&k->stop, 1);
}
