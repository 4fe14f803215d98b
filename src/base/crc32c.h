/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_CRC32C_H
#define PENSTOCK_BASE_CRC32C_H

/* CRC-32C (Castagnoli, as of iSCSI, ext4, RFC 3720): by the processor where it has it. */
#include <stddef.h>
#include <stdint.h>

/* Of what had @crc before (0: of nothing), followed by these bytes. */
uint32_t penstock_crc32c(uint32_t crc, const void *buf, size_t len);

/* Of bytes with @a, followed by @len_b bytes with @b: as if computed in one go. */
uint32_t penstock_crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b);

/* The same by the processor's CRC instruction alone, and without its help: for tests. */
uint32_t penstock_crc32c_instruction(uint32_t crc, const void *buf, size_t len);
uint32_t penstock_crc32c_portable(uint32_t crc, const void *buf, size_t len);

#endif
