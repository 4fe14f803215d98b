/* SPDX-License-Identifier: Apache-2.0 */
/* The KV-cache workload on real storage in all its modes, and the folder it does that in. */
#include "common/t.h"

#include <sys/stat.h>

#include "common/kvkit.h"

#define TOKEN 24576u /* bytes, of tiny-1b */

/* --------------------------------------------------------------------------- modes */

/* Of each user the operations of a request end before the next request arrives. */
static bool nobody_asks_before_the_answer(void)
{
	uint64_t end[10] = {0}, request[10] = {0};

	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		const struct kvkit_op *op = &kvkit.ops[i];

		T_OK(op->user < 10);
		if (op->id != request[op->user] && op->arrival_ns < end[op->user])
			return false;
		request[op->user] = op->id;
		end[op->user] = op->end_ns;
	}
	return true;
}

static void a_closed_loop_has_one_request_per_user(void)
{
	kvkit_overload();
	kvkit.params.closed_loop = true;
	kvkit.params.users = 10;
	kvkit.params.max_requests = 100; /* however long they take */
	kvkit.params.duration_ns = UINT64_C(600000000000);
	kvkit_ok();
	kvkit_clean();
	T_OK(kvkit.most_active <= 10);
	T_OK(((const struct kv_second *)per_second_row(&kvkit.r.seconds, 0))->queued <= 10);
	T_OK(kvkit.r.requests > 0);
	T_OK(nobody_asks_before_the_answer());
}

static void a_user_of_a_closed_loop_goes_on_when_it_is_answered(void)
{
	kvkit.params.closed_loop = true;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.requests, 60);
}

static void the_live_order_serves_by_priority(void)
{
	kvkit.job.order = KV_ORDER_LIVE;
	kvkit_ok();
	kvkit_clean();
	kvkit_conserved();
	T_EQ(kvkit.r.requests, 60);
}

static void prefill_only_reads_nothing_back(void)
{
	kvkit.params.prefill_only = true;
	kvkit.params.multi_turn = kvkit.params.prefix = false;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.counts.prefill_writes, 60);
	T_EQ(kvkit.r.counts.read_ops, 0);
	T_EQ(kvkit.r.decode.n, 0);
}

static void decode_only_reads_what_was_put_in_before(void)
{
	for (int i = 0; i < 2; i++) {
		kvkit.params.decode_only = true;
		kvkit.params.prefix = false;
		kvkit.params.users = 2;
		kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
		kvkit.params.storage_gb = i ? kvkit_mib(500) : 2; /* of 20 entries of 48 MiB */
		kvkit_ok();
		kvkit_clean();
		T_EQ(kvkit.r.counts.prefill_writes, 0);
		T_EQ(kvkit.r.counts.tier_written[KV_NVME], 0);
		T_EQ(kvkit.r.series[1].ops, 0);
		T_OK(kvkit.r.counts.hits > 0);
		T_EQ(kvkit.r.counts.misses != 0, i);
		T_EQ(kvkit.r.entries[KV_NVME], i ? 10 : 20);
		T_OK(kvkit.r.bytes_written >= 20ull * 2048 * TOKEN);
		T_EQ(kvkit.r.prefill.n, 0);
	}
}

static void decode_only_writes_no_prompts(void)
{
	kvkit.params.decode_only = true;
	kvkit.params.config.system_prompt_hit_probability = 1;
	kvkit.params.users = 2;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.storage_gb = 2;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.counts.prefill_writes, 0);
	T_EQ(kvkit.r.counts.tier_written[KV_NVME], 0);
	T_EQ(kvkit.r.entries[KV_NVME], 20);
}

static void preconditioning_fills_the_cache_and_counts_nothing(void)
{
	uint64_t precond = 0;

	kvkit.params.precondition = true;
	kvkit.params.precondition_gb = kvkit_mib(480);
	kvkit.params.precondition_threads = 3;
	kvkit.params.prefix = false;
	kvkit.params.storage_gb = kvkit_mib(200);
	kvkit_ok();
	kvkit_clean();
	for (size_t i = 0; i < kvkit.nr_events; i++)
		precond += kvkit.events[i].key.kind == KV_KEY_PRECOND &&
			   kvkit.events[i].type == KV_EV_WRITE &&
			   kvkit.events[i].phase == KV_PREFILL;
	T_EQ(precond, 10);
	T_EQ(kvkit.r.counts.prefill_writes, 60);
	T_OK(kvkit.r.counts.tier_deleted[KV_NVME] > 0); /* it was full from the beginning */
	T_OK(kvkit.r.bytes_written >= MIB(480));
}

static void documents_are_put_in_and_read(void)
{
	kvkit_documents(2);
	kvkit.params.config.rag_request_probability = 1;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.requests, 60);
	T_OK(kvkit.r.counts.kind_hits[KV_USER] > 60);
	T_EQ(kvkit.r.prefill.n + kvkit.r.decode.n > 0, 1);
}

/* Documents that had to go are gone from the places too. */
static void documents_that_are_forgotten_leave_the_tiers(void)
{
	kvkit_documents(6);
	kvkit.params.config.rag_max_documents = 2;
	kvkit.params.max_requests = 10;
	kvkit.params.storage_gb = 1;
	kvkit_ok();
	kvkit_clean();
	for (int t = 0; t < KV_TIERS; t++)
		T_EQ(kvkit.objects[t], kvkit.entries[t]);
}

static void the_autoscaler_changes_the_load(void)
{
	uint32_t most = 0;

	kvkit.params.autoscale = true;
	kvkit.params.autoscale_mode = KV_SCALE_CAPACITY;
	kvkit.params.max_requests = 0;
	kvkit.params.closed_loop = true; /* so that who comes has not to wait for a backlog */
	kvkit.params.generation = KV_GEN_FAST;
	kvkit.scale_ns = 100000000;
	kvkit_ok();
	T_OK(kvkit.r.nr_scale > 1 && kvkit.r.nr_timeline == kvkit.r.nr_scale);
	T_EQ(kvkit.r.users_start, 8);
	T_OK(!strcmp(kvkit.r.scale[0].action, "scale_up"));
	T_OK(kvkit.r.scale[0].users > 8);
	T_OK(kvkit.most_active > 8);
	for (size_t i = 0; i < kvkit.nr_ops; i++)
		most = kvkit.ops[i].user > most ? kvkit.ops[i].user : most;
	T_OK(most >= 8); /* those who were there before have the numbers up to 7 */
	T_OK(kvkit.r.peak_tokens_per_sec > 0);
	/* it has found the peak, and ends the run long before its time */
	T_OK(!strcmp(kvkit.r.scale[kvkit.r.nr_scale - 1].action, "stop"));
	T_OK(kvkit.r.elapsed_sec < 600);
}

static void upstreams_autoscaler_changes_a_number(void)
{
	kvkit_overload();
	kvkit.params.users = 8;
	kvkit.params.autoscale = true;
	kvkit.params.autoscale_mode = KV_SCALE_CAPACITY;
	kv_params_as_upstream(&kvkit.params);
	kvkit.scale_ns = 100000000;
	kvkit_ok();
	T_OK(kvkit.r.nr_scale > 0 && kvkit.r.scale[0].users > 8);
	T_OK(kvkit.most_active <= 8);
}

/* Requests of a recorded input, and what they come to. */
static void a_recorded_input_is_carried_out_so_many_times(void)
{
	kvkit_burst(8);
	kvkit.params.max_requests = 0;
	kvkit.params.trace_speedup = 0;
	for (uint32_t cycles = 1; cycles <= 2; cycles++) {
		kvkit.params.replay_cycles = cycles;
		kvkit_ok();
		kvkit_clean();
		T_EQ(kvkit.r.requests, 8 * cycles);
		T_EQ(kvkit.r.tokens, 160 * cycles);
		T_OK(kvkit.r.elapsed_sec < 600);
	}
}

static void without_a_gpu_the_tier_is_bookkeeping(void)
{
	kvkit_ok();
	T_OK(kvkit.r.has_gpu && !kvkit.r.gpu_real);
	T_STR_HAS(kvkit.r.gpu_how, "bookkeeping at 64 GB/s");
	T_OK(kvkit.r.counts.tier_written[KV_GPU] > 0);
	T_EQ(kvkit.r.limit[KV_GPU], MIB(4));
}

/* --------------------------------------------------------------------------- folder */

static void a_folder_of_its_own_is_made_and_removed(void)
{
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s", t_path("temporary"));
	T_EQ(mkdir(root, 0700), 0);
	T_EQ(setenv("TMPDIR", root, 1), 0);
	kvkit.job.cache_dir = NULL;
	T_ERR(kv_check(&kvkit.job, &kvkit.err), 0, &kvkit.err);
	T_EQ(kvkit_names(root), 0);
	kvkit_ok();
	T_EQ(kvkit.r.requests, 60);
	T_OK(kvkit.r.path.fs[0]);
	T_EQ(kvkit_names(root), 0);
	unsetenv("TMPDIR");
}

static void foreign_files_are_refused_and_left_alone(void)
{
	char file[PATH_MAX + 16];

	T_EQ(mkdir(kvkit.dir, 0700), 0);
	snprintf(file, sizeof(file), "%s/mine.npy", kvkit.dir);
	t_file_make(file, 1, 1000);
	T_OK(kv_check(&kvkit.job, &kvkit.err) < 0);
	T_STR_HAS(kvkit.err.msg, "mine.npy");
	T_OK(kvkit_go() < 0);
	T_STR_HAS(kvkit.err.msg, "mine.npy");
	T_FILE_PATTERN(file, 1, 1000);
	T_EQ(kvkit_names(kvkit.dir), 1);
}

static void too_little_space_is_refused_before_anything_is_made(void)
{
	kvkit.params.storage_gb = 1e9;
	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		kvkit.job.layout = layout;
		T_EQ(kv_check(&kvkit.job, &kvkit.err), -ENOSPC);
		T_STR_HAS(kvkit.err.msg, "storage tier");
		T_STR_HAS(kvkit.err.msg, kvkit.dir);
		T_OK(access(kvkit.dir, F_OK) < 0);
	}
}

static void too_little_memory_is_refused_before_anything_is_made(void)
{
	kvkit.params.cpu_gb = 10000;
	T_EQ(kv_check(&kvkit.job, &kvkit.err), -ENOMEM);
	T_STR_HAS(kvkit.err.msg, "CPU tier");
	T_STR_HAS(kvkit.err.msg, "9.77 TiB"); /* what is asked for; what there is follows */
	T_OK(access(kvkit.dir, F_OK) < 0);
}

#define CASES(list) #list, kvkit_setup, kvkit_teardown, list, T_COUNT(list)

int main(int argc, char **argv)
{
	static const struct t_case modes[] = {
		T_CASE(a_closed_loop_has_one_request_per_user),
		T_CASE(a_user_of_a_closed_loop_goes_on_when_it_is_answered),
		T_CASE(the_live_order_serves_by_priority),
		T_CASE(prefill_only_reads_nothing_back),
		T_CASE(decode_only_reads_what_was_put_in_before),
		T_CASE(decode_only_writes_no_prompts),
		T_CASE(preconditioning_fills_the_cache_and_counts_nothing),
		T_CASE(documents_are_put_in_and_read),
		T_CASE(documents_that_are_forgotten_leave_the_tiers),
		T_CASE(the_autoscaler_changes_the_load),
		T_CASE(upstreams_autoscaler_changes_a_number),
		T_CASE(a_recorded_input_is_carried_out_so_many_times),
		T_CASE(without_a_gpu_the_tier_is_bookkeeping),
	};
	static const struct t_case folder[] = {
		T_CASE(a_folder_of_its_own_is_made_and_removed),
		T_CASE(foreign_files_are_refused_and_left_alone),
		T_CASE(too_little_space_is_refused_before_anything_is_made),
		T_CASE(too_little_memory_is_refused_before_anything_is_made),
	};
	static const struct t_group groups[] = {
		{CASES(modes)},
		{CASES(folder)},
	};

	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
