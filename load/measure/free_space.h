/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_FREE_SPACE_H
#define PENSTOCK_MEASURE_FREE_SPACE_H

/* How much room there is for files that are made in a folder. */
#include <stdint.h>
#include <sys/types.h>

#include <penstock/penstock.h>

/*
 * Bytes free below @path, and the device they are on; of a folder whose files are striped those of
 * the members, and the first of their devices.  0, or -errno.
 */
int free_space_get(const char *path, uint64_t *ret, dev_t *ret_dev, struct penstock_err *err);

#endif
