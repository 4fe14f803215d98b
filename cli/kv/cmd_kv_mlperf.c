/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice kv mlperf: the options and trials of a submission, each run a process of `sluice kv', and
 * the summary over them.  With --rank-output-base it is one run of one rank: what MLPerf's front
 * end starts by mpirun.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/kv/kv_args.h"
#include "cli/kv/kv_ranks.h"
#include "cli/opt/json.h"
#include "cli/stop.h"
#include "load/report/kv/kv_mlperf.h"

struct mlperf_args {
	const char *cache_dir, *results_dir, *config, *rank_output, *rank_cache;
	struct cli_list options;
	uint32_t trials, npernode, delay, duration, start_delay, end_delay;
	uint64_t seed;
	bool dry_run;
};

static const struct cli_opt mlperf_opts[] = {
	CLI_GROUP("Run"),
	CLI_STR(struct mlperf_args, cache_dir, 0, "cache-dir", "FOLDER", NULL,
		"where the storage to be measured is; each rank has a folder in it"),
	CLI_STR(struct mlperf_args, results_dir, 0, "results-dir", "FOLDER", NULL,
		"where results go; default: a new folder kvcache_run_YYYYmmdd_HHMMSS"),
	CLI_LIST(struct mlperf_args, options, 0, "options", "N", NULL, 1, KV_MLPERF_OPTIONS,
		 "which of the options; default: 1 2 3"),
	CLI_U32(struct mlperf_args, trials, 0, "trials", "N", "3", 1, 1000, "runs of each option"),
	CLI_U32(struct mlperf_args, npernode, 0, "npernode", "N", "1", 1, 1024,
		"ranks at a time on this machine"),
	CLI_U64(struct mlperf_args, seed, 0, "seed", "N", "42", 0, INT64_MAX,
		"of rank 0; each rank's is one more"),
	CLI_ALIAS("seed-base"),
	CLI_U32(struct mlperf_args, delay, 0, "delay", "SECONDS", "20", 0, 86400,
		"pause between options"),
	CLI_U32(struct mlperf_args, duration, 0, "duration", "SECONDS", NULL, 1, 86400,
		"length of a run, for trials: a submission needs 300"),
	CLI_STR(struct mlperf_args, config, 0, "config", "FILE", NULL,
		"settings in YAML: not in a closed submission"),
	CLI_FLAG(struct mlperf_args, dry_run, 0, "dry-run", "print what would be run"),
	CLI_GROUP("One rank of mpirun"),
	CLI_STR(struct mlperf_args, rank_output, 0, "rank-output-base", "FOLDER", NULL,
		"one run of one rank: its result goes to rank_N in here"),
	CLI_STR(struct mlperf_args, rank_cache, 0, "rank-cache-base", "FOLDER", NULL,
		"the rank's storage is rank_N in here"),
	CLI_U32(struct mlperf_args, start_delay, 0, "start-delay", "SECONDS", "90", 0, 86400,
		"pause before it"),
	CLI_U32(struct mlperf_args, end_delay, 0, "end-delay", "SECONDS", "90", 0, 86400,
		"pause after it"),
	CLI_END,
};

struct mlperf {
	const struct mlperf_args *args;
	struct kv_mlperf_run run;
	struct kv_rank rank;
	struct kv_words extra; /* behind `--' */
	char why_not[300];
	char folder[4096];
	const atomic_int *stop;
};

static void now_text(char out[20])
{
	time_t now = time(NULL);
	struct tm tm;

	out[0] = 0;
	if (localtime_r(&now, &tm))
		strftime(out, 20, "%Y%m%d_%H%M%S", &tm);
}

/* ----------------------------------------------------------------- from options */

static int set_options(struct mlperf *m)
{
	const struct cli_list *l = &m->args->options;

	for (size_t i = 0; i < l->nr; i++) {
		const char *s = l->items[i];

		if (strlen(s) != 1 || *s < '1' || *s > '0' + KV_MLPERF_OPTIONS)
			return cli_usage(&cmd_kv_mlperf, "--options: '%s' is not one of 1, 2, 3",
					 s);
		m->run.options[*s - '0'] = true;
	}
	for (unsigned o = 1; !l->nr && o <= KV_MLPERF_OPTIONS; o++)
		m->run.options[o] = true;
	return CLI_OK;
}

/* What keeps the run from being what CLOSED asks for. */
static void find_why_not(struct mlperf *m)
{
	const struct mlperf_args *a = m->args;
	const struct {
		bool is;
		const char *text;
	} all[] = {
		{a->duration && a->duration != KV_MLPERF_DURATION, "--duration is not 300"},
		{a->trials != KV_MLPERF_TRIALS, "--trials is not 3"},
		{!m->run.options[1] || !m->run.options[2] || !m->run.options[3],
		 "not all of the options"},
		{a->seed != KV_MLPERF_SEED, "--seed is not 42"},
		{a->config, "--config is given"},
		{a->delay < 20, "--delay is below 20"},
		{m->extra.nr, "options of sluice kv are given"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].is)
			snprintf(m->why_not + strlen(m->why_not),
				 sizeof(m->why_not) - strlen(m->why_not), "%s%s",
				 *m->why_not ? ", " : "", all[i].text);
	m->run.why_not = *m->why_not ? m->why_not : NULL;
}

static int set_ranks(struct mlperf *m)
{
	int r = kv_rank_get(&m->rank, &cmd_kv_mlperf);

	if (r != CLI_OK)
		return r;
	if (m->rank.rank >= m->rank.size)
		return cli_fail(
			&cmd_kv_mlperf, CLI_FAILED,
			"rank %u of %u: OMPI_COMM_WORLD_SIZE or PMI_SIZE is missing or wrong",
			m->rank.rank, m->rank.size);
	if (m->rank.size > 1 && m->args->npernode > 1)
		return cli_usage(&cmd_kv_mlperf, "--npernode: mpirun has started %u ranks already",
				 m->rank.size);
	if (m->rank.size > 1 && !m->args->results_dir)
		return cli_usage(&cmd_kv_mlperf,
				 "--results-dir: is needed with mpirun, the same for all ranks");
	m->run.npernode = m->rank.size > 1 ? m->rank.local_size : m->args->npernode;
	m->run.ranks = m->rank.size > 1 ? m->rank.size : m->args->npernode;
	m->run.npernode = m->run.npernode ? m->run.npernode : 1;
	m->run.hosts = (m->run.ranks + m->run.npernode - 1) / m->run.npernode;
	return CLI_OK;
}

static int check_folders(struct mlperf *m)
{
	struct sluice_err err = {0, ""};
	char path[4200];

	if (!m->args->cache_dir)
		return cli_usage(&cmd_kv_mlperf,
				 "--cache-dir: is needed (FOLDER: where the storage "
				 "to be measured is)");
	if (kv_cache_dir_check(m->args->cache_dir, &err) < 0)
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "%s", err.msg);
	if (m->args->results_dir)
		snprintf(m->folder, sizeof(m->folder), "%s", m->args->results_dir);
	else
		snprintf(m->folder, sizeof(m->folder), "kvcache_run_%s", m->run.time);
	m->run.folder = m->folder;
	for (unsigned o = 1; m->rank.rank == 0 && o <= KV_MLPERF_OPTIONS; o++) {
		snprintf(path, sizeof(path), "%s/option_%u", m->folder, o);
		if (access(path, F_OK) == 0)
			return cli_fail(&cmd_kv_mlperf, CLI_USAGE,
					"--results-dir: '%s' has results already: option_%u",
					m->folder, o);
	}
	return CLI_OK;
}

static int set_up(struct mlperf *m)
{
	int r = set_options(m);

	m->run.trials = m->args->trials;
	now_text(m->run.time);
	if (r == CLI_OK)
		r = set_ranks(m);
	if (r == CLI_OK)
		r = check_folders(m);
	find_why_not(m);
	return r;
}

/* -------------------------------------------------------------------- one trial */

/* The option as `sluice kv' takes it. */
static void option_words(struct kv_words *w, const struct mlperf *m, unsigned option)
{
	const struct kv_mlperf_option *o = kv_mlperf_option(option);
	uint32_t duration = m->args->duration ? m->args->duration : KV_MLPERF_DURATION;

	kv_word(w, "--model=%s", o->model);
	kv_word(w, "--num-users=%u", o->users);
	kv_word(w, "--duration=%u", duration);
	kv_word(w, "--gpu-mem-gb=0");
	kv_word(w, "--cpu-mem-gb=%u", o->cpu_gb);
	kv_word(w, "--max-concurrent-allocs=%u", o->allocs);
	kv_word(w, "--generation-mode=none");
	if (m->args->config)
		kv_word(w, "--config=%s", m->args->config);
	for (unsigned i = 0; i < m->extra.nr; i++)
		kv_word(w, "%s", m->extra.v[i]);
}

static void note_failures(struct mlperf *m, unsigned option, unsigned trial, unsigned first,
			  const int *status, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		char place[64];

		if (status[i] == 0)
			continue;
		kv_mlperf_place(place, sizeof(place), option, trial, first + i);
		cli_fail(&cmd_kv_mlperf, CLI_FAILED, "%s: exit status %d; see %s/%s/kv.log", place,
			 status[i], m->folder, place);
		json_array_append_new(m->run.failures,
				      json_pack("{s:I, s:I, s:I, s:I}", "option",
						(json_int_t)option, "trial", (json_int_t)trial,
						"rank", (json_int_t)(first + i), "exit_status",
						(json_int_t)status[i]));
	}
}

static void point(char *buf, size_t size, unsigned option, unsigned trial)
{
	snprintf(buf, size, "option_%u_trial_%u", option, trial);
}

static int run_trial(struct mlperf *m, unsigned option, unsigned trial)
{
	bool mpi = m->rank.size > 1;
	unsigned nr = mpi ? 1 : m->run.ranks, first = mpi ? m->rank.rank : 0;
	CLEANUP_FREE int *status = calloc(nr, sizeof(*status));
	CLEANUP_FREE char *out = NULL;
	struct kv_words w = {.nr = 0};
	char when[20], meet[64];
	int e;

	if (!status || asprintf(&out, "%s/option_%u/trial_%u", m->folder, option, trial) < 0) {
		out = NULL;
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "out of memory");
	}
	point(meet, sizeof(meet), option, trial);
	e = kv_meet(m->folder, meet, &m->rank, m->stop);
	fprintf(stderr, "option %u (%s), trial %u of %u, %u rank%s\n", option,
		kv_mlperf_option(option)->name, trial, m->run.trials, m->run.ranks,
		m->run.ranks == 1 ? "" : "s");
	option_words(&w, m, option);
	now_text(when);
	if (e == 0)
		e = kv_ranks_run(&(struct kv_ranks){&w, first, nr, m->args->seed, out,
						    m->args->cache_dir, when, true, m->stop},
				 status);
	if (e == 0)
		note_failures(m, option, trial, first, status, nr);
	kv_words_fini(&w);
	if (e < 0 && e != -ECANCELED)
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "'%s': %s", out, strerror(-e));
	/* a bad option will not get better */
	return e == 0 && status[0] == CLI_USAGE ? CLI_USAGE : CLI_OK;
}

/* --------------------------------------------------------------------- summary */

static int write_summary(const struct mlperf *m, const char *name, json_t *summary)
{
	CLEANUP_FREE char *path = NULL;
	struct cli_file f;
	int r;

	if (asprintf(&path, "%s/%s", m->folder, name) < 0) {
		path = NULL;
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "out of memory");
	}
	r = cli_file_open(&f, &cmd_kv_mlperf, "--results-dir", path);
	if (r != CLI_OK)
		return r;
	return cli_file_finish(&f, &cmd_kv_mlperf, cli_json_dump(f.f, summary, 2), NULL);
}

static int summarize(struct mlperf *m)
{
	json_t *summary = kv_mlperf_summary(&m->run);
	char name[64];
	int r;

	if (!summary)
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "out of memory");
	snprintf(name, sizeof(name), "kvcache_run_summary_%s.json", m->run.time);
	r = write_summary(m, name, summary);
	if (r == CLI_OK)
		r = write_summary(m, "summary.json", summary);
	kv_mlperf_text(stdout, summary);
	if (r == CLI_OK)
		printf("Summary: %s/summary.json\n", m->folder);
	if (r == CLI_OK && json_is_true(json_object_get(summary, "partial_failure")))
		r = cli_fail(&cmd_kv_mlperf, CLI_FAILED, "not all results are there");
	json_decref(summary);
	return r;
}

/* All have got to the end, where only rank 0 waits: nobody looks for these files any more. */
static void forget_points(const struct mlperf *m)
{
	char name[64];

	for (unsigned o = 1; o <= KV_MLPERF_OPTIONS; o++) {
		for (unsigned t = 1; m->run.options[o] && t <= m->run.trials; t++) {
			point(name, sizeof(name), o, t);
			kv_meet_end(m->folder, name, &m->rank);
		}
	}
	kv_meet_end(m->folder, "end", &m->rank);
}

static int run_all(struct mlperf *m)
{
	int r = CLI_OK, e = kv_make_folders(m->folder);
	bool any = false, made = access(m->args->cache_dir, F_OK) < 0;

	if (e == 0)
		e = kv_make_folders(m->args->cache_dir);
	if (e < 0)
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "'%s' or '%s' cannot be made: %s",
				m->folder, m->args->cache_dir, strerror(-e));
	for (unsigned o = 1; o <= KV_MLPERF_OPTIONS && r == CLI_OK; o++) {
		if (!m->run.options[o])
			continue;
		if (any)
			kv_pause(m->args->delay, m->stop);
		any = true;
		for (unsigned t = 1; t <= m->run.trials && r == CLI_OK && !*m->stop; t++)
			r = run_trial(m, o, t);
	}
	if (m->rank.rank != 0)
		kv_arrive(m->folder, "end", &m->rank);
	else if (r == CLI_OK && kv_meet(m->folder, "end", &m->rank, m->stop) == 0)
		forget_points(m);
	if (m->rank.rank == 0 && r == CLI_OK)
		r = summarize(m);
	if (made)
		rmdir(m->args->cache_dir);
	if (*m->stop)
		return cli_fail(&cmd_kv_mlperf, 128 + *m->stop, "interrupted");
	return r;
}

static int show_plan(const struct mlperf *m)
{
	unsigned runs = 0, sec = m->args->duration ? m->args->duration : KV_MLPERF_DURATION;

	for (unsigned o = 1; o <= KV_MLPERF_OPTIONS; o++) {
		struct kv_words w = {.nr = 0};

		if (!m->run.options[o])
			continue;
		option_words(&w, m, o);
		printf("option %u, %s: %u trial%s of %u rank%s:\n  sluice kv", o,
		       kv_mlperf_option(o)->name, m->run.trials, m->run.trials == 1 ? "" : "s",
		       m->run.ranks, m->run.ranks == 1 ? "" : "s");
		for (unsigned i = 0; i < w.nr; i++)
			printf(" %s", w.v[i]);
		printf(" --seed=%" PRIu64 "+RANK --cache-dir=%s/rank_RANK\n", m->args->seed,
		       m->args->cache_dir);
		runs += m->run.trials;
		kv_words_fini(&w);
	}
	printf("Results in %s; at least %u s.\n", m->folder, runs * sec);
	if (m->run.why_not)
		printf("Not as a submission must be: %s\n", m->run.why_not);
	return CLI_OK;
}

/* ------------------------------------------------------------- one rank of many */

/* What upstream's mlperf_wrapper.py does. */
static int run_rank(struct mlperf *m)
{
	const struct mlperf_args *a = m->args;
	int status = 0, e, r = kv_rank_get(&m->rank, &cmd_kv_mlperf);
	char when[20];

	if (r != CLI_OK)
		return r;
	if (!a->rank_output || !a->rank_cache)
		return cli_usage(&cmd_kv_mlperf,
				 "--rank-output-base and --rank-cache-base go together");
	if (a->config)
		kv_word(&m->extra, "--config=%s", a->config);
	if (a->duration)
		kv_word(&m->extra, "--duration=%u", a->duration);
	kv_pause(a->start_delay, m->stop);
	now_text(when);
	e = kv_make_folders(a->rank_cache);
	if (e == 0)
		e = kv_ranks_run(&(struct kv_ranks){&m->extra, m->rank.rank, 1, a->seed,
						    a->rank_output, a->rank_cache, when, false,
						    m->stop},
				 &status);
	if (e < 0)
		return cli_fail(&cmd_kv_mlperf, CLI_FAILED, "rank %u: %s", m->rank.rank,
				strerror(-e));
	kv_pause(a->end_delay, m->stop);
	return status >= 0 ? status : 128 + *m->stop;
}

static int mlperf_main(void *args, int argc, char **argv)
{
	struct mlperf m = {.args = args};
	int r = CLI_OK;

	m.stop = cli_stop_catch();
	for (int i = 0; i < argc; i++)
		kv_word(&m.extra, "%s", argv[i]);
	m.run.failures = json_array();
	if (m.args->rank_output || m.args->rank_cache) {
		r = run_rank(&m);
	} else {
		r = set_up(&m);
		if (r == CLI_OK)
			r = m.args->dry_run ? show_plan(&m) : run_all(&m);
	}
	kv_words_fini(&m.extra);
	json_decref(m.run.failures);
	return r;
}

const struct cli_cmd cmd_kv_mlperf = {
	.name = "kv mlperf",
	.summary = "what an MLPerf submission runs, and its summary",
	.usage = "[-- KV_OPTION...]",
	.opts = mlperf_opts,
	.args_size = sizeof(struct mlperf_args),
	.run = mlperf_main,
};
