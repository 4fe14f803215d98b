/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace that several do together is split by conversation, or else by object: all operations on
 * an object are done by one, in their order.  Names as the KV model makes them say which turns are
 * of one conversation, and which chunks of one document.  Rows without names are dealt out.
 */
#include <string.h>

#include "load/replay/replay_internal.h"

/* Without "_turn_3" at the end. */
static uint32_t len_without_number(const char *word, const char *key, uint32_t len)
{
	uint32_t at = len, n = (uint32_t)strlen(word);

	while (at && key[at - 1] >= '0' && key[at - 1] <= '9')
		at--;
	return at < len && at > n && !memcmp(key + at - n, word, n) ? at - n : len;
}

bool replay_owns(const struct replay_job *job, const struct trace_row *row, uint64_t number)
{
	uint32_t len = row->key_len;

	if (job->parts < 2)
		return true;
	if (!len)
		return number % job->parts == job->part;
	len = len_without_number("_turn_", row->key, len);
	len = len_without_number("_chunk_", row->key, len);
	return replay_id(row->key, len, REPLAY_TIERS).a % job->parts == job->part;
}
