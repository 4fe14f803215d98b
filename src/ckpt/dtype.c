/* SPDX-License-Identifier: Apache-2.0 */
/* The element types of safetensors. */
#include <sluice/ckpt.h>

#include <errno.h>
#include <string.h>

#include "base/util.h"

/* clang-format off */
static const struct {
	const char *name;
	unsigned bits;
} dtypes[] = {
	[SLUICE_BOOL] = {"BOOL", 8},
	[SLUICE_F4] = {"F4", 4},
	[SLUICE_F6_E2M3] = {"F6_E2M3", 6},
	[SLUICE_F6_E3M2] = {"F6_E3M2", 6},
	[SLUICE_U8] = {"U8", 8},
	[SLUICE_I8] = {"I8", 8},
	[SLUICE_F8_E5M2] = {"F8_E5M2", 8},
	[SLUICE_F8_E4M3] = {"F8_E4M3", 8},
	[SLUICE_F8_E8M0] = {"F8_E8M0", 8},
	[SLUICE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
	[SLUICE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
	[SLUICE_I16] = {"I16", 16},
	[SLUICE_U16] = {"U16", 16},
	[SLUICE_F16] = {"F16", 16},
	[SLUICE_BF16] = {"BF16", 16},
	[SLUICE_I32] = {"I32", 32},
	[SLUICE_U32] = {"U32", 32},
	[SLUICE_F32] = {"F32", 32},
	[SLUICE_C64] = {"C64", 64},
	[SLUICE_F64] = {"F64", 64},
	[SLUICE_I64] = {"I64", 64},
	[SLUICE_U64] = {"U64", 64},
};
/* clang-format on */

const char *sluice_dtype_name(unsigned dtype)
{
	return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].name : NULL;
}

int sluice_dtype_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(dtypes); i++)
		if (!strcmp(dtypes[i].name, name))
			return (int)i;
	return -ENOENT;
}

unsigned sluice_dtype_bits(unsigned dtype)
{
	return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].bits : 0;
}
