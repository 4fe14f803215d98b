/* SPDX-License-Identifier: Apache-2.0 */
/* How requests to an object store went, for every command that made some: `objects', and lines. */
#include <inttypes.h>

#include "base/util.h"
#include "load/measure/object_requests.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

/* By enum object_latency_kind. */
static const char *const time_members[] = {"first_byte", "last_byte", "put"};
static const char *const time_words[] = {"first byte:", "last byte:", "put:"};

static json_t *endpoint_json(const struct object_requests_endpoint *e)
{
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "url", e->url, "up", e->up,
			 "attempts", (json_int_t)e->attempts, "failed", (json_int_t)e->failed,
			 "left_out", (json_int_t)e->downs, "read_bytes", (json_int_t)e->bytes_read,
			 "written_bytes", (json_int_t)e->bytes_written);
}

json_t *report_object_requests_json(const struct object_requests *r)
{
	const struct penstock_s3_stats *s = &r->stats;
	const struct {
		const char *name;
		uint64_t v;
	} counts[] = {
		{"requests", s->requests},     {"failed", s->failed},
		{"absent", s->absent},         {"attempts", s->attempts},
		{"retries", s->retries},       {"throttled", s->throttled},
		{"timeouts", s->timeouts},     {"broken", s->broken},
		{"redirects", s->redirects},   {"connects", s->connects},
		{"read_bytes", s->bytes_read}, {"written_bytes", s->bytes_written},
		{"checked_bytes", s->checked},
	};
	json_t *endpoints = json_array(), *j;

	for (unsigned i = 0; i < r->nr; i++)
		json_array_append_new(endpoints, endpoint_json(&r->endpoints[i]));
	j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o}", "region", r->region, "style", s->style,
		      "checksum", s->checksum, "payload", s->payload, "credentials", r->credentials,
		      "clock_skew_ms", (json_int_t)s->skew_ms, "endpoints", endpoints);
	for (unsigned i = 0; i < OBJECT_LATENCIES; i++)
		json_object_set_new(j, time_members[i],
				    report_hist_levels(&r->times[i].hist, r->times[i].sum_ns));
	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		json_object_set_new(j, counts[i].name, json_integer((json_int_t)counts[i].v));
	return j;
}

static void time_line(FILE *f, const char *what, const struct object_latency *t)
{
	char half[REPORT_TIME_TEXT], high[REPORT_TIME_TEXT], most[REPORT_TIME_TEXT];

	if (t->hist.count)
		fprintf(f, "            %-11s p50 %s, p99 %s, %s at most, of %" PRIu64 "\n", what,
			report_time(half, penstock_hist_percentile(&t->hist, 50) / 1e9),
			report_time(high, penstock_hist_percentile(&t->hist, 99) / 1e9),
			report_time(most, (double)t->hist.max / 1e9), t->hist.count);
}

void report_object_requests_lines(FILE *f, const struct object_requests *r)
{
	const struct penstock_s3_stats *s = &r->stats;

	fprintf(f,
		"objects:    %" PRIu64 " requests, %" PRIu64 " failed, %" PRIu64
		" found nothing; %" PRIu64 " were tried again: %" PRIu64
		" after 429 or 503, %" PRIu64 " after timeouts, %" PRIu64
		" after broken connections\n",
		s->requests, s->failed, s->absent, s->retries, s->throttled, s->timeouts,
		s->broken);
	fprintf(f, "            checksum %s, payload %s, style %s, region %s, keys: %s\n",
		s->checksum, s->payload, s->style, r->region, r->credentials);
	for (unsigned i = 0; i < OBJECT_LATENCIES; i++)
		time_line(f, time_words[i], &r->times[i]);
	for (unsigned i = 0; i < r->nr && s->nr_endpoints > 1; i++) {
		const struct object_requests_endpoint *e = &r->endpoints[i];

		fprintf(f, "            %s: %" PRIu64 " attempts, %" PRIu64 " failed", e->url,
			e->attempts, e->failed);
		if (e->downs)
			fprintf(f, ", left out %" PRIu64 " times%s", e->downs,
				e->up ? "" : " and at the end");
		fputc('\n', f);
	}
}
