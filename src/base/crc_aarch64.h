/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_CRC_AARCH64_H
#define PENSTOCK_BASE_CRC_AARCH64_H

/* aarch64 has instructions for both CRCs, in all processors but the first ones. */
#ifdef __aarch64__
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <stdbool.h>
#include <sys/auxv.h>

#ifdef __clang__
#define CRC_AARCH64_TARGET __attribute__((target("crc")))
#else
#define CRC_AARCH64_TARGET __attribute__((target("+crc")))
#endif

static inline bool crc_aarch64_usable(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

#endif
#endif
