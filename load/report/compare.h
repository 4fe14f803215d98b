/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_COMPARE_H
#define SLUICE_REPORT_COMPARE_H

/*
 * Two results side by side: is B slower or faster than A, and how sure is that?
 *
 * Series are matched by name, and judged by the latencies of their operations.
 * A difference is called one only when a Mann-Whitney test says that it is not
 * chance (5 % for all series of the comparison together, by Holm's method) and
 * the 95 % interval of the ratio of the medians, by bootstrap, does not contain 1.
 * Operations that resemble their neighbours (a drive that is slow for a while)
 * tell less than their number says: of such a series only every so manieth is
 * used, as far apart as they remember each other.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct sluice_err;

enum compare_verdict {
	COMPARE_SAME, /* no difference seen, which is not: there is none */
	COMPARE_SLOWER,
	COMPARE_FASTER,
	COMPARE_UNKNOWN, /* too few operations, or of different size */
};
extern const char *const compare_words[]; /* in this order */

/* One side of a row; what is not known is NAN. */
struct compare_side {
	double median, p99, bytes_per_sec, cpu;
	size_t n;    /* operations in samples */
	size_t used; /* of them independent of each other */
};

struct compare_row {
	const char *name; /* of the result */
	const char *kind;
	struct compare_side a, b;
	double ratio; /* of the median latencies, B over A: above 1 is slower; NAN: not known */
	double low, high;
	double p; /* after Holm's correction; NAN: not known */
	enum compare_verdict verdict;
	const char *why; /* of COMPARE_UNKNOWN */
	bool fails;      /* the gate */
};

struct compare_input {
	json_t *a, *b; /* of schema sluice-result/1, checked */
	const char *a_name, *b_name;
	double gate;           /* fail when slower by more than this: 0.05; negative: no gate */
	const char *gate_text; /* as the user wrote it */
};

struct compare {
	struct compare_input in;
	struct compare_row *rows;
	size_t nr, slower, faster, same;
	json_t *only_a, *only_b;          /* names of series the other one lacks */
	json_t *notes;                    /* what else differs, one sentence each */
	double overall;                   /* geometric mean of the ratios ... */
	double overall_low, overall_high; /* ... with its 95 % interval; NAN below 3 rows */
	bool failed;                      /* the gate */
};

/*
 * Compare.  Returns 0, -ENOENT when no series of A is in B, or -ENOMEM.  The
 * results must stay until compare_fini().
 */
int compare_run(struct compare *c, const struct compare_input *in, struct sluice_err *err);
void compare_fini(struct compare *c);

/* The table and what it comes to, for people. */
void compare_text(FILE *f, const struct compare *c);
/* "2 of 6 series are slower, 4 show no difference." */
void compare_summary(char *buf, size_t size, const struct compare *c);
/* An object of schema "sluice-compare/1"; NULL when there is no memory. */
json_t *compare_json(const struct compare *c);

#endif
