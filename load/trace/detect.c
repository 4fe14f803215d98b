/* SPDX-License-Identifier: Apache-2.0 */
/* Which format a trace has, by its first line. */
#include <ctype.h>
#include <string.h>

#include "base/util.h"
#include "load/trace/digits.h"
#include "load/trace/numbers.h"
#include "load/trace/reader.h"

struct line {
	const char *at;
	size_t len;
};

static bool detect_begins(struct line l, const char *word)
{
	size_t len = strlen(word);

	return l.len >= len && !memcmp(l.at, word, len);
}

static bool line_contains(struct line l, const char *word)
{
	return memmem(l.at, l.len, word, strlen(word));
}

/* A row of a kv trace whose header was cut off: time, operation, size. */
static bool is_kv_row(struct line l)
{
	const char *comma = memchr(l.at, ',', l.len);
	uint64_t ns;

	if (!comma || !trace_decimal(&ns, l.at, (size_t)(comma - l.at), 9))
		return false;
	l.len -= (size_t)(comma - l.at);
	l.at = comma;
	for (int i = 0; i < TRACE_OPS; i++) {
		size_t n = strlen(trace_op_names[i]);

		if (l.len > n + 2 && !strncasecmp(l.at + 1, trace_op_names[i], n) &&
		    l.at[n + 1] == ',')
			return is_digit(l.at[n + 2]);
	}
	return false;
}

/* The first line with something on it; of one that does not fit (JSON has such) the beginning. */
static struct line first_line(struct source *s)
{
	struct penstock_err ignored;
	size_t blank = 0, end;
	int n;

	while ((n = source_find(s, blank, &end, &ignored)) == 1) {
		while (blank < end && isspace((unsigned char)s->at[blank]))
			blank++;
		if (blank < end || s->at + end == s->end)
			break;
		blank = end + 1;
	}
	if (n != 1)
		end = (size_t)(s->end - s->at);
	return blank < end ? (struct line){s->at + blank, end - blank} : (struct line){s->at, 0};
}

enum trace_format trace_detect_source(struct source *s)
{
	struct line l = first_line(s);

	if (detect_begins(l, "fio version "))
		return TRACE_FIO;
	if (detect_begins(l, "idx\tthread\top\t"))
		return TRACE_OPLOG;
	if (detect_begins(l, "["))
		return TRACE_SHAREGPT;
	if (detect_begins(l, "{"))
		return line_contains(l, "\"hash_ids\"") ? TRACE_MOONCAKE : TRACE_AUTO;
	if (line_contains(l, "Request tokens") && line_contains(l, "Response tokens"))
		return TRACE_BURSTGPT;
	if ((line_contains(l, "Timestamp") && line_contains(l, "Operation") &&
	     line_contains(l, ",")) ||
	    is_kv_row(l))
		return TRACE_KV;
	return TRACE_AUTO;
}
