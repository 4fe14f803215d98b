/* SPDX-License-Identifier: Apache-2.0 */
/* A result as JSON; docs/result.md and share/penstock-result-1.schema.json are the definition. */
#include "load/report/result/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include <penstock/version.h>

#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/measure/handle.h"
#include "load/report/result/machine.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

void result_init(struct result *r, const char *command)
{
	struct timespec wall = {0, 0};

	clock_gettime(CLOCK_REALTIME, &wall);
	*r = (struct result){.command = command, .started = time(NULL)};
	r->wall_ns = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)clock_ns();
	r->duration_sec = -(double)clock_ns() / 1e9;
}

void result_partial(struct result *r, const char *why)
{
	r->partial = true;
	snprintf(r->partial_why, sizeof(r->partial_why), "%s", why);
}

void result_finish(struct result *r)
{
	char why[160];

	r->duration_sec += (double)clock_ns() / 1e9;
	for (unsigned i = 0; i < r->nr_series && !r->partial; i++) {
		snprintf(why, sizeof(why), "%.60s: %.90s", r->series[i].name,
			 r->series[i].partial_why);
		if (r->series[i].partial)
			result_partial(r, why);
	}
}

void result_fini(struct result *r)
{
	json_t **const all[] = {&r->settings, &r->grid,    &r->fio,    &r->gdsio,  &r->tune,
				&r->io,       &r->kv,      &r->flows,  &r->replay, &r->ckpt,
				&r->store,    &r->weights, &r->objects};

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		json_decref(*all[i]);
		*all[i] = NULL;
	}
}

/* ----------------------------------------------------------------- one series */

static json_t *interval(double low, double high)
{
	return isfinite(high) ? json_pack("[f, f]", low, high) : json_null();
}

/* The settings of one series, as JSON: a new object. */
static json_t *result_settings_json(const struct run_series *s)
{
	const struct penstock_opts *o = &s->opts;

	return json_pack(
		"{s:o, s:o, s:o, s:I, s:b, s:b, s:s, s:s, s:s, s:s, s:b}", "engine",
		report_str_or_null(o->engine), "block_size", report_count_or_null(o->block),
		"queue_depth", report_count_or_null(o->depth), "io_parallel",
		(json_int_t)(o->threads ? o->threads : 1), "single_submit",
		!!(o->flags & PENSTOCK_SINGLE_SUBMIT), "sequential_requests",
		!!(o->flags & PENSTOCK_NO_OVERLAP), "direct", io_direct_words[o->direct],
		"durability", io_durability_words[o->durability], "huge", io_huge_words[o->huge],
		"memory", bed_memory_words[s->memory], "lock", s->lock);
}

const char *result_direct_word(const struct run_series *s)
{
	const struct penstock_stats *st = &s->stats;

	if (st->blocks_object)
		return "objects";
	if (s->no_storage || (!st->blocks_direct && !st->blocks_buffered))
		return "nothing moved";
	return !st->blocks_buffered ? "O_DIRECT"
	       : !st->blocks_direct ? "page cache"
				    : "O_DIRECT and page cache";
}

/* Where device memory went through; cuFile's compatibility mode is cuFile. */
static const char *path_word(const struct run_series *s)
{
	if (s->done_flags & (PENSTOCK_DONE_CUFILE | PENSTOCK_DONE_CUFILE_COMPAT))
		return "cufile";
	return s->done_flags & PENSTOCK_DONE_PINNED_POOL ? "pinned_pool" : "host";
}

static json_t *ran_json(const struct run_series *s)
{
	const struct penstock_stats *st = &s->stats;

	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:b, s:b, s:b, s:o, s:o}", "engine",
			 st->engine, "direct", result_direct_word(s), "path", path_word(s),
			 "block_size", (json_int_t)s->file.block, "queue_depth",
			 (json_int_t)st->depth, "io_parallel", (json_int_t)st->threads, "memory",
			 bed_memory_words[s->memory], "huge_pages",
			 !!(s->buf.got & PENSTOCK_BUF_HUGE), "registered",
			 !!(s->buf.got & PENSTOCK_BUF_REGISTERED), "locked",
			 !!(s->buf.got & PENSTOCK_BUF_LOCKED), "fallbacks",
			 report_fallbacks_json(st->fallbacks), "fallback_why",
			 report_str_or_null(st->fallback_why));
}

static json_t *result_stats_json(int (*get)(const struct run_series *, struct stat_summary *,
					    bool *),
				 const struct run_series *s)
{
	struct stat_summary v;
	json_t *percentiles, *ci;
	bool exact;

	if (get(s, &v, &exact) < 0)
		return json_null();
	percentiles = json_object();
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		json_object_set_new(percentiles, stat_percentile_name[i],
				    report_real(v.percentile[i]));
	ci = interval(v.ci_low, v.ci_high);
	return json_pack("{s:I, s:b, s:f, s:f, s:o, s:o, s:f, s:f, s:o}", "n", (json_int_t)v.n,
			 "exact", exact, "mean", v.mean, "median", v.median, "stddev",
			 report_real(v.stddev), "ci95", ci, "min", v.min, "max", v.max,
			 "percentiles", percentiles);
}

static json_t *samples_json(const struct run_series *s)
{
	json_t *j = json_array();

	for (uint64_t i = 0; i < series_kept(s); i++)
		json_array_append_new(j, json_real((double)series_sample(s, i)->latency_ns / 1e9));
	return j;
}

void result_shape_text(char *out, size_t size, const struct run_series *s, struct stat_shape *ret)
{
	char a[REPORT_TIME_TEXT], b[REPORT_TIME_TEXT];

	memset(ret, 0, sizeof(*ret));
	if (s->ops < STAT_SHAPE_MIN)
		snprintf(out, size, "too few operations to tell");
	else if (!s->hist || stat_shape(ret, s->hist) < 0)
		snprintf(out, size, "unknown: out of memory");
	else if (!ret->bimodal)
		snprintf(out, size, "one peak");
	else
		snprintf(out, size, "bimodal: %.0f %% near %s, %.0f %% near %s",
			 ret->peak[0].share * 100, report_time(a, ret->peak[0].ns / 1e9),
			 ret->peak[1].share * 100, report_time(b, ret->peak[1].ns / 1e9));
}

static json_t *distribution_json(const struct run_series *s)
{
	json_t *peaks = json_array();
	struct stat_shape shape;
	char text[128];

	result_shape_text(text, sizeof(text), s, &shape);
	for (unsigned i = 0; shape.bimodal && i < 2; i++)
		json_array_append_new(peaks,
				      json_pack("{s:f, s:f}", "latency", shape.peak[i].ns / 1e9,
						"share", shape.peak[i].share));
	return json_pack("{s:b, s:o, s:s}", "bimodal", shape.bimodal, "peaks", peaks, "text", text);
}

json_t *result_seconds(const struct per_second *s, double sec)
{
	json_t *j = json_object(), *t = json_array(), *span = json_array();

	for (uint32_t i = 0; i < s->nr; i++) {
		double rest = sec - i;

		json_array_append_new(t, json_real(i));
		json_array_append_new(span, json_real(rest < 0 ? 0 : rest < 1 ? rest : 1));
	}
	json_object_set_new(j, "t", t);
	json_object_set_new(j, "span", span);
	for (unsigned k = 0; k < s->nr_channels; k++) {
		const struct per_second_channel *c = &s->channels[k];
		json_t *a = json_array();

		for (uint32_t i = 0; c->name && i < s->nr; i++) {
			double v = per_second_value(c, per_second_row(s, i));

			json_array_append_new(a, c->kind == PER_SECOND_COUNT
							 ? report_count((uint64_t)v)
							 : report_real(v));
		}
		if (c->name)
			json_object_set(j, c->name, a);
		json_decref(a);
	}
	return j;
}

static json_t *cpu_json(const struct run_series *s)
{
	double per_gib = series_cpu_per_gib(s);

	return json_pack("{s:f, s:f, s:f, s:o, s:b}", "user_sec", s->user_sec, "system_sec",
			 s->system_sec, "library_sec", s->library_sec, "sec_per_gib",
			 per_gib < 0 ? json_null() : json_real(per_gib), "shared",
			 s->run_bytes != s->bytes);
}

/* Did the writes fill empty files?  Settings and counters of the commands know. */
static bool fresh_writes(const struct result *r)
{
	if (r->ckpt || !strcmp(r->command, "gen"))
		return true;
	if (!strcmp(r->command, "bench"))
		return json_is_false(json_object_get(r->settings, "rewrite"));
	return json_integer_value(json_object_get(r->io, "fresh_loops")) > 0;
}

static json_t *result_limit_json(const struct run_series *s, bool fresh)
{
	bool known = s->limit > 0 && s->sec > 0;
	double share = known ? series_speed(s) / s->limit : 0;
	char note[REPORT_LIMIT_NOTE] = "";

	if (known)
		report_limit_note(note, share, fresh && !s->read && !s->stats.blocks_object,
				  s->limit_how);
	return json_pack("{s:o, s:o, s:o, s:o}", "bytes_per_sec",
			 s->limit > 0 ? json_real(s->limit) : json_null(), "share",
			 known ? json_real(share) : json_null(), "how",
			 report_str(*s->limit_how ? s->limit_how : "not measured"), "note",
			 report_str_or_null(note));
}

/* Seconds since 1970; the bits of a double are enough for a quarter of a microsecond. */
static double wall_sec(const struct result *r, uint64_t at_ns)
{
	return (double)((int64_t)at_ns + r->wall_ns) / 1e9;
}

/* When it was that counted time had come to @at_ns. */
static double wall_of_counted(const struct result *r, const struct run_series *s, uint64_t at_ns)
{
	uint32_t i = 0;

	for (; i + 1 < s->nr_turns && at_ns > s->turns[i].ns; i++)
		at_ns -= s->turns[i].ns;
	return wall_sec(r, s->turns[i].start_ns + at_ns);
}

/* Where it lay in real time: what results of several processes are added up by. */
static json_t *interval_json(const struct result *r, const struct run_series *s)
{
	json_t *turns = json_array();

	for (uint32_t i = 0; i < s->nr_turns; i++)
		json_array_append_new(
			turns, json_pack("[f, f]", wall_sec(r, s->turns[i].start_ns),
					 wall_sec(r, s->turns[i].start_ns + s->turns[i].ns)));
	if (!s->nr_turns || !s->ops) {
		json_decref(turns);
		return json_null();
	}
	return json_pack("{s:o, s:f, s:f}", "turns", turns, "first_done",
			 wall_of_counted(r, s, s->first_ns), "last_done",
			 wall_of_counted(r, s, s->last_ns));
}

json_t *result_series_json(const struct result *r, const struct run_series *s, bool fresh)
{
	json_t *j = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:b, s:o}", "name",
			      report_str(s->name), "kind", s->read ? "read" : "write", "size",
			      report_count_or_null(s->size), "settings", result_settings_json(s),
			      "ran", ran_json(s), "cache", report_str(s->cache), "partial",
			      s->partial, "partial_why", report_str_or_null(s->partial_why));

	json_object_set_new(j, "ended_by", *s->time_limit ? json_string("time") : json_null());
	json_object_set_new(j, "ops", report_count(s->ops));
	json_object_set_new(j, "errors", report_count(s->errors));
	json_object_set_new(j, "first_error", report_str_or_null(s->first_error));
	json_object_set_new(j, "bytes", report_count(s->bytes));
	json_object_set_new(j, "bytes_written", report_count(series_written(s)));
	json_object_set_new(j, "sec", json_real(s->sec));
	json_object_set_new(j, "interval", interval_json(r, s));
	json_object_set_new(j, "bytes_per_sec", json_real(series_speed(s)));
	if (s->nr_repeats) {
		json_object_set_new(j, "repeats", report_count(s->nr_repeats));
		json_object_set_new(j, "bytes_per_sec_ci95",
				    interval(fmax(0, series_speed(s) - series_speed_half(s)),
					     series_speed(s) + series_speed_half(s)));
	}
	json_object_set_new(j, "latency", result_stats_json(series_latency, s));
	json_object_set_new(j, "bandwidth", result_stats_json(series_bandwidth, s));
	json_object_set_new(j, "samples", samples_json(s));
	json_object_set_new(j, "histogram", report_histogram(s->hist));
	json_object_set_new(j, "distribution", distribution_json(s));
	json_object_set_new(j, "per_second", result_seconds(&s->seconds, s->sec));
	json_object_set_new(j, "late",
			    json_pack("{s:f, s:f}", "mean", s->late.mean, "max", s->late.max));
	json_object_set_new(j, "cpu", cpu_json(s));
	json_object_set_new(j, "limit", result_limit_json(s, fresh));
	json_object_set_new(j, "verified_bytes",
			    s->verify ? report_count(s->verified_bytes) : json_null());
	return j;
}

/* ------------------------------------------------------------------ the whole */

static json_t *machine_json(void)
{
	struct penstock_gpu_info gpu = {.size = sizeof(gpu)};
	struct report_machine m;
	json_t *j;

	report_machine_load(&m);
	j = report_machine_json(&m);
	penstock_probe_gpu(&gpu);
	json_object_set_new(j, "gpu", report_str_or_null(gpu.devices ? gpu.device0 : ""));
	json_object_set_new(j, "host", report_str_or_null(m.host));
	return j;
}

/* What the kernel knows of its clock: whether something keeps it in step, and how well. */
static json_t *wall_clock_json(void)
{
	struct timex now = {.modes = 0};
	int state = adjtimex(&now);

	return json_pack("{s:b, s:f}", "synchronised",
			 state >= 0 && state != TIME_ERROR && !(now.status & STA_UNSYNC),
			 "max_error_sec", (double)now.maxerror / 1e6);
}

static json_t *target_json(const struct result_target *t)
{
	const struct penstock_path_info *p = &t->info;
	json_t *device = json_null(), *j = json_object();

	if (p->has_device)
		device = json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:b}", "name",
				   report_str_or_null(p->device.name), "model",
				   report_str_or_null(p->device.model), "scheduler",
				   report_str_or_null(p->device.scheduler), "bytes",
				   (json_int_t)p->device.bytes, "logical_block",
				   (json_int_t)p->device.logical_block, "max_segments",
				   (json_int_t)p->device.max_segments, "max_sectors_kb",
				   (json_int_t)p->device.max_sectors_kb, "rotational",
				   p->device.rotational != 0);
	report_set_path(j, "folder", t->folder);
	json_object_set_new(j, "file_system", report_str_or_null(p->fs));
	json_object_set_new(j, "mount", report_str_or_null(p->mount));
	json_object_set_new(j, "direct", json_boolean(p->direct));
	json_object_set_new(j, "direct_why_not", report_str_or_null(p->direct_why));
	json_object_set_new(j, "free_bytes", report_count(p->free_bytes));
	json_object_set_new(j, "block_device", device);
	return j;
}

/* The words this process was started with. */
static json_t *command_line_json(void)
{
	FILE *f = fopen("/proc/self/cmdline", "re");
	CLEANUP_FREE char *word = NULL;
	json_t *j = json_array();
	size_t capacity = 0;

	while (f && getdelim(&word, &capacity, 0, f) > 0)
		json_array_append_new(j, report_str(word));
	if (f)
		fclose(f);
	return j;
}

json_t *result_json(const struct result *r)
{
	const struct {
		const char *name;
		json_t *part;
	} more[] = {{"grid", r->grid},   {"fio", r->fio},         {"gdsio", r->gdsio},
		    {"tune", r->tune},   {"io", r->io},           {"kv", r->kv},
		    {"flows", r->flows}, {"replay", r->replay},   {"ckpt", r->ckpt},
		    {"store", r->store}, {"weights", r->weights}, {"objects", r->objects}};
	json_t *targets = json_array(), *series = json_array(), *j;
	char when[32] = "";
	struct tm tm;

	if (gmtime_r(&r->started, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	for (unsigned i = 0; i < r->nr_targets; i++)
		json_array_append_new(targets, target_json(&r->targets[i]));
	for (unsigned i = 0; i < r->nr_series; i++)
		json_array_append_new(series,
				      result_series_json(r, &r->series[i], fresh_writes(r)));
	j = json_pack("{s:s, s:s, s:s, s:o, s:s, s:f, s:b, s:o, s:o, s:o, s:O?, s:I, s:o}",
		      "schema", "penstock-result/1", "penstock", PENSTOCK_VERSION_STRING, "command",
		      r->command, "command_line", command_line_json(), "time", when, "duration_sec",
		      r->duration_sec, "partial", r->partial, "partial_why",
		      report_str_or_null(r->partial_why), "machine", machine_json(), "targets",
		      targets, "settings", r->settings, "bytes_written",
		      (json_int_t)r->bytes_written, "series", series);
	for (unsigned i = 0; i < ARRAY_SIZE(more); i++)
		if (more[i].part)
			json_object_set(j, more[i].name, more[i].part);
	json_object_set_new(j, "wall_clock", wall_clock_json());
	return j;
}
