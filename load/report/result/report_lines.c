/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What more than one report says is said here, so that it is said in the same words: times,
 * what ran and where, what a share of the limit means, ways that were taken or refused.
 */
#include "load/report/result/report_lines.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/report/result/result.h"

char *report_time(char buf[REPORT_TIME_TEXT], double sec)
{
	double v = fabs(sec);

	if (!isfinite(v))
		snprintf(buf, REPORT_TIME_TEXT, "-");
	else if (v < 1e-6)
		snprintf(buf, REPORT_TIME_TEXT, "%.0f ns", sec * 1e9);
	else if (v < 1e-3)
		snprintf(buf, REPORT_TIME_TEXT, "%.1f us", sec * 1e6);
	else if (v < 1)
		snprintf(buf, REPORT_TIME_TEXT, "%.3f ms", sec * 1e3);
	else
		snprintf(buf, REPORT_TIME_TEXT, "%.3f s", sec);
	return buf;
}

void report_run_lines(FILE *f, const struct run_series *s)
{
	char block[PENSTOCK_SIZE_TEXT];

	fprintf(f, "engine:     %s, queue depth %u, %u I/O thread%s, %s%s%s%s\n", s->stats.engine,
		s->stats.depth, s->stats.threads, s->stats.threads == 1 ? "" : "s",
		s->file.block ? "blocks of " : "",
		s->file.block ? penstock_size_format(block, s->file.block) : "",
		s->file.block ? ", " : "", result_direct_word(s));
	fprintf(f, "memory:     %s%s%s%s%s%s\n", bed_memory_words[s->memory],
		s->buf.got & PENSTOCK_BUF_HUGE ? ", huge pages" : ", ordinary pages",
		s->buf.got & PENSTOCK_BUF_REGISTERED ? ", registered" : "",
		s->buf.got & PENSTOCK_BUF_LOCKED ? ", locked" : "", *s->buf.note ? "; " : "",
		s->buf.note);
	if (s->stats.fallbacks)
		fprintf(f, "fallbacks:  %s\n", s->stats.fallback_why);
}

void report_path(FILE *f, const char *folder, const struct penstock_path_info *p)
{
	fprintf(f, "path:       %s: %s", folder, *p->fs ? p->fs : "unknown file system");
	if (p->has_device && *p->device.name)
		fprintf(f, " on %s", p->device.name);
	if (p->has_device && *p->device.model)
		fprintf(f, " (%s)", p->device.model);
}

void report_plan_writes(FILE *f, uint64_t bytes, uint64_t limit, bool open_ended)
{
	char all[PENSTOCK_SIZE_TEXT], part[PENSTOCK_SIZE_TEXT];

	fprintf(f, "writes:     %s %s (%" PRIu64 " bytes)", open_ended ? "about" : "at most",
		penstock_size_format(all, bytes), bytes);
	if (limit)
		fprintf(f, ", up to %s of it to measure the limit",
			penstock_size_format(part, limit));
	fprintf(f, "%s\n",
		open_ended ? "; more on a faster device, as it is time that ends it" : "");
}

void report_plan_time(FILE *f, double seconds, double speed, bool given)
{
	fprintf(f, "time:       about %.0f s at %.2f GiB/s (%s)\n", ceil(seconds),
		speed / (1u << 30), given ? "as --limit says" : "assumed; --limit knows better");
}

char *report_limit_note(char buf[REPORT_LIMIT_NOTE], double share, bool fresh, const char *how)
{
	bool given = !strcmp(how, "as given");

	*buf = 0;
	if (fresh && !given)
		snprintf(buf, REPORT_LIMIT_NOTE,
			 "these writes fill fresh files, whose blocks the file system has to "
			 "allocate; the limit was measured by writing over existing data");
	if (share > 1)
		snprintf(buf + strlen(buf), REPORT_LIMIT_NOTE - strlen(buf), "%s%s",
			 *buf ? "; " : "", "above 100 %: faster than the limit that was given");
	return buf;
}

void report_limit_line(FILE *f, double share, bool fresh, const char *how)
{
	char note[REPORT_LIMIT_NOTE];

	if (*report_limit_note(note, share, fresh, how))
		fprintf(f, "            (%s)\n", note);
}

/* -------------------------------------------------------------- words of bits */

struct bit_word {
	uint32_t bit;
	const char *word; /* of the JSON */
	const char *text; /* for people, where that is another */
};

/* Ways that were refused, in the words of the JSON and of the text. */
static const struct bit_word fallback_words[] = {
	{PENSTOCK_FALLBACK_BUFFERED, "buffered", NULL},
	{PENSTOCK_FALLBACK_UNREGISTERED, "unregistered", NULL},
	{PENSTOCK_FALLBACK_SMALL_PAGES, "small_pages", NULL},
	{PENSTOCK_FALLBACK_UNLOCKED, "unlocked", NULL},
	{PENSTOCK_FALLBACK_NO_PREALLOC, "no_prealloc", NULL},
	{PENSTOCK_FALLBACK_ENGINE, "engine", NULL},
	{PENSTOCK_FALLBACK_BLOCKING, "blocking", NULL},
	{PENSTOCK_FALLBACK_CUFILE, "cufile", NULL},
};

/* How device memory was reached: the words of the JSON, and the same for people. */
static const struct bit_word gpu_paths[] = {
	{PENSTOCK_DONE_CUFILE, "cufile", "cuFile, direct (GPUDirect Storage)"},
	{PENSTOCK_DONE_CUFILE_COMPAT, "cufile_compat", "cuFile in compatibility mode"},
	{PENSTOCK_DONE_PINNED_POOL, "pinned_pool", "the pinned pool"},
};

static json_t *bits_json(const struct bit_word *w, unsigned nr, uint32_t bits)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < nr; i++)
		if (bits & w[i].bit)
			json_array_append_new(j, json_string(w[i].word));
	return j;
}

static void bits_text(FILE *f, const struct bit_word *w, unsigned nr, uint32_t bits,
		      const char *between)
{
	const char *before = "";

	for (unsigned i = 0; i < nr; i++) {
		if (!(bits & w[i].bit))
			continue;
		fprintf(f, "%s%s", before, w[i].text ? w[i].text : w[i].word);
		before = between;
	}
}

json_t *report_fallbacks_json(uint32_t bits)
{
	return bits_json(fallback_words, ARRAY_SIZE(fallback_words), bits);
}

json_t *report_gpu_path_json(uint32_t done_flags)
{
	return bits_json(gpu_paths, ARRAY_SIZE(gpu_paths), done_flags);
}

void report_fallbacks(FILE *f, uint32_t bits, const char *between)
{
	bits_text(f, fallback_words, ARRAY_SIZE(fallback_words), bits, between);
}

void report_gpu_path(FILE *f, uint32_t done_flags, const char *between)
{
	bits_text(f, gpu_paths, ARRAY_SIZE(gpu_paths), done_flags, between);
}
