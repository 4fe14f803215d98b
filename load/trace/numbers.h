/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_NUMBERS_H
#define PENSTOCK_TRACE_NUMBERS_H

/* Numbers and times as traces have them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * "12", "12.5", "1.25e1" times 10^@scale: seconds are nanoseconds at scale 9.  What is smaller
 * than 1 is cut off.  False for anything else, and for what does not fit.
 */
bool trace_decimal(uint64_t *out, const char *s, size_t len, unsigned scale);

/* "2025-01-31T12:00:00.123456789Z", "...+01:00": nanoseconds since 1970; nothing before that. */
bool trace_time_parse(uint64_t *out, const char *s, size_t len);
/* The same, as Go writes it: in UTC, without zeros at the end.  Returns the end. */
char *trace_time_put(char *to, uint64_t ns);

#endif
