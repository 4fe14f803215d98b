/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_ROOM_H
#define SLUICE_MEASURE_ROOM_H

/* How much room there is for files that are made in a folder. */
#include <stdint.h>
#include <sys/types.h>

#include <sluice/sluice.h>

/*
 * Bytes free below @path, and the device they are on; of a folder whose files are striped those of
 * the members, and the first of their devices.  0, or -errno.
 */
int room_free(const char *path, uint64_t *ret, dev_t *ret_dev, struct sluice_err *err);

#endif
