/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks of hosts: those of one run were measured against each other; of files that were made apart
 * there is what each kernel said of its own, and what the user knows.
 */
#include <math.h>
#include <time.h>

#include "load/report/merge/merge_internal.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

#define NAME_TEXT 256

/* ---------------------------------------------------------------------- shift */

static void shift(json_t *of, const char *key, double ahead)
{
	const json_t *v = json_object_get(of, key);

	if (json_is_number(v))
		json_object_set_new(of, key, json_real(json_number_value(v) - ahead));
}

static void shift_interval(json_t *interval, double ahead)
{
	json_t *turn;
	size_t i, k;

	json_array_foreach(json_object_get(interval, "turns"), i, turn)
	{
		for (k = 0; k < json_array_size(turn); k++)
			json_array_set_new(
				turn, k,
				json_real(json_number_value(json_array_get(turn, k)) - ahead));
	}
	shift(interval, "first_done", ahead);
	shift(interval, "last_done", ahead);
}

/* To a second: that is what it tells. */
static void shift_time(json_t *result, double ahead)
{
	struct tm tm = {.tm_year = 0};
	char text[32];
	time_t at;

	if (!strptime(report_text(result, "time"), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return;
	at = timegm(&tm) - (time_t)floor(ahead + 0.5);
	if (gmtime_r(&at, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		json_object_set_new(result, "time", json_string(text));
}

void merge_shift(json_t *result, double ahead)
{
	json_t *clock = json_object_get(result, "wall_clock"), *s;
	size_t i;

	json_array_foreach(json_object_get(result, "series"), i, s)
	{
		shift_interval(json_object_get(s, "interval"), ahead);
	}
	shift_time(result, ahead);
	if (!clock) {
		clock = json_object();
		json_object_set_new(result, "wall_clock", clock);
	}
	json_object_set_new(clock, "ahead_sec", json_real(ahead));
}

/* ----------------------------------------------------------------------- tell */

static const char *clock_amount(char buf[REPORT_TIME_TEXT], double sec)
{
	report_time(buf, fabs(sec));
	return buf;
}

static void own_clock(FILE *f, const json_t *member)
{
	const json_t *c = json_object_get(member, "wall_clock"),
		     *ahead = json_object_get(c, "ahead_sec");
	char off[REPORT_TIME_TEXT], bound[REPORT_TIME_TEXT], name[NAME_TEXT];

	report_escape(name, sizeof(name), report_text(member, "name"));
	if (json_is_number(ahead))
		fprintf(f, "clock:      %s: %s %s, as was said\n", name,
			clock_amount(off, json_number_value(ahead)),
			json_number_value(ahead) < 0 ? "behind" : "ahead");
	else if (json_is_true(json_object_get(c, "synchronised")))
		fprintf(f, "clock:      %s: the host's own, within %s by its kernel\n", name,
			clock_amount(bound, report_number(c, "max_error_sec")));
	else if (json_is_object(c))
		fprintf(f,
			"clock:      %s: the host's own, which nothing keeps in step; see "
			"--offset\n",
			name);
}

void merge_clock_lines(FILE *f, const json_t *members)
{
	char off[REPORT_TIME_TEXT], bound[REPORT_TIME_TEXT], name[NAME_TEXT], why[256];
	const json_t *one;
	size_t i;

	json_array_foreach(members, i, one)
	{
		const json_t *c = json_object_get(one, "clock");

		report_escape(name, sizeof(name), report_text(one, "name"));
		if (!json_is_object(c))
			own_clock(f, one);
		else if (i)
			fprintf(f, "clock:      %s: %s%s off that of rank 0, within %s\n", name,
				report_number(c, "offset_sec") < 0 ? "-" : "",
				clock_amount(off, report_number(c, "offset_sec")),
				clock_amount(bound, report_number(c, "error_sec")));
		if (json_is_string(json_object_get(one, "lost")))
			fprintf(f, "lost:       %s: %s\n", name,
				report_escape(why, sizeof(why), report_text(one, "lost")));
	}
}
