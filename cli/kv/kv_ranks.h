/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_KV_KV_RANKS_H
#define SLUICE_CLI_KV_KV_RANKS_H

/*
 * Ranks of a run: processes of `sluice kv', each with its own seed, cache folder and result, as the
 * wrapper of MLPerf's front end starts them.
 */
#include <stdatomic.h>
#include <stdbool.h>

struct cli_cmd;

/* Who this process is among those mpirun started; one of one without it. */
struct kv_rank {
	unsigned rank, size, local_size;
	bool mpi;
};
/* From OMPI_COMM_WORLD_RANK or PMI_RANK.  Returns an exit status after a message. */
int kv_rank_get(struct kv_rank *r, const struct cli_cmd *cmd);

/* The words of a command line; zeroed is empty. */
struct kv_words {
	char *v[128];
	unsigned nr;
	bool failed; /* too many, or no memory */
};
void kv_word(struct kv_words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kv_words_fini(struct kv_words *w);

/*
 * Run `sluice kv' with @common and with what belongs to each of @nr ranks from @first on: --seed
 * @seed + rank, --output @out/rank_N/kvcache_results_@time.json, --cache-dir @cache/rank_N.  What
 * they print goes to a file kv.log beside the result, or where ours goes with @quiet false.
 * status[i] is the exit status of each; 128 + signal where one ended it.  Returns 0, or -errno
 * when one could not be started.
 */
struct kv_ranks {
	const struct kv_words *common;
	unsigned first, nr;
	unsigned long long seed;
	const char *out, *cache, *time;
	bool quiet;
	const atomic_int *stop;
};
int kv_ranks_run(const struct kv_ranks *r, int *status);

/* mkdir -p.  0 or -errno. */
int kv_make_folders(const char *path);
/* Not longer than this; shorter when *@stop is set. */
void kv_pause(double sec, const atomic_int *stop);
/*
 * All of @r->size ranks have got to the point @name: each leaves a file in @folder and waits for
 * those of the others.  0, -ECANCELED, or -errno.
 */
int kv_meet(const char *folder, const char *name, const struct kv_rank *r, const atomic_int *stop);
/* The same without waiting for the others. */
int kv_arrive(const char *folder, const char *name, const struct kv_rank *r);
/* By one of them, when nobody waits there any more: remove the files. */
void kv_meet_end(const char *folder, const char *name, const struct kv_rank *r);

#endif
