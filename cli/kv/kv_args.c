/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a job.  Everything is looked at before anything is said. */
#include "cli/kv/kv_args.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/cli_s3.h"
#include "cli/hosts.h"
#include "cli/kv/kv_config.h"
#include "load/measure/ram.h"
#include "load/trace/trace.h"

/* ------------------------------------------------------------------- ranges */

/* The ranges of these come from the configuration. */
static void check_limits(struct kv_args *a)
{
	const struct kv_params *p = &a->params;
	const struct kv_config *c = &p->config;
	const struct {
		const char *name;
		double v, min, max;
	} limits[] = {
		{"num-users", p->users, 1, (double)c->limit_users},
		{"runtime", (double)p->duration_ns / 1e9, 1, (double)c->limit_duration},
		{"gpu-mem-gb", p->gpu_gb, 0, c->limit_gpu_gb},
		{"cpu-mem-gb", p->cpu_gb, 0, c->limit_cpu_gb},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++)
		if (limits[i].v > limits[i].max)
			cli_problem(&a->problems, "--%s: %.10g is outside %g..%.10g",
				    limits[i].name, limits[i].v, limits[i].min, limits[i].max);
	if (p->tensor_parallel > p->gpus)
		cli_problem(&a->problems, "--tensor-parallel: %u is more than --num-gpus %u",
			    p->tensor_parallel, p->gpus);
}

/* ------------------------------------------------------------------- folders */

/* Take "." and ".." out, where no link can be in the way any more. */
static void straighten(char *path)
{
	char *out = path;

	for (char *in = path; *in;) {
		size_t len = strcspn(in + 1, "/") + 1; /* "/name" */

		if (len == 3 && !strncmp(in, "/..", 3)) {
			while (out > path && *--out != '/')
				;
		} else if (len > 1 && !(len == 2 && in[1] == '.')) {
			memmove(out, in, len);
			out += len;
		}
		in += len;
	}
	if (out == path)
		*out++ = '/';
	*out = 0;
}

/* What the path comes to, whether it is there or not: the part that is, resolved, and the rest. */
static char *resolve(const char *path)
{
	CLEANUP_FREE char *front = strdup(path);
	char *real = NULL, *out = NULL, *cut;

	if (!front)
		return NULL;
	while (!(real = realpath(*front ? front : ".", NULL))) {
		cut = strrchr(front, '/');
		if (!cut && !*front)
			return NULL; /* there is no current folder any more */
		if (!cut) {
			*front = 0;
			continue;
		}
		if (cut == front) {
			real = strdup("/");
			front[0] = 0;
			break;
		}
		*cut = 0;
	}
	if (!real)
		return NULL;
	path += strlen(front);
	path += strspn(path, "/");
	if (asprintf(&out, "%s%s%s", real, *path && real[1] ? "/" : "", path) < 0)
		out = NULL;
	free(real);
	if (out)
		straighten(out);
	return out;
}

/*
 * Upstream's list, which there keeps out whatever begins with the same letters: /rootfs, and all
 * that is in the home of root, where root may well keep a folder to measure in.  Here /root keeps
 * out itself alone.
 */
static const char *system_folder(const char *path)
{
	static const char *const folders[] = {"/etc",  "/bin", "/sbin", "/usr/bin", "/usr/sbin",
					      "/boot", "/sys", "/proc", "/dev"};

	for (unsigned i = 0; i < ARRAY_SIZE(folders); i++) {
		size_t n = strlen(folders[i]);

		if (!strncmp(path, folders[i], n) && (!path[n] || path[n] == '/'))
			return folders[i];
	}
	return strcmp(path, "/root") ? NULL : "/root";
}

/*
 * May the folder be used?  Those upstream refuses by name are refused, symbolic links followed,
 * and those whose parent cannot be written to; -EINVAL with the reason.
 */
static int kv_cache_dir_check(const char *path, struct penstock_err *err)
{
	/* again: what was behind a ".." of something missing may be a link */
	CLEANUP_FREE char *once = resolve(path), *full = once ? resolve(once) : NULL;
	const char *folder;
	char *slash;

	if (cli_is_object(path))
		return 0;
	if (!full)
		return penstock_fail(err, -EINVAL, "--folder: '%s': %s", path,
				     strerror(errno ? errno : ENOMEM));
	folder = system_folder(full);
	if (folder)
		return penstock_fail(err, -EINVAL,
				     "--folder: '%s' cannot be a system directory (%s)", path,
				     folder);
	slash = strrchr(full, '/');
	if (slash)
		slash[slash == full] = 0;
	if (access(full, F_OK) == 0 && access(full, W_OK) < 0)
		return penstock_fail(err, -EINVAL, "--folder: '%s': '%s' cannot be written to",
				     path, full);
	return 0;
}

/* -------------------------------------------------------------------- models */

void kv_list_models(const struct kv_models *m)
{
	printf("%-24s %-32s %7s %14s\n", "model", "name", "layers", "bytes/token");
	for (unsigned i = 0; i < m->nr; i++)
		printf("%-24s %-32s %7u %14" PRIu64 "\n", m->v[i].key, m->v[i].name, m->v[i].layers,
		       kv_model_bytes_per_token(&m->v[i]));
}

static void unknown_model(struct cli_problems *p, const struct kv_models *m, const char *name)
{
	char all[600] = "";
	size_t used = 0;

	for (unsigned i = 0; i < m->nr && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
					 m->v[i].key);
	cli_problem(
		p,
		"--model: '%s' is unknown; there are %s, and others can be described in --config",
		name, all);
}

/* -------------------------------------------------------------------- params */

static uint64_t draw_seed(void)
{
	uint64_t v = cli_hosts_random();

	if (cli_hosts_size() < 2 && getrandom(&v, sizeof(v), 0) != sizeof(v))
		v = clock_ns();
	return v & 0xffffffff; /* short enough to be typed again */
}

/* ShareGPT goes before BurstGPT, even where its file is missing. */
static void set_inputs(struct kv_args *a)
{
	struct penstock_err err = {0, ""};

	if (a->dataset && access(a->dataset, R_OK) == 0)
		a->params.sharegpt_path = a->dataset;
	else if (a->dataset)
		cli_problem(&a->warnings,
			    "--dataset-path: '%s' cannot be read: %s; users are synthetic",
			    a->dataset, strerror(errno));
	else if (a->burst)
		a->params.burst_path = a->burst_path;
	if (a->params.burst_path && trace_burst_find(a->burst_path, &err) < 0)
		cli_problem(&a->problems, "--burst-trace-path: %s", err.msg);
}

/*
 * The default of the second tier is upstream's, which needs memory only for what comes to lie
 * there.  Ours is checked beforehand, so that a small machine gets a smaller one.
 */
static void fit_memory(struct kv_args *a)
{
	struct ram ram = ram_read("");
	double asked = a->params.cpu_gb, gib = (double)(1u << 30);
	char total[PENSTOCK_SIZE_TEXT], left[PENSTOCK_SIZE_TEXT];

	a->params.asked_cpu_gb = asked;
	a->params.cpu_gb = (double)ram_share(&ram, (uint64_t)(asked * gib)) / gib;
	if (a->params.cpu_gb < asked)
		cli_problem(&a->warnings,
			    "--cpu-mem-gb: %g instead of the default of %g, since there are %s of "
			    "memory, %s of them free",
			    a->params.cpu_gb, asked, penstock_size_format(total, ram.total),
			    penstock_size_format(left, ram.available));
}

static void kv_set_job(struct kv_args *a)
{
	bool live = a->params.policy.live || a->params.closed_loop || a->params.autoscale;

	a->job.params = &a->params;
	a->job.order = a->order ? (int)a->order - 1 : live ? KV_ORDER_LIVE : KV_ORDER_SEED;
	a->job.new_files |= a->params.policy.new_files;
}

/* Of several ranks each has its part of the work, and places and files of its own. */
static int set_part(struct kv_args *a, const struct cli_cmd *cmd)
{
	int r;

	if (cli_hosts_size() < 2 || a->dry_run)
		return CLI_OK;
	if (a->params.autoscale)
		return cli_usage(cmd, "--enable-autoscaling: several ranks cannot scale together");
	a->params.part = cli_hosts_rank();
	a->params.parts = cli_hosts_size();
	r = cli_hosts_place(&a->job.cache_dir, cmd);
	if (r == CLI_OK)
		r = cli_hosts_file(&a->job.trace_path, cmd, "--io-trace-log");
	if (r == CLI_OK)
		r = cli_hosts_file(&a->output, cmd, "--output");
	if (r == CLI_OK)
		r = cli_hosts_file(&a->xlsx, cmd, "--xlsx");
	return r == CLI_OK ? cli_hosts_file(&a->export_fio, cmd, "--export-fio") : r;
}

/* --------------------------------------------------------------- all of it */

/* What no value of a single option can be blamed for. */
static int kv_check_pairs(const struct kv_args *a, const struct cli_cmd *cmd)
{
	const struct kv_params *p = &a->params;
	bool seed = a->order == KV_ORDER_SEED + 1, store = a->job.backend == KV_BACKEND_STORE;
	bool bucket = a->job.cache_dir && cli_is_object(a->job.cache_dir);
	const struct cli_pair pairs[] = {
		{p->prefill_only && p->decode_only, "--prefill-only and --decode-only"},
		{seed && p->closed_loop, "--order seed and --closed-loop"},
		{seed && p->compat, "--order seed and --compat"},
		{seed && p->autoscale, "--order seed and --enable-autoscaling"},
		{a->job.verify && a->job.trace_path, "--verify and --io-trace-log"},
		{store && a->job.trace_path, "--backend store and --io-trace-log"},
		{store && a->job.layout != KV_LAYOUT_NPY, "--backend store and --layout"},
		{store && a->job.new_files, "--backend store and --new-files"},
		{store && p->compat, "--backend store and --compat"},
		{bucket && store, "--folder s3:// and --backend store"},
		{bucket && a->job.layout != KV_LAYOUT_NPY, "--folder s3:// and --layout"},
		{bucket && a->job.new_files, "--folder s3:// and --new-files"},
		{bucket && p->compat, "--folder s3:// and --compat"},
	};

	if (a->job.below && (!store || !cli_is_object(a->job.below)))
		return cli_usage(cmd, "--below needs --backend store, whose tier it is, and "
				      "s3://BUCKET/PREFIX");
	if (cli_is_stdout(a->xlsx))
		return cli_usage(cmd, "--xlsx: a workbook needs a file");
	return cli_exclude(cmd, pairs, ARRAY_SIZE(pairs));
}

static void check_odd(struct kv_args *a)
{
	const struct kv_params *p = &a->params;

	if (p->tensor_parallel & (p->tensor_parallel - 1))
		cli_problem(&a->warnings, "--tensor-parallel: %u is not a power of two",
			    p->tensor_parallel);
	if (p->precondition && a->job.trace_path && p->storage_gb <= 0 && p->precondition_gb <= 0)
		cli_problem(&a->warnings,
			    "--precondition: a trace has no limit of storage to fill; nothing is "
			    "written beforehand without --storage-capacity-gb or "
			    "--precondition-size-gb");
	if (a->latency_tracing)
		cli_problem(
			&a->warnings,
			"--enable-latency-tracing: penstock does not trace the block layer with "
			"bpftrace; what it measured at the device is in the result, and "
			"--export-fio writes the job for fio");
}

/* A cache computes again what does not come soon: the store's own limits, unless others are given.
 */
static void be_impatient(struct penstock_s3_opts *o)
{
	o->attempts = o->attempts == 10 ? 0 : o->attempts;
	o->timeout_ms = o->timeout_ms == 600000 ? 0 : o->timeout_ms;
}

int kv_setup(struct kv_args *a, const struct cli_cmd *cmd)
{
	struct kv_params *p = &a->params;
	struct penstock_err err = {0, ""};
	int r = kv_check_pairs(a, cmd);

	if (r == CLI_OK)
		r = cli_opts_check(&a->job.opts, cmd);
	if (r == CLI_OK)
		r = set_part(a, cmd);
	if (r == CLI_OK && kv_config_defaults(&p->config) < 0)
		r = cli_fail(cmd, CLI_FAILED, "out of memory");
	if (r != CLI_OK)
		return r;
	if (!p->seed_given)
		p->seed = draw_seed();
	if (a->config)
		kv_config_load(&p->config, a->config, &a->problems, &a->warnings);
	if (p->compat)
		kv_params_as_upstream(p);
	check_limits(a);
	if (a->job.cache_dir && kv_cache_dir_check(a->job.cache_dir, &err) < 0)
		cli_problem(&a->problems, "%s", err.msg);
	cli_s3_env(&a->job.s3);
	if (a->job.below)
		be_impatient(&a->job.s3);
	p->model = kv_models_find(&p->config.models, a->model);
	if (!p->model && strcmp(a->model, "list") != 0)
		unknown_model(&a->problems, &p->config.models, a->model);
	check_odd(a);
	set_inputs(a);
	if (!a->cpu_given && !a->job.trace_path && p->model && !a->problems.nr)
		fit_memory(a);
	kv_set_job(a);
	return CLI_OK;
}

void kv_setup_fini(struct kv_args *a)
{
	kv_config_fini(&a->params.config);
	cli_problems_fini(&a->problems);
	cli_problems_fini(&a->warnings);
}
