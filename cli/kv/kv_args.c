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
#include "cli/kv/kv_config.h"
#include "cli/opt/number.h"
#include "load/measure/ram.h"
#include "load/trace/trace.h"

/* ------------------------------------------------------------------- ranges */

#define MANY UINT32_MAX /* where upstream has no bound */
#define MUCH 1e12

static void check_whole(struct kv_problems *p, const char *name, int64_t v, int64_t min,
			int64_t max)
{
	if (v >= min && v <= max)
		return;
	if (max == MANY && v < min)
		kv_problem(p, "--%s: %" PRId64 " is below %" PRId64, name, v, min);
	else
		kv_problem(p, "--%s: %" PRId64 " is outside %" PRId64 "..%" PRId64, name, v, min,
			   max);
}

static void check_real(struct kv_problems *p, const char *name, double v, double max)
{
	if (v >= 0 && v <= max)
		return;
	if (max == MUCH && v < 0)
		kv_problem(p, "--%s: %g is below 0", name, v);
	else
		kv_problem(p, "--%s: %g is outside 0..%g", name, v, max);
}

static void check_ranges(struct kv_problems *p, const struct kv_upstream *u,
			 const struct kv_config *c)
{
	check_whole(p, "num-users", u->users, 1, c->limit_users);
	check_whole(p, "duration", u->duration, 1, c->limit_duration);
	check_real(p, "gpu-mem-gb", u->gpu_gb, c->limit_gpu_gb);
	check_real(p, "cpu-mem-gb", u->cpu_gb, c->limit_cpu_gb);
	check_whole(p, "num-gpus", u->gpus, 1, MANY);
	check_whole(p, "tensor-parallel", u->tensor_parallel, 1, MANY);
	if (u->tensor_parallel > u->gpus && u->gpus >= 1)
		kv_problem(p, "--tensor-parallel: %" PRId64 " is more than --num-gpus %" PRId64,
			   u->tensor_parallel, u->gpus);
	check_whole(p, "rag-num-docs", u->rag_docs, 0, MANY);
	check_real(p, "target-saturation", u->saturation, 1);
	check_whole(p, "max-conversations", u->conversations, 1, MANY);
	check_whole(p, "max-concurrent-allocs", u->concurrent_allocs, 0, MANY);
	check_real(p, "request-rate", u->request_rate, MUCH);
	check_whole(p, "max-requests", u->max_requests, 0, INT64_MAX);
	check_real(p, "storage-capacity-gb", u->storage_gb, MUCH);
	check_real(p, "precondition-size-gb", u->precondition_gb, MUCH);
	check_whole(p, "precondition-threads", u->precondition_threads, 0, MANY);
	check_real(p, "trace-speedup", u->speedup, MUCH);
	check_whole(p, "replay-cycles", u->replay_cycles, 0, MANY);
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

/* Upstream's list; it looks at the first letters only, so /root keeps out /rootfs, too. */
static const char *system_folder(const char *path)
{
	static const char *const folders[] = {"/etc",  "/bin", "/sbin", "/usr/bin", "/usr/sbin",
					      "/boot", "/sys", "/proc", "/dev",     "/root"};

	for (unsigned i = 0; i < ARRAY_SIZE(folders); i++)
		if (!strncmp(path, folders[i], strlen(folders[i])))
			return folders[i];
	return NULL;
}

/*
 * May the folder be used?  Those upstream refuses by name are refused, symbolic links followed,
 * and those whose parent cannot be written to; -EINVAL with the reason.
 */
static int kv_cache_dir_check(const char *path, struct sluice_err *err)
{
	/* again: what was behind a ".." of something missing may be a link */
	CLEANUP_FREE char *once = resolve(path), *full = once ? resolve(once) : NULL;
	const char *folder;
	char *slash;

	if (!*path)
		return sluice_fail(err, -EINVAL,
				   "--cache-dir: is empty; name a folder, or leave the option away "
				   "for a temporary one");
	if (!full)
		return sluice_fail(err, -EINVAL, "--cache-dir: '%s': %s", path,
				   strerror(errno ? errno : ENOMEM));
	folder = system_folder(full);
	if (folder)
		return sluice_fail(err, -EINVAL,
				   "--cache-dir: '%s' cannot be a system directory (%s)", path,
				   folder);
	slash = strrchr(full, '/');
	if (slash)
		slash[slash == full] = 0;
	if (access(full, F_OK) == 0 && access(full, W_OK) < 0)
		return sluice_fail(err, -EINVAL, "--cache-dir: '%s': '%s' cannot be written to",
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

static void unknown_model(struct kv_problems *p, const struct kv_models *m, const char *name)
{
	char all[600] = "";
	size_t used = 0;

	for (unsigned i = 0; i < m->nr && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
					 m->v[i].key);
	kv_problem(
		p,
		"--model: '%s' is unknown; there are %s, and others can be described in --config",
		name, all);
}

/* -------------------------------------------------------------------- params */

static uint64_t draw_seed(void)
{
	uint64_t v = 0;

	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		v = clock_ns();
	return v & 0xffffffff; /* short enough to be typed again */
}

static int set_seed(struct kv_setup *s, const char *text, const struct cli_cmd *cmd)
{
	int64_t v;
	int r;

	s->params.seed_given = text;
	if (!text) {
		s->params.seed = draw_seed();
		return CLI_OK;
	}
	r = cli_int_parse(&v, text);
	if (r == -EINVAL)
		return cli_usage(cmd, "--seed: '%s' is not a whole number", text);
	if (r < 0 || v < 0)
		kv_problem(&s->problems, "--seed: %s is outside 0..%" PRId64, text, INT64_MAX);
	else
		s->params.seed = (uint64_t)v;
	return CLI_OK;
}

/* ShareGPT goes before BurstGPT, even where its file is missing. */
static void set_inputs(struct kv_setup *s, const struct kv_upstream *u)
{
	struct sluice_err err = {0, ""};

	if (u->dataset && access(u->dataset, R_OK) == 0)
		s->params.sharegpt_path = u->dataset;
	else if (u->dataset)
		kv_problem(&s->warnings,
			   "--dataset-path: '%s' cannot be read: %s; users are synthetic",
			   u->dataset, strerror(errno));
	else if (u->burst)
		s->params.burst_path = u->burst_path;
	if (s->params.burst_path && trace_burst_find(u->burst_path, &err) < 0)
		kv_problem(&s->problems, "--burst-trace-path: %s", err.msg);
}

static void set_params(struct kv_params *p, const struct kv_args *a)
{
	const struct kv_upstream *u = &a->up;

	p->users = (uint32_t)u->users;
	p->duration_sec = (double)u->duration;
	p->gpu_gb = u->gpu_gb;
	p->cpu_gb = u->cpu_gb;
	p->storage_gb = u->storage_gb;
	p->gpus = (uint32_t)u->gpus;
	p->tensor_parallel = (uint32_t)u->tensor_parallel;
	p->generation = (int)u->generation_mode;
	p->multi_turn = !u->no_multi_turn;
	p->prefix = !u->no_prefix;
	p->rag = u->rag;
	p->rag_docs = (uint32_t)u->rag_docs;
	p->autoscale = u->autoscale;
	p->autoscale_mode = (int)u->autoscaler_mode;
	p->target_saturation = u->saturation;
	p->sharegpt_conversations = (uint32_t)u->conversations;
	p->max_concurrent_allocs = (uint32_t)u->concurrent_allocs;
	p->request_rate = u->request_rate;
	p->max_requests = (uint64_t)u->max_requests;
	p->precondition = u->precondition;
	p->precondition_gb = u->precondition_gb;
	p->precondition_threads = (uint32_t)u->precondition_threads;
	p->trace_speedup = u->speedup;
	p->replay_cycles = (uint32_t)u->replay_cycles;
	p->prefill_only = u->prefill_only;
	p->decode_only = u->decode_only;
	p->closed_loop = a->closed_loop;
	p->epoch_ns = a->trace_epoch * 1000000000ull;
	if (a->compat)
		kv_params_as_upstream(p);
}

/*
 * The default of the second tier is upstream's, which needs memory only for what comes to lie
 * there.  Ours is checked beforehand, so that a small machine gets a smaller one.
 */
static void fit_memory(struct kv_setup *s)
{
	struct ram ram = ram_look("");
	double asked = s->params.cpu_gb, gib = (double)(1u << 30);
	char total[SLUICE_SIZE_TEXT], left[SLUICE_SIZE_TEXT];

	s->params.cpu_gb = (double)ram_share(&ram, (uint64_t)(asked * gib)) / gib;
	if (s->params.cpu_gb < asked)
		kv_problem(&s->warnings,
			   "--cpu-mem-gb: %g instead of the default of %g, since there are %s of "
			   "memory, %s of them free",
			   s->params.cpu_gb, asked, sluice_size_format(total, ram.total),
			   sluice_size_format(left, ram.available));
}

static void set_job(struct kv_setup *s, const struct kv_args *a)
{
	struct kv_job *job = &s->job;
	bool live = a->compat || a->closed_loop || a->up.autoscale;

	job->params = &s->params;
	job->cache_dir = a->up.cache_dir;
	job->layout = (int)a->layout;
	job->order = a->order != KV_ORDER_AUTO ? (int)a->order - 1
		     : live                    ? KV_ORDER_LIVE
					       : KV_ORDER_SEED;
	job->new_files = a->new_files || a->compat;
	job->verify = a->verify;
	job->gpu_simulated = a->simulated_gpu;
	job->gpu_bandwidth = a->gpu_bandwidth * 1e9;
	job->durability = a->durability;
	job->trace_path = a->up.trace;
	job->trace_extended = a->trace_extended;
	job->clock = (int)a->clock;
}

/* --------------------------------------------------------------- all of it */

/* What no value of a single option can be blamed for. */
static int check_pairs(const struct kv_args *a, const struct cli_cmd *cmd)
{
	if (a->up.prefill_only && a->up.decode_only)
		return cli_usage(cmd, "--prefill-only and --decode-only exclude each other");
	if (a->order == KV_ORDER_SEED + 1 && (a->closed_loop || a->compat || a->up.autoscale))
		return cli_usage(cmd, "--order seed and %s exclude each other",
				 a->closed_loop ? "--closed-loop"
				 : a->compat    ? "--compat"
						: "--enable-autoscaling");
	if (a->verify && a->up.trace)
		return cli_usage(cmd, "--verify and --io-trace-log exclude each other");
	if (cli_is_stdout(a->up.xlsx))
		return cli_usage(cmd, "--xlsx-output: a workbook needs a file");
	return CLI_OK;
}

static void check_odd(struct kv_setup *s, const struct kv_args *a)
{
	const struct kv_upstream *u = &a->up;

	if (u->tensor_parallel > 1 && (u->tensor_parallel & (u->tensor_parallel - 1)))
		kv_problem(&s->warnings, "--tensor-parallel: %" PRId64 " is not a power of two",
			   u->tensor_parallel);
	if (u->precondition && u->trace && u->storage_gb <= 0 && u->precondition_gb <= 0)
		kv_problem(&s->warnings,
			   "--precondition: a trace has no limit of storage to fill; nothing is "
			   "written beforehand without --storage-capacity-gb or "
			   "--precondition-size-gb");
	if (u->latency_tracing)
		kv_problem(&s->warnings,
			   "--enable-latency-tracing: sluice does not trace the block layer with "
			   "bpftrace; what it measured at the device is in the result, and "
			   "--export-fio writes the job for fio");
}

int kv_setup(struct kv_setup *s, const struct kv_args *a, const struct cli_cmd *cmd)
{
	const struct kv_upstream *u = &a->up;
	struct sluice_err err = {0, ""};
	int r;

	*s = (struct kv_setup){.job.layout = 0};
	if (kv_config_defaults(&s->params.config) < 0)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	r = check_pairs(a, cmd);
	s->job.opts = a->opts;
	if (r == CLI_OK)
		r = cli_opts_check(&s->job.opts, cmd);
	if (r == CLI_OK)
		r = set_seed(s, u->seed, cmd);
	if (r != CLI_OK)
		return r;
	if (u->config)
		kv_config_load(&s->params.config, u->config, a->compat, &s->problems, &s->warnings);
	check_ranges(&s->problems, u, &s->params.config);
	if (u->cache_dir && kv_cache_dir_check(u->cache_dir, &err) < 0)
		kv_problem(&s->problems, "%s", err.msg);
	s->params.model = kv_models_find(&s->params.config.models, u->model);
	if (!s->params.model && strcmp(u->model, "list") != 0)
		unknown_model(&s->problems, &s->params.config.models, u->model);
	check_odd(s, a);
	set_inputs(s, u);
	set_params(&s->params, a);
	if (!u->cpu_told && !u->trace && s->params.model && !s->problems.nr)
		fit_memory(s);
	set_job(s, a);
	return CLI_OK;
}

void kv_setup_fini(struct kv_setup *s)
{
	kv_config_fini(&s->params.config);
	kv_problems_fini(&s->problems);
	kv_problems_fini(&s->warnings);
}
