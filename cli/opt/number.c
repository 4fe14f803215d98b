/* SPDX-License-Identifier: Apache-2.0 */
/* strtod() and friends take blanks, hexadecimal and words; these do not. */
#include "cli/opt/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t sign_len(const char *s)
{
	return s[0] == '-' || s[0] == '+';
}

int cli_int_parse(int64_t *out, const char *s)
{
	const char *digits = s + sign_len(s);
	long long v;

	if (!*digits || digits[strspn(digits, "0123456789")])
		return -EINVAL;
	errno = 0;
	v = strtoll(s, NULL, 10);
	if (errno == ERANGE)
		return -ERANGE;
	*out = v;
	return 0;
}

int cli_dbl_parse(double *out, const char *s)
{
	const char *body = s + sign_len(s);
	char *end;
	double v;

	if (!*body || body[strspn(body, "0123456789.eE+-")])
		return -EINVAL;
	v = strtod(s, &end);
	if (end == s || *end || !isfinite(v))
		return -EINVAL;
	*out = v;
	return 0;
}
