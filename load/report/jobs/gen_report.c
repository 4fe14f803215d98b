/* SPDX-License-Identifier: Apache-2.0 */
#include "load/report/jobs/gen_report.h"

#include <inttypes.h>

#include "base/size.h"
#include "load/jobs/gen_files.h"
#include "load/report/result/report_lines.h"

void gen_report_text(FILE *f, const struct gen_job *job, const struct gen_result *res)
{
	const struct run_series *s = &res->series;
	char size[PENSTOCK_SIZE_TEXT];

	fprintf(f, "%s %" PRIu64 " file%s, %s, in %.2f s: %.1f MB/s\n",
		job->verify ? "compared" : "wrote", s->ops, s->ops == 1 ? "" : "s",
		penstock_size_format(size, s->bytes), s->sec, series_speed(s) / 1e6);
	fprintf(f, "content:    seed %" PRIu64 ", dedup %g, compress %g; %.1f %% of the time\n",
		job->seed, job->dedup, job->compress,
		s->sec > 0 ? 100 * res->made_sec / s->sec : 0);
	report_run_lines(f, s);
	report_path(f, res->folder, &res->path);
	fputc('\n', f);
	fprintf(f, "cache:      %s\n", s->cache);
	if (!job->verify)
		fprintf(f, "durable:    yes%s\n",
			job->no_crc ? "" : ", with checksums in FILE.crc");
	else
		fprintf(f, "verified:   %s, %s\n", penstock_size_format(size, s->verified_bytes),
			s->partial ? "up to the first wrong byte" : "all right");
}
