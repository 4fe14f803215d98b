/* SPDX-License-Identifier: Apache-2.0 */
/* A replay in words. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/jobs/replay_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"
#include "load/stat/stat.h"

#define PACE_TEXT 48

/* "flat out", "as recorded", "2 times as fast". */
static char *pace_text(char buf[PACE_TEXT], double pace)
{
	if (pace <= 0)
		snprintf(buf, PACE_TEXT, "flat out");
	else if (pace == 1)
		snprintf(buf, PACE_TEXT, "as recorded");
	else
		snprintf(buf, PACE_TEXT, "%g times as fast as recorded", pace);
	return buf;
}

char *replay_target_text(char buf[REPLAY_TARGET_TEXT], const struct replay_job *job, unsigned tier)
{
	const struct replay_target *t = &job->tiers[tier];
	size_t n = 0;

	switch (t->kind) {
	case PLACE_MEMORY:
		snprintf(buf, REPLAY_TARGET_TEXT, "host memory");
		break;
	case PLACE_GPU:
		snprintf(buf, REPLAY_TARGET_TEXT, "memory of GPU %u", t->device);
		break;
	case PLACE_NULL:
		if (t->bytes_per_sec > 0)
			snprintf(buf, REPLAY_TARGET_TEXT, "nothing, at %.3f GB/s",
				 t->bytes_per_sec / 1e9);
		else
			snprintf(buf, REPLAY_TARGET_TEXT, "nothing");
		break;
	default:
		if (t->kind == PLACE_STORE)
			n = (size_t)snprintf(buf, REPLAY_TARGET_TEXT, "a store in ");
		for (unsigned i = 0; i < t->nr_paths && n < REPLAY_TARGET_TEXT; i++)
			n += (size_t)snprintf(buf + n, REPLAY_TARGET_TEXT - n, "%s%s",
					      i ? ", " : "", t->paths[i]);
		break;
	}
	return buf;
}

/* ------------------------------------------------------------------- the trace */

static void trace_lines(FILE *f, const struct replay_report *r)
{
	const struct replay_scan *s = r->scan;
	char text[REPORT_TIME_TEXT];

	fprintf(f, "trace:      %s", r->job->trace);
	if (!s) {
		fprintf(f, ", read once\n");
		return;
	}
	fprintf(f, ": %s, %" PRIu64 " rows over %s, %" PRIu64 " of them to be replayed\n",
		trace_format_names[s->format], s->rows,
		report_time(text, (double)(s->last_ns - s->first_ns) / 1e9), s->used_rows);
	if (s->out_of_order)
		fprintf(f,
			"            %" PRIu64
			" rows step back in time, by %s at most; they stay in their order\n",
			s->out_of_order, report_time(text, (double)s->max_step_back_ns / 1e9));
}

static void target_lines(FILE *f, const struct replay_report *r)
{
	char text[REPLAY_TARGET_TEXT];
	const char *label = "targets:";

	for (unsigned t = 0; t < REPLAY_TIERS; t++) {
		const struct replay_target *target = &r->job->tiers[t];
		bool known =
			r->scan &&
			r->scan->count[t][TRACE_READ].ops + r->scan->count[t][TRACE_WRITE].ops == 0;

		if (!target->used || known)
			continue;
		fprintf(f, "%-11s %s: %s", label,
			t == REPLAY_NO_TIER ? "all rows" : replay_tier_names[t],
			replay_target_text(text, r->job, t));
		if (target->kind == PLACE_FILES)
			fprintf(f, " (%s)", replay_layout_words[r->job->layout]);
		fputc('\n', f);
		label = "";
	}
}

static void need_lines(FILE *f, const struct replay_report *r)
{
	char peak[PENSTOCK_SIZE_TEXT], initial[PENSTOCK_SIZE_TEXT];
	struct replay_need all = {0};
	uint64_t most = 0;

	for (unsigned i = 0; i < REPLAY_PLACES; i++) {
		all.peak += r->scan->need[i].peak;
		most += min_u64(r->scan->need[i].peak, r->job->capacity);
		all.objects += r->scan->need[i].objects;
		all.initial += r->scan->need[i].initial;
		all.initial_bytes += r->scan->need[i].initial_bytes;
	}
	fprintf(f, "needs:      ");
	if (r->job->capacity && most < all.peak)
		fprintf(f, "%s at once, for --capacity; without it ",
			penstock_size_format(peak, most));
	fprintf(f, "%s at once, in %" PRIu64 " objects\n", penstock_size_format(peak, all.peak),
		all.objects);
	if (all.initial)
		fprintf(f,
			"            %" PRIu64 " objects (%s) are read before they are written\n",
			all.initial, penstock_size_format(initial, all.initial_bytes));
}

void replay_report_plan(FILE *f, const struct replay_report *r)
{
	char bytes[PENSTOCK_SIZE_TEXT], pace[PACE_TEXT];

	trace_lines(f, r);
	target_lines(f, r);
	if (!r->scan)
		return;
	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		for (unsigned o = 0; o < TRACE_OPS; o++) {
			const struct replay_count *n = &r->scan->count[t][o];

			if (n->ops)
				fprintf(f, "            %-7s %-6s %12" PRIu64 "  %s%s\n",
					replay_tier_names[t], trace_op_names[o], n->ops,
					penstock_size_format(bytes, n->bytes),
					r->job->tiers[t].used ? "" : "  (passed over)");
		}
	need_lines(f, r);
	fprintf(f, "pace:       %s, %u operations in flight at most\n",
		pace_text(pace, r->job->pace), r->job->depth);
}

/* ----------------------------------------------------------------- what was done */

/* @why names a key of the trace, which may have ends of lines in it. */
static void reason_line(FILE *f, const char *what, const char *why)
{
	fputs(what, f);
	report_escape_put(f, why);
	fputc('\n', f);
}

/* Bytes for which nothing takes any time have no bandwidth. */
static bool has_speed(const struct replay_job *job, unsigned tier)
{
	const struct replay_target *t = &job->tiers[tier];

	return t->kind != PLACE_NULL || t->bytes_per_sec > 0;
}

static void class_line(FILE *f, const struct replay_report *r, const struct replay_class *c)
{
	static const double levels[] = {50, 99};
	char mean[REPORT_TIME_TEXT], p50[REPORT_TIME_TEXT], p99[REPORT_TIME_TEXT],
		max[REPORT_TIME_TEXT];
	const char *phase = trace_phase_names[c->phase];
	double v[2] = {NAN, NAN}, sec = r->res->elapsed_sec;
	char speed[32] = "-";

	if (!c->latency.n || samples_percentiles(&c->latency, levels, v, 2) < 0)
		return;
	if (has_speed(r->job, c->tier))
		snprintf(speed, sizeof(speed), "%.1f", sec > 0 ? (double)c->bytes / sec / 1e6 : 0);
	fprintf(f, "%-7s %-8s %-8s %-14s %10" PRIu64 " %10.1f %10s %11s %11s %11s %11s\n",
		trace_op_names[c->op], replay_tier_names[c->tier], *phase ? phase : "-",
		replay_size_names[c->size], c->ops, sec > 0 ? (double)c->ops / sec : 0, speed,
		report_time(mean, samples_mean(&c->latency)), report_time(p50, v[0]),
		report_time(p99, stat_percentile_known(c->latency.n, levels[1]) ? v[1] : NAN),
		report_time(max, c->latency.max));
}

static void class_lines(FILE *f, const struct replay_report *r)
{
	if (!r->res->nr_classes)
		return;
	fprintf(f, "\n%-7s %-8s %-8s %-14s %10s %10s %10s %11s %11s %11s %11s\n", "", "tier",
		"phase", "size", "ops", "ops/s", "MB/s", "mean", "p50", "p99", "max");
	for (unsigned i = 0; i < r->res->nr_classes; i++)
		class_line(f, r, &r->res->classes[i]);
	fputc('\n', f);
}

static void total_line(FILE *f, const struct replay_report *r)
{
	const struct replay_result *res = r->res;
	double sec = res->elapsed_sec;
	uint64_t ops = 0, bytes = 0;
	bool speed = true;
	char text[PENSTOCK_SIZE_TEXT], pace[PACE_TEXT], took[REPORT_TIME_TEXT];

	for (unsigned t = 0; t < REPLAY_TIERS; t++)
		for (unsigned o = 0; o <= TRACE_DELETE; o++) {
			ops += res->done[t][o].ops;
			bytes += res->done[t][o].bytes;
			speed &= !res->done[t][o].bytes || has_speed(r->job, t);
		}
	fprintf(f, "replayed:   %" PRIu64 " operations, %s in %s: ", ops,
		penstock_size_format(text, bytes), report_time(took, sec));
	if (speed)
		fprintf(f, "%.1f MB/s, ", sec > 0 ? (double)bytes / sec / 1e6 : 0);
	fprintf(f, "%.0f ops/s\n", sec > 0 ? (double)ops / sec : 0);
	fprintf(f, "pace:       %s, %u operations in flight at most\n",
		pace_text(pace, r->job->pace), r->job->depth);
}

static void lag_lines(FILE *f, const struct replay_report *r)
{
	const struct replay_lag *l = &r->res->lag;
	char mean[REPORT_TIME_TEXT], max[REPORT_TIME_TEXT], last[REPORT_TIME_TEXT];

	if (r->job->pace <= 0 || !l->n)
		return;
	fprintf(f, "lag:        mean %s, max %s, at the end %s\n",
		report_time(mean, l->sum / (double)l->n), report_time(max, l->max),
		report_time(last, l->last));
	if (replay_overloaded(l))
		fprintf(f,
			"OVERLOADED: falls behind by %.3f s per second of the schedule; latencies "
			"are those of a later time than recorded\n",
			replay_lag_slope(l));
}

static void cache_lines(FILE *f, const struct replay_report *r)
{
	const struct replay_result *res = r->res;
	char text[PENSTOCK_SIZE_TEXT];

	if (res->hits + res->misses)
		fprintf(f,
			"reads:      %" PRIu64 " of what was there, %" PRIu64 " of what was not\n",
			res->hits, res->misses);
	if (res->prefilled.ops)
		fprintf(f, "prefill:    %" PRIu64 " objects, %s in %.3f s\n", res->prefilled.ops,
			penstock_size_format(text, res->prefilled.bytes), res->prefill_sec);
	if (res->reused)
		fprintf(f, "reused:     %" PRIu64 " objects of an earlier run\n", res->reused);
	if (res->created.ops)
		fprintf(f, "created:    %" PRIu64 " objects, %s, %s%s\n", res->created.ops,
			penstock_size_format(text, res->created.bytes),
			res->has_store ? "set again after a miss"
				       : "on the way to their first read",
			r->job->prefill || res->has_store ? ""
							  : "; --prefill makes them beforehand");
	if (res->skipped + res->skipped_deletes)
		fprintf(f,
			"skipped:    %" PRIu64 " reads and %" PRIu64
			" deletions of what was not there\n",
			res->skipped, res->skipped_deletes);
	if (res->evicted.ops)
		fprintf(f, "capacity:   %" PRIu64 " objects, %s deleted for it\n", res->evicted.ops,
			penstock_size_format(text, res->evicted.bytes));
	if (res->too_large)
		fprintf(f, "too large:  %" PRIu64 " objects for %s\n", res->too_large,
			res->has_store ? "the store" : "--capacity");
	if (res->clipped)
		fprintf(f, "clipped:    %" PRIu64 " reads beyond the end of the object\n",
			res->clipped);
}

static void passed_line(FILE *f, const struct replay_result *res)
{
	const uint64_t *n = res->passed;

	if (n[REPLAY_PASSED_TIER] + n[REPLAY_PASSED_OP] + n[REPLAY_PASSED_FAILED])
		fprintf(f,
			"passed:     %" PRIu64 " rows of other tiers, %" PRIu64
			" of other operations, %" PRIu64 " that had failed when recorded\n",
			n[REPLAY_PASSED_TIER], n[REPLAY_PASSED_OP], n[REPLAY_PASSED_FAILED]);
}

/* The first series that went to storage speaks for the others. */
static void ran_lines(FILE *f, const struct replay_result *res)
{
	for (unsigned i = 0; i < res->nr_series; i++)
		if (!res->series[i].no_storage) {
			report_run_lines(f, &res->series[i]);
			return;
		}
}

/* Each state of the page cache once. */
static void page_cache_lines(FILE *f, const struct replay_result *res)
{
	for (unsigned i = 0; i < res->nr_series; i++) {
		const struct run_series *s = &res->series[i], *was = res->series;

		while (was != s && (was->read != s->read || strcmp(was->cache, s->cache) != 0))
			was++;
		if (was == s && !s->no_storage)
			fprintf(f, "cache:      %ss: %s\n", s->read ? "read" : "write", s->cache);
	}
}

static void error_lines(FILE *f, const struct replay_result *res)
{
	const uint64_t *n = res->errors;

	if (!(n[TRACE_READ] + n[TRACE_WRITE] + n[TRACE_DELETE]))
		return;
	fprintf(f, "failed:     %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64 " deletions",
		n[TRACE_READ], n[TRACE_WRITE], n[TRACE_DELETE]);
	reason_line(f, "; the first: ", res->first_error);
}

void replay_report_text(FILE *f, const struct replay_report *r)
{
	const struct replay_result *res = r->res;
	char text[PENSTOCK_SIZE_TEXT];

	trace_lines(f, r);
	target_lines(f, r);
	class_lines(f, r);
	if (res->partial)
		reason_line(f, "partial:    ", res->partial_why);
	total_line(f, r);
	lag_lines(f, r);
	cache_lines(f, r);
	if (res->has_store)
		report_store_lines(f, &res->store, r->job->policy);
	if (res->has_remote)
		report_object_requests_lines(f, &res->remote);
	passed_line(f, res);
	ran_lines(f, res);
	page_cache_lines(f, res);
	fprintf(f, "cpu:        %.3f s user, %.3f s system\n", res->cpu_user_sec,
		res->cpu_system_sec);
	fprintf(f, "written:    %s in all\n", penstock_size_format(text, res->bytes_written));
	if (r->job->verify)
		fprintf(f, "verified:   %s compared, %" PRIu64 " reads were wrong\n",
			penstock_size_format(text, res->verified_bytes), res->verify_errors);
	error_lines(f, res);
}
