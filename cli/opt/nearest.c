/* SPDX-License-Identifier: Apache-2.0 */
/* Which word was meant. */
#include <string.h>

#include "base/util.h"
#include "cli/opt/parser.h"

static unsigned edits(const char *a, const char *b)
{
	unsigned row[64], la = (unsigned)strlen(a), lb = (unsigned)strlen(b);

	if (la >= ARRAY_SIZE(row) || lb >= ARRAY_SIZE(row))
		return 99;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned i = 1; i <= la; i++) {
		unsigned diag = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			unsigned sub = diag + (a[i - 1] != b[j - 1]);

			diag = row[j];
			row[j] = (unsigned)min_u64(min_u64(row[j], row[j - 1]) + 1, sub);
		}
	}
	return row[lb];
}

unsigned cli_distance(const char *word, const char *candidate)
{
	size_t len = strlen(word);
	unsigned d = edits(word, candidate);

	if (len >= 2 && !strncmp(word, candidate, len))
		return 1;
	return d <= 1 + len / 4 && d < len ? d : 99;
}

const char *cli_nearest(const char *word, const char *const *words)
{
	const char *best = NULL;
	unsigned least = 99;

	for (; *words; words++) {
		unsigned d = cli_distance(word, *words);

		if (d < least) {
			least = d;
			best = *words;
		}
	}
	return best;
}
