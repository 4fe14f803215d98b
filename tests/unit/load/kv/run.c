/* SPDX-License-Identifier: Apache-2.0 */
/* The KV-cache workload on real storage: what it does, and what of it counts. */
#include "common/t.h"

#include <math.h>

#include "common/kvkit.h"
#include "common/kvparams.h"

#define TOKEN 24576u /* bytes, of tiny-1b */

/* ----------------------------------------------------------------- what is done */

static uint64_t last_end(void)
{
	uint64_t last = 0;

	for (size_t i = 0; i < kvkit.nr_ops; i++)
		last = kvkit.ops[i].end_ns > last ? kvkit.ops[i].end_ns : last;
	return last;
}

static void a_layout(int layout)
{
	kvkit.job.layout = layout;
	kvkit.job.verify = true;
	kvkit_ok();
	T_EQ(kvkit.r.requests, 60);
	kvkit_clean();
	kvkit_conserved();
	T_OK(kvkit.r.counts.tier_deleted[KV_NVME] > 0); /* all tiers were filled */
	T_OK(kvkit.r.counts.hits > 100 && kvkit.r.counts.misses > 0);
	T_EQ(kvkit.r.late, 0);
	T_EQ(kvkit.r.series[0].bytes, kvkit.r.counts.tier_read[KV_NVME]);
	T_EQ(kvkit.r.series[1].bytes, kvkit.r.counts.tier_written[KV_NVME]);
	T_OK(kvkit.r.series[0].cache[0] && kvkit.r.series[1].cache[0]);
	T_STR_HAS(kvkit.r.folder, kvkit.dir);
	T_OK(kvkit.r.series[0].verify && kvkit.r.series[0].verified_bytes > 0);
	T_EQ(kvkit.r.storage_bytes[0], kvkit.r.series[0].bytes);
	T_OK(kvkit.r.storage_bytes[1] >= kvkit.r.series[1].bytes); /* with headers */
	T_OK(fabs((double)(last_end() - kvkit.begin_ns) / 1e9 - kvkit.r.elapsed_sec) < 1e-6);
	T_OK(kvkit.r.elapsed_sec < kvkit.r.wall_sec);
	T_EQ(kvkit_names(kvkit.dir), 0); /* nothing is left behind */
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
	T_EQ(kvkit.files, 2); /* in the folder, which was made for it: the slab and its marker */
}

static uint64_t sum_of_events(void)
{
	uint64_t sum = T_SUM;

	for (size_t i = 0; i < kvkit.nr_events; i++) {
		const struct kv_event *ev = &kvkit.events[i];
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

	kvkit_documents(10);
	kvkit_ok();
	kvkit_clean();
	first = kvkit.r.counts;
	sum = sum_of_events();
	kvkit.job.layout = KV_LAYOUT_SLAB;
	kvkit_ok();
	T_EQ(sum_of_events(), sum);
	T_MEM(&kvkit.r.counts, &first, sizeof(first));
	kvkit.params.seed = 43;
	kvkit_ok();
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
	for (size_t i = 0; i < kvkit.nr_events; i++) {
		if (kvkit.events[i].type > KV_EV_READ)
			continue;
		T_OK(fgets(line, sizeof(line), f) != NULL);
		line_of(want, sizeof(want), &kvkit.events[i]);
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
	kvkit.job.trace_path = path;
	T_EQ(kv_result_init(&traced), 0);
	T_ERR(kv_run_trace(&kvkit.job, &traced, &err), 0, &err);
	kvkit_ok();
	kvkit_clean();
	f = fopen(path, "r");
	compare_with_trace(f);
	fclose(f);
	T_MEM(&kvkit.r.counts, &traced.counts, sizeof(traced.counts));
	T_EQ(kvkit.r.requests, traced.requests);
	T_EQ(kvkit.r.tokens, traced.tokens);
	T_EQ(kvkit.r.turn_hits, traced.turn_hits);
	T_EQ(kvkit.r.turn_misses, traced.turn_misses);
	T_EQ(kvkit.r.prefix_hits, traced.prefix_hits);
	T_EQ(kvkit.r.prefix_misses, traced.prefix_misses);
	T_EQ(kvkit.r.prefix_bytes_saved, traced.prefix_bytes_saved);
	kv_result_fini(&traced);
}

static void a_real_run_does_what_the_trace_says(void)
{
	kvkit_documents(10);
	compare();
}

/* Who waits when a request starts depends on how long those before it took on the virtual clock. */
static void a_flood_is_carried_out_as_the_trace_says(void)
{
	kvkit_burst(300);
	kvkit.params.trace_speedup = 0;
	kvkit.params.max_requests = 0;
	kvkit.params.replay_cycles = 1;
	compare();
	T_EQ(kvkit.r.requests, 300);
}

/* At all times, and not only by the books. */
static void no_tier_is_ever_over_its_limit(void)
{
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvkit.job.layout = layout;
		kvkit.params.users = 40;
		kvkit.params.max_requests = 150;
		kvkit.params.storage_gb = kvkit_mib(16);
		kvkit_ok();
		kvkit_clean();
		for (int t = 0; t < KV_TIERS; t++) {
			/* an NPY file has a header: room for 256 more, and one per 8 tokens */
			uint64_t more = t == KV_NVME && layout == KV_LAYOUT_NPY
						? 4096 * (kvkit.r.limit[t] / (8 * TOKEN) + 257)
						: 0;

			T_OK(kvkit.most[t] > kvkit.r.limit[t] / 2);
			T_OK(kvkit.most[t] <= kvkit.r.limit[t] + more);
			T_EQ(kvkit.capacity[t] > kvkit.r.limit[t], more > 0);
		}
	}
}

static void a_conversation_reads_its_earlier_turns(void)
{
	kvkit.params.users = 1;
	kvkit.params.max_requests = 4;
	kvkit.params.prefix = false;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.config.end_conversation_probability = 0;
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvkit.params.config.user[i].generation[0] =
			kvkit.params.config.user[i].generation[1] = 32;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.counts.prefill_writes, 4);
	T_EQ(kvkit.r.counts.decode_reads, 4 * 2 + (0 + 1 + 2 + 3));
	T_EQ(kvkit.r.counts.kind_hits[KV_MULTI_TURN], 6);
	T_EQ(kvkit.r.turn_hits, 6);
	T_EQ(kvkit.r.counts.misses, 0);
	T_EQ(kvkit.objects[KV_NVME], 4);
	T_EQ(kvkit.files, 5); /* one of them says whose they are */
}

/* Room for three of six turns: some are found, some are not. */
static void turns_that_had_to_go_are_misses(void)
{
	kvkit.params.users = 1;
	kvkit.params.max_requests = 6;
	kvkit.params.prefix = false;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.config.end_conversation_probability = 0;
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvkit.params.config.user[i].context[0] = kvkit.params.config.user[i].context[1] =
			16;
	kvkit.params.storage_gb = 3.0 * 16 * TOKEN / GIB(1);
	kvkit_ok();
	kvkit_clean();
	T_OK(kvkit.r.counts.kind_hits[KV_MULTI_TURN] > 0 && kvkit.r.counts.misses > 0);
	T_EQ(kvkit.r.turn_misses, kvkit.r.counts.misses);
	T_OK(kvkit.files <= 1 + 4 * 4); /* requests are of 4 to 16 tokens */
	T_OK(kvkit.r.counts.tier_deleted[KV_NVME] > 0);
}

static void tokens_of_the_storage_tier_are_those_of_all_shards(void)
{
	uint64_t tokens = 0;

	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	for (uint32_t tp = 1; tp <= 4; tp *= 2) {
		kvkit.params.tensor_parallel = kvkit.params.gpus = tp;
		kvkit.params.storage_gb = 1;
		kvkit_ok();
		kvkit_clean();
		T_EQ(kvkit.r.counts.total_write_bytes % (TOKEN / tp), 0);
		if (tp == 1)
			tokens = (uint64_t)kvkit.r.counts.storage_tokens;
		T_OK(fabs(kvkit.r.counts.storage_tokens - (double)tokens) < 1e-6);
	}
}

/* An entry that is larger than the whole tier is kept all the same, alone. */
static void an_entry_larger_than_the_storage_tier_is_kept(void)
{
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.storage_gb = 2.0 * TOKEN / GIB(1);
	kvkit.params.max_requests = 5;
	kvkit.job.verify = true;
	for (int i = 0; i < KV_TEMPLATES; i++)
		kvkit.params.config.user[i].context[0] = kvkit.params.config.user[i].context[1] =
			4000;
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvkit.job.layout = layout;
		kvkit_ok();
		kvkit_clean();
		T_EQ(kvkit.r.requests, 5);
		T_OK(kvkit.r.used[KV_NVME] > kvkit.r.limit[KV_NVME]);
		T_OK(kvkit.r.series[0].verified_bytes > 0);
	}
}

/* --------------------------------------------------------------- who may do what */

static void at_most_so_many_requests_run_as_there_are_workers(void)
{
	kvkit.params.users = 5;
	kvkit.params.generation = KV_GEN_REALISTIC;
	kvkit.params.config.generation_sec[KV_GEN_REALISTIC] = 0.0005;
	kvkit_ok();
	T_OK(kvkit.most_active <= 5);
	T_OK(kvkit.r.generation_sec > 0);
	for (uint64_t i = 0; i < kvkit.r.generation.n; i++)
		T_OK(samples_at(&kvkit.r.end_to_end, i) >= samples_at(&kvkit.r.generation, i));
}

struct allocation {
	uint64_t from, to;
};

/* Allocations from the first eviction to the end of the write. */
static size_t allocations(struct allocation *v, size_t room)
{
	size_t nr = 0;

	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		const struct kvkit_op *end = &kvkit.ops[i];
		size_t k = i;

		if (!end->alloc_end)
			continue;
		while (kvkit.ops[k].chain != end->chain || !kvkit.ops[k].alloc_begin) {
			T_OK(k > 0);
			k--;
		}
		T_OK(nr < room);
		v[nr++] = (struct allocation){kvkit.ops[k].start_ns, end->end_ns};
	}
	return nr;
}

/* Whatever makes room does so within an allocation. */
static bool evictions_are_inside(void)
{
	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		const struct kvkit_op *op = &kvkit.ops[i];
		size_t k = i;

		if (op->type != FLOW_MOVE && op->type != FLOW_DELETE)
			continue;
		while (kvkit.ops[k].chain != op->chain ||
		       !(kvkit.ops[k].alloc_begin || kvkit.ops[k].alloc_end))
			if (!k--)
				return false;
		if (!kvkit.ops[k].alloc_begin)
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

	kvkit.params.users = 30;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit_ok();
	nr = allocations(v, T_COUNT(v));
	free = most_at_once(v, nr);
	T_OK(free > 2);
	kvkit.params.max_concurrent_allocs = 2;
	kvkit_ok();
	kvkit_clean();
	nr = allocations(v, T_COUNT(v));
	T_OK(nr >= 60);
	T_OK(most_at_once(v, nr) <= 2);
	T_OK(kvkit.r.counts.evictions > 0 && evictions_are_inside());
}

/* ------------------------------------------------------------------- the interval */

/* Bytes and operations that ended up to @until, by what the hook saw. */
static uint64_t read_until(uint64_t until_ns, uint64_t *ops)
{
	uint64_t bytes = 0;

	*ops = 0;
	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		const struct kvkit_op *op = &kvkit.ops[i];

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

	kvkit_overload();
	kvkit_ok();
	T_OK(kvkit.r.elapsed_sec == 1.0);
	until = kvkit.begin_ns + 1000000000u;
	bytes = read_until(until, &ops);
	T_EQ(kvkit.r.counts.total_read_bytes, bytes);
	T_EQ(kvkit.r.counts.hits, ops);
	for (size_t i = 0; i < kvkit.nr_ops; i++)
		late += kvkit.ops[i].end_ns > until && kvkit.ops[i].begin_ns != 0;
	T_EQ(kvkit.r.late, late);
	T_OK(late > 0);
	T_EQ(kvkit.r.errors[0] + kvkit.r.errors[1], 0);
	T_EQ(kvkit.r.series[0].ops, ops);
	T_OK(kvkit.r.series[0].sec == kvkit.r.elapsed_sec);
	T_EQ(kvkit_names(kvkit.dir), 0);
}

static void seconds_add_up_to_the_whole(void)
{
	uint64_t hits = 0, misses = 0, requests = 0, read = 0, tokens = 0;
	const struct kv_second *first;

	kvkit_overload();
	kvkit_ok();
	T_EQ(kvkit.r.seconds.nr, 1);
	first = per_second_row(&kvkit.r.seconds, 0);
	T_OK(first->queued > 0 && first->in_flight > 0);
	for (uint32_t i = 0; i < kvkit.r.seconds.nr; i++) {
		const struct kv_second *s = per_second_row(&kvkit.r.seconds, i);

		hits += s->hits;
		misses += s->misses;
		requests += s->requests;
		tokens += s->tokens;
		read += s->read_bytes[KV_NVME];
	}
	T_EQ(hits, kvkit.r.counts.hits);
	T_EQ(misses, kvkit.r.counts.misses);
	T_EQ(requests, kvkit.r.requests);
	T_EQ(tokens, kvkit.r.tokens);
	T_EQ(read, kvkit.r.counts.tier_read[KV_NVME]);
}

static void upstream_counts_what_ends_after_the_deadline(void)
{
	uint64_t bytes, ops;

	kvkit_overload();
	kv_params_as_upstream(&kvkit.params);
	kvkit_ok();
	T_OK(kvkit.r.elapsed_sec == 1.0);
	bytes = read_until(UINT64_MAX, &ops);
	T_EQ(kvkit.r.counts.total_read_bytes, bytes);
	T_OK(bytes > read_until(kvkit.begin_ns + 1000000000u, &ops));
	T_EQ(kvkit.r.late, 0);
	T_OK(!kvkit.r.has_gpu && !kvkit.r.gpu_real);
}

/* Latencies are of whole operations, and of whole requests their sum. */
static void latencies_are_consistent(void)
{
	kvkit.params.generation = KV_GEN_FAST;
	kvkit_ok();
	T_EQ(kvkit.r.end_to_end.n, 60);
	T_EQ(kvkit.r.storage.n, 60);
	T_EQ(kvkit.r.prefill.n, 60);
	T_EQ(kvkit.r.decode.n, 60);
	T_EQ(kvkit.r.qos[0].n + kvkit.r.qos[1].n + kvkit.r.qos[2].n, 60);
	T_EQ(kvkit.r.tier[KV_NVME][0].n, kvkit.r.device[0].n);
	T_EQ(kvkit.r.tier[KV_NVME][1].n, kvkit.r.host[1].n);
	T_OK(kvkit.r.evict[KV_NVME][1].n > 0);
	T_OK(kvkit.r.tier[KV_NVME][1].n >= kvkit.r.evict[KV_NVME][1].n);
	for (uint64_t i = 0; i < kvkit.r.device[0].n; i++) {
		double sum = samples_at(&kvkit.r.device[0], i) + samples_at(&kvkit.r.host[0], i);

		T_OK(samples_at(&kvkit.r.device[0], i) > 0 && samples_at(&kvkit.r.host[0], i) >= 0);
		T_OK(fabs(sum - samples_at(&kvkit.r.tier[KV_NVME][0], i)) < 1e-6);
	}
	for (uint64_t i = 0; i < 60; i++) {
		T_OK(samples_at(&kvkit.r.end_to_end, i) >=
		     samples_at(&kvkit.r.storage, i) + samples_at(&kvkit.r.generation, i) - 1e-6);
		T_OK(samples_at(&kvkit.r.decode, i) > 0 &&
		     samples_at(&kvkit.r.decode, i) <= samples_at(&kvkit.r.storage, i));
	}
}

static void upstream_leaves_evictions_out_of_latencies(void)
{
	uint64_t evicted;

	kv_params_as_upstream(&kvkit.params);
	kvkit_ok();
	evicted = kvkit.r.evict[KV_NVME][1].n;
	T_OK(evicted > 0);
	T_EQ(kvkit.r.tier[KV_NVME][1].n + kvkit.r.tier[KV_CPU][1].n, kvkit.r.counts.write_ops);
	T_EQ(kvkit.r.series[1].ops, kvkit.r.tier[KV_NVME][1].n + evicted);
	T_EQ(kvkit.r.device[1].n, kvkit.r.tier[KV_NVME][1].n);
}

static void a_run_that_is_stopped_says_so(void)
{
	uint64_t until, ops;

	kvkit_overload();
	kvkit.params.duration_ns = 600000000000;
	kvkit.at = 100;
	kvkit.act = kvkit_stop;
	kvkit_ok();
	T_OK(kvkit.r.partial);
	T_STR_HAS(kvkit.r.partial_why, "interrupted");
	T_OK(kvkit.r.elapsed_sec > 0 && kvkit.r.elapsed_sec < 600);
	until = kvkit.begin_ns + (uint64_t)(kvkit.r.elapsed_sec * 1e9 + 0.5);
	T_EQ(kvkit.r.counts.total_read_bytes, read_until(until, &ops));
	T_EQ(kvkit_names(kvkit.dir), 0);
}

static void a_run_that_is_stopped_while_it_is_prepared_counts_nothing(void)
{
	kvkit.params.precondition = true;
	kvkit.params.storage_gb = kvkit_mib(512);
	kvkit.at = 3;
	kvkit.act = kvkit_stop;
	kvkit_ok();
	T_OK(kvkit.r.partial);
	T_EQ(kvkit.r.requests, 0);
	T_EQ(kvkit.r.counts.write_ops, 0);
	T_EQ(kvkit_names(kvkit.dir), 0);
}

#define CASES(list) #list, kvkit_setup, kvkit_teardown, list, T_COUNT(list)

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
