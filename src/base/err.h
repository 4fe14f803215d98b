/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_ERR_H
#define PENSTOCK_BASE_ERR_H

#include <penstock/penstock.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

/*
 * Print one line of explanation into @buf.  Of one that is too long for @size bytes the
 * middle is left out ("open /a/very...name: No space left on device"), never the reason.
 */
void penstock_print_elided(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void penstock_vprint_elided(char *buf, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/*
 * Store @code and one line of explanation in @err (which may be NULL) and
 * return @code: "return penstock_fail(err, -EINVAL, "depth: %u is ...", n);".
 */
int penstock_fail(struct penstock_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* -ECANCELED where somebody has set @stop, which may be NULL; else 0. */
int penstock_check_stop(const atomic_int *stop, struct penstock_err *err);

/*
 * A file's name as it fits into a message: of a long one the end, which tells more
 * than the beginning.  @buf is used where it must be shortened.
 */
struct penstock_short_name {
	char text[256];
};
const char *penstock_shorten_name(struct penstock_short_name *buf, const char *name);

#endif
