/* SPDX-License-Identifier: Apache-2.0 */
/* The element types of safetensors. */
#include <penstock/ckpt.h>

#include <errno.h>
#include <string.h>

#include "base/util.h"

/* clang-format off */
static const struct {
	const char *name;
	unsigned bits;
} dtypes[] = {
	[PENSTOCK_BOOL] = {"BOOL", 8},
	[PENSTOCK_F4] = {"F4", 4},
	[PENSTOCK_F6_E2M3] = {"F6_E2M3", 6},
	[PENSTOCK_F6_E3M2] = {"F6_E3M2", 6},
	[PENSTOCK_U8] = {"U8", 8},
	[PENSTOCK_I8] = {"I8", 8},
	[PENSTOCK_F8_E5M2] = {"F8_E5M2", 8},
	[PENSTOCK_F8_E4M3] = {"F8_E4M3", 8},
	[PENSTOCK_F8_E8M0] = {"F8_E8M0", 8},
	[PENSTOCK_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
	[PENSTOCK_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
	[PENSTOCK_I16] = {"I16", 16},
	[PENSTOCK_U16] = {"U16", 16},
	[PENSTOCK_F16] = {"F16", 16},
	[PENSTOCK_BF16] = {"BF16", 16},
	[PENSTOCK_I32] = {"I32", 32},
	[PENSTOCK_U32] = {"U32", 32},
	[PENSTOCK_F32] = {"F32", 32},
	[PENSTOCK_C64] = {"C64", 64},
	[PENSTOCK_F64] = {"F64", 64},
	[PENSTOCK_I64] = {"I64", 64},
	[PENSTOCK_U64] = {"U64", 64},
};
/* clang-format on */

const char *penstock_dtype_name(unsigned dtype)
{
	return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].name : NULL;
}

int penstock_dtype_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(dtypes); i++)
		if (!strcmp(dtypes[i].name, name))
			return (int)i;
	return -ENOENT;
}

unsigned penstock_dtype_bits(unsigned dtype)
{
	return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].bits : 0;
}
