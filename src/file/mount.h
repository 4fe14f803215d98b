/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_MOUNT_H
#define PENSTOCK_FILE_MOUNT_H

#include <stdint.h>

struct penstock_mount {
	char fs[32];      /* "ext4", "fuse.sshfs" */
	char point[256];  /* where it is mounted */
	char source[256]; /* "/dev/nvme0n1p2", "server:/export" */
};

/* The mount with this id (statx's stx_mnt_id).  Returns 0, -ENOENT, or -errno without /proc. */
int penstock_mount_find(struct penstock_mount *out, uint64_t id);

/* One line of /proc/self/mountinfo.  Returns 0 or -EINVAL. */
int penstock_mount_parse(struct penstock_mount *out, uint64_t *ret_id, const char *line);

#endif
