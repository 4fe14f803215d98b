/* SPDX-License-Identifier: Apache-2.0 */
/* The KV-cache workload with a KV store as its storage tier: the store says what it has. */
#include "common/t.h"

#include "common/kvparams.h"
#include "common/kvrun.h"

static void run_store(double mib)
{
	kvrun.job.backend = KV_BACKEND_STORE;
	kvrun.params.storage_gb = kvrun_mib(mib);
	kvrun_ok();
	kvrun_clean();
	T_EQ(kvrun.r.requests, 60);
	T_OK(kvrun.r.has_store);
	T_EQ(kvrun_names(kvrun.dir), 0); /* nothing is left behind */
}

/* Of the reads at storage: what the store has answered, and with what. */
static uint64_t reads(bool hit)
{
	uint64_t n = 0;

	for (size_t i = 0; i < kvrun.nr_ops; i++) {
		const struct kvrun_op *op = &kvrun.ops[i];

		n += op->type == FLOW_READ && op->tier == KV_NVME && !op->missed == hit;
	}
	return n;
}

static void a_store_with_room_has_the_hits_of_files(void)
{
	struct kv_counts files;

	kvrun.job.layout = KV_LAYOUT_RAW;
	kvrun.job.verify = true;
	kvrun.params.storage_gb = kvrun_mib(96);
	kvrun_ok();
	kvrun_clean();
	files = kvrun.r.counts;
	T_OK(files.hits > 100 && files.tier_read[KV_NVME] && !files.tier_deleted[KV_NVME]);
	run_store(96);
	T_MEM(&kvrun.r.counts, &files, sizeof(files));
	T_EQ(kvrun.r.store.hits, reads(true));
	T_EQ(kvrun.r.store.misses + kvrun.r.store.evictions, 0);
	T_EQ(kvrun.r.series[0].bytes, kvrun.r.store.bytes_got);
	T_EQ(kvrun.r.series[1].bytes, kvrun.r.store.bytes_set);
	T_EQ(kvrun.r.used[KV_NVME], kvrun.r.store.value_bytes);
	T_OK(kvrun.r.series[0].verified_bytes > 0);
	T_EQ(kvrun.r.bytes_written, kvrun.r.store.bytes_written);
}

static void what_a_small_store_has_let_go_is_a_miss(void)
{
	const struct kv_counts *n = &kvrun.r.counts;

	run_store(6);
	T_OK(kvrun.r.store.evictions > 0 && kvrun.r.store.misses > 0);
	T_EQ(kvrun.r.store.misses, reads(false));
	T_EQ(kvrun.r.store.hits, reads(true));
	T_OK(n->misses >= kvrun.r.store.misses);
	T_EQ(n->tier_deleted[KV_NVME], 0); /* nobody else has */
	T_EQ(kvrun.r.limit[KV_NVME], MIB(6));
	T_OK(kvrun.r.store.disk_bytes <= MIB(6));
	T_EQ(kvrun.r.series[0].bytes, kvrun.r.store.bytes_got);
	T_EQ(kvrun.r.series[1].bytes, kvrun.r.store.bytes_set);
}

/* With all of it at storage, prompts and what decoding reads are written again; earlier turns not.
 */
static void what_is_computed_again_is_set_again(void)
{
	uint64_t again = 0;

	kvrun.params.gpu_gb = kvrun.params.cpu_gb = 0;
	kvrun.job.policy = PENSTOCK_STORE_LRU;
	run_store(2);
	for (size_t i = 0; i < kvrun.nr_ops; i++)
		again += kvrun.ops[i].type == FLOW_READ && kvrun.ops[i].missed &&
			 kvrun.ops[i].result >= 0;
	T_OK(again > 0 && again < kvrun.r.store.misses);
	T_EQ(kvrun.r.counts.write_ops, kvrun.r.store.stored);
	T_EQ(kvrun.r.counts.hits, kvrun.r.store.hits);
	T_OK(kvrun.r.turn_misses > 0);
}

static void documents_that_are_forgotten_are_deleted(void)
{
	kvrun_documents(10);
	run_store(96);
	kvrun.params.decode_only = true;
	kvrun.params.users = 2; /* of each, ten entries are put in */
	run_store(96);
}

static void a_store_that_is_there_is_left_alone(void)
{
	const char *dir = kvrun.dir;
	struct penstock_store *store;

	T_EQ(penstock_store_open(&store, &dir, 1, MIB(4), NULL, NULL), 0);
	T_EQ(penstock_store_close(store, NULL), 0);
	kvrun.job.backend = KV_BACKEND_STORE;
	T_EQ(kv_check(&kvrun.job, &kvrun.err), -EEXIST);
	T_STR_HAS(kvrun.err.msg, "holds a store already");
	T_EQ(kvrun_go(), -EEXIST);
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
	static const struct t_group group = {"kv_store", kvrun_setup, kvrun_teardown, cases,
					     T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
