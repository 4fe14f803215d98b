/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32 of zip archives.  Our own, because it must not be slower than a copy: zlib's takes as long
 * as the disk.  By carry-less multiplication 64 bytes are folded at once, as
 * in "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (Gopal et al., 2009), whose
 * constants these are, or 256 where the processor multiplies four at a time
 * (crc_avx512.h); by instructions for it on
 * aarch64; elsewhere by eight tables.
 */
#include <endian.h>
#include <pthread.h>
#include <string.h>

#include <penstock/ckpt.h>

#include "base/crc_aarch64.h"
#include "base/crc_avx512.h"

#define POLY 0xedb88320u /* reflected */

static uint32_t tables[8][256];

static void make_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c & 1 ? c >> 1 ^ POLY : c >> 1;
		tables[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			tables[t][i] = tables[0][tables[t - 1][i] & 0xff] ^ tables[t - 1][i] >> 8;
}

static uint32_t by_tables(uint32_t crc, const uint8_t *buf, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_tables);
	for (; len >= 8; buf += 8, len -= 8) {
		uint32_t a, b;

		memcpy(&a, buf, 4);
		memcpy(&b, buf + 4, 4);
		a = le32toh(a) ^ crc;
		b = le32toh(b);
		crc = tables[7][a & 0xff] ^ tables[6][a >> 8 & 0xff] ^ tables[5][a >> 16 & 0xff] ^
		      tables[4][a >> 24] ^ tables[3][b & 0xff] ^ tables[2][b >> 8 & 0xff] ^
		      tables[1][b >> 16 & 0xff] ^ tables[0][b >> 24];
	}
	while (len--)
		crc = tables[0][(crc ^ *buf++) & 0xff] ^ crc >> 8;
	return crc;
}

#ifdef __x86_64__

#define CLMUL __attribute__((target("sse4.1,pclmul")))

/* @x, moved on by as many bits as the constants in @k say, and added to @next. */
CLMUL static inline __m128i fold(__m128i x, __m128i k, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(x, k, 0x00);
	__m128i high = _mm_clmulepi64_si128(x, k, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

CLMUL static inline __m128i at(const uint8_t *buf)
{
	return _mm_loadu_si128((const void *)buf);
}

/* 128 bits to 64, and to 32 by Barrett's reduction. */
CLMUL static uint32_t reduce(__m128i x, __m128i k)
{
	const __m128i low32 = _mm_setr_epi32(~0, 0, ~0, 0);
	const __m128i k5 = _mm_set_epi64x(0, 0x0163cd6124);
	const __m128i poly = _mm_set_epi64x(0x01f7011641, 0x01db710641);
	__m128i t;

	x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, k, 0x10));
	t = _mm_srli_si128(x, 4);
	x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low32), k5, 0x00), t);
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low32), poly, 0x10);
	t = _mm_clmulepi64_si128(_mm_and_si128(t, low32), poly, 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

/* Whole steps of 256 bytes, at least one, to 64 bytes that stand for them; returns how many. */
CRC_AVX512_TARGET static size_t by_wide(__m128i x[4], uint32_t crc, const uint8_t *buf, size_t len)
{
	static const struct crc_fold by2048 = {0x011542778a, 0x01322d1430};
	static const struct crc_fold by512 = {0x0154442bd4, 0x01c6e41596};
	__m512i y;
	size_t done = crc_fold_steps(&y, by2048, by512, crc, buf, len);

	_mm512_storeu_si512(x, y);
	return done;
}

CLMUL static size_t by_narrow(__m128i x[4], uint32_t crc, const uint8_t *buf)
{
	for (int i = 0; i < 4; i++)
		x[i] = at(buf + 16 * i);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
	return 64;
}

/* @len: at least 64, a multiple of 16 */
CLMUL static uint32_t by_clmul(uint32_t crc, const uint8_t *buf, size_t len)
{
	const __m128i by512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
	const __m128i by128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
	__m128i x[4];
	size_t done = crc_fold_usable(len) ? by_wide(x, crc, buf, len) : by_narrow(x, crc, buf);

	for (buf += done, len -= done; len >= 64; buf += 64, len -= 64)
		for (int i = 0; i < 4; i++)
			x[i] = fold(x[i], by512, at(buf + 16 * i));
	for (int i = 1; i < 4; i++)
		x[0] = fold(x[0], by128, x[i]);
	for (; len >= 16; buf += 16, len -= 16)
		x[0] = fold(x[0], by128, at(buf));
	return reduce(x[0], by128);
}

static size_t by_processor(uint32_t *crc, const uint8_t *buf, size_t len)
{
	size_t n = len & ~(size_t)15;

	if (n < 64 || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
		return 0;
	*crc = by_clmul(*crc, buf, n);
	return n;
}

#elif defined(__aarch64__)

/* Its instructions have this polynomial, too. */
CRC_AARCH64_TARGET static uint32_t by_words(uint32_t crc, const uint8_t *buf, size_t len)
{
	uint64_t word;

	for (; len; buf += 8, len -= 8) {
		memcpy(&word, buf, 8);
		crc = __crc32d(crc, le64toh(word));
	}
	return crc;
}

static size_t by_processor(uint32_t *crc, const uint8_t *buf, size_t len)
{
	size_t n = len & ~(size_t)7;

	if (!crc_aarch64_usable())
		return 0;
	*crc = by_words(*crc, buf, n);
	return n;
}

#else

static size_t by_processor(uint32_t *crc, const uint8_t *buf, size_t len)
{
	(void)crc;
	(void)buf;
	(void)len;
	return 0;
}
#endif

uint32_t penstock_crc32(uint32_t crc, const void *buf, size_t len)
{
	const uint8_t *bytes = buf;
	size_t n;

	crc = ~crc;
	n = by_processor(&crc, bytes, len);
	return ~by_tables(crc, bytes + n, len - n);
}
