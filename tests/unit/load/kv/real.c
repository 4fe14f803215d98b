/* SPDX-License-Identifier: Apache-2.0 */
/* The KV-cache workload on real storage: what it does, and what of it counts. */
#include "common/t.h"

#include <math.h>

#include "common/kvparams.h"
#include "common/kvrun.h"

#define TOKEN 24576u /* bytes, of tiny-1b */

/* ----------------------------------------------------------------- what is done */

static uint64_t last_end(void)
{
	uint64_t last = 0;

	for (size_t i = 0; i < kvrun.nr_ops; i++)
		last = kvrun.ops[i].end_ns > last ? kvrun.ops[i].end_ns : last;
	return last;
}

static void a_layout(int layout)
{
	kvrun.job.layout = layout;
	kvrun.job.verify = true;
	kvrun_ok();
	T_EQ(kvrun.r.requests, 60);
	kvrun_clean();
	kvrun_conserved();
	T_OK(kvrun.r.counts.tier_deleted[KV_NVME] > 0); /* all tiers were filled */
	T_OK(kvrun.r.counts.hits > 100 && kvrun.r.counts.misses > 0);
	T_EQ(kvrun.r.late, 0);
	T_EQ(kvrun.r.series[0].bytes, kvrun.r.counts.tier_read[KV_NVME]);
	T_EQ(kvrun.r.series[1].bytes, kvrun.r.counts.tier_written[KV_NVME]);
	T_OK(kvrun.r.series[0].cache[0] && kvrun.r.series[1].cache[0]);
	T_STR_HAS(kvrun.r.folder, kvrun.dir);
	T_OK(kvrun.r.series[0].verify && kvrun.r.series[0].verified_bytes > 0);
	T_EQ(kvrun.r.storage_bytes[0], kvrun.r.series[0].bytes);
	T_OK(kvrun.r.storage_bytes[1] >= kvrun.r.series[1].bytes); /* with headers */
	T_OK(fabs((double)(last_end() - kvrun.begin_ns) / 1e9 - kvrun.r.elapsed_sec) < 1e-6);
	T_OK(kvrun.r.elapsed_sec < kvrun.r.wall_sec);
	T_EQ(kvrun_names(kvrun.dir), 0); /* nothing is left behind */
}

static void files_for_numpy_are_written_and_read_back(void)
{
	a_layout(KV_LAYOUT_NPY);
}

static void plain_files_are_written_and_read_back(void)
{
	a_layout(KV_LAYOUT_RAW);
}

static void one_file_for_all_is_written_and_read_back(void)
{
	a_layout(KV_LAYOUT_SLAB);
	T_EQ(kvrun.files, 2); /* in the folder, which was made for it: the slab and its marker */
}

static uint64_t sum_of_events(void)
{
	uint64_t sum = T_SUM;

	for (size_t i = 0; i < kvrun.nr_events; i++) {
		const struct kv_event *ev = &kvrun.events[i];
		uint64_t v[] = {ev->type, ev->tier,  ev->phase,    ev->kind,
				ev->size, ev->key.n, ev->key.user, ev->key.turn};

		sum = t_sum(sum, v, sizeof(v));
	}
	return sum;
}

static void the_same_seed_does_the_same(void)
{
	struct kv_counts first;
	uint64_t sum;

	kvrun_documents(10);
	kvrun_ok();
	kvrun_clean();
	first = kvrun.r.counts;
	sum = sum_of_events();
	kvrun.job.layout = KV_LAYOUT_SLAB;
	kvrun_ok();
	T_EQ(sum_of_events(), sum);
	T_MEM(&kvrun.r.counts, &first, sizeof(first));
	kvrun.params.seed = 43;
	kvrun_ok();
	T_OK(sum_of_events() != sum);
}

/* The line a trace would have for it, but for the time. */
static void line_of(char *line, size_t size, const struct kv_event *ev)
{
	char key[KV_KEY_MAX];

	kv_key_format(key, sizeof(key), ev->key, NULL);
	snprintf(line, size, "%s,%llu,Tier-%u,%s,%s\r\n", ev->type == KV_EV_READ ? "Read" : "Write",
		 (unsigned long long)ev->size, ev->tier, key, kv_phase_names[ev->phase]);
}

static void compare_with_trace(FILE *f)
{
	char line[512], want[512];

	T_OK(f && fgets(line, sizeof(line), f));
	for (size_t i = 0; i < kvrun.nr_events; i++) {
		if (kvrun.events[i].type > KV_EV_READ)
			continue;
		T_OK(fgets(line, sizeof(line), f) != NULL);
		line_of(want, sizeof(want), &kvrun.events[i]);
		T_OK(strchr(line, ',') != NULL);
		T_STR_HAS(strchr(line, ',') + 1, want);
	}
	T_OK(!fgets(line, sizeof(line), f));
}

static void compare(void)
{
	char path[PATH_MAX];
	struct kv_result traced;
	struct penstock_err err;
	FILE *f;

	snprintf(path, sizeof(path), "%s", t_path("trace.csv"));
	kvrun.job.trace_path = path;
	T_EQ(kv_result_init(&traced), 0);
	T_ERR(kv_run_trace(&kvrun.job, &traced, &err), 0, &err);
	kvrun_ok();
	kvrun_clean();
	f = fopen(path, "r");
	compare_with_trace(f);
	fclose(f);
	T_MEM(&kvrun.r.counts, &traced.counts, sizeof(traced.counts));
	T_EQ(kvrun.r.requests, traced.requests);
	T_EQ(kvrun.r.tokens, traced.tokens);
	T_EQ(kvrun.r.turn_hits, traced.turn_hits);
	T_EQ(kvrun.r.turn_misses, traced.turn_misses);
	T_EQ(kvrun.r.prefix_hits, traced.prefix_hits);
	T_EQ(kvrun.r.prefix_misses, traced.prefix_misses);
	T_EQ(kvrun.r.prefix_bytes_saved, traced.prefix_bytes_saved);
	kv_result_fini(&traced);
}

static void a_real_run_does_what_the_trace_says(void)
{
	kvrun_documents(10);
	compare();
}

/* Who waits when a request starts depends on how long those before it took on the virtual clock. */
static void a_flood_is_carried_out_as_the_trace_says(void)
{
	kvrun_burst(300);
	kvrun.params.trace_speedup = 0;
	kvrun.params.max_requests = 0;
	kvrun.params.replay_cycles = 1;
	compare();
	T_EQ(kvrun.r.requests, 300);
}

/* At all times, and not only by the books. */
static void no_tier_is_ever_over_its_limit(void)
{
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvrun.job.layout = layout;
		kvrun.params.users = 40;
		kvrun.params.max_requests = 150;
		kvrun.params.storage_gb = kvrun_mib(16);
		kvrun_ok();
		kvrun_clean();
		for (int t = 0; t < KV_TIERS; t++) {
			/* an NPY file has a header: room for 256 more, and one per 8 tokens */
			uint64_t more = t == KV_NVME && layout == KV_LAYOUT_NPY
						? 4096 * (kvrun.r.limit[t] / (8 * TOKEN) + 257)
						: 0;

			T_OK(kvrun.most[t] > kvrun.r.limit[t] / 2);
			T_OK(kvrun.most[t] <= kvrun.r.limit[t] + more);
			T_EQ(kvrun.capacity[t] > kvrun.r.limit[t], more > 0);
		}
	}
}

static void a_conversation_reads_its_earlier_turns(void)
{
	kvrun.params.users = 1;
	kvrun.params.max_requests = 4;
	kvrun.params.prefix = false;
	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	kvrun.params.config.end_conversation_probability = 0;
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvrun.params.config.user[i].generation[0] =
			kvrun.params.config.user[i].generation[1] = 32;
	kvrun_ok();
	kvrun_clean();
	T_EQ(kvrun.r.counts.prefill_writes, 4);
	T_EQ(kvrun.r.counts.decode_reads, 4 * 2 + (0 + 1 + 2 + 3));
	T_EQ(kvrun.r.counts.kind_hits[KV_MULTI_TURN], 6);
	T_EQ(kvrun.r.turn_hits, 6);
	T_EQ(kvrun.r.counts.misses, 0);
	T_EQ(kvrun.objects[KV_NVME], 4);
	T_EQ(kvrun.files, 5); /* one of them says whose they are */
}

/* Room for three of six turns: some are found, some are not. */
static void turns_that_had_to_go_are_misses(void)
{
	kvrun.params.users = 1;
	kvrun.params.max_requests = 6;
	kvrun.params.prefix = false;
	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	kvrun.params.config.end_conversation_probability = 0;
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvrun.params.config.user[i].context[0] = kvrun.params.config.user[i].context[1] =
			16;
	kvrun.params.storage_gb = 3.0 * 16 * TOKEN / GIB(1);
	kvrun_ok();
	kvrun_clean();
	T_OK(kvrun.r.counts.kind_hits[KV_MULTI_TURN] > 0 && kvrun.r.counts.misses > 0);
	T_EQ(kvrun.r.turn_misses, kvrun.r.counts.misses);
	T_OK(kvrun.files <= 1 + 4 * 4); /* requests are of 4 to 16 tokens */
	T_OK(kvrun.r.counts.tier_deleted[KV_NVME] > 0);
}

static void tokens_of_the_storage_tier_are_those_of_all_shards(void)
{
	uint64_t tokens = 0;

	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	for (uint32_t tp = 1; tp <= 4; tp *= 2) {
		kvrun.params.tensor_parallel = kvrun.params.gpus = tp;
		kvrun.params.storage_gb = 1;
		kvrun_ok();
		kvrun_clean();
		T_EQ(kvrun.r.counts.total_write_bytes % (TOKEN / tp), 0);
		if (tp == 1)
			tokens = (uint64_t)kvrun.r.counts.storage_tokens;
		T_OK(fabs(kvrun.r.counts.storage_tokens - (double)tokens) < 1e-6);
	}
}

/* An entry that is larger than the whole tier is kept all the same, alone. */
static void an_entry_larger_than_the_storage_tier_is_kept(void)
{
	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	kvrun.params.storage_gb = 2.0 * TOKEN / GIB(1);
	kvrun.params.max_requests = 5;
	kvrun.job.verify = true;
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvrun.params.config.user[i].context[0] = kvrun.params.config.user[i].context[1] =
			4000;
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvrun.job.layout = layout;
		kvrun_ok();
		kvrun_clean();
		T_EQ(kvrun.r.requests, 5);
		T_OK(kvrun.r.used[KV_NVME] > kvrun.r.limit[KV_NVME]);
		T_OK(kvrun.r.series[0].verified_bytes > 0);
	}
}

/* --------------------------------------------------------------- who may do what */

static void at_most_so_many_requests_run_as_there_are_workers(void)
{
	kvrun.params.users = 5;
	kvrun.params.generation = KV_GEN_REALISTIC;
	kvrun.params.config.generation_sec[KV_GEN_REALISTIC] = 0.0005;
	kvrun_ok();
	T_OK(kvrun.most_active <= 5);
	T_OK(kvrun.r.generation_sec > 0);
	for (uint64_t i = 0; i < kvrun.r.generation.n; i++)
		T_OK(samples_at(&kvrun.r.end_to_end, i) >= samples_at(&kvrun.r.generation, i));
}

struct allocation {
	uint64_t from, to;
};

/* Allocations from the first eviction to the end of the write. */
static size_t allocations(struct allocation *v, size_t room)
{
	size_t nr = 0;

	for (size_t i = 0; i < kvrun.nr_ops; i++) {
		const struct kvrun_op *end = &kvrun.ops[i];
		size_t k = i;

		if (!end->alloc_end)
			continue;
		while (kvrun.ops[k].chain != end->chain || !kvrun.ops[k].alloc_begin) {
			T_OK(k > 0);
			k--;
		}
		T_OK(nr < room);
		v[nr++] = (struct allocation){kvrun.ops[k].start_ns, end->end_ns};
	}
	return nr;
}

/* Whatever makes room does so within an allocation. */
static bool evictions_are_inside(void)
{
	for (size_t i = 0; i < kvrun.nr_ops; i++) {
		const struct kvrun_op *op = &kvrun.ops[i];
		size_t k = i;

		if (op->type != FLOW_MOVE && op->type != FLOW_DELETE)
			continue;
		while (kvrun.ops[k].chain != op->chain ||
		       !(kvrun.ops[k].alloc_begin || kvrun.ops[k].alloc_end))
			if (!k--)
				return false;
		if (!kvrun.ops[k].alloc_begin)
			return false;
	}
	return true;
}

static unsigned most_at_once(const struct allocation *v, size_t nr)
{
	unsigned most = 0;

	for (size_t i = 0; i < nr; i++) {
		unsigned n = 0;

		for (size_t k = 0; k < nr; k++)
			n += v[k].from <= v[i].from && v[i].from < v[k].to;
		most = n > most ? n : most;
	}
	return most;
}

static void at_most_so_many_allocations_run_as_were_permitted(void)
{
	static struct allocation v[1000];
	unsigned free;
	size_t nr;

	kvrun.params.users = 30;
	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	kvrun_ok();
	nr = allocations(v, T_COUNT(v));
	free = most_at_once(v, nr);
	T_OK(free > 2);
	kvrun.params.max_concurrent_allocs = 2;
	kvrun_ok();
	kvrun_clean();
	nr = allocations(v, T_COUNT(v));
	T_OK(nr >= 60);
	T_OK(most_at_once(v, nr) <= 2);
	T_OK(kvrun.r.counts.evictions > 0 && evictions_are_inside());
}

/* ------------------------------------------------------------------- the interval */

/* Bytes and operations that ended up to @until, by what the hook saw. */
static uint64_t read_until(uint64_t until_ns, uint64_t *ops)
{
	uint64_t bytes = 0;

	*ops = 0;
	for (size_t i = 0; i < kvrun.nr_ops; i++) {
		const struct kvrun_op *op = &kvrun.ops[i];

		if (op->type != FLOW_READ || op->end_ns > until_ns || op->result < 0)
			continue;
		bytes += op->size;
		++*ops;
	}
	return bytes;
}

static void only_what_completes_inside_counts(void)
{
	uint64_t bytes, ops, late = 0, until;

	kvrun_overload();
	kvrun_ok();
	T_OK(kvrun.r.elapsed_sec == 1.0);
	until = kvrun.begin_ns + 1000000000u;
	bytes = read_until(until, &ops);
	T_EQ(kvrun.r.counts.total_read_bytes, bytes);
	T_EQ(kvrun.r.counts.hits, ops);
	for (size_t i = 0; i < kvrun.nr_ops; i++)
		late += kvrun.ops[i].end_ns > until && kvrun.ops[i].begin_ns != 0;
	T_EQ(kvrun.r.late, late);
	T_OK(late > 0);
	T_EQ(kvrun.r.errors[0] + kvrun.r.errors[1], 0);
	T_EQ(kvrun.r.series[0].ops, ops);
	T_OK(kvrun.r.series[0].sec == kvrun.r.elapsed_sec);
	T_EQ(kvrun_names(kvrun.dir), 0);
}

static void seconds_add_up_to_the_whole(void)
{
	uint64_t hits = 0, misses = 0, requests = 0, read = 0, tokens = 0;
	const struct kv_second *first;

	kvrun_overload();
	kvrun_ok();
	T_EQ(kvrun.r.seconds.nr, 1);
	first = per_second_row(&kvrun.r.seconds, 0);
	T_OK(first->queued > 0 && first->in_flight > 0);
	for (uint32_t i = 0; i < kvrun.r.seconds.nr; i++) {
		const struct kv_second *s = per_second_row(&kvrun.r.seconds, i);

		hits += s->hits;
		misses += s->misses;
		requests += s->requests;
		tokens += s->tokens;
		read += s->read_bytes[KV_NVME];
	}
	T_EQ(hits, kvrun.r.counts.hits);
	T_EQ(misses, kvrun.r.counts.misses);
	T_EQ(requests, kvrun.r.requests);
	T_EQ(tokens, kvrun.r.tokens);
	T_EQ(read, kvrun.r.counts.tier_read[KV_NVME]);
}

static void upstream_counts_what_ends_after_the_deadline(void)
{
	uint64_t bytes, ops;

	kvrun_overload();
	kv_params_as_upstream(&kvrun.params);
	kvrun_ok();
	T_OK(kvrun.r.elapsed_sec == 1.0);
	bytes = read_until(UINT64_MAX, &ops);
	T_EQ(kvrun.r.counts.total_read_bytes, bytes);
	T_OK(bytes > read_until(kvrun.begin_ns + 1000000000u, &ops));
	T_EQ(kvrun.r.late, 0);
	T_OK(!kvrun.r.has_gpu && !kvrun.r.gpu_real);
}

/* Latencies are of whole operations, and of whole requests their sum. */
static void latencies_are_consistent(void)
{
	kvrun.params.generation = KV_GEN_FAST;
	kvrun_ok();
	T_EQ(kvrun.r.end_to_end.n, 60);
	T_EQ(kvrun.r.storage.n, 60);
	T_EQ(kvrun.r.prefill.n, 60);
	T_EQ(kvrun.r.decode.n, 60);
	T_EQ(kvrun.r.qos[0].n + kvrun.r.qos[1].n + kvrun.r.qos[2].n, 60);
	T_EQ(kvrun.r.tier[KV_NVME][0].n, kvrun.r.device[0].n);
	T_EQ(kvrun.r.tier[KV_NVME][1].n, kvrun.r.host[1].n);
	T_OK(kvrun.r.evict[KV_NVME][1].n > 0);
	T_OK(kvrun.r.tier[KV_NVME][1].n >= kvrun.r.evict[KV_NVME][1].n);
	for (uint64_t i = 0; i < kvrun.r.device[0].n; i++) {
		double sum = samples_at(&kvrun.r.device[0], i) + samples_at(&kvrun.r.host[0], i);

		T_OK(samples_at(&kvrun.r.device[0], i) > 0 && samples_at(&kvrun.r.host[0], i) >= 0);
		T_OK(fabs(sum - samples_at(&kvrun.r.tier[KV_NVME][0], i)) < 1e-6);
	}
	for (uint64_t i = 0; i < 60; i++) {
		T_OK(samples_at(&kvrun.r.end_to_end, i) >=
		     samples_at(&kvrun.r.storage, i) + samples_at(&kvrun.r.generation, i) - 1e-6);
		T_OK(samples_at(&kvrun.r.decode, i) > 0 &&
		     samples_at(&kvrun.r.decode, i) <= samples_at(&kvrun.r.storage, i));
	}
}

static void upstream_leaves_evictions_out_of_latencies(void)
{
	uint64_t evicted;

	kv_params_as_upstream(&kvrun.params);
	kvrun_ok();
	evicted = kvrun.r.evict[KV_NVME][1].n;
	T_OK(evicted > 0);
	T_EQ(kvrun.r.tier[KV_NVME][1].n + kvrun.r.tier[KV_CPU][1].n, kvrun.r.counts.write_ops);
	T_EQ(kvrun.r.series[1].ops, kvrun.r.tier[KV_NVME][1].n + evicted);
	T_EQ(kvrun.r.device[1].n, kvrun.r.tier[KV_NVME][1].n);
}

static void a_run_that_is_stopped_says_so(void)
{
	uint64_t until, ops;

	kvrun_overload();
	kvrun.params.duration_ns = 600000000000;
	kvrun.at = 100;
	kvrun.act = kvrun_stop;
	kvrun_ok();
	T_OK(kvrun.r.partial);
	T_STR_HAS(kvrun.r.partial_why, "interrupted");
	T_OK(kvrun.r.elapsed_sec > 0 && kvrun.r.elapsed_sec < 600);
	until = kvrun.begin_ns + (uint64_t)(kvrun.r.elapsed_sec * 1e9 + 0.5);
	T_EQ(kvrun.r.counts.total_read_bytes, read_until(until, &ops));
	T_EQ(kvrun_names(kvrun.dir), 0);
}

static void a_run_that_is_stopped_while_it_is_prepared_counts_nothing(void)
{
	kvrun.params.precondition = true;
	kvrun.params.storage_gb = kvrun_mib(512);
	kvrun.at = 3;
	kvrun.act = kvrun_stop;
	kvrun_ok();
	T_OK(kvrun.r.partial);
	T_EQ(kvrun.r.requests, 0);
	T_EQ(kvrun.r.counts.write_ops, 0);
	T_EQ(kvrun_names(kvrun.dir), 0);
}

#define CASES(list) #list, kvrun_setup, kvrun_teardown, list, T_COUNT(list)

int main(int argc, char **argv)
{
	static const struct t_case done[] = {
		T_CASE(files_for_numpy_are_written_and_read_back),
		T_CASE(plain_files_are_written_and_read_back),
		T_CASE(one_file_for_all_is_written_and_read_back),
		T_CASE(the_same_seed_does_the_same),
		T_CASE(a_real_run_does_what_the_trace_says),
		T_CASE(a_flood_is_carried_out_as_the_trace_says),
		T_CASE(no_tier_is_ever_over_its_limit),
		T_CASE(a_conversation_reads_its_earlier_turns),
		T_CASE(turns_that_had_to_go_are_misses),
		T_CASE(tokens_of_the_storage_tier_are_those_of_all_shards),
		T_CASE(an_entry_larger_than_the_storage_tier_is_kept),
		T_CASE(at_most_so_many_requests_run_as_there_are_workers),
		T_CASE(at_most_so_many_allocations_run_as_were_permitted),
	};
	static const struct t_case interval[] = {
		T_CASE(only_what_completes_inside_counts),
		T_CASE(seconds_add_up_to_the_whole),
		T_CASE(upstream_counts_what_ends_after_the_deadline),
		T_CASE(latencies_are_consistent),
		T_CASE(upstream_leaves_evictions_out_of_latencies),
		T_CASE(a_run_that_is_stopped_says_so),
		T_CASE(a_run_that_is_stopped_while_it_is_prepared_counts_nothing),
	};
	static const struct t_group groups[] = {
		{CASES(done)},
		{CASES(interval)},
	};

	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
