/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BASE_OPTSCOPY_H
#define SLUICE_BASE_OPTSCOPY_H

#include <sluice/sluice.h>

/*
 * Take the fields that the caller knows into @o, of @size bytes, which begins with one; refuse
 * those that only a newer library would know.  @user may be NULL.
 */
int sluice_opts_copy(void *o, uint32_t size, const void *user, struct sluice_err *err);

#endif
