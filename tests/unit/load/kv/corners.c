/* SPDX-License-Identifier: Apache-2.0 */
/* Real runs of the KV-cache workload: documents beside requests, and odd folders. */
#include "common/t.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/kvkit.h"

/* -------------------------------------------------------------------- documents */

#define DOCUMENTS 60

/* Documents of many small chunks, and room for all of them. */
static void many_documents(void)
{
	kvkit_documents(DOCUMENTS);
	kvkit.params.config.rag_chunk_tokens = 2;
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.storage_gb = kvkit_mib(512);
}

/* The documents' operations came one after the other; returns when the last one ended. */
static uint64_t one_by_one(void)
{
	uint64_t last = 0;
	unsigned nr = 0;

	for (size_t i = 0; i < kvkit.nr_ops; i++) {
		if (kvkit.ops[i].request)
			continue;
		T_OK(kvkit.ops[i].begin_ns >= last);
		last = kvkit.ops[i].end_ns;
		nr++;
	}
	T_OK(nr >= DOCUMENTS * 16);
	return last;
}

static unsigned writes_before(uint64_t at_ns)
{
	unsigned nr = 0;

	for (size_t i = 0; i < kvkit.nr_ops; i++)
		nr += kvkit.ops[i].request && kvkit.ops[i].type == FLOW_WRITE &&
		      kvkit.ops[i].end_ns < at_ns;
	return nr;
}

static void run_beside_documents(void)
{
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit.r.requests, 60);
	T_OK(kvkit.most_active <= kvkit.params.users);
	T_OK(writes_before(one_by_one()) > 0);
}

static void requests_do_not_wait_for_all_documents(void)
{
	many_documents();
	run_beside_documents();
	kvkit.job.order = KV_ORDER_LIVE;
	run_beside_documents();
}

static void documents_take_no_permit_from_requests(void)
{
	many_documents();
	kvkit.params.max_concurrent_allocs = 1;
	run_beside_documents();
}

/* ----------------------------------------------------------------------- folders */

/* As somebody would who takes the folder for his own. */
static void remove_files(struct kvkit *k)
{
	DIR *d = opendir(k->dir);
	const struct dirent *e;
	unsigned nr = 0;

	T_OK(d != NULL);
	while ((e = readdir(d)))
		if (strstr(e->d_name, ".npy")) {
			T_EQ(unlinkat(dirfd(d), e->d_name, 0), 0);
			nr++;
		}
	closedir(d);
	T_OK(nr > 1);
}

static void an_eviction_of_what_is_gone_is_no_failed_write(void)
{
	kvkit.params.gpu_gb = kvkit.params.cpu_gb = 0;
	kvkit.params.prefill_only = true;
	kvkit.params.multi_turn = kvkit.params.prefix = false;
	kvkit.params.users = 1;
	kvkit.at = 12;
	kvkit.act = remove_files;
	kvkit_ok();
	kvkit_clean();
	kvkit_conserved();
	T_EQ(kvkit.r.requests, 60);
	T_OK(kvkit.r.vanished > 1);
	T_EQ(kvkit_names(kvkit.dir), 0);
}

static void folders_above_are_made_and_removed(void)
{
	char deep[PATH_MAX + 16];

	for (int layout = KV_LAYOUT_NPY; layout <= KV_LAYOUT_SLAB; layout++) {
		snprintf(deep, sizeof(deep), "%s/new//deeper/x%s", kvkit.dir, layout ? "" : "/");
		kvkit.job.layout = layout;
		kvkit.job.cache_dir = deep;
		T_ERR(kv_check(&kvkit.job, &kvkit.err), 0, &kvkit.err);
		T_OK(access(kvkit.dir, F_OK) < 0);
		kvkit_ok();
		kvkit_clean();
		T_OK(kvkit.files > 0);
		T_OK(access(kvkit.dir, F_OK) < 0);
	}
}

static void folders_that_were_there_or_are_used_stay(void)
{
	char deep[PATH_MAX + 16], above[PATH_MAX + 8];

	snprintf(above, sizeof(above), "%s/a", kvkit.dir);
	snprintf(deep, sizeof(deep), "%s/b/c", above);
	T_EQ(mkdir(kvkit.dir, 0755), 0);
	T_EQ(mkdir(above, 0755), 0);
	kvkit.job.cache_dir = deep;
	kvkit_ok();
	kvkit_clean();
	T_EQ(kvkit_names(above), 0);
	T_EQ(kvkit_names(kvkit.dir), 1);
}

#define CASES(list) #list, kvkit_setup, kvkit_teardown, list, T_COUNT(list)

int main(int argc, char **argv)
{
	static const struct t_case documents[] = {
		T_CASE(requests_do_not_wait_for_all_documents),
		T_CASE(documents_take_no_permit_from_requests),
	};
	static const struct t_case folders[] = {
		T_CASE(an_eviction_of_what_is_gone_is_no_failed_write),
		T_CASE(folders_above_are_made_and_removed),
		T_CASE(folders_that_were_there_or_are_used_stay),
	};
	static const struct t_group groups[] = {
		{CASES(documents)},
		{CASES(folders)},
	};

	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
