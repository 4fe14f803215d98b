/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/self/mountinfo. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "file/mount.h"
#include "file/statx.h"

static void a_line_gives_type_point_and_source(void **state)
{
	struct penstock_mount m;
	uint64_t id;

	(void)state;
	assert_int_equal(penstock_mount_parse(&m, &id,
					      "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 "
					      "/dev/root rw,errors=continue\n"),
			 0);
	assert_int_equal(id, 36);
	assert_string_equal(m.point, "/mnt2");
	assert_string_equal(m.fs, "ext3");
	assert_string_equal(m.source, "/dev/root");
}

static void optional_fields_may_be_none_or_many(void **state)
{
	struct penstock_mount m;
	uint64_t id;

	(void)state;
	assert_int_equal(
		penstock_mount_parse(&m, &id, "1 0 0:1 / / rw - fuse.sshfs me@host:/x rw\n"), 0);
	assert_string_equal(m.fs, "fuse.sshfs");
	assert_string_equal(m.source, "me@host:/x");
	assert_int_equal(
		penstock_mount_parse(&m, &id,
				     "2 0 0:1 / /a rw shared:1 master:2 unbindable - xfs b rw\n"),
		0);
	assert_string_equal(m.fs, "xfs");
	assert_string_equal(m.point, "/a");
}

static void escapes_are_undone(void **state)
{
	struct penstock_mount m;
	uint64_t id;

	(void)state;
	assert_int_equal(penstock_mount_parse(&m, &id,
					      "9 0 8:1 / /my\\040disk\\134x\\01 rw - ext4 "
					      "/dev/a\\011b rw\n"),
			 0);
	assert_string_equal(m.point, "/my disk\\x\\01");
	assert_string_equal(m.source, "/dev/a\tb");
}

static void long_names_are_cut_not_overrun(void **state)
{
	char line[2048], name[1001];
	struct penstock_mount m;
	uint64_t id;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	snprintf(line, sizeof(line), "5 0 8:1 / /%s rw - %s /dev/sda rw", name, name);
	assert_int_equal(penstock_mount_parse(&m, &id, line), 0);
	assert_int_equal(strlen(m.point), sizeof(m.point) - 1);
	assert_int_equal(strlen(m.fs), sizeof(m.fs) - 1);
	assert_string_equal(m.source, "/dev/sda");
}

static void half_a_line_is_refused(void **state)
{
	static const char whole[] = "36 35 98:0 / /mnt2 rw - ext3 /dev/root rw";
	struct penstock_mount m;
	uint64_t id;

	(void)state;
	for (size_t len = 0; len < strlen("36 35 98:0 / /mnt2 rw - ext3 "); len++) {
		char line[64];

		snprintf(line, sizeof(line), "%.*s", (int)len, whole);
		assert_int_equal(penstock_mount_parse(&m, &id, line), -EINVAL);
	}
}

static void the_root_is_found(void **state)
{
	struct penstock_mount m;
	struct penstock_statx x;

	(void)state;
	assert_int_equal(penstock_statx(AT_FDCWD, "/", 0, &x), 0);
	if (!(x.st.stx_mask & PENSTOCK_STATX_MNT_ID) || access("/proc/self/mountinfo", R_OK) < 0)
		skip();
	assert_int_equal(penstock_mount_find(&m, x.mnt_id), 0);
	assert_string_equal(m.point, "/");
	assert_true(m.fs[0]);
	assert_int_equal(penstock_mount_find(&m, UINT64_MAX), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_gives_type_point_and_source),
		cmocka_unit_test(optional_fields_may_be_none_or_many),
		cmocka_unit_test(escapes_are_undone),
		cmocka_unit_test(long_names_are_cut_not_overrun),
		cmocka_unit_test(half_a_line_is_refused),
		cmocka_unit_test(the_root_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
