/* SPDX-License-Identifier: Apache-2.0 */
/* Files that grow: what is reserved, what is given back. */
#include <fcntl.h>

#include "file/backing.h"
#include "tests/common/t.h"

static struct penstock_growth *list;
static struct penstock_backing backing;

static void setup(void)
{
	struct penstock_err err = {0, ""};

	T_ERR(penstock_backing_open(&backing, t_path("file"), O_RDWR | O_CREAT | O_TRUNC, 0644,
				    PENSTOCK_DIRECT_NEVER, &err),
	      0, &err);
	backing.growth = penstock_growth_get(&list, backing.dev, backing.ino);
	T_OK(backing.growth);
}

static void teardown(void)
{
	penstock_growth_put(&list, backing.growth);
	penstock_backing_close(&backing);
	unlink(t_path("file"));
}

static void put(uint64_t off, uint64_t len)
{
	unsigned char *p = calloc(1, len);

	T_OK(p);
	T_EQ(pwrite(backing.fd, p, len, (off_t)off), len);
	free(p);
}

static int64_t size(void)
{
	return penstock_backing_size(&backing);
}

static void a_write_inside_the_file_needs_nothing(void)
{
	bool reserved = true;

	put(0, 10000);
	T_EQ(penstock_growth_begin_write(&backing, 0, 10000, &reserved), 0);
	T_OK(!reserved);
	T_EQ(penstock_growth_begin_write(&backing, 5000, 0, &reserved), 0);
	T_EQ(penstock_growth_begin_write(&backing, 50000, 0, &reserved), 0);
	T_EQ(size(), 10000);
}

static void a_write_that_extends_is_reserved_and_stays(void)
{
	bool reserved = false;

	T_EQ(penstock_growth_begin_write(&backing, 0, 100001, &reserved), 1);
	if (reserved)
		T_EQ(size(), 100001);
	put(0, 100001);
	penstock_growth_end_write(&backing, 0, 100001, false);
	T_EQ(size(), 100001);
}

static void a_write_that_fails_leaves_its_good_bytes(void)
{
	bool reserved;

	put(0, 5000);
	T_EQ(penstock_growth_begin_write(&backing, 4000, 100000, &reserved), 1);
	put(4000, 3000);
	penstock_growth_end_write(&backing, 4000, 3000, true);
	T_EQ(size(), 7000);
	T_EQ(penstock_growth_begin_write(&backing, 20000, 100000, &reserved), 1);
	penstock_growth_end_write(&backing, 20000, 0, true);
	T_EQ(size(), 7000);
}

static void one_that_fails_does_not_cut_another(void)
{
	bool reserved;

	T_EQ(penstock_growth_begin_write(&backing, 0, 10000, &reserved), 1);
	T_EQ(penstock_growth_begin_write(&backing, 10000, 10000, &reserved), 1);
	T_EQ(penstock_growth_begin_write(&backing, 20000, 10000, &reserved), 1);
	put(10000, 10000);
	penstock_growth_end_write(&backing, 10000, 10000, false);
	penstock_growth_end_write(&backing, 20000, 0, true);
	put(0, 100);
	penstock_growth_end_write(&backing, 0, 100, true);
	T_EQ(size(), 20000);
}

static void inside_the_reach_of_another_is_still_an_extension(void)
{
	bool reserved;

	T_EQ(penstock_growth_begin_write(&backing, 50000, 50000, &reserved), 1);
	T_EQ(penstock_growth_begin_write(&backing, 1000, 1000, &reserved), 1);
	put(1000, 1000);
	penstock_growth_end_write(&backing, 1000, 1000, false);
	penstock_growth_end_write(&backing, 50000, 0, true);
	T_EQ(size(), 2000);
}

/* Some of its bytes may have arrived all the same, behind a gap. */
static void bytes_of_a_failed_write_do_not_keep_the_hole_before_them(void)
{
	bool reserved;

	put(0, 700);
	T_EQ(penstock_growth_begin_write(&backing, 20000, 30000, &reserved), 1);
	put(20000, 100);
	put(30000, 5000);
	penstock_growth_end_write(&backing, 20000, 0, true);
	T_EQ(size(), 700);
}

static void what_others_wrote_in_front_of_a_failed_write_stays(void)
{
	bool reserved;

	put(0, 700);
	T_EQ(penstock_growth_begin_write(&backing, 100000, 30000, &reserved), 1);
	T_EQ(pwrite(backing.fd, "others", 6, 50000), 6);
	penstock_growth_end_write(&backing, 100000, 0, true);
	T_OK(size() >= 50006 && size() <= 100000);
}

static void what_others_appended_is_not_cut(void)
{
	bool reserved;

	T_EQ(penstock_growth_begin_write(&backing, 0, 10000, &reserved), 1);
	put(30000, 1000); /* by another process */
	penstock_growth_end_write(&backing, 0, 0, true);
	T_EQ(size(), 31000);
}

static void one_record_per_inode(void)
{
	struct penstock_growth *a = penstock_growth_get(&list, backing.dev, backing.ino);
	struct penstock_growth *b = penstock_growth_get(&list, backing.dev, backing.ino + 1);

	T_OK(a == backing.growth && b && b != a);
	penstock_growth_put(&list, a);
	penstock_growth_put(&list, b);
	T_OK(list == backing.growth && !list->next);
	penstock_growth_put(&list, NULL);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(a_write_inside_the_file_needs_nothing),
		T_CASE(a_write_that_extends_is_reserved_and_stays),
		T_CASE(a_write_that_fails_leaves_its_good_bytes),
		T_CASE(one_that_fails_does_not_cut_another),
		T_CASE(inside_the_reach_of_another_is_still_an_extension),
		T_CASE(bytes_of_a_failed_write_do_not_keep_the_hole_before_them),
		T_CASE(what_others_wrote_in_front_of_a_failed_write_stays),
		T_CASE(what_others_appended_is_not_cut),
		T_CASE(one_record_per_inode),
	};
	static const struct t_group group = {"growth", setup, teardown, cases, T_COUNT(cases)};

	t_dir();
	return t_run(&group, 1, NULL);
}
