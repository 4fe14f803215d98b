/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of Python's random module; expected values are what CPython 3.11 prints. */
#include "load/model/mt.h"

#include "base/util.h"
#include "tests/common/t.h"

static struct mt m;

static void a_seed_gives_the_words_of_python(void)
{
	mt_seed(&m, 0);
	T_EQ(mt_next(&m), 3626764237u);
	T_EQ(mt_next(&m), 1654615998u);
	mt_seed(&m, 42);
	T_EQ(mt_next(&m), 2746317213u);
	for (int i = 1; i < 1999; i++)
		mt_next(&m);
	T_EQ(mt_next(&m), 1557724698u);
}

static void a_seed_of_more_than_32_bits_has_two_digits(void)
{
	mt_seed(&m, 12345678901234567ull);
	T_EQ(mt_next(&m), 416727885u);
}

static void fractions_are_those_of_random(void)
{
	mt_seed(&m, 7);
	T_OK(mt_random(&m) == 0.32383276483316237);
	T_OK(mt_random(&m) == 0.15084917392450192);
	T_OK(mt_random(&m) == 0.6509344730398537);
}

static void whole_numbers_are_those_of_randrange(void)
{
	static const uint64_t n[] = {
		1, 2, 3, 1000, 1ull << 32, 1ull << 33, 1000000000000000000,
	};
	static const uint64_t want[] = {
		0, 0, 1, 666, 207388624, 4699252753, 66868206600558685,
	};

	mt_seed(&m, 7);
	for (size_t i = 0; i < ARRAY_SIZE(n); i++)
		T_EQ(mt_below(&m, n[i]), want[i]);
	T_EQ(mt_below(&m, 0), 0);
}

static void ranges_are_those_of_randint(void)
{
	mt_seed(&m, 7);
	T_EQ(mt_int(&m, 5, 5), 5);
	T_EQ(mt_int(&m, -3, 3), -2);
	T_EQ(mt_int(&m, 512, 4096), 2129);
	T_EQ(mt_int(&m, -1000000000000, 1000000000000), -894125042608);
	T_EQ(mt_int(&m, 9, 3), 9);
}

static void ranges_of_fractions_are_those_of_uniform(void)
{
	mt_seed(&m, 7);
	T_OK(mt_uniform(&m, 0.1, 0.5) == 0.22953310593326495);
	T_OK(mt_uniform(&m, -1, 1) == -0.6983016521509962);
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(a_seed_gives_the_words_of_python),
		T_CASE(a_seed_of_more_than_32_bits_has_two_digits),
		T_CASE(fractions_are_those_of_random),
		T_CASE(whole_numbers_are_those_of_randrange),
		T_CASE(ranges_are_those_of_randint),
		T_CASE(ranges_of_fractions_are_those_of_uniform),
	};
	const struct t_group group = {"mt", NULL, NULL, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
