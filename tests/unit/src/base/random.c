/* SPDX-License-Identifier: Apache-2.0 */
/* The random numbers and the data pattern that tests and benchmarks rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/util.h"

static void the_generator_is_xoshiro256_starstar(void **state)
{
	/* State 1, 2, 3, 4: the published first outputs of the reference code. */
	struct penstock_random r = {{1, 2, 3, 4}};

	(void)state;
	assert_true(penstock_random_next(&r) == 11520);
	assert_true(penstock_random_next(&r) == 0);
	assert_true(penstock_random_next(&r) == 1509978240);
	assert_true(penstock_random_next(&r) == 1215971899390074240ull);
}

static void the_seeds_are_made_by_splitmix64(void **state)
{
	/* The published first outputs for 1234567, which are a stream's state for that seed. */
	static const uint64_t first[] = {6457827717110365317ull, 3203168211198807973ull,
					 9817491932198370423ull, 4593380528125082431ull};
	struct penstock_random r;
	uint64_t s = 1234567;

	(void)state;
	penstock_random_seed(&r, s);
	for (unsigned i = 0; i < ARRAY_SIZE(first); i++) {
		assert_true(penstock_random_split(&s) == first[i]);
		assert_true(r.s[i] == first[i]);
	}
}

static void one_seed_is_one_stream(void **state)
{
	struct penstock_random a, b, c;

	(void)state;
	penstock_random_seed(&a, 7);
	penstock_random_seed(&b, 7);
	penstock_random_seed(&c, 8);
	for (int i = 0; i < 100; i++) {
		uint64_t v = penstock_random_next(&a);

		assert_true(v == penstock_random_next(&b));
		assert_true(v != penstock_random_next(&c));
	}
}

static void below_stays_below_and_meets_everything(void **state)
{
	struct penstock_random r;
	unsigned hits[6] = {0};

	(void)state;
	penstock_random_seed(&r, 1);
	for (int i = 0; i < 6000; i++) {
		uint64_t v = penstock_random_below(&r, 6);

		assert_true(v < 6);
		hits[v]++;
	}
	for (int i = 0; i < 6; i++)
		assert_true(hits[i] > 800 && hits[i] < 1200);
	assert_true(penstock_random_below(&r, 1) == 0);
	for (int i = 0; i < 100; i++)
		assert_true(penstock_random_below(&r, (1ull << 63) + 1) <= 1ull << 63);
}

/* Every small offset and length, at every address alignment: the same bytes as one long fill. */
static void any_range_is_a_piece_of_the_whole(void **state)
{
	unsigned char whole[256], piece[64 + 16];

	(void)state;
	penstock_pattern_fill(whole, sizeof(whole), 42, 0);
	for (size_t off = 0; off < 20; off++) {
		for (size_t len = 0; len < 60; len++) {
			unsigned char *p = piece + off % 8;

			memset(piece, 0xee, sizeof(piece));
			penstock_pattern_fill(p, len, 42, off);
			assert_memory_equal(p, whole + off, len);
			assert_int_equal(p[len], 0xee);
			assert_int_equal(penstock_pattern_check(p, len, 42, off), len);
		}
	}
}

static void the_first_wrong_byte_is_found(void **state)
{
	unsigned char buf[64];

	(void)state;
	for (size_t off = 0; off < 9; off++) {
		for (size_t len = 1; len < sizeof(buf); len++) {
			penstock_pattern_fill(buf, len, 3, off);
			for (size_t i = 0; i < len; i++) {
				buf[len - 1] ^= i == len - 1 ? 0 : 0x80;
				buf[i] ^= 1;
				assert_int_equal(penstock_pattern_check(buf, len, 3, off), i);
				buf[i] ^= 1;
				buf[len - 1] ^= i == len - 1 ? 0 : 0x80;
			}
		}
	}
}

static void offsets_beyond_4_gib_are_their_own(void **state)
{
	unsigned char a[64], b[64];

	(void)state;
	penstock_pattern_fill(a, sizeof(a), 3, 5);
	penstock_pattern_fill(b, sizeof(b), 3, (1ull << 32) + 5);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_int_equal(penstock_pattern_check(b, sizeof(b), 3, (1ull << 32) + 5), sizeof(b));
	penstock_pattern_fill(b, sizeof(b), 3, UINT64_MAX - 70);
	assert_int_equal(penstock_pattern_check(b, sizeof(b), 3, UINT64_MAX - 70), sizeof(b));
}

static void blocks_that_changed_places_do_not_look_right(void **state)
{
	unsigned char buf[4096];

	(void)state;
	for (uint64_t seed = 0; seed < 4; seed++) {
		penstock_pattern_fill(buf, sizeof(buf), seed, 0);
		for (uint64_t off = 1; off < 300; off++)
			assert_true(penstock_pattern_check(buf, sizeof(buf), seed, off * 8) < 16);
		for (uint64_t other = seed + 1; other < seed + 300; other++)
			assert_true(penstock_pattern_check(buf, sizeof(buf), other, 0) < 16);
	}
}

static void the_pattern_uses_all_byte_values_evenly(void **state)
{
	size_t len = 1 << 20;
	unsigned char *buf = malloc(len);
	unsigned hits[256] = {0};

	(void)state;
	assert_non_null(buf);
	penstock_pattern_fill(buf, len, 99, 0);
	for (size_t i = 0; i < len; i++)
		hits[buf[i]]++;
	for (int i = 0; i < 256; i++)
		assert_in_range(hits[i], 3700, 4500);
	free(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_generator_is_xoshiro256_starstar),
		cmocka_unit_test(the_seeds_are_made_by_splitmix64),
		cmocka_unit_test(one_seed_is_one_stream),
		cmocka_unit_test(below_stays_below_and_meets_everything),
		cmocka_unit_test(any_range_is_a_piece_of_the_whole),
		cmocka_unit_test(the_first_wrong_byte_is_found),
		cmocka_unit_test(offsets_beyond_4_gib_are_their_own),
		cmocka_unit_test(blocks_that_changed_places_do_not_look_right),
		cmocka_unit_test(the_pattern_uses_all_byte_values_evenly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
