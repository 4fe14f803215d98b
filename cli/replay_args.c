/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a replay. */
#include "cli/replay_args.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "cli/cli_s3.h"
#include "cli/hosts.h"
#include "cli/opt/opt.h"
#include "load/report/jobs/replay_report.h"
#include "load/report/result/report_lines.h"

#define DEPTH_PACED    1024 /* enough that the pace is the trace's */
#define DEPTH_FLAT_OUT 64

/* One value each time, and a comma is a letter like others. */
#define TARGETS(field_, letter_, name_, meta_, help_)                                        \
	{                                                                                    \
		.kind = CLI_KIND_LIST, .single = true, .role = CLI_ROLE_OBJECT,              \
		.letter = (letter_), .name = (name_), .meta = (meta_), .min = 1, .max = 64,  \
		.at = CLI_AT(struct replay_setup, field_, struct cli_list), .help = (help_), \
	}

const struct cli_opt replay_opts[] = {
	CLI_TABLE(struct replay_setup, in, struct cli_trace_in, cli_trace_in_opts),
	CLI_GROUP("Where"),
	TARGETS(target, 'f', "target", "TARGET",
		"for rows of Tier-2 and without a tier: a folder, s3://BUCKET/PREFIX, ...; a file, "
		"a block device, memory, gpu[:N], null[:BYTES_PER_SECOND], store:DIR[,DIR...]; "
		"several folders share the objects"),
	CLI_ALIAS("folder"),
	TARGETS(tier, 0, "tier", "N=TARGET",
		"for rows of one tier; rows of tiers without a target are passed over"),
	CLI_WORD(struct replay_setup, job.layout, 0, "layout", replay_layout_words, "files",
		 "of a folder: a file per object, the same in sub-folders by hash, or one file for "
		 "all"),
	CLI_SIZE(
		struct replay_setup, job.capacity, 0, "capacity", "BYTES", NULL, 4096, 1ull << 60,
		"of each target: what has not been used for longest is deleted; default: no limit"),
	CLI_WORD(struct replay_setup, job.policy, 0, "policy", report_policy_words, "s3-fifo",
		 "of a store: what goes when it is full"),
	CLI_FLAG(struct replay_setup, job.keep, 'k', "keep", "leave the objects for a later run"),
	CLI_FLAG(struct replay_setup, job.reuse, 0, "reuse",
		 "begin with what an earlier run has left, even one that was killed"),
	CLI_FLAG(struct replay_setup, job.fresh, 0, "fresh",
		 "remove what --keep has left, which is used otherwise"),
	CLI_FLAG(struct replay_setup, job.new_files, 0, "new-files",
		 "make new files instead of writing over those of deleted objects"),
	CLI_FLAG(struct replay_setup, no_check, 0, "no-check",
		 "do not read the trace beforehand, to see what it needs"),
	CLI_GROUP("When"),
	CLI_STR(struct replay_setup, pace, 0, "pace", "recorded|FACTOR|flat-out", "recorded",
		"at the times of the trace, so many times as fast, or as fast as possible",
		.often = true),
	CLI_U32(struct replay_setup, job.depth, 0, "in-flight", "N", NULL, 1, 65536,
		"operations in flight at most; default: 64 flat out, else 1024"),
	CLI_GROUP("What"),
	CLI_WORD(struct replay_setup, job.missing, 0, "missing", replay_missing_words, "create",
		 "reads of what was never written: make it, pass over them, or stop"),
	CLI_FLAG(struct replay_setup, job.prefill, 0, "prefill",
		 "make what is read before it is written beforehand, unmeasured"),
	CLI_FLAG(struct replay_setup, job.verify, 0, "verify", "compare every byte that is read"),
	CLI_U64(struct replay_setup, job.seed, 0, "seed", "N", "1", 0, INT64_MAX,
		"of the content, and of the model"),
	CLI_GROUP("How"),
	CLI_TABLE(struct replay_setup, job.opts, struct penstock_opts, cli_engine_opts),
	CLI_DURABILITY(struct replay_setup, job.durability, "none"),
	CLI_TABLE(struct replay_setup, requests, struct cli_requests, cli_requests_opts),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct replay_setup, job.s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_FLAG(struct replay_setup, dry_run, 0, "dry-run",
		 "print what would be done and how much room it needs", .quiet = true),
	CLI_OUT(struct replay_setup, export_fio, 0, "export-fio", "FILE", NULL,
		"write a job for fio with the same sizes, mix and depth"),
	CLI_TABLE(struct replay_setup, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* --------------------------------------------------------------------- targets */

/* "gpu", or "gpu:1": what is behind the colon, or NULL when it is something else. */
static const char *after_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(text, word, n) != 0 || (text[n] && text[n] != ':'))
		return NULL;
	return text[n] ? text + n + 1 : text + n;
}

static int set_words(struct replay_target *t, const char *option, const char *text, bool *known)
{
	const char *rest;
	uint64_t rate = 0;
	int64_t device = 0;

	*known = true;
	if ((rest = after_word(text, "memory")) && !*rest) {
		t->kind = PLACE_MEMORY;
	} else if ((rest = after_word(text, "gpu"))) {
		t->kind = PLACE_GPU;
		if (*rest && (cli_int_parse(&device, rest) < 0 || device < 0 || device > 255))
			return cli_usage(&cmd_replay, "%s: '%s': the number of a GPU is 0..255",
					 option, text);
		t->device = (unsigned)device;
	} else if ((rest = after_word(text, "null"))) {
		t->kind = PLACE_NULL;
		if (*rest && (penstock_size_parse(&rate, rest) < 0 || !rate))
			return cli_usage(&cmd_replay,
					 "%s: '%s': give bytes per second, or a number with K, M "
					 "or G",
					 option, text);
		t->bytes_per_sec = (double)rate;
	} else {
		*known = false;
	}
	return CLI_OK;
}

static bool is_store(const char *text)
{
	return !strncmp(text, "store:", 6);
}

/* "store:DIR,DIR": the directories are one store. */
static int set_store(struct replay_setup *s, unsigned tier, const char *option, const char *text)
{
	struct replay_target *t = &s->job.tiers[tier];
	char *dirs = strdup(text + 6), *at = dirs, *dir;

	if (!dirs)
		return cli_fail(&cmd_replay, CLI_FAILED, "out of memory");
	s->dirs[tier] = dirs;
	*t = (struct replay_target){.used = true, .kind = PLACE_STORE, .paths = s->paths[tier]};
	while ((dir = strsep(&at, ","))) {
		if (!*dir || t->nr_paths == ARRAY_SIZE(s->paths[0]))
			return cli_usage(&cmd_replay, "%s: '%s': give 1 to %zu directories", option,
					 text, ARRAY_SIZE(s->paths[0]));
		s->paths[tier][t->nr_paths++] = dir;
		if (cli_hosts_place(&s->paths[tier][t->nr_paths - 1], &cmd_replay) != CLI_OK)
			return CLI_FAILED;
	}
	return CLI_OK;
}

static int add_target(struct replay_setup *s, unsigned tier, const char *option, const char *text)
{
	struct replay_target *t = &s->job.tiers[tier], other = {.used = true};
	bool known;
	int r = set_words(&other, option, text, &known);

	if (r != CLI_OK)
		return r;
	if (!*text)
		return cli_usage(&cmd_replay, "%s: a target has no name", option);
	if (t->used && (known || t->kind != PLACE_FILES || is_store(text) || cli_is_object(text)))
		return cli_usage(&cmd_replay,
				 "%s: '%s': only folders, files and devices can be several", option,
				 text);
	if (known) {
		*t = other;
		return CLI_OK;
	}
	if (is_store(text))
		return set_store(s, tier, option, text);
	if (t->nr_paths == ARRAY_SIZE(s->paths[0]))
		return cli_usage(&cmd_replay, "%s: more than %zu targets", option,
				 ARRAY_SIZE(s->paths[0]));
	t->used = true;
	t->kind = cli_is_object(text) ? PLACE_BUCKET : PLACE_FILES;
	t->paths = s->paths[tier];
	s->paths[tier][t->nr_paths++] = text;
	return cli_hosts_place(&s->paths[tier][t->nr_paths - 1], &cmd_replay);
}

static int set_tier(struct replay_setup *s, const char *text)
{
	struct penstock_err err = {0, ""};
	const char *target;

	if (text[0] < '0' || text[0] >= '0' + TRACE_TIERS || text[1] != '=')
		return cli_usage(&cmd_replay, "--tier: '%s': give 0, 1 or 2, = and a target", text);
	if (cli_name(&target, CLI_ROLE_OBJECT, text + 2, &err) < 0)
		return cli_usage(&cmd_replay, "--tier: %s", err.msg);
	return add_target(s, (unsigned)(text[0] - '0'), "--tier", target);
}

static int set_targets(struct replay_setup *s)
{
	int r = CLI_OK;

	for (size_t i = 0; r == CLI_OK && i < s->tier.nr; i++)
		r = set_tier(s, s->tier.items[i]);
	if (r == CLI_OK && s->target.nr && s->job.tiers[2].used)
		return cli_usage(&cmd_replay, "--target and --tier 2= exclude each other");
	for (size_t i = 0; r == CLI_OK && i < s->target.nr; i++) {
		r = add_target(s, 2, "--target", s->target.items[i]);
		if (r == CLI_OK)
			r = add_target(s, REPLAY_NO_TIER, "--target", s->target.items[i]);
	}
	if (r == CLI_OK && !s->target.nr && !s->tier.nr)
		return cli_usage(&cmd_replay,
				 "--target: one is needed: a folder, a file, a block device, "
				 "memory, gpu, null, store:DIR or s3://BUCKET/PREFIX");
	return r;
}

/* --------------------------------------------------------------------- the rest */

static int set_pace(struct replay_job *job, const char *pace)
{
	if (!strcmp(pace, "recorded"))
		job->pace = 1;
	else if (!strcmp(pace, "flat-out"))
		job->pace = 0;
	else if (cli_dbl_parse(&job->pace, pace) < 0 || job->pace < 1e-6 || job->pace > 1e9)
		return cli_usage(&cmd_replay,
				 "--pace: '%s': give recorded, flat-out or a number above 0, as 2 "
				 "for twice as fast",
				 pace);
	job->depth = job->depth ? job->depth : job->pace > 0 ? DEPTH_PACED : DEPTH_FLAT_OUT;
	if (job->depth > replay_max_depth()) {
		job->depth = replay_max_depth();
		cli_note(&cmd_replay,
			 "--in-flight: %u is what the limit of open files allows "
			 "(ulimit -n)",
			 job->depth);
	}
	return CLI_OK;
}

static int set_input(struct replay_setup *s, const char *trace)
{
	int r = cli_trace_in(&s->in, &cmd_replay);

	if (r != CLI_OK)
		return r;
	s->job.trace = trace;
	s->job.reader = s->in.opts;
	s->once = s->no_check || !cli_trace_twice(trace);
	return cli_requests(&s->requests, &s->job.reader, s->in.model, s->job.seed, trace,
			    &cmd_replay);
}

static int replay_check_pairs(const struct replay_setup *s)
{
	const struct replay_job *job = &s->job;
	bool null = false;

	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		null |= job->tiers[t].used && job->tiers[t].kind == PLACE_NULL && t != 0 && t != 1;
	if (job->verify && null)
		return cli_usage(&cmd_replay,
				 "--verify and null, which keeps nothing, exclude each other");
	if (job->reuse && job->fresh)
		return cli_usage(&cmd_replay, "--reuse and --fresh exclude each other");
	if (job->prefill && s->once)
		return cli_usage(&cmd_replay, "--prefill: the trace has to be read twice: give a "
					      "file, without --no-check");
	if ((s->dry_run || s->export_fio) && s->once)
		return cli_usage(&cmd_replay,
				 "%s: the trace has to be read beforehand: give a file, without "
				 "--no-check",
				 s->dry_run ? "--dry-run" : "--export-fio");
	return CLI_OK;
}

/* Of several ranks each has its part. */
static int set_part(struct replay_setup *s, const char *trace)
{
	if (cli_hosts_size() < 2 || s->dry_run)
		return CLI_OK;
	if (!cli_trace_twice(trace))
		return cli_usage(&cmd_replay,
				 "'%s': a trace that several ranks do has to be a file", trace);
	s->job.part = cli_hosts_rank();
	s->job.parts = cli_hosts_size();
	return cli_hosts_file(&s->export_fio, &cmd_replay, "--export-fio");
}

int replay_setup(struct replay_setup *s, const char *trace)
{
	struct replay_job *job = &s->job;
	int r = set_targets(s);

	if (r == CLI_OK)
		r = set_pace(job, s->pace);
	cli_s3_env(&job->s3);
	if (r == CLI_OK)
		r = cli_opts_check(&job->opts, &cmd_replay);
	if (r == CLI_OK)
		r = set_input(s, trace);
	if (r == CLI_OK)
		r = set_part(s, trace);
	return r == CLI_OK ? replay_check_pairs(s) : r;
}

void replay_setup_fini(struct replay_setup *s)
{
	cli_requests_fini(&s->requests);
	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		free(s->dirs[t]);
}
