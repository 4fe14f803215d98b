/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_OPT_NUMBER_H
#define SLUICE_CLI_OPT_NUMBER_H

/* Numbers as people type them, in the "C" locale whatever the user's is. */
#include <stdint.h>

/* Decimal, with or without a sign.  0, -EINVAL or -ERANGE; *@out is set only on success. */
int cli_int_parse(int64_t *out, const char *s);
/* Decimal, with or without point and exponent; finite.  0 or -EINVAL. */
int cli_dbl_parse(double *out, const char *s);

#endif
