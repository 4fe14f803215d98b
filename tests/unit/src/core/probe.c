/* SPDX-License-Identifier: Apache-2.0 */
/* What a path and this machine can do.  Includes the source to reach the older kernels' way. */
#include <setjmp.h>
#include <stdarg.h>

#include "core/probe.c"

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "probe-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char file[96];

	(void)state;
	snprintf(file, sizeof(file), "%s/f", dir);
	unlink(file);
	return rmdir(dir);
}

static int make_file(size_t len)
{
	char file[96];
	int fd;
	CLEANUP_FREE char *bytes = calloc(1, len + 1);

	snprintf(file, sizeof(file), "%s/f", dir);
	fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_non_null(bytes);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

static void alignment_is_a_power_of_two_and_works(void **state)
{
	int fd = make_file(8192);
	uint32_t mem = 0, off = 0;
	const char *from = NULL;
	int r = penstock_direct_align_find(fd, &mem, &off, &from);

	(void)state;
	close(fd);
	if (r == -EOPNOTSUPP)
		skip();
	assert_int_equal(r, 0);
	assert_true(is_pow2(mem) && is_pow2(off));
	assert_true(!strcmp(from, "statx") || !strcmp(from, "block device") ||
		    !strcmp(from, "page size"));
	assert_int_equal(penstock_direct_align_find(-1, &mem, &off, &from), -EBADF);
}

static void a_device_number_leads_to_the_whole_disk(void **state)
{
	struct penstock_blockdev b;
	unsigned maj, min, seen = 0;
	struct dirent *e;
	DIR *d = opendir("/sys/dev/block");

	(void)state;
	while (d && (e = readdir(d))) {
		char text[300];

		if (sscanf(e->d_name, "%u:%u", &maj, &min) != 2)
			continue;
		seen++;
		assert_int_equal(penstock_blockdev_load(&b, maj, min), 0);
		assert_true(b.name[0]);
		assert_true(is_pow2(b.logical_block));
		assert_true(b.physical_block >= b.logical_block);
		snprintf(text, sizeof(text), "/sys/block/%s", b.name);
		assert_int_equal(access(text, F_OK), 0);
	}
	if (d)
		closedir(d);
	assert_int_equal(penstock_blockdev_load(&b, 0, 5), -ENODEV);
	assert_int_equal(penstock_blockdev_load(&b, 4095, 1048575), -ENODEV);
	if (!seen)
		skip();
}

static void what_was_written_is_in_the_page_cache(void **state)
{
	int fd = make_file(1 << 20);
	int64_t n = penstock_probe_resident(fd, 0, UINT64_MAX);

	(void)state;
	if (n == -EOPNOTSUPP || n == -ENOSYS)
		skip();
	assert_int_equal(n, 1 << 20);
	assert_int_equal(penstock_probe_resident(fd, 4096, 4096), 4096);
	assert_int_equal(penstock_probe_resident(fd, (1 << 20) - 100, 4096), 100);
	assert_int_equal(penstock_probe_resident(fd, 1 << 20, 4096), 0);
	assert_int_equal(penstock_probe_resident(fd, UINT64_MAX, UINT64_MAX), 0);
	assert_int_equal(penstock_probe_resident(fd, 0, 0), 0);
	assert_int_equal(penstock_probe_resident(-1, 0, 1), -EBADF);
	close(fd);
}

static void both_ways_of_looking_agree(void **state)
{
	int fd = make_file(1 << 20);
	int64_t all, dropped = cachestat_pages(fd, 0, 1 << 20);

	(void)state;
	all = mincore_pages(fd, 0, 1 << 20, 4096);
	if (sysconf(_SC_PAGESIZE) != 4096)
		skip();
	assert_int_equal(all, 256);
	assert_int_equal(mincore_pages(fd, 5000, 4096, 4096), 2);
	if (dropped != -ENOSYS && dropped != -EPERM)
		assert_int_equal(dropped, 256);
	/* Not all file systems can drop a page (tmpfs), but both must say the same. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 512 << 10, POSIX_FADV_DONTNEED);
	if (dropped == 256)
		assert_int_equal(mincore_pages(fd, 0, 1 << 20, 4096),
				 cachestat_pages(fd, 0, 1 << 20));
	close(fd);
}

static void a_directory_is_described_and_left_empty(void **state)
{
	struct penstock_path_info p = {.size = sizeof(p)};
	struct penstock_err err;

	(void)state;
	assert_int_equal(penstock_probe_path(dir, &p, &err), 0);
	assert_true(p.is_dir && !p.is_device);
	assert_true(p.fs_bytes >= p.free_bytes);
	/* O_DIRECT works, or there is a reason */
	assert_true(p.direct ? p.offset_align && p.align_from[0] && !p.direct_why[0]
			     : p.direct_why[0] != 0);
	assert_true(p.has_device ? p.device.name[0] != 0 : 1);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
}

static void a_file_has_a_size_and_a_cache_state(void **state)
{
	struct penstock_path_info p = {.size = sizeof(p)};
	struct penstock_err err;
	char file[96];

	(void)state;
	close(make_file(12345));
	snprintf(file, sizeof(file), "%s/f", dir);
	assert_int_equal(penstock_probe_path(file, &p, &err), 0);
	assert_int_equal(p.file_bytes, 12345);
	assert_true(p.resident_why[0] || p.resident_bytes <= p.file_bytes);
}

static void what_cannot_be_examined_is_refused(void **state)
{
	struct penstock_path_info p = {.size = sizeof(p), .fs = "untouched"};
	struct penstock_err err;

	(void)state;
	assert_int_equal(penstock_probe_path("/no/such/path", &p, &err), -ENOENT);
	assert_string_equal(err.msg, "/no/such/path: No such file or directory");
	assert_int_equal(penstock_probe_path("/dev/null", &p, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "/dev/null: is a character device"));
	assert_int_equal(penstock_probe_path("", &p, NULL), -ENOENT);
	assert_string_equal(p.fs, "untouched");
	p.size = 0;
	assert_int_equal(penstock_probe_path(dir, &p, &err), -EINVAL);
}

/* A program built against an older or a newer header. */
static void structs_of_other_sizes_are_respected(void **state)
{
	struct {
		struct penstock_path_info p;
		char behind[64];
	} s;
	struct penstock_gpu_info g;

	(void)state;
	memset(&s, 0x55, sizeof(s));
	s.p.size = offsetof(struct penstock_path_info, fs);
	assert_int_equal(penstock_probe_path(dir, &s.p, NULL), 0);
	assert_int_equal(s.p.fs[0], 0x55);
	s.p.size = sizeof(s);
	assert_int_equal(penstock_probe_path(dir, &s.p, NULL), 0);
	assert_int_equal(s.p.size, sizeof(s));
	assert_int_equal(s.behind[0], 0);
	assert_int_equal(s.behind[63], 0);

	memset(&g, 0x55, sizeof(g));
	g.size = offsetof(struct penstock_gpu_info, device0);
	assert_int_equal(penstock_probe_gpu(&g), 0);
	assert_int_equal(g.device0[0], 0x55);
	g.size = 0;
	assert_int_equal(penstock_probe_gpu(&g), -EINVAL);
}

static void a_missing_gpu_has_a_reason(void **state)
{
	struct penstock_gpu_info g = {.size = sizeof(g)};

	(void)state;
	assert_int_equal(penstock_probe_gpu(&g), 0);
	assert_true(g.cuda ? !g.cuda_why[0] : g.cuda_why[0] != 0);
	assert_true(g.cufile ? !g.cufile_why[0] : g.cufile_why[0] != 0);
	assert_true(g.devices == 0 || g.device0[0]);
}

static void a_missing_udev_record_has_a_cure(void **state)
{
	char why[224];

	(void)state;
	assert_int_equal(penstock_blockdev_udev(why, sizeof(why), 4095, 7, "ext4"), -ENODATA);
	assert_non_null(strstr(why, "/run/udev/data/b4095:7 is missing"));
	assert_non_null(strstr(why, "5027"));
	assert_non_null(strstr(why, "E:ID_FS_TYPE=ext4"));
	assert_int_equal(penstock_blockdev_udev(why, sizeof(why), 0, 7, "tmpfs"), -ENODATA);
	assert_non_null(strstr(why, "tmpfs has no block device"));
}

static void offers_of_the_kernel_are_tried_and_end(void **state)
{
	struct penstock_kernel_offer o = {.size = sizeof(o)}, again = o;
	unsigned n = 0;

	(void)state;
	for (; penstock_probe_kernel(n, ".", &o) == 0; n++) {
		assert_true(o.name[0] && o.since[0] && o.found <= 1);
		assert_int_equal(penstock_probe_kernel(n, "/nowhere", &again), 0);
		assert_int_equal(again.found, o.of_path ? 0 : o.found);
	}
	assert_true(n >= 8);
	assert_int_equal(penstock_probe_kernel(n, NULL, &o), -ENOENT);
	o.size = 0;
	assert_int_equal(penstock_probe_kernel(0, NULL, &o), -EINVAL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
	const struct CMUnitTest tests[] = {
		TEST(alignment_is_a_power_of_two_and_works),
		TEST(a_device_number_leads_to_the_whole_disk),
		TEST(what_was_written_is_in_the_page_cache),
		TEST(both_ways_of_looking_agree),
		TEST(a_directory_is_described_and_left_empty),
		TEST(a_file_has_a_size_and_a_cache_state),
		TEST(what_cannot_be_examined_is_refused),
		TEST(structs_of_other_sizes_are_respected),
		TEST(a_missing_gpu_has_a_reason),
		TEST(a_missing_udev_record_has_a_cure),
		TEST(offers_of_the_kernel_are_tried_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
