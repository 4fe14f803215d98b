/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_PAGE_HTML_H
#define PENSTOCK_REPORT_PAGE_HTML_H

/*
 * Results as one HTML page that needs nothing else: no network, no other file.
 * The page holds the results as JSON and its own script draws them, so every
 * value in it is one of the results'.  It is smaller than 2 MB; what would make
 * it larger is thinned out, and the page says so.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct penstock_err;

#define REPORT_HTML_MAX 2000000 /* bytes of a page */

/* Was Chart.js there when this was built?  Else the functions below say -ENOTSUP. */
bool report_html_built(void);
int report_html_check(struct penstock_err *err);

struct report_html {
	json_t *const *results;   /* of schema penstock-result/1 */
	const char *const *names; /* how the page calls each of them */
	size_t nr;
	json_t *comparison; /* of the two results, or NULL; see compare.h */
};

/*
 * Write the page to @f.  Takes no reference and changes nothing.  Returns 0,
 * -ENOTSUP, -ENOMEM, -EFBIG when it cannot be made small enough, or -errno of
 * the writing.
 */
int report_html_write(FILE *f, const struct report_html *page, struct penstock_err *err);

/*
 * The HTML page, made from the files in page/ and Chart.js by tools/mkpage.py:
 * what stands before and behind the results.  Empty when Chart.js was not there
 * when this was built.
 */
extern const char report_page_head[];
extern const char report_page_tail[];

#endif
