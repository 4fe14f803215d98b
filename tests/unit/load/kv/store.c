/* SPDX-License-Identifier: Apache-2.0 */
/* The KV-cache workload with a KV store as its storage tier: the store says what it has. */
#include "common/t.h"

#include "common/kvkit.h"
#include "common/kvparams.h"

static void run_store(double mib)
{
	kvkit.job.backend = KV_BACKEND_STORE;
	kvkit.params.storage_gb = kvkit_mib(mib);
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.requests, 60);
	T_OK(kvkit.r.has_store);
	T_EQ(kvkit_names(kvkit.dir), 0); /* nothing is left behind */
}

/* Of the reads at storage: what the store has answered, and with what. */
static uint64_t reads(bool hit)
{
	uint64_t n = 0;

	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		const struct kvkit_op *op = &kvkit.ops[i];

		n += op->type == FLOW_READ && op->tier == KV_NVME && !op->missed == hit;
	}
	return n;
}

static void a_store_with_room_has_the_hits_of_files(void)
{
	struct kv_counts files;

	kvkit.job.layout = KV_LAYOUT_RAW;
	kvkit.job.verify = true;
	kvkit.params.storage_gb = kvkit_mib(96);
	kvkit_ok();
	kvkit_clean();
	files = kvkit.r.counts;
	T_OK(files.hits > 100 && files.tier_read[KV_NVME] && !files.tier_deleted[KV_NVME]);
	run_store(96);
	T_MEM(&kvkit.r.counts, &files, sizeof(files));
	T_EQ(kvkit.r.store.hits, reads(true));
	T_EQ(kvkit.r.store.misses + kvkit.r.store.evictions, 0);
	T_EQ(kvkit.r.series[0].bytes, kvkit.r.store.bytes_got);
	T_EQ(kvkit.r.series[1].bytes, kvkit.r.store.bytes_set);
	T_EQ(kvkit.r.used[KV_NVME], kvkit.r.store.value_bytes);
	T_OK(kvkit.r.series[0].verified_bytes > 0);
	T_EQ(kvkit.r.bytes_written, kvkit.r.store.bytes_written);
}

static void what_a_small_store_has_let_go_is_a_miss(void)
{
	const struct kv_counts *n = &kvkit.r.counts;

	run_store(6);
	T_OK(kvkit.r.store.evictions > 0 && kvkit.r.store.misses > 0);
	T_EQ(kvkit.r.store.misses, reads(false));
	T_EQ(kvkit.r.store.hits, reads(true));
	T_OK(n->misses >= kvkit.r.store.misses);
	T_EQ(n->tier_deleted[KV_NVME], 0); /* nobody else has */
	T_EQ(kvkit.r.limit[KV_NVME], MIB(6));
	T_OK(kvkit.r.store.disk_bytes <= MIB(6));
	T_EQ(kvkit.r.series[0].bytes, kvkit.r.store.bytes_got);
	T_EQ(kvkit.r.series[1].bytes, kvkit.r.store.bytes_set);
}

/* With all of it at storage, prompts and what decoding reads are written again; earlier turns not.
 */
static void what_is_computed_again_is_set_again(void)
{
	uint64_t again = 0;

	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.job.policy = PENSTOCK_STORE_LRU;
	run_store(2);
	for (size_t i = 0; i < kvkit.nr_ops; i++)
		again += kvkit.ops[i].type == FLOW_READ && kvkit.ops[i].missed &&
			 kvkit.ops[i].result >= 0;
	T_OK(again > 0 && again < kvkit.r.store.misses);
	T_EQ(kvkit.r.counts.write_ops, kvkit.r.store.stored);
	T_EQ(kvkit.r.counts.hits, kvkit.r.store.hits);
	T_OK(kvkit.r.turn_misses > 0);
}

static void documents_that_are_forgotten_are_deleted(void)
{
	kvkit_documents(10);
	run_store(96);
	kvkit.params.decode_only = true;
	kvkit.params.users = 2; /* of each, ten entries are put in */
	run_store(96);
}

static void a_store_that_is_there_is_left_alone(void)
{
	const char *dir = kvkit.dir;
	struct penstock_store *store;

	T_EQ(penstock_store_open(&store, &dir, 1, MIB(4), NULL, NULL), 0);
	T_EQ(penstock_store_close(store, NULL), 0);
	kvkit.job.backend = KV_BACKEND_STORE;
	T_EQ(kv_check(&kvkit.job, &kvkit.err), -EEXIST);
	T_STR_HAS(kvkit.err.msg, "holds a store already");
	T_EQ(kvkit_go(), -EEXIST);
	T_EQ(penstock_store_drop(dir, NULL), 0);
}

static const struct t_case cases[] = {
	T_CASE(a_store_with_room_has_the_hits_of_files),
	T_CASE(what_a_small_store_has_let_go_is_a_miss),
	T_CASE(what_is_computed_again_is_set_again),
	T_CASE(documents_that_are_forgotten_are_deleted),
	T_CASE(a_store_that_is_there_is_left_alone),
};

int main(void)
{
	static const struct t_group group = {"kv_store", kvkit_setup, kvkit_teardown, cases,
					     T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
