/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli_s3.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/hosts.h"
#include "cli/opt/opt_file.h"
#include "load/measure/object_requests.h"
#include "load/report/result/report_lines.h"

static const char *const style_words[] = {"auto", "path", "virtual", NULL};
static const char *const balance_words[] = {"round-robin", "least", "random", "rank", NULL};
static const char *const checksum_words[] = {"auto", "crc32c", "crc64nvme", "none", NULL};

const struct cli_opt cli_s3_opts[] = {
	CLI_STR(struct penstock_s3_opts, endpoint, 0, "endpoint", "URL", NULL,
		"of the store; several behind commas, {1...8} in one, or @FILE; default: the "
		"environment's, else AWS",
		.often = true),
	CLI_STR(struct penstock_s3_opts, region, 0, "region", "NAME", NULL,
		"default: the environment's, else us-east-1"),
	CLI_STR(struct penstock_s3_opts, profile, 0, "profile", "NAME", NULL,
		"whose keys, of the shared files"),
	CLI_STR(struct penstock_s3_opts, ca_file, 0, "ca-file", "FILE", NULL,
		"certificates to trust instead of the system's"),
	CLI_ENUM(struct penstock_s3_opts, style, 0, "style", style_words, "auto",
		 "the bucket in the path or in front of the host"),
	CLI_ENUM(struct penstock_s3_opts, balance, 0, "balance", balance_words, "round-robin",
		 "which of several endpoints is asked"),
	CLI_ENUM(struct penstock_s3_opts, checksum, 0, "checksum", checksum_words, "auto",
		 "of what is sent; auto: crc32c"),
	CLI_BIT(struct penstock_s3_opts, flags, PENSTOCK_S3_SIGN_BODY, 0, "sign-body",
		"make what is sent part of the signature"),
	CLI_BIT(struct penstock_s3_opts, flags, PENSTOCK_S3_ANONYMOUS, 0, "anonymous",
		"sign nothing"),
	CLI_U32(struct penstock_s3_opts, connections, 0, "connections", "N", "64", 1, 1024,
		"requests in flight"),
	CLI_SIZE(struct penstock_s3_opts, part, 0, "part", "BYTES", "8M", 5u << 20, 1u << 30,
		 "of each request of a large object"),
	CLI_U32(struct penstock_s3_opts, attempts, 0, "attempts", "N", "10", 1, 100,
		"of a request that fails in a way that may pass"),
	CLI_U32(struct penstock_s3_opts, timeout_ms, 0, "timeout", "SECONDS", "600", 1, 86400,
		"for a request with all its attempts", .scale = 1000),
	CLI_END,
};

bool cli_is_object(const char *name)
{
	return penstock_s3_is_uri(name, NULL) == 1;
}

int cli_s3_fail(const struct cli_cmd *cmd, int code, const char *why)
{
	return cli_fail(cmd, code == -ENOTSUP ? CLI_UNSUPPORTED : CLI_FAILED, "%s", why);
}

void cli_s3_env(struct penstock_s3_opts *opts)
{
	opts->size = sizeof(*opts);
	opts->env = getenv;
	/* Of several ranks each asks its endpoint, unless somebody has said how. */
	if (cli_hosts_size() > 1 && !opts->balance && !getenv("S3_LOAD_BALANCE_STRATEGY"))
		opts->balance = PENSTOCK_S3_RANK;
	opts->rank = cli_hosts_rank();
}

int cli_s3_open(struct penstock_s3 **out, struct penstock_s3_opts *opts, const struct cli_cmd *cmd)
{
	struct penstock_err err = {0, ""};
	int r;

	cli_s3_env(opts);
	r = penstock_s3_open(out, opts, &err);
	if (r == -EINVAL)
		return cli_usage(cmd, "%s", err.msg);
	return r < 0 ? cli_s3_fail(cmd, r, err.msg) : CLI_OK;
}

int cli_s3_for(struct penstock_s3 **out, struct penstock_s3_opts *opts, const char *const *names,
	       size_t n, const struct cli_cmd *cmd)
{
	bool any = false;

	for (size_t i = 0; i < n; i++)
		any = any || cli_is_object(names[i]);
	return any ? cli_s3_open(out, opts, cmd) : CLI_OK;
}

static bool is_model(const char *name)
{
	static const char *const ends[] = {".safetensors", ".gguf", ".ckpt", ".pt", ".pth", ".bin"};
	const char *end = strrchr(name, '.');

	for (size_t i = 0; end && i < sizeof(ends) / sizeof(*ends); i++)
		if (!strcmp(end, ends[i]))
			return true;
	return false;
}

int cli_s3_models(struct penstock_s3 *c, const char *name, const struct cli_cmd *cmd,
		  int (*one)(void *arg, const char *name), void *arg)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_err err = {0, ""};
	struct penstock_s3_list *l;
	int status = CLI_OK, r;
	unsigned found = 0;

	if (!cli_is_object(name) || name[strlen(name) - 1] != '/')
		return one(arg, name);
	r = penstock_s3_list_open(&l, c, name, 0, &err);
	if (r < 0)
		return cli_s3_fail(cmd, r, err.msg);
	while (status < 128 && (r = penstock_s3_list_next(l, &e, &err)) > 0) {
		const char *base = strrchr(e.key, '/') ? strrchr(e.key, '/') + 1 : e.key;
		char *uri;
		int now;

		if (e.is_prefix || !is_model(base))
			continue;
		if (asprintf(&uri, "%s%s", name, base) < 0) {
			status = cli_fail(cmd, CLI_FAILED, "out of memory");
			break;
		}
		now = one(arg, uri);
		status = now ? now : status;
		found++;
		free(uri);
	}
	penstock_s3_list_close(l);
	if (r < 0)
		return cli_s3_fail(cmd, r, err.msg);
	return found ? status : cli_fail(cmd, CLI_FAILED, "%s: there is no model file in it", name);
}

json_t *cli_s3_report(FILE *f, struct penstock_s3 *c)
{
	struct object_requests r;

	object_requests_get(&r, c);
	if (f)
		report_object_requests_lines(f, &r);
	return report_object_requests_json(&r);
}

int cli_s3s_json(struct cli_file *f, const struct cli_cmd *cmd, json_t *entries,
		 struct penstock_s3 *c)
{
	json_t *requests = NULL;

	if (!f->name) {
		json_decref(entries);
		return CLI_OK;
	}
	if (c)
		requests = cli_s3_report(NULL, c);
	return cli_json_write(f, cmd,
			      json_pack("{s:s, s:s, s:s, s:o, s:o?}", "schema",
					"penstock-objects/1", "penstock", PENSTOCK_VERSION_STRING,
					"command", cmd->name, "entries", entries, "objects",
					requests));
}

void cli_s3_print_requests(const struct cli_cmd *cmd, struct penstock_s3 *c)
{
	struct penstock_s3_stats s = {.size = sizeof(s)};

	penstock_s3_get_stats(c, &s);
	if (s.retries)
		cli_note(cmd,
			 "%" PRIu64 " of %" PRIu64 " attempts were again: %" PRIu64
			 " after an answer that it is too much, %" PRIu64 " timeouts, %" PRIu64
			 " broken connections, %" PRIu64 " redirects",
			 s.retries, s.attempts, s.throttled, s.timeouts, s.broken, s.redirects);
}
