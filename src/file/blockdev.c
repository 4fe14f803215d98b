/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a device number to what sysfs knows: /sys/dev/block/MAJ:MIN is a link to
 * the device's directory, and a partition's directory is inside its disk's.
 * Everything is optional: virtual disks have no model, old kernels no
 * dma_alignment, stacked devices no hardware queues.
 */
#include "file/blockdev.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/textfile.h"
#include "base/util.h"

static uint32_t queue_u32(const char *dir, const char *name)
{
	uint64_t v = 0;

	penstock_textfile_read_u64(&v, "%s/queue/%s", dir, name);
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* Call @fn for each name in @dir/@sub; returns how many. */
static unsigned each_name(const char *dir, const char *sub, void (*fn)(void *arg, const char *name),
			  void *arg)
{
	char path[320];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	d = opendir(path);
	if (!d)
		return 0;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		if (fn)
			fn(arg, e->d_name);
	}
	closedir(d);
	return n;
}

static void append_name(void *arg, const char *name)
{
	struct penstock_blockdev *b = arg;
	size_t used = strlen(b->backing);

	snprintf(b->backing + used, sizeof(b->backing) - used, "%s%s", used ? " " : "", name);
}

static void load_identity(struct penstock_blockdev *b, const char *dir)
{
	CLEANUP_FREE char *real = realpath(dir, NULL);
	const char *base = real ? strrchr(real, '/') : NULL;
	unsigned major, minor;
	char dev[32];

	if (base)
		snprintf(b->name, sizeof(b->name), "%s", base + 1);
	/* sysfs writes '!' for the '/' in names like cciss/c0d0 */
	for (char *c = b->name; *c; c++)
		if (*c == '!')
			*c = '/';
	if (penstock_textfile_read_line(dev, sizeof(dev), "%s/dev", dir) > 0 &&
	    sscanf(dev, "%u:%u", &major, &minor) == 2) {
		b->major = major;
		b->minor = minor;
	}
	if (penstock_textfile_read_line(b->model, sizeof(b->model), "%s/device/model", dir) <= 0)
		penstock_textfile_read_line(b->model, sizeof(b->model), "%s/dm/name", dir);
	if (penstock_textfile_read_line(b->backing, sizeof(b->backing), "%s/loop/backing_file",
					dir) <= 0)
		each_name(dir, "slaves", append_name, b);
}

/* O_DIRECT ends at the device: some of them are memory, or go through the page cache again. */
static void load_cached(struct penstock_blockdev *b, const char *dir)
{
	uint64_t dio;

	if (!strncmp(b->name, "zram", 4) || !strncmp(b->name, "ram", 3))
		snprintf(b->cached, sizeof(b->cached), "the device is memory");
	else if (penstock_textfile_read_u64(&dio, "%s/loop/dio", dir) == 0 && !dio)
		snprintf(b->cached, sizeof(b->cached), "loop device, its file is cached");
}

static void load_queue(struct penstock_blockdev *b, const char *dir)
{
	uint64_t sectors = 0, dma;

	penstock_textfile_read_selected(b->scheduler, sizeof(b->scheduler), "%s/queue/scheduler",
					dir);
	penstock_textfile_read_line(b->write_cache, sizeof(b->write_cache), "%s/queue/write_cache",
				    dir);
	b->logical_block = queue_u32(dir, "logical_block_size");
	b->physical_block = queue_u32(dir, "physical_block_size");
	b->max_segments = queue_u32(dir, "max_segments");
	b->max_sectors_kb = queue_u32(dir, "max_sectors_kb");
	b->max_hw_sectors_kb = queue_u32(dir, "max_hw_sectors_kb");
	b->nr_requests = queue_u32(dir, "nr_requests");
	b->rotational = queue_u32(dir, "rotational");
	if (penstock_textfile_read_u64(&dma, "%s/queue/dma_alignment", dir) == 0 &&
	    dma < UINT32_MAX)
		b->dma_alignment = (uint32_t)dma + 1;
	b->nr_queues = each_name(dir, "mq", NULL, NULL);
	penstock_textfile_read_u64(&sectors, "%s/size", dir);
	b->bytes = sectors * 512; /* sysfs counts in 512 bytes whatever the block size */
}

static int load_from(struct penstock_blockdev *out, const char *root, unsigned major,
		     unsigned minor)
{
	struct penstock_blockdev b = {.major = major, .minor = minor};
	char dir[256], part[280];

	snprintf(dir, sizeof(dir), "%s/%u:%u", root, major, minor);
	if (major == 0 || access(dir, F_OK) < 0)
		return -ENODEV;
	/* A link, so that ".." is where the partition is and not where the link is. */
	snprintf(part, sizeof(part), "%s/partition", dir);
	if (access(part, F_OK) == 0)
		snprintf(dir, sizeof(dir), "%s/%u:%u/..", root, major, minor);
	load_identity(&b, dir);
	load_queue(&b, dir);
	load_cached(&b, dir);
	*out = b;
	return 0;
}

int penstock_blockdev_load(struct penstock_blockdev *out, unsigned major, unsigned minor)
{
	return load_from(out, "/sys/dev/block", major, minor);
}

static int udev_from(char *why, size_t size, const char *root, unsigned major, unsigned minor,
		     const char *fs)
{
	char path[128], line[256];
	bool usage = false, type = false;
	FILE *f;

	why[0] = 0;
	if (major == 0) {
		snprintf(why, size, "%s has no block device that udev knows", fs);
		return -ENODATA;
	}
	snprintf(path, sizeof(path), "%s/b%u:%u", root, major, minor);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		usage |= !strncmp(line, "E:ID_FS_USAGE=filesystem", 24);
		type |= !strncmp(line, "E:ID_FS_TYPE=", 13);
	}
	if (f)
		fclose(f);
	if (f && usage && type)
		return 0;
	snprintf(why, size,
		 "%s %s: cuFileHandleRegister fails with 5027; cure: run udev, or put the lines "
		 "E:ID_FS_USAGE=filesystem and E:ID_FS_TYPE=%s there",
		 path, f ? "lacks the file system's type" : "is missing", fs);
	return -ENODATA;
}

int penstock_blockdev_udev(char *why, size_t size, unsigned major, unsigned minor, const char *fs)
{
	return udev_from(why, size, "/run/udev/data", major, minor, fs);
}
