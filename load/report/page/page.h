/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_PAGE_PAGE_H
#define SLUICE_REPORT_PAGE_PAGE_H

/*
 * The HTML page, made from the files in page/ and Chart.js by tools/mkpage.py:
 * what stands before and behind the results.  Empty when Chart.js was not there
 * when this was built.
 */
extern const char report_page_before[];
extern const char report_page_behind[];

#endif
