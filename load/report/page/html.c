/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page is what tools/mkpage.py made of page/, with the results in between as
 * JSON in which no tag can begin.  Samples, histograms and time series are what can
 * grow without limit; they are thinned out step by step until the page is small.
 */
#include "load/report/page/html.h"

#include <errno.h>
#include <string.h>

#include <penstock/version.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/result/result_reader.h"
#include "load/report/result/text.h"

/* How many samples, buckets and seconds of a series a page keeps, at each step. */
static const struct thin {
	size_t samples, buckets, seconds;
} steps[] = {{2000, 2000, 3600}, {500, 400, 600}, {200, 100, 120}, {0, 40, 40}, {0, 0, 1}};

bool report_html_built(void)
{
	return *report_page_head != '\0';
}

int report_html_check(struct penstock_err *err)
{
	if (report_html_built())
		return 0;
	return penstock_fail(
		err, -ENOTSUP,
		"this build has no HTML pages: Chart.js (libjs-chart.js) was not there "
		"when it was made");
}

/* ----------------------------------------------------------------- thinning */

/* Every so many of them, evenly. */
static json_t *thin_samples(const json_t *from, size_t max_nr)
{
	size_t nr = json_array_size(from), step = max_nr ? (nr + max_nr - 1) / max_nr : nr + 1;
	json_t *to = json_array();

	for (size_t i = 0; i < nr && max_nr; i += step)
		json_array_append(to, json_array_get(from, i));
	return to;
}

/* Join neighbours: the count is that of all of them. */
static json_t *thin_buckets(const json_t *from, size_t max_nr)
{
	size_t nr = json_array_size(from), step = max_nr ? (nr + max_nr - 1) / max_nr : 1;
	json_t *to = json_array();

	for (size_t i = 0; i < nr && max_nr; i += step) {
		size_t last = min_u64(i + step, nr) - 1;
		json_int_t count = 0, one;

		for (size_t k = i; k <= last; k++) {
			one = json_integer_value(json_array_get(json_array_get(from, k), 2));
			if (__builtin_add_overflow(count, one, &count))
				count = INT64_MAX; /* of a file that says nonsense */
		}
		json_array_append_new(
			to, json_pack("[O, O, I]", json_array_get(json_array_get(from, i), 0),
				      json_array_get(json_array_get(from, last), 1), count));
	}
	return to;
}

/* Sum or largest of elements @from to @to; null when none is a number. */
static json_t *join(const json_t *array, size_t from, size_t to, bool largest)
{
	double v = 0;
	bool any = false;

	for (size_t i = from; i < to; i++) {
		const json_t *x = json_array_get(array, i);

		if (!json_is_number(x))
			continue;
		v = !any                                  ? json_number_value(x)
		    : largest && v > json_number_value(x) ? v
		    : largest                             ? json_number_value(x)
							  : v + json_number_value(x);
		any = true;
	}
	return any ? json_real(v) : json_null();
}

/* Of these the largest stands for all; other columns are added up. */
static bool is_level(const char *key)
{
	return !strncmp(key, "latency", 7) || !strcmp(key, "queued") || !strcmp(key, "in_flight");
}

/* Join neighbours in every column; the first second of each gives the time. */
static void thin_seconds(json_t *seconds, size_t max_nr)
{
	size_t nr = json_array_size(json_object_get(seconds, "t"));
	size_t step = max_nr ? (nr + max_nr - 1) / max_nr : 1;

	for (void *it = json_object_iter(seconds); it && step > 1;
	     it = json_object_iter_next(seconds, it)) {
		const char *key = json_object_iter_key(it);
		const json_t *from = json_object_iter_value(it);
		json_t *to = json_array();

		for (size_t i = 0; i < nr; i += step)
			json_array_append_new(
				to, !strcmp(key, "t")
					    ? json_incref(json_array_get(from, i))
					    : join(from, i, min_u64(i + step, nr), is_level(key)));
		json_object_iter_set_new(seconds, it, to);
	}
}

/* Those beside the figures of a cache: a page draws those of series only. */
static void drop_histograms(json_t *j)
{
	json_t *one;
	const char *key;
	size_t i;

	json_object_del(j, "histogram");
	json_object_foreach(j, key, one)
	{
		drop_histograms(one);
	}
	json_array_foreach(j, i, one)
	{
		drop_histograms(one);
	}
}

/* A copy of @result that keeps no more than @thin; *@ret_less when something was left out. */
static json_t *thin_result(const json_t *result, const struct thin *thin, bool *ret_less)
{
	json_t *copy = json_deep_copy(result), *one;
	size_t i;

	if (report_kind(result) != REPORT_RESULT)
		return copy;         /* neither of the others grows */
	json_object_del(copy, "io"); /* not shown; its loops are samples of the series, too */
	json_array_foreach(json_object_get(copy, "series"), i, one)
	{
		json_t *hist = json_object_get(one, "histogram");
		const json_t *samples = json_object_get(one, "samples");
		const json_t *buckets = json_object_get(hist, "buckets");
		const json_t *t = json_object_get(json_object_get(one, "per_second"), "t");

		if (json_array_size(samples) > thin->samples ||
		    json_array_size(buckets) > thin->buckets || json_array_size(t) > thin->seconds)
			*ret_less = true;
		json_object_set_new(one, "samples", thin_samples(samples, thin->samples));
		json_object_set_new(hist, "buckets", thin_buckets(buckets, thin->buckets));
		thin_seconds(json_object_get(one, "per_second"), thin->seconds);
	}
	drop_histograms(json_object_get(copy, "kv"));
	drop_histograms(json_object_get(copy, "objects"));
	drop_histograms(json_object_get(copy, "replay"));
	one = json_object_get(json_object_get(copy, "kv"), "seconds");
	if (json_array_size(json_object_get(one, "t")) > thin->seconds)
		*ret_less = true;
	thin_seconds(one, thin->seconds);
	return copy;
}

/* --------------------------------------------------------------------- page */

static char *data_text(const struct report_html *page, const struct thin *thin)
{
	json_t *of[] = {json_array(), json_array(), json_array()}, *root; /* enum report_kind */
	bool less = false;
	char *text;

	for (size_t i = 0; i < page->nr; i++)
		json_array_append_new(of[report_kind(page->results[i])],
				      json_pack("{s:o, s:o}", "name", report_str(page->names[i]),
						"result",
						thin_result(page->results[i], thin, &less)));
	root = json_pack("{s:s, s:s, s:o, s:o, s:o, s:O?, s:s?}", "schema", "penstock-page/1",
			 "penstock", PENSTOCK_VERSION_STRING, "results", of[REPORT_RESULT],
			 "traces", of[REPORT_TRACE], "summaries", of[REPORT_SUMMARY], "compare",
			 page->comparison, "thinned",
			 less ? "To keep this page small, single operations, histograms or seconds "
				"were thinned out. The tables are complete."
			      : NULL);
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

/* Inside a script element a "<" could end it; in JSON it can be written otherwise. */
static size_t data_size(const char *text)
{
	size_t size = strlen(text);

	for (const char *p = strchr(text, '<'); p; p = strchr(p + 1, '<'))
		size += strlen("\\u003c") - 1;
	return size;
}

static void data_write(FILE *f, const char *text)
{
	for (const char *p; (p = strchr(text, '<')); text = p + 1) {
		fwrite(text, 1, (size_t)(p - text), f);
		fputs("\\u003c", f);
	}
	fputs(text, f);
}

int report_html_write(FILE *f, const struct report_html *page, struct penstock_err *err)
{
	size_t max_size = REPORT_HTML_MAX - strlen(report_page_head) - strlen(report_page_tail);
	char *text = NULL;
	int r = report_html_check(err);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < ARRAY_SIZE(steps); i++) {
		free(text);
		text = data_text(page, &steps[i]);
		if (!text)
			return penstock_fail(err, -ENOMEM, "out of memory");
		if (data_size(text) <= max_size)
			break;
	}
	if (data_size(text) > max_size) {
		r = penstock_fail(err, -EFBIG,
				  "the page would be larger than %d bytes: too many series",
				  REPORT_HTML_MAX);
		goto out;
	}
	errno = 0;
	fputs(report_page_head, f);
	data_write(f, text);
	fputs(report_page_tail, f);
	if (fflush(f) || ferror(f))
		r = penstock_fail(err, errno ? -errno : -EIO, "%s", strerror(errno ? errno : EIO));
out:
	free(text);
	return r;
}
