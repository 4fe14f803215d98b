/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate is that of the whole step, not of the last moment: it is what the
 * time left is computed from, and it does not jump.
 */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/result/text.h"

#define DRAW_NS 100000000u /* ten times a second: more flickers and costs */

/* "0:07", "12:05", "3:02:11" */
static void time_text(char out[24], double seconds)
{
	uint64_t s = seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds + 0.5) : 0;

	if (s >= 3600)
		snprintf(out, 24, "%u:%02u:%02u", (unsigned)(s / 3600), (unsigned)(s / 60 % 60),
			 (unsigned)(s % 60));
	else
		snprintf(out, 24, "%u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
}

static void bar_text(char *out, unsigned cells, double share)
{
	unsigned full = (unsigned)(share * cells);

	out[0] = '[';
	for (unsigned i = 0; i < cells; i++)
		out[1 + i] = i < full ? '#' : '-';
	out[1 + cells] = ']';
	out[2 + cells] = 0;
}

/* @label in at most @width columns; a long one loses its middle. */
static void label_text(char *out, unsigned size, const char *label, unsigned width)
{
	unsigned len = (unsigned)strlen(label), head = width < 2 ? 0 : (width - 2) / 2;

	if (len <= width)
		snprintf(out, size, "%s ", label);
	else if (width < 5) /* of which nothing can be told */
		*out = 0;
	else
		snprintf(out, size, "%.*s..%s ", (int)head, label,
			 label + len - (width - 2 - head));
}

void cli_progress_format(char *out, unsigned size, unsigned width, const char *label, uint64_t done,
			 uint64_t total, uint64_t elapsed_ns)
{
	double seconds = (double)elapsed_ns / 1e9;
	double rate = elapsed_ns ? (double)done / seconds : 0;
	double share = total ? (double)min_u64(done, total) / (double)total : 0;
	char tail[128], bar[72] = "", name[128], moved[PENSTOCK_SIZE_TEXT], clock[24],
			speed[PENSTOCK_SIZE_TEXT];
	unsigned used, cells;

	/* Fixed widths, so that the bar does not jump. */
	penstock_size_format(moved, done);
	penstock_size_format(speed, (uint64_t)rate);
	if (total) {
		time_text(clock, rate > 0 ? (double)(total - min_u64(done, total)) / rate : 0);
		snprintf(tail, sizeof(tail), "%3u%% %9s %9s/s %7s left", (unsigned)(share * 100),
			 moved, speed, rate > 0 ? clock : "--:--");
	} else {
		time_text(clock, seconds);
		snprintf(tail, sizeof(tail), "%9s %9s/s %7s", moved, speed, clock);
	}
	used = (unsigned)strlen(tail);
	label_text(name, sizeof(name), label, width > used ? width - used - 1 : 0);
	used += (unsigned)strlen(name) + 4;
	/* The bar takes what is left, if that is enough to be one. */
	cells = total && width > used + 8 ? (unsigned)min_u64(width - used, sizeof(bar) - 3) : 0;
	if (cells)
		bar_text(bar, cells, share);
	snprintf(out, min_u64(size, width + 1), "%s%s%s%s", name, bar, cells ? " " : "", tail);
}

static void draw(struct cli_progress *p, uint64_t done, uint64_t now)
{
	struct winsize ws = {0};
	char line[256];
	unsigned width = 80;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		width = ws.ws_col;
	/* The last column stays free: some terminals wrap when it is written. */
	cli_progress_format(line, sizeof(line), (unsigned)min_u64(width - 1, 120), p->label, done,
			    p->total, now - p->start_ns);
	fprintf(stderr, "\r%s\033[K", line);
	fflush(stderr);
	p->drawn_ns = now;
}

void cli_progress_label(struct cli_progress *p, const char *label, uint64_t total)
{
	report_escape(p->label, sizeof(p->label), label);
	p->total = total;
	p->start_ns = clock_ns();
	p->drawn_ns = 0;
	if (p->on)
		draw(p, 0, p->start_ns);
}

void cli_progress_start(struct cli_progress *p, const char *label, uint64_t total)
{
	p->on = isatty(STDERR_FILENO);
	cli_progress_label(p, label, total);
}

void cli_progress_update(struct cli_progress *p, uint64_t done)
{
	uint64_t now;

	if (!p->on)
		return;
	now = clock_ns();
	if (now - p->drawn_ns >= DRAW_NS)
		draw(p, done, now);
}

void cli_progress_moved(void *progress, uint64_t done, uint64_t total)
{
	struct cli_progress *p = progress;

	p->total = total;
	cli_progress_update(p, done);
}

void cli_progress_show(struct cli_progress *p, uint64_t step, const char *label, uint64_t done,
		       uint64_t total)
{
	if (!p->on)
		cli_progress_start(p, label, total);
	else if (p->step != step)
		cli_progress_label(p, label, total);
	p->step = step;
	cli_progress_moved(p, done, total); /* a step that ends by time learns it as it goes */
}

void cli_progress_end(struct cli_progress *p)
{
	if (p->on)
		fprintf(stderr, "\r\033[K");
	p->on = false;
}
