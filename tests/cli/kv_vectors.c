/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of the KV cache from a file, its decisions as rows of a trace, and its state at the
 * end in the words and the form of the conformance vectors; for kv_vectors.py.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/opt/opt.h"
#include "cli/opt/opt_file.h"
#include "load/model/kv_cache.h"
#include "tests/common/kv_ops.h"

static const struct cli_cmd cmd_kv_vectors;

struct vectors_args {
	const char *model, *nvme_bytes, *final;
	uint64_t gpu_bytes, cpu_bytes;
	uint32_t tensor_parallel;
};

static const struct cli_opt vectors_opts[] = {
	CLI_GROUP("Cache"),
	CLI_STR(struct vectors_args, model, 'm', "model", "NAME", "llama3.1-8b",
		"model, which decides the bytes per token"),
	CLI_SIZE(struct vectors_args, gpu_bytes, 0, "gpu-bytes", "BYTES", "0", 0, 1ull << 62,
		 "limit of the first tier"),
	CLI_SIZE(struct vectors_args, cpu_bytes, 0, "cpu-bytes", "BYTES", "0", 0, 1ull << 62,
		 "limit of the second tier"),
	CLI_STR(struct vectors_args, nvme_bytes, 0, "nvme-bytes", "BYTES", "unlimited",
		"limit of the third tier, or `unlimited'"),
	CLI_U32(struct vectors_args, tensor_parallel, 0, "tensor-parallel", "N", "1", 1, 65536,
		"every object is a part in N of the entry"),
	CLI_GROUP("Output"),
	CLI_OUT(struct vectors_args, final, 0, "final", "FILE", NULL,
		"write the state at the end as JSON; - is standard output, instead of the rows"),
	CLI_END,
};

struct vectors {
	struct kv_cache_opts o;
	struct kv_models models;
	struct kv_texts *texts;
	struct kv_ops ops;
	struct kv_cache *cache;
	struct kv_counts counts;
	bool rows;
};

/* ---- rows ---- */

/* As Python's csv module: in quotes only where it must be. */
static void print_key(const char *key, size_t len)
{
	bool quote = false;

	for (size_t i = 0; i < len && !quote; i++)
		quote = strchr(",\"\r\n", key[i]) && key[i];
	if (!quote) {
		fwrite(key, 1, len, stdout);
		return;
	}
	putchar('"');
	for (size_t i = 0; i < len; i++) {
		if (key[i] == '"')
			putchar('"');
		putchar(key[i]);
	}
	putchar('"');
}

/* Misses and deletions are no rows. */
static int on_event(void *arg, const struct kv_event *ev)
{
	struct vectors *v = arg;
	const char *key;
	size_t len;

	kv_count(&v->counts, ev, &v->o);
	if (!v->rows || (ev->type != KV_EV_READ && ev->type != KV_EV_WRITE))
		return 0;
	printf("%s,%" PRIu64 ",Tier-%u,", ev->type == KV_EV_READ ? "Read" : "Write", ev->size,
	       ev->tier);
	key = kv_texts_get(v->texts, ev->key.n, &len);
	print_key(key, len);
	printf(",%s\n", kv_phase_names[ev->phase]);
	return 0;
}

/* ---- the state at the end ---- */

/* As Python prints a float: the fewest digits that mean it, and always a point or exponent. */
static void print_float(FILE *f, double v)
{
	char text[40];
	int digits = 1, exponent, decimals;

	do
		snprintf(text, sizeof(text), "%.*e", digits - 1, v);
	while (strtod(text, NULL) != v && ++digits <= 17);
	exponent = atoi(strchr(text, 'e') + 1);
	decimals = digits - 1 - exponent;
	if (exponent < -4 || exponent >= 16)
		fputs(text, f);
	else
		fprintf(f, "%.*f%s", decimals > 0 ? decimals : 0, v, decimals > 0 ? "" : ".0");
}

static int print_entries(FILE *f, const struct vectors *v)
{
	const char *before = "";
	struct kv_event ev;
	uint64_t pos = 0;

	while (kv_cache_next(v->cache, &pos, &ev)) {
		size_t len;
		const char *key = kv_texts_get(v->texts, ev.key.n, &len);
		json_t *name = json_stringn(key, len);
		int r;

		if (!name)
			return -EINVAL;
		fprintf(f, "%s\n  ", before);
		r = json_dumpf(name, f, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
		json_decref(name);
		if (r < 0)
			return -EIO;
		fprintf(f, ": [\n   \"%s\",\n   %" PRIu64 "\n  ]", kv_tier_names[ev.tier], ev.size);
		before = ",";
	}
	fputs(*before ? "\n }" : "}", f);
	return 0;
}

/* What Python writes with indent=1. */
static int print_final(FILE *f, const struct vectors *v)
{
	const struct kv_counts *n = &v->counts;
	uint64_t nvme = v->o.limit[KV_NVME];
	int r;

	fprintf(f, "{\n \"model\": \"%s\",\n", v->o.model->key);
	fprintf(f, " \"gpu_bytes\": %" PRIu64 ",\n", v->o.limit[KV_GPU]);
	fprintf(f, " \"cpu_bytes\": %" PRIu64 ",\n", v->o.limit[KV_CPU]);
	fprintf(f, " \"nvme_bytes\": %" PRIu64 ",\n", nvme == KV_UNLIMITED ? 0 : nvme);
	fprintf(f, " \"tensor_parallel\": %u,\n", v->o.shards);
	for (int t = 0; t < KV_TIERS; t++)
		fprintf(f, " \"%s_used\": %" PRIu64 ",\n", kv_tier_names[t],
			kv_cache_used(v->cache, (enum kv_tier)t));
	fprintf(f, " \"evictions\": %" PRIu64 ",\n", n->evictions);
	fprintf(f, " \"offloads_cpu\": %" PRIu64 ",\n", n->offloads_cpu);
	fprintf(f, " \"offloads_storage\": %" PRIu64 ",\n", n->offloads_storage);
	fprintf(f, " \"hits\": %" PRIu64 ",\n", n->hits);
	fprintf(f, " \"misses\": %" PRIu64 ",\n", n->misses);
	fprintf(f, " \"storage_tokens_processed\": ");
	if (n->storage_tokens_float)
		print_float(f, n->storage_tokens);
	else
		fprintf(f, "%.0f", n->storage_tokens);
	fprintf(f, ",\n \"entries\": {");
	r = print_entries(f, v);
	fprintf(f, "\n}");
	return r;
}

/* ---- the job ---- */

/* All of a file, which is small; "-" is standard input. */
static int read_all(const char *name, char **out, size_t *len)
{
	FILE *f = strcmp(name, "-") ? fopen(name, "re") : stdin;
	FILE *to = f ? open_memstream(out, len) : NULL;
	char part[65536];
	size_t n;
	int r = 0;

	if (!to)
		r = -errno;
	while (r == 0 && (n = fread(part, 1, sizeof(part), f)) > 0)
		if (fwrite(part, 1, n, to) < n)
			r = -ENOMEM;
	if (r == 0 && ferror(f))
		r = errno ? -errno : -EIO;
	if (to && fclose(to) && r == 0)
		r = -ENOMEM;
	if (f && f != stdin)
		fclose(f);
	return r;
}

static int load_ops(struct vectors *v, const char *name)
{
	CLEANUP_FREE char *text = NULL;
	struct penstock_short_name shown;
	struct penstock_err err;
	size_t len = 0;
	int r = read_all(name, &text, &len);

	if (r < 0)
		return cli_fail(&cmd_kv_vectors, CLI_USAGE, "'%s' cannot be read: %s", name,
				strerror(-r));
	r = kv_ops_parse(&v->ops, text, len, v->texts, &err);
	if (r < 0)
		return cli_fail(&cmd_kv_vectors, CLI_USAGE, "%s: %s",
				penstock_shorten_name(&shown, name), err.msg);
	return CLI_OK;
}

static int set_options(struct vectors *v, const struct vectors_args *a)
{
	uint64_t nvme = 0;

	kv_cache_opts_defaults(&v->o);
	v->o.model = kv_models_find(&v->models, a->model);
	if (!v->o.model)
		return cli_usage(&cmd_kv_vectors,
				 "--model: '%s' is not known; 'penstock kv --model list' shows all",
				 a->model);
	if (strcmp(a->nvme_bytes, "unlimited") != 0 &&
	    (penstock_size_parse(&nvme, a->nvme_bytes) < 0 || nvme > 1ull << 62))
		return cli_usage(&cmd_kv_vectors,
				 "--nvme-bytes: '%.80s' is neither a size nor 'unlimited'",
				 a->nvme_bytes);
	v->o.shards = a->tensor_parallel;
	v->o.limit[KV_GPU] = a->gpu_bytes;
	v->o.limit[KV_CPU] = a->cpu_bytes;
	v->o.limit[KV_NVME] = nvme ? nvme : KV_UNLIMITED;
	return CLI_OK;
}

static int carry_out(struct vectors *v)
{
	for (size_t i = 0; i < v->ops.nr; i++) {
		const struct kv_op *op = &v->ops.v[i];
		int r = op->allocate ? kv_cache_allocate(v->cache, op->key, op->tokens)
				     : kv_cache_access(v->cache, op->key, KV_DECODE, KV_USER);

		if (r < 0 && r != -ENOENT)
			return cli_fail(&cmd_kv_vectors, CLI_FAILED, "operation %zu: %s", i + 1,
					strerror(-r));
	}
	return CLI_OK;
}

static int run(struct vectors *v, const struct vectors_args *a, const char *ops)
{
	struct cli_file final = {0};
	int r = set_options(v, a);

	if (r == CLI_OK)
		r = load_ops(v, ops);
	if (r == CLI_OK)
		r = cli_file_open(&final, &cmd_kv_vectors, "--final", a->final);
	if (r != CLI_OK)
		return r;
	v->rows = !cli_is_stdout(final.name);
	if (v->rows)
		printf("Operation,Object_Size_Bytes,Tier,Key,Phase\n");
	if (kv_cache_new(&v->cache, &v->o, on_event, v) < 0)
		r = cli_fail(&cmd_kv_vectors, CLI_FAILED, "out of memory");
	if (r == CLI_OK)
		r = carry_out(v);
	if (r == CLI_OK && final.f) {
		int w = print_final(final.f, v);

		r = cli_file_finish(&final, &cmd_kv_vectors, w,
				    w == -EINVAL ? "a key is not UTF-8" : NULL);
	}
	cli_file_abandon(&final);
	return r;
}

static int vectors_run(void *args, int argc, char **argv)
{
	struct vectors v = {0};
	int r;

	if (argc != 1)
		return cli_usage(&cmd_kv_vectors, "one file of operations is needed, not %d", argc);
	v.texts = kv_texts_new();
	if (v.texts && kv_models_init(&v.models) == 0)
		r = run(&v, args, argv[0]);
	else
		r = cli_fail(&cmd_kv_vectors, CLI_FAILED, "out of memory");
	kv_cache_free(v.cache);
	kv_ops_fini(&v.ops);
	kv_models_fini(&v.models);
	kv_texts_free(v.texts);
	return r;
}

static const struct cli_cmd cmd_kv_vectors = {
	.name = "kv-vectors",
	.summary = "what the KV cache decides, for comparisons",
	.usage = "OPS.csv",
	.opts = vectors_opts,
	.args_size = sizeof(struct vectors_args),
	.run = vectors_run,
};

int main(int argc, char **argv)
{
	return cli_cmd_run(&cmd_kv_vectors, argc - 1, argv + 1);
}
