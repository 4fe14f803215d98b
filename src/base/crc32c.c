/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C in four ways: the instruction of x86-64 (SSE4.2), that of ARMv8, carry-less
 * multiplication of 64 bytes at a time (AVX-512 with VPCLMULQDQ), and tables.
 *
 * The instruction takes eight bytes in one cycle but gives its result three cycles later, so three
 * neighbouring pieces are computed at once and joined.  Bytes that follow multiply a CRC by a power
 * of x, modulo the polynomial; for pieces of a known length that is one constant, and with the
 * carry-less multiplication of x86-64 it takes a few cycles.  Multiplied four at a time, the bytes
 * themselves can be moved on: what comes first is folded onto what comes later until 16 bytes are
 * left.  Here, on data in the caches, 53 GB/s, against 26 with three pieces, 8 with one and 1.6
 * with tables; on data in memory 19 against 11.
 *
 * Values are bit-reflected: the highest bit is the coefficient of 1, the lowest that of x^31.
 */
#include "base/crc32c.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/crc_aarch64.h"
#include "base/crc_avx512.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2,pclmul")))
#elif defined(__aarch64__)
#define CRC_TARGET CRC_AARCH64_TARGET
#endif

#define POLY 0x82f63b78u
#define ONE  0x80000000u

/* ------------------------------------------------------------------ algebra */

/* a * b modulo the polynomial. */
static uint32_t crc_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = ONE; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b & 1 ? b >> 1 ^ POLY : b >> 1;
	}
	return product;
}

/* x^(8 * bytes). */
static uint32_t crc_power(uint64_t bytes)
{
	uint32_t result = ONE, square = 0x00800000u; /* x^8 */

	for (; bytes; bytes >>= 1) {
		if (bytes & 1)
			result = crc_multiply(result, square);
		square = crc_multiply(square, square);
	}
	return result;
}

uint32_t penstock_crc32c_combine(uint32_t a, uint32_t b, uint64_t len_b)
{
	return crc_multiply(a, crc_power(len_b)) ^ b;
}

/* ------------------------------------------------------------------- tables */

/*
 * An entry is linear in the bits of its index, so that eight constants, the CRCs of the eight
 * bytes with one bit, and k zeros behind them, give a table.
 */
/* clang-format off */
#define BIT(i, b, v) ((i) >> (b) & 1 ? (v) : 0)
#define T1(i, p, q, r, s, t, u, v, w) \
	BIT(i, 0, p) ^ BIT(i, 1, q) ^ BIT(i, 2, r) ^ BIT(i, 3, s) ^ \
	BIT(i, 4, t) ^ BIT(i, 5, u) ^ BIT(i, 6, v) ^ BIT(i, 7, w)
#define T4(i, ...) T1(i, __VA_ARGS__), T1((i) + 1, __VA_ARGS__), T1((i) + 2, __VA_ARGS__), T1((i) + 3, __VA_ARGS__)
#define T16(i, ...) T4(i, __VA_ARGS__), T4((i) + 4, __VA_ARGS__), T4((i) + 8, __VA_ARGS__), T4((i) + 12, __VA_ARGS__)
#define T64(i, ...) T16(i, __VA_ARGS__), T16((i) + 16, __VA_ARGS__), T16((i) + 32, __VA_ARGS__), T16((i) + 48, __VA_ARGS__)
#define TABLE(...) {T64(0, __VA_ARGS__), T64(64, __VA_ARGS__), T64(128, __VA_ARGS__), T64(192, __VA_ARGS__)}

static const uint32_t tables[8][256] = {
	TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
	TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
	TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
	TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
	TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
	TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
	TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
	TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};
/* clang-format on */

static inline uint64_t load_word(const unsigned char *p)
{
	uint64_t w;

	memcpy(&w, p, 8);
	return le64toh(w);
}

uint32_t penstock_crc32c_portable(uint32_t crc, const void *buf, size_t len)
{
	const unsigned char *p = buf;
	uint32_t c = ~crc;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t w = load_word(p) ^ c;

		c = 0;
		for (unsigned i = 0; i < 8; i++, w >>= 8)
			c ^= tables[7 - i][w & 0xff];
	}
	for (; len; len--, p++)
		c = c >> 8 ^ tables[0][(c ^ *p) & 0xff];
	return ~c;
}

/* ------------------------------------------------------------ the processor */

#ifdef CRC_TARGET

/* Three pieces of this many bytes each at once: long ones, then short ones, then the rest. */
enum { LONG = 4096, SHORT = 256 };

#ifdef __x86_64__

/*
 * The product of two reflected values comes out multiplied by x, and the instruction multiplies by
 * x^32 when it reduces: the constants are x^(8 * bytes - 33), for one piece and for two.
 */
static const uint32_t join_long[2] = {0x82f89c77, 0x54a86326};
static const uint32_t join_short[2] = {0xb9e02b86, 0xdd7e3b0c};

CRC_TARGET static inline uint64_t crc_word(uint64_t c, uint64_t word)
{
	return _mm_crc32_u64(c, word);
}

CRC_TARGET static inline uint32_t crc_byte(uint32_t c, unsigned char byte)
{
	return _mm_crc32_u8(c, byte);
}

CRC_TARGET static inline uint64_t crc_join(uint64_t a, uint64_t b, uint64_t c,
					   const uint32_t join[2])
{
	__m128i one = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b),
					   _mm_cvtsi32_si128((int)join[0]), 0);
	__m128i two = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a),
					   _mm_cvtsi32_si128((int)join[1]), 0);

	return c ^ _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(one, two)));
}

static inline bool crc_usable(void)
{
	return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#else

/* x^(8 * bytes), for one piece and for two. */
static const uint32_t join_long[2] = {0x35d73a62, 0x28461564};
static const uint32_t join_short[2] = {0x88e56f72, 0x74c360a4};

CRC_TARGET static inline uint64_t crc_word(uint64_t c, uint64_t word)
{
	return __crc32cd((uint32_t)c, word);
}

CRC_TARGET static inline uint32_t crc_byte(uint32_t c, unsigned char byte)
{
	return __crc32cb(c, byte);
}

static inline uint64_t crc_join(uint64_t a, uint64_t b, uint64_t c, const uint32_t join[2])
{
	return crc_multiply((uint32_t)a, join[1]) ^ crc_multiply((uint32_t)b, join[0]) ^ c;
}

static inline bool crc_usable(void)
{
	return crc_aarch64_usable();
}

#endif

CRC_TARGET static inline uint64_t crc_three(uint64_t c, const unsigned char *p, size_t piece,
					    const uint32_t join[2])
{
	uint64_t d = 0, e = 0;

	for (size_t i = 0; i < piece; i += 8) {
		c = crc_word(c, load_word(p + i));
		d = crc_word(d, load_word(p + piece + i));
		e = crc_word(e, load_word(p + 2 * piece + i));
	}
	return crc_join(c, d, e, join);
}

CRC_TARGET static uint32_t crc_processor(uint32_t crc, const unsigned char *p, size_t len)
{
	uint64_t c = (uint32_t)~crc;

	for (; len >= (size_t)3 * LONG; len -= (size_t)3 * LONG, p += (size_t)3 * LONG)
		c = crc_three(c, p, LONG, join_long);
	for (; len >= (size_t)3 * SHORT; len -= (size_t)3 * SHORT, p += (size_t)3 * SHORT)
		c = crc_three(c, p, SHORT, join_short);
	for (; len >= 8; len -= 8, p += 8)
		c = crc_word(c, load_word(p));
	for (; len; len--, p++)
		c = crc_byte((uint32_t)c, *p);
	return (uint32_t)~c;
}

uint32_t penstock_crc32c_instruction(uint32_t crc, const void *buf, size_t len)
{
	return crc_usable() ? crc_processor(crc, buf, len)
			    : penstock_crc32c_portable(crc, buf, len);
}

#else

uint32_t penstock_crc32c_instruction(uint32_t crc, const void *buf, size_t len)
{
	return penstock_crc32c_portable(crc, buf, len);
}

#endif

/* ------------------------------------------------------------------ folding */

#ifdef CRC_AVX512_TARGET

static const struct crc_fold fold_2048 = {0xdcb17aa4, 0xb9e02b86};
static const struct crc_fold fold_512 = {0x740eef02, 0x9e4addf8};
static const struct crc_fold fold_384 = {0x1c291d04, 0x1d82c63da};
static const struct crc_fold fold_256 = {0x1384aa63a, 0xba4fc28e};
static const struct crc_fold fold_128 = {0xf20c0dfe, 0x14cd00bd6};

CRC_AVX512_TARGET static inline __m128i fold_one(__m128i x, const struct crc_fold *f)
{
	__m128i k = _mm_set_epi64x(f->second, f->first);

	return _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11));
}

/* The four blocks onto the last one, and that as if it were all there was. */
CRC_AVX512_TARGET static inline uint64_t fold_end(__m512i x)
{
	__m128i a = fold_one(_mm512_extracti32x4_epi32(x, 0), &fold_384);
	__m128i b = fold_one(_mm512_extracti32x4_epi32(x, 1), &fold_256);
	__m128i c = fold_one(_mm512_extracti32x4_epi32(x, 2), &fold_128);
	__m128i d = _mm_xor_si128(_mm_xor_si128(a, b),
				  _mm_xor_si128(c, _mm512_extracti32x4_epi32(x, 3)));

	return _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(d)),
			     (uint64_t)_mm_extract_epi64(d, 1));
}

/* Whole steps of @len bytes, at least one; the rest is left to the instruction. */
CRC_AVX512_TARGET static uint32_t crc_fold(uint32_t crc, const unsigned char *p, size_t len)
{
	__m512i x;
	size_t done = crc_fold_steps(&x, fold_2048, fold_512, ~crc, p, len);

	return crc_processor((uint32_t)~fold_end(x), p + done, len - done);
}

uint32_t penstock_crc32c(uint32_t crc, const void *buf, size_t len)
{
	return crc_fold_usable(len) && crc_usable() ? crc_fold(crc, buf, len)
						    : penstock_crc32c_instruction(crc, buf, len);
}

#else

uint32_t penstock_crc32c(uint32_t crc, const void *buf, size_t len)
{
	return penstock_crc32c_instruction(crc, buf, len);
}

#endif
