/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of content: any range of it, its ratios as zstd and a count of blocks see them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/crc32c.h"
#include "base/gen.h"
#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

#define LEN (16u << 20)

static void fill(uint64_t seed, double dedup, double compress, uint64_t object, void *buf,
		 size_t len)
{
	struct penstock_gen g;

	assert_int_equal(penstock_gen_init(&g, seed, dedup, compress, NULL), 0);
	penstock_gen_fill(&g, object, 0, buf, len);
}

static void all_kernels_make_the_same_words(void **state)
{
	enum { WORDS = 600 };
	unsigned char want[WORDS * 8 + 8], got[WORDS * 8 + 8];
	unsigned last = 0;

	(void)state;
	while (penstock_gen_kernel(last + 1))
		last++;
	assert_string_equal(penstock_gen_kernel(last)->name, "portable");
	for (unsigned k = 0; k < last; k++)
		for (unsigned nr = 0; nr < WORDS; nr += nr < 40 ? 1 : 37) {
			memset(want, 0xee, sizeof(want));
			memset(got, 0xee, sizeof(got));
			penstock_gen_kernel(last)->words(want + nr % 8, nr * 77, nr);
			penstock_gen_kernel(k)->words(got + nr % 8, nr * 77, nr);
			assert_memory_equal(want, got, sizeof(want));
		}
}

/* Files written by one version are verified by the next, on another machine. */
static void the_content_is_the_same_for_ever(void **state)
{
	unsigned char *buf = malloc(1 << 20);

	(void)state;
	assert_non_null(buf);
	fill(1, 1, 1, 2, buf, 1 << 20);
	assert_int_equal(penstock_crc32c(0, buf, 1 << 20), 0xd929e9f0);
	fill(1, 1.5, 2.7, 2, buf, 1 << 20);
	assert_int_equal(penstock_crc32c(0, buf, 1 << 20), 0x11dd805);
	free(buf);
}

static void any_range_is_a_piece_of_the_whole(void **state)
{
	static const double ratios[][2] = {{1, 1}, {2.7, 1}, {1, 2.7}, {1.5, 4}};
	size_t len = 1 << 20;
	unsigned char *whole = malloc(len), *piece = malloc(len);
	uint64_t seed = t_seed();
	struct penstock_random r;

	(void)state;
	assert_true(whole && piece);
	penstock_random_seed(&r, seed);
	for (unsigned i = 0; i < 4 * 200; i++) {
		struct penstock_gen g;
		size_t off = penstock_random_below(&r, len), n = penstock_random_below(&r, 20000);
		unsigned char *p = piece + i % 64;

		assert_int_equal(
			penstock_gen_init(&g, seed, ratios[i / 200][0], ratios[i / 200][1], NULL),
			0);
		if (i % 200 == 0)
			penstock_gen_fill(&g, 5, 0, whole, len);
		n = min_u64(n, len - off);
		p[n] = 0xee;
		penstock_gen_fill(&g, 5, off, p, n);
		assert_memory_equal(p, whole + off, n);
		assert_int_equal(p[n], 0xee);
		assert_int_equal(penstock_gen_check(&g, 5, off, p, n), n);
		if (n) {
			size_t wrong = penstock_random_below(&r, n);

			p[wrong] ^= 1u << penstock_random_below(&r, 8);
			p[n - 1] ^= wrong < n - 1;
			assert_int_equal(penstock_gen_check(&g, 5, off, p, n), wrong);
		}
	}
	free(whole);
	free(piece);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Move the different blocks of @buf to its front, in order; returns their bytes. */
static size_t different_blocks(unsigned char *buf, size_t len)
{
	enum { TABLE = 1 << 14 }; /* blocks by number + 1, with room to spare */
	static uint32_t table[TABLE];
	size_t kept = 0;

	memset(table, 0, sizeof(table));
	for (size_t at = 0; at < len; at += 4096) {
		uint32_t slot = penstock_crc32c(0, buf + at, 4096) % TABLE;

		while (table[slot] && memcmp(buf + 4096u * (table[slot] - 1), buf + at, 4096) != 0)
			slot = (slot + 1) % TABLE;
		if (table[slot])
			continue;
		memmove(buf + kept, buf + at, 4096);
		kept += 4096;
		table[slot] = (uint32_t)(kept / 4096);
	}
	return kept;
}

static void within_2_percent(double got, double want, const char *what)
{
	if (got < want * 0.98 || got > want * 1.02)
		fail_msg("%s: %.4f instead of %.4f", what, got, want);
}

static void check_ratios(double dedup, double compress)
{
	size_t len = T_ASAN ? LEN / 4 : LEN, room = ZSTD_compressBound(len), left, packed;
	unsigned char *buf = malloc(len), *out = malloc(room);
	char what[80];

	assert_true(buf && out);
	fill(3, dedup, compress, 1, buf, len);
	left = different_blocks(buf, len);
	snprintf(what, sizeof(what), "dedup %g, compress %g: dedup", dedup, compress);
	within_2_percent((double)len / (double)left, dedup, what);
	for (int level = 1; level <= 3; level++) {
		packed = ZSTD_compress(out, room, buf, left, level);
		assert_false(ZSTD_isError(packed));
		snprintf(what, sizeof(what), "dedup %g, compress %g: zstd -%d", dedup, compress,
			 level);
		within_2_percent((double)left / (double)packed, compress, what);
	}
	free(buf);
	free(out);
}

static void zstd_and_a_count_of_blocks_confirm_the_ratios(void **state)
{
	static const double ratios[][2] = {
		{1, 1},     {1, 1.05},  {1, 1.5},   {1, 2},   {1, 2.7}, {1, 4}, {1, 8},
		{1, 16},    {1.1, 1},   {1.5, 1},   {2, 1},   {2.7, 1}, {4, 1}, {20, 1},
		{1.5, 1.5}, {2.7, 2.7}, {1.5, 4.0}, {4, 1.5}, {2, 2},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ratios); i++)
		check_ratios(ratios[i][0], ratios[i][1]);
}

/* What a cache or a file system that compresses small records would see. */
static void every_64_kib_can_be_compressed_as_much(void **state)
{
	unsigned char buf[65536], out[70000];
	struct penstock_gen g;
	size_t packed;

	(void)state;
	penstock_gen_init(&g, 3, 1, 2.7, NULL);
	for (uint64_t i = 0; i < 50; i++) {
		penstock_gen_fill(&g, 0, i * sizeof(buf), buf, sizeof(buf));
		packed = ZSTD_compress(out, sizeof(out), buf, sizeof(buf), 1);
		within_2_percent(sizeof(buf) / (double)packed, 2.7, "64 KiB");
	}
}

static void no_word_of_one_object_is_in_another(void **state)
{
	enum { EACH = 4096 };
	uint64_t *words = calloc(8, EACH * 8);

	(void)state;
	assert_non_null(words);
	for (unsigned i = 0; i < 8; i++)
		fill(i / 4, 1, 1, i % 4, words + i * (size_t)EACH, EACH * 8);
	qsort(words, 8 * (size_t)EACH, 8, compare_u64);
	for (size_t i = 1; i < 8 * (size_t)EACH; i++)
		assert_true(words[i] != words[i - 1]);
	free(words);
}

/* Each bit of seed or place changes each bit of the words with a chance of one half. */
static void every_bit_depends_on_every_bit(void **state)
{
	enum { TRIES = 4000 };
	gen_words_fn *words = penstock_gen_kernel(0)->words;

	(void)state;
	for (unsigned in = 0; in < 64; in++) {
		unsigned hits[64] = {0};

		for (uint64_t i = 0; i < TRIES; i++) {
			uint64_t x = (i + 1) * GEN_STEP, a, b;

			words(&a, x, 1);
			words(&b, x ^ 1ull << in, 1);
			for (unsigned out = 0; out < 64; out++)
				hits[out] += (a ^ b) >> out & 1;
		}
		for (unsigned out = 0; out < 64; out++)
			assert_in_range(hits[out], TRIES / 2 - 200, TRIES / 2 + 200);
	}
}

static void ratios_that_cannot_be_are_refused(void **state)
{
	static const double bad[] = {0.99, -1, 1001, 1e300};
	struct penstock_gen *g = NULL;
	struct penstock_err err;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(penstock_gen_open(&g, 1, bad[i], 1, &err), -EINVAL);
	assert_string_equal(err.msg, "dedup: 1e+300 is outside 1..1000");
	assert_int_equal(penstock_gen_open(&g, 1, 1, 16.1, &err), -EINVAL);
	assert_string_equal(err.msg, "compress: 16.1 is outside 1..16");
	assert_int_equal(penstock_gen_open(&g, 1, 0.0 / 0.0, 1, &err), -EINVAL);
	assert_null(g);
	assert_int_equal(penstock_gen_open(&g, 1, 0, 0, &err), 0);
	penstock_gen_close(g);
	penstock_gen_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kernels_make_the_same_words),
		cmocka_unit_test(the_content_is_the_same_for_ever),
		cmocka_unit_test(any_range_is_a_piece_of_the_whole),
		cmocka_unit_test(zstd_and_a_count_of_blocks_confirm_the_ratios),
		cmocka_unit_test(every_64_kib_can_be_compressed_as_much),
		cmocka_unit_test(no_word_of_one_object_is_in_another),
		cmocka_unit_test(every_bit_depends_on_every_bit),
		cmocka_unit_test(ratios_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
