/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for I/O. */
#include "mem/area.h"

#include <sys/mman.h>

#include "tests/common/t.h"

static void mapped_memory_is_zero_aligned_and_long_enough(void)
{
	static const uint64_t lens[] = {1, 4096, 4097, MIB(1), MIB(2), MIB(2) + 1, MIB(9)};

	for (unsigned huge = PENSTOCK_HUGE_AUTO; huge <= PENSTOCK_HUGE_NEVER; huge++)
		for (size_t i = 0; i < T_COUNT(lens); i++) {
			struct penstock_area a;
			unsigned char *p;

			memset(&a, 0xff, sizeof(a));
			T_EQ(penstock_area_map(&a, lens[i], huge, 0), 0);
			p = a.addr;
			T_OK(a.len >= lens[i] && a.len % 4096 == 0);
			T_OK((uintptr_t)p % 4096 == 0);
			T_OK(a.page >= 4096);
			T_OK(!a.locked);
			for (size_t k = 0; k < lens[i]; k += 511)
				T_EQ(p[k], 0);
			memset(p, 1, lens[i]);
			if (huge == PENSTOCK_HUGE_NEVER)
				T_OK(!a.huge);
			penstock_area_unmap(&a);
		}
}

static void an_absurd_length_is_no_memory(void)
{
	struct penstock_area a;

	T_EQ(penstock_area_map(&a, UINT64_MAX, PENSTOCK_HUGE_AUTO, 0), -ENOMEM);
	T_EQ(penstock_area_map(&a, UINT64_MAX - 4095, PENSTOCK_HUGE_NEVER, 0), -ENOMEM);
	T_EQ(penstock_area_map(&a, 1ull << 62, PENSTOCK_HUGE_RESERVED, 0), -ENOMEM);
}

/* Whatever the pages, and whether the caller remembers what was asked for or what was given. */
static void the_length_is_enough_to_unmap_all_of_it(void)
{
	static const uint64_t lens[] = {0,          1,      4097,       MIB(1) - 5000, MIB(1) - 1,
					MIB(1) + 1, MIB(2), MIB(2) + 1, MIB(5)};

	for (unsigned i = 0; i < 6 * T_COUNT(lens); i++) {
		uint64_t len = lens[i / 6];
		struct penstock_area a;
		char *p;
		size_t end;

		T_EQ(penstock_area_map(&a, len, i % 3, 0), 0);
		p = a.addr;
		end = a.len < MIB(1) ? a.len : (a.len + MIB(2) - 1) / MIB(2) * MIB(2);
		for (size_t at = 0; at < end; at += 4096)
			T_EQ(msync(p + at, 4096, MS_ASYNC), 0);
		if (i % 6 < 3)
			a.len = len;
		penstock_area_unmap(&a);
		for (size_t at = 0; at < end; at += 4096)
			T_OK(msync(p + at, 4096, MS_ASYNC) < 0 && errno == ENOMEM);
	}
}

static void locked_memory_is_locked_or_says_why(void)
{
	struct penstock_area a;

	T_EQ(penstock_area_map(&a, 65536, PENSTOCK_HUGE_NEVER, PENSTOCK_AREA_LOCK), 0);
	T_OK(a.locked ? a.lock_errno == 0 : a.lock_errno > 0);
	memset(a.addr, 1, 65536);
	penstock_area_unmap(&a);
}

/* Nobody waits for sixteen MiB to be cleared who needs one. */
static void lazy_memory_is_there_where_it_was_touched(void)
{
	static unsigned char there[MIB(16) / 4096];
	struct penstock_area a;

	T_EQ(penstock_area_map(&a, MIB(16), PENSTOCK_HUGE_AUTO, PENSTOCK_AREA_LAZY), 0);
	*(char *)a.addr = 1;
	T_EQ(mincore(a.addr, MIB(16), there), 0);
	T_OK(there[0] & 1);
	T_OK(!(there[(MIB(16) - 1) / (size_t)sysconf(_SC_PAGESIZE)] & 1));
	penstock_area_unmap(&a);
}

static void any_memory_may_be_collapsed_or_not(void)
{
	unsigned char *p =
		mmap(NULL, MIB(6), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	T_OK(p != MAP_FAILED);
	memset(p, 7, MIB(6));
	T_OK(penstock_area_collapse(p, MIB(6)) <= 0);
	T_OK(penstock_area_collapse(p + 5, MIB(5)) <= 0);
	T_OK(penstock_area_collapse(p + 5, 10) <= 0);
	for (size_t i = 0; i < MIB(6); i += 4095)
		T_EQ(p[i], 7);
	munmap(p, MIB(6));
	(void)penstock_area_huge_by_default();
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(mapped_memory_is_zero_aligned_and_long_enough),
		T_CASE(an_absurd_length_is_no_memory),
		T_CASE(the_length_is_enough_to_unmap_all_of_it),
		T_CASE(locked_memory_is_locked_or_says_why),
		T_CASE(lazy_memory_is_there_where_it_was_touched),
		T_CASE(any_memory_may_be_collapsed_or_not),
	};
	static const struct t_group group = {"area", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
