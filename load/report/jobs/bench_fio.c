/* SPDX-License-Identifier: Apache-2.0 */
/* fio's numbers beside ours, as text and as JSON. */
#include <math.h>

#include "load/jobs/fio.h"
#include "load/report/jobs/bench_report.h"
#include "load/report/result/text.h"

#define MB 1e6

static void text_line(FILE *out, const struct fio_result *f, double ratio)
{
	char margin[64] = "";

	if (isfinite(f->high))
		snprintf(margin, sizeof(margin), " (%.3f to %.3f at 95 %%)", f->low, f->high);
	if (ratio > 0)
		fprintf(out, "fio:        %s: %.1f MB/s, ours %.1f MB/s; ratio %.3f%s%s%s\n",
			f->series, f->bytes_per_sec / MB, f->ours / MB, ratio, margin,
			*f->differs ? "; " : "", f->differs);
	else
		fprintf(out, "fio:        %s: %s\n", f->series,
			*f->why_not ? f->why_not : "nothing of ours to compare with");
}

static json_t *one_json(const struct fio_result *f, double ratio)
{
	json_t *line = json_array();
	bool known = ratio > 0;

	for (unsigned i = 0; i < f->nr_args; i++)
		json_array_append_new(line, json_string(f->args[i]));
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "series", f->series,
			 "command_line", line, "bytes_per_sec",
			 known ? json_real(f->bytes_per_sec) : json_null(), "latency_mean",
			 known ? json_real(f->latency_mean) : json_null(), "ours_bytes_per_sec",
			 f->ours > 0 ? json_real(f->ours) : json_null(), "ratio",
			 known ? json_real(ratio) : json_null(), "ratio_ci95",
			 known && isfinite(f->high) ? json_pack("[f, f]", f->low, f->high)
						    : json_null(),
			 "differs", report_str_or_null(f->differs), "why_not",
			 report_str_or_null(f->why_not));
}

json_t *bench_report_fio(FILE *out, const struct fio_result *fio, unsigned nr)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < nr; i++) {
		const struct fio_result *f = &fio[i];
		double ratio = f->bytes_per_sec > 0 ? f->ratio : 0;

		json_array_append_new(all, one_json(f, ratio));
		if (out)
			text_line(out, f, ratio);
	}
	return all;
}
