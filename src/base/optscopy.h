/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_OPTSCOPY_H
#define PENSTOCK_BASE_OPTSCOPY_H

#include <penstock/penstock.h>

/*
 * Take the fields that the caller knows into @o, of @size bytes, which begins with one; refuse
 * those that only a newer library would know.  @user may be NULL.
 */
int penstock_opts_copy(void *o, uint32_t size, const void *user, struct penstock_err *err);

#endif
