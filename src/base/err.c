/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* A byte at which a text may be parted: not within a character. */
static bool starts_character(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

/* What does not fit is left out of the middle: what was done stands first, why it failed last. */
static void elide_middle(char *buf, size_t size, const char *text, size_t len)
{
	size_t head = (size - sizeof("...")) / 2, tail = size - sizeof("...") - head;
	const char *rest = text + len - tail;

	while (head && !starts_character(text[head]))
		head--;
	while (!starts_character(*rest))
		rest++;
	snprintf(buf, size, "%.*s...%s", (int)head, text, rest);
}

void penstock_vprint_elided(char *buf, size_t size, const char *fmt, va_list ap)
{
	va_list again;
	char *text;
	int len;

	va_copy(again, ap);
	len = vsnprintf(buf, size, fmt, ap);
	text = len >= (int)size ? malloc((size_t)len + 1) : NULL;
	if (text) {
		vsnprintf(text, (size_t)len + 1, fmt, again);
		elide_middle(buf, size, text, (size_t)len);
		free(text);
	}
	va_end(again);
}

void penstock_print_elided(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	penstock_vprint_elided(buf, size, fmt, ap);
	va_end(ap);
}

int penstock_fail(struct penstock_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	penstock_vprint_elided(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int penstock_check_stop(const atomic_int *stop, struct penstock_err *err)
{
	return asked_to_stop(stop) ? penstock_fail(err, -ECANCELED, "interrupted") : 0;
}

const char *penstock_shorten_name(struct penstock_short_name *buf, const char *name)
{
	size_t len = strlen(name), keep = sizeof(buf->text) - sizeof("...");

	if (len < sizeof(buf->text))
		return name;
	snprintf(buf->text, sizeof(buf->text), "...%s", name + len - keep);
	return buf->text;
}

const char *penstock_strerror(int code)
{
	const char *s = strerrordesc_np(code < 0 ? -code : code);

	return s ? s : "unknown error";
}
