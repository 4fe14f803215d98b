/* SPDX-License-Identifier: Apache-2.0 */
/* A replay as a result like that of the other commands; docs/result.md. */
#include <stddef.h>

#include "base/util.h"
#include "load/report/jobs/replay_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/result.h"
#include "load/report/result/text.h"

const char *const replay_layout_words[] = {"files", "hashed", "slab", NULL};
const char *const replay_missing_words[] = {"create", "skip", "fail", NULL};

static json_t *count_json(const struct replay_count *n)
{
	return json_pack("{s:I, s:I}", "ops", (json_int_t)n->ops, "bytes", (json_int_t)n->bytes);
}

/* ------------------------------------------------------------------- settings */

/* What is not the value of one option. */
static void add_settings(json_t *j, const struct replay_job *job)
{
	char text[REPLAY_TARGET_TEXT], line[REPLAY_TARGET_TEXT + 16];
	json_t *tiers = json_array();

	for (unsigned t = 0; t < REPLAY_TIERS; t++) {
		if (!job->tiers[t].used)
			continue;
		snprintf(line, sizeof(line), "%s: %s", replay_tier_names[t],
			 replay_target_text(text, job, t));
		json_array_append_new(tiers, report_str(line));
	}
	report_set_path(j, "trace", job->trace);
	json_object_set_new(j, "targets", tiers);
	json_object_set_new(j, "pace", job->pace > 0 ? json_real(job->pace) : json_null());
}

/* --------------------------------------------------------------------- sections */

static json_t *scan_json(const struct replay_scan *s)
{
	json_t *j, *tiers = json_object(), *ops;

	for (unsigned t = 0; t < REPLAY_TIERS; t++) {
		ops = json_object();
		for (unsigned o = 0; o < TRACE_OPS; o++)
			if (s->count[t][o].ops)
				json_object_set_new(ops, trace_op_names[o],
						    count_json(&s->count[t][o]));
		if (json_object_size(ops))
			json_object_set_new(tiers, replay_tier_names[t], ops);
		else
			json_decref(ops);
	}
	j = json_pack("{s:s, s:I, s:I, s:I, s:f, s:I, s:f, s:o}", "format",
		      trace_format_names[s->format], "rows", (json_int_t)s->rows, "used_rows",
		      (json_int_t)s->used_rows, "bad_rows", (json_int_t)s->bad.nr, "span_sec",
		      (double)(s->last_ns - s->first_ns) / 1e9, "rows_back",
		      (json_int_t)s->out_of_order, "longest_step_back_sec",
		      (double)s->max_step_back_ns / 1e9, "tiers", tiers);
	return j;
}

static json_t *needs_json(const struct replay_scan *s, unsigned nr)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < nr; i++) {
		const struct replay_need *n = &s->need[i];

		if (n->objects)
			json_array_append_new(j,
					      json_pack("{s:I, s:I, s:I, s:I, s:I}", "peak_bytes",
							(json_int_t)n->peak, "peak_objects",
							(json_int_t)n->objects, "initial_objects",
							(json_int_t)n->initial, "initial_bytes",
							(json_int_t)n->initial_bytes,
							"largest_bytes", (json_int_t)n->largest));
	}
	return j;
}

static json_t *class_json(const struct replay_class *c)
{
	return json_pack("{s:s, s:s, s:o, s:s, s:I, s:I, s:I, s:o}", "operation",
			 trace_op_names[c->op], "tier", replay_tier_names[c->tier], "phase",
			 report_str_or_null(trace_phase_names[c->phase]), "size",
			 replay_size_names[c->size], "ops", (json_int_t)c->ops, "bytes",
			 (json_int_t)c->bytes, "errors", (json_int_t)c->errors, "latency",
			 report_samples(&c->latency, true));
}

static json_t *classes_json(const struct replay_result *r)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < r->nr_classes; i++)
		json_array_append_new(j, class_json(&r->classes[i]));
	return j;
}

static json_t *done_json(const struct replay_result *r)
{
	json_t *j = json_array();

	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		for (unsigned o = 0; o <= TRACE_DELETE; o++)
			if (r->done[t][o].ops)
				json_array_append_new(
					j,
					json_pack("{s:s, s:s, s:I, s:I}", "operation",
						  trace_op_names[o], "tier", replay_tier_names[t],
						  "ops", (json_int_t)r->done[t][o].ops, "bytes",
						  (json_int_t)r->done[t][o].bytes));
	return j;
}

static json_t *lag_json(const struct replay_report *r)
{
	const struct replay_lag *l = &r->res->lag;

	if (r->job->pace <= 0)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:f, s:b, s:o}", "mean",
			 l->n ? l->sum / (double)l->n : 0.0, "max", l->max, "last", l->last,
			 "slope", replay_lag_slope(l), "overloaded", replay_overloaded(l), "spread",
			 report_samples(&r->res->lag_samples, true));
}

static json_t *replay_cache_json(const struct replay_result *r)
{
	uint64_t asked = r->hits + r->misses;

	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "hits", (json_int_t)r->hits, "misses", (json_int_t)r->misses, "hit_rate",
			 asked ? json_real((double)r->hits / (double)asked) : json_null(),
			 "prefilled", count_json(&r->prefilled), "created", count_json(&r->created),
			 "evicted", count_json(&r->evicted), "skipped", (json_int_t)r->skipped,
			 "skipped_deletes", (json_int_t)r->skipped_deletes, "too_large",
			 (json_int_t)r->too_large, "clipped", (json_int_t)r->clipped, "reused",
			 (json_int_t)r->reused, "objects", (json_int_t)r->objects, "used_bytes",
			 (json_int_t)r->used_bytes);
}

static json_t *errors_json(const struct replay_result *r)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "reads", (json_int_t)r->errors[TRACE_READ],
			 "writes", (json_int_t)r->errors[TRACE_WRITE], "deletes",
			 (json_int_t)r->errors[TRACE_DELETE], "verify",
			 (json_int_t)r->verify_errors, "first", report_str_or_null(r->first_error));
}

/* ------------------------------------------------------------------------ result */

static json_t *replay_json(const struct replay_report *r)
{
	const struct replay_result *res = r->res;
	json_t *j = json_pack("{s:o, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "trace",
			      r->scan ? scan_json(r->scan) : json_null(), "elapsed_sec",
			      res->elapsed_sec, "prefill_sec", res->prefill_sec, "wall_sec",
			      res->wall_sec, "rows", (json_int_t)res->rows, "started",
			      (json_int_t)res->started, "bad_rows", (json_int_t)res->bad.nr,
			      "passed_tier", (json_int_t)res->passed[REPLAY_PASSED_TIER],
			      "passed_operation", (json_int_t)res->passed[REPLAY_PASSED_OP],
			      "passed_failed", (json_int_t)res->passed[REPLAY_PASSED_FAILED]);

	json_object_set_new(j, "first_bad", report_str_or_null(res->bad.text[0]));
	json_object_set_new(j, "needs", r->scan ? needs_json(r->scan, REPLAY_PLACES) : json_null());
	json_object_set_new(j, "done", done_json(res));
	json_object_set_new(j, "classes", classes_json(res));
	json_object_set_new(j, "cache", replay_cache_json(res));
	json_object_set_new(j, "lag", lag_json(r));
	json_object_set_new(j, "wait", report_samples(&res->wait, true));
	json_object_set_new(j, "errors", errors_json(res));
	json_object_set_new(j, "cpu",
			    json_pack("{s:f, s:f}", "user_sec", res->cpu_user_sec, "system_sec",
				      res->cpu_system_sec));
	json_object_set_new(j, "seconds", result_seconds(&res->seconds, res->elapsed_sec));
	return j;
}

void replay_report_result(const struct replay_report *r, struct result *common,
			  struct result_target targets[REPLAY_PLACES])
{
	const struct replay_result *res = r->res;

	for (unsigned i = 0; i < res->nr_paths; i++)
		targets[i] = (struct result_target){res->path_name[i], res->path[i]};
	if (!res->nr_paths)
		targets[0] = (struct result_target){.folder = "memory or nothing"};
	common->targets = targets;
	common->nr_targets = res->nr_paths ? res->nr_paths : 1;
	add_settings(common->settings, r->job);
	common->replay = replay_json(r);
	if (res->has_store)
		common->store = report_store_json(&res->store, r->job->policy);
	if (res->has_remote)
		common->objects = report_object_requests_json(&res->remote);
	common->bytes_written = res->bytes_written;
	common->series = res->series;
	common->nr_series = res->nr_series;
	if (res->partial)
		result_partial(common, res->partial_why);
}
