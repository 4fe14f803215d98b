/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streamed weights for people and programs: tokens per second that the storage would allow, and
 * never what a model does, for none was run.
 */
#include "load/report/jobs/weights_report.h"

#include <inttypes.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"
#include "load/weights/weights_job.h"

#define GB 1e9

/* What others would give: so many drives, and so much of the bytes. */
static const struct {
	const char *name;
	double drives, bytes;
} others[] = {
	{"this", 1, 1},        {"2 drives", 2, 1},   {"4 drives", 4, 1},
	{"half bits", 1, 0.5}, {"quarter", 1, 0.25},
};
static const uint32_t batches[] = {1, 8, 32, 96, 256, 1024};

/* Bytes that a step reads: all of them, or what was read for experts. */
static double step_bytes(const struct weights_job *job, const struct weights_result *res)
{
	if (!job->experts)
		return (double)res->plan.bytes;
	return res->steps > 0 ? (double)res->stats.bytes_read / res->steps : 0;
}

static double overlap(const struct weights_result *res)
{
	return res->series.sec > 0 ? res->ideal_sec / res->series.sec : 0;
}

/* ---------------------------------------------------------------------- text */

static void weights_table(FILE *f, double limit, double bytes, uint32_t own)
{
	bool seen = false;

	fprintf(f, "\ntokens/s at most, by the bytes of a step and %.2f GB/s of a drive:\n%8s",
		limit / GB, "batch");
	for (size_t k = 0; k < ARRAY_SIZE(others); k++)
		fprintf(f, " %12s", others[k].name);
	fputc('\n', f);
	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		uint32_t batch = !seen && own < batches[i] ? own : batches[i];

		seen |= own <= batches[i];
		fprintf(f, "%8u", batch);
		for (size_t k = 0; k < ARRAY_SIZE(others); k++)
			fprintf(f, " %12.3g",
				weights_bound(batch, limit * others[k].drives,
					      bytes * others[k].bytes));
		fputc('\n', f);
		if (batch != batches[i])
			i--;
	}
}

/* In the unit that has figures to show. */
static const char *decimal(char out[PENSTOCK_SIZE_TEXT], uint64_t bytes)
{
	if (bytes < 1000000000)
		snprintf(out, PENSTOCK_SIZE_TEXT, "%.3g MB", (double)bytes / 1e6);
	else
		snprintf(out, PENSTOCK_SIZE_TEXT, "%.2f GB", (double)bytes / GB);
	return out;
}

static void head(FILE *f, const struct weights_job *job, const struct weights_plan *p)
{
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT], c[PENSTOCK_SIZE_TEXT];

	fprintf(f, "Weights of %s: %s in %" PRIu64 " group%s, the largest %s, window %s\n",
		job->model, decimal(c, p->bytes), p->groups, p->groups == 1 ? "" : "s",
		penstock_size_format(a, p->largest), penstock_size_format(b, job->window));
	if (p->shape)
		fprintf(f,
			"            in place of them blocks of a file of %s are read again and "
			"again\n",
			penstock_size_format(c, p->file_bytes));
	if (job->experts)
		fprintf(f,
			"            %" PRIu64 " groups are experts, %s; the other weights are "
			"taken to be in memory\n",
			p->expert_groups, decimal(c, p->expert_bytes));
	if (job->window < 2 * p->largest)
		fprintf(f, "            the window has no room for two of the largest: nothing is "
			   "read beside their use\n");
}

void weights_report_plan(FILE *f, const struct weights_job *job, const struct weights_plan *plan)
{
	char a[PENSTOCK_SIZE_TEXT];

	head(f, job, plan);
	if (job->limit) {
		fprintf(f, "bound:      %.3g tokens/s at batch %u: %.2f GB/s over %.2f GB\n",
			weights_bound(job->batch, (double)job->limit, (double)plan->bytes),
			job->batch, (double)job->limit / GB, (double)plan->bytes / GB);
		weights_table(f, (double)job->limit, (double)plan->bytes, job->batch);
	}
	fprintf(f, "would take: %.0f s, and as long as it takes to find the limit\n", job->sec);
	if (plan->shape)
		fprintf(f, "writes:     %s, removed at the end\n",
			penstock_size_format(a, plan->file_bytes));
}

static void stall_line(FILE *f, const struct weights_result *res)
{
	const struct penstock_weights_stats *s = &res->stats;
	double sec = res->series.sec > 0 ? res->series.sec : 1;

	fprintf(f,
		"stall:      waiting for the disk %.2f s (%.0f %%), for copies to the device "
		"%.2f s; disk idle because the window was held %.2f s\n",
		(double)s->stall_disk_ns / 1e9, (double)s->stall_disk_ns / 1e7 / sec,
		(double)s->stall_copy_ns / 1e9, (double)s->stall_caller_ns / 1e9);
	if (s->bytes_copied)
		fprintf(f,
			"copy:       %.2f GB/s to the device while copying, %.2f GB/s from the "
			"disk while reading\n",
			(double)s->bytes_copied / (double)max_u64(s->copy_ns, 1),
			(double)s->bytes_read / (double)max_u64(s->disk_ns, 1));
}

static void expert_line(FILE *f, const struct weights_job *job, const struct weights_result *res)
{
	const struct penstock_weights_stats *s = &res->stats;
	double asked = (double)(s->hits + s->misses), tokens = res->steps * job->batch;

	fprintf(f,
		"experts:    %.1f %% of %.0f were in the window; %.1f MB read for a token; "
		"%.3g steps by %s\n",
		asked > 0 ? 100 * (double)s->hits / asked : 0, asked,
		tokens > 0 ? (double)s->bytes_read / tokens / 1e6 : 0, res->steps, job->experts);
}

void weights_report_text(FILE *f, const struct weights_job *job, const struct weights_result *res)
{
	const struct run_series *s = &res->series;
	char a[PENSTOCK_SIZE_TEXT];

	head(f, job, &res->plan);
	fprintf(f, "\n%-12s %12s %10s\n", "", "tokens/s", "GB/s");
	if (s->limit > 0)
		fprintf(f, "%-12s %12.4g %10.2f  at most: batch %u over the bytes of a step%s\n",
			"bound", res->bound, s->limit / GB, job->batch,
			job->experts ? " at this hit rate" : "");
	fprintf(f, "%-12s %12.4g %10.2f", "measured", res->tokens, series_speed(s) / GB);
	if (s->limit > 0)
		fprintf(f, "  %.3f of the bound", res->bound > 0 ? res->tokens / res->bound : 0);
	fprintf(f, "\n\noverlap:    ");
	if (s->limit > 0)
		fprintf(f,
			"%.3f: %.2f s where %.2f s of reading and computing beside each other "
			"would do\n",
			overlap(res), s->sec, res->ideal_sec);
	else
		fprintf(f, "not known without the limit\n");
	stall_line(f, res);
	if (job->experts)
		expert_line(f, job, res);
	fprintf(f, "reads:      %" PRIu64 " of %s on average\n", res->stats.reads,
		penstock_size_format(a, res->stats.bytes_read / max_u64(res->stats.reads, 1)));
	report_run_lines(f, s);
	report_path(f, res->plan.shape ? job->folder : job->model, &res->path);
	fprintf(f, "\ncache:      %s; afterwards %s of the files are in it\n", s->cache,
		res->cached < 0 ? "it is not known how much"
				: penstock_size_format(a, (uint64_t)res->cached));
	if (s->limit > 0) {
		fprintf(f, "limit:      %.2f GB/s (%s)\n", s->limit / GB, s->limit_how);
		report_limit_line(f, series_speed(s) / s->limit, false, s->limit_how);
		weights_table(f, s->limit, step_bytes(job, res), job->batch);
	}
	fprintf(f, "\nNo model was run: a group is waited for, held for %.3g ms, and released.\n",
		job->compute_ms);
}

/* ---------------------------------------------------------------------- JSON */

static json_t *weights_number(bool known, double v)
{
	return known ? json_real(v) : json_null();
}

static json_t *experts_json(const struct weights_job *job, const struct weights_result *res)
{
	const struct penstock_weights_stats *s = &res->stats;
	double asked = (double)(s->hits + s->misses), tokens = res->steps * job->batch;

	if (!job->experts)
		return json_null();
	return json_pack(
		"{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:b}", "source", report_str(job->experts),
		"groups", (json_int_t)res->plan.expert_groups, "bytes",
		(json_int_t)res->plan.expert_bytes, "hits", (json_int_t)s->hits, "misses",
		(json_int_t)s->misses, "hit_rate",
		weights_number(asked > 0, (double)s->hits / (asked > 0 ? asked : 1)),
		"bytes_per_token",
		weights_number(tokens > 0, (double)s->bytes_read / (tokens > 0 ? tokens : 1)),
		"ahead", job->ahead);
}

static json_t *others_json(const struct weights_job *job, const struct weights_result *res)
{
	json_t *a = json_array();

	for (size_t i = 0; res->series.limit > 0 && i < ARRAY_SIZE(batches); i++)
		for (size_t k = 0; k < ARRAY_SIZE(others); k++)
			json_array_append_new(
				a,
				json_pack("{s:I, s:f, s:f, s:f}", "batch", (json_int_t)batches[i],
					  "drives", others[k].drives, "bytes_share",
					  others[k].bytes, "tokens_per_sec",
					  weights_bound(batches[i],
							res->series.limit * others[k].drives,
							step_bytes(job, res) * others[k].bytes)));
	return a;
}

static json_t *stall_json(const struct penstock_weights_stats *s)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "disk_sec", (double)s->stall_disk_ns / 1e9,
			 "copy_sec", (double)s->stall_copy_ns / 1e9, "caller_sec",
			 (double)s->stall_caller_ns / 1e9, "reading_sec", (double)s->disk_ns / 1e9,
			 "copying_sec", (double)s->copy_ns / 1e9);
}

json_t *weights_report_json(const struct weights_job *job, const struct weights_result *res)
{
	const struct weights_plan *p = &res->plan;
	bool limit = res->series.limit > 0;
	json_t *j = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "synthetic",
			      p->shape != NULL, "model_bytes", (json_int_t)p->bytes, "groups",
			      (json_int_t)p->groups, "weights", (json_int_t)p->weights,
			      "largest_bytes", (json_int_t)p->largest, "file_bytes",
			      (json_int_t)p->file_bytes, "window", (json_int_t)job->window, "batch",
			      (json_int_t)job->batch, "compute_ms", job->compute_ms);

	report_set_path(j, "model", job->model);
	json_object_set_new(j, "bound_tokens_per_sec", weights_number(limit, res->bound));
	json_object_set_new(j, "tokens_per_sec", json_real(res->tokens));
	json_object_set_new(j, "steps", json_real(res->steps));
	json_object_set_new(j, "ideal_sec", weights_number(limit, res->ideal_sec));
	json_object_set_new(j, "overlap", weights_number(limit, overlap(res)));
	json_object_set_new(j, "reads", json_integer((json_int_t)res->stats.reads));
	json_object_set_new(j, "bytes_read", json_integer((json_int_t)res->stats.bytes_read));
	json_object_set_new(j, "cached_bytes",
			    res->cached < 0 ? json_null() : json_integer((json_int_t)res->cached));
	json_object_set_new(j, "stall", stall_json(&res->stats));
	json_object_set_new(j, "experts", experts_json(job, res));
	json_object_set_new(j, "others", others_json(job, res));
	return j;
}
