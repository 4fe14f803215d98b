/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int sluice_fail(struct sluice_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

const char *sluice_shorten(struct sluice_short *room, const char *name)
{
	size_t len = strlen(name), keep = sizeof(room->text) - sizeof("...");

	if (len < sizeof(room->text))
		return name;
	snprintf(room->text, sizeof(room->text), "...%s", name + len - keep);
	return room->text;
}

const char *sluice_strerror(int code)
{
	const char *s = strerrordesc_np(code < 0 ? -code : code);

	return s ? s : "unknown error";
}
