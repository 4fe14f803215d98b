/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people type and read them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/size.h"
#include "base/util.h"

static void what_people_type_is_understood(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},
		{"1", 1},
		{"4096", 4096},
		{"007", 7},
		{"512B", 512},
		{"512b", 512},
		{"1K", 1024},
		{"1k", 1024},
		{"64KB", 65536},
		{"64kb", 65536},
		{"64KiB", 65536},
		{"64kib", 65536},
		{"64M", 64u << 20},
		{"1G", 1ull << 30},
		{"3T", 3ull << 40},
		{"1P", 1ull << 50},
		{"1E", 1ull << 60},
		{"1.5G", 3ull << 29},
		{"0.5K", 512},
		{"0.001953125K", 2},
		{"1.0", 1},
		{"0x1000", 4096},
		{"0X10k", 16384},
		{"0xffffffffffffffff", UINT64_MAX},
		{"18446744073709551615", UINT64_MAX},
		{"15E", 15ull << 60},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 12345;

		if (penstock_size_parse(&v, cases[i].text) != 0 || v != cases[i].bytes)
			fail_msg("%s gave %llu", cases[i].text, (unsigned long long)v);
	}
}

static void junk_is_refused(void **state)
{
	static const char *const cases[] = {
		"",     "K",   "B",   "iB",     "-1", "+1",  " 1",  "1 ",   "1 K",
		"1KK",  "1Kx", "1Ki", "1KBB",   "1.", ".5G", "1.5", "1.5B", "1..5G",
		"1,5G", "0x",  "0xg", "0x1.8K", "1Q", "1e3", "ten", "1\n",  "0.0000000001E",
		"1.1K", "NaN", "inf", "0b1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 12345;

		if (penstock_size_parse(&v, cases[i]) != -EINVAL)
			fail_msg("'%s' was not refused", cases[i]);
		assert_true(v == 12345);
	}
}

static void what_does_not_fit_is_refused(void **state)
{
	static const char *const cases[] = {
		"18446744073709551616",    "16E",          "16384P",        "0x10000000000000000",
		"99999999999999999999999", "17179869184G", "15.999999999E", "1e",
	};
	uint64_t v = 12345;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		if (penstock_size_parse(&v, cases[i]) != -ERANGE)
			fail_msg("'%s' was not refused", cases[i]);
	assert_int_equal(penstock_size_parse(&v, cases[5]), -ERANGE);
	assert_true(v == 12345);
	/* a fraction that is not whole bytes; and E is exa, not an exponent */
	assert_int_equal(penstock_size_parse(&v, cases[6]), -EINVAL);
	assert_int_equal(penstock_size_parse(&v, cases[7]), 0);
	assert_true(v == 1ull << 60);
}

static void sizes_are_shown_short(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1, "1 B"},
		{999, "999 B"},
		{1023, "1023 B"},
		{1024, "1 KiB"},
		{1536, "1.5 KiB"},
		{1500, "1.46 KiB"},
		{10 * 1024, "10 KiB"},
		{10 * 1024 + 512, "10.5 KiB"},
		{1000 * 1024, "1000 KiB"},
		{1048575, "1 MiB"},
		{1ull << 30, "1 GiB"},
		{1ull << 40, "1 TiB"},
		{UINT64_MAX, "16 EiB"},
	};
	char buf[PENSTOCK_SIZE_TEXT];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(penstock_size_format(buf, cases[i].bytes), cases[i].text);
}

static void the_exact_form_can_be_typed_again(void **state)
{
	struct penstock_random r;
	char buf[PENSTOCK_SIZE_TEXT];

	(void)state;
	assert_string_equal(penstock_size_exact(buf, 0), "0");
	assert_string_equal(penstock_size_exact(buf, 65536), "64K");
	assert_string_equal(penstock_size_exact(buf, 1536), "1536");
	assert_string_equal(penstock_size_exact(buf, 1ull << 30), "1G");
	assert_string_equal(penstock_size_exact(buf, UINT64_MAX), "18446744073709551615");
	penstock_random_seed(&r, 4);
	for (int i = 0; i < 10000; i++) {
		uint64_t v = penstock_random_next(&r) >> penstock_random_below(&r, 64), back = 0;

		v <<= penstock_random_below(&r, 30);
		assert_int_equal(penstock_size_parse(&back, penstock_size_exact(buf, v)), 0);
		assert_true(v == back);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_people_type_is_understood),
		cmocka_unit_test(junk_is_refused),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(sizes_are_shown_short),
		cmocka_unit_test(the_exact_form_can_be_typed_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
