/* SPDX-License-Identifier: Apache-2.0 */
#include "common/t.h"

#include <dirent.h>

#include "common/kvkit.h"
#include "common/kvparams.h"

struct kvkit kvkit;

double kvkit_mib(double mib)
{
	return mib / 1024;
}

void kvkit_setup(void)
{
	static unsigned nr;
	struct kv_params *p = &kvkit.params;

	kvkit = (struct kvkit){0};
	t_kv_params(p, 8, 600);
	p->gpu_gb = kvkit_mib(4);
	p->cpu_gb = kvkit_mib(6);
	p->storage_gb = kvkit_mib(8);
	p->max_requests = 60;
	for (int i = 0; i < KV_TEMPLATES; i++) {
		p->config.user[i] = (struct kv_template){{8, 64}, {16, 64}, {0.001, 0.005}};
	}
	snprintf(kvkit.dir, sizeof(kvkit.dir), "%s/kv%u", t_dir(), nr++);
	kvkit.job = (struct kv_job){
		.params = p,
		.cache_dir = kvkit.dir,
		.layout = KV_LAYOUT_NPY,
		.verify = !T_TSAN, /* but where a case asks for it */
		.gpu_simulated = true,
		.gpu_bandwidth = 64e9,
		.opts = PENSTOCK_OPTS_INIT,
		.stop = &kvkit.stop,
	};
}

static void forget(void)
{
	kv_result_fini(&kvkit.r);
	free(kvkit.events);
	free(kvkit.ops);
	kvkit.events = NULL;
	kvkit.ops = NULL;
	kvkit.nr_events = kvkit.nr_ops = 0;
	memset(kvkit.most, 0, sizeof(kvkit.most));
}

void kvkit_teardown(void)
{
	forget();
	kv_config_fini(&kvkit.params.config);
}

unsigned kvkit_names(const char *dir)
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
	struct kvkit *k = arg;

	k->events = more(k->events, k->nr_events, sizeof(*ev));
	k->events[k->nr_events++] = *ev;
}

static void on_done(void *arg, const struct kv_run *k, const struct flow_done *d)
{
	const struct kv_run_op *op = (const struct kv_run_op *)(uintptr_t)d->tag;
	struct kvkit *v = arg;

	v->begin_ns = k->begin_ns;
	v->ops = more(v->ops, v->nr_ops, sizeof(*v->ops));
	v->ops[v->nr_ops++] = (struct kvkit_op){
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
	struct kvkit *v = arg;

	for (int t = 0; t < KV_TIERS; t++) {
		v->objects[t] = place_objects(k->places[t]);
		v->place_used[t] = place_used(k->places[t]);
		v->entries[t] = kv_cache_entries(k->cache, (enum kv_tier)t);
	}
	v->running = k->pending;
	v->chains = k->chains != NULL;
	v->files = kvkit_names(k->folder);
	v->consistent = kv_cache_check(k->cache, &err) == 0;
}

int kvkit_go(void)
{
	struct kv_run_hook hook = {on_event, on_done, on_end, &kvkit, kvkit.scale_ns};

	forget();
	assert_int_equal(kv_result_init(&kvkit.r), 0);
	return kv_run_hooked(&kvkit.job, &hook, &kvkit.r, &kvkit.err);
}

void kvkit_ok(void)
{
	T_ERR(kvkit_go(), 0, &kvkit.err);
	T_OK(kvkit.consistent);
	T_EQ(kvkit.running, 0);
	T_EQ(kvkit.chains, 0);
}

void kvkit_clean(void)
{
	if (kvkit.r.first_error[0])
		T_FAIL("%s", kvkit.r.first_error);
	T_EQ(kvkit.r.errors[0] + kvkit.r.errors[1] + kvkit.r.verify_errors, 0);
	T_EQ(kvkit.r.failed_requests, 0);
	T_OK(!kvkit.r.partial);
}

void kvkit_conserved(void)
{
	const struct kv_counts *n = &kvkit.r.counts;

	T_EQ(n->tier_evicted_out[KV_GPU], n->tier_evicted_in[KV_CPU]);
	T_EQ(n->tier_evicted_out[KV_CPU], n->tier_evicted_in[KV_NVME]);
	for (int t = 0; t < KV_TIERS; t++) {
		T_EQ(n->tier_written[t] - n->tier_evicted_out[t] - n->tier_deleted[t],
		     kvkit.r.used[t]);
		T_EQ(kvkit.objects[t], kvkit.entries[t]);
		T_EQ(kvkit.r.entries[t], kvkit.entries[t]);
	}
}

void kvkit_documents(uint32_t nr)
{
	kvkit.params.rag = true;
	kvkit.params.rag_docs = nr;
	kvkit.params.config.rag_small_tokens[0] = 32;
	kvkit.params.config.rag_small_tokens[1] = 64;
	kvkit.params.config.rag_chunk_tokens = 16;
}

void kvkit_burst(unsigned nr)
{
	FILE *f;

	snprintf(kvkit.burst, sizeof(kvkit.burst), "%s", t_path("burst.csv"));
	f = fopen(kvkit.burst, "w");
	T_OK(f != NULL);
	fprintf(f, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n");
	for (unsigned i = 0; i < nr; i++)
		fprintf(f, "%u,m,%u,20,%u,log\n", 100 * i, 10 + i % 8, 30 + i % 8);
	fclose(f);
	kvkit.params.burst_path = kvkit.burst;
}

void kvkit_overload(void)
{
	kvkit.params.users = 40;
	kvkit.params.max_requests = 0;
	kvkit.params.duration_ns = 1000000000;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.storage_gb = kvkit_mib(512);
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvkit.params.config.user[i] =
			(struct kv_template){{200, 400}, {64, 256}, {0.001, 0.005}};
}

void kvkit_stop(struct kvkit *k)
{
	atomic_store(&k->stop, 1);
}
