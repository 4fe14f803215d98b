/* SPDX-License-Identifier: Apache-2.0 */
/* Block devices as slabs, on loop devices: what is refused, and what is left on one. */
#include <dlfcn.h>
#include <fcntl.h>

#include "tests/common/flowkit.h"

static struct penstock_err err;

/* A loop device of 64 MiB, which goes with the descriptor; -1: there are none here. */
static int loop_make(char *device, size_t size)
{
	char command[PATH_MAX + 64];
	int fd = -1;
	FILE *f;

	t_file_make(t_path("image"), 0, 0);
	T_EQ(truncate(t_path("image"), (off_t)MIB(64)), 0);
	snprintf(command, sizeof(command), "losetup -f --show '%s' 2>/dev/null", t_path("image"));
	f = popen(command, "r");
	if (!f || !fgets(device, (int)size, f))
		device[0] = '\0';
	if (f)
		pclose(f);
	device[strcspn(device, "\n")] = '\0';
	if (device[0]) {
		fd = open(device, O_RDWR | O_CLOEXEC);
		snprintf(command, sizeof(command), "losetup -d %s", device);
		T_EQ(system(command), 0);
	}
	return fd;
}

static int open_device(const char *device, struct place_opts o)
{
	struct place *p;
	int r;

	o.kind = PLACE_SLAB;
	o.paths = &device;
	o.nr_paths = 1;
	r = place_open(&p, &o, &err);
	return r < 0 ? r : place_close(p, &err);
}

static void a_block_device_is_a_slab_when_nothing_is_on_it(void)
{
	static char image_data[MIB(1)];
	char device[64], name[64] = "ext4 superblock";
	struct place_opts keep = {.keep = true, .kind = PLACE_SLAB}, reuse = {.reuse = true};
	const char *path = device;
	int fd = t_is_root() ? loop_make(device, sizeof(device)) : -1;

	if (fd < 0)
		T_SKIP("root", "no loop devices");
	memset(image_data, 'x', sizeof(image_data));
	T_EQ(pwrite(fd, name, sizeof(name), 1024), sizeof(name));
	fsync(fd);
	T_EQ(open_device(device, reuse), -EEXIST);
	T_STR_HAS(err.msg, device);
	T_EQ(pread(fd, name, sizeof(name), 1024), sizeof(name));
	T_EQ(strcmp(name, "ext4 superblock"), 0);
	memset(name, 0, sizeof(name));
	T_EQ(pwrite(fd, name, sizeof(name), 1024), sizeof(name));
	T_EQ(pwrite(fd, "GPT", 3, (off_t)MIB(64) - 512), 3); /* its copy at the end */
	fsync(fd);
	T_EQ(open_device(device, reuse), -EEXIST);
	T_EQ(pwrite(fd, name, 3, (off_t)MIB(64) - 512), 3);
	fsync(fd);
	/* somebody's data, without a table */
	T_EQ(pwrite(fd, image_data, sizeof(image_data), (off_t)MIB(40)), sizeof(image_data));
	fsync(fd);
	T_EQ(open_device(device, reuse), -EEXIST);
	T_STR_HAS(err.msg, "blkdiscard");
	memset(image_data, 0, sizeof(image_data));
	T_EQ(pwrite(fd, image_data, sizeof(image_data), (off_t)MIB(40)), sizeof(image_data));
	fsync(fd);
	T_EQ(open_device(device, (struct place_opts){.capacity = MIB(65)}), -ENOSPC);
	T_ERR(open_device(device, (struct place_opts){.capacity = MIB(8)}), 0, &err);
	/* all of it; kept, taken over, and used again */
	fk_setup();
	keep.paths = &path;
	keep.nr_paths = 1;
	fk_add(keep, NULL);
	fk_open();
	FK_DO(fk_write(0, 1, "large", MIB(60)), MIB(60));
	FK_DO(fk_write(0, 2, "too-large", MIB(10)), -ENOSPC);
	fk_close();
	fk_setup();
	keep.reuse = true;
	keep.keep = false;
	fk_add(keep, NULL);
	fk_open();
	T_EQ(flow_adopt(fk_flow, 0, 7, "large", 5, content_id("large", 5), &err), 0);
	FK_DO(fk_read(0, 7), MIB(60));
	fk_close();
	T_ERR(open_device(device, (struct place_opts){.keep = false}), 0, &err);
	/* nothing of ours is left where it would be looked for */
	T_EQ(pread(fd, image_data, sizeof(image_data), 0), sizeof(image_data));
	T_OK(!image_data[0] && !memcmp(image_data, image_data + 1, sizeof(image_data) - 1));
	close(fd);
	unlink(t_path("image"));
}

/* What others put on a device on which we once kept something. */
static void a_head_with_anything_around_it_is_not_ours(void)
{
	static const struct {
		const char *bytes;
		unsigned len;
		off_t at;
	} rows[] = {
		{"\x55\xaa", 2, 510},             /* a partition table */
		{"EFI PART", 8, 512},             /* another one */
		{"\x53\xef", 2, 1080},            /* ext4 */
		{"_BHRfS_M", 8, 65600},           /* btrfs */
		{"\x0d\xd0\x01\xc0", 4, 1 << 20}, /* VMFS, behind the head: libblkid knows it */
	};
	struct place_opts keep = {.keep = true}, reuse = {.reuse = true};
	char device[64], was[8];
	int fd = t_is_root() ? loop_make(device, sizeof(device)) : -1;
	void *blkid = dlopen("libblkid.so.1", RTLD_NOW);

	if (fd < 0)
		T_SKIP("root", "no loop devices");
	T_ERR(open_device(device, keep), 0, &err);
	for (unsigned i = 0; i < T_COUNT(rows) - !blkid; i++) {
		T_EQ(pread(fd, was, rows[i].len, rows[i].at), rows[i].len);
		T_EQ(pwrite(fd, rows[i].bytes, rows[i].len, rows[i].at), rows[i].len);
		fsync(fd);
		T_EQ(open_device(device, reuse), -EEXIST);
		T_EQ(open_device(device, keep), -EEXIST);
		T_STR_HAS(err.msg, "clear it");
		T_EQ(pwrite(fd, was, rows[i].len, rows[i].at), rows[i].len);
		fsync(fd);
	}
	T_ERR(open_device(device, reuse), 0, &err);
	close(fd);
	if (blkid)
		dlclose(blkid);
	unlink(t_path("image"));
}

/* Emptied where it is looked at: what is left in between is no reason to refuse it. */
static void a_device_that_was_full_can_be_used_again(void)
{
	struct place_opts o = {.kind = PLACE_SLAB};
	char device[64];
	const char *path = device;
	int fd = t_is_root() ? loop_make(device, sizeof(device)) : -1;

	if (fd < 0)
		T_SKIP("root", "no loop devices");
	o.paths = &path;
	o.nr_paths = 1;
	for (unsigned i = 0; i < 2; i++) {
		fk_setup();
		fk_add(o, NULL);
		fk_open();
		FK_DO(fk_write(0, 1, "large", MIB(60)), MIB(60));
		fk_close();
	}
	close(fd);
	unlink(t_path("image"));
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(a_block_device_is_a_slab_when_nothing_is_on_it),
		T_CASE(a_head_with_anything_around_it_is_not_ours),
		T_CASE(a_device_that_was_full_can_be_used_again),
	};
	static const struct t_group group = {"devices", NULL, fk_teardown, cases, T_COUNT(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
