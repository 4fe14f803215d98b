/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result is checked by a table of its members before anything is drawn or compared:
 * what passes has no surprises for the code behind it.  The JSON Schema says more, but
 * is for tools.
 */
#include "load/report/result/read.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

#define SCHEMA "sluice-result/1"

/* A member by its way from the object, names joined by dots, and what it may be. */
struct member {
	const char *path;
	const char *type; /* o object, a array, s string, n number, b boolean, 0 null or missing */
};

static const struct member result_members[] = {
	{"sluice", "s"},       {"command", "s"},      {"command_line", "a"},
	{"time", "s"},         {"partial", "b"},      {"partial_why", "s0"},
	{"duration_sec", "n"}, {"machine", "o"},      {"machine.kernel", "s"},
	{"machine.cpu", "s0"}, {"machine.cpus", "n"}, {"machine.memory_bytes", "n"},
	{"targets", "a"},      {"settings", "o"},     {"bytes_written", "n"},
	{"series", "a"},       {"grid", "o0"},        {"fio", "a0"},
	{"tune", "o0"},        {"io", "o0"},          {"flows", "a0"},
	{"kv", "o0"},
};

static const struct member kv_members[] = {
	{"mode", "s"},
	{"compat", "b"},
	{"model", "o"},
	{"model.key", "s"},
	{"elapsed_sec", "n"},
	{"wall_sec", "n"},
	{"requests", "n"},
	{"tokens", "n"},
	{"late_operations", "n"},
	{"rows", "n"},
	{"errors", "o"},
	{"errors.reads", "n"},
	{"errors.writes", "n"},
	{"errors.verify", "n"},
	{"errors.requests", "n"},
	{"errors.first", "s0"},
	{"cache", "o"},
	{"cache.hits", "n"},
	{"cache.misses", "n"},
	{"cache.hit_rate", "n0"},
	{"tiers", "a"},
	{"latency", "o"},
	{"latency.end_to_end", "o0"},
	{"latency.qos", "o"},
	{"storage_health", "o"},
	{"storage_health.criteria", "a"},
	{"seconds", "o"},
	{"seconds.t", "a"},
};

static const struct member tier_members[] = {
	{"name", "s"},
	{"kind", "s"},
	{"how", "s0"},
	{"limit_bytes", "n0"},
	{"used_bytes", "n"},
	{"entries", "n"},
	{"read_bytes", "n"},
	{"written_bytes", "n"},
	{"read", "o0"},
	{"write", "o0"},
	{"evicted_in_bytes", "n"},
	{"evicted_out_bytes", "n"},
	{"deleted_bytes", "n"},
};

static const struct member flow_members[] = {
	{"from", "s"},
	{"to", "s"},
	{"bytes", "n"},
	{"ops", "n"},
};

/* What the page draws of each second. */
static const char *const second_members[] = {
	"span",
	"requests",
	"tokens",
	"hits",
	"misses",
	"gpu_read_bytes",
	"cpu_read_bytes",
	"nvme_read_bytes",
	"read_ops",
	"read_latency_sum",
	"gpu_write_bytes",
	"cpu_write_bytes",
	"nvme_write_bytes",
	"write_ops",
	"write_latency_sum",
	"queued",
	"in_flight",
};

static const struct member target_members[] = {
	{"folder", "s"}, {"file_system", "s0"},  {"mount", "s0"},
	{"direct", "b"}, {"block_device", "o0"},
};

static const struct member series_members[] = {
	{"name", "s"},
	{"kind", "s"},
	{"size", "n0"},
	{"settings", "o"},
	{"ran", "o"},
	{"ran.engine", "s"},
	{"ran.direct", "s"},
	{"ran.path", "s"},
	{"ran.memory", "s"},
	{"ran.fallbacks", "a"},
	{"cache", "s"},
	{"partial", "b"},
	{"ops", "n"},
	{"errors", "n"},
	{"bytes", "n"},
	{"bytes_written", "n"},
	{"sec", "n"},
	{"bytes_per_sec", "n"},
	{"latency", "o0"},
	{"bandwidth", "o0"},
	{"samples", "a"},
	{"histogram", "o"},
	{"histogram.buckets", "a"},
	{"distribution", "o"},
	{"distribution.bimodal", "b"},
	{"distribution.peaks", "a"},
	{"distribution.text", "s"},
	{"per_second", "o"},
	{"per_second.t", "a"},
	{"per_second.span", "a"},
	{"per_second.ops", "a"},
	{"per_second.bytes", "a"},
	{"per_second.latency_mean", "a"},
	{"per_second.latency_max", "a"},
	{"cpu", "o"},
	{"cpu.sec_per_gib", "n0"},
	{"limit", "o"},
	{"limit.bytes_per_sec", "n0"},
	{"limit.share", "n0"},
	{"limit.how", "s"},
	{"limit.note", "s0"},
};

static const struct member stats_members[] = {
	{"n", "n"},   {"mean", "n"}, {"median", "n"},      {"stddev", "n0"},         {"ci95", "a0"},
	{"min", "n"}, {"max", "n"},  {"percentiles", "o"}, {"percentiles.p50", "n"},
};

static char letter(const json_t *j)
{
	return !j || json_is_null(j) ? '0'
	       : json_is_object(j)   ? 'o'
	       : json_is_array(j)    ? 'a'
	       : json_is_string(j)   ? 's'
	       : json_is_number(j)   ? 'n'
				     : 'b';
}

static const json_t *member(const json_t *object, const char *path)
{
	const char *dot = strchr(path, '.');
	char first[32];

	if (!dot)
		return json_object_get(object, path);
	snprintf(first, sizeof(first), "%.*s", (int)(dot - path), path);
	return json_object_get(json_object_get(object, first), dot + 1);
}

/* @where: "" or "series 3: ". */
static int check_members(const json_t *object, const struct member *m, size_t nr, const char *name,
			 const char *where, struct sluice_err *err)
{
	if (!json_is_object(object))
		return sluice_fail(err, -EINVAL, "'%s': %sis not an object", name, where);
	for (size_t i = 0; i < nr; i++) {
		const json_t *j = member(object, m[i].path);

		if (!strchr(m[i].type, letter(j)))
			return sluice_fail(err, -EINVAL, "'%s': %s'%s' is %s", name, where,
					   m[i].path, j ? "of the wrong type" : "missing");
	}
	return 0;
}

static bool numbers(const json_t *array, bool or_null)
{
	json_t *j;
	size_t i;

	json_array_foreach(array, i,
			   j) if (!json_is_number(j) && !(or_null && json_is_null(j))) return false;
	return true;
}

static bool buckets_ok(const json_t *buckets)
{
	json_t *b;
	size_t i;

	json_array_foreach(buckets, i,
			   b) if (json_array_size(b) != 3 || !numbers(b, false)) return false;
	return true;
}

/* Arrays of numbers, one element per second each. */
static bool seconds_ok(const json_t *per_second)
{
	size_t nr = json_array_size(json_object_get(per_second, "t"));
	const char *key;
	json_t *j;

	json_object_foreach((json_t *)(uintptr_t)per_second, key,
			    j) if (json_array_size(j) != nr || !numbers(j, true)) return false;
	return true;
}

static int check_series(const json_t *s, const char *name, size_t index, struct sluice_err *err)
{
	static const char *const stats[] = {"latency", "bandwidth"};
	const char *kind;
	char where[64];
	int r;

	snprintf(where, sizeof(where), "series %zu: ", index);
	r = check_members(s, series_members, ARRAY_SIZE(series_members), name, where, err);
	for (unsigned i = 0; i < ARRAY_SIZE(stats) && r == 0; i++) {
		const json_t *j = json_object_get(s, stats[i]);

		snprintf(where, sizeof(where), "series %zu: %s: ", index, stats[i]);
		if (json_is_object(j))
			r = check_members(j, stats_members, ARRAY_SIZE(stats_members), name, where,
					  err);
	}
	if (r < 0)
		return r;
	kind = json_string_value(json_object_get(s, "kind"));
	if (strcmp(kind, "read") != 0 && strcmp(kind, "write") != 0)
		return sluice_fail(err, -EINVAL, "'%s': series %zu: kind '%s' is unknown", name,
				   index, kind);
	if (!numbers(json_object_get(s, "samples"), false) ||
	    !buckets_ok(member(s, "histogram.buckets")) ||
	    !seconds_ok(json_object_get(s, "per_second")))
		return sluice_fail(err, -EINVAL,
				   "'%s': series %zu: samples, histogram or per_second is damaged",
				   name, index);
	return 0;
}

/* Each of the objects of @array. */
static int check_each(const json_t *array, const struct member *m, size_t nr, const char *name,
		      const char *where, struct sluice_err *err)
{
	const json_t *j;
	size_t i;
	int r = 0;

	json_array_foreach(array, i, j)
	{
		if (r == 0)
			r = check_members(j, m, nr, name, where, err);
	}
	return r;
}

static int check_kv(const json_t *kv, const char *name, struct sluice_err *err)
{
	const json_t *seconds = json_object_get(kv, "seconds");
	int r = check_members(kv, kv_members, ARRAY_SIZE(kv_members), name, "kv: ", err);

	for (unsigned i = 0; i < ARRAY_SIZE(second_members) && r == 0; i++)
		if (!json_object_get(seconds, second_members[i]))
			r = sluice_fail(err, -EINVAL, "'%s': kv: seconds: '%s' is missing", name,
					second_members[i]);
	if (r == 0 && !seconds_ok(seconds))
		r = sluice_fail(err, -EINVAL, "'%s': kv: seconds is damaged", name);
	if (r == 0)
		r = check_each(json_object_get(kv, "tiers"), tier_members, ARRAY_SIZE(tier_members),
			       name, "kv: tier: ", err);
	return r;
}

int report_check(const json_t *root, const char *name, struct sluice_err *err)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	json_t *j;
	size_t i;
	int r;

	if (!schema)
		return sluice_fail(err, -EINVAL, "'%s' is not a result of sluice: it has no schema",
				   name);
	if (strcmp(schema, SCHEMA) != 0)
		return sluice_fail(err, -EINVAL, "'%s' has schema '%s'; this command reads %s",
				   name, schema, SCHEMA);
	r = check_members(root, result_members, ARRAY_SIZE(result_members), name, "", err);
	if (r < 0)
		return r;
	r = check_each(json_object_get(root, "targets"), target_members, ARRAY_SIZE(target_members),
		       name, "target: ", err);
	if (r == 0)
		r = check_each(json_object_get(root, "flows"), flow_members,
			       ARRAY_SIZE(flow_members), name, "flow: ", err);
	if (r == 0 && json_is_object(json_object_get(root, "kv")))
		r = check_kv(json_object_get(root, "kv"), name, err);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(root, "series"), i, j)
	{
		r = check_series(j, name, i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int report_json_read(json_t **out, const char *path, struct sluice_err *err)
{
	bool standard = !strcmp(path, "-");
	FILE *f = standard ? stdin : fopen(path, "re");
	json_error_t e;
	json_t *root;
	int r = 0;

	if (!f)
		return sluice_fail(err, -errno, "'%s' cannot be read: %s", path, strerror(errno));
	errno = 0;
	root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	if (ferror(f)) { /* a folder, for example; the parser calls it an early end */
		r = errno ? -errno : -EIO;
		json_decref(root);
		sluice_fail(err, r, "'%s' cannot be read: %s", path, strerror(-r));
	} else if (!root) {
		r = sluice_fail(err, -EINVAL, "'%s' is not JSON: line %d: %s", path,
				e.line > 0 ? e.line : 1, e.text);
	} else {
		*out = root;
	}
	if (!standard)
		fclose(f);
	return r;
}

int report_read(json_t **out, const char *path, struct sluice_err *err)
{
	json_t *root, *inner;
	int r = report_json_read(&root, path, err);

	if (r < 0)
		return r;
	inner = json_object_get(root, "sluice");
	if (json_is_object(inner)) {
		/* what `sluice kv' writes by --output has the result inside */
		json_incref(inner);
		json_decref(root);
		root = inner;
	}
	r = report_check(root, path, err);
	if (r < 0)
		json_decref(root);
	else
		*out = root;
	return r;
}
