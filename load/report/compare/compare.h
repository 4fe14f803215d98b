/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_COMPARE_COMPARE_H
#define PENSTOCK_REPORT_COMPARE_COMPARE_H

/*
 * Two results side by side: is B slower or faster than A, and how sure is that?
 *
 * Series are matched by name, and judged by three figures: the median latency, the
 * bandwidth of the whole run, and the 99th percentile of the latencies.  Each has a
 * 95 % interval of the ratio of B to A, and a difference is called one only when the
 * interval does not contain 1 and a test says that it is not chance (5 % for all
 * series of the comparison together, by Holm's method):
 *
 *	median		Mann-Whitney test of the operations; interval by bootstrap
 *	bandwidth	bootstrap of the seconds of long runs, else of the operations
 *	p99		whose are the slowest 2 % of all operations (Fisher); interval by
 *			bootstrap; 100 operations are needed
 *
 * With only a handful of operations, such as the loops of a sweep, Student's t
 * (Welch) of their logarithms takes the place of the first two.
 *
 * Operations that resemble their neighbours (a drive that is slow for a while)
 * tell less than their number says: the tests use only every so manieth, as far apart
 * as they remember each other, and for the bandwidth means of neighbours are compared by
 * Student's t in the place of the bootstrap.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct penstock_err;

enum compare_verdict {
	COMPARE_SAME, /* no difference seen, which is not: there is none */
	COMPARE_SLOWER,
	COMPARE_FASTER,
	COMPARE_MIXED,   /* of a series: slower in one figure, faster in another */
	COMPARE_UNKNOWN, /* too few operations, or of different size */
};
extern const char *const compare_words[]; /* in this order */

enum compare_figure { COMPARE_MEDIAN, COMPARE_BANDWIDTH, COMPARE_P99, COMPARE_FIGURES };
extern const char *const compare_figure_names[]; /* "median", "bandwidth", "p99" */

/* One figure of a series in both results; what is not known is NAN. */
struct compare_change {
	double a, b;
	double ratio; /* B over A */
	double low, high;
	double p;           /* after Holm's correction */
	const char *method; /* one word: what the interval comes from */
	enum compare_verdict verdict;
	const char *why; /* of COMPARE_UNKNOWN */
	bool fails;      /* the gate */
};

/* One side of a row. */
struct compare_side {
	double cpu;
	size_t n;    /* operations in samples */
	size_t used; /* of them independent of each other */
};

struct compare_row {
	const char *name; /* of the result */
	const char *kind;
	struct compare_side a, b;
	struct compare_change by[COMPARE_FIGURES];
	enum compare_verdict verdict; /* of all figures that could be judged */
	const char *why;              /* of COMPARE_UNKNOWN */
};

/* All series together: the geometric mean of the ratios, and its interval; NAN below 3 of them. */
struct compare_overall {
	double ratio, low, high;
};

#define COMPARE_GATES 8
struct compare_gate {
	const char *text; /* as the user wrote it */
	int figure;       /* enum compare_figure, or -1: all of them */
	double limit;     /* fail when slower by more than this: 0.05 */
};

struct compare_input {
	json_t *a, *b; /* of schema penstock-result/1, checked */
	const char *a_name, *b_name;
	struct compare_gate gates[COMPARE_GATES];
	unsigned nr_gates;
	bool allow_missing; /* what cannot be compared does not fail the gate */
};

struct compare {
	struct compare_input in;
	struct compare_row *rows;
	size_t nr, slower, faster, same, mixed;
	json_t *only_a, *only_b; /* names of series the other one lacks */
	json_t *notes;           /* what else differs, one sentence each */
	json_t *reasons;         /* why the gate failed, one line each */
	struct compare_overall overall[COMPARE_FIGURES];
	bool failed; /* the gate */
};

/*
 * Compare.  Returns 0, -ENOENT when no series of A is in B, or -ENOMEM.  The
 * results must stay until compare_fini().
 */
int compare_run(struct compare *c, const struct compare_input *in, struct penstock_err *err);
void compare_fini(struct compare *c);

/* The table and what it comes to, for people. */
void compare_text(FILE *f, const struct compare *c);
/* An object of schema "penstock-compare/1"; NULL when there is no memory. */
json_t *compare_json(const struct compare *c);

/* ---- between the files of the comparison ---- */

/* "+5.1 %", "+3.0 to +7.2 %", or "-". */
#define COMPARE_TEXT 32
const char *compare_percent(char buf[COMPARE_TEXT], double ratio);
const char *compare_interval(char buf[COMPARE_TEXT], double low, double high);

/* Fill all of @row but the corrected p and the verdicts.  Returns 0 or -ENOMEM. */
int compare_judge(struct compare_row *row, const json_t *a, const json_t *b);
/* A line for each series of @result, which is called @which, with failed operations: they are in no
 * figure. */
void compare_errors(json_t *lines, const json_t *result, const char *which);
/* Put what else differs into c->notes. */
void compare_notes(struct compare *c);
/* Decide c->failed, and say why in c->reasons. */
void compare_gate(struct compare *c);

#endif
