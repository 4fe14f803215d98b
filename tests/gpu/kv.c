/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV-cache workload where there is a GPU: its first tier is device memory.
 *
 *	kv ENGINE [GROUP...]
 */
#include "tests/common/t.h"

#include "tests/common/kvrun.h"
#include "tests/gpu/standin/standin.h"

enum { ILLEGAL_ADDRESS = 700 };

static const char *engine;
static struct standin_count before;

static void setup(void)
{
	before = standin_count();
	kvrun_setup();
	kvrun.job.gpu_simulated = false;
	kvrun.job.opts.engine = t_engine(engine);
}

static void teardown(void)
{
	struct standin_count now;

	standin_fail(NULL, 0, 0, false);
	kvrun_teardown();
	now = standin_count();
	T_EQ(now.allocations, before.allocations);
	T_EQ(now.contexts, before.contexts);
	T_EQ(now.streams, before.streams);
}

static void the_first_tier_is_the_memory_of_the_gpu(void)
{
	T_ERR(kv_check(&kvrun.job, &kvrun.err), 0, &kvrun.err);
	kvrun_ok();
	kvrun_clean();
	kvrun_conserved();
	T_EQ(kvrun.r.requests, 60);
	T_OK(kvrun.r.has_gpu && kvrun.r.gpu_real);
	T_STR_HAS(kvrun.r.gpu_how, "4 MiB of the memory of ");
	T_OK(kvrun.r.counts.tier_read[KV_GPU] > 0);
	T_OK(kvrun.r.counts.tier_evicted_out[KV_GPU] > 0);
	T_OK(kvrun.most[KV_GPU] > MIB(2) && kvrun.most[KV_GPU] <= MIB(4));
}

static void a_simulated_gpu_does_the_same(void)
{
	struct kv_counts real;

	kvrun_ok();
	real = kvrun.r.counts;
	kvrun.job.gpu_simulated = true;
	kvrun_ok();
	kvrun_clean();
	T_OK(!kvrun.r.gpu_real);
	T_MEM(&kvrun.r.counts, &real, sizeof(real));
}

static void upstream_has_the_tier_when_there_is_a_gpu(void)
{
	kv_params_as_upstream(&kvrun.params);
	kvrun_ok();
	kvrun_clean();
	T_OK(kvrun.r.has_gpu && kvrun.r.gpu_real);
	T_OK(kvrun.r.counts.tier_written[KV_GPU] > 0);
}

static void of_the_tiers_of_all_ranks_one_share_is_there(void)
{
	kvrun.params.gpus = kvrun.params.tensor_parallel = 4;
	kvrun_ok();
	kvrun_clean();
	T_EQ(kvrun.r.limit[KV_GPU], MIB(4)); /* four of 4 MiB, four ranks */
	T_OK(kvrun.capacity[KV_GPU] >= MIB(4) && kvrun.capacity[KV_GPU] < MIB(6));
	for (int t = 0; t < KV_TIERS; t++) {
		T_OK(kvrun.r.used[t] <= kvrun.r.limit[t]);
		/* in whole units of 4 KiB, with a header where it is a file */
		T_OK(kvrun.place_used[t] >= kvrun.r.used[t]);
		T_OK(kvrun.place_used[t] <= kvrun.r.used[t] + 8192 * kvrun.entries[t]);
	}
}

static void a_gpu_of_size_0_is_not_looked_for(void)
{
	kvrun.params.gpu_gb = 0;
	kvrun_ok();
	kvrun_clean();
	T_OK(!kvrun.r.gpu_real);
	T_STR_HAS(kvrun.r.gpu_how, "not used");
}

static void more_than_its_share_of_the_gpu_is_refused(void)
{
	kvrun.params.gpu_gb = 10000;
	T_EQ(kv_check(&kvrun.job, &kvrun.err), -ENOMEM);
	T_STR_HAS(kvrun.err.msg, "GPU tier (--gpu-mem-gb): 9.77 TiB needed");
	T_OK(access(kvrun.dir, F_OK) < 0);
	kvrun.params.gpu_gb = kvrun_mib(4);
	kvrun.params.config.gpu_memory_fraction = 1e-9;
	T_EQ(kv_check(&kvrun.job, &kvrun.err), -ENOMEM);
	T_STR_HAS(kvrun.err.msg, "GPU tier (--gpu-mem-gb): 4 MiB needed");
	T_STR_HAS(kvrun.err.msg, "memory_fraction");
}

static void a_copy_that_fails_is_counted_and_loses_the_entry(void)
{
	standin_fail("cuMemcpyAsync", 20, ILLEGAL_ADDRESS, false);
	kvrun_ok();
	T_OK(kvrun.r.errors[0] + kvrun.r.errors[1] == 1);
	T_STR_HAS(kvrun.r.first_error, "CUDA_ERROR_ILLEGAL_ADDRESS");
	for (int t = 0; t < KV_TIERS; t++)
		T_EQ(kvrun.objects[t], kvrun.entries[t]);
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
