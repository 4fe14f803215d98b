/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_PROGRESS_H
#define PENSTOCK_CLI_PROGRESS_H

/*
 * One line on stderr that says how far a job is, how fast, and how long it will
 * take; only when stderr is a terminal.  All calls come from one thread.
 *
 *	struct cli_progress p;
 *
 *	cli_progress_start(&p, "read", total_bytes);
 *	while (...)
 *		cli_progress_update(&p, bytes_so_far);	cheap: draws 10 times a second
 *	cli_progress_end(&p);				wipes the line
 *
 * End it before printing anything else.
 */
#include <stdbool.h>
#include <stdint.h>

struct cli_progress {
	bool on;
	char label[112];
	uint64_t total; /* bytes; 0: not known, so no bar and no time left */
	uint64_t start_ns;
	uint64_t drawn_ns;
	uint64_t step; /* of cli_progress_show() */
};

void cli_progress_start(struct cli_progress *p, const char *label, uint64_t total);
/* Another step of the same job: the count starts again at 0. */
void cli_progress_label(struct cli_progress *p, const char *label, uint64_t total);
void cli_progress_update(struct cli_progress *p, uint64_t done);
void cli_progress_end(struct cli_progress *p);
/* All of it for a job of several steps: begin, change the label with @step, and update. */
void cli_progress_show(struct cli_progress *p, uint64_t step, const char *label, uint64_t done,
		       uint64_t total);
/* As what a job calls: @progress has been started, and learns its total. */
void cli_progress_moved(void *progress, uint64_t done, uint64_t total);

/*
 * The text of the line, without terminal codes: for the tests, and for
 * cli_progress_update().  @elapsed_ns since the start; at most @width columns, for
 * which a long label is shortened first.
 */
void cli_progress_format(char *out, unsigned size, unsigned width, const char *label, uint64_t done,
			 uint64_t total, uint64_t elapsed_ns);

#endif
