/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

unsigned penstock_utf8_expected_len(unsigned char c)
{
	return c < 0x80 ? 1 : c < 0xc2 || c > 0xf4 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

unsigned penstock_utf8_len(const char *text, size_t left)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned n = penstock_utf8_expected_len(s[0]);

	if (!s[0] || left < n)
		return 0;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* too long for what it says, a surrogate, beyond U+10FFFF */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

bool penstock_utf8_valid(const char *text, size_t len)
{
	unsigned n;

	for (size_t i = 0; i < len; i += n) {
		n = penstock_utf8_len(text + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

char *penstock_utf8_put(char *to, uint32_t c)
{
	unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};

	*to++ = (char)(first[more] | c >> 6 * more);
	while (more--)
		*to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
	return to;
}
