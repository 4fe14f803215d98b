/* SPDX-License-Identifier: Apache-2.0 */
/* Copies past the caches. */
#include "mem/copy.h"

#include "tests/common/t.h"

enum { ROOM = 16384 + 256 };

static unsigned char from[ROOM], to[ROOM];

static void every_alignment_and_length_is_exact(void)
{
	static const size_t lens[] = {0, 1, 63, 64, 4095, 4096, 4097, 4159, 4160, 8191, 16384};

	for (size_t i = 0; i < ROOM; i++)
		from[i] = (unsigned char)(i * 7 + i / 251);
	for (size_t i = 0; i < T_COUNT(lens); i++)
		for (size_t d = 0; d < 65; d += T_STEP)
			for (size_t s = 0; s < 65; s += 1 + 7 * (d % 3)) {
				size_t len = lens[i];

				memset(to, 0xee, sizeof(to));
				penstock_copy_nontemporal(to + 64 + d, from + s, len);
				T_OK(!memcmp(to + 64 + d, from + s, len));
				T_EQ(to[63 + d], 0xee);
				T_EQ(to[64 + d + len], 0xee);
			}
}

static const struct t_case cases[] = {
	T_CASE(every_alignment_and_length_is_exact),
};

int main(int argc, char **argv)
{
	const struct t_group group = {"copy", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
