/* SPDX-License-Identifier: Apache-2.0 */
/* From device numbers to facts, on a sysfs made for the purpose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "file/blockdev.c"

#include <cmocka.h>

#include <ftw.h>
#include <sys/stat.h>

static char root[64];
static char dev_block[96];

/* Write @text to a file under the root, making folders on the way. */
static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *c = path + strlen(root) + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = 0;
		mkdir(path, 0700);
		*c = '/';
	}
	if (!text)
		return;
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void link_to(const char *number, const char *target)
{
	char path[256], to[256];

	snprintf(path, sizeof(path), "%s/%s", dev_block, number);
	snprintf(to, sizeof(to), "../../%s", target);
	assert_int_equal(symlink(to, path), 0);
}

static int setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "sysfs-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(dev_block, sizeof(dev_block), "%s/dev/block", root);
	put("dev/block/", NULL);
	put("devices/nvme0n1/dev", "259:0\n");
	put("devices/nvme0n1/size", "2048\n");
	put("devices/nvme0n1/device/model", "FAST DISK 1TB                 \n");
	put("devices/nvme0n1/queue/scheduler", "[none] mq-deadline kyber\n");
	put("devices/nvme0n1/queue/logical_block_size", "4096\n");
	put("devices/nvme0n1/queue/physical_block_size", "4096\n");
	put("devices/nvme0n1/queue/max_segments", "127\n");
	put("devices/nvme0n1/queue/max_sectors_kb", "512\n");
	put("devices/nvme0n1/queue/max_hw_sectors_kb", "2048\n");
	put("devices/nvme0n1/queue/nr_requests", "1023\n");
	put("devices/nvme0n1/queue/dma_alignment", "3\n");
	put("devices/nvme0n1/queue/rotational", "0\n");
	put("devices/nvme0n1/queue/write_cache", "write back\n");
	put("devices/nvme0n1/mq/0/", NULL);
	put("devices/nvme0n1/mq/1/", NULL);
	put("devices/nvme0n1/mq/2/", NULL);
	put("devices/nvme0n1/nvme0n1p2/partition", "2\n");
	put("devices/nvme0n1/nvme0n1p2/dev", "259:2\n");
	put("devices/nvme0n1/nvme0n1p2/size", "100\n");
	link_to("259:0", "devices/nvme0n1");
	link_to("259:2", "devices/nvme0n1/nvme0n1p2");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void check_disk(const struct penstock_blockdev *b)
{
	assert_string_equal(b->name, "nvme0n1");
	assert_string_equal(b->model, "FAST DISK 1TB");
	assert_string_equal(b->scheduler, "none");
	assert_string_equal(b->write_cache, "write back");
	assert_string_equal(b->backing, "");
	assert_int_equal(b->major, 259);
	assert_int_equal(b->minor, 0);
	assert_int_equal(b->logical_block, 4096);
	assert_int_equal(b->max_segments, 127);
	assert_int_equal(b->max_sectors_kb, 512);
	assert_int_equal(b->max_hw_sectors_kb, 2048);
	assert_int_equal(b->nr_requests, 1023);
	assert_int_equal(b->nr_queues, 3);
	assert_int_equal(b->dma_alignment, 4);
	assert_int_equal(b->rotational, 0);
	assert_int_equal(b->bytes, 1 << 20);
}

static void a_disk_is_itself(void **state)
{
	struct penstock_blockdev b;

	(void)state;
	assert_int_equal(load_from(&b, dev_block, 259, 0), 0);
	check_disk(&b);
}

static void a_partition_is_its_disk(void **state)
{
	struct penstock_blockdev b;

	(void)state;
	assert_int_equal(load_from(&b, dev_block, 259, 2), 0);
	check_disk(&b);
}

static void a_mapped_device_says_what_it_is_made_of(void **state)
{
	struct penstock_blockdev b;

	(void)state;
	put("devices/dm-0/dm/name", "vg-models\n");
	put("devices/dm-0/slaves/nvme0n1p2/", NULL);
	put("devices/dm-0/queue/logical_block_size", "512\n");
	link_to("253:0", "devices/dm-0");
	assert_int_equal(load_from(&b, dev_block, 253, 0), 0);
	assert_string_equal(b.name, "dm-0");
	assert_string_equal(b.model, "vg-models");
	assert_string_equal(b.backing, "nvme0n1p2");
	assert_int_equal(b.logical_block, 512);
	assert_int_equal(b.nr_queues, 0);
	assert_int_equal(b.major, 253);
}

static void a_loop_device_names_its_file(void **state)
{
	struct penstock_blockdev b;

	(void)state;
	put("devices/loop3/loop/backing_file", "/srv/a disk.img\n");
	link_to("7:3", "devices/loop3");
	assert_int_equal(load_from(&b, dev_block, 7, 3), 0);
	assert_string_equal(b.backing, "/srv/a disk.img");
	assert_string_equal(b.scheduler, "");
	assert_int_equal(b.logical_block, 0);
	assert_int_equal(b.dma_alignment, 0);
}

static void odd_contents_do_no_harm(void **state)
{
	char many[4096];
	struct penstock_blockdev b;

	(void)state;
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = 0;
	put("devices/cciss!c0d0/device/model", many);
	put("devices/cciss!c0d0/queue/scheduler", many);
	put("devices/cciss!c0d0/queue/max_segments", "99999999999999\n");
	put("devices/cciss!c0d0/queue/max_sectors_kb", "nonsense\n");
	put("devices/cciss!c0d0/queue/nr_requests", "");
	put("devices/cciss!c0d0/queue/dma_alignment", "18446744073709551615\n");
	put("devices/cciss!c0d0/dev", "x\n");
	for (int i = 0; i < 40; i++) {
		char name[64];

		snprintf(name, sizeof(name), "devices/cciss!c0d0/slaves/device%d/", i);
		put(name, NULL);
	}
	link_to("104:0", "devices/cciss!c0d0");
	assert_int_equal(load_from(&b, dev_block, 104, 0), 0);
	assert_string_equal(b.name, "cciss/c0d0");
	assert_int_equal(strlen(b.model), sizeof(b.model) - 1);
	assert_int_equal(strlen(b.scheduler), sizeof(b.scheduler) - 1);
	assert_true(b.max_segments == UINT32_MAX);
	assert_int_equal(b.max_sectors_kb, 0);
	assert_int_equal(b.nr_requests, 0);
	assert_int_equal(b.dma_alignment, 0);
	assert_true(strlen(b.backing) < sizeof(b.backing));
	assert_int_equal(b.major, 104);
}

static void what_is_not_there_is_enodev(void **state)
{
	struct penstock_blockdev b = {.name = "untouched"};

	(void)state;
	assert_int_equal(load_from(&b, dev_block, 8, 0), -ENODEV);
	assert_int_equal(load_from(&b, dev_block, 0, 44), -ENODEV);
	assert_int_equal(load_from(&b, "/no/such/sysfs", 259, 0), -ENODEV);
	assert_string_equal(b.name, "untouched");
}

static void udev_must_know_usage_and_type(void **state)
{
	char why[224];

	(void)state;
	assert_int_equal(udev_from(why, sizeof(why), root, 259, 2, "ext4"), -ENODATA);
	assert_non_null(strstr(why, "/b259:2 is missing"));
	put("b259:2", "S:disk/by-id/x\nE:ID_FS_USAGE=filesystem\n");
	assert_int_equal(udev_from(why, sizeof(why), root, 259, 2, "ext4"), -ENODATA);
	assert_non_null(strstr(why, "/b259:2 lacks the file system's type"));
	assert_non_null(strstr(why, "E:ID_FS_TYPE=ext4"));
	put("b259:2", "E:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\n");
	assert_int_equal(udev_from(why, sizeof(why), root, 259, 2, "ext4"), 0);
	assert_string_equal(why, "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_disk_is_itself),
		TEST(a_partition_is_its_disk),
		TEST(a_mapped_device_says_what_it_is_made_of),
		TEST(a_loop_device_names_its_file),
		TEST(odd_contents_do_no_harm),
		TEST(what_is_not_there_is_enodev),
		TEST(udev_must_know_usage_and_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
