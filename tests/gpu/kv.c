/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV-cache workload where there is a GPU: its first tier is device memory.
 *
 *	kv ENGINE [GROUP...]
 */
#include "tests/common/t.h"

#include "tests/common/kvkit.h"
#include "tests/gpu/standin/standin.h"

enum { ILLEGAL_ADDRESS = 700 };

static const char *engine;
static struct standin_count before;

static void setup(void)
{
	before = standin_count();
	kvkit_setup();
	kvkit.job.gpu_simulated = false;
	kvkit.job.opts.engine = t_engine(engine);
}

static void teardown(void)
{
	struct standin_count now;

	standin_fail(NULL, 0, 0, false);
	kvkit_teardown();
	now = standin_count();
	T_EQ(now.allocations, before.allocations);
	T_EQ(now.contexts, before.contexts);
	T_EQ(now.streams, before.streams);
}

static void the_first_tier_is_the_memory_of_the_gpu(void)
{
	T_ERR(kv_check(&kvkit.job, &kvkit.err), 0, &kvkit.err);
	kvkit_ok();
	kvkit_clean();
	kvkit_conserved();
	T_EQ(kvkit.r.requests, 60);
	T_OK(kvkit.r.has_gpu && kvkit.r.gpu_real);
	T_STR_HAS(kvkit.r.gpu_how, "4 MiB of the memory of ");
	T_OK(kvkit.r.counts.tier_read[KV_GPU] > 0);
	T_OK(kvkit.r.counts.tier_evicted_out[KV_GPU] > 0);
	T_OK(kvkit.most[KV_GPU] > MIB(2) && kvkit.most[KV_GPU] <= MIB(4));
}

static void a_simulated_gpu_does_the_same(void)
{
	struct kv_counts real;

	kvkit_ok();
	real = kvkit.r.counts;
	kvkit.job.gpu_simulated = true;
	kvkit_ok();
	kvkit_clean();
	T_OK(!kvkit.r.gpu_real);
	T_MEM(&kvkit.r.counts, &real, sizeof(real));
}

static void upstream_has_the_tier_when_there_is_a_gpu(void)
{
	kv_params_as_upstream(&kvkit.params);
	kvkit_ok();
	kvkit_clean();
	T_OK(kvkit.r.has_gpu && kvkit.r.gpu_real);
	T_OK(kvkit.r.counts.tier_written[KV_GPU] > 0);
}

static void of_the_tiers_of_all_ranks_one_share_is_there(void)
{
	kvkit.params.gpus = kvkit.params.tensor_parallel = 4;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.limit[KV_GPU], MIB(4)); /* four of 4 MiB, four ranks */
	T_OK(kvkit.capacity[KV_GPU] >= MIB(4) && kvkit.capacity[KV_GPU] < MIB(6));
	for (int t = 0; t < KV_TIERS; t++) {
		T_OK(kvkit.r.used[t] <= kvkit.r.limit[t]);
		/* in whole units of 4 KiB, with a header where it is a file */
		T_OK(kvkit.place_used[t] >= kvkit.r.used[t]);
		T_OK(kvkit.place_used[t] <= kvkit.r.used[t] + 8192 * kvkit.entries[t]);
	}
}

static void a_gpu_of_size_0_is_not_looked_for(void)
{
	kvkit.params.gpu_gb = 0;
	kvkit_ok();
	kvkit_clean();
	T_OK(!kvkit.r.gpu_real);
	T_STR_HAS(kvkit.r.gpu_how, "not used");
}

static void more_than_its_share_of_the_gpu_is_refused(void)
{
	kvkit.params.gpu_gb = 10000;
	T_EQ(kv_check(&kvkit.job, &kvkit.err), -ENOMEM);
	T_STR_HAS(kvkit.err.msg, "GPU tier (--gpu-mem-gb): 9.77 TiB needed");
	T_OK(access(kvkit.dir, F_OK) < 0);
	kvkit.params.gpu_gb = kvkit_mib(4);
	kvkit.params.config.gpu_memory_fraction = 1e-9;
	T_EQ(kv_check(&kvkit.job, &kvkit.err), -ENOMEM);
	T_STR_HAS(kvkit.err.msg, "GPU tier (--gpu-mem-gb): 4 MiB needed");
	T_STR_HAS(kvkit.err.msg, "memory_fraction");
}

static void a_copy_that_fails_is_counted_and_loses_the_entry(void)
{
	standin_fail("cuMemcpyAsync", 20, ILLEGAL_ADDRESS, false);
	kvkit_ok();
	T_OK(kvkit.r.errors[0] + kvkit.r.errors[1] == 1);
	T_STR_HAS(kvkit.r.first_error, "CUDA_ERROR_ILLEGAL_ADDRESS");
	for (int t = 0; t < KV_TIERS; t++)
		T_EQ(kvkit.objects[t], kvkit.entries[t]);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(the_first_tier_is_the_memory_of_the_gpu),
		T_CASE(a_simulated_gpu_does_the_same),
		T_CASE(upstream_has_the_tier_when_there_is_a_gpu),
		T_CASE(of_the_tiers_of_all_ranks_one_share_is_there),
		T_CASE(a_gpu_of_size_0_is_not_looked_for),
		T_CASE(more_than_its_share_of_the_gpu_is_refused),
		T_CASE(a_copy_that_fails_is_counted_and_loses_the_entry),
	};
	static const struct t_group groups[] = {
		{"kv", setup, teardown, cases, T_COUNT(cases)},
	};

	engine = argc > 1 ? argv[1] : "threads";
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
