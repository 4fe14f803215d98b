/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_BLOCKDEV_H
#define PENSTOCK_FILE_BLOCKDEV_H

#include <stddef.h>

#include <penstock/probe.h>

/*
 * What sysfs says about the block device @major:@minor; of a partition, about
 * the whole disk.  What the kernel does not say stays 0 or empty.  Returns 0,
 * or -ENODEV when there is no such device (a file system without one has major
 * 0) or no sysfs.
 */
int penstock_blockdev_load(struct penstock_blockdev *out, unsigned major, unsigned minor);

/*
 * Will cuFile take files of the file system @fs on @major:@minor?  It asks udev
 * what the device carries, and refuses when udev has no record of it.  Returns
 * 0, or -ENODATA with the reason and the cure in @why.
 */
int penstock_blockdev_udev(char *why, size_t size, unsigned major, unsigned minor, const char *fs);

#endif
