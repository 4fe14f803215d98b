/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_UTF8_H
#define PENSTOCK_BASE_UTF8_H

/* Characters as bytes, by RFC 3629. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes a character has that begins with this one; 0: none does. */
unsigned penstock_utf8_expected_len(unsigned char c);

/*
 * Bytes of the character at @text, of which @left are there or a NUL ends it; 0: it is none, or a
 * NUL.  No overlong forms, no surrogates, nothing beyond Unicode.
 */
unsigned penstock_utf8_len(const char *text, size_t left);

/* Are these @len bytes characters, none of them a NUL? */
bool penstock_utf8_valid(const char *text, size_t len);

/* Up to four bytes for @c; returns where the next one goes. */
char *penstock_utf8_put(char *to, uint32_t c);

#endif
