/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BED_BED_CHECK_H
#define PENSTOCK_BED_BED_CHECK_H

/* What a job would fail at, told before it begins.  Nothing here makes anything. */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

/* Is it a folder, and where @write, can files be made in it?  0 or -EINVAL. */
int bed_check_folder(const char *folder, bool write, struct penstock_err *err);

/* Bytes free there; negative when the file system does not say. */
int64_t bed_free_bytes(const char *folder);

/* So much more in each; those on one file system share its room.  0 or -EINVAL. */
struct bed_need {
	const char *folder;
	uint64_t bytes;
};
int bed_check_space(const struct bed_need *needs, unsigned nr, struct penstock_err *err);

/* Memory for @nr buffers of @len on the host: 0 or -EINVAL. */
int bed_check_memory(uint64_t len, uint64_t nr, struct penstock_err *err);

/* All of the above for folders with @bytes to write in each, none of which is there twice. */
int bed_check_folders(const char *const *folders, unsigned nr, uint64_t bytes,
		      struct penstock_err *err);

#endif
