/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_CRC_AVX512_H
#define PENSTOCK_BASE_CRC_AVX512_H

/*
 * CRCs of reflected values by carry-less multiplication, 256 bytes at a time (AVX-512 with
 * VPCLMULQDQ), for any polynomial: what comes first is folded onto what comes later.
 */
#ifdef __x86_64__
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRC_AVX512_TARGET __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

enum { CRC_FOLD_STEP = 256, CRC_FOLD_MIN = 1024 };

/*
 * A block of 128 bits that is moved @bits on is multiplied by x^bits: its half of the higher
 * powers, which comes first, by x^(bits + 32) and the other by x^(bits - 32), both modulo the
 * polynomial and one to the left, for the product of reflected values comes out one to the right.
 */
struct crc_fold {
	long long first, second;
};

/* Is it worth it, and does the processor know how? */
static inline bool crc_fold_usable(size_t len)
{
	return len >= CRC_FOLD_MIN && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

/* Four blocks moved on, onto @data. */
CRC_AVX512_TARGET static inline __m512i crc_fold_onto(__m512i x, __m512i k, __m512i data)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00),
					 _mm512_clmulepi64_epi128(x, k, 0x11), data, 0x96);
}

CRC_AVX512_TARGET static inline __m512i crc_fold_constants(struct crc_fold f)
{
	return _mm512_broadcast_i32x4(_mm_set_epi64x(f.second, f.first));
}

/*
 * Whole steps of @len bytes, at least one, behind @crc (not complemented), become 64 bytes that
 * stand for them; returns how many bytes that were.
 */
CRC_AVX512_TARGET static inline size_t crc_fold_steps(__m512i *ret, struct crc_fold by2048,
						      struct crc_fold by512, uint32_t crc,
						      const unsigned char *p, size_t len)
{
	__m512i k2048 = crc_fold_constants(by2048), k512 = crc_fold_constants(by512);
	__m512i x0 = _mm512_loadu_si512(p), x1 = _mm512_loadu_si512(p + 64);
	__m512i x2 = _mm512_loadu_si512(p + 128), x3 = _mm512_loadu_si512(p + 192);
	size_t done = CRC_FOLD_STEP;

	x0 = _mm512_xor_si512(x0, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	for (; len - done >= CRC_FOLD_STEP; done += CRC_FOLD_STEP) {
		x0 = crc_fold_onto(x0, k2048, _mm512_loadu_si512(p + done));
		x1 = crc_fold_onto(x1, k2048, _mm512_loadu_si512(p + done + 64));
		x2 = crc_fold_onto(x2, k2048, _mm512_loadu_si512(p + done + 128));
		x3 = crc_fold_onto(x3, k2048, _mm512_loadu_si512(p + done + 192));
	}
	x1 = crc_fold_onto(x0, k512, x1);
	x2 = crc_fold_onto(x1, k512, x2);
	*ret = crc_fold_onto(x2, k512, x3);
	return done;
}

#endif
#endif
