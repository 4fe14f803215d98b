/* SPDX-License-Identifier: Apache-2.0 */
/* The hit rate beside that of a recorded trace; nothing else of it is compared. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "load/report/kv/kv_report.h"

#define REFERENCE 0.65 /* upstream's, where there is no file */
#define TOLERANCE 5.0  /* per cent */

struct trace_sums {
	uint64_t records, hits;
	double context, generation, read_bytes, write_bytes;
};

/* A record without "cache_hit" says nothing about the hit rate. */
static int validate_add(struct trace_sums *s, const json_t *record)
{
	const json_t *hit = json_object_get(record, "cache_hit");

	if (!json_is_boolean(hit) && !json_is_number(hit))
		return -EINVAL;
	s->records++;
	s->hits += json_is_true(hit) || (json_is_number(hit) && json_number_value(hit) != 0);
	s->context += json_number_value(json_object_get(record, "context_tokens"));
	s->generation += json_number_value(json_object_get(record, "generation_tokens"));
	s->read_bytes += json_number_value(json_object_get(record, "read_bytes"));
	s->write_bytes += json_number_value(json_object_get(record, "write_bytes"));
	return 0;
}

static int sum(struct trace_sums *s, const json_t *root, const char *path, struct penstock_err *err)
{
	const json_t *record;
	size_t i;

	if (!json_is_array(root))
		return penstock_fail(err, -EINVAL, "'%s' is not a list of records", path);
	json_array_foreach(root, i, record)
	{
		if (validate_add(s, record) < 0)
			return penstock_fail(
				err, -EINVAL,
				"'%s': record %zu has no \"cache_hit\" of true or false", path, i);
	}
	if (!s->records)
		return penstock_fail(err, -EINVAL, "'%s' has no records", path);
	return 0;
}

/* What upstream says of a trace; where there is no file it has figures of its own. */
static json_t *validate_stats_json(const struct trace_sums *s, double rate)
{
	double n = (double)s->records;

	if (!s->records)
		return json_pack("{s:i, s:i, s:f, s:f, s:i, s:i}", "total_requests", 1000,
				 "duration_seconds", 100, "cache_hit_rate", rate,
				 "read_write_ratio", 10.0, "context_tokens_mean", 1024,
				 "generation_tokens_mean", 200);
	return json_pack("{s:I, s:f, s:f, s:f, s:f}", "total_requests", (json_int_t)s->records,
			 "cache_hit_rate", rate, "read_write_ratio",
			 s->read_bytes / fmax(s->write_bytes, 1), "context_tokens_mean",
			 s->context / n, "generation_tokens_mean", s->generation / n);
}

static json_t *compare(double ours, double theirs, const struct trace_sums *s)
{
	double percent = theirs > 0 ? fabs(ours - theirs) / theirs * 100 : ours > 0 ? 100 : 0;

	return json_pack("{s:b, s:f, s:{s:{s:f, s:f, s:f, s:b}}, s:o}", "passed",
			 percent <= TOLERANCE, "avg_error_pct", percent, "comparison",
			 "cache_hit_rate", "benchmark", ours, "trace", theirs, "error_pct", percent,
			 "within_5pct", percent <= TOLERANCE, "trace_stats",
			 validate_stats_json(s, theirs));
}

int kv_validation(json_t **out, const char *path, double hit_rate, struct penstock_err *err)
{
	FILE *f = fopen(path, "re");
	struct trace_sums s = {0};
	json_error_t e;
	json_t *root;
	int r;

	if (!f && errno == ENOENT) {
		*out = compare(hit_rate, REFERENCE, &s);
		return 0;
	}
	if (!f)
		return penstock_fail(err, -errno, "'%s' cannot be read: %s", path, strerror(errno));
	root = json_loadf(f, 0, &e);
	fclose(f);
	if (!root)
		return penstock_fail(err, -EINVAL, "'%s' is not JSON: line %d: %s", path, e.line,
				     e.text);
	r = sum(&s, root, path, err);
	json_decref(root);
	if (r == 0)
		*out = compare(hit_rate, (double)s.hits / (double)s.records, &s);
	return r;
}
